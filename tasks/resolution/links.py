"""Pairs of names that people link or keep apart, on numbered names (pure).

A pair holds under every method and across types, because a person's word counts more than a guessed type; a pair with
a type counts only where both names have that type. Source: algorithms.md 1.4.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.names import name_tokens
from polyhop.schemas.resolution import NamePair
from polyhop.tasks.resolution.candidates import Name
from polyhop.tasks.resolution.clusters import DisjointSets
from polyhop.tasks.resolution.verdict import quoted

Edges = Mapping[int, Sequence[tuple[int, str]]]
"""Number of a name to (other name, reason)."""


@dataclass(frozen=True, slots=True)
class Links:
    """What people said: pairs that are one entity, pairs that are not."""

    must: tuple[NamePair, ...] = ()
    cannot: tuple[NamePair, ...] = ()

    @property
    def pairs(self) -> tuple[NamePair, ...]:
        """All of them."""
        return (*self.must, *self.cannot)


def link_key(name: str) -> str:
    """The key under which a name of a link file is known."""
    return " ".join(name_tokens(name))


def unused_reason(pair: NamePair, name_of: Callable[[str], Name | None]) -> str:
    """Why a pair has no effect, "" if it has one.

    Args:
        pair: The pair.
        name_of: Key to its name, None if no passage mentions it.
    """
    for written in (pair.a, pair.b):
        name = name_of(link_key(written))
        if pair.type and name is not None and name.mention_count and name.type != pair.type:
            return f"not used, because {quoted(name.key)} is of type {name.type or 'unknown'}"
    return ""


def cannot_links_of(cannot: Iterable[NamePair], number_of: Mapping[str, int]) -> dict[int, dict[int, str]]:
    """Number to the numbers that must stay apart from it, with the place that says so.

    Raises:
        ConfigurationError: If both names of a pair have one key: nothing can keep them apart.
    """
    cannot_links: dict[int, dict[int, str]] = {}
    for pair in cannot:
        a, b = number_of[link_key(pair.a)], number_of[link_key(pair.b)]
        if a == b:
            raise ConfigurationError(
                f"{pair.place}: '{pair.a}' and '{pair.b}' are the same name ('{link_key(pair.a)}') once case, accents "
                "and punctuation are dropped; they cannot be kept apart. Remove the pair."
            )
        cannot_links.setdefault(a, {}).setdefault(b, pair.place)
        cannot_links.setdefault(b, {}).setdefault(a, pair.place)
    return cannot_links


def check_contradictions(
    names: Sequence[Name], sets: DisjointSets, edges: Edges, cannot_links: Mapping[int, Mapping[int, str]]
) -> None:
    """Refuses pairs that are both linked and kept apart.

    Args:
        names: All names.
        sets: Joined by must-links only.
        edges: The must-links.
        cannot_links: The cannot-links.

    Raises:
        ConfigurationError: Naming both names and the chain that joins them.
    """
    for a in sorted(cannot_links):
        for b in sorted(cannot_links[a]):
            if a < b and sets.find(a) == sets.find(b):
                chain = "; ".join(path(edges, a, b))
                raise ConfigurationError(
                    f"Links contradict each other: {cannot_links[a][b]} keeps {quoted(names[a].key)} and "
                    f"{quoted(names[b].key)} apart, but they are joined ({chain}). Remove one of these pairs."
                )


def path(edges: Edges, start: int, goal: int) -> list[str]:
    """Reasons along a shortest way from one name to another, [] if there is none."""
    came_from: dict[int, tuple[int, str]] = {start: (start, "")}
    waiting = deque([start])
    while waiting and goal not in came_from:
        here = waiting.popleft()
        for there, reason in sorted(edges.get(here, ())):
            if there not in came_from:
                came_from[there] = (here, reason)
                waiting.append(there)
    reasons = []
    while goal != start and goal in came_from:
        goal, reason = came_from[goal]
        reasons.append(reason)
    return reasons[::-1]
