"""A graph's statements as part files and as tables of a version: keys, types, relations, texts, quarantine."""

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
from polyhop.tasks.graph_source import stage
from polyhop.tasks.graph_source.stage import INGEST_GRAPH, NODE_PARTS, STATEMENT_PARTS, statement_tables
from polyhop.tasks.publish.publish import check_invariants
from polyhop.tasks.stage import tables_of
from polyhop.warehouse.build import Build, start_build
from polyhop.warehouse.statements import statement

pytestmark = pytest.mark.slow

ADA = Node("Q1", "Ada Lovelace", ("Person",))
OTHER_ADA = Node("Q2", "Ada  Lovelacé")
YEAR = Node("", "1815", is_literal=True, datatype="year")


def test_descriptions_and_triples_are_counted() -> None:
    tables = statement_tables([Statement(ADA, "Born In", YEAR), Statement(ADA, "Born In", YEAR)])
    year_id = literal_id("Q1", "Born In", "year", "1815")
    assert (tables["nodes"].schema, tables["statements"].schema) == (NODE_PARTS.arrow, STATEMENT_PARTS.arrow)
    names = ("name", "folded", "norm_name")
    ada = {**dict.fromkeys(names, "ada lovelace"), "name": "Ada Lovelace", "types": ["Person"], "is_literal": None}
    year = {**dict.fromkeys(names, "1815"), "types": [], "is_literal": True}
    rest = {"language": None, "preference": "", "uses": 2}
    assert tables["nodes"].to_pylist() == [
        {"entity_id": node_id("Q1"), "node_id": "Q1", **ada, "datatype": None, **rest},
        {"entity_id": year_id, "node_id": None, **year, "datatype": "year", **rest},
    ]
    (row,) = tables["statements"].to_pylist()
    assert tuple(row.values()) == (node_id("Q1"), year_id, "Born In", "born in", 2)


def test_a_name_is_folded_and_normalised_apart_and_its_lack_is_filled_from_the_id() -> None:
    rows = statement_tables([Statement(OTHER_ADA, "p", Node("http://x/Y_z", " "))])["nodes"].to_pylist()
    assert [(row["name"], row["folded"], row["norm_name"], row["uses"]) for row in rows] == [
        ("Ada  Lovelacé", "ada lovelace", "ada lovelacé", 1),
        ("Y z", "y z", "y z", 0),
    ]


def test_ids_of_nodes_literals_and_names_never_meet() -> None:
    assert len({node_id("a"), entity_id("a"), literal_id("a", "p", "", "a"), literal_id("a", "p", "a", "")}) == 4


_NODES = st.builds(Node, st.sampled_from(["a", "b"]), st.sampled_from(["", "A", "B"]), st.just(()))
_STATEMENTS = st.lists(st.builds(Statement, _NODES, st.sampled_from(["p", "P"]), _NODES), max_size=12)


@given(_STATEMENTS, st.randoms())
def test_the_order_of_statements_does_not_matter(statements: list[Statement], random: Random) -> None:
    shuffled = list(statements)
    random.shuffle(shuffled)

    def rows(given: list[Statement]) -> list[list[str]]:
        return [sorted(map(repr, table.to_pylist())) for table in statement_tables(given).values()]

    assert rows(shuffled) == rows(statements)


Row = dict[str, object]
Ingest = Callable[..., Build]


def node(own_id: str, name: str = "", *types: str) -> Row:
    return {"id": own_id, "name": name, "types": list(types)}


def lines(*triples: tuple[object, str, object]) -> list[str]:
    return [json.dumps({"subject": s, "predicate": p, "object": o}) for s, p, o in triples]


ADA_AND_BOB = lines((node("1", "Ada", "A"), "knows", node("2", "Bob")), (node("2", "Bob"), "age", 36))


