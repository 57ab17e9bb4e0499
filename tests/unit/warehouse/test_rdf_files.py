"""N-Triples and Turtle as lines of a graph: labels, types, literals, blank nodes, and what is wrong with a file."""

import gzip
import sys
from pathlib import Path

import pytest

from polyhop.schemas.errors import ConfigurationError, SourceError
from polyhop.schemas.graph import Description, GraphLine, Node, Statement
from polyhop.schemas.records import BadRecord
from polyhop.warehouse.files.graph_files import read_graph
from polyhop.warehouse.files.records import MAX_RECORD_BYTES

XSD = "http://www.w3.org/2001/XMLSchema#"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
ADA, BABBAGE = "<http://x/Ada_L>", "<http://x/b>"
PREFIXES = (
    "@prefix x: <http://x/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . "
    "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
)


def read(folder: Path, text: str, name: str = "g.nt", *languages: str) -> list[GraphLine | BadRecord]:
    (folder / name).write_text(text, encoding="utf-8")
    return list(read_graph(folder / name, languages))


def values(found: list[GraphLine | BadRecord]) -> list[Node]:
    return [line.object for line in found if isinstance(line, Statement)]


def node(own_id: str) -> Node:
    return Node(own_id, "", is_literal=False)


def test_labels_and_types_describe_nodes_and_the_rest_are_statements(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        f'# a comment\n\n{ADA} <http://x/knows> {BABBAGE} .\n{ADA} {LABEL} "Ada"@en .\n{ADA} {TYPE} <http://x/C1> .\n'
        f'<http://x/knows> {LABEL} "is  acquainted\\n with" .\n<http://x/C1> {LABEL} "Person" .\n'
        f'{ADA} <http://x/p#age> "36" .',
    )
    assert found == [
        Statement(node("http://x/Ada_L"), "is acquainted with", node("http://x/b")),
        Description(Node("http://x/Ada_L", "Ada"), "001 en"),
        Description(Node("http://x/Ada_L", "", ("Person",))),
        Description(Node("http://x/knows", "is  acquainted\n with"), "000"),
        Description(Node("http://x/C1", "Person"), "000"),
        Statement(node("http://x/Ada_L"), "age", Node("", "36", is_literal=True)),
    ]


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ('"a"', Node("", "a", is_literal=True)),
        ('""', Node("", "", is_literal=True)),
        (f'"a"^^<{XSD}string>', Node("", "a", is_literal=True)),
        (f'"01"^^<{XSD}integer>', Node("", "01", is_literal=True, datatype=f"{XSD}integer")),
        (f'"nonsense"^^<{XSD}integer>', Node("", "nonsense", is_literal=True, datatype=f"{XSD}integer")),
        ('"chat"@fr-BE', Node("", "chat", is_literal=True, language="fr-BE")),
        (r'"a\"b\\c\n\u00e9"', Node("", 'a"b\\c\né', is_literal=True)),
    ],
)
@pytest.mark.parametrize("name", ["g.nt", "g.ttl"])
def test_literals_are_kept_as_written_with_datatype_and_language(
    tmp_path: Path, name: str, term: str, value: Node
) -> None:
    (found,) = values(read(tmp_path, f"{ADA} <http://x/p> {term} .\n", name))
    assert (found.name, found.is_literal, found.datatype) == (value.name, True, value.datatype)
    assert found.language == value.language.lower()


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
    lines = [f'{ADA} {LABEL} "{tag or "none"}"{"@" + tag if tag else ""} .\n' for tag in tags]
    found = [line for line in read(tmp_path, "".join(lines), "g.nt", *languages) if isinstance(line, Description)]
    assert [line.node.name for line in sorted(found, key=lambda line: line.preference)] == first
    predicate = "".join(lines).replace(ADA, "<http://x/p>") + f"{ADA} <http://x/p> {BABBAGE} ."
    *_, stated = read(tmp_path, predicate, "g.nt", *languages)
    assert isinstance(stated, Statement)
    assert stated.predicate == first[0]


