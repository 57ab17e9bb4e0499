"""A version's hub paths as hub facets rank them, and what the values of its fields are (pure).

A document is a signature with a value's label; paths of the same document differ in their hub or in the id of their
value only. Source: algorithms.md 4B, units.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import IntFlag

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import distinct
from polyhop.schemas.hub_paths import humanised, signature_texts
from polyhop.schemas.hubs import HubGraph, HubPaths, Numbers
from polyhop.schemas.propositions import CompressedRows
from polyhop.schemas.types import SECONDS, month_number
from polyhop.worker.ranking.facets.labels import LabelIndex, Meanings, Word, content_stems, words_of


@dataclass(frozen=True, slots=True)
class Units:
    """Hub paths as they are ranked."""

    hub_starts: NDArray[np.int64]  # Shape (h + 1,), int64: paths of each hub.
    path_hubs: NDArray[np.int32]  # Shape (p,), int32.
    path_documents: NDArray[np.int32]  # Shape (p,), int32.
    path_parents: Numbers  # Shape (p,), int32: the node that a path's last triple leaves.
    signature_texts: tuple[str, ...]  # The predicates that tell each signature from others, in words.
    signature_words: tuple[tuple[Word, ...], ...]  # Words of these texts.
    document_signatures: NDArray[np.int32]  # Shape (d,), int32, ascending.
    document_labels: NDArray[np.int32]  # Shape (d,), int32: label of each document's value.
    # Shape (d,), int32: number of each document's value among the distinct ones as spelled.
    document_values: NDArray[np.int32]
    value_texts: tuple[str, ...]  # These values, and hubs' labels, as spelled.
    value_words: tuple[tuple[Word, ...], ...]  # Their words.
    document_texts: NDArray[np.int32]  # Shape (d,), int32: row of its vector.
    copies: NDArray[np.int64]  # Shape (d,), int64: paths of each document.
    document_paths: CompressedRows  # Paths of each document.
    labels: LabelIndex  # All labels.
    label_documents: CompressedRows  # Documents of a label.
    label_hubs: CompressedRows  # Hubs of a label.
    # Shape (l,): the number, date (in years) or duration (in days) that a label is; NaN if none.
    label_numbers: NDArray[np.float64]
    is_duration: NDArray[np.bool_]  # Shape (l,): labels that are durations.
    is_shared: NDArray[np.bool_]  # Shape (l,): labels in which several paths end.
    hub_values: NDArray[np.int32]  # Shape (h,), int32: label of each hub, numbered as `value_words`.

    @property
    def hub_count(self) -> int:
        """Hubs, those without paths included."""
        return len(self.hub_starts) - 1

    def documents_of(self, signature: int) -> range:
        """Documents of a signature."""
        start, end = np.searchsorted(self.document_signatures, [signature, signature + 1]).tolist()
        return range(start, end)

    def paths_of_signature(self, signature: int) -> NDArray[np.int32]:
        """Paths of a signature, in order of their documents."""
        return self.document_paths.of_all(self.documents_of(signature))

    def document_words(self) -> Iterator[tuple[Word, ...]]:
        """Words of each document: signature text and value."""
        for signature, value in zip(self.document_signatures.tolist(), self.document_values.tolist(), strict=True):
            yield self.signature_words[signature] + self.value_words[value]


def units_of(
    graph: HubGraph, paths: HubPaths, texts: Numbers, predicates: Sequence[str], names: Sequence[str]
) -> Units:
    """Hub paths, prepared.

    Cost: O(paths log paths + distinct labels), once per version.
    """
    path_signatures, signatures = signatures_of(graph, paths)
    named = [tuple(predicates[predicate] for predicate in signature) for signature in signatures]
    text_of = signature_texts(named)
    field_texts = tuple(text_of[signature] for signature in named)

    # Values and hubs by their labels as spelled, and these by their stems.
    ends, hubs = graph.objects[paths.last_triples()], paths.hubs
    nodes = distinct(np.concatenate((ends, hubs)))
    spelled = [names[node] for node in nodes.tolist()]
    spellings = sorted(set(spelled))
    words = [tuple(words_of(text)) for text in spellings]
    number_of_text = {text: number for number, text in enumerate(spellings)}
    text_of_node = np.fromiter(map(number_of_text.__getitem__, spelled), dtype=np.int64, count=len(spelled))
    labels = LabelIndex(words, [words_of(humanised(predicate)) for predicate in predicates])
    label_of_text = np.fromiter(map(labels.number_of, words), dtype=np.int32, count=len(words))

    of_label = dict(zip(label_of_text.tolist(), map(_measure, words), strict=True))
    measures = [of_label.get(number) for number in range(len(labels.stems))]
    path_texts = text_of_node[np.searchsorted(nodes, ends)]
    keys = path_signatures * np.int64(len(spellings)) + path_texts
    keys, firsts, documents, copies = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    of_signature, of_text = np.divmod(keys, max(1, len(spellings)))
    document_labels = label_of_text[of_text]
    hub_texts = text_of_node[np.searchsorted(nodes, hubs)]
    return Units(
        hub_starts=np.asarray(paths.path_starts, dtype=np.int64),
        path_hubs=paths.path_hubs(),
        path_documents=documents.astype(np.int32),
        path_parents=graph.subjects[paths.last_triples()],
        signature_texts=field_texts,
        signature_words=tuple(tuple(words_of(text)) for text in field_texts),
        document_signatures=of_signature.astype(np.int32),
        document_labels=document_labels,
        document_values=of_text.astype(np.int32),
        value_texts=tuple(spellings),
        value_words=tuple(words),
        document_texts=np.asarray(texts, dtype=np.int32)[firsts],
        copies=copies.astype(np.int64),
        document_paths=_inverted(documents, len(keys)),
        labels=labels,
        label_documents=_inverted(document_labels, len(labels.stems)),
        label_hubs=_inverted(label_of_text[hub_texts], len(labels.stems)),
        label_numbers=np.array([one.first if one else np.nan for one in measures], dtype=np.float64),
        is_duration=np.array([one is not None and one.is_duration for one in measures], dtype=np.bool_),
        is_shared=np.bincount(document_labels, copies, len(labels.stems)) >= 2,
        hub_values=hub_texts.astype(np.int32),
    )


def _inverted(keys: Numbers, count: int) -> CompressedRows:
    """Positions by key: shape of `keys` (n,), numbers below `count`."""
    return CompressedRows.of(keys, np.arange(len(keys)), count)


def signatures_of(graph: HubGraph, paths: HubPaths) -> tuple[NDArray[np.int32], list[tuple[int, ...]]]:
    """The signature of each path: the predicates from its hub to its value.

    Returns:
        Shape (p,): number of each path's signature; and the signatures as predicate numbers, in ascending order.
    Cost: O(triples of all paths, sorted per step from the hub).
    """
    starts = paths.triple_starts[:-1]
    lengths = np.diff(paths.triple_starts)
    number = np.zeros(paths.path_count, dtype=np.int64)
    known: list[tuple[int, ...]] = [()]
    predicate_count = int(graph.predicates.max(initial=0)) + 1
    for depth in range(int(lengths.max(initial=0))):
        active = np.flatnonzero(lengths > depth)
        predicates = graph.predicates[paths.path_triples[starts[active] + depth]]
        keys, inverse = np.unique(number[active] * predicate_count + predicates, return_inverse=True)
        number[active] = len(known) + inverse
        known += [(*known[key // predicate_count], key % predicate_count) for key in keys.tolist()]
    used = distinct(number)
    order = sorted(used.tolist(), key=known.__getitem__)
    rank = np.zeros(len(known), dtype=np.int32)
    rank[order] = np.arange(len(order))
    return rank[number], [known[index] for index in order]


class Kind(IntFlag):
    """Kind of a field's values; a question can ask for several kinds. Source: algorithms.md 4B, kinds."""

    OTHER = 0
    TIME = 1
    NUMBER = 2
    YES_NO = 4