@pytest.fixture
def ingest(tmp_path: Path) -> Ingest:
    """Reads lines of a graph, and rows of texts, into the tables of a build; they keep what publishing checks."""

    def run(given: list[str], texts: list[Row] | None = None, *, batch_size: int = 500, **settings: Any) -> Build:
        graph_file, text_file = tmp_path / "graph.jsonl", tmp_path / "texts.jsonl"
        graph_file.write_text("".join(line + "\n" for line in given), encoding="utf-8")
        text_file.write_text("".join(json.dumps(row) + "\n" for row in texts or ()), encoding="utf-8")
        chosen = Settings(root=tmp_path / "root", corpus=CorpusSettings(**settings), batch_size=batch_size)
        sources = text_file if texts is not None else None
        build = Build(chosen, "g", graph_file, (), "graph", graph_sources=sources)
        start_build(build, tables_of([INGEST_GRAPH]))
        INGEST_GRAPH.run(build, 0)
        build = build.with_counts(INGEST_GRAPH.name, INGEST_GRAPH.finish(build))
        with build.tables() as connection:
            check_invariants(connection, [INGEST_GRAPH], tables_of([INGEST_GRAPH]))
        return build

    return run


def rows(build: Build, query: str) -> list[tuple[object, ...]]:
    with build.tables(read_only=True) as connection:
        return connection.execute(query).fetchall()


def contents(build: Build) -> dict[str, str]:
    assert INGEST_GRAPH.contents is not None
    return dict(INGEST_GRAPH.contents(build))


def test_several_texts_of_a_node_and_one_text_of_several_nodes(ingest: Ingest) -> None:
    texts = [
        {"id": "1", "title": "Notes", "text": "First note.", "metadata": {"doi": "10/1"}},
        {"id": 1, "title": "Notes", "text": "Second note."},
        {"id": "2", "title": "Notes", "text": "First note.", "year": 1843},
        {"id": "2", "title": "Notes", "text": "First note.", "metadata": {"doi": "10/0"}},
        {"id": "2", "text": "Without a title."},
    ]
    build = ingest(ADA_AND_BOB, texts)
    said = [("Notes", "First note."), ("Notes", "Second note."), ("", "Without a title.")]
    ids = first, second, bare = [record_id(*one) for one in said]
    found = rows(build, "SELECT passage_id, record_id, title, text FROM passages ORDER BY text")
    assert found == [(one, one, *what) for one, what in zip(ids, said, strict=True)]
    ada, bob = node_id("1"), node_id("2")
    assert rows(build, "FROM node_passages ORDER BY ALL") == sorted(
        [(ada, first, '{"doi": "10/1"}'), (ada, second, "{}"), (bob, first, '{"doi": "10/0"}'), (bob, bare, "{}")]
    )
    assert rows(build, "SELECT title, passage_count FROM documents ORDER BY title") == [("", 1), ("Notes", 2)]
    assert rows(build, "SELECT count(*) FROM relation_sources") == [(0,)]
    counts = build.counts["ingest-graph"]
    assert [counts[name] for name in ("texts", "documents", "passages", "quarantined")] == [5, 2, 3, 0]


def test_a_long_text_is_split_and_every_piece_is_linked(ingest: Ingest) -> None:
    build = ingest(ADA_AND_BOB, [{"id": "1", "text": "One sentence. " * 40}], max_passage_characters=200)
    whole = record_id("", "One sentence. " * 40)
    linked = rows(build, "SELECT passage_id FROM node_passages ORDER BY 1")
    assert linked == rows(build, "SELECT passage_id FROM passages ORDER BY 1")
    assert len(linked) == 3
    assert all(str(passage_id).startswith(f"{whole}#") for (passage_id,) in linked)


