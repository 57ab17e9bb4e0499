"""An index made from a knowledge graph: without texts, with texts for its nodes, with paths in the words of a model."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_indexes import Run, indexed, printed, write_rows

from polyhop.api import Index, open_index
from polyhop.commands.index import print_plan
from polyhop.flows.maintain import run_verify
from polyhop.flows.plan import plan_index
from polyhop.flows.reports import IndexReport
from polyhop.schemas.errors import LossRefusedError, SourceError
from polyhop.schemas.records import GraphServer, SourceKind
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import node_id
from polyhop.tasks.resolution.resolve import explain, keys_of
from polyhop.warehouse.artefacts import GRAPH as BIPARTITE
from polyhop.warehouse.artefacts import RELATIONS
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.query import query_rows
from polyhop.warehouse.tables.version_rows import read_name_records
from polyhop.worker.strategies.registry import STRATEGIES


def node(own_id: str, name: str, *types: str) -> dict[str, object]:
    return {"id": own_id, "name": name, "types": list(types)}


def stated(subject: object, predicate: str, value: object) -> dict[str, object]:
    return {"subject": subject, "predicate": predicate, "object": value}


ADA, BABBAGE = node("p1", "Ada Lovelace", "Person"), node("p2", "Charles Babbage", "Person")
LONDON = node("t1", "London")
GRAPH = [
    stated(ADA, "worked with", BABBAGE),
    stated(BABBAGE, "born in", LONDON),
    stated(BABBAGE, "knows", BABBAGE),
    stated(ADA, "born in year", 1815),
    stated(node("e1", "Analytical Engine", "Machine"), "part of", node("m1", "Mill", "Part")),
    stated(node("e2", "Windmill", "Machine"), "part of", node("m2", "Mill", "Building")),
    stated(LONDON, "twinned with", node("t2", "Berlin", "City")),
]
CORPUS = [{"id": "a", "title": "Ada Lovelace", "text": "Ada Lovelace worked with Charles Babbage."}]
PAPERS = [
    stated(node(own_id, name, "Paper"), "about", node(subject, subject))
    for own_id, name, subject in (("p1", "Engines", "steam"), ("p2", "Rivers", "water"), ("p3", "Bridges", "steel"))
]
TEXTS: list[dict[str, object]] = [
    {"id": "p1", "title": "Engines", "text": "Boilers drive pistons with hot vapour.", "metadata": {"doi": "10/1"}},
    {"id": "p2", "title": "Rivers", "text": "The Danube flows through ten countries."},
    {"id": "p2", "title": "Rivers", "text": "The Rhine rises in the Alps."},
    {"id": "p3", "title": "Bridges", "text": "Cables carry the deck of a suspension bridge."},
]
COUNT = 12
"""Papers, of two paths each, whose words a scripted model chooses over real HTTP."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("graph-search", "bm25"))


def made(settings: Settings, source: Path | None, kind: SourceKind | None = "graph", **more: Any) -> IndexReport:
    return indexed(settings, source, "people", kind=kind, **more)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """The graph for every strategy, which tests only read."""
    folder = tmp_path_factory.mktemp("people")
    settings = Settings(root=folder / "root", strategies=tuple(STRATEGIES))
    made(settings, write_rows(folder / "graph.jsonl", GRAPH))
    with open_index("people", settings=settings) as opened:
        yield opened


def test_a_graph_is_indexed_asked_and_verified_from_the_command_line(polyhop: Run, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "graph.jsonl", GRAPH * 3, "{")
    of_people = ("--index", "people")
    report = printed(polyhop("index", "--graph", source, *of_people, "--json", "--set", "strategies=graph-search,qasa"))
    assert (report["version"], report["changed"]) == (1, True)
    nothing = dict.fromkeys(("documents", "passages", "propositions"), 0)
    assert report["counts"] == nothing | {"entities": 9, "relations": 7, "quarantined": 1}
    loops = "SELECT source_id = target_id AS is_loop, count FROM relations WHERE relation = 'knows'"
    rows = printed(polyhop("sql", f"{loops} UNION ALL SELECT NULL, line FROM quarantine", *of_people, "--json"))
    assert rows == [{"is_loop": True, "count": 3}, {"is_loop": None, "count": 22}]
    assert polyhop("connect", "Ada Lovelace", "london", *of_people).stdout.splitlines() == [
        "Ada Lovelace and london are 2 relations apart:",
        "  Ada Lovelace --[worked with]--> Charles Babbage --[born in]--> London",
        "    worked with: (no passage)",
        "    born in: (no passage)",
    ]
    asked = polyhop("ask", "Where was Charles Babbage born?", *of_people, "--strategy", "qasa", "--explain")
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.splitlines()[1] == "Answer    (none found)"
    assert "Charles Babbage --[born in]--> London" in asked.stdout
    verified = polyhop("verify", *of_people)
    assert (verified.returncode, verified.stderr) == (0, "")
    assert printed(polyhop("versions", *of_people, "--json"))[0]["source"] == str(source)


