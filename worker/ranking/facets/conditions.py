"""The conditions that a question sets on hubs, numbers and superlatives among them, and what meets them (pure).

Source: algorithms.md 4B, rules 3 to 6.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import distinct
from polyhop.worker.ranking.facets.labels import LabelSpan, Word, find_mentions, question_words
from polyhop.worker.ranking.facets.units import Fields, Kind, Measure, Units, measures_of

# Ranges of numbers; source: algorithms.md 4B, rule 5.

PAIRS = {"and": "between", "to": "from"}
"""What stands up to four words before two numbers that are a range, by the word between them."""

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
LEAST_MOST = {"least": ABOVE, "most": BELOW}  # After `at`.


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Range that a question admits, from `low` to below `high`, in its words `start` to before `end`."""

    start: int
    end: int
    low: float
    high: float
    is_time: bool | None
    is_duration: bool


def number_ranges(words: Sequence[Word]) -> list[NumberRange]:
    """Ranges in order of their positions, without overlap."""
    texts = [word.text.lower() for word in words]
    measures = measures_of(words)
    found: list[NumberRange] = []
    for number, one in enumerate(measures):
        if found and one.start < found[-1].end:
            continue
        # `between a and b`, `from a to b`, in any order of a and b; the words between them decide.
        other = measures[min(number + 1, len(measures) - 1)]
        opening = PAIRS.get(" ".join(texts[one.end : other.start]))
        if opening in texts[max(0, one.start - 4) : one.start] and other.is_duration == one.is_duration:
            low, high = min(one.first, other.first), max(one.after, other.after)
            found.append(NumberRange(one.start, other.end, low, high, None, one.is_duration))
            continue
        limits = _one_end(texts, one, measures[number - 1].end if number else 0)
        found += [limits] if limits else []
    return found


def _one_end(texts: Sequence[str], one: Measure, begin: int) -> NumberRange | None:
    """`before a`, `more than about a`, `at least a`: the nearest opener among three words, none before `begin`."""
    for position in range(one.start - 1, max(begin, one.start - 3) - 1, -1):
        word, before = texts[position], texts[position - 1] if position else ""
        if word == "than" and before in COMPARED:
            side, is_inclusive, opening = COMPARED[before], False, before
        elif word in LEAST_MOST and before == "at":
            side, is_inclusive, opening = LEAST_MOST[word], True, before
        elif word in OPENERS:
            side, is_inclusive, opening = OPENERS[word], word in INCLUSIVE, word
        else:
            continue
        limit = one.first if is_inclusive == (side == ABOVE) else one.after
        low, high = (limit, math.inf) if side == ABOVE else (-math.inf, limit)
        return NumberRange(one.start, one.end, low, high, opening in TIMES, one.is_duration)
    return None


HUB = -1  # Instead of a signature: the label of the hub itself.

NEAR = 3  # Words around a mention among which its introducer is looked for.

OTHER_WORDS = 0.6  # a value of the right polarity in other words than the question's; algorithms.md 4B, rule 4.


@dataclass(slots=True)
class Facet:
    """A condition."""

    signatures: tuple[int, ...]  # Fields in which its values are, ascending; HUB for labels of hubs.
    documents: dict[int, float] = field(default_factory=dict)  # Strength by document that meets it, above 0.
    hubs: dict[int, float] = field(default_factory=dict)  # Strength by hub that is named.
    # Spans of the question, first word and after the last.
    mentions: list[tuple[int, int]] = field(default_factory=list)


_KIND = "kind kinds type types sort sorts class classes category categories form forms"
_KINDS = frozenset(_KIND.split())  # Before `of`: what follows is asked for.


@dataclass(frozen=True, slots=True)
class ReadQuestion:
    """A question as hub facets read it."""

    words: Sequence[Word]  # Its words.
    facets: tuple[Facet, ...]  # Its conditions, in order of their first mention.
    shares: NDArray[np.float64]  # Shape (s,): how much of each signature's words the question has besides, 0 to 1.
    unused: tuple[int, ...] = ()  # Words, by position, that are in no condition and in the name of no field of one.
    types: frozenset[str] = frozenset()  # Stems of the hubs' types.

    @property
    def names_hub(self) -> bool:
        """Returns whether a condition names a hub."""
        return any(facet.hubs for facet in self.facets)

    @property
    def rest(self) -> str:
        """The question with `it` instead of what its facets name, without the words of the hubs' types.

        These stay after `kind of` and the like.
        """
        starts = {start: end for facet in self.facets for start, end in facet.mentions}
        texts, position = [], 0
        while position < len(self.words):
            if position in starts:
                texts.append("it")
                position = starts[position]
                continue
            if not self._is_type(position):
                texts.append(self.words[position].text)
            position += 1
        return " ".join(texts)

    @property
    def words_without_hubs(self) -> Sequence[Word]:
        """Its words without those that name a hub and nothing else, and without those of the hubs' types."""
        facets = [facet for facet in self.facets if facet.signatures == (HUB,)]
        named = {position for facet in facets for span in facet.mentions for position in range(*span)}
        return [
            word for position, word in enumerate(self.words) if position not in named and not self._is_type(position)
        ]

    def _is_type(self, position: int) -> bool:
        before = [word.text.lower() for word in self.words[max(0, position - 2) : position]]
        is_asked = len(before) == 2 and before[0] in _KINDS and before[1] == "of"
        return self.words[position].stem in self.types and not is_asked


