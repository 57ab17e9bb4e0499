"""Facets: the conditions that a question sets, each with the documents and hubs that meet it (pure).

Finds no mentions (mentions.py does) and ranks nothing. Source: algorithms.md 4B, rules 3 to 6.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.facets.mentions import Mention
from polyhop.worker.ranking.facets.polarity import OTHER_WORDS, WRONG, Polarity, negation_before
from polyhop.worker.ranking.facets.signature_words import Meanings, SignatureWords
from polyhop.worker.ranking.facets.units import Units
from polyhop.worker.ranking.facets.words import Word

HUB = -1
"""In place of a signature: the label of the hub itself."""

NEAR = 3
"""Words around a mention among which its introducer is looked for."""

RANGES = {"and": "between", "to": "from"}
"""What stands before two numbers that are a range, by the word between them."""

RANGE_REACH = 4
"""Words before the first number among which that is looked for: between the years 2019 and 2021."""

NOT_INTRODUCED = 0.5
LEAST_NEGATED_SHARE = 0.5


@dataclass(slots=True)
class Facet:
    """A condition.

    Attributes:
        signatures: Where its mentions have their strongest readings; HUB for labels of hubs.
        documents: Strength by document that meets it, above 0.
        hubs: Strength by hub that is named.
        mentions: Spans of the question, first word and after the last.
    """

    signatures: tuple[int, ...]
    documents: dict[int, float] = field(default_factory=dict)
    hubs: dict[int, float] = field(default_factory=dict)
    mentions: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a question asks for.

    Attributes:
        facets: In order of their first mention.
        shares: Shape (s,): how much of each signature's words the question has besides, 0 to 1.
        polarity: Shape (d,): factor of each document by its polarity.
    """

    facets: tuple[Facet, ...]
    shares: NDArray[np.float64]
    polarity: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Reading:
    """A mention of values or hubs, read.

    Attributes:
        mention: Where it is.
        documents: Shape (n,): documents whose value has one of its labels.
        hubs: Hubs that have one of its labels.
        strengths: By signature, HUB among them.
        is_negated: Whether the question negates it.
    """

    mention: Mention
    documents: NDArray[np.int32]
    hubs: NDArray[np.int32]
    strengths: Mapping[int, float]
    is_negated: bool

    @property
    def strongest(self) -> tuple[int, ...]:
        """Signatures of its strongest readings, ascending."""
        top = max(self.strengths.values())
        return tuple(sorted(signature for signature, strength in self.strengths.items() if strength == top))


