"""Turtle as lines of a graph: the file is parsed whole by rdflib, so that its size is limited.

Blank nodes, which have no lasting names in Turtle, get ids from what the graph says of them. Source: RDF 1.1 Turtle
(2014); decisions/0016-rdf-and-neo4j-graphs.md.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rdflib

from polyhop.schemas.corpus import BadRecord
from polyhop.schemas.errors import SourceError
from polyhop.schemas.ids import content_hash
from polyhop.schemas.statements import GraphLine, Node
from polyhop.warehouse.files.lines import open_bytes, size_words
from polyhop.warehouse.files.rdf import Triple, Vocabulary, literal, node
from polyhop.warehouse.files.records import bad_record, fault_words

MAX_TURTLE_BYTES = 256 * 1024 * 1024
"""Chosen: some 3 million triples, for which rdflib needs about 4 GB."""

ROUNDS = 8
"""How many triples away something may be that gives a blank node its id; chosen: deeper nesting is rare, and a limit
keeps an id from changing with edits far away."""

_BASE = "file:///"
_WHY = re.compile(r"Bad syntax \((.*)\) at \^ in:", re.DOTALL)


def turtle_lines(path: Path, languages: Sequence[str] = ()) -> Iterator[GraphLine | BadRecord]:
    """The lines of a Turtle file.

    Raises:
        SourceError: If it is not Turtle, with the number of the line, or too large.
    """
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
