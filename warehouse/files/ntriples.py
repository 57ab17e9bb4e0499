"""N-Triples as lines of a graph, one line of the file after the other, in memory that does not grow with the file.

Memory grows with the predicates and classes alone, whose labels may stand anywhere: the file is read three times, for
their ids, for their labels, and for the triples. A line that is not a triple becomes a BadRecord. Imports rdflib, whose
grammar of terms this uses. Source: RDF 1.1 N-Triples (2014).
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rdflib.plugins.parsers.ntriples import r_literal, r_nodeid, r_tail, r_uriref, r_wspace, r_wspaces, unquote

from polyhop.schemas.corpus import BadRecord
from polyhop.schemas.iris import RDF_TYPE, RDFS_LABEL
from polyhop.schemas.statements import GraphLine, Node
from polyhop.warehouse.files.lines import MAX_RECORD_BYTES, Line, encoding_fault, open_bytes, read_lines, size_words
from polyhop.warehouse.files.rdf import Triple, Vocabulary, is_label, literal, node
from polyhop.warehouse.files.records import FaultError, bad_record, fault_words

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
            if len(tokens) > 2 and tokens[1] == _LABEL and _id(tokens[0]) in used:
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
    return {_id(token) for token in tokens}


def _id(token: bytes) -> str:
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
    """The triple of a line, None for a comment or an empty one.

    Raises:
        FaultError: If it is neither.
    """
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
