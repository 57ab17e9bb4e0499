"""The resolution stage on small parts and a real DuckDB."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from one_reply import OneReply

from polyhop.schemas.chat import ChatRequest
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.schemas.tables import TABLES
from polyhop.schemas.text import norm_ws
from polyhop.tasks.corpus.stage import INGEST
from polyhop.tasks.extraction.rows import RAW_MENTIONS, RAW_PROPOSITIONS, RAW_RELATIONS, RAW_TRIPLES
from polyhop.tasks.publish.publish import check_invariants
from polyhop.tasks.raw_rows import raw_rows
from polyhop.tasks.resolution.candidates import NameGroup
from polyhop.tasks.resolution.stage import RESOLVE
from polyhop.tasks.stage import Counts
from polyhop.warehouse.build import Build, start_build

pytestmark = pytest.mark.slow

Mention = tuple[str, str, str, int, bool, str, str | None, str]
EVIL = "Robert'); DROP TABLE entities; -- MATCH (n) DETACH DELETE n"
MENTIONS: list[Mention] = [
    ("p1", "acme", "Acme", 1, True, "[]", "ORGANIZATION", "Acme makes anvils."),
    ("p1", "acme corp", "Acme Corp", 2, False, "[[30,39],[2,11]]", "ORGANIZATION", "Acme Corp is old."),
    ("p1", "ada", "Ada", 1, False, "[[50,53]]", "PERSON", "Ada works there."),
    ("p2", "acme", "ACME", 1, False, "[[0,4]]", "ORGANIZATION", "ACME again."),
    ("p2", "date:1815", "1815", 1, False, "[[9,13]]", "DATE", "In 1815."),
    ("p2", "date:1815 inc", "1815", 1, False, "[[9,13]]", "DATE", "In 1815."),
    ("p2", "louis xiii", "Louis XIII", 1, False, "[[20,30]]", "PERSON", "Louis XIII reigned."),
    ("p2", "king louis xiii", "King Louis XIII", 1, False, "[[40,50]]", "PERSON", ""),
    ("p2", "louis xiii of france", "Louis XIII of France", 1, False, "[[60,80]]", "PERSON", ""),
    ("p2", "evil", EVIL, 1, False, "[[90,99]]", "PERSON", EVIL),
    ("p2", "mystery", "Mystery", 1, False, "[[100,107]]", None, ""),
    ("p2", "the mystery", "The Mystery", 1, False, "[[110,120]]", None, ""),
]
RELATIONS = [
    ("p1", 0, "acme", "is short for", "acme corp"),
    ("p1", 1, "ada", "works at", "acme"),
    ("p1", 2, "ada", "works at", "acme corp"),
]
PROPOSITIONS = [("p1", 0, "Acme is Acme Corp, says Ada.", ["acme", "acme corp", "ada"])]
TRIPLES = [("p1", 0, "Ada runs Acme.", ["ada", "acme"]), ("p1", 1, "Acme is Acme Corp.", ["acme", "acme corp"])]

Rows = Callable[[str], list[tuple[Any, ...]]]


def run(root: Path, relations: Sequence[tuple[object, ...]] = RELATIONS, **resolution: object) -> tuple[Counts, Rows]:
    """Counts of the stage, and a function that asks its tables."""
    chosen = {f"resolution.{name}": value for name, value in resolution.items()}
    build = prepared(parse_settings({"test": {"root": str(root), **chosen}}), relations)
    build = build.with_fingerprint("resolve", RESOLVE.fingerprint(build))
    counts = RESOLVE.finish(build)

    def rows(query: str) -> list[tuple[Any, ...]]:
        with build.tables() as connection:
            return connection.execute(query).fetchall()

    with build.tables() as connection:
        check_invariants(connection, [INGEST, RESOLVE], TABLES)
    return counts, rows


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Counts, Rows]:
    """By rules, without links."""
    return run(tmp_path_factory.mktemp("plain"))


def prepared(settings: Settings, relations: Sequence[tuple[object, ...]] = RELATIONS) -> Build:
    build = Build(settings, "tiny", None, ()).with_fingerprint("extract", "e" * 64)
    build = build.with_results([("passages", "passages", "p" * 64), ("extraction", "extract", "e" * 64)])
    start_build(build)
    with build.tables() as connection:
        connection.execute("INSERT INTO documents VALUES ('d1', 'Acme', 'acme', 's', 'h', 2, '{}')")
        for passage in ("p1", "p2"):
            connection.execute(
                "INSERT INTO passages BY NAME SELECT $id AS passage_id, $id AS record_id, 'd1' AS document_id, "
                "0 AS ordinal, 'Acme' AS title, '' AS text, 0 AS start_offset, 0 AS end_offset, 0 AS token_count, "
                "'h' AS content_hash",
                {"id": passage},
            )
    mentions = [
        (p, key, "rules", surface, tf, is_title, spans, kind, 1.0 if kind else None, None, text)
        for p, key, surface, tf, is_title, spans, kind, text in MENTIONS
    ]
    labels = pa.array([norm_ws(str(row[3])) for row in relations], pa.string())
    raw = {
        "mentions": _table(mentions, RAW_MENTIONS.arrow),
        "relations": _table([(*row, "rules") for row in relations], RAW_RELATIONS.arrow).append_column(
            "norm_relation", labels
        ),
        "propositions": _proposition_table(PROPOSITIONS, "proposition", RAW_PROPOSITIONS.arrow),
        "triples": _proposition_table(TRIPLES, "triple", RAW_TRIPLES.arrow),
    }
    for name, table in raw.items():
        pq.write_table(table, raw_rows(build, name).files[0])
    return build


def _table(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _proposition_table(rows: Sequence[tuple[object, ...]], noun: str, schema: pa.Schema) -> pa.Table:
    ids = pa.array([f"{noun}-{number}" for number in range(1, len(rows) + 1)], pa.string())
    return _table([(*row, "rules") for row in rows], schema).append_column("proposition_id", ids)


def test_triples_have_tables_of_their_own_and_name_resolved_entities(plain: tuple[Counts, Rows]) -> None:
    counts, rows = plain
    assert (counts["propositions"], counts["triples"]) == (1, 2)
    texts = rows("SELECT proposition_id, text, extractor FROM triples ORDER BY 1")
    assert texts == [("triple-1", "Ada runs Acme.", "rules"), ("triple-2", "Acme is Acme Corp.", "rules")]
    assert rows("SELECT * FROM triple_passages ORDER BY 1") == [("triple-1", "p1", 0), ("triple-2", "p1", 1)]
    named = "SELECT t.proposition_id, t.ordinal, e.key FROM triple_entities AS t JOIN entities AS e USING (entity_id)"
    keys = [("triple-1", 0, "ada"), ("triple-1", 1, "acme corp"), ("triple-2", 0, "acme corp")]
    assert rows(f"{named} ORDER BY ALL") == keys
    assert rows("SELECT proposition_id FROM propositions") == [("proposition-1",)]


def test_merged_names_of_one_passage_become_one_mention(plain: tuple[Counts, Rows]) -> None:
    counts, rows = plain
    assert rows("SELECT key, name, type, df, mention_count, description FROM entities WHERE key LIKE 'acme%'") == [
        ("acme corp", "Acme Corp", "ORGANIZATION", 2, 4, "Acme makes anvils. Acme Corp is old.")
    ]
    mentions = "SELECT unit_id, surface, tf, is_title, spans_json FROM mentions JOIN entities USING (entity_id)"
    assert rows(f"{mentions} WHERE key = 'acme corp' ORDER BY 1") == [
        ("p1", "Acme", 3, True, "[[2,11],[30,39]]"),
        ("p2", "ACME", 1, False, "[[0,4]]"),
    ]
    assert (counts["merged_names"], counts["failed_clusters"]) == (1, 0)


def test_self_loops_fall_and_doubled_relations_are_counted(plain: tuple[Counts, Rows]) -> None:
    """G-ER-4, on these names."""
    _, rows = plain
    query = (
        "SELECT s.key, relation, t.key, count FROM relations JOIN entities AS s ON s.entity_id = source_id "
        "JOIN entities AS t ON t.entity_id = target_id"
    )
    assert rows(query) == [("ada", "works at", "acme corp", 2)]
    query = "SELECT key, ordinal FROM proposition_entities JOIN entities USING (entity_id) ORDER BY ordinal"
    assert rows(query) == [("acme corp", 0), ("ada", 1)]
    assert rows("SELECT key FROM entities WHERE is_phrase ORDER BY key") == [("acme corp",), ("ada",)]


def test_golden_rewriting_of_triples(tmp_path: Path) -> None:
    """G-ER-4: the must-link decides which Louis it is; a loop falls, another edge moves."""
    links = tmp_path / "links.csv"
    links.write_text("a,b\nLouis XIII,Louis XIII of France\n")
    louis = [("p2", 0, "louis xiii", "same as", "louis xiii of france"), ("p2", 1, "louis xiii", "king of", "acme")]
    _, rows = run(tmp_path, [*RELATIONS, *louis], links=str(links))
    query = "SELECT s.key, relation FROM relations JOIN entities AS s ON s.entity_id = source_id ORDER BY 1"
    assert rows(query) == [("ada", "works at"), ("louis xiii of france", "king of")]


def test_every_decision_is_an_alias_with_its_reason_and_titles_lead_to_the_entity(plain: tuple[Counts, Rows]) -> None:
    _, rows = plain
    query = (
        "SELECT alias_key, scope, key, ambiguous, reason FROM aliases LEFT JOIN entities USING (entity_id) "
        "WHERE kind = 'er' ORDER BY 1"
    )
    several = "several longer forms fit 'louis xiii': 'king louis xiii', 'louis xiii of france'"
    assert rows(query) == [
        ("acme", "ORGANIZATION", "acme corp", False, "'acme corp' only adds corp to 'acme'"),
        ("louis xiii", "PERSON", None, True, several),
    ]
    query = "SELECT alias_key, key FROM aliases JOIN entities USING (entity_id) WHERE kind = 'title'"
    assert rows(query) == [("acme", "acme corp")]


def test_off_leaves_names_alone_and_follows_links_all_the_same(tmp_path: Path) -> None:
    counts, rows = run(tmp_path / "off", method="off")
    assert counts["merged_names"] == 0
    assert rows("SELECT kind FROM aliases") == [("title",)]
    links = tmp_path / "links.csv"
    links.write_text("a,b\nAda,Acme\n")
    counts, rows = run(tmp_path / "linked", method="off", links=str(links))
    assert counts["merged_names"] == 1
    reason = "must-link 'ada' = 'acme' (links.csv line 2)"
    found = rows("SELECT alias_key, reason FROM aliases WHERE kind = 'manual' ORDER BY 1")
    assert found == [("acme", reason), ("ada", reason)]


def test_the_fingerprint_sees_method_identity_and_link_files(tmp_path: Path) -> None:
    links = tmp_path / "links.csv"
    seen = set()
    for content, flags in (
        ("a,b\n", {}),
        ("a,b\n", {"resolution.method": "off"}),
        ("a,b\n", {"resolution.identity": "name_type"}),
        ("a,b\nX,Y\n", {}),
    ):
        links.write_text(content)
        settings = {"root": str(tmp_path), "resolution.links": str(links), **flags}
        seen.add(RESOLVE.fingerprint(prepared(parse_settings({"test": settings}))))
    assert len(seen) == 4


def test_the_outcome_of_a_model_tells_a_retry_that_succeeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = parse_settings({"test": {"root": str(tmp_path), "resolution.method": "model"}})
    outcomes = []
    for fails in (True, False, False):
        _scripted(monkeypatch, fails=fails)
        build = prepared(settings)
        build = build.with_fingerprint("resolve", RESOLVE.fingerprint(build))
        RESOLVE.finish(build)
        assert RESOLVE.outcome is not None
        outcomes.append(RESOLVE.outcome(build))
    assert outcomes[0] != outcomes[1] == outcomes[2]


def test_the_model_method_needs_a_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No model is configured"):
        run(tmp_path, method="model")


def merge(request: ChatRequest[Any]) -> dict[str, object]:
    """Whatever it is asked about is one."""
    names = [json.loads(line)["name"] for line in dict(request.inputs)["names"].splitlines()]
    return {"groups": [NameGroup(canonical_name=names[0], members=[*names, "Foreign"], description=f"All: {EVIL}")]}


def _scripted(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> OneReply:
    model = OneReply("ReplyRefusedError" if fails else merge)
    monkeypatch.setattr("polyhop.warehouse.open_models.open_chat", lambda settings, role: model)
    monkeypatch.setattr("polyhop.warehouse.open_models.model_name", lambda models, role: model.model)
    return model


def test_a_model_decides_and_its_words_are_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _scripted(monkeypatch, fails=False)
    counts, rows = run(tmp_path, method="model")
    assert (counts["clusters"], counts["merged_names"], counts["failed_clusters"]) == (2, 3, 0)
    assert rows("SELECT key, description FROM entities WHERE key IN ('acme', 'king louis xiii') ORDER BY 1") == [
        ("acme", f"All: {EVIL}"),
        ("king louis xiii", f"All: {EVIL}"),
    ]
    assert rows("SELECT name FROM entities WHERE key = 'evil'") == [(EVIL,)]
    assert "Acme makes anvils." in "".join(request.text for request in model.requests)
    assert (counts["prompt_tokens"], counts["completion_tokens"]) == (30 * 2, 2 * 2)


def test_failed_clusters_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: tuple[Counts, Rows]
) -> None:
    """What a failure took may grow with every retry, and a retry in vain is to change nothing."""
    _scripted(monkeypatch, fails=True)
    counts, rows = run(tmp_path, method="model")
    assert (counts["merged_names"], counts["failed_clusters"]) == (0, 2)
    assert (counts["prompt_tokens"], counts["completion_tokens"]) == (0, 0)
    assert "prompt_tokens" not in plain[0]
    assert {reason for (reason,) in rows("SELECT reason FROM aliases WHERE kind = 'er'")} == {
        "the model gave no usable reply (ReplyRefusedError); the next run retries"
    }