def test_a_graph_changes_by_its_content_and_is_built_again_without_its_file(settings: Settings, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "graph.jsonl", GRAPH * 4)
    first = made(settings, source)
    shuffled = GRAPH * 4
    random.Random(7).shuffle(shuffled)
    again = made(settings, write_rows(source, shuffled))
    assert (again.version, again.changed) == (1, False)
    damaged = made(settings, write_rows(source, GRAPH * 4, '{"subject": {}, "predicate": "p", "object": 1}'))
    assert (damaged.version, damaged.counts["quarantined"]) == (2, 1)
    assert damaged.reused == ["graph", "relations", "lexical-plain"]
    rows = query_rows(Layout(settings.root), "people", "SELECT source, line, reason FROM quarantine").to_pylist()
    assert rows == [{"source": "graph.jsonl", "line": 29, "reason": "the subject has no id"}]
    edited = made(settings, write_rows(source, GRAPH[:-1] * 4))
    assert (edited.version, edited.changed, edited.counts["relations"]) == (3, True, first.counts["relations"] - 1)
    source.unlink()
    full = made(settings, None, None, full=True)
    assert (full.version, full.changed, full.counts) == (4, True, edited.counts)
    extended = made(settings, None, None, add_strategies=("bridge-lexical",))
    assert (extended.version, extended.reused) == (5, ["graph", "relations", "lexical-plain"])
    with open_index("people", settings=settings) as opened:
        assert opened.session.published.manifest.source == str(source)


def test_a_corpus_with_its_vectors_replaces_a_graph_and_a_graph_a_corpus(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path / "root", strategies=("dense-ann", "naive-vector"), keep_versions=1)
    corpus, graph = write_rows(tmp_path / "corpus.jsonl", CORPUS), write_rows(tmp_path / "graph.jsonl", GRAPH)
    found, counts = [], []
    kinds: tuple[tuple[Path, SourceKind], ...] = ((corpus, "corpus"), (graph, "graph"), (corpus, "corpus"))
    for source, kind in kinds:
        counts.append(made(settings, source, kind, replaces=True).counts)
        with open_index("people", settings=settings) as opened:
            vectors = opened.session.published.manifest.vectors
            answer = opened.ask("Who worked with Ada Lovelace?", strategy="dense-ann")
            found.append((sorted(vectors), [passage["id"] for passage in answer.passages]))
        assert run_verify(settings, "people").ok
    assert found == [(["entity", "passage"], ["a"]), (["entity"], []), (["entity", "passage"], ["a"])]
    assert [(one["passages"], one["entities"] > 0) for one in counts] == [(1, True), (0, True), (1, True)]
    assert counts[0] == counts[2]


def test_other_sources_replace_a_graph_only_when_told_and_few_relations_go(settings: Settings, tmp_path: Path) -> None:
    towns = [stated({"id": f"t{number}"}, "lies in", {"id": f"c{number}"}) for number in range(20)]
    graph, other = write_rows(tmp_path / "graph.jsonl", towns), write_rows(tmp_path / "other.jsonl", GRAPH)
    made(settings, graph)
    kinds: tuple[SourceKind, ...] = ("graph", "corpus")
    for kind in kinds:
        with pytest.raises(LossRefusedError, match=r"other.jsonl is not what index 'people' was made from .*--replace"):
            made(settings, other, kind)
    with pytest.raises(LossRefusedError, match=r"7 of 20 relations of .*graph.jsonl in index 'people' would be"):
        made(settings, write_rows(graph, towns[7:]))
    counts = [made(settings, graph, allows_deletions=True).counts, made(settings, other, replaces=True).counts]
    assert [each["relations"] for each in counts] == [13, 7]


def test_names_and_ids_of_the_graph_lead_to_its_nodes(people: Index) -> None:
    mills = [(entity.id, entity.key, entity.type) for entity in people.find_entities("mill", fuzzy=False)]
    assert mills == [(node_id("m1"), "mill #m1", "Part"), (node_id("m2"), "mill #m2", "Building")]
    assert [entity.name for entity in people.find_entities("1815")] == []
    own = people.find_entities("Charles Babbage")[0]
    arrays = people.session.published.artefact(RELATIONS)
    number = people.session.published.artefact(BIPARTITE).number_of[own.key]
    assert number not in arrays.indices[arrays.indptr[number] : arrays.indptr[number + 1]]
    assert arrays.labels_from(number, number) == ()
    around = people.graph.traverse(own.id)
    assert [(reached.entity.id, reached.hop) for reached in around] == [(node_id("p1"), 1), (node_id("t1"), 1)]
    assert people.graph.expand([node_id("m2")], 1) == {node_id("m2"): 0, node_id("e2"): 1}
    assert people.connect("Mill", "Windmill").paths[0].text == "Mill <--[part of]-- Windmill"
    for a, b, reason in (
        ("Ada Lovelace", "Charles Babbage", "they are two nodes of the graph .* and nodes are never merged"),
        ("Mill", "Windmill", "the graph .* has no node, or several, of the name 'Mill'"),
    ):
        told = explain(a, b, read_name_records(Layout(people.session.settings.root), "people", keys_of(a, b)))
        assert (told.same, bool(re.fullmatch(reason, told.reason))) == (False, True)


