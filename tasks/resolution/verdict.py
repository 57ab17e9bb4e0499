"""What rules or a model say about candidate names, in one form for both.

Decides nothing; resolve.py puts verdicts and links together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from polyhop.schemas.chat import Usage
from polyhop.tasks.resolution.candidates import Name, Pair


@dataclass(frozen=True, slots=True)
class Verdict:
    """Merges and refusals among candidates, by number of the name.

    Attributes:
        merges: (a, b, reason): a is another form of b, in order.
        refusals: Number to the reason why a name stays alone.
        ambiguous: Those of the refused that several other names would fit.
        descriptions: Number of a canonical name that the judge chose itself, to its description.
        failed_clusters: Clusters that could not be judged for now; nothing in them is merged.
        usage: What the replies that it rests on took when they were made.
    """

    merges: list[tuple[int, int, str]]
    refusals: dict[int, str] = field(default_factory=dict)
    ambiguous: frozenset[int] = frozenset()
    descriptions: Mapping[int, str] = field(default_factory=dict)
    failed_clusters: int = 0
    usage: Usage = field(default_factory=Usage)


Judge = Callable[[Sequence[Name], Sequence[Pair], Sequence[list[int]]], Verdict]
"""Names, candidate pairs inside clusters, and the clusters, to a verdict."""


def quoted(key: str) -> str:
    """A name inside a reason; `explain.py` finds it there again."""
    return f"'{key}'"
