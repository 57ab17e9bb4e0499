"""Words, labels and signatures of hub paths, and which labels a question mentions (pure).

Source: algorithms.md 4B, rule 2.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubGraph, HubPaths, Numbers
from polyhop.schemas.stems import stem
from polyhop.schemas.text import fold
from polyhop.tasks.lexical.postings import build_postings

# Source: algorithms.md 4B (units, rules 1 and 4).

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
_REFUSAL = "fail fails failed refuse refuses refused omit omits omitted withhold withholds withheld"
_REFUSALS = frozenset(_REFUSAL.split())
"""Negate in questions only: labels say them of what a value is about."""
_APOSTROPHES = "'’ʼ"

_REQUEST = "compare count find give list name order rank show sort tell"
_REQUESTS = frozenset(_REQUEST.split())
_SENTENCE_ENDS = ".?!"
_CLAUSE_ENDS = ".?!,:;"
_JOINED = frozenset(("and", "but"))


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text.

    Attributes:
        text: As written.
        stem: Of its folded lower-case form.
        is_stop: Whether it is a stop word.
        is_negation: Whether it negates what follows.
        begins_clause: Whether it begins a question's clause: its first word, or one after a mark or after `and`, `but`.
    """

    text: str
    stem: str
    is_stop: bool
    is_negation: bool
    begins_clause: bool = False

    @property
    def is_capitalised(self) -> bool:
        """Whether it begins with a capital letter."""
        return self.text[0].isupper()


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
    """The words of a question in order; a verb that opens a sentence and says how to answer is a stop word.

    Source: algorithms.md 4B, requests and kinds of values.
    """
    words = words_of(text)
    for number, match in enumerate(_WORD.finditer(folded := fold(text))):
        before = folded[: match.start()].rstrip()
        is_request = match.group().lower() in _REQUESTS and (not before or before[-1] in _SENTENCE_ENDS)
        is_joined = number > 0 and words[number - 1].text.lower() in _JOINED
        words[number] = replace(
            words[number],
            is_stop=words[number].is_stop or is_request,
            is_negation=words[number].is_negation or match.group().lower() in _REFUSALS,
            begins_clause=not before or before[-1] in _CLAUSE_ENDS or is_joined,
        )
    return words


def content_stems(words: Iterable[Word]) -> list[str]:
    """Stems without those of stop words."""
    return [word.stem for word in words if not word.is_stop]


def trigrams(word: str) -> set[str]:
    """Character trigrams of a stem with a blank at both ends."""
    padded = f" {word} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}


def are_family(one: str, other: str) -> bool:
    """Whether two stems of letters share a prefix of at least 4 that covers 66 % of the longer one (evolv, evolut).

    Source: algorithms.md 4B, word families.
    """
    longest = max(len(one), len(other))
    shared = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        shared += 1
    return shared >= 4 and shared >= 0.66 * longest and one.isalpha() and other.isalpha()


# Source: algorithms.md 4B, rules 1 and 2.

STOP_WORD_FACTOR = 0.1  # algorithms.md 4B, rule 2.
SHORTEST_UNKNOWN = 5  # letters; algorithms.md 4B, rule 1.
LEAST_DICE = 0.6  # algorithms.md 4B, rule 1.
LARGEST_LENGTH_DIFFERENCE = 2  # letters; algorithms.md 4B, rule 1.


