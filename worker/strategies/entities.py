"""Question entities: names in the question that are nodes of the graph, and where a walk starts because of them.

A name counts under its own key or its entity's. Finds no names itself (the index brings the finder that built its
graph) and weighs no seeds (worker/ranking does). Source: algorithms.md 2.3, 2B.1, 1.4 (8).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.evidence import UNIFORM, Evidence, Fallback, QuestionNames, Seed
from polyhop.schemas.ports import IndexReader
from polyhop.warehouse.artefacts import ALIASES, GRAPH, NAMES, NAMESAKES
from polyhop.worker.ranking.pagerank import WalkSeeds

NODE_KINDS = {"entities": "entity", "terms": "term"}
"""What one node is called, by what the keys of a graph are called."""


@dataclass(frozen=True, slots=True)
class QuestionEntities:
    """Names of a question.

    Attributes:
        numbers: Entity numbers of the known ones, ascending, distinct.
        matched: Their keys, in the same order.
        unmatched: Keys that no passage mentions, ascending.
    """

    numbers: NDArray[np.intp]
    matched: tuple[str, ...]
    unmatched: tuple[str, ...]


class NodeMatcher:
    """Matches the labels of a question with the nodes of a graph, by equality.

    Args:
        labels: A text to the labels in it, repeated or not; empty ones are skipped.
        number_of: Node number by label.
        is_node: Shape (n,), bool: nodes that still have an edge; a label of another one is unmatched.
    """

    def __init__(
        self, labels: Callable[[str], Iterable[str]], number_of: Mapping[str, int], is_node: NDArray[np.bool_]
    ) -> None:
        self._labels = labels
        self._number_of = number_of
        self._is_node = is_node

    def match(self, text: str) -> QuestionEntities:
        """The question's distinct entities. Source: algorithms.md 2.3, last point; 2.13 (pruned is unmatched)."""
        return self.match_labels(self._labels(text))

    def match_labels(self, labels: Iterable[str]) -> QuestionEntities:
        """As `match`, for labels that are found already."""
        keys = sorted({label for label in labels if label})
        known = sorted((self._number_of[key], key) for key in keys if key in self._number_of)
        mentioned = [(number, key) for number, key in known if self._is_node[number]]
        matched = tuple(key for _, key in mentioned)
        unmatched = tuple(key for key in keys if key not in matched)
        return QuestionEntities(np.array([number for number, _ in mentioned], dtype=np.intp), matched, unmatched)


class EntityMatcher(NodeMatcher):
    """Matches names by equality of their keys; a name stands for its entity, or for all that bear it."""

    def __init__(self, reader: IndexReader) -> None:
        names, meanings_of, graph = reader.artefact(NAMES), entity_meanings(reader), reader.artefact(GRAPH)
        super().__init__(
            lambda text: (key for mention in names.find(text) for key in meanings_of(mention.key)),
            graph.number_of,
            graph.df > 0,
        )


def entity_keys(reader: IndexReader) -> Callable[[str], str]:
    """The key of a name to its entity's; a node of its own comes before every alias."""
    aliases, number_of = reader.artefact(ALIASES), reader.artefact(GRAPH).number_of
    return lambda key: key if key in number_of else aliases.get(key, key)


def entity_meanings(reader: IndexReader) -> Callable[[str], tuple[str, ...]]:
    """The key of a name to those of all entities that it may mean: several where namesakes were told apart."""
    entity_of, namesakes = entity_keys(reader), reader.artefact(NAMESAKES)
    number_of = reader.artefact(GRAPH).number_of

    def meanings(key: str) -> tuple[str, ...]:
        bearers = namesakes.get(key)
        if not bearers:
            return (entity_of(key),)
        return tuple(dict.fromkeys([*([key] if key in number_of else []), *bearers]))

    return meanings


@dataclass(frozen=True, slots=True)
class Start:
    """Seeds and where they come from.

    Attributes:
        entities: The question's.
        seeds: Of the walk.
        fallback: What took the place of a missing part; None if nothing is missing.
    """

    entities: QuestionEntities
    seeds: WalkSeeds
    fallback: Fallback | None

    def evidence(self, passage_ids: Sequence[str], keys: Sequence[str], noun: str = "entities") -> Evidence:
        """Names and seeds; a uniform start is not listed passage by passage. `noun` says what the keys are of."""
        seeds = self.seeds
        listed = [*_seeds(NODE_KINDS[noun], keys, seeds.entities, seeds.entity_weights)]
        if self.fallback != UNIFORM:
            listed += _seeds("passage", passage_ids, seeds.passages, seeds.passage_weights)
        names = QuestionNames(tuple(self.entities.matched), tuple(self.entities.unmatched), noun)
        return Evidence(names, tuple(sorted(listed, key=lambda seed: -seed.weight)), fallback=self.fallback)


def _seeds(kind: str, names: Sequence[str], numbers: NDArray[np.intp], weights: NDArray[np.float64]) -> Iterator[Seed]:
    """Those with a weight, rounded for reading."""
    for number, weight in zip(numbers.tolist(), weights.tolist(), strict=True):
        if weight > 0:
            yield Seed(kind, names[number], round(weight, 6))
