"""N-Triples, line after line, and Turtle, parsed whole by rdflib, as lines of a graph.

Memory grows with the predicates and classes alone, whose labels may stand anywhere: the file is read three times,
for
their ids, for their labels, and for the triples. A line that is not a triple becomes a BadRecord. Imports rdflib,
whose
grammar of terms this uses. Source: RDF 1.1 N-Triples (2014).
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rdflib
from rdflib.plugins.parsers.ntriples import r_literal, r_nodeid, r_tail, r_uriref, r_wspace, r_wspaces, unquote

from polyhop.schemas.errors import SourceError
from polyhop.schemas.graph import (
    RDF_TYPE,
    RDFS_LABEL,
    XSD,
    Description,
    GraphLine,
    Node,
    Statement,
    label_preference,
    name_without_label,
)
from polyhop.schemas.records import BadRecord
from polyhop.schemas.text import content_hash
from polyhop.warehouse.files.records import FaultError, bad_record, check_characters, checked_name, fault_words
from polyhop.warehouse.files.sources import MAX_RECORD_BYTES, Line, encoding_fault, open_bytes, read_lines, size_words

# Source: reference/graphs.md; RDF Schema 1.1 (2014), sections 3.3 and 3.6.

Triple = tuple[str, str, Node]
"""Subject and predicate by id (an IRI, or `_:` and the name of a blank node), and an object; literals have no id."""


def literal(value: str, datatype: str, language: str) -> Node:
    """A literal; a plain one and one of xsd:string are the same. Source: RDF 1.1 Concepts (2014), section 3.3."""
    return Node(
        "", value, (), is_literal=True, datatype="" if datatype == f"{XSD}string" else datatype, language=language
    )


def node(own_id: str) -> Node:
    """An IRI or a blank node."""
    return Node(own_id, "", (), is_literal=False)


def is_label(triple: Triple) -> bool:
    """Whether a triple says what its subject is called."""
    return triple[1] == RDFS_LABEL and triple[2].is_literal is True


def is_type(triple: Triple) -> bool:
    """Whether a triple says of which class its subject is."""
    return triple[1] == RDF_TYPE and not triple[2].is_literal


class Vocabulary:
    """What predicates and classes are called: by their label, in the most preferred language, or by their IRI."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._languages = languages
        self._labels: dict[str, tuple[str, str]] = {}

    def add(self, triples: Iterable[Triple]) -> None:
        """Takes up the labels among these triples; their order does not matter."""
        for own_id, _, label in filter(is_label, triples):
            try:
                name = checked_name("label", " ".join(label.name.split()))
            except FaultError:
                continue  # the triple itself is refused when it is read
            found = (label_preference(label.language, self._languages), name)
            if name and found < self._labels.get(own_id, (chr(0x10FFFF), "")):
                self._labels[own_id] = found

    def name_of(self, own_id: str) -> str:
        """The name of a predicate or class."""
        return self._labels[own_id][1] if own_id in self._labels else name_without_label(own_id)

    def line(self, triple: Triple) -> GraphLine:
        """What a triple says.

        Raises:
            FaultError: If an id, a name or a value cannot be stored.
        """
        subject, predicate, value = triple
        checked_name("subject", subject)
        if is_label(triple):
            check_characters("label", value.name)
            named = Node(subject, value.name)
            return Description(named, label_preference(value.language, self._languages))
        if not value.is_literal:
            checked_name("object", value.id)
        if is_type(triple):
            return Description(Node(subject, "", (checked_name("type", self.name_of(value.id)),)))
        check_characters("value", value.name)
        return Statement(node(subject), checked_name("predicate", self.name_of(predicate)), value)


_NOT_IN_AN_IRI = re.compile(r"[\s<>\"]")
_TYPE, _LABEL = (f"<{iri}>".encode() for iri in (RDF_TYPE, RDFS_LABEL))


def ntriples_lines(path: Path, languages: Sequence[str] = ()) -> Iterator[GraphLine | BadRecord]:
    """The lines of a file with one triple a line; comments and empty lines are skipped."""
    vocabulary = _vocabulary(path, languages)
    with open_bytes(path) as stream:
        for line in read_lines(stream):
            try:
                triple = _triple_of(line)
                if triple is not None:
                    yield vocabulary.line(triple)
            except Exception as error:  # noqa: BLE001 - one odd line must not end the reading of a file
                excerpt = line.data.decode("utf-8", "surrogateescape")
                yield bad_record(path.name, line.number, fault_words(error), excerpt)


def _vocabulary(path: Path, languages: Sequence[str]) -> Vocabulary:
    """The names of all predicates and classes."""
    used = _used_ids(path)
    vocabulary = Vocabulary(languages)
    with open_bytes(path) as stream:
        for line in read_lines(stream):
            tokens = line.data.split(None, 2)
            if len(tokens) > 2 and tokens[1] == _LABEL and _node_id(tokens[0]) in used:
                vocabulary.add(_label_of(line))
    return vocabulary


