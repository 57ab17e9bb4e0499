"""Hubs from a graph or from texts to a published version: what is built, opened, embedded, taken over and refused."""

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from real_index import RealIndex, write_lines

from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.hubs import LEVELS
from polyhop.schemas.ports import Strategy
from polyhop.schemas.settings import parse_settings
from polyhop.schemas.text import node_id
from polyhop.tasks.hubs.paths import STORED_HUBS, StoredHubs
from polyhop.warehouse.artefacts import vectors_of
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.worker.strategies import registry
from polyhop.worker.strategies.base import DECLARED, Parameters, strategy

pytestmark = pytest.mark.slow

KINDS = ("hubpath", "hubvalue")


def thing(own_id: str, name: str, *types: str) -> dict[str, object]:
    return {"id": own_id, "name": name, "types": list(types)}


def stated(subject: dict[str, object], predicate: str, value: object) -> dict[str, object]:
    return {"subject": subject, "predicate": predicate, "object": value}


P1, P2 = thing("P1", "Paper One", "Paper"), thing("P2", "Paper Two", "Paper", "Survey")
ADA, UNI = thing("A1", "Ada", "Person"), thing("U1", "Uni Y")
FIELD = thing("F", "Architecture", "Field")
GRAPH = [
    stated(FIELD, "contains", P1),
    stated(P1, "author", ADA),
    stated(ADA, "worksAt", UNI),
    stated(P1, "cites", P2),
    stated(P2, "author", ADA),
    stated(P2, "hasYear", 2024),
    stated(thing("X", "Elsewhere"), "knows", thing("Y", "Nobody")),
]


def never_built(*_: object) -> Strategy:
    raise AssertionError


@pytest.fixture(autouse=True)
def strategies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Strategies that need hubs: one with their vectors, one without."""
    names = ("of-hubs", "of-hub-vectors")
    points = {name: EntryPoint(name, __name__, registry.GROUP) for name in names}
    monkeypatch.setattr(registry, "extensions", lambda _group: points)
    vectors = {f"vectors:{kind}" for kind in KINDS}
    for name, needs in zip(names, ({"hubs"}, {"hubs", *vectors}), strict=True):
        strategy(name, "For tests.", Parameters, needs=needs)(never_built)
    yield
    for name in names:
        del DECLARED[name]


class Graph(RealIndex):
    """An index of statements or records, whose current version can be opened."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.readers: list[PublishedIndex] = []

    def build(self, lines: Iterable[object] | None = GRAPH, kind: str = "graph", **more: object) -> IndexReport:
        """Indexes lines; settings have `__` for `.`."""
        source = None if lines is None else write_lines(self.folder / "source.jsonl", lines)
        texts = more.pop("texts", None)
        values = {"root": str(self.root), "strategies": "of-hubs", "hubs.types": "Paper"}
        flags = values | {name.replace("__", "."): value for name, value in more.items()}
        self.settings = parse_settings({"flags": flags})
        return self.run(source, kind=kind, graph_sources=texts)

    def open(self) -> PublishedIndex:
        self.readers.append(PublishedIndex(Layout(self.root), "i"))
        return self.readers[-1]

    def hubs(self) -> StoredHubs:
        return self.open().artefact(STORED_HUBS)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    made = Graph(tmp_path)
    yield made
    for reader in made.readers:
        reader.close()


def texts_of(hubs: StoredHubs) -> dict[str, list[str]]:
    """Texts of the paths of each hub, by own id."""
    paths = hubs.paths
    own_ids = hubs.own_ids.of(paths.hubs.tolist())
    return {
        own_id: hubs.path_texts.of(paths.path_texts[paths.path_starts[hub] : paths.path_starts[hub + 1]].tolist())
        for hub, own_id in enumerate(own_ids)
    }


def test_a_graph_is_opened_with_its_hubs_and_paths(graph: Graph) -> None:
    report = graph.build()
    assert (report.counts["hubs"], report.counts["hub_paths"]) == (2, 4)
    hubs = graph.hubs()
    assert texts_of(hubs) == {
        "P1": ["Paper One cites Paper Two.", "Paper One author Ada; Ada works at Uni Y."],
        "P2": ["Paper Two has year 2024.", "Paper Two author Ada; Ada works at Uni Y."],
    }
    assert hubs.hub_types == ("Paper",)
    assert hubs.predicates == ("author", "cites", "contains", "hasYear", "knows", "worksAt")
    triple = hubs.ranked_triple(int(hubs.paths.last_triples()[0]), 1, 0.5)
    assert (triple.subject_id, triple.predicate, triple.object_id, triple.object) == ("P1", "cites", "P2", "Paper Two")
    assert graph.rows(f"SELECT target_id FROM relations WHERE relation_id = '{triple.relation_id}'") == [
        (node_id("P2"),)
    ]
    assert hubs.rows.row_texts.tolist() == hubs.paths.path_texts.tolist()


