"""Small graphs in words, and what hubs are in them."""

from collections.abc import Callable

import numpy as np
import pytest

from polyhop.schemas.hubs import HubGraph
from polyhop.tasks.hubs.paths import NamedGraph


def named_graph(stated: str) -> NamedGraph:
    """Triples separated by `;`; own ids are labels, and what begins with `"` is a literal."""
    triples = [tuple(triple.split()) for triple in stated.split(";")]
    nodes = sorted({end for triple in triples for end in triple[::2]})
    predicates = sorted({triple[1] for triple in triples})
    rows = sorted((nodes.index(s), predicates.index(p), nodes.index(o)) for s, p, o in triples)
    is_literal = np.array([node.startswith('"') for node in nodes])
    return NamedGraph(HubGraph.from_triples(*np.array(rows).T, is_literal), nodes, nodes, predicates)


@pytest.fixture
def graph_of() -> Callable[[str], NamedGraph]:
    return named_graph
