"""Chains: the simple paths from the seeds with the largest mean activation, and their texts.

Invariant: the list is the one that full enumeration, sorting and cutting would give, unless the search stopped at
`max_paths`. Source: algorithms.md 1.5 step 5.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import Chain, ChainRule, Hop, RelationGraph

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FoundChains:
    """Chains by descending score; `is_cut` if the search stopped before its end; `looked_at` paths were extended."""

    chains: tuple[Chain, ...]
    is_cut: bool
    looked_at: int


def best_chains(
    graph: RelationGraph, active: NDArray[np.intp], values: NDArray[np.float64], seeds: Iterable[int], rule: ChainRule
) -> FoundChains:
    """The chains of an activated subgraph, in descending order of score, without duplicates.

    Returns:
        By descending mean activation, then fewer entities, then ascending entities; relations with their labels.
    Source: algorithms.md 1.5 step 5.
    Cost: O(edges among active entities), and the paths whose bound reaches the K_c-th best: few, as measured.
    """
    cut_first = rule.dedupe == "after_limit"
    found = search_paths(graph, active, values, seeds, replace(rule, limit=rule.limit if cut_first else 0))
    kept = without_duplicates([chain.entities for chain in found.chains])
    score_of = {chain.entities: chain.score for chain in found.chains}
    chains = tuple(Chain(path, score_of[path], hops_of(graph, path)) for path in kept[: rule.limit])
    return FoundChains(chains, found.is_cut, found.looked_at)


def search_paths(
    graph: RelationGraph, active: NDArray[np.intp], values: NDArray[np.float64], seeds: Iterable[int], rule: ChainRule
) -> FoundChains:
    """As `best_chains`, duplicates included and without labels; `rule.limit` 0 stands for all."""
    from polyhop.worker.ranking.compiled_walks import search, subgraph

    starts = np.searchsorted(active, np.array(sorted(seeds), dtype=np.intp))
    edges = subgraph((graph.indptr, graph.indices), active, values)
    paths, lengths, scores, is_cut, looked_at = search(
        edges, values, starts, rule.max_length, rule.limit, rule.max_paths
    )
    order = np.lexsort((*paths.T[::-1], lengths, -np.rint(scores * 1e12)))
    chains = tuple(
        Chain(tuple(active[paths[row, : lengths[row]]].tolist()), float(scores[row])) for row in order.tolist()
    )
    return FoundChains(chains, bool(is_cut), int(looked_at))


def without_duplicates(paths: Sequence[Path]) -> list[Path]:
    """Paths without duplicates and parts of other paths, in order and direction as first seen.

    Source: algorithms.md 1.5 step 5 (i), (ii).
    """
    distinct: dict[Path, Path] = {}
    for path in paths:
        distinct.setdefault(min(path, path[::-1]), path)
    prefixes = {
        way[:length] for path in distinct.values() for way in (path, path[::-1]) for length in range(1, len(path))
    }
    return [path for path in distinct.values() if path not in prefixes and path[::-1] not in prefixes]


def hops_of(graph: RelationGraph, path: Path) -> tuple[Hop, ...]:
    """The relations between each entity of a path and the next."""
    return tuple(Hop(graph.labels_from(left, right), graph.labels_from(right, left)) for left, right in pairwise(path))


# Source: algorithms.md 1.5 step 6.


def chain_line(names: Sequence[str], hops: Sequence[Hop]) -> str:
    """`A --[rel]--> B <--[rel2 | rel3]-- C`: arrows point as the relations are stored, the forward one first."""
    parts = list(names[:1])
    for hop, name in zip(hops, names[1:], strict=True):
        if hop.forward:
            parts.append(f"--[{' | '.join(hop.forward)}]-->")
        if hop.backward:
            parts.append(f"<--[{' | '.join(hop.backward)}]--")
        parts.append(name)
    return " ".join(parts)


def context_text(chains: Sequence[str], entities: Sequence[str]) -> str:
    """Both lists under their headings; an empty one says so."""
    sections = (("Chains", chains), ("Entities", entities))
    return "\n\n".join(f"{heading}:\n" + "\n".join(lines or ("(none)",)) for heading, lines in sections)