def _used_ids(path: Path) -> set[str]:
    """Ids of predicates and classes, of lines that may yet prove to be bad."""
    tokens: set[bytes] = set()
    with open_bytes(path) as stream:
        for line in read_lines(stream):
            parts = line.data.split(None, 2)
            if len(parts) > 2:
                tokens.add(parts[1])
                if parts[1] == _TYPE:
                    tokens.add(parts[2].split(None, 1)[0].rstrip(b"."))
    return {_node_id(token) for token in tokens}


def _node_id(token: bytes) -> str:
    text = token.decode("utf-8", "replace").removeprefix("<").removesuffix(">")
    try:
        return _unescaped(text, "IRI")
    except FaultError:
        return text  # its line is refused when it is read


def _label_of(line: Line) -> list[Triple]:
    try:
        triple = _triple_of(line)
    except FaultError:
        return []
    return [triple] if triple is not None and is_label(triple) else []


def _triple_of(line: Line) -> Triple | None:
    """The triple of a line, None for a comment or an empty one."""
    if line.is_too_long:
        raise FaultError(f"the line is longer than {size_words(MAX_RECORD_BYTES)}")
    try:
        text = line.data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise FaultError(f"the line is {encoding_fault(error)}") from error
    return _Reading(text).triple()


class _Reading:
    """A line that is read from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def triple(self) -> Triple | None:
        self._passes(r_wspace)
        if not self._rest(1) or self._next("#"):
            return None
        subject = self._iri("subject") or self._blank_node("subject")
        if not subject:
            raise FaultError("the subject is neither an IRI in <> nor a blank node")
        self._after("subject", "predicate")
        predicate = self._iri("predicate")
        if not predicate:
            raise FaultError("the predicate is not an IRI in <>")
        self._after("predicate", "object")
        value = self._object()
        if not self._passes(r_tail):
            raise FaultError("there is no full stop after the object")
        if self._rest(1):
            raise FaultError(f"something follows the full stop: {self._rest(20)}")
        return subject, predicate, value

    def _after(self, term: str, following: str) -> None:
        has_space = self._passes(r_wspaces)
        if not self._rest(1) or self._next(". ") or self._rest(2) == ".":
            raise FaultError(f"there is no {following}")
        if not has_space:
            raise FaultError(f"there is no whitespace after the {term}")

    def _object(self) -> Node:
        own_id = self._iri("object") or self._blank_node("object")
        if own_id:
            return node(own_id)
        if not self._next('"'):
            raise FaultError("the object is neither an IRI in <>, a blank node nor a literal in quotes")
        match = r_literal.match(self._text, self._at)
        if match is None:
            raise FaultError("the quotes of the object are not balanced")
        self._at = match.end()
        value, language, datatype = match.groups()
        return literal(
            _unescaped(value, "object"), _checked_iri(datatype, "datatype") if datatype else "", language or ""
        )

    def _iri(self, term: str) -> str:
        if not self._next("<"):
            return ""
        match = r_uriref.match(self._text, self._at)
        if match is None:
            raise FaultError(f"the {term} is not an absolute IRI in <>")
        self._at = match.end()
        return _checked_iri(match.group(1), term)

    def _blank_node(self, term: str) -> str:
        if not self._next("_:"):
            return ""
        match = r_nodeid.match(self._text, self._at)
        if match is None:
            raise FaultError(f"the {term} is a blank node without a name")
        self._at = match.end()
        return match.group()

    def _passes(self, pattern: "re.Pattern[str]") -> bool:
        """Goes on past what the pattern matches here, if anything."""
        match = pattern.match(self._text, self._at)
        start, self._at = self._at, match.end() if match else self._at
        return self._at > start

    def _next(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _rest(self, count: int) -> str:
        return self._text[self._at : self._at + count]


def _checked_iri(text: str, term: str) -> str:
    """An IRI with its escapes resolved; rdflib's grammar lets whitespace and brackets before the first colon pass."""
    if _NOT_IN_AN_IRI.search(text):
        raise FaultError(f"the IRI of the {term} contains whitespace, a quote or a bracket")
    return _unescaped(text, term)


def _unescaped(text: str, term: str) -> str:
    if "\\" not in text:
        return text
    try:
        return unquote(text)
    except (ValueError, OverflowError) as error:
        raise FaultError(f"the {term} has an escape that is no character") from error


# Source: RDF 1.1 Turtle (2014); reference/graphs.md.

MAX_TURTLE_BYTES = 256 * 1024 * 1024
"""Chosen: some 3 million triples, for which rdflib needs about 4 GB."""

ROUNDS = 8
"""How many triples away something may be that gives a blank node its id; chosen: deeper nesting is rare, and a limit
keeps an id from changing with edits far away."""

