"""Engines of spreading activation: one interface, and the engine that runs on the index's own arrays.

Names are looked up and passages ranked by the strategy (qasa.py). Source: algorithms.md 1.5, 1.6.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from polyhop.schemas.ports import IndexReader
from polyhop.schemas.spreading import Activation, ChainRule, SeedRule, SpreadQuestion, SpreadRule
from polyhop.warehouse.artefacts import RELATIONS, vectors_of
from polyhop.worker.ranking.activation import find_seeds, spread
from polyhop.worker.ranking.chains import best_chains


@dataclass(frozen=True, slots=True)
class QasaRules:
    """Everything that decides what an engine returns."""

    seeds: SeedRule
    spread: SpreadRule
    chains: ChainRule


class Engine(Protocol):
    """Spreads activation; every engine gives the same for the same question."""

    def activate(self, questions: Sequence[SpreadQuestion]) -> list[Activation]:
        """One Activation per question, in order; a question does not depend on the others."""
        ...


class EmbeddedEngine:
    """Runs on the memory-mapped arrays of an open version."""

    def __init__(self, reader: IndexReader, rules: QasaRules) -> None:
        self._graph = reader.artefact(RELATIONS)
        self._vectors = np.asarray(reader.artefact(vectors_of("entity")))
        self._rules = rules

    def activate(self, questions: Sequence[SpreadQuestion]) -> list[Activation]:
        """One after the other."""
        return [self._activate(question) for question in questions]

    def _activate(self, question: SpreadQuestion) -> Activation:
        begun = time.perf_counter()
        rules = self._rules
        seeds = find_seeds(self._vectors, question, rules.seeds)
        seeded = time.perf_counter()
        start = {seed.entity: seed.activation for seed in seeds}
        entities, values = spread(self._graph, self._vectors, question.vector, start, rules.spread)
        found = best_chains(self._graph, entities, values, start, rules.chains)
        seconds = {"seed": seeded - begun, "traversal": time.perf_counter() - seeded}
        return Activation(seeds, entities, values, found.chains, found.is_cut, seconds)
