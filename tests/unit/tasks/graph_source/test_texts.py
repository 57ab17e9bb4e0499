"""Texts for a graph's nodes: passages, links, quarantine, and which hashes they change."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyhop.schemas.errors import QuarantineExceededError, SourceError
from polyhop.schemas.settings import CorpusSettings, Settings
from polyhop.schemas.text import node_id, record_id
from polyhop.tasks.graph_source.stage import INGEST_GRAPH
from polyhop.warehouse.build import Build

pytestmark = pytest.mark.slow

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


def test_a_long_text_is_split_and_every_piece_is_linked(ingest: Ingest) -> None:
    build = ingest([{"id": "1", "text": "One sentence. " * 40}], max_passage_characters=200)
    whole = record_id("", "One sentence. " * 40)
    linked = rows(build, "SELECT passage_id FROM node_passages ORDER BY 1")
    assert linked == rows(build, "SELECT passage_id FROM passages ORDER BY 1")
    assert len(linked) == 3
    assert all(str(passage_id).startswith(f"{whole}#") for (passage_id,) in linked)


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


def test_too_many_refused_rows_stop_the_run_however_large_the_graph_is(ingest: Ingest) -> None:
    graph = [{"subject": {"id": str(n)}, "predicate": "p", "object": n} for n in range(100)]
    with pytest.raises(
        QuarantineExceededError, match=r"(?s)1 of 2 records in .*texts\.jsonl .* line 2: the graph has no"
    ):
        ingest([{"id": "1", "text": "a"}, {"id": "x", "text": "b"}], graph=graph)


def test_a_file_without_a_row_is_refused(ingest: Ingest) -> None:
    with pytest.raises(SourceError, match=r"texts\.jsonl is empty"):
        ingest([])


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