_BASE = "file:///"
_WHY = re.compile(r"Bad syntax \((.*)\) at \^ in:", re.DOTALL)


def turtle_lines(path: Path, languages: Sequence[str] = ()) -> Iterator[GraphLine | BadRecord]:
    """The lines of a Turtle file."""
    triples = _with_stable_ids(_parsed(path))
    vocabulary = Vocabulary(languages)
    vocabulary.add(triples)
    for triple in triples:
        try:
            yield vocabulary.line(triple)
        except Exception as error:  # noqa: BLE001 - one odd triple must not end the reading of a file
            subject, predicate, value = triple
            yield bad_record(path.name, 0, fault_words(error), f"{subject} {predicate} {value.id or value.name}")


def _parsed(path: Path) -> "rdflib.Graph":
    with open_bytes(path) as stream:
        data = stream.read(MAX_TURTLE_BYTES + 1)
    if len(data) > MAX_TURTLE_BYTES:
        raise SourceError(
            f"{path} is larger than {size_words(MAX_TURTLE_BYTES)}, and Turtle can only be read whole; convert it to "
            "N-Triples (.nt), which is read line by line."
        )
    graph = rdflib.Graph()
    with _literals_as_written():
        try:
            graph.parse(data=data + b"\n", format="turtle", publicID=_BASE)  # its parser needs a last line end
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise SourceError(f"{path} is not Turtle: line {line} is not UTF-8; fix it.") from error
        except Exception as error:  # rdflib's parser may fail in any way on what is not Turtle
            found = _WHY.search(str(error))
            why = " ".join((found[1] if found else type(error).__name__).split())
            raise SourceError(
                f"{path} is not Turtle: line {_line_of(error)} cannot be read ({why}); fix it."
            ) from error
    return graph


def _line_of(error: Exception) -> int:
    """The line where rdflib's parser gave up: its own count is wrong at the end of a file, and often missing."""
    line, frame = 1, error.__traceback__
    while frame is not None:
        text, position = (frame.tb_frame.f_locals.get(name) for name in ("argstr", "i"))
        if isinstance(text, str) and isinstance(position, int) and position >= 0:
            line = text.count("\n", 0, position) + 1
        frame = frame.tb_next
    return line


@contextmanager
def _literals_as_written() -> Iterator[None]:
    """Keeps rdflib from rewriting literals ("01" as "1"), and from logging those that do not fit their datatype."""
    log = logging.getLogger("rdflib.term")
    before = rdflib.NORMALIZE_LITERALS, log.level
    rdflib.NORMALIZE_LITERALS = False
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        rdflib.NORMALIZE_LITERALS = before[0]
        log.setLevel(before[1])


def _with_stable_ids(graph: "rdflib.Graph") -> list[Triple]:
    names = _blank_node_ids(list(graph))

    def own_id(term: Any) -> str:
        return names[term] if isinstance(term, rdflib.BNode) else str(term)

    def value_of(term: Any) -> Node:
        if isinstance(term, rdflib.Literal):
            return literal(str(term), str(term.datatype or ""), term.language or "")
        return node(own_id(term))

    return [(own_id(subject), str(predicate), value_of(value)) for subject, predicate, value in graph]


def _blank_node_ids(triples: Sequence[tuple[Any, Any, Any]]) -> Mapping[Any, str]:
    """`_:` and a hash of what is said of each blank node, up to ROUNDS triples away; equal ones are numbered.

    Cost: O(ROUNDS * triples of blank nodes). Source: colour refinement, as in Hogan (2017), "Canonical Forms for
    Isomorphic and Equivalent RDF Graphs".
    """
    around: dict[Any, list[tuple[str, str, Any]]] = {}
    for subject, predicate, value in triples:
        if isinstance(subject, rdflib.BNode):
            around.setdefault(subject, []).append((">", str(predicate), value))
        if isinstance(value, rdflib.BNode):
            around.setdefault(value, []).append(("<", str(predicate), subject))
    colours: dict[Any, str] = dict.fromkeys(around, "")
    for _ in range(ROUNDS):
        colours = {blank: content_hash(*_described(said, colours)) for blank, said in around.items()}
    ids: dict[Any, str] = {}
    seen: Counter[str] = Counter()
    for blank, colour in colours.items():
        seen[colour] += 1
        ids[blank] = f"_:{colour[:16]}" + (f".{seen[colour]}" if seen[colour] > 1 else "")
    return ids


def _described(said: Iterable[tuple[str, str, Any]], colours: Mapping[Any, str]) -> list[str]:
    """What is said of a blank node, sorted; other blank nodes by their colour, which is empty at first."""
    return sorted(
        f"{way}{predicate} {colours[other] if other in colours else other.n3()}" for way, predicate, other in said
    )
