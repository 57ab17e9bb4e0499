"""Small graphs, postings and whole indexes in memory, built the plain way, and the graph of the golden vectors."""

from collections.abc import Callable

import pytest
from memory_index import PASSAGES, MemoryIndex, Passage, graph_from, lexical_from, relations_from

from polyhop.schemas.graph import BipartiteGraph, LexicalIndex, RelationGraph


@pytest.fixture(scope="session")
def make_graph() -> Callable[..., BipartiteGraph]:
    return graph_from


@pytest.fixture(scope="session")
def make_lexical() -> Callable[..., LexicalIndex]:
    return lexical_from


@pytest.fixture(scope="session")
def make_relations() -> Callable[..., RelationGraph]:
    return relations_from


@pytest.fixture(scope="session")
def corpus() -> tuple[Passage, ...]:
    """Thirteen passages: two chains of three hops, a name with two meanings, two without any name."""
    return PASSAGES


@pytest.fixture(scope="session")
def memory_index() -> MemoryIndex:
    return MemoryIndex(PASSAGES)


@pytest.fixture(scope="session")
def golden_graph() -> BipartiteGraph:
    """G-SPRIG-1: alice 0, bob 1, france 2, paris 3; d4 has no entity."""
    return graph_from([{"alice": 2, "bob": 1}, {"bob": 1, "paris": 1}, {"paris": 2, "france": 1}, {"france": 1}, {}])
