"""A whole way once per kind of index: a corpus is indexed, asked, explained, drawn, edited, queried and verified."""

import html
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands
from small_indexes import Call, Run, printed, record, write_rows

from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest, require_version

CORPUS = [
    record("p1", "Ada Lovelace", "Ada Lovelace was born in London in 1815. She wrote notes on a machine."),
    record("p2", "London", "London lies on the River Thames. It is the capital of England."),
    record("p3", "River Thames", "The River Thames rises at Thames Head in Gloucestershire."),
    record("p4", "Charles Babbage", "Charles Babbage designed the Analytical Engine in London."),
    record("p5", "Paris", "Paris lies on the Seine and is the capital of France."),
]
RIVER = "Which river flows through the birthplace of Ada Lovelace?"
NILE = [
    record("p1", "The Nile", "The Nile flows through Cairo. Cairo is the capital of Egypt."),
    record("p2", "Cairo Tower", "The Cairo Tower stands in Cairo. It was designed by Naoum Shebib."),
    record("p3", "Naoum Shebib", "Naoum Shebib was born in Cairo in 1915."),
    record("p4", "Warsaw", "Warsaw lies on the Vistula. Warsaw is the capital of Poland."),
]
TOWER = "Where was the designer of the Cairo Tower born?"
TINY = ("--index", "tiny")
PROPRAG = ("--index", "nile", "--strategy", "proprag")
QASA = ("--index", "chains", "--strategy", "qasa", "--json")
Published = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def published(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """A folder with three indexes to copy, and the reports of their runs."""
    folder = tmp_path_factory.mktemp("published")
    write_rows(folder / "corpus.jsonl", CORPUS)
    write_rows(folder / "nile.jsonl", NILE)
    run: Call = lambda *words: printed(commands.run(["index", *words], folder, {}))  # noqa: E731
    plain = ("--index", "chains", "--set", "strategies=bm25", "--json")
    beams = ("--index", "nile", "--set", "strategies=bm25,proprag", "--json")
    run("corpus.jsonl", *plain)
    extended = run(*plain, "--add-strategy", "qasa")
    assert (extended["changed"], extended["version"], "extract" in extended["reused"]) == (True, 2, True)
    reports = {"tiny": run("corpus.jsonl", *TINY, "--json"), "nile": run("nile.jsonl", *beams)}
    assert "nothing was extracted or embedded" in commands.run(["index", "corpus.jsonl", *TINY], folder, {}).stdout
    return folder, reports


@pytest.fixture
def run(published: Published, polyhop: Run, tmp_path: Path) -> Run:
    """Commands beside indexes of the test's own."""
    shutil.copytree(published[0], tmp_path, dirs_exist_ok=True)
    return polyhop


@pytest.fixture
def here(published: Published, said: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """What a command in this process prints that only reads the indexes; it must succeed."""
    monkeypatch.chdir(published[0])

    def printed_by(*words: object) -> str:
        ended, out, told = said("", *map(str, words))
        assert ended == 0, told
        return str(out)

    return printed_by


def test_a_corpus_becomes_an_index_that_answers_and_that_sql_reads(here: Call, published: Published) -> None:
    report = published[1]["tiny"]
    assert (report["changed"], report["version"], report["counts"]["passages"]) == (True, 1, 5)
    assert set(report["model"]) == {
        *("calls", "cached", "prompt_tokens", "completion_tokens", "cost_usd", "replaced_counts"),
        *("unknown_calls", "unknown_tokens", "unknown_cost_usd"),
    }
    answer = json.loads(here("ask", RIVER, *TINY, "--limit", 3, "--json"))
    assert (answer["strategy"], [p["rank"] for p in answer["passages"]]) == ("bridge", [1, 2, 3])
    assert {p["id"] for p in answer["passages"]} >= {"p1", "p2"}
    assert answer["evidence"]["links"]
    assert "How the evidence connects" in here("ask", RIVER, *TINY, "--explain")
    query = "SELECT passage_id FROM passages_of_entity WHERE entity = 'London' ORDER BY passage_id"
    assert json.loads(here("sql", query, *TINY, "--json")) == [{"passage_id": p} for p in ("p1", "p2", "p4")]
    query = "SELECT count(*) AS n, min(len(vector)) AS d FROM passage_vectors"
    assert json.loads(here("sql", query, *TINY, "--json")) == [{"n": 5, "d": 384}]


def test_edits_equal_a_full_build_and_the_version_before_is_kept(run: Run, new_polyhop: Run, tmp_path: Path) -> None:
    edited = [*CORPUS[1:3], {**CORPUS[3], "text": "Charles Babbage was born in Walworth."}, CORPUS[4]]
    edited.append(record("p6", "Walworth", "Walworth is a district of London."))
    write_rows(tmp_path / "corpus.jsonl", edited)
    changed = printed(run("index", "corpus.jsonl", *TINY, "--source-name", "corpus", "--json"))
    assert (changed["version"], changed["computed"]["extract"]) == (2, 2)
    (tmp_path / "reversed").mkdir()
    other = write_rows(tmp_path / "reversed" / "corpus.jsonl", edited[::-1])
    printed(new_polyhop("index", other, "--index", "fresh", "--json"))
    layout = Layout(tmp_path / "polyhop-data")
    updated, fresh = (read_manifest(require_version(layout, name)[1]) for name in ("tiny", "fresh"))
    assert (updated.tables, updated.arrays) == (fresh.tables, fresh.arrays)
    rows = printed(run("versions", *TINY, "--json"))
    assert [(row["version"], row["current"], row["passages"]) for row in rows] == [(1, False, 5), (2, True, 5)]
    printed(run("versions", *TINY, "--use", "1", "--json"))
    assert printed(run("ask", RIVER, *TINY, "--json"))["version"] == 1


def test_doctor_finds_a_damaged_array_and_the_command_it_names_repairs_it(run: Run, tmp_path: Path) -> None:
    assert printed(run("doctor", "--json"))["ok"] is True
    array = tmp_path / "polyhop-data/indexes/tiny/versions/000001/graph/bipartite_tf.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"\x7f")
    done = run("doctor", "--json")
    (failed,) = (check for check in json.loads(done.stdout)["checks"] if not check["ok"])
    assert (done.returncode, failed["name"]) == (1, "index tiny")
    told = ("file 'bipartite_tf.npy' has another content", "polyhop verify --index tiny --repair")
    assert [part for part in told if part not in failed["message"]] == []
    assert run("verify", *TINY).returncode == 1
    repaired = run("verify", *TINY, "--repair")
    before, _, after = repaired.stdout.partition("Index 'tiny', version 2:")
    assert (repaired.returncode, "FAIL  arrays" in before, "FAIL" in after) == (0, True, False)
    assert run("verify", *TINY).returncode == 0


def test_a_question_is_answered_over_paths_that_are_shown(here: Call, published: Published, tmp_path: Path) -> None:
    assert {"embed-proposition", "embed-name", "propositions"} <= published[1]["nile"]["seconds"].keys()
    answer = json.loads(here("ask", TOWER, *PROPRAG, "--json"))
    evidence = answer["evidence"]
    assert {row["id"] for row in answer["passages"][:2]} == {"p2", "p3"}
    assert any("Naoum Shebib was born in Cairo" in name for name in evidence["paths"][0]["names"])
    beams = evidence["beams"]
    assert [len(path["connections"]) for beam in beams for path in beam] == [n for n, b in enumerate(beams) for _ in b]
    assert {one["type"] for beam in beams for path in beam for one in path["connections"]} >= {"exact", "synonym"}
    shown = here("ask", TOWER, *PROPRAG, "--explain", "--html", tmp_path / "page.html")
    page = html.unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
    signs = {"exact": "→", "synonym": "≈", "jump": "⇢"}
    in_both = [
        f"{path['nodes'][0]}{signs[path['connections'][0]['type']]}{path['nodes'][1]} {path['score']:.4f}"
        for path in beams[1]
    ]
    in_both += [f"{name} {weight:.3f}" for note in evidence["notes"][:2] for name, weight in note["items"]]
    in_both += [path["text"] for path in evidence["paths"]]
    assert [part for part in in_both if part not in shown or part not in page] == []
    assert [part for part in ("passage states proposition", "Naoum Shebib mentions p") if part not in page] == []


@pytest.mark.rare
def test_texts_of_paths_are_encoded_once_and_change_no_answer_when_they_come_from_the_cache(
    run: Run, tmp_path: Path
) -> None:
    for file in tmp_path.glob("polyhop-data/caches/paths.sqlite*"):  # of tests before this one
        file.unlink()

    def cached() -> Any:
        return printed(run("cache", "stats", "--json"))["paths"]["count"]

    def asked(*more: str) -> Any:
        answer = printed(run("ask", TOWER, *PROPRAG, *more, "--json"))
        return [answer[part] for part in ("passages", "evidence")]

    before, first = cached(), asked()
    count = cached()
    assert count > before
    assert asked() == first
    assert asked("--param", "exact=false") != first
    assert cached() == count


def test_an_index_that_was_extended_for_qasa_answers_with_chains(here: Call) -> None:
    answer = json.loads(here("ask", RIVER, *QASA))
    evidence = answer["evidence"]
    assert [seed["key"] for seed in evidence["seeds"]] == ["ada lovelace"]
    found = {passage["id"] for passage in answer["passages"]}
    assert found & {"p1", "p2", "p5"} == {"p1", "p2"}
    assert any(path["nodes"][:2] == ["ada lovelace", "london"] for path in evidence["paths"])
    assert "Ada Lovelace: Ada Lovelace was born" in evidence["context"]
    without = json.loads(here("ask", RIVER, *QASA, "--param", "steps=0"))
    assert [passage["id"] for passage in without["passages"]] == ["p1"]


@pytest.mark.rare
@pytest.mark.neo4j
def test_a_neo4j_server_that_holds_the_version_gives_the_same_answer(run: Run, neo4j_server: Any) -> None:
    env = {"NEO4J_URI": neo4j_server.uri, "NEO4J_USER": "neo4j", "NEO4J_PASSWORD": neo4j_server.password}
    engine = ("ask", RIVER, *QASA, "--param", "engine=neo4j")
    refused = run(*engine, env=env)
    assert (refused.returncode, "polyhop export neo4j" in refused.stderr) == (1, True)
    exported = printed(run("export", "neo4j", "--index", "chains", "--json", env=env))
    assert (exported["version"], exported["created"] > 0) == (2, True)
    embedded, database = printed(run("ask", RIVER, *QASA)), printed(run(*engine, env=env))
    for name in ("seeds", "paths", "context", "names"):
        assert database["evidence"][name] == _nearly(embedded["evidence"][name])
    assert [p["id"] for p in database["passages"]] == [p["id"] for p in embedded["passages"]]
    nowhere = run(*engine)
    assert (nowhere.returncode, "NEO4J_URI" in nowhere.stderr) == (2, True)
    assert printed(run("verify", "--index", "chains", "--neo4j", "--json", env=env))["stores"]["neo4j"]["ok"]


def _nearly(value: Any) -> Any:
    """The same value, with numbers that may differ by rounding."""
    if isinstance(value, float):
        return pytest.approx(value, abs=1e-4)
    if isinstance(value, dict):
        return {key: _nearly(item) for key, item in value.items()}
    return [_nearly(item) for item in value] if isinstance(value, list) else value


TRIPLES = [["Ada Lovelace", "was born in", "London"], ["Ada Lovelace", "1815"]]
EXTRACTED: list[Any] = [
    {"id": "p1", "entities": ["Ada Lovelace", "London", "'); DROP TABLE entities; --"], "triples": TRIPLES},
    {"id": "p2", "entities": ["London", "River Thames"], "triples": [["London", "lies on", "River Thames"]]},
    {"id": "gone", "entities": [], "triples": []},
    [1, 2],
]


def test_an_imported_extraction_is_indexed_reported_and_asked(polyhop: Run, tmp_path: Path) -> None:
    openie = write_rows(tmp_path / "openie.jsonl", EXTRACTED)
    settings = (f"extraction.extractor=import:{openie}", "strategies=bridge-lexical", "batch_size=2")
    options = [part for setting in settings for part in ("--set", setting)]
    index = ("index", write_rows(tmp_path / "corpus.jsonl", CORPUS[:3]), *TINY, *options, "--json")
    assert printed(polyhop(*index))["version"] == 1

    def rows(query: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in printed(polyhop("sql", query, *TINY, "--json"))]

    ((counts,),) = rows("SELECT counts_json FROM version_stages WHERE stage = 'extract'")
    malformed = ("malformed_rows", "malformed_triples", "malformed_triples_not_three_parts")
    expected = {"extracted_units": 2, **dict.fromkeys((*malformed, "unknown_ids", "without_row"), 1)}
    assert json.loads(counts).items() >= expected.items()
    assert rows("SELECT step, unit_id, state, stand_in FROM extraction_ledger ORDER BY ALL") == [
        ("import", "p1", "done", ""),
        ("import", "p3", "failed", "rules"),
        ("import.row", "line 3", "failed", ""),
        ("import.row", "line 4", "failed", ""),
    ]
    assert rows("SELECT name FROM entities WHERE key = 'drop table entities'") == [("'); DROP TABLE entities; --",)]
    asked = printed(polyhop("ask", RIVER, *TINY, "--strategy", "bridge-lexical", "--json"))
    assert {p["id"] for p in asked["passages"][:2]} == {"p1", "p2"}
    write_rows(openie, EXTRACTED[1:])
    assert printed(polyhop(*index))["version"] == 2
