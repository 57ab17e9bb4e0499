"""Whether a request names sources that go together, before anything is read.

Opens nothing: what a source holds is found out by the stage that reads it.
"""

from pathlib import Path

from polyhop.schemas.corpus import GraphServer
from polyhop.schemas.errors import SourceError
from polyhop.schemas.requests import IndexRequest


def check_sources(request: IndexRequest) -> None:
    """Makes sure that files exist, that texts for nodes come with their graph, and that a database is read as a graph.

    Raises:
        SourceError: If not.
    """
    for path in (request.source, request.graph_sources):
        if isinstance(path, Path) and not path.exists():
            raise SourceError(f"There is no file or folder {path}; check the path.")
    if isinstance(request.source, GraphServer) and request.kind == "corpus":
        raise SourceError(f"{request.source} is a graph database, not a corpus; name it with --graph (kind: graph).")
    if request.graph_sources is not None and (request.source is None or request.kind == "corpus"):
        raise SourceError(
            f"{request.graph_sources} holds texts for the nodes of a knowledge graph; name the graph, too (--graph)."
        )