class LabelIndex:
    """Distinct labels, by their stems, and the stems by which they are found.

    Attributes:
        stems: The labels, ascending: stems of their words in order.
        lengths: Shape (l,): words of each.
        content_lengths: Shape (l,): those of them that are no stop words.
        idf: By stem number.
        is_stop_stem: By stem number.
        weights: Shape (l,): summed idf of the distinct stems of each label.
        numbers: Number of each stem.
    """

    def __init__(self, labels: Sequence[Sequence[Word]]) -> None:
        """Of labels as words; equal ones are one."""
        distinct = {tuple(word.stem for word in label): label for label in labels}
        self.stems = sorted(distinct)
        self._number_of = {stems: number for number, stems in enumerate(self.stems)}
        index = build_postings(self.stems)
        stop_words = {word.stem for label in distinct.values() for word in label if word.is_stop}
        self.numbers = index.terms
        self.idf = np.log1p(len(self.stems) / (np.diff(index.indptr) + 0.5))
        self.is_stop_stem = np.zeros(len(self.idf), dtype=np.bool_)
        self.is_stop_stem[[index.terms[stop] for stop in sorted(stop_words)]] = True
        self.idf[self.is_stop_stem] *= STOP_WORD_FACTOR
        self.lengths = index.lengths
        terms = np.repeat(np.arange(len(self.idf)), np.diff(index.indptr))
        stops = np.bincount(index.passages, index.tf * self.is_stop_stem[terms], len(self.stems))
        self.content_lengths = self.lengths - stops.astype(np.int32)
        self.weights = np.bincount(index.passages, self.idf[terms], len(self.stems))
        self._index = index
        self._vocabulary = Vocabulary(list(index.terms), stop_words)

    def number_of(self, label: Sequence[Word]) -> int:
        """Number of a label that is among them."""
        return self._number_of[tuple(word.stem for word in label)]

    def labels_with(self, stem: int) -> NDArray[np.int32]:
        """Labels that have a stem, ascending."""
        return self._index.passages[self._index.indptr[stem] : self._index.indptr[stem + 1]]

    def meanings(self, word: Word, family_factor: float) -> list[tuple[int, float]]:
        """Stems of labels that a question's word can stand for, with a factor of at most 1; the word's own first."""
        own = self.numbers.get(word.stem)
        if word.is_stop:
            return [] if own is None else [(own, 1.0)]
        relatives = self._vocabulary.family(word.stem) if family_factor else []
        found = [(self.numbers[stem], family_factor) for stem in relatives]
        if own is not None:
            return [(own, 1.0), *found]
        nearest = self._vocabulary.nearest(word.stem)
        if nearest is not None and nearest not in relatives:
            return [(self.numbers[nearest], 1.0), *found]
        return found


class Vocabulary:
    """Stems to look words up in that are none of them."""

    def __init__(self, stems: Sequence[str], stop_words: set[str]) -> None:
        """Of ascending stems; stop words are never found."""
        self._stems = [stem for stem in stems if stem not in stop_words]
        self._prefixes: dict[str, list[str]] = {}
        self._trigrams = build_postings(sorted(trigrams(stem)) for stem in self._stems)
        for each in self._stems:
            if len(each) >= 4:
                self._prefixes.setdefault(each[:4], []).append(each)

    def family(self, stem: str) -> list[str]:
        """Other stems of its family, ascending."""
        return [other for other in self._prefixes.get(stem[:4], ()) if other != stem and are_family(stem, other)]

    def nearest(self, stem: str) -> str | None:
        """The most similar stem of about its length, ties alphabetical; None without one. Cost: O(shared trigrams)."""
        if len(stem) < SHORTEST_UNKNOWN or not stem.isalpha():
            return None
        index = self._trigrams
        postings = [
            index.passages[index.indptr[place] : index.indptr[place + 1]]
            for place in (index.terms.get(trigram) for trigram in sorted(trigrams(stem)))
            if place is not None
        ]
        if not postings:
            return None
        numbers, shared = np.unique(np.concatenate(postings), return_counts=True)
        dice = 2 * shared / (index.lengths[numbers] + len(trigrams(stem)))
        fits = [
            (-value, self._stems[number])
            for number, value in zip(numbers.tolist(), dice.tolist(), strict=True)
            if value >= LEAST_DICE and abs(len(self._stems[number]) - len(stem)) <= LARGEST_LENGTH_DIFFERENCE
        ]
        return min(fits)[1] if fits else None


