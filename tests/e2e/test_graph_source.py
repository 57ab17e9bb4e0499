"""An index made from a knowledge graph, from the command line and in this process: it has no passage."""

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from polyhop.api import open_index
from polyhop.commands.index import index as index_command
from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import LossRefusedError, SourceError
from polyhop.schemas.records import SourceKind
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import node_id
from polyhop.tasks.resolution.resolve import explain, keys_of
from polyhop.warehouse.artefacts import GRAPH as BIPARTITE
from polyhop.warehouse.artefacts import RELATIONS
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.version_rows import read_name_records
from polyhop.worker.strategies.registry import STRATEGIES

Run = Callable[..., subprocess.CompletedProcess[str]]


def node(own_id: str, name: str, *types: str) -> dict[str, object]:
    return {"id": own_id, "name": name, "types": list(types)}


ADA, BABBAGE, LONDON = (
    node("p1", "Ada Lovelace", "Person"),
    node("p2", "Charles Babbage", "Person"),
    node("t1", "London"),
)
GRAPH: list[dict[str, object]] = [
    {"subject": ADA, "predicate": "worked with", "object": BABBAGE},
    {"subject": BABBAGE, "predicate": "born in", "object": LONDON},
    {"subject": BABBAGE, "predicate": "knows", "object": BABBAGE},
    {"subject": ADA, "predicate": "born in year", "object": 1815},
    {
        "subject": node("e1", "Analytical Engine", "Machine"),
        "predicate": "part of",
        "object": node("m1", "Mill", "Part"),
    },
    {"subject": node("e2", "Windmill", "Machine"), "predicate": "part of", "object": node("m2", "Mill", "Building")},
    {"subject": LONDON, "predicate": "twinned with", "object": node("t2", "Berlin", "City")},
]
CORPUS = [{"id": "a", "title": "Ada Lovelace", "text": "Ada Lovelace worked with Charles Babbage."}]


def write(path: Path, records: list[dict[str, object]] | list[dict[str, str]], *more: str) -> Path:
    text = "".join(line + "\n" for line in (*map(json.dumps, records), *more))
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("graph-search", "bm25"))


def indexed(settings: Settings, source: Path | None, kind: SourceKind | None = "graph", **more: bool) -> IndexReport:
    return run_index(settings, IndexRequest("people", source, kind=kind, **more), DirectRunner())  # type: ignore[arg-type]


def test_a_graph_is_indexed_asked_and_verified_from_the_command_line(polyhop: Run, tmp_path: Path) -> None:
    source = write(tmp_path / "graph.jsonl", GRAPH * 3, "{")
    built = polyhop("index", "--graph", source, "--index", "people", "--json", "--set", "strategies=graph-search,qasa")
    assert built.returncode == 0, built.stderr
    report = json.loads(built.stdout)
    assert (report["version"], report["changed"]) == (1, True)
    assert report["counts"] == {
        "documents": 0,
        "passages": 0,
        "entities": 9,
        "relations": 7,
        "propositions": 0,
        "quarantined": 1,
    }
    query = (
        "SELECT source_id = target_id AS is_loop, count FROM relations WHERE relation = 'knows' "
        "UNION ALL SELECT NULL, line FROM quarantine"
    )
    rows = polyhop("sql", query, "--index", "people", "--json")
    assert json.loads(rows.stdout) == [{"is_loop": True, "count": 3}, {"is_loop": None, "count": 22}]
    ways = polyhop("connect", "Ada Lovelace", "london", "--index", "people")
    assert ways.stdout.splitlines() == [
        "Ada Lovelace and london are 2 relations apart:",
        "  Ada Lovelace --[worked with]--> Charles Babbage --[born in]--> London",
        "    worked with: (no passage)",
        "    born in: (no passage)",
    ]
    asked = polyhop("ask", "Where was Charles Babbage born?", "--index", "people", "--strategy", "qasa", "--explain")
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.splitlines()[1] == "Answer    (none found)"
    assert "Charles Babbage --[born in]--> London" in asked.stdout
    verified = polyhop("verify", "--index", "people")
    assert (verified.returncode, verified.stderr) == (0, "")
    versions = polyhop("versions", "--index", "people", "--json")
    assert json.loads(versions.stdout)[0]["source"] == str(source)


def test_the_same_graph_in_any_order_changes_nothing_and_an_edit_does(settings: Settings, tmp_path: Path) -> None:
    source = write(tmp_path / "graph.jsonl", GRAPH)
    assert indexed(settings, source).version == 1
    shuffled = list(GRAPH)
    random.Random(7).shuffle(shuffled)
    again = indexed(settings, write(source, shuffled))
    assert (again.version, again.changed) == (1, False)
    edited = indexed(settings, write(source, GRAPH[:-1]))
    assert (edited.version, edited.changed, edited.counts["relations"]) == (2, True, 6)


