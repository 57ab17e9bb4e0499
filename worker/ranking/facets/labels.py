"""Words and labels of hub paths, and which labels a question mentions (pure).

Source: algorithms.md 4B, rules 1 and 2.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.languages import stem
from polyhop.schemas.postings import build_postings
from polyhop.schemas.text import fold

_WORD = re.compile(r"[^\W_]+")

_STOP = """
a about above after again against ain all am an and any are aren as at be because been before being below between
both but by can couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn
have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m ma me
mightn more most mustn my myself needn no nor not now o of off on once only or other our ours ourselves out over own
re s same shan she should shouldn so some such t than that the their theirs them themselves then there these they
this those through to too under until up ve very was wasn we were weren what when where which while who whom why
will with won wouldn y you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP.split())
"""bm25s' STOPWORDS_EN_PLUS as words are split here: its forms with an apostrophe come as two words of the list."""

_NEGATION = "no not non none never neither nor without lack lacks lacked lacking cannot"
_NEGATIONS = frozenset(_NEGATION.split())
_APOSTROPHES = "'’ʼ"

_REQUESTS = frozenset(["compare", "count", "find", "give", "list", "name", "order", "rank", "show", "sort", "tell"])
_SENTENCE_ENDS = ".?!"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text."""

    text: str  # As written.
    stem: str  # Of its folded lower-case form.
    is_stop: bool  # Whether it is a stop word.
    is_negation: bool  # Whether it negates what follows.


def words_of(text: str) -> list[Word]:
    """The words of a text in order; stop words are among them."""
    folded = fold(text)
    words = []
    for match in _WORD.finditer(folded):
        word, begin = match.group().lower(), match.start()
        is_contraction = word == "t" and begin > 1 and folded[begin - 1] in _APOSTROPHES and folded[begin - 2] in "nN"
        words.append(Word(match.group(), stem(word), word in STOP_WORDS, word in _NEGATIONS or is_contraction))
    return words


def question_words(text: str) -> list[Word]:
    """The words of a question in order; a verb that opens a sentence and says how to answer is a stop word."""
    words = words_of(text)
    for number, match in enumerate(_WORD.finditer(folded := fold(text))):
        before = folded[: match.start()].rstrip()
        if match.group().lower() in _REQUESTS and (not before or before[-1] in _SENTENCE_ENDS):
            words[number] = replace(words[number], is_stop=True)
    return words


def content_stems(words: Iterable[Word]) -> tuple[str, ...]:
    """Stems of the words that are no stop words."""
    return tuple(word.stem for word in words if not word.is_stop)


def are_family(one: str, other: str) -> bool:
    """Returns whether two stems share a prefix of at least 4 letters and 66 % of the longer one (evolv, evolut).

    Source: algorithms.md 4B, word families.
    """
    longest = max(len(one), len(other))
    shared = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        shared += 1
    return shared >= 4 and shared >= 0.66 * longest and one.isalpha() and other.isalpha()


FAMILY_FACTOR = 0.9  # what a word of the same family counts; algorithms.md 4B, Built.
STOP_WORD_FACTOR = 0.1  # of their idf: `not shared` is another label than `shared`; algorithms.md 4B, rule 2.


class LabelIndex:
    """Distinct labels of values, hubs and predicates, by their stems.

    Attributes:
        stems: The labels, ascending: stems of their words in order.
        is_named: Shape (l,): labels of a value or a hub, which a question can mention.
        lengths: Shape (l,): words of each.
        content_lengths: Shape (l,): those of them that are no stop words.
        idf: By stem number.
        is_stop: By stem number.
        weights: Shape (l,): summed idf of the distinct stems of each label.
        numbers: Number of each stem.
        predicate_stems: Numbers of the stems of predicates.
    """

    def __init__(self, named: Sequence[Sequence[Word]], predicates: Sequence[Sequence[Word]]) -> None:
        """Indexes labels of values and hubs, and of predicates; equal ones are one."""
        names = set(map(_stems, named))
        self.stems = sorted(names.union(map(_stems, predicates)))
        self.is_named = np.array([label in names for label in self.stems], dtype=np.bool_)
        self._number_of = {stems: number for number, stems in enumerate(self.stems)}
        index = build_postings(self.stems)
        self.numbers, self.lengths = index.terms, index.lengths
        self.predicate_stems = {self.numbers[word.stem] for label in predicates for word in label}
        self.is_stop = np.zeros(len(index.terms), dtype=np.bool_)
        self.is_stop[[self.numbers[word.stem] for label in (*named, *predicates) for word in label if word.is_stop]] = (
            True
        )
        self.idf = np.log1p(len(self.stems) / (np.diff(index.indptr) + 0.5))
        self.idf[self.is_stop] *= STOP_WORD_FACTOR
        terms = np.repeat(np.arange(len(self.idf)), np.diff(index.indptr))
        self.weights = np.bincount(index.passages, self.idf[terms], len(self.stems))
        self.content_lengths = np.bincount(index.passages, index.tf * ~self.is_stop[terms], len(self.stems))
        self._postings = index
        self._relatives: dict[str, list[str]] = {}  # by the first four letters, which a family shares
        for each, number in index.terms.items():
            if not self.is_stop[number]:
                self._relatives.setdefault(each[:4], []).append(each)

    def number_of(self, label: Sequence[Word]) -> int:
        """Number of a label that is among them."""
        return self._number_of[_stems(label)]

    def labels_with(self, stem: int) -> NDArray[np.int32]:
        """Labels that have a stem, ascending."""
        return self._postings.passages[self._postings.indptr[stem] : self._postings.indptr[stem + 1]]

    def meanings(self, word: Word) -> list[tuple[int, float]]:
        """Stems of labels that a question's word can stand for, with a factor of at most 1; the word's own first."""
        own = [(self.numbers[word.stem], 1.0)] if word.stem in self.numbers else []
        near = [] if word.is_stop else self._relatives.get(word.stem[:4], ())
        relatives = [other for other in near if other != word.stem and are_family(word.stem, other)]
        return own + [(self.numbers[other], FAMILY_FACTOR) for other in relatives]


def _stems(words: Sequence[Word]) -> tuple[str, ...]:
    return tuple(word.stem for word in words)


Meanings = Sequence[Sequence[tuple[int, float]]]
"""By word of the question: stems of labels that it can stand for, with factors."""

DECIMALS = 9  # Scores of readings are equal if they are so after rounding: summation order must not part alternatives.

PART_STRENGTH = 0.5  # flat from .5 to .6; algorithms.md 4B, parts of values.
LONGEST_IN_PART = 3  # words; algorithms.md 4B, parts of values.


@dataclass(frozen=True, slots=True)
class LabelSpan:
    """A span of the question and the labels that it can mean."""

    start: int  # First word.
    end: int  # After the last word.
    words: frozenset[int]  # Words of the question that match.
    labels: tuple[int, ...]  # Label numbers, ascending: alternatives; none of a range of numbers.
    strength: float  # Share of the labels that the question has, 0 to 1.


def find_mentions(
    index: LabelIndex, meanings: Meanings, words: Sequence[Word], least_coverage: float, is_shared: NDArray[np.bool_]
) -> list[LabelSpan]:
    """Labels of values and hubs that the question names.

    Args:
        index: All labels.
        meanings: Of each word.
        words: The question's.
        least_coverage: Least share of a label's words, by rarity.
        is_shared: Shape (l,): labels in which several paths end.

    Returns:
        By position; spans do not overlap.
    Cost: O(labels that share a word with the question), and words * labels that it covers well.
    """
    matches = _matches(index, meanings, least_coverage)
    windows = _windows(index, matches, words, least_coverage)
    # The heaviest readings without overlap; those of the same span and score are alternatives.
    windows["score"] = np.round(windows["score"], DECIMALS)
    is_taken = np.zeros(len(words), dtype=np.bool_)
    spans: dict[tuple[int, int, float], list[int]] = {}
    windows = windows[np.lexsort((windows["label"], -windows["end"], windows["start"], -windows["score"]))]
    columns = (windows[name].tolist() for name in ("start", "end", "score"))
    for row, (start, end, score) in enumerate(zip(*columns, strict=True)):
        if (start, end, score) in spans:
            spans[start, end, score].append(row)
        elif not is_taken[start:end].any():
            is_taken[start:end] = True
            spans[start, end, score] = [row]
    mentions = []
    for (start, end, _), rows in spans.items():
        labels = windows["label"][rows]
        positions = matches["position"][np.isin(matches["label"], labels)]
        inside = frozenset(positions[(positions >= start) & (positions < end)].tolist())
        mentions.append(LabelSpan(start, end, inside, tuple(labels.tolist()), float(windows["coverage"][rows].max())))
    # A left word that occurs in one short value only, which several hubs have, mentions it in part (depression).
    for position in np.flatnonzero(~is_taken).tolist():
        own = index.numbers.get(words[position].stem)
        if own is None or words[position].is_stop or own in index.predicate_stems:
            continue
        labels = index.labels_with(own)
        if len(labels) == 1 and is_shared[labels[0]] and index.lengths[labels[0]] <= LONGEST_IN_PART:
            mentions.append(LabelSpan(position, position + 1, frozenset((position,)), (int(labels[0]),), PART_STRENGTH))
    return sorted(mentions, key=lambda mention: mention.start)


_MATCH = np.dtype([("label", np.int64), ("stem", np.int64), ("position", np.int64), ("factor", np.float64)])
_WINDOW = np.dtype(
    [("label", np.int64), ("start", np.int64), ("end", np.int64), ("coverage", np.float64), ("score", np.float64)]
)


def _matches(index: LabelIndex, meanings: Meanings, least: float) -> NDArray[Any]:
    """Words of the question that are words of labels which all of it covers well enough: rows of `_MATCH`.

    In ascending order of label, stem, descending factor, and position.
    """
    triples = [(stem, position, factor) for position, found in enumerate(meanings) for stem, factor in found]
    best: dict[int, float] = {}
    for number, _, factor in triples:
        best[number] = max(factor, best.get(number, 0.0))
    total = np.zeros(len(index.stems))
    for number in sorted(best):
        total[index.labels_with(number)] += best[number] * index.idf[number]
    is_covered = index.is_named & (total >= (least - 1e-9) * index.weights)
    parts = [np.empty(0, dtype=_MATCH)]
    for number, position, factor in triples:
        labels = index.labels_with(number)
        labels = labels[is_covered[labels]]
        part = np.empty(len(labels), dtype=_MATCH)
        part["label"], part["stem"], part["position"], part["factor"] = labels, number, position, factor
        parts.append(part)
    matches = np.concatenate(parts)
    return matches[np.lexsort((matches["position"], -matches["factor"], matches["stem"], matches["label"]))]


def _windows(index: LabelIndex, matches: NDArray[Any], words: Sequence[Word], least: float) -> NDArray[Any]:
    """Labels that a window of their length covers well enough, in any order of their words: rows of `_WINDOW`.

    A window begins and ends at a matched word; stop words between others make it no longer.
    """
    is_content = np.array([not word.is_stop for word in words], dtype=np.int64)
    reaches = np.cumsum(is_content) - is_content
    parts = [np.empty(0, dtype=_WINDOW)]
    for start, reach in enumerate(reaches.tolist()):
        is_inside = (matches["position"] >= start) & (
            reaches[matches["position"]] < reach + index.content_lengths[matches["label"]]
        )
        inside = matches[is_inside]
        if not np.any(inside["position"] == start):
            continue
        is_first = np.ones(len(inside), dtype=np.bool_)  # a label's stem counts once
        is_first[1:] = (inside["label"][1:] != inside["label"][:-1]) | (inside["stem"][1:] != inside["stem"][:-1])
        kept = inside[is_first]
        labels, firsts = np.unique(kept["label"], return_index=True)
        begins = np.minimum.reduceat(kept["position"], firsts)
        matched = np.add.reduceat(kept["factor"] * index.idf[kept["stem"]], firsts)
        coverages = matched / index.weights[labels]
        part = np.empty(len(labels), dtype=_WINDOW)
        part["label"], part["start"], part["coverage"], part["score"] = labels, begins, coverages, matched * coverages
        part["end"] = np.maximum.reduceat(kept["position"], firsts) + 1
        has_content = np.maximum.reduceat(~index.is_stop[kept["stem"]], firsts)
        parts.append(part[has_content & (begins == start) & (coverages >= least - 1e-9)])
    return np.concatenate(parts)