def test_rows_of_no_node_and_rows_without_a_text_go_to_the_quarantine(ingest: Ingest) -> None:
    good: list[Row] = [{"id": "1", "text": f"Text {n}."} for n in range(60)]
    shared: Row = {"id": "9", "text": "Text 1."}
    bad: list[Row] = [{"id": "Ada", "text": "No such node."}, {"text": "No id."}, shared, {"id": "2"}]
    build = ingest(ADA_AND_BOB, [*good, *bad], max_quarantine_share=0.1)
    assert rows(build, "SELECT * EXCLUDE excerpt FROM quarantine ORDER BY line") == [
        ("texts.jsonl", 61, "the graph has no node 'Ada'"),
        ("texts.jsonl", 62, "missing id of a node: expected a field named id or _id"),
        ("texts.jsonl", 63, "the graph has no node '9'"),
        ("texts.jsonl", 64, "missing text: expected a field named text, contents, content, page_content or body"),
    ]
    assert rows(build, "SELECT count(*) FROM passages") == [(60,)]
    assert rows(build, "SELECT count(*) FROM passages WHERE text = 'No such node.'") == [(0,)]


def test_too_many_refused_rows_stop_the_run_however_large_the_graph_is(ingest: Ingest) -> None:
    graph = lines(*(({"id": str(n)}, "p", n) for n in range(100)))
    texts = [{"id": str(n), "text": f"a{n}"} for n in range(18)]
    refused = r"(?s)2 of 20 records in .*texts\.jsonl .* line 19: the graph has no"
    with pytest.raises(QuarantineExceededError, match=refused):
        ingest(graph, [*texts, {"id": "x", "text": "b"}, {"id": "y", "text": "c"}])
    with pytest.raises(SourceError, match=r"texts\.jsonl is empty"):
        ingest(ADA_AND_BOB, [])


def test_texts_change_the_passages_and_the_graph_changes_the_entities(ingest: Ingest) -> None:
    texts: list[Row] = [{"id": "1", "text": "a"}, {"id": "2", "text": "b"}]
    before = contents(ingest(ADA_AND_BOB, texts))
    assert contents(ingest(ADA_AND_BOB, texts[::-1], batch_size=1)) == before
    others = {
        "text": contents(ingest(ADA_AND_BOB, [texts[0], {"id": "2", "text": "c"}])),
        "link": contents(ingest(ADA_AND_BOB, [{"id": "2", "text": "a"}, {"id": "2", "text": "b"}])),
        "graph": contents(ingest([*ADA_AND_BOB, ADA_AND_BOB[0]], texts)),
    }
    changed = {
        name: [part for part in ("source", "passages", "entities") if other[part] != before[part]]
        for name, other in others.items()
    }
    assert changed == {"text": ["source", "passages"], "link": ["source"], "graph": ["source", "entities"]}


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        ("DELETE FROM relations", "entity_without_relation"),
        ("UPDATE entities SET is_literal = true", "relation_of_literal"),
        ("DELETE FROM nodes", "entity_without_node"),
        ("INSERT INTO nodes VALUES ('x', NULL, '[]', NULL, NULL)", "node_without_entity"),
        ("DELETE FROM entities WHERE name = 'Ada'", "node_passage_without_entity"),
        ("DELETE FROM passages", "node_passage_without_passage"),
        ("DELETE FROM node_passages", "passage_without_node"),
        ("INSERT INTO relation_sources SELECT relation_id, 'a' FROM relations", "relation_with_source"),
        ("DELETE FROM documents", "passage_without_document"),
    ],
)
def test_publishing_refuses_a_broken_graph_and_broken_links(ingest: Ingest, broken: str, law: str) -> None:
    build = ingest(ADA_AND_BOB, [{"id": "1", "text": "a"}])
    with build.tables() as connection:
        connection.execute(broken)
        connection.execute(statement("updates", "all_are_touched"))
        count = connection.execute(INGEST_GRAPH.invariants[law]).fetchone()
    assert count is not None
    assert count[0] > 0


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
    forms = {"1": "shape #1", "2": "shape #2", "3": "form", "4": "#4", "5": "paris", "6": "paris #6"}
    assert keys(build) == forms
    assert rows(build, "SELECT entity_id FROM entities ORDER BY ALL") == sorted((node_id(own),) for own in forms)
    ada = (node("1", "Ada", "A"), "p", node("2", "Ada", "A"))
    build = ingest(lines(ada, (node("3", "Ada #1", "A"), "p", node("4", "A", "A"))))  # that is no folded name
    assert keys(build) == {"1": "ada #1", "2": "ada #2", "3": "ada 1", "4": "a"}