def test_the_tables_say_what_the_arrays_say(graph: Graph) -> None:
    graph.build()
    hubs = graph.rows("SELECT definition, index_level, path_count, left_out_count FROM hubs")
    assert hubs == [("types", 0, 2, 0)] * 2
    paths = "SELECT ordinal, length, triples_json, text, textualiser, end_kind, end_entity_id FROM hub_paths WHERE "
    assert graph.rows(f"{paths} hub_id = '{node_id('P1')}' ORDER BY ordinal") == [
        (0, 1, '[["P1","Paper One","cites","P2","Paper Two"]]', "Paper One cites Paper Two.", "template", "hub",
         node_id("P2")),
        (1, 2, '[["P1","Paper One","author","A1","Ada"],["A1","Ada","worksAt","U1","Uni Y"]]',
         "Paper One author Ada; Ada works at Uni Y.", "template", "leaf", node_id("U1")),
    ]  # fmt: skip
    hashes = "SELECT count(*) FROM hub_paths WHERE path_hash = sha256(triples_json)"
    assert graph.rows(hashes) == [(4,)]
    assert graph.rows("FROM hub_candidates") == [
        (node_id("P1"), node_id("P2"), "hub", '[["P1","Paper One","cites","P2","Paper Two"]]')
    ]
    values = graph.rows("SELECT text FROM hub_texts WHERE kind = 'hubvalue' ORDER BY ordinal")
    assert values == [("cites Paper Two",), ("author works at Uni Y",), ("has year 2024",)]
    uncovered = (
        "SELECT entity, relation FROM neighbours SEMI JOIN hub_uncovered USING (relation_id) WHERE direction = 'out'"
    )
    assert sorted(graph.rows(uncovered)) == [("Architecture", "contains"), ("Elsewhere", "knows")]


def test_the_coverage_says_what_no_hub_covers(graph: Graph) -> None:
    graph.build(hubs__max_paths_per_hub=1)
    covered = graph.rows("SELECT what, part, covered, uncovered, round(share, 2) FROM hub_coverage ORDER BY ALL")
    assert covered == [
        ("hubs", "(all)", 2, 0, 1.0),
        ("hubs with paths", "1", 2, 0, 1.0),
        ("nodes", "(all)", 3, 5, 0.38),
        ("nodes of type", "(literal)", 1, 2, 0.33),
        ("nodes of type", "(no type)", 0, 1, 0.0),
        ("nodes of type", "Field", 0, 1, 0.0),
        ("nodes of type", "Paper", 2, 0, 1.0),
        ("nodes of type", "Person", 0, 1, 0.0),
        ("nodes of type", "Survey", 1, 0, 1.0),
        ("paths", "(all)", 2, 2, 0.5),
        ("paths of length", "1", 2, 0, 1.0),
        ("paths that end in", "hub", 1, 0, 1.0),
        ("paths that end in", "leaf", 1, 0, 1.0),
        ("paths that end in", "limit", 0, 0, None),
        ("paths that end in", "revisit", 0, 0, None),
        ("triples", "(all)", 2, 5, 0.29),
        ("triples of predicate", "author", 0, 2, 0.0),
        ("triples of predicate", "cites", 1, 0, 1.0),
        ("triples of predicate", "contains", 0, 1, 0.0),
        ("triples of predicate", "hasYear", 1, 0, 1.0),
        ("triples of predicate", "knows", 0, 1, 0.0),
        ("triples of predicate", "worksAt", 0, 1, 0.0),
    ]


def test_a_start_leaves_hubs_out_that_it_does_not_reach(graph: Graph) -> None:
    more = [stated(thing("P9", "Paper Nine", "Paper"), "hasYear", 1999)]
    graph.build([*GRAPH, *more], hubs__start="F")
    hubs = graph.hubs()
    assert list(texts_of(hubs)) == ["P1", "P2"]
    assert hubs.own_ids.of(hubs.unreached.tolist()) == ["P9"]
    levels = graph.rows("SELECT hub_id, index_level, path_count FROM hubs ORDER BY index_level, hub_id")
    assert levels == [(node_id("P1"), 0, 2), (node_id("P2"), 1, 2), (node_id("P9"), None, 0)]
    graph.build(None, hubs__start="Person,F")
    assert list(texts_of(graph.hubs())) == ["P1", "P2"]


