"""A graph's statements as part files, and its nodes' texts."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import QuarantineExceededError, SourceError
from polyhop.schemas.graph import Node, Statement
from polyhop.schemas.settings import CorpusSettings, Settings
from polyhop.schemas.text import entity_id, literal_id, node_id, record_id
from polyhop.tasks.graph_source.stage import INGEST_GRAPH, NODE_PARTS, STATEMENT_PARTS, statement_tables
from polyhop.warehouse.build import Build

ADA = Node("Q1", "Ada Lovelace", ("Person",))
OTHER_ADA = Node("Q2", "Ada  Lovelacé")
YEAR = Node("", "1815", is_literal=True, datatype="year")


def test_descriptions_and_triples_are_counted() -> None:
    tables = statement_tables([Statement(ADA, "Born In", YEAR), Statement(ADA, "Born In", YEAR)])
    year_id = literal_id("Q1", "Born In", "year", "1815")
    assert (tables["nodes"].schema, tables["statements"].schema) == (NODE_PARTS.arrow, STATEMENT_PARTS.arrow)
    assert tables["nodes"].to_pylist() == [
        {
            "entity_id": node_id("Q1"),
            "node_id": "Q1",
            "name": "Ada Lovelace",
            "folded": "ada lovelace",
            "norm_name": "ada lovelace",
            "types": ["Person"],
            "is_literal": None,
            "datatype": None,
            "language": None,
            "preference": "",
            "uses": 2,
        },
        {
            "entity_id": year_id,
            "node_id": None,
            "name": "1815",
            "folded": "1815",
            "norm_name": "1815",
            "types": [],
            "is_literal": True,
            "datatype": "year",
            "language": None,
            "preference": "",
            "uses": 2,
        },
    ]
    assert tables["statements"].to_pylist() == [
        {
            "source_id": node_id("Q1"),
            "target_id": year_id,
            "relation": "Born In",
            "norm_relation": "born in",
            "uses": 2,
        }
    ]


def test_a_name_is_folded_and_normalised_apart_and_its_lack_is_filled_from_the_id() -> None:
    rows = statement_tables([Statement(OTHER_ADA, "p", Node("http://x/Y_z", " "))])["nodes"].to_pylist()
    assert [(row["name"], row["folded"], row["norm_name"], row["uses"]) for row in rows] == [
        ("Ada  Lovelacé", "ada lovelace", "ada lovelacé", 1),
        ("Y z", "y z", "y z", 0),
    ]


def test_ids_of_nodes_literals_and_names_never_meet() -> None:
    assert len({node_id("a"), entity_id("a"), literal_id("a", "p", "", "a"), literal_id("a", "p", "a", "")}) == 4


def test_every_statement_has_a_literal_of_its_own() -> None:
    rows = statement_tables(
        [Statement(subject, predicate, YEAR) for subject in (ADA, OTHER_ADA) for predicate in ("born", "died")]
    )["nodes"].to_pylist()
    assert len({row["entity_id"] for row in rows if row["is_literal"]}) == 4


_NODES = st.builds(Node, st.sampled_from(["a", "b"]), st.sampled_from(["", "A", "B"]), st.just(()))
_STATEMENTS = st.lists(st.builds(Statement, _NODES, st.sampled_from(["p", "P"]), _NODES), max_size=12)


@given(_STATEMENTS, st.randoms())
def test_the_order_of_statements_does_not_matter(statements: list[Statement], random: Random) -> None:
    shuffled = list(statements)
    random.shuffle(shuffled)

    def rows(given: list[Statement]) -> list[list[str]]:
        return [sorted(map(repr, table.to_pylist())) for table in statement_tables(given).values()]

    assert rows(shuffled) == rows(statements)


@given(_STATEMENTS)
def test_no_statement_is_lost(statements: list[Statement]) -> None:
    tables = statement_tables(statements)
    assert sum(tables["statements"].column("uses").to_pylist()) == len(statements)
    named = [node for one in statements for node in (one.subject, one.object) if node.name]
    assert sum(tables["nodes"].column("uses").to_pylist()) == len(named)


GRAPH = [
    {"subject": {"id": "1", "name": "Ada", "types": ["A"]}, "predicate": "knows", "object": {"id": "2", "name": "Bob"}},
    {"subject": {"id": "2", "name": "Bob"}, "predicate": "age", "object": 36},
]
Row = dict[str, object]
Ingest = Callable[..., Build]


@pytest.fixture
def ingest(tmp_path: Path, ingested: Callable[[Build], Build]) -> Ingest:
    """Reads the graph and rows of texts into the tables of a build, which keep what publishing checks."""

    def run(rows: list[Row] | None, *, batch_size: int = 500, graph: list[Row] = GRAPH, **settings: Any) -> Build:  # type: ignore[assignment]
        graph_file, texts = tmp_path / "graph.jsonl", tmp_path / "texts.jsonl"
        graph_file.write_text("".join(json.dumps(line) + "\n" for line in graph), encoding="utf-8")
        texts.write_text("".join(json.dumps(row) + "\n" for row in rows or ()), encoding="utf-8")
        chosen = Settings(root=tmp_path / "root", corpus=CorpusSettings(**settings), batch_size=batch_size)
        build = Build(chosen, "g", graph_file, (), "graph", graph_sources=texts if rows is not None else None)
        return ingested(build)

    return run


def rows(build: Build, query: str) -> list[tuple[object, ...]]:
    with build.tables(read_only=True) as connection:
        return connection.execute(query).fetchall()


def contents(build: Build) -> dict[str, str]:
    assert INGEST_GRAPH.contents is not None
    return dict(INGEST_GRAPH.contents(build))


@pytest.mark.slow
def test_several_texts_of_a_node_and_one_text_of_several_nodes(ingest: Ingest) -> None:
    build = ingest(
        [
            {"id": "1", "title": "Notes", "text": "First note.", "metadata": {"doi": "10/1"}},
            {"id": 1, "title": "Notes", "text": "Second note."},
            {"id": "2", "title": "Notes", "text": "First note.", "year": 1843},
            {"id": "2", "title": "Notes", "text": "First note.", "metadata": {"doi": "10/0"}},
            {"id": "2", "text": "Without a title."},
        ]
    )
    first, second, bare = (
        record_id(*p) for p in (("Notes", "First note."), ("Notes", "Second note."), ("", "Without a title."))
    )
    assert rows(build, "SELECT passage_id, record_id, title, text FROM passages ORDER BY text") == [
        (first, first, "Notes", "First note."),
        (second, second, "Notes", "Second note."),
        (bare, bare, "", "Without a title."),
    ]
    ada, bob = node_id("1"), node_id("2")
    assert rows(build, "FROM node_passages ORDER BY ALL") == sorted(
        [(ada, first, '{"doi": "10/1"}'), (ada, second, "{}"), (bob, first, '{"doi": "10/0"}'), (bob, bare, "{}")]
    )
    assert rows(build, "SELECT title, passage_count FROM documents ORDER BY title") == [("", 1), ("Notes", 2)]
    assert rows(build, "SELECT count(*) FROM relation_sources") == [(0,)]
    counts = build.counts["ingest-graph"]
    assert {name: counts[name] for name in ("texts", "documents", "passages", "quarantined")} == {
        "texts": 5,
        "documents": 2,
        "passages": 3,
        "quarantined": 0,
    }


@pytest.mark.slow
def test_a_long_text_is_split_and_every_piece_is_linked(ingest: Ingest) -> None:
    build = ingest([{"id": "1", "text": "One sentence. " * 40}], max_passage_characters=200)
    whole = record_id("", "One sentence. " * 40)
    linked = rows(build, "SELECT passage_id FROM node_passages ORDER BY 1")
    assert linked == rows(build, "SELECT passage_id FROM passages ORDER BY 1")
    assert len(linked) == 3
    assert all(str(passage_id).startswith(f"{whole}#") for (passage_id,) in linked)


@pytest.mark.slow
def test_rows_of_no_node_and_rows_without_a_text_go_to_the_quarantine(ingest: Ingest) -> None:
    good: list[Row] = [{"id": "1", "text": f"Text {n}."} for n in range(60)]
    shared: Row = {"id": "9", "text": "Text 1."}
    build = ingest(
        [*good, {"id": "Ada", "text": "No such node."}, {"text": "No id."}, shared, {"id": "2"}],
        max_quarantine_share=0.1,
    )
    assert rows(build, "SELECT * EXCLUDE excerpt FROM quarantine ORDER BY line") == [
        ("texts.jsonl", 61, "the graph has no node 'Ada'"),
        ("texts.jsonl", 62, "there is no id of a node: expected a field named id or _id"),
        ("texts.jsonl", 63, "the graph has no node '9'"),
        ("texts.jsonl", 64, "there is no text: expected a field named text, contents or body"),
    ]
    assert rows(build, "SELECT count(*) FROM passages") == [(60,)]
    assert rows(build, "SELECT count(*) FROM passages WHERE text = 'No such node.'") == [(0,)]


@pytest.mark.slow
def test_too_many_refused_rows_stop_the_run_however_large_the_graph_is(ingest: Ingest) -> None:
    graph = [{"subject": {"id": str(n)}, "predicate": "p", "object": n} for n in range(100)]
    with pytest.raises(
        QuarantineExceededError, match=r"(?s)1 of 2 records in .*texts\.jsonl .* line 2: the graph has no"
    ):
        ingest([{"id": "1", "text": "a"}, {"id": "x", "text": "b"}], graph=graph)


@pytest.mark.slow
def test_a_file_without_a_row_is_refused(ingest: Ingest) -> None:
    with pytest.raises(SourceError, match=r"texts\.jsonl is empty"):
        ingest([])


@pytest.mark.slow
def test_texts_change_the_passages_and_the_graph_changes_the_entities(ingest: Ingest) -> None:
    texts: list[Row] = [{"id": "1", "text": "a"}, {"id": "2", "text": "b"}]
    before = contents(ingest(texts))
    assert contents(ingest(texts[::-1], batch_size=1)) == before
    other_text, other_link, other_graph = (
        contents(ingest([texts[0], {"id": "2", "text": "c"}])),
        contents(ingest([{"id": "2", "text": "a"}, {"id": "2", "text": "b"}])),
        contents(ingest(texts, graph=[*GRAPH, GRAPH[0]])),
    )
    assert [one["source"] == before["source"] for one in (other_text, other_link, other_graph)] == [False] * 3
    assert [one["passages"] == before["passages"] for one in (other_text, other_link, other_graph)] == [
        False,
        True,
        True,
    ]
    assert [one["entities"] == before["entities"] for one in (other_text, other_link, other_graph)] == [
        True,
        True,
        False,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "law"),
    [
        ("DELETE FROM entities WHERE name = 'Ada'", "node_passage_without_entity"),
        ("DELETE FROM passages", "node_passage_without_passage"),
        ("DELETE FROM node_passages", "passage_without_node"),
        ("INSERT INTO relation_sources SELECT relation_id, 'a' FROM relations", "relation_with_source"),
        ("DELETE FROM documents", "passage_without_document"),
    ],
)
def test_publishing_refuses_broken_links(ingest: Ingest, broken: str, law: str) -> None:
    build = ingest([{"id": "1", "text": "a"}])
    with build.tables() as connection:
        connection.execute(broken)
        count = connection.execute(INGEST_GRAPH.invariants[law]).fetchone()
    assert count is not None
    assert count[0] > 0
