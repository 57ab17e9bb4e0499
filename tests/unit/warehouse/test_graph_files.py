"""Knowledge graphs in files, triples and RDF: what a line may hold, and what is wrong with those of no use."""

import gzip
import json
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from polyhop.schemas.errors import ConfigurationError, SourceError
from polyhop.schemas.graph import Description, Statement, StatementNode
from polyhop.schemas.records import GraphServer, source_of
from polyhop.warehouse.files.corpora import read_corpus, read_graph_sources
from polyhop.warehouse.files.graph_files import read_graph
from polyhop.warehouse.files.records import MAX_RECORD_BYTES

ADA = {"id": "Q1", "name": "Ada Lovelace", "types": ["Person", "Writer"]}
TRIPLE = {"subject": ADA, "predicate": "p", "object": "o"}
TEXT = {"id": "a", "title": "Ada", "text": "Ada wrote notes."}

XSD = "http://www.w3.org/2001/XMLSchema#"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
A, P, B = "<http://x/Ada_L>", "<http://x/p>", "<http://x/b>"
A_P_B = f"{A} {P} {B} .\n"


def node(own_id: str) -> StatementNode:
    return StatementNode(own_id, "", is_literal=False)


STATED = Statement(node("http://x/Ada_L"), "p", node("http://x/b"))


def write(path: Path, *lines: object) -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return path


def read(folder: Path, text: str, name: str = "g.nt", *languages: str) -> list[Any]:
    return list(read_graph(write(folder / name, text), languages))


@pytest.mark.parametrize(
    ("object_", "node"),
    [
        ("1815", StatementNode("", "1815", is_literal=True)),
        (1.5, StatementNode("", "1.5", is_literal=True)),
        (False, StatementNode("", "false", is_literal=True)),
        (
            {"value": "1815", "datatype": "xsd:year"},
            StatementNode("", "1815", (), is_literal=True, datatype="xsd:year"),
        ),
        ({"name": 1815, "literal": True}, StatementNode("", "1815", is_literal=True)),
        ({"value": "chat", "language": "fr"}, StatementNode("", "chat", (), is_literal=True, language="fr")),
        ({"id": "L1", "name": "1815", "literal": True}, StatementNode("L1", "1815", is_literal=True)),
        ({"id": 2, "name": "Charles Babbage", "types": None}, StatementNode("2", "Charles Babbage")),
        ({"id": "N", "name": "n", "types": ["B", "A", "B", ""]}, StatementNode("N", "n", ("B", "A"))),
    ],
)
def test_an_object_is_a_node_or_a_value(tmp_path: Path, object_: object, node: StatementNode) -> None:
    ada = StatementNode("Q1", "Ada Lovelace", ("Person", "Writer"))
    assert list(read_graph(write(tmp_path / "g.jsonl", {**TRIPLE, "object": object_}))) == [Statement(ada, "p", node)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at character 2"),
        ({"subject": None}, "missing subject"),
        ({"subject": "Q1"}, "the subject is not an object with an id but a string"),
        ({"subject": {"name": "Ada"}}, "the subject has no id"),
        ({"subject": {"id": " "}}, "the id of the subject is empty"),
        ({"subject": {"id": "a\nb"}}, "the id of the subject contains a control"),
        ({"subject": {"id": 1, "types": {}}}, "the types of the subject are not a list"),
        ({"subject": {"id": 1, "types": [{}]}}, "the type of the subject is neither a"),
        ({"subject": {"id": 1, "name": "a\0"}}, "the name of the subject contains a NUL"),
        ({"predicate": None}, "missing predicate"),
        ({"predicate": "  "}, "the predicate is empty"),
        ({"object": None}, "missing object"),
        ({"predicate": ["p"]}, "the predicate is neither a string nor a whole number"),
        ({"object": ["a"]}, "the object is not a string but a list"),
        ({"object": {"literal": True}}, "the object has neither an id nor a value"),
        ({"object": {"id": 1, "literal": 1}}, "'literal' of the object is not true"),
        ({"object": {"id": 1, "name": {}}}, "the name of the object is not a string"),
    ],
)
def test_what_is_wrong_with_a_line(tmp_path: Path, change: str | dict[str, Any], reason: str) -> None:
    line = change
    if not isinstance(line, str):
        line = json.dumps({name: one for name, one in (TRIPLE | line).items() if one is not None})
    first, bad = read(tmp_path, f"{json.dumps(TRIPLE)}\n{line}", "g.jsonl")
    assert (type(first), bad.source, bad.line, bad.excerpt) == (Statement, "g.jsonl", 2, line)
    assert bad.reason.startswith(reason)


@pytest.mark.parametrize(
    ("name", "content"), [("g.jsonl.gz", f"\n{json.dumps(TRIPLE)}\n\n"), ("g.nt.gz", A_P_B), ("g.ttl.gz", A_P_B)]
)
def test_packed_files_are_read_and_empty_lines_skipped(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(content.encode()))
    assert [type(found) for found in read_graph(tmp_path / name)] == [Statement]


