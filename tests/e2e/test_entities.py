"""Entities as a person meets them: merged names, namesakes told apart, and decisions that hold."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_indexes import Call, indexed, record, write_rows

from polyhop.api import open_index
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.records import EntityEdit
from polyhop.schemas.settings import parse_settings
from polyhop.tasks.resolution.resolve import explain, keys_of
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.tables.query import query_rows
from polyhop.warehouse.tables.version_rows import read_name_records
from polyhop.warehouse.user_files import change_edits

Passages = dict[str, tuple[str, str]]
ZORGON: Passages = {
    "p1": ("Zorgon Corp", "Zorgon Corp is an American company. It was founded in Ulm."),
    "p2": ("Ulm", "Ulm lies on the Danube. The company Zorgon has a plant there."),
}
EDITED: Passages = ZORGON | {"p3": ("Donau", "The Donau is a river in Ulm.")}
MORE: Passages = EDITED | {"p4": ("Danube", "The Danube is a river. Zorgon lies on the Danube.")}
LINKED: Passages = ZORGON | {
    "p3": ("Paris", "Paris is a city in France."),
    "p4": ("Paris, Texas", "Paris, Texas is a city in Lamar County."),
    "p5": ("Danube", "The Danube is a river."),
}
NAMESAKES: Passages = {
    "a1": ("Mercury (planet)", "Mercury is the smallest planet. It orbits the Sun near Venus."),
    "a2": ("Mercury (mythology)", "Mercury is a Roman god. He is the son of Jupiter and Maia."),
    "a3": ("Venus Express", "The probe passed Venus and later Mercury."),
    "a4": ("Maia", "Maia is the mother of Mercury and a lover of Jupiter."),
    "a5": ("Thermometers", "Many thermometers contain Mercury."),
}
MEANT = """
SELECT p.record_id, e.key FROM mentions AS m JOIN entities AS e USING (entity_id)
JOIN passages AS p ON p.passage_id = m.unit_id WHERE e.key LIKE 'mercury%' ORDER BY ALL
"""
TABLES = ("entities", "mentions", "relations", "propositions", "proposition_entities", "aliases", "triple_entities")


def build(root: Path, name: str, passages: Passages, *, full: bool = False, **settings: str) -> None:
    """A run of an index in this process."""
    rows = [record(own, *page) for own, page in passages.items()]
    given = {name.replace("__", "."): value for name, value in settings.items()}
    known = parse_settings({"test": {"root": str(root), "strategies": "bridge-lexical", **given}})
    indexed(known, write_rows(root.parent / "corpus.jsonl", rows), name, source_name="corpus", full=full)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a root of three indexes, and a file of links."""
    folder = tmp_path_factory.mktemp("entities")
    links = folder / "links.csv"
    links.write_text("a,b,same\nBlue Giant,Zorgon Corp,\nUlm,Paris,no\n")
    build(folder / "root", "edited", EDITED)
    build(folder / "root", "linked", LINKED, strategies="bridge-lexical,graph", resolution__links=str(links))
    build(folder / "root", "namesakes", NAMESAKES, resolution__identity="context")
    return folder


@pytest.fixture
def edit(command: Call) -> Call:
    """`polyhop entities edit`: the JSON, or the sentence of a refusal."""

    def run(line: str, *names: str) -> Any:
        done = command(f"entities edit {line} --index edited --json", *names)
        if isinstance(done.exception, PolyhopError):
            return str(done.exception)
        assert done.exception is None, done.exception
        return json.loads(done.stdout)

    return run


@pytest.fixture
def explained(command: Call) -> Call:
    """The JSON of `polyhop entities explain`."""
    line = "entities explain --json --index"
    return lambda a, b, index="linked": json.loads(command(f"{line} {index}", "--", a, b).stdout)


def rows(root: Path, query: str, name: str = "edited") -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in query_rows(Layout(root), name, query).to_pylist()]


def tables(root: Path) -> dict[str, list[tuple[Any, ...]]]:
    return {table: rows(root, f"FROM {table} ORDER BY ALL") for table in TABLES}


def entities(root: Path) -> dict[str, tuple[str, str | None]]:
    return {key: (name, kind) for key, name, kind in rows(root, "SELECT key, name, type FROM entities")}


@pytest.mark.rare
def test_edits_hold_from_the_next_run_on_and_after_edits_of_the_corpus(edit: Call, explained: Call, root: Path) -> None:
    before = tables(root)
    edit("merge Danube Donau")
    edit("split Zorgon", "Zorgon Corp")
    edit("rename", "Zorgon Corp", "Zorgon & Sons")
    edit("retype Ulm organization")
    edit("delete American")
    build(root, "edited", EDITED)
    found, firm = entities(root), "ORGANIZATION"
    assert (found["zorgon corp"], found["zorgon"]) == (("Zorgon & Sons", firm), ("Zorgon", None))
    assert (found["ulm"], found["donau"]) == (("Ulm", firm), ("Donau", "LOCATION"))
    assert {"american", "danube"}.isdisjoint(found)
    why = explained("Danube", "Donau", "edited")
    assert (why["same"], "edits.jsonl line 1" in why["reason"]) == (True, True)
    alias = "SELECT e.key FROM aliases AS a JOIN entities AS e USING (entity_id) WHERE alias_key = 'zorgon sons'"
    assert rows(root, alias) == [("zorgon corp",)]

    build(root, "edited", MORE)
    updated = tables(root)
    build(root, "edited", MORE, full=True)
    assert tables(root) == updated
    assert entities(root)["ulm"] == ("Ulm", "ORGANIZATION")

    for _ in range(5):
        edit("undo 1")
    assert "american" not in entities(root)
    build(root, "edited", EDITED)
    assert tables(root) == before


