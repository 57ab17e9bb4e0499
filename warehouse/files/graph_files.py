"""A knowledge graph as a stream of statements: the registry of graph formats, and the front of their readers.

Imports a reader when a file of its ending is read. Compares no statements: the same one may come twice.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import cast

from polyhop.schemas.corpus import BadRecord
from polyhop.schemas.statements import Statement
from polyhop.warehouse.files.sources import check_source, guarded, suffix_of

GraphReader = Callable[[Path], Iterator[Statement | BadRecord]]

GRAPHS: Mapping[str, str] = {
    ".jsonl": "graph_lines:json_statements",
    ".jsonl.gz": "graph_lines:json_statements",
}
"""Formats of graphs, by ending: a reader of a file, in a module beside this one."""


def read_graph(source: Path) -> Iterator[Statement | BadRecord]:
    """Yields the statements of a graph in the order of the file; memory does not grow with its size.

    Raises:
        SourceError: At once if the file cannot be read at all; while iterating if it breaks off or is empty.
    """
    check_source(source, GRAPHS, accepts_folder=False)
    read = cast("GraphReader", resolve_name(f"polyhop.warehouse.files.{GRAPHS[suffix_of(source)]}"))
    return guarded(source, read(source), "statement")


def described_graphs() -> str:
    """The graph formats in words: `.jsonl(.gz)`."""
    return ", ".join(
        f"{ending}(.gz)" if f"{ending}.gz" in GRAPHS else ending for ending in GRAPHS if not ending.endswith(".gz")
    )
