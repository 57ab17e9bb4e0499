"""N-Triples and Turtle, by pyoxigraph, as lines of a graph.

Memory grows with the predicates, the classes and the blank nodes of Turtle alone: labels may stand anywhere, so the
file is read three times, for ids, for their labels, and for the triples. A line of N-Triples that is not a triple
becomes a BadRecord. Measured: decision 0016. Source: RDF 1.1 N-Triples and Turtle (2014); reference/graphs.md.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, parse
from pyoxigraph import Triple as QuotedTriple

from polyhop.schemas.errors import SourceError
from polyhop.schemas.graph import (
    RDF_TYPE,
    RDFS_LABEL,
    XSD,
    Description,
    GraphLine,
    Statement,
    StatementNode,
    label_preference,
    name_without_label,
)
from polyhop.schemas.records import BadRecord
from polyhop.schemas.text import content_hash
from polyhop.warehouse.files import records

# Source: reference/graphs.md; RDF Schema 1.1 (2014), sections 3.3 and 3.6.

Triple = tuple[str, str, StatementNode]
"""Subject and predicate by id (an IRI, or `_:` and the name of a blank node), and an object; literals have no id."""


def literal(value: str, datatype: str, language: str) -> StatementNode:
    """A literal; a plain one and one of xsd:string are the same. Source: RDF 1.1 Concepts (2014), section 3.3."""
    stated = "" if datatype == f"{XSD}string" else datatype
    return StatementNode("", value, (), is_literal=True, datatype=stated, language=language)


def node(own_id: str) -> StatementNode:
    """An IRI or a blank node."""
    return StatementNode(own_id, "", (), is_literal=False)


def is_label(triple: Triple) -> bool:
    """Returns whether a triple states the label of its subject."""
    return triple[1] == RDFS_LABEL and triple[2].is_literal is True


class Vocabulary:
    """Names of predicates and classes: their label in the most preferred language, or their IRI."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._languages = languages
        self._labels: dict[str, tuple[str, str]] = {}

    def add(self, triples: Iterable[Triple]) -> None:
        """Takes up the labels among these triples; their order does not matter."""
        for own_id, _, label in filter(is_label, triples):
            with suppress(records.FaultError):  # the triple itself is refused when it is read
                name = records.checked_name("label", " ".join(label.name.split()))
                found = (label_preference(label.language, self._languages), name)
                if name and found < self._labels.get(own_id, (chr(0x10FFFF), "")):
                    self._labels[own_id] = found

    def name_of(self, own_id: str) -> str:
        """The name of a predicate or class."""
        return self._labels[own_id][1] if own_id in self._labels else name_without_label(own_id)

    def line(self, triple: Triple) -> GraphLine:
        """Converts a triple; raises FaultError if an id, a name or a value cannot be stated."""
        subject, predicate, value = triple
        records.checked_name("subject", subject)
        if is_label(triple):
            records.check_characters("label", value.name)
            named = StatementNode(subject, value.name)
            return Description(named, label_preference(value.language, self._languages))
        if not value.is_literal:
            records.checked_name("object", value.id)
        if predicate == RDF_TYPE and not value.is_literal:
            return Description(StatementNode(subject, "", (records.checked_name("type", self.name_of(value.id)),)))
        records.check_characters("value", value.name)
        return Statement(node(subject), records.checked_name("predicate", self.name_of(predicate)), value)


Term = NamedNode | BlankNode | Literal | QuotedTriple
Found = tuple[int, str, Quad | records.FaultError]
"""Number and text of a line (0 and "" in Turtle), and its triple or what is wrong with it."""

ROUNDS = 8
"""How many triples away something may be that gives a blank node its id; chosen: deeper nesting is rare, and a limit
keeps an id from changing with edits far away."""

_NOT_IN_AN_IRI = re.compile(r"[\s<>\"]")
_BASE = "file:///"
_POSITION = re.compile(r"^Parser error .*?: | \(line \d+\)$", re.DOTALL)


def ntriples_lines(path: Path, languages: Sequence[str] = ()) -> Iterator[GraphLine | BadRecord]:
    """The lines of a file with one triple a line; comments and empty lines are skipped."""
    return _lines(path, languages, _ntriples)


def turtle_lines(path: Path, languages: Sequence[str] = ()) -> Iterator[GraphLine | BadRecord]:
    """The lines of a Turtle file."""
    yield from _lines(path, languages, partial(_turtle, names=_blank_node_names(path)))


