"""Evidence as lines for a terminal: names, seeds, what was reached by distance, paths, notes.

Knows no strategy and ranks nothing: everything is in the evidence of the answer, so that a stored one reads the same.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from polyhop.pages.layout import distances
from polyhop.schemas.evidence import Evidence, Node, Note, QuestionNames, Seed

WIDTH = 118  # characters of a line, so that a terminal of 120 columns never wraps one; chosen
SHOWN = 10
"""Seeds, and items of a note, that are listed; the others are counted. A terminal shows some 40 lines."""

VISIBLE = 0.0005
"""Smallest weight that three digits show."""

_INDENT = " " * 10
_GLUE = "\u00a0"


def evidence_lines(evidence: Evidence, titles: Mapping[str, str]) -> list[str]:
    """The evidence in lines; empty for a ranking by words or vectors alone.

    Args:
        evidence: Of any strategy.
        titles: Of passages, by id.
    """
    lines = [_names(evidence.names)] if evidence.names else []
    if evidence.fallback:
        lines.append(f"Fallback  {evidence.fallback.text}")
    if evidence.seeds:
        lines.append("The search began at")
    lines += _seeds(evidence.seeds, titles)
    lines += _reached(evidence)
    if evidence.paths:
        lines.append("Paths")
    lines += [f"  {_score(path.score)}{_plain(path.text)}" for path in evidence.paths]
    return lines + [_note(note) for note in evidence.notes]


def _names(names: QuestionNames) -> str:
    groups = (("matched", names.matched), ("unmatched", names.unmatched))
    listed = "; ".join(f"{kind}: {', '.join(map(_plain, some))}" for kind, some in groups if some)
    return f"Question {'names' if names.noun == 'entities' else names.noun}  {listed or 'none found'}"


def _seeds(seeds: Sequence[Seed], titles: Mapping[str, str]) -> list[str]:
    """The strongest; those whose weight would show as 0.000 are only counted."""
    shown = [seed for seed in seeds if seed.weight >= VISIBLE][:SHOWN]
    rest = len(seeds) - len(shown)
    return [_seed(seed, titles) for seed in shown] + ([f"  and {rest} more"] if rest else [])


def _seed(seed: Seed, titles: Mapping[str, str]) -> str:
    name = seed.name or (titles.get(seed.key, "") if seed.kind == "passage" else "") or seed.key
    found = [seed.match] if seed.match else []
    if seed.similarity is not None and seed.match != "exact":
        found.append(f"similarity {seed.similarity:.3f}")
    kind = f"{seed.kind} " if seed.kind != "entity" else ""
    return f"  {seed.weight:.3f}  {kind}{_plain(name)}" + (f"  ({', '.join(found)})" if found else "")


def _reached(evidence: Evidence) -> list[str]:
    """What was reached, a paragraph per distance from a seed, strongest first; what nothing leads to comes last."""
    if not evidence.nodes:
        return []
    groups = _by_distance(evidence)
    counted = f"{evidence.node_count} in all" if evidence.node_count > len(evidence.nodes) else f"{len(evidence.nodes)}"
    by = f", by {evidence.measure}" if evidence.measure else ""
    lines = [f"Reached  ({counted}{by})"]
    for distance in sorted(groups, key=lambda hops: (hops is None, hops or 0)):
        head = f"  {_distance(distance) if len(groups) > 1 or distance is not None else '':<8}"
        lines += _wrapped(head, [_node(node) for node in _strongest(groups[distance])])
    return lines


def _by_distance(evidence: Evidence) -> dict[int | None, list[Node]]:
    """The nodes by their distance from a seed, None for those that nothing leads to."""
    edges = [(edge.source, edge.target) for edge in evidence.all_edges()]
    walked = distances(edges, {seed.key: 0 for seed in evidence.seeds if seed.kind != "passage"})
    groups: dict[int | None, list[Node]] = {}
    for node in evidence.nodes:
        distance = node.distance if node.distance is not None else walked.get(node.key)
        groups.setdefault(distance, []).append(node)
    return groups


def _strongest(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: -(node.weight or 0.0))


def _node(node: Node) -> str:
    return _plain(node.name) + ("" if node.weight is None else f" {node.weight:.3f}")


def _note(note: Note) -> str:
    items = [f"{_plain(name)} {weight:.3f}" for name, weight in note.items[:SHOWN]]
    rest = len(note.items) - len(items)
    said = [part for part in (_plain(note.text), ", ".join([*items, f"{rest} more"] if rest else items)) if part]
    return "  ".join([_plain(note.label), *(said or ["none"])])


def _wrapped(head: str, items: Sequence[str]) -> list[str]:
    """Items after a head, on as many lines as they need; none is broken."""
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


def _distance(distance: int | None) -> str:
    if distance is None:
        return "others"
    return {0: "seeds", 1: "1 hop"}.get(distance, f"{distance} hops")


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}  "


def _plain(text: str) -> str:
    return " ".join(text.split())