LEAST_KIND_SHARE = 0.9
"""Of a field's distinct values that are of a kind; chosen: a few values of another form are common in real data."""

FIRST_YEAR, LAST_YEAR = 1000, 2100  # algorithms.md 4B, kinds of values.
_DAYS = {unit: seconds / SECONDS["day"] for unit, seconds in SECONDS.items() if unit != "second"}
_MOST_DIGITS = 15  # exact in float64; algorithms.md 4B, ranges.
_MEASURES = re.compile("(?P<ymd>Ydd)|(?P<dmy>dmY)|(?P<mdy>mdY)|(?P<my>mY)|(?P<duration>[Ydn]u)|[Ydn]")
"""On a text with one letter per word: year, number up to 31, other number, month, unit of time."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number, a date or a duration in words from `start` to before `end`: from `first` to before `after`.

    Dates count in years (372 days each, 31 a month), durations in days. A year lasts until the next one begins.
    """

    start: int
    end: int
    first: float
    after: float
    is_duration: bool


def measures_of(words: Sequence[Word]) -> list[Measure]:
    """Numbers in ASCII digits, dates (2021-06-14, 14 June 2021, June 2021) and durations (18 months), in order."""
    texts = [word.text.lower() for word in words]
    found = []
    for match in _MEASURES.finditer("".join(map(_letter, texts))):
        start, end = match.span()
        order = match.lastgroup or ""
        if order == "duration":
            days = int(texts[start]) * _DAYS[texts[start + 1].rstrip("s")]
            found.append(Measure(start, end, days, float(np.nextafter(days, np.inf)), is_duration=True))
        elif order:
            parts = dict(zip(order, texts[start:end], strict=True))
            month = month_number(parts["m"]) or int(parts["m"])
            days = int(parts["y"]) * 372 + (month - 1) * 31 + int(parts.get("d", 1)) - 1
            after = days + (1 if "d" in parts else 31)
            found.append(Measure(start, end, days / 372, after / 372, is_duration=False))
        else:
            found.append(Measure(start, end, float(texts[start]), float(texts[start]) + 1, is_duration=False))
    return found


