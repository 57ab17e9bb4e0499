"""A graph to the tables of a version: keys, literals, types, relations, quarantine."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyhop.schemas.errors import QuarantineExceededError, SourceError
from polyhop.schemas.settings import CorpusSettings, Settings
from polyhop.schemas.text import literal_id, node_id
from polyhop.tasks.graph_source import stage
from polyhop.tasks.graph_source.stage import INGEST_GRAPH
from polyhop.tasks.stage import tables_of
from polyhop.warehouse.build import Build, start_build

pytestmark = pytest.mark.slow

Triple = tuple[object, str, object]
Ingest = Callable[..., Build]


def node(own_id: str, name: str = "", *types: str) -> dict[str, object]:
    return {"id": own_id, "name": name, "types": list(types)}


def lines(*triples: Triple) -> list[str]:
    return [json.dumps({"subject": s, "predicate": p, "object": o}) for s, p, o in triples]


@pytest.fixture
def ingest(tmp_path: Path, ingested: Callable[[Build], Build]) -> Ingest:
    """Reads lines into the tables of a build; they keep what publishing checks."""

    def run(given: list[str], **settings: Any) -> Build:
        source = tmp_path / "graph.jsonl"
        source.write_text("".join(line + "\n" for line in given), encoding="utf-8")
        corpus = CorpusSettings(**settings)
        build = Build(Settings(root=tmp_path / "root", corpus=corpus), "g", source, (), "graph")
        return ingested(build)

    return run


def rows(build: Build, query: str) -> list[tuple[object, ...]]:
    with build.tables(read_only=True) as connection:
        return connection.execute(query).fetchall()


def keys(build: Build) -> dict[object, object]:
    return dict(rows(build, "SELECT node_id, key FROM entities JOIN nodes USING (entity_id)"))  # type: ignore[arg-type]


def test_equal_names_stay_two_nodes_whose_keys_hold_their_ids(ingest: Ingest) -> None:
    build = ingest(
        lines(
            (node("1", "Shape", "A"), "p", node("2", "shape!", "A")),
            (node("3", "Form", "A"), "p", node("4", "???", "A")),
            (node("5", "Paris", "A"), "p", {"id": "6", "name": "Paris", "literal": True}),
        )
    )
    assert keys(build) == {
        "1": "shape #1",
        "2": "shape #2",
        "3": "form",
        "4": "#4",
        "5": "paris",
        "6": "paris #6",
    }
    assert rows(build, "SELECT entity_id FROM entities ORDER BY ALL") == sorted((node_id(str(n)),) for n in range(1, 7))


def test_a_value_without_an_id_is_an_entity_of_its_statement(ingest: Ingest) -> None:
    build = ingest(lines((node("1", "Ada", "A"), "born", 1815), (node("2", "Bob", "A"), "born", 1815)))
    found = rows(
        build, "SELECT entity_id, key, name, is_literal, is_named FROM entities WHERE name = '1815' ORDER BY 1"
    )
    ids = sorted(literal_id(own, "born", "", "1815") for own in ("1", "2"))
    assert found == [(one, f"1815 ={one}", "1815", True, False) for one in ids]


@pytest.mark.parametrize(
    ("triples", "is_literal"),
    [
        ([("a", "p", node("x", "2"))], True),
        ([("a", "p", node("x", "2")), ("a", "p", node("x", "2"))], True),
        ([("a", "p", node("x", "2")), ("a", "q", node("x", "2"))], False),
        ([("a", "p", node("x", "2", "T"))], False),
        ([("a", "p", node("x", "2")), ("x", "q", "1")], False),
        ([("a", "p", node("x", "2")), ("x", "q", node("x"))], False),
        ([("a", "p", {"id": "x", "literal": False})], False),
        ([("a", "p", {"id": "x", "types": ["T"], "literal": True})], True),
        ([("a", "p", {"id": "x", "datatype": "d"}), ("a", "q", node("x", "2", "T"))], True),
        ([("a", "p", {"id": "x", "literal": True}), ("x", "q", "1")], False),
    ],
    ids=str,
)
def test_what_is_a_literal(ingest: Ingest, triples: list[tuple[str, str, object]], is_literal: bool) -> None:
    build = ingest(lines(*((node(own), predicate, value) for own, predicate, value in triples)))
    query = "SELECT is_literal, is_named FROM entities JOIN nodes USING (entity_id) WHERE node_id = 'x'"
    assert rows(build, query) == [(is_literal, not is_literal)]


def test_what_most_statements_say_of_a_node_counts_and_all_its_types_are_kept(ingest: Ingest) -> None:
    build = ingest(
        lines(
            (node("1", "Ada", "B"), "p", node("1", "Countess", "A", "C")),
            (node("1", "Countess", "A"), "q", node("2")),
            (node("2", " "), "p", node("3", " ")),
        )
    )
    query = "SELECT node_id, name, type, types_json FROM entities JOIN nodes USING (entity_id) ORDER BY 1"
    assert rows(build, query) == [
        ("1", "Countess", "A", '["A","B","C"]'),
        ("2", "2", None, "[]"),
        ("3", "", None, "[]"),
    ]


def test_relations_keep_self_loops_and_predicates_as_written(ingest: Ingest) -> None:
    one, two = node("1", "Ada", "A"), node("2", "Bob", "A")
    build = ingest(lines((one, "knows", one), (one, "Knows", two), (one, "knows", two), (one, "knows", two)))
    query = "SELECT relation, norm_relation, source_id = target_id, count, confidence, extractor FROM relations"
    assert sorted(rows(build, query)) == [
        ("Knows", "knows", False, 1, None, "graph"),
        ("knows", "knows", False, 2, None, "graph"),
        ("knows", "knows", True, 1, None, "graph"),
    ]
    assert build.counts["ingest-graph"] == {
        "statements": 4,
        "quarantined": 0,
        "entities": 2,
        "literals": 0,
        "relations": 3,
        "self_loops": 1,
    }


def test_neither_the_order_of_lines_nor_the_size_of_parts_matters(
    ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = lines(
        *(
            (node(str(n), f"Node {n % 4}", f"T{n % 3}"), f"p{n % 2}", node(str(n * 7 % 10), f"N {n}"))
            for n in range(20)
        ),
        (node("1", "Node"), "year", 1815),
    )
    first = INGEST_GRAPH.contents
    assert first is not None
    whole = first(ingest(given))
    monkeypatch.setattr(stage, "LINES_PER_PART", 3)
    assert first(ingest(given[::-1])) == whole
    assert first(ingest(given[1:])) != whole


def test_unusable_lines_are_set_aside_until_they_are_too_many(ingest: Ingest) -> None:
    given = lines(*((node(str(n), "n", "A"), "p", 1) for n in range(19)))
    build = ingest([*given, '{"subject": 1}'])
    assert rows(build, "FROM quarantine") == [
        ("graph.jsonl", 20, "the subject is not an object with an id but a number", '{"subject": 1}')
    ]
    with pytest.raises(QuarantineExceededError, match=r"(?s)2 of 21 records .* graph.jsonl line 20: not JSON"):
        ingest([*given, "{", "{"])


def test_a_graph_without_a_usable_line_is_refused(ingest: Ingest) -> None:
    with pytest.raises(SourceError, match=r"no usable statement in .*graph\.jsonl; a graph needs at least one"):
        ingest(["{"], max_quarantine_share=1)


def test_the_quarantine_belongs_to_the_source_but_not_to_the_graph(ingest: Ingest) -> None:
    given = lines((node("1", "Ada", "A"), "p", 1))
    contents = INGEST_GRAPH.contents
    assert contents is not None
    clean, soiled = (
        contents(ingest(given, max_quarantine_share=1)),
        contents(ingest([*given, "{"], max_quarantine_share=1)),
    )
    assert clean["source"] != soiled["source"]
    assert (clean["entities"], clean["passages"]) == (soiled["entities"], soiled["passages"])


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        ("DELETE FROM relations", "entity_without_relation"),
        ("UPDATE entities SET is_literal = true", "relation_of_literal"),
        ("DELETE FROM nodes", "entity_without_node"),
        ("INSERT INTO nodes VALUES ('x', NULL, '[]', NULL, NULL)", "node_without_entity"),
    ],
)
def test_publishing_refuses_a_broken_graph(ingest: Ingest, broken: str, law: str) -> None:
    build = ingest(lines((node("1", "Ada", "A"), "p", node("2", "Bob", "A"))))
    with build.tables() as connection:
        connection.execute(broken)
        count = connection.execute(INGEST_GRAPH.invariants[law]).fetchone()
    assert count is not None
    assert count[0] > 0


def test_a_key_with_an_id_behind_it_never_meets_a_folded_name(ingest: Ingest) -> None:
    build = ingest(
        lines((node("1", "Ada", "A"), "p", node("2", "Ada", "A")), (node("3", "Ada #1", "A"), "p", node("4", "A", "A")))
    )
    assert keys(build) == {"1": "ada #1", "2": "ada #2", "3": "ada 1", "4": "a"}


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_n_triples_of_which_a_tenth_is_broken_stop_the_run_unless_that_is_allowed(tmp_path: Path, share: float) -> None:
    source = tmp_path / "graph.nt"
    good = [f"<http://x/{n}> <http://x/p> <http://x/{n + 1}> ." for n in range(8)]
    label = '<http://x/1> <http://www.w3.org/2000/01/rdf-schema#label> "One" .'
    source.write_text("\n".join([*good, label, '<http://x/1> <http://x/p> "open .']), encoding="utf-8")
    corpus = CorpusSettings(max_quarantine_share=share)
    build = Build(Settings(root=tmp_path / "root", corpus=corpus), "g", source, (), "graph")
    start_build(build, tables_of([INGEST_GRAPH]))
    INGEST_GRAPH.run(build, 0)
    if share < 0.1:
        with pytest.raises(QuarantineExceededError, match=r"(?s)1 of 10 records .* line 10: Unexpected end"):
            INGEST_GRAPH.finish(build)
    else:
        counts = INGEST_GRAPH.finish(build)
        assert (counts["statements"], counts["quarantined"], counts["relations"]) == (9, 1, 8)