DECIMALS = 9
"""Scores of readings are equal if they are so after rounding: summation order must not part alternatives."""

NAME_STRENGTH = 0.7  # algorithms.md 4B, rule 2.
PART_STRENGTH = 0.5  # flat from .5 to .6; algorithms.md 4B, parts of values.
RAREST = 2  # labels; algorithms.md 4B, rule 2.
NEARBY = 6  # tokens; algorithms.md 4B, rule 2.
LONG_LABEL = 3  # tokens; algorithms.md 4B, rule 2.
NEARBY_COVERAGE = 0.35  # algorithms.md 4B, rule 2.


@dataclass(frozen=True, slots=True)
class MentionRule:
    """What counts as a mention.

    Attributes:
        least_coverage: Least share of a label of a value or a hub.
        least_predicate_coverage: Least share of a predicate.
        any_order: Whether a label's words may stand in any order.
        family_factor: How much a word of the same family counts, 0 to 1; 0: word families are not used.
    """

    least_coverage: float = 0.6
    least_predicate_coverage: float = 0.99
    any_order: bool = True
    family_factor: float = 0.9


@dataclass(frozen=True, slots=True)
class Mention:
    """A span of the question and the labels that it can mean.

    Attributes:
        start: First word.
        end: After the last word.
        words: Words of the question that match.
        labels: Label numbers, ascending: alternatives.
        strength: Share of the labels that the question has, 0 to 1.
    """

    start: int
    end: int
    words: frozenset[int]
    labels: tuple[int, ...]
    strength: float


@dataclass(frozen=True, slots=True)
class _Windows:
    """Labels at places of the question, as arrays of shape (w,)."""

    labels: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    coverages: NDArray[np.float64]
    scores: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Matches:
    """Words of the question that are words of labels: in order of (label, stem, factor descending, place)."""

    labels: NDArray[np.int64]
    stems: NDArray[np.int64]
    places: NDArray[np.int64]
    factors: NDArray[np.float64]

    def those(self, kept: NDArray[np.bool_]) -> "_Matches":
        """Some of them."""
        return _Matches(self.labels[kept], self.stems[kept], self.places[kept], self.factors[kept])

    def first_of_each_stem(self) -> "_Matches":
        """A label's stem once."""
        if len(self.labels) == 0:
            return self
        is_first = np.ones(len(self.labels), dtype=np.bool_)
        is_first[1:] = (self.labels[1:] != self.labels[:-1]) | (self.stems[1:] != self.stems[:-1])
        return self.those(is_first)


def find_mentions(
    index: LabelIndex,
    meanings: Sequence[Sequence[tuple[int, float]]],
    words: Sequence[Word],
    roles: "Roles",
    rule: MentionRule,
) -> list[Mention]:
    """Labels that the question names.

    Returns:
        By place; spans do not overlap.
    Cost: O(labels that share a word with the question), and words * labels that it covers well.
    """
    matches = _matches(index, meanings, rule.least_coverage)
    windows = _windows(index, matches, roles, rule, _reaches(words, rule))
    taken = _greedy(windows, matches, words)
    free = [place for place in range(len(words)) if not any(mention.start <= place < mention.end for mention in taken)]
    names = [_name(index, meanings, words, place, roles) for place in free if words[place].is_capitalised]
    names += [_partly(index, words, place, roles) for place in free if not words[place].is_capitalised]
    return sorted([*taken, *(name for name in names if name)], key=lambda mention: mention.start)


@dataclass(frozen=True, slots=True)
class Roles:
    """What labels are labels of.

    Attributes:
        is_named: Shape (l,): labels of a value or a hub.
        is_predicate: Shape (l,): labels of a predicate.
        predicate_stems: Stem numbers of all predicates.
    """

    is_named: NDArray[np.bool_]
    is_predicate: NDArray[np.bool_]
    predicate_stems: frozenset[int]
    is_shared: NDArray[np.bool_]


