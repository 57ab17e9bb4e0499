"""Every Cypher statement is named once, used somewhere and accepted by a real Neo4j."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from graph_fixture import connect_to

from polyhop.schemas.ports import GRAPH_KINDS
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection, entity_label, file_of
from polyhop.warehouse.statements import CYPHER_FOLDER, activation_query, cypher_statements

PROJECT = Path(__file__).resolve().parents[2]
FILES = sorted(path.stem for path in CYPHER_FOLDER.glob("*.cypher"))
NOT_EXPLAINED = {"activation"}  # its pieces are explained together
VALUES: dict[str, Any] = {
    "index": "towns",
    "name": "polyhop_towns",
    "options": {
        "indexConfig": {
            "vector.dimensions": 2,
            "vector.similarity_function": "cosine",
            "vector.quantization.enabled": False,
        }
    },
    "seconds": 1,
    "record": {},
    "rows": [],
    "ids": [],
    "predicates": [],
    "label": "Entity_0",
    "probe": [1.0],
    "names": [],
    "keys": [],
    "folded": "",
    "vector": [1.0],
    "vector_index": "none",
    "seed_score": "question",
    "k_per_name": 1,
    "k_fetch": 1,
    "threshold": 0.01,
    "decay": 0.7,
    "is_gated": True,
    "needs_embedding": True,
    "is_per_edge": False,
    "k_chains": 1,
    "max_length": 4,
    "max_paths": 1,
}


@pytest.fixture(scope="module")
def connection(neo4j_server: Any) -> Iterator[Neo4jConnection]:
    opened = connect_to(neo4j_server)
    yield opened
    opened.close()


@pytest.mark.parametrize("file", FILES)
def test_every_cypher_statement_is_used(file: str) -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (PROJECT / "warehouse").rglob("*.py"))
    of_kinds = {
        f"{verb}_{kind}"
        for kind in GRAPH_KINDS
        if file_of(kind) == file
        for verb in ("stored", "read", "write", "delete")
    }
    unused = [name for name in cypher_statements(file) if f'"{name}"' not in sources and name not in of_kinds]
    assert unused == []
    assert of_kinds <= cypher_statements(file).keys()


@pytest.mark.parametrize("file", FILES)
def test_cypher_names_are_not_used_twice_and_say_what_they_are_for(file: str) -> None:
    text = (CYPHER_FOLDER / f"{file}.cypher").read_text(encoding="utf-8")
    names = re.findall(r"^// name: (\w+)$", text, re.MULTILINE)
    assert names == list(cypher_statements(file))
    assert all(body.startswith("// ") for body in cypher_statements(file).values())


@pytest.mark.neo4j
@pytest.mark.parametrize("file", [file for file in FILES if file not in NOT_EXPLAINED])
def test_neo4j_accepts_every_statement(connection: Neo4jConnection, file: str) -> None:
    for text in cypher_statements(file).values():
        statement = text.replace("{label}", entity_label("towns"))
        names = re.findall(r"\$\(?(\w+)", statement)
        connection.alter("EXPLAIN " + statement, {name: VALUES[name] for name in names})


@pytest.mark.neo4j
@pytest.mark.parametrize(("steps", "length"), [(0, 1), (1, 2), (3, 4), (4, 6)])
def test_neo4j_accepts_the_whole_query(connection: Neo4jConnection, steps: int, length: int) -> None:
    text = activation_query(steps, length)
    names = re.findall(r"\$(\w+)", text)
    connection.alter("EXPLAIN " + text, {name: VALUES[name] for name in names})
    assert text.count("UNWIND state AS st\n    RETURN") == steps