def test_a_line_that_becomes_unusable_publishes_the_rest(settings: Settings, tmp_path: Path) -> None:
    source = write(tmp_path / "graph.jsonl", GRAPH * 4)
    indexed(settings, source)
    damaged = indexed(settings, write(source, GRAPH * 4, '{"subject": {}, "predicate": "p", "object": 1}'))
    assert (damaged.version, damaged.counts["quarantined"]) == (2, 1)
    assert damaged.reused == ["graph", "relations", "lexical-plain"]
    with open_index("people", settings=settings) as opened:
        rows = opened.sql("SELECT source, line, reason FROM quarantine").to_pylist()
    assert rows == [{"source": "graph.jsonl", "line": 29, "reason": "the subject has no id"}]


def test_an_index_made_from_a_graph_is_extended_and_built_again_without_it(settings: Settings, tmp_path: Path) -> None:
    source = write(tmp_path / "graph.jsonl", GRAPH)
    first = indexed(settings, source)
    source.unlink()
    full = indexed(settings, None, None, full=True)
    assert (full.version, full.changed, full.counts) == (2, True, first.counts)
    request = IndexRequest("people", None, add_strategies=("bridge-lexical",))
    extended = run_index(settings, request, DirectRunner())
    assert (extended.version, extended.reused) == (3, ["graph", "relations", "lexical-plain"])
    with open_index("people", settings=settings) as opened:
        assert opened.session.published.manifest.source == str(source)
        assert opened.session.published.manifest.counts == first.counts


def test_a_corpus_replaces_a_graph_and_a_graph_a_corpus(settings: Settings, tmp_path: Path) -> None:
    corpus, graph = write(tmp_path / "corpus.jsonl", CORPUS), write(tmp_path / "graph.jsonl", GRAPH)
    counts = [
        indexed(settings, source, kind, replaces=True).counts  # type: ignore[arg-type]
        for source, kind in ((graph, "graph"), (corpus, "corpus"), (graph, "graph"))
    ]
    assert [(one["passages"], one["entities"] > 0) for one in counts] == [(0, True), (1, True), (0, True)]
    assert counts[0] == counts[2]
    assert counts[0] != counts[1]


def test_another_graph_or_corpus_replaces_a_graph_only_when_told_to_and_few_relations_go(
    settings: Settings, tmp_path: Path
) -> None:
    towns: list[dict[str, object]] = [
        {"subject": {"id": f"t{number}"}, "predicate": "lies in", "object": {"id": f"c{number}"}}
        for number in range(20)
    ]
    graph, other = write(tmp_path / "graph.jsonl", towns), write(tmp_path / "other.jsonl", GRAPH)
    indexed(settings, graph)
    kinds: tuple[SourceKind, ...] = ("graph", "corpus")
    for kind in kinds:
        with pytest.raises(LossRefusedError, match=r"other.jsonl is not what index 'people' was made from .*--replace"):
            indexed(settings, other, kind)
    with pytest.raises(LossRefusedError, match=r"7 of 20 relations of .*graph.jsonl in index 'people' would be"):
        indexed(settings, write(graph, towns[7:]))
    assert indexed(settings, graph, allows_deletions=True).counts["relations"] == 13
    assert indexed(settings, other, replaces=True).counts["relations"] == 7


def test_vectors_of_passages_go_and_come_with_the_corpus(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path / "root", strategies=("dense-ann", "naive-vector"), keep_versions=1)
    corpus, graph = write(tmp_path / "corpus.jsonl", CORPUS), write(tmp_path / "graph.jsonl", GRAPH)
    found = []
    for source, kind in ((corpus, "corpus"), (graph, "graph"), (corpus, "corpus")):
        indexed(settings, source, kind, replaces=True)  # type: ignore[arg-type]
        with open_index("people", settings=settings) as opened:
            vectors = opened.session.published.manifest.vectors
            answer = opened.ask("Who worked with Ada Lovelace?", strategy="dense-ann")
            found.append((sorted(vectors), [passage["id"] for passage in answer.passages]))
        assert run_verify(settings, "people").ok
    assert found == [(["entity", "passage"], ["a"]), (["entity"], []), (["entity", "passage"], ["a"])]


