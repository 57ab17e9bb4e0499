"""A question as hub facets read it, and what of it is encoded and scored besides its conditions (pure).

Source: algorithms.md 4B (rest of the question, words beside hubs).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.worker.ranking.facets.conditions import HUB, Conditions
from polyhop.worker.ranking.facets.words import Word

_KIND = "kind kinds type types sort sorts class classes category categories form forms"
_KINDS = frozenset(_KIND.split())
"""Before `of`: what follows is asked for."""


@dataclass(frozen=True, slots=True)
class ReadQuestion:
    """A question as hub facets read it.

    Attributes:
        words: Its words.
        conditions: What it asks for.
        types: Stems of the hubs' types.
    """

    words: Sequence[Word]
    conditions: Conditions
    types: frozenset[str] = frozenset()

    @property
    def rest(self) -> str:
        """The question with `it` in place of what its facets name, without the words of the hubs' types.

        These stay after `kind of` and the like.
        """
        spans = sorted(span for facet in self.conditions.facets for span in facet.mentions)
        texts, place = [], 0
        for start, end in spans:
            texts += [*self._texts(place, start), "it"]
            place = max(place, end)
        return " ".join([*texts, *self._texts(place, len(self.words))])

    def _texts(self, start: int, end: int) -> list[str]:
        """Words as written, without types."""
        return [self.words[place].text for place in range(start, end) if not self._is_type(place)]

    def _is_type(self, place: int) -> bool:
        before = [word.text.lower() for word in self.words[max(0, place - 2) : place]]
        is_asked = len(before) == 2 and before[0] in _KINDS and before[1] == "of"
        return self.words[place].stem in self.types and not is_asked

    @property
    def words_beside_hubs(self) -> Sequence[Word]:
        """Its words without those that name a hub and nothing else."""
        facets = [facet for facet in self.conditions.facets if facet.signatures == (HUB,)]
        named = {place for facet in facets for span in facet.mentions for place in range(*span)}
        return [word for place, word in enumerate(self.words) if place not in named and not self._is_type(place)]
