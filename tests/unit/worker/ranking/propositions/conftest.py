"""Small proposition graphs by name, and the judges' exact scorer of paths; nothing here computes a ranking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from memory_index import propositions_from
from numpy.typing import NDArray

from polyhop.schemas.propositions import PropositionGraph
from polyhop.worker.ranking.proposition_paths import PathSearch, PropositionIndex, PropositionPath
from polyhop.worker.ranking.proposition_walks import EdgeWeights, Similarities, weighted_graph

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class NamedGraph:
    """A graph whose propositions, entities and passages have names, numbered in ascending order of name.

    Propositions map to (passages, entities in stored order), synonyms from a pair of entities to their cosine. Texts
    of propositions are their names, so that a path's text lists them.
    """

    propositions: Mapping[str, tuple[str, str]]
    synonyms: Mapping[str, float]
    vectors: Mapping[str, Sequence[float]]
    question: Sequence[float]
    dense: Mapping[str, float]

    @property
    def names(self) -> list[str]:
        return sorted(self.propositions)

    @property
    def entities(self) -> list[str]:
        return sorted({entity for _, entities in self.propositions.values() for entity in entities.split()})

    @property
    def passages(self) -> list[str]:
        return sorted(self.dense)

    @property
    def graph(self) -> PropositionGraph:
        named, held = (
            [[numbered.index(name) for name in self.propositions[own][part].split()] for own in self.names]
            for part, numbered in ((1, self.entities), (0, self.passages))
        )
        cosines = {tuple(map(self.entities.index, pair)): cosine for pair, cosine in self.synonyms.items()}
        return propositions_from(named, held, cosines, (len(named), len(self.entities), len(self.passages)))

    @property
    def unit_vectors(self) -> Vector:
        rows = np.array([self.vectors[name] for name in self.names], dtype=np.float64)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    @property
    def unit_question(self) -> Vector:
        return np.array(self.question) / np.linalg.norm(self.question)

    def similarities(self) -> Similarities:
        dense = np.array([self.dense[passage] for passage in self.passages])
        return Similarities(self.unit_question, self.unit_vectors @ self.unit_question, dense)

    def index(self, entity_edge_factor: float = 2.0, edge_weights: EdgeWeights = "counts") -> PropositionIndex:
        graph = self.graph
        walk = weighted_graph(graph, entity_edge_factor, edge_weights)
        return PropositionIndex(graph, walk, self.unit_vectors, self.texts_of)

    def search(self, universe: str) -> PathSearch:
        """A search among some propositions; their names are one letter and a digit."""
        numbers = np.array([self.names.index(name) for name in universe.split()], dtype=np.intp)
        return PathSearch(numbers, self.unit_vectors[numbers], self.unit_question)

    def texts_of(self, numbers: Sequence[int]) -> list[str]:
        return [self.names[number] for number in numbers]

    def encode(self, texts: Sequence[str]) -> Vector:
        """The goldens' exact scorer: normalise(sum over positions i of i times the vector at i)."""
        return np.array([self._joined(text.split()) for text in texts])

    def _joined(self, names: Sequence[str]) -> Vector:
        rows = self.unit_vectors[[self.names.index(name) for name in names]]
        total = np.arange(1, len(names) + 1) @ rows
        return np.asarray(total / np.linalg.norm(total))

    def written(self, paths: Sequence[PropositionPath]) -> dict[str, float]:
        """Score by path, in order."""
        return {">".join(self.names[number] for number in path.propositions): path.score for path in paths}


def at(degrees: float) -> tuple[float, float]:
    """A vector of length 1 at an angle."""
    return float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))


@pytest.fixture(scope="session")
def make_named_graph() -> Any:
    return NamedGraph


@pytest.fixture(scope="session")
def g_prop_1() -> NamedGraph:
    """algorithms.md G-PROP-1."""
    return NamedGraph(
        {
            "p1": ("d1", "M P"),
            "p2": ("d2", "B P"),
            "p3": ("d2", "B W"),
            "p4": ("d3", "S V"),
            "p5": ("d4", "F"),
            "p6": ("d4", "F M"),
        },
        {"VW": 0.9},
        {"p1": (8, 6, 0), "p2": (3, 4, 0), "p3": (0, 12, 5), "p4": (6, 0, 8), "p5": (9, 0, -2), "p6": (4, 0, -3)},
        (2, 1, 2),
        {"d1": 0.8, "d2": 0.6, "d3": 0.5, "d4": 0.7},
    )


@pytest.fixture(scope="session")
def g_prop_4() -> NamedGraph:
    """algorithms.md G-PROP-4."""
    return NamedGraph(
        {"p1": ("d", "X"), "p2": ("d", "X Z"), "p3": ("d", "X"), "p4": ("d", "Y"), "p5": ("d", "X Y")},
        {},
        {"p1": at(30), "p2": at(-35), "p3": at(-14), "p4": at(80), "p5": at(-70)},
        (1, 0),
        {"d": 0.5},
    )


@pytest.fixture(scope="session")
def g_prop_5() -> NamedGraph:
    """algorithms.md G-PROP-5."""
    return NamedGraph({"p1": ("d", "A"), "p2": ("d", "B")}, {}, {"p1": at(10), "p2": at(50)}, (1, 0), {"d": 0.5})


@pytest.fixture(scope="session")
def g_prop_6() -> NamedGraph:
    """algorithms.md G-PROP-6."""
    return NamedGraph(
        {
            "p1": ("d1 d2", "A B"),
            "p2": ("d1", "A B"),
            "p3": ("d3", "A C"),
            "p4": ("d4", "C D"),
            "p5": ("d4", "B C"),
            "p6": ("d4", "E"),
            "p7": ("d5", "D F"),
        },
        {"AC": 0.85},
        {"p1": at(30), "p2": at(35), "p3": at(40), "p4": at(-60), "p5": at(-45), "p6": at(-42), "p7": at(80)},
        (1, 0),
        {"d1": 0.9, "d2": 0.5, "d3": 0.4, "d4": 0.7, "d5": 0.1},
    )
