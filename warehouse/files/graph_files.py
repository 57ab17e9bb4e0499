"""A knowledge graph in a file as a stream of lines: the registry of graph formats, and the front of their readers.

Imports a reader when a file of its ending is read. Compares no statements: the same one may come twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import cast

from polyhop.schemas.corpus import BadRecord
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.statements import GraphLine
from polyhop.warehouse.files.sources import check_source, guarded, suffix_of

GraphReader = Callable[[Path, Sequence[str]], Iterator[GraphLine | BadRecord]]

GRAPHS: Mapping[str, str] = {
    ".jsonl": "graph_lines:json_statements",
    ".jsonl.gz": "graph_lines:json_statements",
    ".nt": "ntriples:ntriples_lines",
    ".nt.gz": "ntriples:ntriples_lines",
    ".ttl": "turtle:turtle_lines",
    ".ttl.gz": "turtle:turtle_lines",
}
"""Formats of graphs, by ending: a reader of (file, preferred languages of labels), in a module beside this one."""


def read_graph(source: Path, languages: Sequence[str] = ()) -> Iterator[GraphLine | BadRecord]:
    """Yields the lines of a graph in the order of the file; memory does not grow with its size, but for Turtle.

    Args:
        source: A file of a known format.
        languages: Tags of preferred languages of labels, lower case.

    Raises:
        SourceError: At once if the file cannot be read at all; while iterating if it breaks off or is empty.
        ConfigurationError: If its format needs a package that is not installed.
    """
    check_source(source, GRAPHS, accepts_folder=False)
    return guarded(source, _reader(source)(source, languages), "statement")


def _reader(source: Path) -> GraphReader:
    try:
        return cast("GraphReader", resolve_name(f"polyhop.warehouse.files.{GRAPHS[suffix_of(source)]}"))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rdflib":
            raise
        raise ConfigurationError(
            f"{source} can only be read with the package rdflib: pip install 'polyhop[rdf]'."
        ) from error


def described_graphs() -> str:
    """The graph formats in words: `.jsonl(.gz)`."""
    return ", ".join(
        f"{ending}(.gz)" if f"{ending}.gz" in GRAPHS else ending for ending in GRAPHS if not ending.endswith(".gz")
    )
