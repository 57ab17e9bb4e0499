"""The small corpus as an index in memory, and the graph of the golden vectors."""

import pytest
from memory_index import PASSAGES, MemoryIndex, graph_from

from polyhop.schemas.graph import BipartiteGraph


@pytest.fixture(scope="session")
def memory_index() -> MemoryIndex:
    """Thirteen passages: two chains of three hops, a name with two meanings, two without any name."""
    return MemoryIndex(PASSAGES)


@pytest.fixture(scope="session")
def golden_graph() -> BipartiteGraph:
    """G-SPRIG-1: alice 0, bob 1, france 2, paris 3; d4 has no entity."""
    return graph_from([{"alice": 2, "bob": 1}, {"bob": 1, "paris": 1}, {"paris": 2, "france": 1}, {"france": 1}, {}])