@pytest.mark.parametrize("before", [[], ["{"], [""]])
def test_texts_are_no_graph(tmp_path: Path, before: list[str]) -> None:
    with pytest.raises(SourceError, match=r"x\.jsonl holds texts, not triples .*; name it without --graph"):
        list(read_graph(write(tmp_path / "x.jsonl", *before, TEXT)))
    assert len(list(read_graph(write(tmp_path / "x.jsonl", TRIPLE, TEXT)))) == 2


@pytest.mark.parametrize("before", [[], ["{"]])
def test_triples_are_no_corpus_and_no_texts_for_nodes(tmp_path: Path, before: list[str]) -> None:
    for texts_of in (read_corpus, read_graph_sources):
        with pytest.raises(SourceError, match=r"x\.jsonl holds triples of a knowledge graph, .*; name it with --graph"):
            list(texts_of(write(tmp_path / "x.jsonl", *before, TRIPLE)))
        assert len(list(texts_of(write(tmp_path / "x.jsonl", {**TRIPLE, "text": "a p o"}, TRIPLE)))) == 2


@pytest.mark.parametrize("name", ["g.nt", "g.ttl.gz"])
def test_rdf_is_no_corpus(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match="is a knowledge graph, not a corpus; name it with --graph"):
        read_corpus(write(tmp_path / name, "x"))


@pytest.mark.parametrize("address", ["neo4j://ada:hush-hush@db:7687", "bolt://hush-hush@db"])
def test_addresses_of_databases_are_told_from_files_and_refused_with_a_password(address: str) -> None:
    assert source_of("bolt+s://db:7687") == GraphServer("bolt+s://db:7687")
    assert [source_of(text) for text in ("a/b.jsonl", "s3://a/b")] == [Path("a/b.jsonl"), Path("s3://a/b")]
    with pytest.raises(ConfigurationError, match="set NEO4J_USER and NEO4J_PASSWORD") as caught:
        source_of(address)
    assert "hush" not in str(caught.value)


def test_labels_and_types_describe_nodes_and_the_rest_are_statements(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        f'# a comment\n\n{A} <http://x/knows> {B} .\n{A} {LABEL} "Ada"@en .\n{A} {TYPE} <http://x/C1> .\n'
        f'<http://x/knows> {LABEL} "is  acquainted\\n with" .\n<http://x/C1> {LABEL} "Person" .\n'
        f'{A} <http://x/p#age> "36" .',
    )
    assert found == [
        Statement(node("http://x/Ada_L"), "is acquainted with", node("http://x/b")),
        Description(StatementNode("http://x/Ada_L", "Ada"), "001 en"),
        Description(StatementNode("http://x/Ada_L", "", ("Person",))),
        Description(StatementNode("http://x/knows", "is  acquainted\n with"), "000"),
        Description(StatementNode("http://x/C1", "Person"), "000"),
        Statement(node("http://x/Ada_L"), "age", StatementNode("", "36", is_literal=True)),
    ]


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ('"a"', StatementNode("", "a", is_literal=True)),
        (f'"a"^^<{XSD}string>', StatementNode("", "a", is_literal=True)),
        (f'"nonsense"^^<{XSD}integer>', StatementNode("", "nonsense", is_literal=True, datatype=f"{XSD}integer")),
        ('"chat"@fr-BE', StatementNode("", "chat", is_literal=True, language="fr-be")),
        (r'"a\"b\\c\n\u00e9"', StatementNode("", 'a"b\\c\né', is_literal=True)),
    ],
)
@pytest.mark.parametrize("name", ["g.nt", "g.ttl"])
def test_literals_keep_their_datatype_and_language(tmp_path: Path, name: str, term: str, value: StatementNode) -> None:
    (found,) = read(tmp_path, f"{A} {P} {term} .\n", name)
    assert found.object == value


@pytest.mark.parametrize(
    ("languages", "first"),
    [
        (("en",), ["en", "en-gb", "none", "de", "fr"]),
        (("fr", "en"), ["fr", "en", "en-gb", "none", "de"]),
        ((), ["none", "de", "en", "en-gb", "fr"]),
    ],
)
def test_labels_are_preferred_by_language(tmp_path: Path, languages: tuple[str, ...], first: list[str]) -> None:
    tags = ["de", "", "en-gb", "fr", "en"]
    lines = [f'{A} {LABEL} "{tag or "none"}"{"@" + tag if tag else ""} .\n' for tag in tags]
    found = [line for line in read(tmp_path, "".join(lines), "g.nt", *languages) if isinstance(line, Description)]
    assert [line.node.name for line in sorted(found, key=lambda line: line.preference)] == first
    for order in permutations(lines):
        *_, stated = read(tmp_path, "".join(order).replace(A, P) + A_P_B, "g.nt", *languages)
        assert stated.predicate == first[0]


