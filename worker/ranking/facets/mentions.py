"""Mentions: which labels a question names, and where (pure).

Source: algorithms.md 4B, rule 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.facets.labels import LabelIndex
from polyhop.worker.ranking.facets.words import Word

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

    Args:
        index: All labels.
        meanings: By word of the question: stems of labels that it can stand for, with factors.
        words: The question's.
        roles: What labels are labels of.
        rule: What counts.

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
    for stem, _, factor in triples:
        best[stem] = max(factor, best.get(stem, 0.0))
    for stem in sorted(best):
        total[index.labels_with(stem)] += best[stem] * index.idf[stem]
    is_covered = total >= (least - 1e-9) * index.weights
    parts = []
    for stem, place, factor in triples:
        labels = index.labels_with(stem)
        labels = labels[is_covered[labels]]
        parts.append((labels, np.full(len(labels), stem), np.full(len(labels), place), np.full(len(labels), factor)))
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
