"""A graph with texts for its nodes, end to end: passages are ranked, and a changed text encodes that text alone."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import SourceError
from polyhop.schemas.records import GraphServer, SourceKind
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings

Run = Callable[..., subprocess.CompletedProcess[str]]

GRAPH = "".join(
    json.dumps(
        {"subject": {"id": s, "name": n, "types": ["Paper"]}, "predicate": "about", "object": {"id": o, "name": o}}
    )
    + "\n"
    for s, n, o in (("p1", "Engines", "steam"), ("p2", "Rivers", "water"), ("p3", "Bridges", "steel"))
)
TEXTS = [
    {"id": "p1", "title": "Engines", "text": "Boilers drive pistons with hot vapour.", "metadata": {"doi": "10/1"}},
    {"id": "p2", "title": "Rivers", "text": "The Danube flows through ten countries."},
    {"id": "p2", "title": "Rivers", "text": "The Rhine rises in the Alps."},
    {"id": "p3", "title": "Bridges", "text": "Cables carry the deck of a suspension bridge."},
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("bm25", "dense", "graph-search"))


def indexed(settings: Settings, graph: Path | None, texts: list[Any] | None = None) -> IndexReport:
    file = None
    if texts is not None:
        file = settings.root.parent / "texts.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in texts), encoding="utf-8")
    kind: SourceKind | None = "graph" if graph is not None else None
    return run_index(settings, IndexRequest("papers", graph, kind=kind, graph_sources=file), DirectRunner())


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.jsonl"
    path.write_text(GRAPH, encoding="utf-8")
    return path


def test_passages_of_nodes_are_ranked_linked_and_kept_up_to_date(settings: Settings, graph: Path) -> None:
    first = indexed(settings, graph, TEXTS)
    assert (first.version, first.counts["documents"], first.counts["passages"]) == (1, 3, 4)
    question = "Which countries does the Danube flow through?"
    with open_index("papers", settings=settings) as index:
        for strategy in ("bm25", "dense"):
            best = index.ask(question, strategy=strategy).passages[0]
            linked = index.sql(
                "SELECT n.node_id, p.title FROM node_passages JOIN nodes AS n USING (entity_id) "
                f"JOIN passages AS p USING (passage_id) WHERE passage_id = '{best['id']}'"
            ).to_pylist()
            assert linked == [{"node_id": "p2", "title": "Rivers"}]
        assert index.session.published.manifest.graph_sources.endswith("texts.jsonl")
    assert run_verify(settings, "papers").ok

    assert indexed(settings, graph, TEXTS[::-1]).changed is False
    changed = indexed(settings, graph, [*TEXTS[:3], {**TEXTS[3], "text": "Arches carry the deck of a stone bridge."}])  # type: ignore[dict-item]
    assert (changed.version, changed.computed["embed-passage"]) == (2, 1)
    assert {"graph", "relations"} <= set(changed.reused)
    edited = GRAPH.replace("steel", "iron")
    graph.write_text(edited, encoding="utf-8")
    other = indexed(settings, graph, [*TEXTS[:3], {**TEXTS[3], "text": "Arches carry the deck of a stone bridge."}])  # type: ignore[dict-item]
    assert other.version == 3
    assert {"lexical-plain", "embed-passage"} <= set(other.reused)
    assert "relations" not in other.reused

    extended = run_index(
        settings, IndexRequest("papers", None, add_strategies=("bm25-rm3",), full=True), DirectRunner()
    )
    assert extended.counts == other.counts
    bare = indexed(settings, graph)
    assert (bare.changed, bare.counts["passages"]) == (True, 0)
    with open_index("papers", settings=settings) as index:
        assert index.sql("FROM node_passages").num_rows == 0
        assert index.session.published.manifest.graph_sources == ""


def test_sources_that_do_not_go_together_are_refused(settings: Settings, graph: Path) -> None:
    server = GraphServer("bolt://127.0.0.1:1")
    with pytest.raises(SourceError, match=r"bolt://127\.0\.0\.1:1 is a graph database, not a corpus"):
        run_index(settings, IndexRequest("papers", server, kind="corpus"), DirectRunner())
    with pytest.raises(SourceError, match="holds texts for the nodes of a knowledge graph"):
        run_index(settings, IndexRequest("papers", graph, kind="corpus", graph_sources=graph), DirectRunner())
    assert IndexRequest("papers", server).stated_kind == "graph"
    assert IndexRequest("papers", graph, graph_sources=graph).stated_kind == "graph"
    assert IndexRequest("papers", graph).stated_kind is None


def test_a_turtle_graph_with_texts_from_the_command_line(polyhop: Run, tmp_path: Path) -> None:
    turtle, texts = tmp_path / "graph.ttl", tmp_path / "texts.csv"
    turtle.write_text(
        "@prefix x: <http://x/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        'x:a a x:Person ; rdfs:label "Ada"@en, "Ada (de)"@de ; x:born 1815 ; x:knows x:b .\nx:b rdfs:label "Bob" .\n'
    )
    texts.write_text("id,title,text\nhttp://x/a,Notes,Ada wrote notes on the engine.\n")
    named = ("--index", "ada", "--set", "strategies=bm25,graph-search")
    built = polyhop("index", "--graph", turtle, "--graph-sources", texts, *named, "--json")
    assert built.returncode == 0, built.stderr
    counts = json.loads(built.stdout)["counts"]
    assert (counts["entities"], counts["relations"], counts["passages"]) == (3, 2, 1)
    query = "SELECT name, types_json, datatype FROM entities JOIN nodes USING (entity_id) ORDER BY name"
    rows = polyhop("sql", query, "--index", "ada", "--json")
    assert json.loads(rows.stdout) == [
        {"name": "1815", "types_json": "[]", "datatype": "http://www.w3.org/2001/XMLSchema#integer"},
        {"name": "Ada", "types_json": '["Person"]', "datatype": None},
        {"name": "Bob", "types_json": "[]", "datatype": None},
    ]
    asked = polyhop("ask", "What did Ada write?", "--index", "ada", "--strategy", "bm25", "--json")
    assert [passage["title"] for passage in json.loads(asked.stdout)["passages"]] == ["Notes"]
    for arguments, code, said in (
        (("--graph", "bolt://ada:secret-1815@127.0.0.1:1"), 2, "set NEO4J_USER and NEO4J_PASSWORD"),
        (("--graph", "bolt://127.0.0.1:1"), 2, "Neo4j needs a password; set NEO4J_PASSWORD.\n"),
        (("--graph", texts), 1, "unknown format"),
        ((turtle,), 1, "is a knowledge graph, not a corpus; name it with --graph"),
        (("--graph-sources", texts), 2, "texts for nodes need their graph"),
    ):
        done = polyhop("index", *arguments, "--index", "other", env={"NEO4J_PASSWORD": ""})
        assert (done.returncode, done.stdout, said in done.stderr) == (code, "", True), done.stderr
        assert "secret-1815" not in done.stderr


def test_texts_need_a_graph(settings: Settings, tmp_path: Path, graph: Path) -> None:
    with pytest.raises(SourceError, match=r"texts\.jsonl holds texts for the nodes .* name the graph, too \(--graph\)"):
        indexed(settings, None, TEXTS)
    request = IndexRequest("papers", graph, kind="graph", graph_sources=tmp_path / "none.jsonl")
    with pytest.raises(SourceError, match=r"no file or folder .*none\.jsonl; check the path"):
        run_index(settings, request, DirectRunner())
