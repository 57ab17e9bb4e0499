"""Knowledge graphs in files as a stream of statements: the registry of formats, and JSON lines of triples.

A value is plain, or an object {value, datatype?, language?}. A line that is not a statement becomes a BadRecord.
Source: architecture.md 9.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import cast

from polyhop.schemas.errors import ConfigurationError, install_words
from polyhop.schemas.graph import GraphLine, Statement, StatementNode
from polyhop.schemas.records import BadRecord
from polyhop.warehouse.files.records import (
    FaultError,
    Row,
    check_characters,
    check_source,
    checked_name,
    guarded,
    kind_of,
    refuse_texts,
    suffix_of,
    usable,
)
from polyhop.warehouse.files.rows import json_lines

GraphReader = Callable[[Path, Sequence[str]], Iterator[GraphLine | BadRecord]]

GRAPHS: Mapping[str, str] = {
    ".jsonl": "graph_files:json_statements",
    ".jsonl.gz": "graph_files:json_statements",
    ".nt": "rdf:ntriples_lines",
    ".nt.gz": "rdf:ntriples_lines",
    ".ttl": "rdf:turtle_lines",
    ".ttl.gz": "rdf:turtle_lines",
}
"""Formats of graphs, by ending: a reader of (file, preferred languages of labels), in a module here."""


def read_graph(source: Path, languages: Sequence[str] = ()) -> Iterator[GraphLine | BadRecord]:
    """Yields the lines of a graph in the order of the file; memory does not grow with its size.

    Raises:
        SourceError: At once if the file cannot be read at all; while iterating if it breaks off or is empty.
        ConfigurationError: If its format needs a package that is not installed.
    """
    check_source(source, GRAPHS, accepts_folder=False)
    return guarded(source, graph_reader(source)(source, languages), "statement")


def graph_reader(source: Path) -> GraphReader:
    """The reader of a file's format; raises ConfigurationError if it needs a package that is not installed."""
    try:
        return cast("GraphReader", resolve_name(f"polyhop.warehouse.files.{GRAPHS[suffix_of(source)]}"))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyoxigraph":
            raise
        message = f"{source} can only be read with the package pyoxigraph; {install_words('rdf')}."
        raise ConfigurationError(message) from error


def described_graphs() -> str:
    """The graph formats in words: `.jsonl(.gz)`."""
    return ", ".join(
        f"{ending}(.gz)" if f"{ending}.gz" in GRAPHS else ending for ending in GRAPHS if not ending.endswith(".gz")
    )


def json_statements(path: Path, _languages: Sequence[str] = ()) -> Iterator[Statement | BadRecord]:
    """The statements of a file with one triple a line; empty lines are skipped."""
    is_first = True
    for row in json_lines(path):
        if is_first and isinstance(row, Row):
            refuse_texts(path, row.fields)
            is_first = False
        yield row if isinstance(row, BadRecord) else usable(row, path.name, _statement)


def _statement(row: Row, _source: str) -> Statement:
    node, predicate = row.fields.get("subject"), row.fields.get("predicate")
    if node is None:
        raise FaultError("missing subject")
    if not isinstance(node, Mapping):
        raise FaultError(f"the subject is not an object with an id but {kind_of(node)}")
    subject = StatementNode(
        _id("subject", node), _text("name of the subject", node.get("name")), _types("subject", node)
    )
    if predicate is None or predicate == "":
        raise FaultError("missing predicate")
    name = checked_name("predicate", predicate)
    if not name.strip():
        raise FaultError("the predicate is empty")
    return Statement(subject, name, _object(row.fields))


def _object(fields: Mapping[str, object]) -> StatementNode:
    """A node with its own id, or a value: a plain one, or an object that says that it is one."""
    node = fields.get("object")
    if node is None:
        raise FaultError("missing object")
    if not isinstance(node, Mapping):
        return StatementNode("", _text("object", node), is_literal=True)
    # Whether it says that it is a value, its datatype and its language. Source: algorithms.md 4.3.
    marked = node.get("literal")
    if marked is not None and not isinstance(marked, bool):
        raise FaultError(f"'literal' of the object is not true or false but {kind_of(marked)}")
    stated = {name: node[name] for name in ("datatype", "language") if node.get(name) is not None}
    tags = {name: checked_name(f"{name} of the object", value) for name, value in stated.items()}
    is_literal = True if marked is None and stated else marked
    name = node.get("name") if node.get("name") is not None else node.get("value")
    if is_literal and node.get("id") is None:
        if name is None:
            raise FaultError("the object has neither an id nor a value")
        own_id = ""
    else:
        own_id = _id("object", node)
    return StatementNode(own_id, _text("name of the object", name), _types("object", node), is_literal, **tags)


def _id(end: str, node: Mapping[str, object]) -> str:
    if node.get("id") is None:
        raise FaultError(f"the {end} has no id")
    own_id = checked_name(f"id of the {end}", node["id"])
    if not own_id.strip():
        raise FaultError(f"the id of the {end} is empty")
    return own_id


def _text(what: str, value: object) -> str:
    """A name or value as written; numbers, true and false as JSON has them."""
    if value is None:
        return ""
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    if not isinstance(value, str):
        raise FaultError(f"the {what} is not a string but {kind_of(value)}")
    check_characters(what, value)
    return value


def _types(end: str, node: Mapping[str, object]) -> tuple[str, ...]:
    types = node.get("types")
    if types is None:
        return ()
    listed = [types] if isinstance(types, str) else types
    if not isinstance(listed, list):
        raise FaultError(f"the types of the {end} are not a list but {kind_of(types)}")
    names = (checked_name(f"type of the {end}", name) for name in listed)
    return tuple(dict.fromkeys(name for name in names if name.strip()))