def test_names_without_a_label_are_the_last_part_of_the_iri(tmp_path: Path) -> None:
    stated, described = read(tmp_path, f"{A} <http://x/a%20b_c/> {B} .\n{A} {TYPE} <urn:k:Big_Town> .\n")
    assert (stated.predicate, described.node.types) == ("a b c", ("Big Town",))


def test_odd_labels_and_types_are_relations_and_name_nothing(tmp_path: Path) -> None:
    odd = f'{A} {LABEL} {B} .\n{A} {TYPE} "Person" .\n{P} {LABEL} "  ", "a\\u0000b", {B} .\n'
    found = [line for line in read(tmp_path, odd + A_P_B, "g.ttl") if isinstance(line, Statement)]
    assert [line.predicate for line in found] == ["label", "type", "label", "p"]
    assert [line.object.name for line in found] == ["", "Person", "", ""]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f'{A} {P} "open .', "Unexpected end of file at character 31"),
        (f"{A} {P} .", "The object of a triple must be an IRI, a blank node or a literal at character 31"),
        (f"<a> {P} {B} .", "<a> is not an absolute IRI without whitespace, quotes and brackets"),
        (f"{A} <p> {B} .", "<p> is not an absolute IRI"),
        (f'{A} {P} "a\\u0000" .', "the value contains a NUL character at character 2"),
        (f'{A} {LABEL} "a\\u0000" .', "the label contains a NUL character at character 2"),
        (f'{A} {P} "\\uD800" .', "UTF-16 surrogate escape sequence"),
        (f'{A} {P} "\\UFFFFFFFF" .', "The escape sequence '\\UFFFFFFFF' is encoding FFFFFFFF that is not"),
        (f"<http://x/\\u0001> {P} {B} .", "the subject contains a control character (U+0001)"),
    ],
)
def test_a_bad_line_is_set_aside_alone(tmp_path: Path, line: str, reason: str) -> None:
    first, bad, last = read(tmp_path, f"{A_P_B}{line}\n{A_P_B}")
    assert first == last == STATED
    assert (bad.source, bad.line, bad.reason[: len(reason)]) == ("g.nt", 2, reason)
    assert bad.excerpt


def test_bytes_that_are_not_utf_8_and_lines_that_are_too_long_are_set_aside(tmp_path: Path) -> None:
    long = b'"' + b"x" * MAX_RECORD_BYTES + b'" .\n'
    (tmp_path / "g.nt").write_bytes(f'{A_P_B}{A} {P} "'.encode() + b'\xff" .\n' + long + A_P_B.encode())
    lines: list[Any] = list(read_graph(tmp_path / "g.nt"))
    invalid = "Invalid UTF-8: invalid utf-8 sequence of 1 bytes from index 0 at character 32"
    assert lines[::3] == [STATED, STATED]
    assert [bad.reason for bad in lines[1:3]] == [invalid, "the line is longer than 64 MB"]


def ids(folder: Path, text: str) -> set[tuple[str, str, str]]:
    found = read(folder, f"@prefix x: <http://x/> .\n{text}", "g.ttl")
    return {(s.subject.id, s.predicate, s.object.id or s.object.name) for s in found if isinstance(s, Statement)}


def test_blank_nodes_of_turtle_get_ids_from_what_is_said_of_them(tmp_path: Path) -> None:
    towns = "x:ada x:lives [ x:town x:London ; x:since [ x:year 1840 ] ] . "
    first = ids(tmp_path, towns)
    assert (len(first), ids(tmp_path, towns)) == (4, first)
    renamed = "_:z x:year 1840 . _:y x:since _:z ; x:town x:London . x:bob x:knows [] . x:ada x:lives _:y ."
    assert first < ids(tmp_path, renamed)
    other = ids(tmp_path, towns.replace("1840", "1841"))
    assert len({a for a, _, _ in other} & {a for a, _, _ in first}) == 1  # Ada herself
    equal = ids(tmp_path, "x:a x:p [ x:q 1 ], [ x:q 1 ] .")
    assert len({value for _, predicate, value in equal if predicate == "p"}) == 2


def test_relative_iris_do_not_depend_on_the_folder_and_named_blank_nodes_keep_their_names(tmp_path: Path) -> None:
    assert read(tmp_path, f"<#a> {P} <b> .", "g.ttl") == [Statement(node("file:///#a"), "p", node("file:///b"))]
    assert read(tmp_path, f"_:a.1 {P} _:b .") == [Statement(node("_:a.1"), "p", node("_:b"))]


@pytest.mark.parametrize("name", ["g.nt", "g.ttl"])
def test_a_missing_package_is_said_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    monkeypatch.delitem(sys.modules, "polyhop.warehouse.files.rdf", raising=False)
    with pytest.raises(ConfigurationError, match="package pyoxigraph; install the extra 'rdf': uv sync"):
        read(tmp_path, A_P_B, name)