def _reaches(words: Sequence[Word], rule: MentionRule) -> NDArray[np.int64]:
    """How far each word is into the question; in any order, stop words between others make no window longer."""
    if not rule.any_order:
        return np.arange(len(words))
    is_content = np.array([not word.is_stop for word in words], dtype=np.int64)
    return np.cumsum(is_content) - is_content


def _matches(index: LabelIndex, meanings: Sequence[Sequence[tuple[int, float]]], least: float) -> _Matches:
    """Matches of the labels that the whole question covers well enough."""
    triples = [(stem, place, factor) for place, found in enumerate(meanings) for stem, factor in found]
    total = np.zeros(len(index.stems))
    best: dict[int, float] = {}
    for number, _, factor in triples:
        best[number] = max(factor, best.get(number, 0.0))
    for number in sorted(best):
        total[index.labels_with(number)] += best[number] * index.idf[number]
    is_covered = total >= (least - 1e-9) * index.weights
    parts = []
    for number, place, factor in triples:
        labels = index.labels_with(number)
        labels = labels[is_covered[labels]]
        parts.append((labels, np.full(len(labels), number), np.full(len(labels), place), np.full(len(labels), factor)))
    if not parts:
        empty = np.empty(0, dtype=np.int64)
        return _Matches(empty, empty, empty, np.empty(0))
    labels, stems, places, factors = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((places, -factors, stems, labels))
    return _Matches(labels[order].astype(np.int64), stems[order], places[order], factors[order])