def read_question(
    units: Units, fields: Fields, text: str, least_coverage: float, types: frozenset[str] = frozenset()
) -> ReadQuestion:
    """A question as conditions on the hubs of a version.

    Cost: see `find_mentions`.
    """
    words = question_words(text)
    meanings = [units.labels.meanings(word) for word in words]
    found = find_mentions(units.labels, meanings, words, least_coverage, units.is_shared)
    mentions = _with_ranges(units, fields, words, found)
    is_taken = np.zeros(len(words), dtype=np.bool_)
    for mention, _ in mentions:
        is_taken[list(mention.words)] = True
    facets: dict[tuple[tuple[int, ...], int], Facet] = {}
    introducers: set[int] = set()
    ranges: Counter[tuple[int, ...]] = Counter()
    for mention, documents in mentions:
        hubs = distinct(units.label_hubs.of_all(mention.labels))
        signatures = distinct(units.document_signatures[documents])
        # Words of its fields near a mention introduce it, and ask for nothing (rule 3).
        for position in range(max(0, mention.start - NEAR), min(len(words), mention.end + NEAR)):
            is_free = not is_taken[position] and not words[position].is_stop
            if is_free and (fields.shares([meanings[position]])[signatures] > 0).any():
                introducers.add(position)
        # One facet per set of fields, whose mentions are alternatives; but one per range of numbers.
        key = (*([HUB] if len(hubs) else []), *signatures.tolist())
        is_range = not mention.labels
        facet = facets.setdefault((key, ranges[key] if is_range else 0), Facet(key))
        ranges[key] += is_range
        facet.mentions.append((mention.start, mention.end))
        _add_documents(
            units, fields, facet, (mention.strength, documents), negated=_is_negated(words, mention, is_taken)
        )
        for hub in hubs.tolist():
            facet.hubs[hub] = max(mention.strength, facet.hubs.get(hub, 0.0))
    remaining = [position for position in range(len(words)) if not is_taken[position] and position not in introducers]
    given = sorted({signature for facet in facets.values() for signature in facet.signatures} - {HUB})
    unused = [position for position in remaining if not (fields.shares([meanings[position]])[given] > 0).any()]
    shares = fields.shares([meanings[position] for position in remaining])
    return ReadQuestion(words, tuple(facets.values()), shares, tuple(unused), types)


def _with_ranges(
    units: Units, fields: Fields, words: Sequence[Word], mentions: Sequence[LabelSpan]
) -> list[tuple[LabelSpan, NDArray[np.int32]]]:
    """Mentions with the documents that each admits, and ranges instead of the mentions of their numbers."""
    found = [(mention, distinct(units.label_documents.of_all(mention.labels))) for mention in mentions]
    numbers = units.label_numbers[units.document_labels]
    count = len(units.signature_texts)
    for limits in number_ranges(words):
        # Numbers in a range, of the signatures that have some in it and some outside.
        is_alike = np.isfinite(numbers) & (units.is_duration[units.document_labels] == limits.is_duration)
        is_within = is_alike & (numbers >= limits.low) & (numbers < limits.high)
        within = np.bincount(units.document_signatures[is_within], minlength=count)
        total = np.bincount(units.document_signatures[is_alike], minlength=count)
        is_limited = (within > 0) & (within < total)
        is_time = fields.kinds == int(Kind.TIME)
        if limits.is_time is not None and (is_limited & (is_time == limits.is_time)).any():
            is_limited &= is_time == limits.is_time
        documents = np.flatnonzero(is_within & is_limited[units.document_signatures]).astype(np.int32)
        outside = [one for one in found if one[0].end <= limits.start or limits.end <= one[0].start]
        inside = [one for one in found if limits.start <= one[0].start and one[0].end <= limits.end]
        if len(documents) and len(outside) + len(inside) == len(found):
            span = frozenset(range(limits.start, limits.end))
            found = [*outside, (LabelSpan(limits.start, limits.end, span, (), 1.0), documents)]
    return sorted(found, key=lambda one: one[0].start)


def _add_documents(
    units: Units, fields: Fields, facet: Facet, found: tuple[float, NDArray[np.int32]], *, negated: bool
) -> None:
    """Adds what a mention matches; in fields of yes and no the values of its polarity, rule 4."""
    strength, documents = found
    for document in documents.tolist():
        if not fields.is_polar[units.document_signatures[document]] or fields.is_negated[document] == negated:
            facet.documents[document] = max(strength, facet.documents.get(document, 0.0))
    for signature in distinct(units.document_signatures[documents]).tolist():
        if fields.is_polar[signature]:
            for document in units.documents_of(signature):
                if fields.is_negated[document] == negated:
                    facet.documents[document] = max(strength * OTHER_WORDS, facet.documents.get(document, 0.0))