def test_hubs_by_edges_have_the_types_that_their_nodes_have(graph: Graph) -> None:
    graph.build(hubs__types="", hubs__min_edges=3)
    hubs = graph.hubs()
    assert sorted(texts_of(hubs)) == ["A1", "P1", "P2"]
    assert hubs.hub_types == ("Paper", "Person", "Survey")
    graph.build(None, hubs__types="worksAt=Uni Y")
    by_pair = graph.hubs()
    assert list(texts_of(by_pair)) == ["A1"]
    assert by_pair.hub_types == ("Uni Y",)


def test_levels_give_rows_for_triples_and_labels(graph: Graph) -> None:
    graph.build(hubs__levels="path,triple,entity")
    hubs = graph.hubs()
    texts = [text for (text,) in graph.rows("SELECT text FROM hub_texts WHERE kind = 'hubpath' ORDER BY ordinal")]
    found: dict[str, set[str]] = {}
    path = texts_of(hubs)["P1"].index("Paper One author Ada; Ada works at Uni Y.")
    for row in np.flatnonzero(hubs.rows.row_paths == path):
        found.setdefault(LEVELS[hubs.rows.row_levels[row]], set()).add(texts[hubs.rows.row_texts[row]])
    assert found == {
        "path": {"Paper One author Ada; Ada works at Uni Y."},
        "triple": {"(Paper One, author, Ada)", "(Ada, worksAt, Uni Y)"},
        "entity": {"Paper One", "author", "Ada", "worksAt", "Uni Y"},
    }
    triples = hubs.rows.row_triples[hubs.rows.row_levels == LEVELS.index("triple")]
    assert [int(t) for t in triples] == hubs.paths.path_triples.tolist()
    assert (hubs.rows.row_triples[hubs.rows.row_levels != LEVELS.index("triple")] == -1).all()


def test_a_changed_graph_encodes_new_texts_only_and_an_unchanged_one_none(graph: Graph) -> None:
    built = graph.build(strategies="of-hub-vectors")
    assert {kind: built.computed[f"embed-{kind}"] for kind in KINDS} == {"hubpath": 4, "hubvalue": 3}
    reader = graph.open()
    assert [len(reader.artefact(vectors_of(kind))) for kind in KINDS] == [4, 3]
    again = graph.build(strategies="of-hub-vectors")
    assert (again.changed, again.computed) == (False, {})
    more = [*GRAPH, stated(P2, "venue", thing("V", "ICSA"))]
    grown = graph.build(more, strategies="of-hub-vectors")
    assert {kind: grown.computed[f"embed-{kind}"] for kind in KINDS} == {"hubpath": 1, "hubvalue": 1}
    assert run_verify(graph.settings, "i").ok


def test_a_changed_graph_gives_the_tables_of_a_new_index(graph: Graph) -> None:
    def checksums() -> Mapping[str, object]:
        manifest = graph.manifest
        arrays = {name: value for name, value in manifest.arrays.items() if name.startswith("hub")}
        return arrays | {name: manifest.tables[name] for name in manifest.tables if name.startswith("hub")}

    graph.build(GRAPH[:4])
    graph.build()
    grown = checksums()
    graph.root.rename(graph.folder / "before")
    graph.build(reversed(GRAPH))
    assert checksums() == grown


def test_other_words_for_paths_search_no_hubs_again(graph: Graph) -> None:
    graph.build()
    report = graph.build(None, hubs__levels="path,entity")
    assert "hub-paths" in report.reused
    assert "hubs" not in report.reused


TEXTS = [
    {"id": "p1", "title": "The Nile", "text": "The Nile flows through Cairo. Cairo is the capital of Egypt."},
    {"id": "p2", "title": "Cairo Tower", "text": "The Cairo Tower stands in Cairo."},
]


