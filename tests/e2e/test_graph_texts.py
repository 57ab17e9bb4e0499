"""A graph with texts for its nodes, end to end: passages are ranked, and a changed text encodes that text alone."""

import json
from pathlib import Path

import pytest

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.flows.verify import run_verify
from polyhop.schemas.corpus import SourceKind
from polyhop.schemas.errors import SourceError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings

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


def indexed(settings: Settings, graph: Path | None, texts: list[dict[str, object]] | None = None) -> IndexReport:
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
    changed = indexed(settings, graph, [*TEXTS[:3], {**TEXTS[3], "text": "Arches carry the deck of a stone bridge."}])
    assert (changed.version, changed.computed["embed-passage"]) == (2, 1)
    assert {"graph", "relations"} <= set(changed.reused)
    edited = GRAPH.replace("steel", "iron")
    graph.write_text(edited, encoding="utf-8")
    other = indexed(settings, graph, [*TEXTS[:3], {**TEXTS[3], "text": "Arches carry the deck of a stone bridge."}])
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


def test_texts_need_a_graph(settings: Settings, tmp_path: Path, graph: Path) -> None:
    with pytest.raises(SourceError, match=r"texts\.jsonl holds texts for the nodes .* name the graph, too \(--graph\)"):
        indexed(settings, None, TEXTS)
    request = IndexRequest("papers", graph, kind="graph", graph_sources=tmp_path / "none.jsonl")
    with pytest.raises(SourceError, match=r"no file or folder .*none\.jsonl; check the path"):
        run_index(settings, request, DirectRunner())
