"""Spread activation as lines for a terminal: seeds, entities by their distance from a seed, chains.

Ranks nothing: everything is in the evidence of the answer, so that a stored one reads the same.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from polyhop.pages.graph import chain_edges, entity_rows
from polyhop.pages.layout import distances

WIDTH = 118
_INDENT = " " * 10
_GLUE = "\u00a0"


def activation_lines(evidence: Mapping[str, Any]) -> list[str]:
    """The activated subgraph in lines.

    Args:
        evidence: Of a strategy that spreads activation (`activations`, `seeds`, `entities`, `chains`).
    """
    lines = [
        "Activation begins at" if evidence["seeds"] else "Activation begins nowhere: no entity is like the question"
    ]
    lines += [f"  {seed['activation']:.3f}  {_plain(seed['name'])}  ({_match(seed)})" for seed in evidence["seeds"]]
    rows = entity_rows(evidence)
    if rows:
        lines.append(f"Activated entities  ({evidence['activated']} in all; these by their distance from a seed)")
        lines += _by_distance(evidence, rows)
    if evidence["chains"]:
        lines.append("Chains")
    lines += [f"  {chain['score']:.3f}  {_plain(chain['text'])}" for chain in evidence["chains"]]
    if evidence["is_cut"]:
        lines.append("  the search stopped at max_paths_enumerated, so stronger chains may exist")
    return lines


def _by_distance(evidence: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A paragraph per distance, strongest first; entities that no chain leads to come last."""
    edges = [(edge.source, edge.target) for edge in chain_edges(evidence)]
    found = distances(edges, {seed["key"]: 0 for seed in evidence["seeds"]})
    groups: dict[int | None, list[str]] = {}
    for row in rows:
        groups.setdefault(found.get(row["key"]), []).append(f"{_plain(row['name'])} {row['activation']:.3f}")
    lines = []
    for distance in sorted(groups, key=lambda hops: (hops is None, hops or 0)):
        head = f"  {_words(distance):<8}"
        lines += _wrapped(head, groups[distance])
    return lines


def _wrapped(head: str, items: Sequence[str]) -> list[str]:
    """Items behind a head, on as many lines as they need; none is broken."""
    whole = " ".join(item.replace(" ", _GLUE) + f"{_GLUE}·" for item in items).removesuffix(f"{_GLUE}·")
    lines = textwrap.wrap(
        whole,
        WIDTH,
        initial_indent=head,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in lines]


def _words(distance: int | None) -> str:
    if distance is None:
        return "others"
    return {0: "seeds", 1: "1 hop"}.get(distance, f"{distance} hops")


def _match(seed: Mapping[str, Any]) -> str:
    return f"{seed['match']}, likeness {seed['score']:.3f}" if seed["match"] == "vector" else str(seed["match"])


def _plain(text: str) -> str:
    return " ".join(text.split())