def test_every_strategy_finds_no_passage_and_none_fails(people: Index) -> None:
    for name in STRATEGIES:
        for answer in people.ask_batch(["Where was Charles Babbage born?", "what is it"], strategy=name):
            assert (name, answer.answer or "", list(answer.passages)) == (name, "", [])


def test_passages_of_nodes_are_ranked_linked_and_kept_up_to_date(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path / "root", strategies=("bm25", "dense", "graph-search"))
    graph = write_rows(tmp_path / "graph.jsonl", PAPERS)

    def run(texts: list[dict[str, object]]) -> IndexReport:
        return made(settings, graph, graph_sources=write_rows(tmp_path / "texts.jsonl", texts))

    first = run(TEXTS)
    assert (first.version, first.counts["documents"], first.counts["passages"]) == (1, 3, 4)
    question = "Which countries does the Danube flow through?"
    with open_index("people", settings=settings) as index:
        for name in ("bm25", "dense"):
            best = index.ask(question, strategy=name).passages[0]
            joined = "node_passages JOIN nodes AS n USING (entity_id) JOIN passages AS p USING (passage_id)"
            linked = index.sql(f"SELECT n.node_id, p.title FROM {joined} WHERE passage_id = '{best['id']}'").to_pylist()
            assert linked == [{"node_id": "p2", "title": "Rivers"}]
        assert index.session.published.manifest.graph_sources.endswith("texts.jsonl")
    assert run_verify(settings, "people").ok

    assert run(TEXTS[::-1]).changed is False
    edited = [*TEXTS[:3], {**TEXTS[3], "text": "Arches carry the deck of a stone bridge."}]
    changed = run(edited)
    assert (changed.version, changed.computed["embed-passage"]) == (2, 1)
    assert {"graph", "relations"} <= set(changed.reused)
    graph.write_text(graph.read_text(encoding="utf-8").replace("steel", "iron"), encoding="utf-8")
    other = run(edited)
    assert other.version == 3
    assert {"lexical-plain", "embed-passage"} <= set(other.reused)
    assert "relations" not in other.reused

    assert made(settings, None, None, add_strategies=("bm25-rm3",), full=True).counts == other.counts
    bare = made(settings, graph)
    assert (bare.changed, bare.counts["passages"]) == (True, 0)
    with open_index("people", settings=settings) as index:
        assert index.sql("FROM node_passages").num_rows == 0
        assert index.session.published.manifest.graph_sources == ""


def test_sources_that_do_not_go_together_are_refused(settings: Settings, tmp_path: Path) -> None:
    server, graph = GraphServer("bolt://127.0.0.1:1"), write_rows(tmp_path / "graph.jsonl", PAPERS)
    texts, empty = write_rows(tmp_path / "texts.jsonl", TEXTS), write_rows(tmp_path / "empty.jsonl", [])
    blank = write_rows(tmp_path / "blank.jsonl", [], "")
    for source, kind, sources, said in (
        (server, "corpus", None, r"bolt://127\.0\.0\.1:1 is a graph database, not a corpus"),
        (graph, "corpus", graph, "holds texts for the nodes of a knowledge graph"),
        (None, None, texts, r"texts\.jsonl holds texts for the nodes .* name the graph, too \(--graph\)"),
        (graph, "graph", tmp_path / "none.jsonl", r"no file or folder .*none\.jsonl; check the path"),
        (empty, "graph", None, "is empty; name a file"),
        (blank, "graph", None, "has no statement; add at least one"),
    ):
        with pytest.raises(SourceError, match=said):
            made(settings, source, kind, graph_sources=sources)  # type: ignore[arg-type]


class Hubs:
    """Index runs of a graph with hubs, with the scripted server as the model."""

    def __init__(self, runs: Any) -> None:
        self.server = runs.server
        self.source = write_rows(runs.folder / "graph.jsonl", statements())
        self._settings = runs.settings

    def settings(self, root: str = "one", **more: object) -> Settings:
        hubs = {"strategies": "hub-facets", "hubs__types": "Paper", "hubs__textualiser": "model"}
        few = {"models__max_attempts": 1, "batch_size": 5, "extraction__extractor": "rules"}
        given: Settings = self._settings(root, **{**hubs, **few, **more})
        return given

    def texts(self) -> dict[str, int]:
        """Paths by textualiser."""
        rows = paths(self.settings(), "SELECT textualiser, count(*) AS paths FROM hub_paths GROUP BY ALL")
        return {row["textualiser"]: row["paths"] for row in rows}


