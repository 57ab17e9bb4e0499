"""Question entities: names in the question that are nodes of the graph, and where a walk starts because of them.

A name counts under its own key or its entity's. Source: algorithms.md 2.3, 2B.1, 1.4 (8).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.evidence import UNIFORM, Evidence, Fallback, QuestionNames, Seed
from polyhop.schemas.graph import Match as FoundBy
from polyhop.schemas.manifest import NEAR
from polyhop.schemas.names import name_tokens
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.query import QuestionName
from polyhop.schemas.text import norm_ws
from polyhop.warehouse.artefacts import ALIASES, EXACT_NAMES, GRAPH, NAMES, NAMESAKES, partitioned, vectors_of
from polyhop.worker.ranking.activation import Search
from polyhop.worker.ranking.pagerank import WalkSeeds
from polyhop.worker.ranking.similarity import FullSearch, PartitionedSearch, VectorSearch


class NameLookup:
    """Entities by key (folded, docs/decisions/0002) and by `norm_ws` name, else by a name merged into theirs."""

    def __init__(self, reader: IndexReader, find_exact: Callable[[str, str], Collection[int]] | None = None) -> None:
        """Takes the index, and a replacement that finds entities by folded and `norm_ws` name."""
        self._reader = reader
        self._find_exact = find_exact

    def find(self, name: QuestionName) -> tuple[FoundBy, tuple[int, ...]]:
        """Entities of the name, ascending, and the kind of match; "vector" and none without a match."""
        number_of = self._reader.artefact(GRAPH).number_of
        folded, spelt = " ".join(name_tokens(name.key)), norm_ws(name.key)
        if self._find_exact:
            exact = set(self._find_exact(folded, spelt))
        else:
            own = {number_of[folded]} if folded in number_of else set()
            exact = own.union(self._reader.artefact(EXACT_NAMES).get(spelt, ()))
        if exact:
            return "exact", tuple(sorted(exact))
        merged = number_of.get(self._reader.artefact(ALIASES).get(folded, folded))
        return ("vector", ()) if merged is None else ("alias", (merged,))


def entity_search(reader: IndexReader) -> Search | None:
    """Returns the approximate search for entities in a large version; None where search is exact."""
    large = reader.artefact(partitioned("entity"))
    return None if large is None else lambda vector, count: large.search_ahead(vector, max(NEAR, count)).result()


def passage_search(reader: IndexReader) -> VectorSearch:
    """The search among the vectors of passages: of a large version through LanceDB, of others with all of them."""
    large = reader.artefact(partitioned("passage"))
    if large is None:
        return FullSearch(np.asarray(reader.artefact(vectors_of("passage"))))
    return PartitionedSearch(large.search_ahead, large.vectors, large.first)


NODE_KINDS = {"entities": "entity", "terms": "term"}  # What one node is called, by what the keys of a graph are called.


@dataclass(frozen=True, slots=True)
class QuestionEntities:
    """Names of a question."""

    numbers: NDArray[np.intp]  # Entity numbers of the known ones, ascending, distinct.
    matched: tuple[str, ...]
    unmatched: tuple[str, ...]  # Keys that no passage mentions, ascending.
    # Shape (n,), float64, parallel to `numbers`: how likely the name means each, 1 if it means no other. As in entity
    # linking (commonness), the share of the passages that mention it.
    shares: NDArray[np.float64]


Match = Callable[[str], QuestionEntities]  # A question's text to its entities.


def match_meanings(
    meanings: Iterable[Iterable[str]],
    number_of: Mapping[str, int],
    passages: NDArray[np.integer[Any]] | NDArray[np.bool_],
) -> QuestionEntities:
    """The distinct entities of names, found by equality of labels.

    Args:
        meanings: Of each name the labels of all that it may mean; empty ones are skipped.
        number_of: Node number by label.
        passages: Shape (n,): passages of each node, or whether it has any; a label of one without is unmatched.

    Source: algorithms.md 2.3, last point; 2.13 (pruned is unmatched).
    """
    shares: dict[str, float] = {}
    unmatched: set[str] = set()
    for labels in meanings:
        known = {label: int(passages[number_of[label]]) if label in number_of else 0 for label in labels if label}
        total = sum(known.values())
        for label, count in known.items():
            if count:
                shares[label] = max(shares.get(label, 0), count / total)
            else:
                unmatched.add(label)
    numbered = sorted((number_of[label], label) for label in shares)
    return QuestionEntities(
        np.array([number for number, _ in numbered], dtype=np.intp),
        tuple(label for _, label in numbered),
        tuple(sorted(unmatched)),
        np.array([shares[label] for _, label in numbered], dtype=np.float64),
    )


def entity_matcher(reader: IndexReader) -> Match:
    """Matches names by equality of their keys; a name stands for its entity, or for all that bear it."""
    find, meanings_of, graph = reader.artefact(NAMES).find, entity_meanings(reader), reader.artefact(GRAPH)
    return lambda text: match_meanings((meanings_of(m.key) for m in find(text)), graph.number_of, graph.df)


def entity_keys(reader: IndexReader) -> Callable[[str], str]:
    """The key of a name to its entity's; a node with this key comes before every alias."""
    number_of = reader.artefact(GRAPH).number_of
    # aliases of a large version take a third of a second to read, and few questions need them
    return lambda key: key if key in number_of else reader.artefact(ALIASES).get(key, key)


def entity_meanings(reader: IndexReader) -> Callable[[str], tuple[str, ...]]:
    """The key of a name to those of all entities that it may mean: several if namesakes were separated."""
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
    """Seeds and where they come from."""

    entities: QuestionEntities
    seeds: WalkSeeds  # Of the walk.
    fallback: Fallback | None  # Replacement of a missing part; None if nothing is missing.

    def evidence(self, passage_ids: Sequence[str], keys: Sequence[str], noun: str = "entities") -> Evidence:
        """Names and seeds; a uniform start is not listed passage by passage. `noun` says what the keys are of."""
        seeds = self.seeds
        parts = [(NODE_KINDS[noun], keys, seeds.entities, seeds.entity_weights)]
        if self.fallback != UNIFORM:
            parts.append(("passage", passage_ids, seeds.passages, seeds.passage_weights))
        listed = []  # those with a weight, rounded for reading
        for kind, labels, numbers, weights in parts:
            pairs = zip(numbers.tolist(), weights.tolist(), strict=True)
            listed += [Seed(kind, labels[number], round(weight, 6)) for number, weight in pairs if weight > 0]
        names = QuestionNames(self.entities.matched, self.entities.unmatched, noun)
        return Evidence(names, tuple(sorted(listed, key=lambda seed: -seed.weight)), fallback=self.fallback)
