"""The nodes that a SPRIG walk runs on: entities under some norm, or terms; filtered, aliased, pruned.

Walks nowhere (walks.py). The default is the index's own graph, keyed by folded names after resolution; every other norm
derives its nodes from the names as written, without resolution (docs/decisions/0002).
Source: algorithms.md 2.3, 2.4, 2.7, 7.5.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.graph import BipartiteGraph, Mention
from polyhop.schemas.names import name_tokens
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.stems import analyser_of
from polyhop.schemas.text import norm_lower, norm_simple
from polyhop.warehouse.artefacts import GRAPH, NAMES, SURFACES, lexical_of
from polyhop.worker.ranking.pruning import kept_edges
from polyhop.worker.ranking.relabelling import filtered, relabelled, term_graph
from polyhop.worker.strategies.base import Parameters
from polyhop.worker.strategies.entities import NodeMatcher, entity_keys, entity_meanings
from polyhop.worker.strategies.title_aliases import title_aliases

Label = Callable[[str], str]
"""A name or title as written to the label of its node."""

_NORMS: Mapping[str, Label] = {"none": str, "simple": norm_simple, "lower": norm_lower}
_TERMS = "plain"


class NodeParameters(Parameters):
    """What is a node of the entity graph, and which edges are walked."""

    entity_norm: Literal["key", "none", "simple", "lower"] = Field(
        "key",
        description="What makes names equal: key (Polyhop's own, resolved names; default), or of the names as written "
        "none, simple (letters and digits) or lower (case and whitespace).",
    )
    title_aliases: bool = Field(
        default=False,
        description="EL: a name that exactly one title has without its (...) stands for that title, default 0 (no).",
    )
    min_entity_len: int = Field(2, ge=0, le=1000, description="Least number of characters of a node's name, default 2.")
    min_entity_df: int = Field(1, ge=1, description="Least number of passages that mention an entity, default 1.")
    max_entity_df_ratio: float = Field(
        1.0, gt=0, le=1, description="Largest share of the passages that mention an entity, default 1."
    )
    hub_top_percent: float = Field(
        0.0, ge=0, le=100, description="PRUNE: share of the entities, those of largest df, left out in %, default 0."
    )
    edge_cap: int = Field(
        0, ge=0, description="PRUNE: passages of largest weight that an entity keeps, default 0 (all)."
    )


class TermParameters(Parameters):
    """What is a node of the term graph."""

    min_df: int = Field(3, ge=1, description="Least number of passages that contain a term, default 3.")
    max_df_ratio: float = Field(
        0.1, gt=0, le=1, description="Largest share of the passages that contain a term, default 0.1."
    )


@dataclass(frozen=True, slots=True)
class GraphNodes:
    """A graph to walk on, and how a question finds its nodes.

    Attributes:
        graph: Passages and nodes; df and weights are taken from all of it.
        kept: Shape (nnz,), bool: edges that pruning left; None for all.
        matcher: Questions to nodes.
        label: A title as written to the label under which it would be a node.
        noun: What the nodes are, for the evidence: entities or terms.
    """

    graph: BipartiteGraph
    kept: NDArray[np.bool_] | None
    matcher: NodeMatcher
    label: Label
    noun: Literal["entities", "terms"] = "entities"


def entity_nodes(reader: IndexReader, parameters: NodeParameters) -> GraphNodes:
    """Entities of an open version as nodes. Source: algorithms.md 2.3, 2.7."""
    by_key = parameters.entity_norm == "key"
    source = reader.artefact(GRAPH if by_key else SURFACES)
    label = _key_label(reader) if by_key else _NORMS[parameters.entity_norm]
    aliases = title_aliases(reader.passage_titles, label) if parameters.title_aliases else {}
    graph = _renamed(source, aliases, None if by_key else label)
    graph = filtered(graph, parameters.min_entity_len, parameters.min_entity_df, parameters.max_entity_df_ratio)
    kept = kept_edges(graph, parameters.hub_top_percent, parameters.edge_cap)
    meanings_of = entity_meanings(reader)

    def mention_labels(mention: Mention) -> Iterable[str]:
        own = meanings_of(mention.key) if by_key else (label(mention.surface),)
        return (aliases.get(name, name) for name in own)

    def title_label(title: str) -> str:
        own = label(title)
        return aliases.get(own, own)

    def labels(text: str) -> Iterable[str]:
        return chain.from_iterable(map(mention_labels, reader.artefact(NAMES).find(text)))

    return GraphNodes(graph, kept, NodeMatcher(labels, graph.number_of, _has_edge(graph, kept)), title_label)


def term_nodes(reader: IndexReader, parameters: TermParameters) -> GraphNodes:
    """Terms of an open version as nodes. Source: algorithms.md 2.4."""
    lexical = reader.artefact(lexical_of(_TERMS))
    tokens = analyser_of(_TERMS, lexical.language)
    graph = term_graph(lexical, parameters.min_df, parameters.max_df_ratio)
    matcher = NodeMatcher(tokens, graph.number_of, _has_edge(graph, None))
    return GraphNodes(graph, None, matcher, lambda title: " ".join(tokens(title)), "terms")


def _key_label(reader: IndexReader) -> Label:
    """A name's folded key, or its entity's."""
    entity_of = entity_keys(reader)
    return lambda text: entity_of(" ".join(name_tokens(text)))


def _renamed(graph: BipartiteGraph, aliases: Mapping[str, str], label: Label | None) -> BipartiteGraph:
    """The graph under labels and aliases; the same object if neither renames anything."""
    own = graph.keys if label is None else tuple(map(label, graph.keys))
    labels = tuple(aliases.get(name, name) for name in own)
    return graph if labels == graph.keys else relabelled(graph, labels)


def _has_edge(graph: BipartiteGraph, kept: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    left = graph.indices if kept is None else graph.indices[kept]
    return np.bincount(left, minlength=graph.entity_count) > 0