def test_names_without_a_label_are_the_last_part_of_the_iri(tmp_path: Path) -> None:
    found = read(tmp_path, f"{ADA} <http://x/a%20b_c/> {BABBAGE} .\n{ADA} {TYPE} <urn:k:Big_Town> .\n")
    assert [line.predicate for line in found if isinstance(line, Statement)] == ["a b c"]
    assert [line.node.types for line in found if isinstance(line, Description)] == [("Big Town",)]


def test_odd_labels_and_types_are_relations(tmp_path: Path) -> None:
    found = read(tmp_path, f'{ADA} {LABEL} {BABBAGE} .\n{ADA} {TYPE} "Person" .\n')
    assert [(line.predicate, line.object.name) for line in found if isinstance(line, Statement)] == [
        ("label", ""),
        ("type", "Person"),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f'{ADA} <http://x/p> "open .', "Unexpected end of file at character 31"),
        (f'{ADA} <http://x/p> "a" b" .', "The subject of a triple must be an IRI or a blank node at character 35"),
        (f"{ADA} <http://x/p> .", "The object of a triple must be an IRI, a blank node or a literal at character 31"),
        (f"{ADA} .", "The predicate of a triple must be an IRI at character 18"),
        (f"{ADA} _:b {BABBAGE} .", "The predicate of a triple must be an IRI at character 18"),
        (f"{ADA} <http://x/p> {BABBAGE}", "Quads must be followed by a dot"),
        (f"{ADA} <http://x/p> {BABBAGE} . x", "The subject of a triple must be an IRI or a blank node at character 46"),
        ('"a" <http://x/p> "b" .', "The subject of a triple must be an IRI or a blank node at character 1"),
        (f"<a> <http://x/p> {BABBAGE} .", "<a> is not an absolute IRI without whitespace, quotes and brackets"),
        (f"<http://x/a b> <http://x/p> {BABBAGE} .", "<http://x/a b> is not an absolute IRI without whitespace"),
        (f"{ADA} <p> {BABBAGE} .", "<p> is not an absolute IRI"),
        (f'{ADA} <http://x/p> "a"^^<b> .', "<b> is not an absolute IRI"),
        (f"{ADA} <http://x/p> <b .", "Unexpected end of file at character 31"),
        (f"_: <http://x/p> {BABBAGE} .", "A blank node ID cannot be empty at character 1"),
        (f'{ADA} <http://x/p> "a\\u0000" .', "the value contains a NUL character at character 2"),
        (f'{ADA} <http://x/p> "\\uD800" .', "UTF-16 surrogate escape sequence"),
        (f'{ADA} <http://x/p> "\\UFFFFFFFF" .', "The escape sequence '\\UFFFFFFFF' is encoding FFFFFFFF that is not"),
        (f"<http://x/\\u0001> <http://x/p> {BABBAGE} .", "the subject contains a control character (U+0001)"),
    ],
)
def test_a_bad_line_is_set_aside_alone(tmp_path: Path, line: str, reason: str) -> None:
    good = f"{ADA} <http://x/p> {BABBAGE} .\n"
    first, bad, last = read(tmp_path, f"{good}{line}\n{good}")
    assert first == last == Statement(node("http://x/Ada_L"), "p", node("http://x/b"))
    assert isinstance(bad, BadRecord)
    assert (bad.source, bad.line) == ("g.nt", 2)
    assert bad.reason.startswith(reason)
    assert bad.excerpt


