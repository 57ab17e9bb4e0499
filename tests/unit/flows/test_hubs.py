"""Hubs from a graph or from texts to a published version: what is built, opened, embedded, taken over and refused."""

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_index import RealIndex, write_lines

from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.hub_paths import STORED_HUBS, StoredHubs
from polyhop.schemas.ports import Strategy
from polyhop.schemas.settings import parse_settings
from polyhop.schemas.text import node_id
from polyhop.warehouse.artefacts import vectors_of
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.worker.strategies import registry
from polyhop.worker.strategies.base import DECLARED, Parameters, strategy

pytestmark = pytest.mark.slow


NODES: dict[str, tuple[str, ...]] = {"P1": ("Paper One", "Paper"), "P2": ("Paper Two", "Paper", "Survey")}
NODES |= {"P9": ("Paper Nine", "Paper"), "A1": ("Ada", "Person"), "U1": ("Uni Y",), "F": ("Architecture", "Field")}
"""Name and types by own id."""


def stated(subject: str, predicate: str, value: object) -> dict[str, object]:
    def node(own_id: object) -> object:
        name, *types = NODES.get(str(own_id), (own_id,))
        return {"id": own_id, "name": name, "types": types} if isinstance(own_id, str) else own_id

    return {"subject": node(subject), "predicate": predicate, "object": node(value)}


TRIPLES = [("F", "contains", "P1"), ("P1", "author", "A1"), ("A1", "worksAt", "U1"), ("P1", "cites", "P2")]
ABOUT_P2: list[tuple[str, str, object]] = [("P2", "author", "A1"), ("P2", "hasYear", 2024)]
GRAPH = [stated(*triple) for triple in (*TRIPLES, *ABOUT_P2, ("Elsewhere", "knows", "Nobody"))]


def never_built(*_: object) -> Strategy:
    raise AssertionError


@pytest.fixture(scope="module", autouse=True)
def strategies() -> Iterator[None]:
    """Strategies that need hubs: one with their vectors, one without."""
    needs = {"of-hubs": {"hubs"}, "of-hub-vectors": {"hubs", "vectors:hubpath", "vectors:hubvalue"}}
    points = {name: EntryPoint(name, __name__, registry.GROUP) for name in needs}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(registry, "extensions", lambda _group: points)
        for name, artefacts in needs.items():
            strategy(name, "For tests.", Parameters, needs=artefacts)(never_built)
        yield
        for name in needs:
            del DECLARED[name]


