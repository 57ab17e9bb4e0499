"""Statements as part files: a row for each description of a node, and for each triple."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.graph import Node, Statement
from polyhop.schemas.text import entity_id, literal_id, node_id
from polyhop.tasks.graph_source.stage import NODE_PARTS, STATEMENT_PARTS, statement_tables

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
