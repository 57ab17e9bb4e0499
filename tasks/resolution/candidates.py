"""Which names of one type may be one entity: those whose words contain the other's, found by an inverted index (pure).

Decides nothing (acceptance.py and verification.py do). Tokens are those of the folded name, because entities are keyed
by it (docs/decisions/0002). Source: algorithms.md 1.4, steps 1 to 3.
"""

import string
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from polyhop.schemas.text import fold, norm_ws

Pair = tuple[int, int]
"""Numbers of two names; the tokens of the first are among those of the second."""


@dataclass(frozen=True)
class Name:
    """A name before resolution.

    Attributes:
        key: Key of the name; distinct.
        name: Most frequent spelling.
        type: Entity type, None if nothing is known of it.
        mention_count: Mentions in all passages.
        descriptions: What passages say about it; only a model reads them.
    """

    key: str
    name: str
    type: str | None = None
    mention_count: int = 1
    descriptions: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def form(self) -> str:
        """The folded name, lower case, whitespace collapsed."""
        return norm_ws(fold(self.name))

    @cached_property
    def tokens(self) -> frozenset[str]:
        """Words of the name without punctuation around them. Source: algorithms.md 1.4, step 1."""
        return _words(self.form)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Pairs of names that may be one, and how many comparisons finding them took."""

    pairs: list[Pair]
    comparisons: int


def name_words(name: str) -> frozenset[str]:
    """Distinct words of the folded name, ASCII punctuation around each stripped. Source: algorithms.md 1.4, step 1."""
    return _words(norm_ws(fold(name)))


def _words(form: str) -> frozenset[str]:
    """Words of a folded name without punctuation around them."""
    words = {word.strip(string.punctuation) for word in form.split()}
    words.discard("")
    return frozenset(words)


def candidate_pairs(names: Sequence[Name]) -> Candidates:
    """All pairs of names of one type where one has every word of the other.

    Args:
        names: Names in any order; those without type or without words take no part.

    Returns:
        Pairs (a, b) of positions in `names` with the words of a among those of b; names with equal words give both
        (a, b) and (b, a). In order of a and b.
    Source: algorithms.md 1.4, steps 2 and 3.
    Cost: O(sum over names of the names that share their rarest word).
    """
    by_type: dict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(names):
        if name.type is not None and name.tokens:
            by_type[name.type].append(number)
    pairs: list[Pair] = []
    comparisons = 0
    for kind in sorted(by_type):
        found = _within(names, by_type[kind])
        pairs += found.pairs
        comparisons += found.comparisons
    return Candidates(sorted(pairs), comparisons)


def _within(names: Sequence[Name], numbers: Iterable[int]) -> Candidates:
    """Pairs among names of one type."""
    tokens = {number: names[number].tokens for number in numbers}
    postings: dict[str, list[int]] = defaultdict(list)
    for number, words in tokens.items():
        for word in words:
            postings[word].append(number)
    pairs: list[Pair] = []
    comparisons = 0
    by_rarity = sorted(postings, key=lambda word: (len(postings[word]), word))
    rank = {word: place for place, word in enumerate(by_rarity)}
    for a, words in tokens.items():
        others = postings[by_rarity[min(map(rank.__getitem__, words))]]
        comparisons += len(others) - 1
        pairs += [(a, b) for b in others if words <= tokens[b] and b != a]
    return Candidates(pairs, comparisons)
