"""Facets: the conditions that a question sets, each with the documents and hubs that meet it (pure).

Finds no mentions (mentions.py does) and ranks nothing. Source: algorithms.md 4B, rules 3 to 6.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.facets.kinds import Kind, kinds_of
from polyhop.worker.ranking.facets.mentions import Mention
from polyhop.worker.ranking.facets.numbers import NumberRange, number_ranges
from polyhop.worker.ranking.facets.polarity import OTHER_WORDS, WRONG, Polarity, is_negated
from polyhop.worker.ranking.facets.signature_words import Meanings, SignatureWords
from polyhop.worker.ranking.facets.units import Units
from polyhop.worker.ranking.facets.words import Word

HUB = -1
"""In place of a signature: the label of the hub itself."""

NEAR = 3
"""Words around a mention among which its introducer is looked for."""

NOT_INTRODUCED = 0.5  # algorithms.md 4B, rule 3.
LEAST_NEGATED_SHARE = 0.5  # algorithms.md 4B, rule 4.


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
        unused: Words of the question, by place, that are in no condition and in the name of no field of one.
    """

    facets: tuple[Facet, ...]
    shares: NDArray[np.float64]
    polarity: NDArray[np.float64]
    unused: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reading:
    """A mention of values or hubs, read.

    Attributes:
        mention: Where it is.
        documents: Shape (n,): documents whose value has one of its labels or lies in its range.
        hubs: Hubs that have one of its labels.
        strengths: By signature, HUB among them.
        is_negated: Whether the question negates it.
        is_range: Whether it is a range of numbers.
    """

    mention: Mention
    documents: NDArray[np.int32]
    hubs: NDArray[np.int32]
    strengths: Mapping[int, float]
    is_negated: bool
    is_range: bool

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
        numbers = units.label_numbers[units.document_labels]
        self._numeric = np.flatnonzero(np.isfinite(numbers)).astype(np.int32)
        self._numbers = numbers[self._numeric]
        self.kinds = kinds_of(units, polarity.is_polar)

    def of(self, words: Sequence[Word], meanings: Meanings, mentions: Sequence[Mention]) -> Conditions:
        """The conditions of a question.

        Args:
            words: The question's.
            meanings: By word of the question: stems of labels that it can stand for, with factors.
            mentions: By place, without overlap.
        """
        named, ranges = self._with_ranges([mention for mention in mentions if self._is_named(mention)], words)
        taken = np.full(len(words), -1)
        for number, mention in enumerate(named):
            taken[sorted(mention.words)] = number
        used: set[int] = set()
        readings = [self._read(mention, ranges, (words, meanings, taken), used) for mention in named]
        found = self._facets(readings)
        remaining = [place for place in range(len(words)) if taken[place] < 0 and place not in used]
        shares = self._shares(meanings, mentions, remaining)
        polarity = np.ones(len(self._units.copies))
        self._negate(found, (words, meanings, taken), remaining, shares, polarity)
        fields = [signature for facet in found for signature in facet.signatures if signature != HUB]
        stems = frozenset[int]().union(*map(self._words.stems_of, fields))
        unused = [place for place in remaining if not any(stem in stems for stem, _ in meanings[place])]
        return Conditions(tuple(found), shares, polarity, tuple(unused))

    def _facets(self, readings: Sequence[_Reading]) -> list[Facet]:
        """One facet per set of signatures, but one per range; with what its mentions match."""
        facets: dict[tuple[tuple[int, ...], int], Facet] = {}
        for number, reading in enumerate(readings):
            signatures = reading.strongest
            earlier = [other for other in readings[:number] if other.is_range and other.strongest == signatures]
            facet = facets.setdefault((signatures, len(earlier) if reading.is_range else 0), Facet(signatures))
            facet.mentions.append((reading.mention.start, reading.mention.end))
            self._match(facet, reading)
        return list(facets.values())

    def _is_named(self, mention: Mention) -> bool:
        return any(self._units.roles.is_named[label] for label in mention.labels)

    def _with_ranges(
        self, mentions: Sequence[Mention], words: Sequence[Word]
    ) -> tuple[list[Mention], dict[Mention, NDArray[np.int32]]]:
        """Mentions with ranges in place of those of their numbers, and the documents that each range admits.

        Source: algorithms.md 4B, rule 5.
        """
        found: dict[Mention, NDArray[np.int32]] = {}
        kept = list(mentions)
        for limits in number_ranges(words):
            over = [one for one in kept if one.start < limits.end and limits.start < one.end]
            documents = self._documents_within(limits)
            if len(documents) and all(limits.start <= one.start and one.end <= limits.end for one in over):
                mention = Mention(limits.start, limits.end, frozenset(range(limits.start, limits.end)), (), 1.0)
                found[mention] = documents
                kept = [one for one in kept if one not in over] + [mention]
        return sorted(kept, key=lambda mention: mention.start), found

    def _documents_within(self, limits: NumberRange) -> NDArray[np.int32]:
        """Numbers in a range, of the signatures that have some in it and some outside.

        If the question says whether these are times, of signatures with times or of the others, where there are any.
        """
        count = len(self._units.signatures)
        is_within = (self._numbers >= limits.low) & (self._numbers <= limits.high)
        signatures = self._units.document_signatures[self._numeric]
        within, total = np.bincount(signatures[is_within], minlength=count), np.bincount(signatures, minlength=count)
        is_limited = (within > 0) & (within < total)
        is_time = self.kinds == int(Kind.TIME)
        if limits.is_time is not None and (is_limited & (is_time == limits.is_time)).any():
            is_limited &= is_time == limits.is_time
        return self._numeric[is_within & is_limited[signatures]]

    def _read(
        self,
        mention: Mention,
        ranges: Mapping[Mention, NDArray[np.int32]],
        question: tuple[Sequence[Word], Meanings, NDArray[np.int64]],
        used: set[int],
    ) -> _Reading:
        """A mention with its readings; the words that introduce it are added to `used`.

        Source: algorithms.md 4B, rules 3 and 4.
        """
        words, meanings, taken = question
        units = self._units
        documents = ranges.get(mention)
        if documents is None:
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
        negated = is_negated(words, mention.start, mention.end, taken)
        return _Reading(mention, documents, hubs, strengths, negated, mention in ranges)

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
        facets: list[Facet],
        question: tuple[Sequence[Word], Meanings, NDArray[np.int64]],
        remaining: Sequence[int],
        shares: NDArray[np.float64],
        polarity: NDArray[np.float64],
    ) -> None:
        """Signatures that the question negates: factors, and a facet if no hub is named.

        Source: algorithms.md 4B, rule 4.
        """
        words, meanings, taken = question
        has_hub = any(facet.hubs for facet in facets)
        known = {signature for facet in facets for signature in facet.signatures}
        for signature in np.flatnonzero(self._polarity.is_polar & (shares >= LEAST_NEGATED_SHARE)).tolist():
            stems = self._words.stems_of(signature)
            places = [place for place in remaining if any(stem in stems for stem, _ in meanings[place])]
            if not places or not is_negated(words, places[0], places[-1] + 1, taken):
                continue
            documents = np.array(self._units.documents_of(signature))
            is_right = self._polarity.is_negated[documents]
            polarity[documents] = np.where(is_right, 1.0, WRONG)
            if not has_hub and signature not in known:
                facet = Facet((signature,), mentions=[(places[0], places[-1] + 1)])
                facets.append(facet)
                for document in documents[is_right].tolist():
                    _keep_best(facet.documents, document, OTHER_WORDS)


def _keep_best(strengths: dict[int, float], number: int, strength: float) -> None:
    strengths[number] = max(strength, strengths.get(number, 0.0))