class ConditionFinder:
    """Reads mentions as conditions on the hubs of a version."""

    def __init__(self, units: Units, signatures: SignatureWords, polarity: Polarity) -> None:
        """Of prepared paths."""
        self._units = units
        self._words = signatures
        self._polarity = polarity

    def of(self, words: Sequence[Word], meanings: Meanings, mentions: Sequence[Mention]) -> Conditions:
        """The conditions of a question.

        Args:
            words: The question's.
            meanings: By word of the question: stems of labels that it can stand for, with factors.
            mentions: By place, without overlap.
        """
        named = [mention for mention in mentions if self._is_named(mention)]
        taken = np.full(len(words), -1)
        for number, mention in enumerate(named):
            taken[sorted(mention.words)] = number
        used: set[int] = set()
        readings = [self._read(number, named, (words, meanings, taken), used) for number in range(len(named))]
        facets: dict[tuple[int, ...], Facet] = {}
        for reading in readings:
            facet = facets.setdefault(reading.strongest, Facet(reading.strongest))
            facet.mentions.append((reading.mention.start, reading.mention.end))
            self._match(facet, reading)
        for facet in facets.values():
            self._widen(facet, words)
        remaining = [place for place in range(len(words)) if taken[place] < 0 and place not in used]
        shares = self._shares(meanings, mentions, remaining)
        polarity = np.ones(len(self._units.copies))
        self._negate(facets, (words, meanings, taken), remaining, shares, polarity)
        return Conditions(tuple(facets.values()), shares, polarity)

    def _is_named(self, mention: Mention) -> bool:
        return any(self._units.roles.is_named[label] for label in mention.labels)

    def _read(
        self,
        number: int,
        mentions: Sequence[Mention],
        question: tuple[Sequence[Word], Meanings, NDArray[np.int64]],
        used: set[int],
    ) -> _Reading:
        """A mention with its readings; the words that introduce it are added to `used`.

        Source: algorithms.md 4B, rules 3 and 4.
        """
        words, meanings, taken = question
        units, mention = self._units, mentions[number]
        documents = np.unique(units.label_documents.of_all(mention.labels))
        hubs = np.unique(units.label_hubs.of_all(mention.labels))
        signatures = np.unique(units.document_signatures[documents])
        nearby = range(max(0, mention.start - NEAR), min(len(words), mention.end + NEAR))
        free = [place for place in nearby if taken[place] < 0 and not words[place].is_stop]
        introduced = set(signatures[self._words.shares(meanings, free)[signatures] > 0].tolist())
        stems = frozenset[int]().union(*map(self._words.stems_of, sorted(introduced)))
        used.update(place for place in free if any(stem in stems for stem, _ in meanings[place]))
        strengths = {
            signature: mention.strength * (1.0 if not introduced or signature in introduced else NOT_INTRODUCED)
            for signature in (*signatures.tolist(), *([HUB] if len(hubs) else []))
        }
        return _Reading(mention, documents, hubs, strengths, negation_before(words, mention.start, mention.end, taken))

    def _match(self, facet: Facet, reading: _Reading) -> None:
        """Adds what a reading matches.

        Source: algorithms.md 4B, rules 4 and 6.
        """
        units, polarity = self._units, self._polarity
        for document in reading.documents.tolist():
            signature = int(units.document_signatures[document])
            strength = reading.strengths[signature]
            if polarity.is_polar[signature] and polarity.is_negated[document] != reading.is_negated:
                strength *= WRONG
            _keep_best(facet.documents, document, strength)
        for signature, strength in reading.strengths.items():
            if signature != HUB and polarity.is_polar[signature]:
                for document in units.documents_of(signature):
                    if polarity.is_negated[document] == reading.is_negated:
                        _keep_best(facet.documents, document, strength * OTHER_WORDS)
        for hub in reading.hubs.tolist():
            _keep_best(facet.hubs, hub, reading.strengths[HUB])

    def _widen(self, facet: Facet, words: Sequence[Word]) -> None:
        """Adds the values between two numbers of a facet.

        Source: algorithms.md 4B, rule 5.
        """
        units = self._units
        for low, high in _ranges(facet.mentions, words):
            for signature in facet.signatures:
                documents = np.array(units.documents_of(signature)) if signature != HUB else np.empty(0, dtype=int)
                numbers = units.label_numbers[units.document_labels[documents]]
                for document in documents[(numbers >= low) & (numbers <= high)].tolist():
                    facet.documents[document] = 1.0

    def _shares(self, meanings: Meanings, mentions: Sequence[Mention], remaining: Sequence[int]) -> NDArray[np.float64]:
        """Share of each signature's words that remain, 1 for predicates named as a whole.

        Source: algorithms.md 4B, rule 7.
        """
        shares = self._words.shares(meanings, remaining)
        left = set(remaining)
        for mention in mentions:
            for label in mention.labels:
                if mention.strength >= 0.99 and mention.words & left:
                    for predicate in self._units.label_predicates.get(label, ()):
                        shares[self._words.by_predicate.get(predicate, [])] = 1.0
        return shares

    def _negate(
        self,
        facets: dict[tuple[int, ...], Facet],
        question: tuple[Sequence[Word], Meanings, NDArray[np.int64]],
        remaining: Sequence[int],
        shares: NDArray[np.float64],
        polarity: NDArray[np.float64],
    ) -> None:
        """Signatures that the question negates: factors, and a facet if no hub is named.

        Source: algorithms.md 4B, rule 4.
        """
        words, meanings, taken = question
        has_hub = any(facet.hubs for facet in facets.values())
        known = {signature for facet in facets.values() for signature in facet.signatures}
        for signature in np.flatnonzero(self._polarity.is_polar & (shares >= LEAST_NEGATED_SHARE)).tolist():
            stems = self._words.stems_of(signature)
            places = [place for place in remaining if any(stem in stems for stem, _ in meanings[place])]
            if not places or not negation_before(words, places[0], places[-1] + 1, taken):
                continue
            documents = np.array(self._units.documents_of(signature))
            is_right = self._polarity.is_negated[documents]
            polarity[documents] = np.where(is_right, 1.0, WRONG)
            if not has_hub and signature not in known:
                facet = facets.setdefault((signature,), Facet((signature,)))
                facet.mentions.append((places[0], places[-1] + 1))
                for document in documents[is_right].tolist():
                    _keep_best(facet.documents, document, OTHER_WORDS)


def _keep_best(strengths: dict[int, float], number: int, strength: float) -> None:
    strengths[number] = max(strength, strengths.get(number, 0.0))


def _ranges(mentions: Sequence[tuple[int, int]], words: Sequence[Word]) -> list[tuple[float, float]]:
    """Pairs of numbers with `between … and` or `from … to` around them."""
    ordered = sorted(mentions)
    found = []
    for (start, end), (second, last) in pairwise(ordered):
        numbers = [words[start].stem, words[second].stem]
        if end - start != 1 or last - second != 1 or second != end + 1 or not all(map(_is_number, numbers)):
            continue
        opening = RANGES.get(words[end].text.lower())
        if opening and opening in {word.text.lower() for word in words[max(0, start - RANGE_REACH) : start]}:
            low, high = sorted(map(float, numbers))
            found.append((low, high))
    return found


def _is_number(stem: str) -> bool:
    return stem.isascii() and stem.isdigit()
