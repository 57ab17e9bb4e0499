"""Triples as statements: what a line may hold, and what is wrong with those that cannot be used."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from polyhop.schemas.errors import SourceError
from polyhop.schemas.graph import Node, Statement
from polyhop.schemas.records import BadRecord
from polyhop.warehouse.files.graph_files import GRAPHS, described_graphs, read_graph

ADA = {"id": "Q1", "name": "Ada Lovelace", "types": ["Person", "Writer"]}
BABBAGE = {"id": 2, "name": "Charles Babbage", "types": None}


def read(path: Path, *lines: object) -> list[Any]:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return list(read_graph(path))


def test_a_triple_of_two_nodes(tmp_path: Path) -> None:
    found = read(tmp_path / "g.jsonl", {"subject": ADA, "predicate": "knows", "object": BABBAGE})
    ada = Node("Q1", "Ada Lovelace", ("Person", "Writer"))
    assert found == [Statement(ada, "knows", Node("2", "Charles Babbage"))]


@pytest.mark.parametrize(
    ("object_", "node"),
    [
        ("1815", Node("", "1815", is_literal=True)),
        ("", Node("", "", is_literal=True)),
        (1815, Node("", "1815", is_literal=True)),
        (1.5, Node("", "1.5", is_literal=True)),
        (False, Node("", "false", is_literal=True)),
        ({"value": "1815", "datatype": "xsd:year"}, Node("", "1815", (), is_literal=True, datatype="xsd:year")),
        ({"name": 1815, "literal": True}, Node("", "1815", is_literal=True)),
        ({"value": "chat", "language": "fr"}, Node("", "chat", (), is_literal=True, language="fr")),
        ({"id": "L1", "name": "1815", "literal": True}, Node("L1", "1815", is_literal=True)),
        ({"id": "C1", "literal": False, "types": "Class"}, Node("C1", "", ("Class",), is_literal=False)),
        ({"id": "L2", "name": " "}, Node("L2", " ")),
        ({"id": "N", "name": "n", "types": ["B", "A", "B", ""]}, Node("N", "n", ("B", "A"))),
    ],
)
def test_an_object_is_a_node_or_a_value(tmp_path: Path, object_: object, node: Node) -> None:
    (found,) = read(tmp_path / "g.jsonl", {"subject": ADA, "predicate": "p", "object": object_})
    assert isinstance(found, Statement)
    assert found.object == node


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at character 2"),
        ("[1]", "not a JSON object but a list"),
        ({"predicate": "p", "object": "o"}, "there is no subject"),
        ({"subject": "Q1", "predicate": "p", "object": "o"}, "the subject is not an object with an id but a string"),
        ({"subject": {"name": "Ada"}, "predicate": "p", "object": "o"}, "the subject has no id"),
        ({"subject": {"id": " "}, "predicate": "p", "object": "o"}, "the id of the subject is empty"),
        ({"subject": {"id": "a\nb"}, "predicate": "p", "object": "o"}, "the id of the subject contains a control"),
        ({"subject": {"id": 1.5}, "predicate": "p", "object": "o"}, "the id of the subject is neither a string nor"),
        ({"subject": ADA, "object": "o"}, "there is no predicate"),
        ({"subject": ADA, "predicate": "", "object": "o"}, "there is no predicate"),
        ({"subject": ADA, "predicate": "  ", "object": "o"}, "the predicate is empty"),
        ({"subject": ADA, "predicate": ["p"], "object": "o"}, "the predicate is neither a string nor a whole number"),
        ({"subject": ADA, "predicate": "p"}, "there is no object"),
        ({"subject": ADA, "predicate": "p", "object": ["a"]}, "the object is not a string but a list"),
        ({"subject": ADA, "predicate": "p", "object": {"name": "x"}}, "the object has no id"),
        ({"subject": ADA, "predicate": "p", "object": {"literal": True}}, "the object has neither an id nor a value"),
        ({"subject": ADA, "predicate": "p", "object": {"id": 1, "literal": 1}}, "'literal' of the object is not true"),
        ({"subject": ADA, "predicate": "p", "object": {"id": 1, "name": {}}}, "the name of the object is not a string"),
        ({"subject": {"id": 1, "types": {}}, "predicate": "p", "object": 1}, "the types of the subject are not a list"),
        ({"subject": {"id": 1, "types": [{}]}, "predicate": "p", "object": 1}, "the type of the subject is neither a"),
        (
            {"subject": {"id": 1, "name": "a\0"}, "predicate": "p", "object": 1},
            "the name of the subject contains a NUL",
        ),
    ],
)
def test_what_is_wrong_with_a_line(tmp_path: Path, line: object, reason: str) -> None:
    good = {"subject": ADA, "predicate": "p", "object": "o"}
    first, bad = read(tmp_path / "g.jsonl", good, line)
    assert isinstance(first, Statement)
    assert isinstance(bad, BadRecord)
    assert (bad.source, bad.line) == ("g.jsonl", 2)
    assert bad.reason.startswith(reason)
    assert bad.excerpt == (line if isinstance(line, str) else json.dumps(line))[:200].strip()


def test_packed_files_are_read_and_empty_lines_skipped(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl.gz"
    line = json.dumps({"subject": ADA, "predicate": "p", "object": "o"})
    path.write_bytes(gzip.compress(f"\n{line}\n\n{line}\n".encode()))
    assert len(list(read_graph(path))) == 2


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("g.jsonl", b"", "is empty"),
        ("g.jsonl", b"\n\n", "holds no statement; at least one is needed"),
        ("g.csv", b"a,b\n", r"known formats are \.jsonl, \.jsonl\.gz, \.nt, \.nt\.gz, \.ttl, \.ttl\.gz"),
        ("g.jsonl.gz", b"not packed", "it is not gzip, or damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=said):
        list(read_graph(tmp_path / name))


def test_every_format_has_a_reader_and_is_described(tmp_path: Path) -> None:
    assert described_graphs() == ".jsonl(.gz), .nt(.gz), .ttl(.gz)"
    assert all(reader.count(":") == 1 and ending.startswith(".") for ending, reader in GRAPHS.items())