def test_a_value_without_an_id_is_an_entity_of_its_statement(ingest: Ingest) -> None:
    ada, bob = node("1", "Ada", "A"), node("2", "Bob", "A")
    build = ingest(lines((ada, "born", 1815), (bob, "born", 1815), (ada, "wed", 1815)))
    query = "SELECT entity_id, key, name, is_literal, is_named FROM entities WHERE name = '1815' ORDER BY 1"
    ids = sorted(literal_id(*said, "", "1815") for said in (("1", "born"), ("2", "born"), ("1", "wed")))
    assert len(set(ids)) == 3
    assert rows(build, query) == [(one, f"1815 ={one}", "1815", True, False) for one in ids]


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
    first = (node("1", "Ada", "B"), "p", node("1", "Countess", "A", "C"))
    second = (node("1", "Countess", "A"), "q", node("2"))
    build = ingest(lines(first, second, (node("2", " "), "p", node("3", " "))))
    found = rows(build, "SELECT node_id, name, type, types_json FROM entities JOIN nodes USING (entity_id) ORDER BY 1")
    assert found == [("1", "Countess", "A", '["A","B","C"]'), ("2", "2", None, "[]"), ("3", "", None, "[]")]


def test_relations_keep_self_loops_and_predicates_as_written(ingest: Ingest) -> None:
    one, two = node("1", "Ada", "A"), node("2", "Bob", "A")
    build = ingest(lines((one, "knows", one), (one, "Knows", two), (one, "knows", two), (one, "knows", two)))
    query = "SELECT relation, norm_relation, source_id = target_id, count, confidence, extractor FROM relations"
    assert sorted(rows(build, query)) == [
        ("Knows", "knows", False, 1, None, "graph"),
        ("knows", "knows", False, 2, None, "graph"),
        ("knows", "knows", True, 1, None, "graph"),
    ]
    counts = {"statements": 4, "quarantined": 0, "entities": 2, "literals": 0, "relations": 3, "self_loops": 1}
    assert build.counts["ingest-graph"] == counts


def test_order_of_lines_and_size_of_parts_do_not_matter(ingest: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = [node(str(n), f"Node {n % 4}", f"T{n % 3}") for n in range(20)]
    related = [(subject, f"p{n % 2}", node(str(n * 7 % 10), f"N {n}")) for n, subject in enumerate(subjects)]
    given = lines(*related, (node("1", "Node"), "year", 1815))
    whole = contents(ingest(given))
    monkeypatch.setattr(stage, "LINES_PER_PART", 3)
    assert contents(ingest(given[::-1])) == whole
    assert contents(ingest(given[1:])) != whole


def test_unusable_lines_are_set_aside_until_they_are_too_many(ingest: Ingest) -> None:
    given = lines(*((node(str(n), "n", "A"), "p", 1) for n in range(19)))
    build = ingest([*given, '{"subject": 1}'])
    reason = "the subject is not an object with an id but a number"
    assert rows(build, "FROM quarantine") == [("graph.jsonl", 20, reason, '{"subject": 1}')]
    with pytest.raises(QuarantineExceededError, match=r"(?s)2 of 21 records .* graph.jsonl line 20: not JSON"):
        ingest([*given, "{", "{"])
    with pytest.raises(SourceError, match=r"no usable statement in .*graph\.jsonl; a graph needs at least one"):
        ingest(["{"], max_quarantine_share=1)


def test_the_quarantine_belongs_to_the_source_but_not_to_the_graph(ingest: Ingest) -> None:
    given = lines((node("1", "Ada", "A"), "p", 1))
    clean, soiled = (contents(ingest(one, max_quarantine_share=1)) for one in (given, [*given, "{"]))
    assert clean["source"] != soiled["source"]
    assert (clean["entities"], clean["passages"]) == (soiled["entities"], soiled["passages"])
