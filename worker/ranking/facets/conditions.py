"""The conditions that a question sets on hubs, numbers and superlatives among them, and what meets them (pure).

Source: algorithms.md 4B, rules 3 to 6.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.facets.labels import Mention, Word
from polyhop.worker.ranking.facets.units import (
    FREQUENCIES,
    OTHER_WORDS,
    WRONG,
    Kind,
    Meanings,
    Polarity,
    SignatureWords,
    Units,
    is_negated,
    kinds_of,
)

# Source: algorithms.md 4B, rule 5.

PAIRS = {"and": "between", "to": "from"}
"""What stands before two numbers that are a range, by the word between them."""

REACH = 4
"""Words before a number among which that is looked for: between the years 2019 and 2021."""

OPENING = 3
"""Words before a number that may open a range with one end: after the year 1990, more than about 20."""

ABOVE, BELOW = "above", "below"
_COMPARED = {
    ABOVE: ("more", "greater", "larger", "bigger", "higher", "taller", "longer", "wider", "heavier", "later", "newer"),
    BELOW: ("less", "fewer", "smaller", "lower", "shorter", "narrower", "lighter", "earlier"),
}
COMPARED = {word: side for side, words in _COMPARED.items() for word in words}
"""Comparatives with `than`. `older` and `younger` are none: a year and an age turn them opposite ways."""

OPENERS = {"after": ABOVE, "since": ABOVE, "above": ABOVE, "over": ABOVE, "exceeding": ABOVE, "before": BELOW,
           "until": BELOW, "till": BELOW, "below": BELOW, "under": BELOW}  # fmt: skip
TIMES = frozenset(("after", "since", "before", "until", "till", "later", "newer", "earlier"))
"""Openers of a range of times rather than of amounts: fields of years go first, for others the fields of amounts."""
INCLUSIVE = frozenset(("since", "until", "till"))
LEAST_MOST = {"least": ABOVE, "most": BELOW}
"""After `at`."""

MOST_DIGITS = 15  # exact in float64; algorithms.md 4B, ranges.


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Numbers that a question admits.

    Attributes:
        start: Its first word: the number, or what opens the range if stop words alone stand between.
        end: After the last word.
        low: The least number that is admitted.
        high: The largest.
        is_time: Whether it opens like a range of times; None: it may be one of times or of amounts.
    """

    start: int
    end: int
    low: float
    high: float
    is_time: bool | None = None


def number_ranges(words: Sequence[Word]) -> list[NumberRange]:
    """Ranges in order of their places, without overlap; whole numbers in digits only."""
    found: list[NumberRange] = []
    place = 0
    while place < len(words):
        one = _pair(words, place) or _open_range(words, place) if _is_number(words[place]) else None
        if one is not None:
            found.append(one)
        place = one.end if one is not None else place + 1
    return found


def _pair(words: Sequence[Word], place: int) -> NumberRange | None:
    """`between a and b`, `from a to b`, in any order of a and b."""
    if place + 2 >= len(words) or not _is_number(words[place + 2]):
        return None
    opening = PAIRS.get(words[place + 1].text.lower())
    if opening not in {word.text.lower() for word in words[max(0, place - REACH) : place]}:
        return None
    low, high = sorted((float(words[place].text), float(words[place + 2].text)))
    return NumberRange(place, place + 3, low, high)


def _open_range(words: Sequence[Word], place: int) -> NumberRange | None:
    """`before a`, `more than a`, `at least a`: the nearest opener within reach counts."""
    number = float(words[place].text)
    for opener in range(place - 1, max(-1, place - 1 - OPENING), -1):
        word, before = words[opener].text.lower(), words[opener - 1].text.lower() if opener else ""
        if word == "than" and before in COMPARED:
            side, start, step = COMPARED[before], opener - 1, 1
        elif word in LEAST_MOST and before == "at":
            side, start, step = LEAST_MOST[word], opener - 1, 0
        elif word in OPENERS:
            side, start, step = OPENERS[word], opener, 0 if word in INCLUSIVE else 1
        elif _is_number(words[opener]):
            return None
        else:
            continue
        is_near = all(between.is_stop for between in words[opener + 1 : place])
        low, high = (number + step, math.inf) if side == ABOVE else (-math.inf, number - step)  # whole numbers
        return NumberRange(start if is_near else place, place + 1, low, high, words[start].text.lower() in TIMES)
    return None