def test_the_last_decision_counts_and_one_that_cannot_be_is_one_sentence(edit: Call, command: Call, root: Path) -> None:
    assert "has no edits of entities" in command("entities edit list --index edited").stdout
    for line in ("merge Danube Donau", "retype Ulm PERSON", "split Donau Danube", "retype Ulm NONE"):
        edit(line)
    for line, said in (
        ("retype Danuba PERSON", "No passage of 'edited' mentions 'Danuba'"),
        ("retype Ulm PRESON", "'PRESON' is not a type; choose one of EVENT, LOCATION"),
        ("split Ulm ULM", "'Ulm' and 'ULM' have the same key"),
        ("merge Zorgon 'Zorgon Corp'", "'Zorgon' and 'Zorgon Corp' are one entity already"),
        ("rename Donau Ulm", "'Ulm' is the name of another entity"),
        ("undo 3", "Index 'edited' has no edit 3; it has 2 edits."),
        ("rebaptise Ada", "Unknown edit 'rebaptise'; choose one of rename, merge,"),
        ("rename Ada", "'rename' takes 2 arguments, not 1"),
    ):
        assert said in edit(line)
    text = command("entities edit list --index edited").stdout
    assert text == "1  split 'donau' from 'danube'\n2  retype 'ulm' to 'NONE'\n"
    assert len(json.loads(command("entities edit list --index edited --json").stdout)) == 2
    build(root, "edited", EDITED)
    assert entities(root)["ulm"] == ("Ulm", None)


@pytest.mark.parametrize("line", ["{", "[]", '{"edit": "paint", "key": "ulm", "other": "red"}'])
def test_a_broken_file_of_edits_stops_a_run_in_one_sentence(said: Call, root: Path, line: str) -> None:
    (root / "indexes" / "edited" / "edits.jsonl").write_text(line)
    ended, _, told = said("index --index edited --root", root)
    assert (ended, "edits.jsonl line 1: " in told, told.count("\n")) == (2, True, 1)


def test_names_are_explained_and_lead_to_passages(explained: Call, command: Call) -> None:
    one = explained("Zorgon", "Zorgon Corp")
    assert (one["same"], one["reason"]) == (True, "'zorgon corp' only adds corp to 'zorgon'")
    assert explained("Blue Giant", "zorgon")["same"] is True
    assert "cannot-link 'ulm' is not 'paris' (links.csv line 3)" in explained("Paris", "Ulm")["reason"]
    unseen = explained("Danuba", "Ulm")
    assert (unseen["same"], unseen["nearest"]["Danuba"][0]) == (False, "Danube")
    assert explained("'; DROP TABLE entities; --", "Ulm")["same"] is False
    text = command("entities explain --index linked Zorgon", "Zorgon Corp").stdout
    assert text.startswith("Zorgon and Zorgon Corp are one entity: ")
    assert "zorgon -> zorgon corp  (resolution)" in text
    for name in ("Zorgon", "Blue Giant"):
        answer = json.loads(command("ask --index linked --strategy graph --json", f"Where was {name} founded?").stdout)
        assert answer["evidence"]["names"]["matched"] == ["zorgon corp"]
        assert answer["passages"][0]["id"] in {"p1", "p2"}


def test_each_passage_mentions_the_namesake_that_it_means_and_a_question_starts_from_all(root: Path) -> None:
    planet, god = "mercury planet", "mercury mythology"
    meant = [("a1", planet), ("a2", god), ("a3", planet), ("a4", god), ("a5", "mercury")]
    assert rows(root, MEANT, "namesakes") == meant
    with open_index("namesakes", root=root) as opened:
        found = opened.ask("Where is Mercury?", strategy="bridge-lexical")
    assert {passage["id"] for passage in found.passages} >= NAMESAKES.keys()


def test_namesakes_are_explained_and_a_merge_by_hand_joins_them_again(root: Path) -> None:
    asked, layout = ("Mercury (planet)", "Mercury"), Layout(root)
    told = explain(*asked, read_name_records(layout, "namesakes", keys_of(*asked)))
    assert (told.same, "'mercury' is the name of 2 entities" in told.reason) == (False, True)
    merges = [EntityEdit("merge", key, "mercury") for key in ("mercury planet", "mercury mythology")]
    change_edits(layout.index("namesakes"), lambda _: merges)
    build(root, "namesakes", NAMESAKES, resolution__identity="context")
    assert len({key for _, key in rows(root, MEANT, "namesakes")}) == 1


@pytest.mark.rare
@pytest.mark.parametrize("identity", ["name_type", "context"])
def test_an_edit_of_a_corpus_of_namesakes_ends_like_a_fresh_build(tmp_path: Path, identity: str) -> None:
    kept = {own: NAMESAKES[own] for own in ("a1", "a2", "a3")}
    changed = kept | {"a6": ("Jupiter", "Jupiter is the father of Mercury. He loves Maia.")}
    sums = []
    for name, editions in {"edited": (NAMESAKES, changed), "fresh": (changed,)}.items():
        for passages in editions:
            build(tmp_path / "root", name, passages, resolution__identity=identity)
        found = read_manifest(require_version(Layout(tmp_path / "root"), name)[1]).tables
        sums.append({table: record.checksum for table, record in found.items() if table != "version_stages"})
    assert sums[0] == sums[1]