def _lines(
    path: Path, languages: Sequence[str], read: Callable[[Path], Iterator[Found]]
) -> Iterator[GraphLine | BadRecord]:
    used: set[str] = set()
    for _, _, quad in read(path):
        if isinstance(quad, Quad):
            used.add(quad.predicate.value)
            if quad.predicate.value == RDF_TYPE:
                used.add(_node(quad.object).id)
    vocabulary = Vocabulary(languages)
    for _, _, quad in read(path):
        if isinstance(quad, Quad) and quad.predicate.value == RDFS_LABEL and _node(quad.subject).id in used:
            vocabulary.add([_triple(quad)])
    for number, text, quad in read(path):
        try:
            if isinstance(quad, records.FaultError):
                raise quad
            yield vocabulary.line(_checked(_triple(quad)))
        except Exception as error:  # noqa: BLE001 - one odd triple must not end the reading of a file
            yield records.bad_record(path.name, number, records.fault_words(error), text or str(quad))


def _ntriples(path: Path) -> Iterator[Found]:
    with records.open_bytes(path) as stream:
        for line in records.read_lines(stream):
            text = line.data.decode("utf-8", "surrogateescape")
            if line.is_too_long:
                yield (
                    line.number,
                    text,
                    records.FaultError(f"the line is longer than {records.size_words(records.MAX_RECORD_BYTES)}"),
                )
                continue
            try:
                for quad in list(parse(line.data, RdfFormat.N_TRIPLES, lenient=True)):
                    yield line.number, text, quad
            except SyntaxError as error:
                yield line.number, text, records.FaultError(f"{_said(error)} at character {error.offset}")


def _turtle(path: Path, names: Mapping[str, str]) -> Iterator[Found]:
    """The triples of Turtle; blank nodes by these names of their numbers in the file, or by their numbers.

    The parser gives those without a label other ids with every reading.
    """
    named: dict[str, BlankNode] = {}

    def renamed(term: Any) -> Any:
        if not isinstance(term, BlankNode):
            return term
        if term.value not in named:
            named[term.value] = BlankNode(names.get(str(len(named)), str(len(named))))
        return named[term.value]

    with records.open_bytes(path) as stream:
        try:
            for quad in parse(stream, RdfFormat.TURTLE, base_iri=_BASE, lenient=True):
                yield 0, "", Quad(renamed(quad.subject), quad.predicate, renamed(quad.object))
        except SyntaxError as error:
            message = f"{path} is not Turtle: line {error.lineno} cannot be read ({_said(error)}); fix it."
            raise SourceError(message) from error


def _said(error: SyntaxError) -> str:
    """Message of the parser, without position and invisible characters."""
    return "".join(filter(str.isprintable, " ".join(_POSITION.sub("", str(error.msg)).split())))


def _triple(quad: Quad) -> Triple:
    return _node(quad.subject).id, quad.predicate.value, _node(quad.object)


def _checked(triple: Triple) -> Triple:
    for iri in (triple[0], triple[1], triple[2].id or triple[2].datatype or _BASE):
        if ":" not in iri or _NOT_IN_AN_IRI.search(iri):
            shown = "".join(filter(str.isprintable, iri))[:200]
            raise records.FaultError(f"<{shown}> is not an absolute IRI without whitespace, quotes and brackets")
    return triple


def _node(term: Term) -> StatementNode:
    if isinstance(term, Literal):
        return literal(term.value, "" if term.language else term.datatype.value, term.language or "")
    if isinstance(term, QuotedTriple):
        return node(str(term))  # refused as no IRI
    return node(f"_:{term.value}" if isinstance(term, BlankNode) else term.value)


def _blank_node_names(path: Path) -> Mapping[str, str]:
    """For each blank node by its number a hash of what is said of it up to ROUNDS triples away; equal ones are counted.

    Cost: O(ROUNDS * triples of blank nodes). Source: colour refinement, as in Hogan (2017), "Canonical Forms for
    Isomorphic and Equivalent RDF Graphs".
    """
    around: dict[str, set[tuple[str, str]]] = {}
    for _, _, quad in _turtle(path, {}):
        if isinstance(quad, Quad):
            for way, end, other in ((">", quad.subject, quad.object), ("<", quad.object, quad.subject)):
                if isinstance(end, BlankNode):
                    around.setdefault(str(end), set()).add((way + quad.predicate.value, str(other)))
    colours = dict.fromkeys(around, "")
    for _ in range(ROUNDS):  # what is said of each, sorted; other blank nodes by their colour, which is empty at first
        colours = {
            blank: content_hash(*sorted(f"{way} {colours.get(other, other)}" for way, other in said))
            for blank, said in around.items()
        }
    seen: Counter[str] = Counter()
    names: dict[str, str] = {}
    for blank, colour in colours.items():
        seen[colour] += 1
        names[blank.removeprefix("_:")] = colour[:16] + (f".{seen[colour]}" if seen[colour] > 1 else "")
    return names
