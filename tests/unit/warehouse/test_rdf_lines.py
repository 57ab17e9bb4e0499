"""RDF triples as lines of a graph: which is a label, which a class, and what things are called."""

import pytest

from polyhop.schemas.graph import RDF_TYPE, RDFS_LABEL, XSD, Description, Statement
from polyhop.warehouse.files.rdf import Triple, Vocabulary, literal, node
from polyhop.warehouse.files.records import FaultError

EX = "http://example.org/"


def label(own_id: str, text: str, language: str = "") -> Triple:
    return (own_id, RDFS_LABEL, literal(text, "", language))


def test_a_string_needs_no_datatype() -> None:
    assert literal("a", f"{XSD}string", "") == literal("a", "", "")
    assert literal("1", f"{XSD}integer", "").datatype == f"{XSD}integer"


@pytest.mark.parametrize("turn", [1, -1])
def test_a_name_is_the_label_of_the_most_preferred_language_whatever_the_order(turn: int) -> None:
    labels = [label(f"{EX}p", "Autor", "de"), label(f"{EX}p", "  written\n by ", "en"), label(f"{EX}p", "auteur", "fr")]
    vocabulary = Vocabulary(["en", "de"])
    vocabulary.add(labels[::turn])
    assert vocabulary.name_of(f"{EX}p") == "written by"


def test_a_label_that_says_nothing_or_cannot_be_stored_names_nothing() -> None:
    vocabulary = Vocabulary(["en"])
    vocabulary.add([label(f"{EX}author", "  "), label(f"{EX}author", "a\x00b"), (f"{EX}author", RDFS_LABEL, node(EX))])
    assert vocabulary.name_of(f"{EX}author") == "author"


def test_labels_and_types_describe_and_everything_else_states() -> None:
    vocabulary = Vocabulary(["en"])
    vocabulary.add([label(f"{EX}Bridge", "bridge"), label(f"{EX}spans", "spans river")])
    named, typed, stated = (
        vocabulary.line(triple)
        for triple in (
            label(f"{EX}b", "Old Bridge", "en"),
            (f"{EX}b", RDF_TYPE, node(f"{EX}Bridge")),
            (f"{EX}b", f"{EX}spans", literal("Tay", "", "")),
        )
    )
    assert isinstance(named, Description)
    assert (named.node.id, named.node.name) == (f"{EX}b", "Old Bridge")
    assert isinstance(typed, Description)
    assert tuple(typed.node.types) == ("bridge",)
    assert isinstance(stated, Statement)
    assert (stated.predicate, stated.object.name, stated.object.is_literal) == ("spans river", "Tay", True)


@pytest.mark.parametrize(
    "triple",
    [
        (f"{EX}b", f"{EX}p", literal("a\x00b", "", "")),
        label(f"{EX}b", "a\x00b"),
    ],
)
def test_what_no_table_can_hold_is_refused(triple: Triple) -> None:
    with pytest.raises(FaultError):
        Vocabulary(["en"]).line(triple)