def test_documents_are_the_hubs_of_texts(graph: Graph) -> None:
    graph.build(TEXTS, "corpus", hubs__types="")
    reader = graph.open()
    hubs = reader.artefact(STORED_HUBS)
    assert list(texts_of(hubs)) == ["cairo tower", "the nile"]
    assert hubs.hub_types == ("document",)
    assert max(np.diff(hubs.paths.triple_starts)) == 2
    nile = hubs.own_ids.of(hubs.paths.hubs.tolist()).index("the nile")
    about = {reader.passage_ids[passage] for hub, passage in hubs.hub_passages.tolist() if hub == nile}
    assert about == {"p1"}
    for triple, passage in hubs.triple_passages.tolist():
        shown = hubs.ranked_triple(triple, 1, 1.0)
        query = f"SELECT passage_id FROM relation_sources WHERE relation_id = '{shown.relation_id}'"
        assert (reader.passage_ids[passage],) in graph.rows(query)
    assert len(hubs.triple_passages) == graph.rows("SELECT count(*) FROM relation_sources")[0][0] > 0


def test_texts_without_a_relation_have_hubs_without_paths(graph: Graph) -> None:
    graph.build([{"id": "p1", "title": "Nile", "text": "It is long."}], "corpus", hubs__types="")
    assert texts_of(graph.hubs()) == {"nile": []}
    graph.build([{"id": "p1", "text": "it is long."}], "corpus", hubs__types="")
    assert texts_of(graph.hubs()) == {}


def test_texts_that_were_attached_to_hubs_are_about_them(graph: Graph) -> None:
    def attached(to: str) -> list[str]:
        lines = [{"id": to, "title": "Abstract", "text": "On hubs."}, {"id": "A1", "title": "Person", "text": "Ada."}]
        graph.build(texts=write_lines(graph.folder / "texts.jsonl", lines))
        hubs = graph.hubs()
        own_ids = hubs.own_ids.of(hubs.paths.hubs.tolist())
        return [own_ids[hub] for hub, _ in hubs.hub_passages.tolist()]

    assert attached("P1") == ["P1"]
    assert attached("P2") == ["P2"]


def test_types_of_entities_are_hubs_of_texts_if_asked_for(graph: Graph) -> None:
    graph.build(TEXTS, "corpus", hubs__types="LOCATION")
    located = graph.rows("SELECT key FROM entities WHERE type = 'LOCATION' ORDER BY key")
    assert [(own_id,) for own_id in texts_of(graph.hubs())] == located != []


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("hubs__mode", "typs", "Setting 'hubs.mode' in flags must be 'auto', 'types'"),
        ("hubs__levels", "path,triples", "Setting 'hubs.levels' in flags must be 'path'"),
        ("hubs__min_edges", "0", "Setting 'hubs.min_edges' in flags must be"),
        ("hubs__types", "Papr", r"hubs.types names 'Papr', but no node is of that type; did you mean 'Paper'"),
        ("hubs__types", "Paper,x=y", r"hubs.types names 'x=y', but no node is of that type; types are Field, Paper"),
        ("hubs__start", "P11", r"hubs.start names 'P11', but no node has that id or type"),
        ("hubs__textualiser", "model", "No model is configured"),
        ("hubs__mode", "both", r"hubs.mode = both needs the types of hubs; name them in hubs.types"),
        ("hubs__split", True, r"hubs.split needs a length at which paths end"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(graph: Graph, setting: str, value: object, words: str) -> None:
    beside = {"hubs__mode": {"hubs__types": ""}, "hubs__split": {"hubs__max_path_length": 0}}.get(setting, {})
    with pytest.raises(ConfigurationError, match=words):
        graph.build(**{setting: value}, **beside)  # type: ignore[arg-type]


def test_a_graph_without_a_hub_is_published(graph: Graph) -> None:
    graph.build(strategies="of-hub-vectors", hubs__types="")
    hubs = graph.hubs()
    assert (texts_of(hubs), hubs.hub_types) == ({}, ())
    assert graph.rows("SELECT covered, uncovered FROM hub_coverage WHERE what = 'triples'") == [(0, 7)]


@pytest.mark.rare
def test_the_real_graph_is_covered_as_the_specification_counts(graph: Graph, shared_data: Path) -> None:
    lines = (shared_data / "orkg" / "triples.jsonl").read_text(encoding="utf-8").splitlines()
    report = graph.build(map(json.loads, lines), hubs__start="R659055")
    assert report.counts["hubs"] == 153
    counted = graph.rows("SELECT what, covered, covered + uncovered FROM hub_coverage WHERE part = '(all)'")
    assert {("nodes", 4297, 4336), ("triples", 4447, 4488)} <= set(counted)
    assert graph.rows("SELECT count(*) FROM hub_texts WHERE kind = 'hubvalue'") == [(682,)]