def test_a_graph_that_holds_nothing_is_refused_in_one_sentence(settings: Settings, tmp_path: Path) -> None:
    for content in ("", "\n\n"):
        (tmp_path / "graph.jsonl").write_text(content)
        with pytest.raises(SourceError, match=r"(is empty; name a file|holds no statement; at least one is needed)"):
            indexed(settings, tmp_path / "graph.jsonl")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"source": Path("c.jsonl"), "graph": "g.jsonl"}, "an index is made from one of them"),
        ({"graph": "g.jsonl", "extractor": "rules"}, "nothing is extracted from it"),
        ({"source": Path("c.jsonl"), "graph_sources": Path("t.jsonl")}, "texts for nodes need their graph"),
        ({}, "name a SOURCE"),
    ],
)
def test_wrong_usage_is_said(wrong: dict[str, Path | str], said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        index_command(index="people", **wrong)  # type: ignore[arg-type]


def test_names_and_ids_of_the_graph_lead_to_its_nodes(settings: Settings, tmp_path: Path) -> None:
    indexed(settings, write(tmp_path / "graph.jsonl", GRAPH))
    with open_index("people", settings=settings) as opened:
        mills = opened.graph.find_entities("mill")
        assert [(entity.id, entity.key, entity.type) for entity in mills] == [
            (node_id("m1"), "mill #m1", "Part"),
            (node_id("m2"), "mill #m2", "Building"),
        ]
        assert [entity.name for entity in opened.graph.find_entities("1815")] == []
        own = opened.graph.find_entities("Charles Babbage")[0]
        arrays = opened.session.published.artefact(RELATIONS)
        number = opened.session.published.artefact(BIPARTITE).number_of[own.key]
        assert number not in arrays.indices[arrays.indptr[number] : arrays.indptr[number + 1]]
        assert arrays.labels_from(number, number) == ()
        around = opened.graph.traverse(own.id)
        assert [(reached.entity.id, reached.hop) for reached in around] == [(node_id("p1"), 1), (node_id("t1"), 1)]
        assert opened.graph.expand([node_id("m2")], 1) == {node_id("m2"): 0, node_id("e2"): 1}
        assert opened.graph.connect("Mill", "Windmill").paths[0].text == "Mill <--[part of]-- Windmill"


def test_nodes_are_never_said_to_be_merged(settings: Settings, tmp_path: Path) -> None:
    indexed(settings, write(tmp_path / "graph.jsonl", GRAPH))

    def told(a: str, b: str) -> tuple[bool, str]:
        found = explain(a, b, read_name_records(Layout(settings.root), "people", keys_of(a, b)))
        return found.same, found.reason

    assert told("Ada Lovelace", "ada lovelace")[0]
    assert told("Ada Lovelace", "Charles Babbage") == (
        False,
        "they are two nodes of the graph that this index was made from, and nodes are never merged",
    )
    assert told("Mill", "Windmill") == (
        False,
        "the graph that this index was made from has no node, or several, of the name 'Mill'",
    )


def test_every_strategy_finds_no_passage_and_none_fails(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path / "root", strategies=tuple(STRATEGIES))
    indexed(settings, write(tmp_path / "graph.jsonl", GRAPH))
    with open_index("people", settings=settings) as opened:
        for strategy in STRATEGIES:
            for question in ("Where was Charles Babbage born?", "what is it"):
                answer = opened.ask(question, strategy=strategy)
                assert (strategy, answer.answer or "", list(answer.passages)) == (strategy, "", [])


def test_a_real_graph_keeps_the_ids_that_its_questions_name(shared_data: Path, tmp_path: Path) -> None:
    settings = Settings(root=tmp_path / "root", strategies=("graph-search",))
    report = indexed(settings, shared_data / "orkg" / "triples.jsonl")
    assert (report.counts["entities"], report.counts["relations"]) == (4336, 4488)
    with (shared_data / "orkg" / "questions.jsonl").open(encoding="utf-8") as file:
        golden = {triple for line in file for triple in json.loads(line)["golden_triples"]}
    with open_index("people", settings=settings) as opened:
        rows = opened.sql(
            "SELECT format('({}:{}, {}, {}:{})', a.node_id, s.name, r.relation, b.node_id, t.name) AS triple "
            "FROM relations AS r "
            "JOIN entities AS s ON s.entity_id = r.source_id JOIN nodes AS a ON a.entity_id = r.source_id "
            "JOIN entities AS t ON t.entity_id = r.target_id JOIN nodes AS b ON b.entity_id = r.target_id"
        ).to_pylist()
    stated = {row["triple"] for row in rows}
    held = [triple for triple in golden if triple in stated]
    assert len(golden) - len(held) <= 1
    assert all(re.match(r"\(R\d+:", triple) for triple in held)