def _letter(text: str) -> str:
    """Role of a word in a number, date or duration; see `_MEASURES`."""
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        is_year = len(text) == 4 and FIRST_YEAR <= int(text) <= LAST_YEAR
        return "Y" if is_year else "d" if len(text) <= 2 and 1 <= int(text) <= 31 else "n"
    return "m" if month_number(text) else "u" if text.rstrip("s") in _DAYS else "."


def _measure(words: Sequence[Word]) -> Measure | None:
    """Parses a label that is one number, date or duration and at most a unit after it."""
    found = measures_of(words)
    return found[0] if len(found) == 1 and found[0].start == 0 and len(words) <= found[0].end + 1 else None


_YES_NO = frozenset(["true", "false", "yes", "no"])

# Polarity: fields of so few values, of whose paths such a share is negated.
MOST_VALUES = 5  # algorithms.md 4B, rule 4.
LEAST_SHARE, LARGEST_SHARE = 0.02, 0.98  # algorithms.md 4B, rule 4.


class Fields:
    """Names of a version's signatures, and kinds of their values.

    Attributes:
        is_polar: Shape (s,): signatures whose values say yes or no in words.
        is_negated: Shape (d,): documents of such signatures whose value is negated.
        kinds: Shape (s,): `Kind` of each signature's values.
    """

    def __init__(self, units: Units, left_out: Collection[str] = ()) -> None:
        """Derives the fields of prepared paths, without the stems `left_out` of hub types. Cost: O(documents)."""
        # Words of all signatures, one after the other, with their weights.
        kept = [[stem for stem in dict.fromkeys(content_stems(words)) if stem not in left_out]
                for words in units.signature_words]  # fmt: skip
        self._starts = np.cumsum([0, *map(len, kept)])
        self._stems = np.array([units.labels.numbers[stem] for stems in kept for stem in stems], dtype=np.int64)
        self._idf = units.labels.idf
        totals = self._sums(self._idf[self._stems])
        self._totals = np.where(totals > 0, totals, 1.0)

        signatures, count = units.document_signatures, len(units.signature_texts)
        negations = np.array([any(word.is_negation for word in words) for words in units.value_words], dtype=np.bool_)
        negated = negations[units.document_values]
        labels = np.unique(np.stack((signatures, units.document_labels)), axis=1)[0]
        paths = np.bincount(signatures, units.copies, count)
        shares = np.bincount(signatures, units.copies * negated, count) / np.maximum(paths, 1)
        is_small = np.bincount(labels, minlength=count) <= MOST_VALUES
        self.is_polar = is_small & (shares >= LEAST_SHARE) & (shares <= LARGEST_SHARE)
        self.is_negated = negated & self.is_polar[signatures]

        of_value = np.array([_kind(words) for words in units.value_words], dtype=np.int64)
        of_document = of_value[units.document_values]
        values = np.bincount(signatures, minlength=count)
        self.kinds = np.where(self.is_polar, int(Kind.YES_NO), 0)
        for kind, are in ((Kind.TIME, Kind.TIME), (Kind.NUMBER, Kind.NUMBER | Kind.TIME), (Kind.YES_NO, Kind.YES_NO)):
            found = np.bincount(signatures[of_document & int(are) > 0], minlength=count)  # 1600 may be a length, too
            self.kinds[(found >= LEAST_KIND_SHARE * values) & (self.kinds == 0)] = int(kind)

    def shares(self, meanings: Meanings) -> NDArray[np.float64]:
        """Share of each signature's words among some words of a question, weighted by idf: shape (s,), 0 to 1."""
        factors = np.zeros(len(self._idf))
        for found in meanings:
            for stem, factor in found:
                factors[stem] = max(factors[stem], factor)
        return self._sums(self._idf[self._stems] * factors[self._stems]) / self._totals

    def _sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        totals = np.concatenate(([0.0], np.cumsum(values)))
        return np.asarray(totals[self._starts[1:]] - totals[self._starts[:-1]])


def _kind(words: Sequence[Word]) -> Kind:
    """The kind of one value: a date has a year among its words and nothing but numbers and months besides."""
    texts = [word.text.lower() for word in words]
    if not texts:
        return Kind.OTHER
    if len(texts) == 1 and texts[0] in _YES_NO:
        return Kind.YES_NO
    numbers = [text for text in texts if text.isascii() and text.isdigit()]
    has_year = any(len(text) == 4 and FIRST_YEAR <= int(text) <= LAST_YEAR for text in numbers)
    if has_year and all(text in numbers or month_number(text) for text in texts):
        return Kind.TIME
    return Kind.NUMBER if texts[0] in numbers and len(texts) <= 3 else Kind.OTHER
