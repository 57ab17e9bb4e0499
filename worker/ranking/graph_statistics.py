"""Figures that describe an entity-passage, term or proposition graph, and what pruning hubs would cost.

Ranks nothing. Source: algorithms.md 2.11 (graph size, gold titles among the pruned hubs), 3.3 (3).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.propositions import PropositionGraph, Rows
from polyhop.worker.ranking.pruning import hubs


def graph_statistics(graph: BipartiteGraph) -> dict[str, int]:
    """Sizes and degrees of a graph.

    Args:
        graph: Passages and the entities (or terms) they mention.

    Returns:
        nodes, edges, entities, passages, isolated_passages (without entity), and of the number of edges of an entity
        (`…_entity_degree`) and of a passage (`…_passage_degree`) the 95th percentile (`p95_`, nearest rank) and the
        largest (`max_`). Entities that no passage mentions are not nodes; degrees are 0 where there is no node.
    Source: algorithms.md 2.11.
    """
    of_entities = graph.df[graph.df > 0]
    of_passages = np.diff(graph.indptr)
    return {
        "nodes": len(of_entities) + graph.passage_count,
        "edges": len(graph.indices),
        "entities": len(of_entities),
        "passages": graph.passage_count,
        "isolated_passages": int(np.count_nonzero(of_passages == 0)),
        "p95_entity_degree": _p95(of_entities),
        "max_entity_degree": int(of_entities.max(initial=0)),
        "p95_passage_degree": _p95(of_passages),
        "max_passage_degree": int(of_passages.max(initial=0)),
    }


def proposition_statistics(graph: PropositionGraph) -> dict[str, int]:
    """Sizes of the graph over propositions.

    Args:
        graph: Propositions with their entities and passages.

    Returns:
        propositions, propositions_without_entity (found by their text alone), passages, passages_without_proposition,
        entities (that a proposition names), and edges by kind, each pair once: clique_edges (two entities that share a
        proposition), containment_edges (an entity and a passage), synonym_edges (two entities with similar names).
    Source: algorithms.md 3.3 (3).
    """
    propositions, _, passages = graph.shape
    return {
        "propositions": propositions,
        "propositions_without_entity": _empty_rows(graph.entities),
        "passages": passages,
        "passages_without_proposition": _empty_rows(graph.passage_propositions),
        "entities": graph.entity_propositions.count - _empty_rows(graph.entity_propositions),
        "clique_edges": len(graph.cliques.indices) // 2,
        "containment_edges": len(graph.passage_entities.indices),
        "synonym_edges": len(graph.synonyms.indices) // 2,
    }


def _empty_rows(rows: Rows) -> int:
    return int(np.count_nonzero(np.diff(rows.indptr) == 0))


@dataclass(frozen=True, slots=True)
class HubCoverage:
    """Gold titles among the hubs that pruning removes.

    Attributes:
        hubs: Number of entities removed.
        titles: Distinct gold titles.
        removed: Those of them that are removed, ascending.
        questions: Number of questions.
        touched: Places of the questions that lose at least one gold title, ascending.
    """

    hubs: int
    titles: int
    removed: tuple[str, ...]
    questions: int
    touched: tuple[int, ...]

    @property
    def title_share(self) -> float:
        """Share of the distinct gold titles that are removed, 0 to 1."""
        return len(self.removed) / self.titles if self.titles else 0.0

    @property
    def question_share(self) -> float:
        """Share of the questions that lose a gold title, 0 to 1."""
        return len(self.touched) / self.questions if self.questions else 0.0


def hub_coverage(graph: BipartiteGraph, gold_titles: Sequence[Collection[str]], hub_top_percent: float) -> HubCoverage:
    """What removing the top hubs takes from the questions.

    Args:
        graph: Passages and the entities they mention.
        gold_titles: For each question the labels of its gold titles, in the form of the graph's keys.
        hub_top_percent: Share of the entities that is removed, 0 to 100; see `pruning.hubs`.
    Source: algorithms.md 2.11.
    """
    pruned = {graph.keys[number] for number in hubs(graph.df, hub_top_percent).tolist()}
    distinct = {title for titles in gold_titles for title in titles}
    touched = tuple(place for place, titles in enumerate(gold_titles) if not pruned.isdisjoint(titles))
    return HubCoverage(len(pruned), len(distinct), tuple(sorted(pruned & distinct)), len(gold_titles), touched)


def _p95(degrees: NDArray[np.int64]) -> int:
    return int(np.percentile(degrees, 95, method="inverted_cdf")) if len(degrees) else 0