def _is_number(word: Word) -> bool:
    return word.text.isascii() and word.text.isdigit() and len(word.text) <= MOST_DIGITS


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
        """The conditions of a question."""
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
            # Numbers in a range, of the signatures that have some in it and some outside.
            count = len(self._units.signatures)
            is_within = (self._numbers >= limits.low) & (self._numbers <= limits.high)
            signatures = self._units.document_signatures[self._numeric]
            within, total = (
                np.bincount(signatures[is_within], minlength=count),
                np.bincount(signatures, minlength=count),
            )
            is_limited = (within > 0) & (within < total)
            is_time = self.kinds == int(Kind.TIME)
            if limits.is_time is not None and (is_limited & (is_time == limits.is_time)).any():
                is_limited &= is_time == limits.is_time
            documents = self._numeric[is_within & is_limited[signatures]]
            if len(documents) and all(limits.start <= one.start and one.end <= limits.end for one in over):
                mention = Mention(limits.start, limits.end, frozenset(range(limits.start, limits.end)), (), 1.0)
                found[mention] = documents
                kept = [one for one in kept if one not in over] + [mention]
        return sorted(kept, key=lambda mention: mention.start), found

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


# Source: algorithms.md 4B (rest of the question, words beside hubs).

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


# Source: algorithms.md 4B, superlatives.

BEST_SHARE = 0.99
"""Of the largest H: hubs that meet a question's conditions as well as any do."""

NOT_EXTREME = 0.6
"""Strength of numbers that are not the largest or smallest that a question asks for."""

_EXTREMES = {
    **dict.fromkeys(("latest", "newest"), (Kind.TIME, True)),
    **dict.fromkeys(("earliest", "oldest"), (Kind.TIME, False)),
    **dict.fromkeys(
        ("largest", "biggest", "greatest", "highest", "tallest", "longest", "widest", "heaviest"), (Kind.NUMBER, True)
    ),
    **dict.fromkeys(
        ("smallest", "lowest", "shortest", "narrowest", "lightest", "fewest", "least"), (Kind.NUMBER, False)
    ),
}
_ORDERS = frozenset(("first", "last", "to", "at", "on"))
"""Beside a superlative: all are asked for, in an order (newest first, newest to oldest)."""


def asked_extreme(words: Sequence[Word]) -> tuple[Kind, bool] | None:
    """The kind of number whose largest (True) or smallest value a question asks for; None: for no such value."""
    texts = [word.text.lower() for word in words]
    is_content = [not word.is_stop for word in words[1:]] + [False]
    for before, text, following, is_named in zip(["", *texts], texts, [*texts[1:], ""], is_content, strict=False):
        if following in _ORDERS or before in _ORDERS:
            continue
        if text == "most" and before == "the" and is_named and following not in FREQUENCIES:
            return (Kind.TIME, True) if following in ("recent", "recently") else (Kind.NUMBER, True)
        if text in _EXTREMES:
            return _EXTREMES[text]
    return None


def extreme_facets(
    units: Units,
    kinds: NDArray[np.int64],
    question: ReadQuestion,
    hubs: NDArray[np.float64],
    asked: NDArray[np.float64],
) -> list[Facet]:
    """The condition to have the largest or smallest number of the hubs that meet the rest, if one is asked for.

    Args:
        units: The paths.
        kinds: Shape (s,): of each signature's values.
        question: As it was read.
        hubs: Shape (h,): H, how well each hub meets the other conditions.
        asked: Shape (s,): how much the question asks for each signature.

    Returns:
        One at most; none where the question names a hub.
    Cost: O(paths of the field).
    """
    extreme = asked_extreme(question.words)
    if extreme is None or any(facet.hubs for facet in question.conditions.facets):
        return []
    kind, is_largest = extreme
    fields = np.flatnonzero(kinds == int(kind))
    if not len(fields):
        return []
    field = int(fields[asked[fields].argmax()])
    paths = units.paths_of_signature(field)
    is_met = hubs[units.path_hubs[paths]] >= BEST_SHARE * hubs.max(initial=0.0)
    found = np.unique(units.path_documents[paths[is_met]])
    numbers = units.label_numbers[units.document_labels[found]]
    is_number = np.isfinite(numbers)
    if not is_number.any():
        return []
    best = numbers[is_number].max() if is_largest else numbers[is_number].min()
    strengths = np.where(numbers[is_number] == best, 1.0, NOT_EXTREME).tolist()
    return [Facet((field,), dict(zip(found[is_number].tolist(), strengths, strict=True)))]