NEGATION_REACH = 4  # Words before a mention in which a negation is looked for.


def _is_negated(words: Sequence[Word], mention: LabelSpan, is_taken: NDArray[np.bool_]) -> bool:
    """Returns whether a mention is negated: by a word inside it, or by one before it with no other mention between."""
    start = mention.start
    while start > max(0, mention.start - NEGATION_REACH) and not is_taken[start - 1]:
        start -= 1
    return any(word.is_negation for word in words[start : mention.end])


# Kinds of values that a question asks for, and superlatives; source: algorithms.md 4B.

_TIME_TEXT = """
when year years date dates newest oldest latest earliest recent recently newer older earlier later chronological
chronologically decade century
"""
_TIME = frozenset(_TIME_TEXT.split())
_AFTER_HOW_TEXT = "many much tall old long large big high wide heavy deep far fast"
_AFTER_HOW = frozenset(_AFTER_HOW_TEXT.split())

_SIZES_TEXT = """
least fewer fewest larger largest smaller smallest bigger biggest higher highest lower lowest taller tallest longer
longest shorter shortest wider widest heavier heaviest
"""
_SIZES = frozenset(_SIZES_TEXT.split())
_FREQUENCIES_TEXT = "common commonly frequent frequently often popular widely used usual usually of likely"
FREQUENCIES = frozenset(_FREQUENCIES_TEXT.split())
"""After `most` and `more`: they count hubs, and compare no number that a hub has."""


_AUXILIARIES_TEXT = "is are was were do does did has have had can could will would should may might must"
AUXILIARIES = frozenset(_AUXILIARIES_TEXT.split())  # First words of questions for yes or no.
_CHOICES = frozenset(("or", "same", "alike", "similar", "different", "differ", "more", "less"))
"""A question with one of them that begins like one for yes or no asks for what is compared."""


def asked_kinds(words: Sequence[Word]) -> Kind:
    """The kinds of values that a question asks for in plain words."""
    texts = [word.text.lower() for word in words]
    kinds = Kind.OTHER
    for text, following in zip(texts, [*texts[1:], ""], strict=False):
        is_amount = text in ("most", "more") and following not in FREQUENCIES
        if text in _TIME:
            kinds |= Kind.TIME
        elif text in _SIZES or is_amount or (text == "how" and following in _AFTER_HOW):
            kinds |= Kind.NUMBER
    if AUXILIARIES.intersection(texts[:1]) and not _CHOICES.intersection(texts):
        kinds |= Kind.YES_NO
    return kinds


BEST_SHARE = 0.99  # Of the largest H: hubs that meet a question's conditions as well as any do.

NOT_EXTREME = 0.6  # Strength of numbers that are not the largest or smallest that a question asks for.

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
"""With a superlative: all are asked for, in an order (newest first, newest to oldest)."""


def asked_extreme(words: Sequence[Word]) -> tuple[Kind, bool] | None:
    """The kind of number whose largest (True) or smallest value a question asks for; None: for no such value."""
    texts = [word.text.lower() for word in words]
    for position, text in enumerate(texts):
        if _ORDERS.intersection(texts[max(0, position - 1) : position + 2]):
            continue
        following = words[position + 1] if position + 1 < len(words) else None
        if text == "most" and texts[position - 1 : position] == ["the"] and following and not following.is_stop:
            if following.text.lower() in ("recent", "recently"):
                return Kind.TIME, True
            if following.text.lower() not in FREQUENCIES:
                return Kind.NUMBER, True
        if text in _EXTREMES:
            return _EXTREMES[text]
    return None


def extreme_facet(
    units: Units,
    kinds: NDArray[np.int64],
    question: ReadQuestion,
    hubs: NDArray[np.float64],
    asked: NDArray[np.float64],
) -> Facet | None:
    """The condition to have the largest or smallest number of the hubs that meet the rest.

    Args:
        units: The paths.
        kinds: Shape (s,): of each signature's values.
        question: As it was read.
        hubs: Shape (h,): H, how well each hub meets the other conditions.
        asked: Shape (s,): how much the question asks for each signature.

    Returns:
        None if no such number is asked for, or the question names a hub.
    Cost: O(paths of the field).
    """
    extreme = asked_extreme(question.words)
    if extreme is None or question.names_hub:
        return None
    kind, is_largest = extreme
    candidates = np.flatnonzero(kinds == int(kind))
    if not len(candidates):
        return None
    signature = int(candidates[asked[candidates].argmax()])
    paths = units.paths_of_signature(signature)
    is_met = hubs[units.path_hubs[paths]] >= BEST_SHARE * hubs.max(initial=0.0)
    found = distinct(units.path_documents[paths[is_met]])
    numbers = units.label_numbers[units.document_labels[found]]
    found, numbers = found[np.isfinite(numbers)], numbers[np.isfinite(numbers)]
    if not len(numbers):
        return None
    best = numbers.max() if is_largest else numbers.min()
    strengths = np.where(numbers == best, 1.0, NOT_EXTREME).tolist()
    return Facet((signature,), dict(zip(found.tolist(), strengths, strict=True)))