def _windows(
    index: LabelIndex, matches: _Matches, roles: Roles, rule: MentionRule, reaches: NDArray[np.int64]
) -> _Windows:
    """Labels that a window of their length covers well enough; windows begin and end at a matched word."""
    found: list[tuple[NDArray[np.int64], ...]] = []
    offsets = reaches[matches.places]
    lengths = index.content_lengths if rule.any_order else index.lengths
    for start, reach in enumerate(reaches.tolist()):
        inside = matches.those((matches.places >= start) & (offsets < reach + lengths[matches.labels]))
        if not np.any(inside.places == start):
            continue
        kept = inside.first_of_each_stem()
        if not rule.any_order:
            kept = _in_order(index, kept)
        labels, firsts = np.unique(kept.labels, return_index=True)
        begins = np.minimum.reduceat(kept.places, firsts)
        ends = np.maximum.reduceat(kept.places, firsts) + 1
        matched = np.add.reduceat(kept.factors * index.idf[kept.stems], firsts)
        has_content = np.maximum.reduceat(~index.is_stop_stem[kept.stems], firsts)
        coverages = matched / index.weights[labels]
        least = np.where(roles.is_named[labels], rule.least_coverage, rule.least_predicate_coverage)
        good = (begins == start) & has_content & (coverages >= least - 1e-9)
        found.append((labels[good], begins[good], ends[good], coverages[good], (matched * coverages)[good]))
    if not found:
        empty = np.empty(0, dtype=np.int64)
        return _Windows(empty, empty, empty, np.empty(0), np.empty(0))
    return _Windows(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _in_order(index: LabelIndex, matches: _Matches) -> _Matches:
    """Of each label the heaviest matches that stand in the question in the label's own order."""
    kept = np.zeros(len(matches.labels), dtype=np.bool_)
    for label in np.unique(matches.labels).tolist():
        rows = np.flatnonzero(matches.labels == label).tolist()
        stems = index.stems[label]
        rank = {index.numbers[stem]: place for place, stem in reversed(list(enumerate(stems)))}
        rows.sort(key=lambda row: int(matches.places[row]))
        best: list[tuple[float, list[int]]] = []
        for row in rows:
            own = rank[int(matches.stems[row])]
            before = [chain for chain in best if rank[int(matches.stems[chain[1][-1]])] < own]
            weight, chain = max(before, default=(0.0, []), key=lambda pair: pair[0])
            best.append((weight + float(index.idf[matches.stems[row]] * matches.factors[row]), [*chain, row]))
        kept[max(best, key=lambda pair: pair[0])[1]] = True
    return matches.those(kept)


def _greedy(windows: _Windows, matches: _Matches, words: Sequence[Word]) -> list[Mention]:
    """The heaviest readings without overlap; those of the same span and score together."""
    scores = np.round(windows.scores, DECIMALS)
    order = np.lexsort((windows.labels, -windows.ends, windows.starts, -scores))
    is_taken = np.zeros(len(words), dtype=np.bool_)
    spans: dict[tuple[int, int, float], list[int]] = {}
    for row in order.tolist():
        span = (int(windows.starts[row]), int(windows.ends[row]), float(scores[row]))
        if span in spans:
            spans[span].append(row)
        elif not is_taken[span[0] : span[1]].any():
            is_taken[span[0] : span[1]] = True
            spans[span] = [row]
    mentions = []
    for (start, end, _), rows in spans.items():
        labels = windows.labels[rows]
        begins, ends = (np.searchsorted(matches.labels, labels, side) for side in ("left", "right"))
        found = np.concatenate([matches.places[begin:last] for begin, last in zip(begins, ends, strict=True)])
        places = frozenset(found[(found >= start) & (found < end)].tolist())
        mentions.append(Mention(start, end, places, tuple(labels.tolist()), float(windows.coverages[rows].max())))
    return mentions


def _name(
    index: LabelIndex, meanings: Sequence[Sequence[tuple[int, float]]], words: Sequence[Word], place: int, roles: Roles
) -> Mention | None:
    """A rare capitalised word as a mention of the labels that have it: a surname, an acronym."""
    own = index.numbers.get(words[place].stem)
    if own is None or words[place].is_stop or own in roles.predicate_stems:
        return None
    labels = index.labels_with(own)
    if len(labels) > RAREST:
        return None
    nearby = {stem for found in meanings[max(0, place - NEARBY) : place + NEARBY + 1] for stem, _ in found}
    kept = []
    for label in labels.tolist():
        stems = [index.numbers[stem] for stem in dict.fromkeys(index.stems[label])]
        covered = float(sum(index.idf[stem] for stem in stems if stem in nearby))
        is_long = index.lengths[label] > LONG_LABEL
        if roles.is_named[label] and (not is_long or covered >= NEARBY_COVERAGE * index.weights[label]):
            kept.append(label)
    return Mention(place, place + 1, frozenset((place,)), tuple(kept), NAME_STRENGTH) if kept else None


def _partly(index: LabelIndex, words: Sequence[Word], place: int, roles: Roles) -> Mention | None:
    """A word that occurs in one short value only as a mention of it, if several hubs have the value (depression).

    Source: algorithms.md 4B, parts of values.
    """
    own = index.numbers.get(words[place].stem)
    if own is None or words[place].is_stop or own in roles.predicate_stems:
        return None
    labels = index.labels_with(own)
    labels = labels[roles.is_named[labels]]
    if len(labels) != 1 or not roles.is_shared[labels[0]] or index.lengths[labels[0]] > LONG_LABEL:
        return None
    return Mention(place, place + 1, frozenset((place,)), (int(labels[0]),), PART_STRENGTH)


# Source: algorithms.md 4B, units.


def signatures_of(graph: HubGraph, paths: HubPaths) -> tuple[NDArray[np.int32], list[tuple[int, ...]]]:
    """The signature of each path.

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
    used = np.unique(number)
    order = sorted(used.tolist(), key=known.__getitem__)
    rank = np.zeros(len(known), dtype=np.int32)
    rank[order] = np.arange(len(order))
    return rank[number], [known[place] for place in order]


def values_of(graph: HubGraph, paths: HubPaths) -> Numbers:
    """Node in which each path ends, shape (p,)."""
    return graph.objects[paths.last_triples()]