def test_bytes_that_are_not_utf_8_and_lines_that_are_too_long_are_set_aside(tmp_path: Path) -> None:
    good = f"{ADA} <http://x/p> {BABBAGE} .\n".encode()
    with (tmp_path / "g.nt").open("wb") as file:
        file.write(good + b'<http://x/a> <http://x/p> "\xff" .\n<http://x/a> <http://x/p> "')
        for _ in range(MAX_RECORD_BYTES // 2**20 + 1):
            file.write(b"x" * 2**20)
        file.write(b'" .\n' + good)
    found = list(read_graph(tmp_path / "g.nt"))
    assert [line.reason for line in found if isinstance(line, BadRecord)] == [
        "Invalid UTF-8: invalid utf-8 sequence of 1 bytes from index 0 at character 28",
        "the line is longer than 64 MB",
    ]
    assert len(values(found)) == 2


def test_packed_files_are_read(tmp_path: Path) -> None:
    text = f"{ADA} <http://x/p> {BABBAGE} .\n"
    for name in ("g.nt.gz", "g.ttl.gz"):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        assert list(read_graph(tmp_path / name)) == [Statement(node("http://x/Ada_L"), "p", node("http://x/b"))]


def test_blank_nodes_of_n_triples_keep_their_names(tmp_path: Path) -> None:
    (found,) = read(tmp_path, "_:a.1 <http://x/p> _:b .")
    assert found == Statement(node("_:a.1"), "p", node("_:b"))


def ids(folder: Path, text: str) -> set[tuple[str, str, str]]:
    found = read(folder, PREFIXES + text, "g.ttl")
    return {(s.subject.id, s.predicate, s.object.id or s.object.name) for s in found if isinstance(s, Statement)}


def test_blank_nodes_of_turtle_get_ids_from_what_is_said_of_them(tmp_path: Path) -> None:
    towns = "x:ada x:lives [ x:town x:London ; x:since [ x:year 1840 ] ] . "
    first = ids(tmp_path, towns)
    assert len(first) == 4
    assert ids(tmp_path, towns) == first
    renamed = "_:z x:year 1840 . _:y x:since _:z ; x:town x:London . x:bob x:knows [] . x:ada x:lives _:y ."
    assert first < ids(tmp_path, renamed)
    other = ids(tmp_path, towns.replace("1840", "1841"))
    assert len({a for a, _, _ in other} & {a for a, _, _ in first}) == 1  # Ada herself


def test_equal_blank_nodes_of_turtle_stay_apart(tmp_path: Path) -> None:
    found = ids(tmp_path, "x:a x:p [ x:q 1 ], [ x:q 1 ] .")
    assert len({value for own, predicate, value in found if predicate == "p"}) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("x:a x:b x:c .", "is not Turtle: line 2 cannot be read .*; fix it"),
        ('<http://x/a> <http://x/b> "open .\n', "is not Turtle: line 2 cannot be read .*; fix it"),
        ("<http://x/a> <http://x/b>", "is not Turtle: line 2 cannot be read .*; fix it"),
        ("<http://x/a>\n\n\n???", "is not Turtle: line 5 cannot be read"),
        ('<http://x/a> <http://x/b> """long\n\n', "is not Turtle: line [234] cannot be read"),
        (
            "<http://x/a> <http://x/b> " + "[ <http://x/b> " * 3000,
            "is not Turtle: line 2 cannot be read .Unexpected end",
        ),
        ("@prefix x: <http://x/> .", "holds no statement; at least one is needed"),
    ],
)
def test_a_turtle_file_that_cannot_be_used_is_refused_in_one_sentence(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(SourceError, match=said) as caught:
        read(tmp_path, f"# a comment\n{content}", "g.ttl")
    assert "\n" not in str(caught.value)


def test_relative_iris_of_turtle_do_not_depend_on_the_place_of_the_file(tmp_path: Path) -> None:
    (found,) = read(tmp_path, "<#a> <http://x/p> <b> .", "g.ttl")
    assert found == Statement(node("file:///#a"), "p", node("file:///b"))


@pytest.mark.parametrize("name", ["g.nt", "g.ttl"])
def test_a_missing_package_is_said_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for module in ("pyoxigraph",):
        monkeypatch.setitem(sys.modules, module, None)
    for module in ("rdf",):
        monkeypatch.delitem(sys.modules, f"polyhop.warehouse.files.{module}", raising=False)
    with pytest.raises(ConfigurationError, match=r"package pyoxigraph: pip install 'polyhop\[rdf\]'"):
        read(tmp_path, f"{ADA} <http://x/p> {BABBAGE} .\n", name)