@pytest.fixture
def hubs(runs: Any) -> Hubs:
    return Hubs(runs)


def statements(papers: int = COUNT, venue: str = "Conference on Architecture") -> list[dict[str, object]]:
    """Two paths a paper."""
    found = []
    for number in range(papers):
        paper = node(f"P{number}", f"Paper about subject {number}", "Paper")
        place = node(f"V{number}", venue if number == 0 else f"Journal {number}", "Venue")
        found += [stated(paper, "publishedIn", place), stated(paper, "publication year", 2000 + number)]
    return found


def paths(settings: Settings, query: str = "FROM hub_paths ORDER BY ALL") -> list[Any]:
    rows: list[Any] = query_rows(Layout(settings.root), "people", query).to_pylist()
    return rows


@pytest.mark.rare
def test_a_changed_graph_asks_for_changed_paths_only(hubs: Hubs) -> None:
    settings = hubs.settings()
    assert made(settings, hubs.source).model.calls == hubs.server.count() == 2 * COUNT
    assert hubs.texts() == {"openai/scripted": 2 * COUNT}
    first = "SELECT text FROM hub_paths ORDER BY text LIMIT 1"
    assert paths(settings, first) == [{"text": "Paper about subject 0 publication year 2000."}]
    assert not made(settings, hubs.source).changed
    assert hubs.server.count() == 2 * COUNT

    write_rows(hubs.source, statements(COUNT + 1, venue="Workshop"))
    assert made(settings, hubs.source).model.calls == 3  # the venue of one paper, and both paths of the new one
    assert hubs.server.count() == 2 * COUNT + 3
    afresh = hubs.settings("other")
    made(afresh, hubs.source)
    assert paths(afresh) == paths(settings)


def test_what_failed_or_is_empty_has_the_words_of_the_template_and_only_what_failed_is_asked_again(hubs: Hubs) -> None:
    settings = hubs.settings()
    hubs.server.shares({"wrong_schema": 0.3}, seed=5)
    made(settings, hubs.source)
    failed = hubs.texts()["template"]
    assert 0 < failed < 2 * COUNT
    assert paths(settings, "FROM hub_paths WHERE textualiser = 'template' AND text LIKE '% published in %.'")
    hubs.server.reset()
    hubs.server.respond(lambda _request: {"content": '{"text": "  "}'})
    made(settings, hubs.source)
    assert (hubs.server.count(), hubs.texts()["template"]) == (failed, failed)
    assert not made(settings, hubs.source).changed
    assert hubs.server.count() == failed


@pytest.mark.rare
def test_the_plan_of_a_graph_comes_within_15_percent_and_asks_nothing(hubs: Hubs, shared_data: Path) -> None:
    lines = (shared_data / "orkg" / "triples.jsonl").read_text(encoding="utf-8").splitlines()[:800]
    settings = hubs.settings(batch_size=500)
    write_rows(hubs.source, [], *lines)
    planned = plan_index(settings, hubs.source, kind="graph").to_json()
    assert (hubs.server.count(), planned["nodes"], planned["relations"]) == (0, 774, 800)
    taken = made(settings, hubs.source).model
    assert planned["calls"] == taken.calls > 0
    assert planned["cost_usd"]["expected"] == pytest.approx(taken.cost_usd, rel=0.15)
    assert plan_index(settings, hubs.source, kind="graph").to_json()["calls"] == 0


@pytest.mark.parametrize(("textualiser", "not_planned"), [("model", ["hub.path_text"]), ("template", [])])
def test_paths_of_a_text_corpus_are_named_without_a_number(
    hubs: Hubs, tmp_path: Path, capsys: pytest.CaptureFixture[str], textualiser: str, not_planned: list[str]
) -> None:
    corpus = write_rows(tmp_path / "corpus.jsonl", CORPUS)
    plan = plan_index(hubs.settings(hubs__textualiser=textualiser), corpus)
    print_plan(plan)
    assert (plan.to_json()["not_planned"], "hub.path_text" in plan.to_json()["steps"]) == (not_planned, False)
    said = "besides, hub.path_text is asked about paths of hubs, which are known once relations are extracted"
    assert (said in capsys.readouterr().out) == bool(not_planned)
    of_graph = plan_index(hubs.settings(hubs__textualiser="template", models__extract=""), hubs.source, kind="graph")
    assert (of_graph.to_json()["calls"], of_graph.to_json()["steps"], of_graph.model) == (0, {}, "")