class Graph(RealIndex):
    """An index of statements or records, whose current version can be opened."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.readers: list[PublishedIndex] = []

    def build(self, lines: Iterable[object] | None = GRAPH, kind: str = "graph", **more: object) -> IndexReport:
        """Indexes lines; settings have `__` for `.`."""
        source = None if lines is None else write_lines(self.folder / "source.jsonl", lines)
        values = {"root": str(self.root), "strategies": "of-hubs", "hubs.types": "Paper"}
        flags = values | {name.replace("__", "."): value for name, value in more.items()}
        self.settings = parse_settings({"flags": flags})
        is_known = source is not None and self.index_folder.path.exists()
        return self.run(source, kind=kind, replaces=is_known)

    def open(self) -> PublishedIndex:
        self.readers.append(PublishedIndex(Layout(self.root), self.name))
        return self.readers[-1]

    def hubs(self) -> StoredHubs:
        return self.open().artefact(STORED_HUBS)

    def close(self) -> None:
        for reader in self.readers:
            reader.close()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """The graph with its hubs, as first built; no test changes it."""
    made = Graph(tmp_path_factory.mktemp("built"))
    made.build()
    yield made
    made.close()


@pytest.fixture
def graph(built: Graph, tmp_path: Path) -> Iterator[Graph]:
    made = built.copy(tmp_path)
    made.readers = []
    yield made
    made.close()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Graph]:
    made = Graph(tmp_path)
    yield made
    made.close()


def texts_of(hubs: StoredHubs) -> dict[str, list[str]]:
    paths, starts = hubs.paths, hubs.paths.path_starts
    texts = (hubs.path_texts.of(paths.path_texts[a:b].tolist()) for a, b in pairwise(starts.tolist()))
    return dict(zip(hubs.own_ids.of(paths.hubs.tolist()), texts, strict=True))


def test_a_graph_is_opened_with_its_hubs_and_paths(built: Graph) -> None:
    hubs = built.hubs()
    assert texts_of(hubs) == {
        "P1": ["Paper One cites Paper Two.", "Paper One author Ada; Ada works at Uni Y."],
        "P2": ["Paper Two has year 2024.", "Paper Two author Ada; Ada works at Uni Y."],
    }
    assert hubs.hub_types == ("Paper",)
    assert hubs.predicates == ("author", "cites", "contains", "hasYear", "knows", "worksAt")
    triple = hubs.ranked_triple(int(hubs.paths.last_triples()[0]), 1, 0.5)
    assert (triple.subject_id, triple.predicate, triple.object_id, triple.object) == ("P1", "cites", "P2", "Paper Two")
    query = f"SELECT target_id FROM relations WHERE relation_id = '{triple.relation_id}'"
    assert built.rows(query) == [(node_id("P2"),)]
    assert hubs.rows.row_texts.tolist() == hubs.paths.path_texts.tolist()


def test_the_tables_say_what_the_arrays_say(built: Graph) -> None:
    hubs = built.rows("SELECT definition, index_level, path_count, left_out_count FROM hubs")
    assert hubs == [("types", 0, 2, 0)] * 2
    paths = "SELECT ordinal, length, triples_json, text, textualiser, end_kind, end_entity_id FROM hub_paths WHERE "
    assert built.rows(f"{paths} hub_id = '{node_id('P1')}' ORDER BY ordinal") == [
        (0, 1, '[["P1","Paper One","cites","P2","Paper Two"]]', "Paper One cites Paper Two.", "template", "hub",
         node_id("P2")),
        (1, 2, '[["P1","Paper One","author","A1","Ada"],["A1","Ada","worksAt","U1","Uni Y"]]',
         "Paper One author Ada; Ada works at Uni Y.", "template", "leaf", node_id("U1")),
    ]  # fmt: skip
    assert built.rows("SELECT count(*) FROM hub_paths WHERE path_hash = sha256(triples_json)") == [(4,)]
    candidate = (node_id("P1"), node_id("P2"), "hub", '[["P1","Paper One","cites","P2","Paper Two"]]')
    assert built.rows("FROM hub_candidates") == [candidate]
    values = built.rows("SELECT text FROM hub_texts WHERE kind = 'hubvalue' ORDER BY ordinal")
    assert values == [("cites Paper Two",), ("author works at Uni Y",), ("has year 2024",)]
    left = "SELECT entity, relation FROM neighbours SEMI JOIN hub_uncovered USING (relation_id) WHERE direction = 'out'"
    assert sorted(built.rows(left)) == [("Architecture", "contains"), ("Elsewhere", "knows")]


def test_a_start_leaves_hubs_out_that_it_does_not_reach_and_only_their_search_is_repeated(graph: Graph) -> None:
    graph.build([*GRAPH, stated("P9", "hasYear", 1999)], hubs__start="F", hubs__max_paths_per_hub=1)
    hubs = graph.hubs()
    assert list(texts_of(hubs)) == ["P1", "P2"]
    assert hubs.own_ids.of(hubs.unreached.tolist()) == ["P9"]
    levels = graph.rows("SELECT hub_id, index_level, path_count FROM hubs ORDER BY index_level, hub_id")
    assert levels == [(node_id("P1"), 0, 1), (node_id("P2"), 1, 1), (node_id("P9"), None, 0)]
    covered = graph.rows("SELECT what, part, covered, uncovered, round(share, 2) FROM hub_coverage ORDER BY ALL")
    parts = {row[:2] for row in covered}
    assert {("hubs", "(all)"), ("nodes of type", "(no type)"), ("paths that end in", "revisit")} < parts
    assert {("paths", "(all)", 2, 2, 0.5), ("paths that end in", "limit", 0, 0, None)} < set(covered)
    assert {("triples of predicate", "cites", 1, 0, 1.0), ("nodes of type", "Survey", 1, 0, 1.0)} < set(covered)
    report = graph.build(None, hubs__start="Person,F", hubs__levels="path,entity")
    assert list(texts_of(graph.hubs())) == ["P1", "P2"]
    assert {"hubs", "hub-paths"} & set(report.reused) == set()
    again = graph.build(None, hubs__start="Person,F", hubs__levels="path")
    assert ("hub-paths" in again.reused, "hubs" in again.reused) == (True, False)


def test_hubs_by_edges_have_the_types_that_their_nodes_have(graph: Graph) -> None:
    graph.build(None, hubs__types="", hubs__min_edges=3)
    hubs = graph.hubs()
    assert (sorted(texts_of(hubs)), hubs.hub_types) == (["A1", "P1", "P2"], ("Paper", "Person", "Survey"))
    graph.build(None, hubs__types="cites=Paper Two")
    assert list(texts_of(graph.hubs())) == ["P1"]
    graph.name = "without"
    graph.build(hubs__types="")
    hubs = graph.hubs()
    assert (texts_of(hubs), hubs.hub_types) == ({}, ())
    assert graph.rows("SELECT covered, uncovered FROM hub_coverage WHERE what = 'triples'") == [(0, 7)]


def test_a_changed_graph_encodes_new_texts_only_and_an_unchanged_one_none(graph: Graph) -> None:
    def embedded(report: IndexReport) -> list[int]:
        return [report.computed[f"embed-{kind}"] for kind in ("hubpath", "hubvalue")]

    assert embedded(graph.build(strategies="of-hub-vectors")) == [4, 3]
    assert [len(graph.open().artefact(vectors_of(kind))) for kind in ("hubpath", "hubvalue")] == [4, 3]
    assert not graph.build(strategies="of-hub-vectors").changed
    assert embedded(graph.build([*GRAPH, stated("P2", "venue", "ICSA")], strategies="of-hub-vectors")) == [1, 1]
    assert run_verify(graph.settings, "i").ok


def test_a_changed_graph_gives_the_tables_of_a_new_index(built: Graph, empty: Graph) -> None:
    def checksums(graph: Graph) -> Mapping[str, object]:
        manifest = graph.manifest
        arrays = {name: value for name, value in manifest.arrays.items() if name.startswith("hub")}
        return arrays | {name: manifest.tables[name] for name in manifest.tables if name.startswith("hub")}

    empty.build(GRAPH[:4])
    empty.build(reversed(GRAPH))
    assert checksums(empty) == checksums(built)


TEXTS = [
    {"id": "p1", "title": "The Nile", "text": "The Nile flows through Cairo. Cairo is the capital of Egypt."},
    {"id": "p2", "title": "Cairo Tower", "text": "The Cairo Tower stands in Cairo."},
]


def test_documents_are_the_hubs_of_texts(empty: Graph) -> None:
    graph = empty
    graph.build(TEXTS, "corpus", hubs__types="")
    reader = graph.open()
    hubs = reader.artefact(STORED_HUBS)
    assert list(texts_of(hubs)) == ["cairo tower", "the nile"]
    assert hubs.hub_types == ("document",)
    assert max(np.diff(hubs.paths.triple_starts)) == 2
    nile = hubs.own_ids.of(hubs.paths.hubs.tolist()).index("the nile")
    assert {reader.passage_ids[passage] for hub, passage in hubs.hub_passages.tolist() if hub == nile} == {"p1"}
    for triple, passage in hubs.triple_passages.tolist():
        shown = hubs.ranked_triple(triple, 1, 1.0)
        query = f"SELECT passage_id FROM relation_sources WHERE relation_id = '{shown.relation_id}'"
        assert (reader.passage_ids[passage],) in graph.rows(query)
    assert len(hubs.triple_passages) == graph.rows("SELECT count(*) FROM relation_sources")[0][0] > 0
    graph.build(None, "corpus", hubs__types="LOCATION")
    located = graph.rows("SELECT key FROM entities WHERE type = 'LOCATION' ORDER BY key")
    assert [(own_id,) for own_id in texts_of(graph.hubs())] == located != []
    graph.build([{"id": "p1", "title": "Nile", "text": "It is long."}], "corpus", hubs__types="")
    assert texts_of(graph.hubs()) == {"nile": []}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hubs__mode": "typs", "hubs__types": ""}, "Setting 'hubs.mode' in flags must be 'auto', 'types'"),
        ({"hubs__levels": "path,triples"}, "Setting 'hubs.levels' in flags must be 'path'"),
        ({"hubs__types": "Papr"}, "hubs.types names 'Papr', but no node is of that type; did you mean 'Paper'"),
        ({"hubs__types": "Paper,x=y"}, "hubs.types names 'x=y', but no node is of that type; types are Field, Paper"),
        ({"hubs__start": "P11"}, "hubs.start names 'P11', but no node has that id or type"),
        ({"hubs__textualiser": "model"}, "No model is configured"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(graph: Graph, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        graph.build(None, **settings)


@pytest.mark.rare
def test_the_real_graph_is_covered_as_the_specification_counts(empty: Graph, shared_data: Path) -> None:
    lines = (shared_data / "orkg" / "triples.jsonl").read_text(encoding="utf-8").splitlines()
    assert empty.build(map(json.loads, lines), hubs__start="R659055").counts["hubs"] == 153
    counted = empty.rows("SELECT what, covered, covered + uncovered FROM hub_coverage WHERE part = '(all)'")
    assert {("nodes", 4297, 4336), ("triples", 4447, 4488)} <= set(counted)
    assert empty.rows("SELECT count(*) FROM hub_texts WHERE kind = 'hubvalue'") == [(682,)]
