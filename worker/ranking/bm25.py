"""BM25: what each term adds to each passage, once per version, and their sum, once per question.

Splits no text (polyhop.schemas.stems does). SPRIG and `bm25` count a question's repeated terms, bridge does not.
Source: algorithms.md 2.9, 2B.2; the ATIRE/Lucene idf, with the factor k1 + 1 that newer Lucene dropped.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import LexicalIndex
from polyhop.worker.ranking.order import best_positive

Ranking = tuple[NDArray[np.intp], NDArray[np.float64]]
"""Passage numbers in descending order of score, and their scores."""

_FEW_POSTINGS = 100_000
"""Fewer postings are summed faster (.3 ms) than they are chosen from."""

_READ_SHARE = 1 / 4
"""Share of a question's postings after which choosing is given up, so that it never costs much more than summing."""

_SEARCH_SHARE = 1 / 64
"""Searches, one per contender and term, per posting of the question up to which they are faster than summing."""

_SLACK = 1e-9
"""More than the order of a sum of contributions can change, and than scores are rounded by before they are compared."""


@dataclass(frozen=True, slots=True)
class TermImpacts:
    """Postings with their BM25 contributions.

    Attributes:
        terms: Term number by term.
        indptr: Shape (n_terms + 1,), int64.
        passages: Shape (nnz,), int32: passage numbers, ascending inside a term.
        weights: Shape (nnz,), float64: what one occurrence of the term in the question adds to the passage.
        idf: Shape (n_terms,), float64.
        largest: Shape (n_terms,), float64: each term's largest weight.
        passage_count: Number of passages.
    """

    terms: Mapping[str, int]
    indptr: NDArray[np.int64]
    passages: NDArray[np.int32]
    weights: NDArray[np.float64]
    idf: NDArray[np.float64]
    largest: NDArray[np.float64]
    passage_count: int


def inverse_document_frequency(df: NDArray[np.int64], passage_count: int) -> NDArray[np.float64]:
    """`ln(1 + (N - df + .5) / (df + .5))`, positive for every df up to N. Source: algorithms.md 2.9."""
    return np.log1p((passage_count - df + 0.5) / (df + 0.5))


def impacts(lexical: LexicalIndex, k1: float, b: float, copies: NDArray[np.int64] | None = None) -> TermImpacts:
    """BM25 contributions of every term to every passage that has it.

    Args:
        lexical: Postings of one analyser.
        k1: Saturation of repeated terms, at least 0.
        b: Share of length normalisation, 0 to 1.
        copies: Shape (n_passages,): how often each text stands in the collection; None: once.

    Returns:
        `idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))` for every posting.
    Source: algorithms.md 2.9.
    Cost: O(postings), once per version.
    """
    passage_count = len(lexical.lengths)
    postings = np.diff(lexical.indptr)
    if copies is None:
        df, size, total = postings, passage_count, float(lexical.lengths.sum(dtype=np.int64))
    else:
        terms = np.repeat(np.arange(len(postings)), postings)
        df = np.bincount(terms, copies[lexical.passages], len(postings)).astype(np.int64)
        size, total = int(copies.sum()), float(np.dot(lexical.lengths, copies))
    idf = inverse_document_frequency(df, size)
    relative = lexical.lengths * (size / total) if total else np.zeros(passage_count)
    damping = (k1 * (1 - b + b * relative))[lexical.passages]
    weights = np.repeat(idf, postings) * lexical.tf * (k1 + 1) / (lexical.tf + damping)
    largest = np.zeros(len(postings))
    if len(weights):
        largest[postings > 0] = np.maximum.reduceat(weights, lexical.indptr[:-1][postings > 0])
    return TermImpacts(lexical.terms, lexical.indptr, lexical.passages, weights, idf, largest, passage_count)


def count_terms(tokens: Iterable[str], terms: Mapping[str, int]) -> dict[int, int]:
    """Occurrences of each known term, by ascending term number, so that sums have one order."""
    return dict(sorted(Counter(terms[token] for token in tokens if token in terms).items()))


def score(index: TermImpacts, counts: Mapping[int, float]) -> NDArray[np.float64]:
    """BM25 of every passage.

    Args:
        index: From `impacts`.
        counts: Question terms and how often each counts, ascending (`count_terms`).

    Returns:
        Shape (n_passages,); 0 for passages without a question term.
    Source: algorithms.md 2.9.
    Cost: O(postings of the question's terms + passages).
    """
    spans = [(int(index.indptr[term]), int(index.indptr[term + 1]), count) for term, count in counts.items()]
    if not spans:
        return np.zeros(index.passage_count)
    passages = np.concatenate([index.passages[start:end] for start, end, _ in spans])
    weights = np.concatenate(
        [index.weights[start:end] if count == 1 else index.weights[start:end] * count for start, end, count in spans]
    )
    return np.bincount(passages, weights, index.passage_count).astype(np.float64, copy=False)


def top(index: TermImpacts, counts: Mapping[int, float], count: int) -> Ranking:
    """The passages with the largest BM25 above 0, without a sum over every posting (MaxScore).

    Terms are added in descending order of what they can add at most, until the rest together cannot bring a passage
    among the first; only passages that still can are summed over all terms, in the order of `score`.

    Args:
        index: From `impacts`.
        counts: Question terms and how often each counts, at least 0, ascending (`count_terms`).
        count: Passages to return at most.

    Returns:
        Numbers in descending order of score, ties by number, and scores: those of `best_positive` and `score`, bit by
        bit.
    Source: Turtle and Flood 1995.
    Cost: O(postings of the rarer terms, and a search in the postings of the others for each contender).
    """
    found = _contenders(index, counts, count)
    if found is None:
        scores = score(index, counts)
        numbers = best_positive(scores, count)
        return numbers, scores[numbers]
    totals = np.zeros(len(found))
    for term, times in counts.items():
        start, end = int(index.indptr[term]), int(index.indptr[term + 1])
        offsets = start + np.minimum(np.searchsorted(index.passages[start:end], found), end - start - 1)
        weights = index.weights[offsets] if times == 1 else index.weights[offsets] * times
        totals += np.where(index.passages[offsets] == found, weights, 0.0)
    order = best_positive(totals, count)
    return found[order].astype(np.intp), totals[order]


def _contenders(index: TermImpacts, counts: Mapping[int, float], count: int) -> NDArray[np.int32] | None:
    """Ascending numbers of all passages that can be among the first `count`, and few others; None: all with a term."""
    terms = [term for term in counts if index.indptr[term + 1] > index.indptr[term]]
    terms.sort(key=lambda term: -index.largest[term] * counts[term])
    left = fsum(index.largest[term] * counts[term] for term in terms)
    unread = sum(int(index.indptr[term + 1] - index.indptr[term]) for term in terms)
    allowed = unread * _READ_SHARE if unread > _FEW_POSTINGS else 0
    sums = np.zeros(index.passage_count if allowed else 0)
    reached = 0.0
    for term in terms[:-1]:
        start, end = int(index.indptr[term]), int(index.indptr[term + 1])
        allowed -= end - start
        if allowed < 0:
            return None
        passages = index.passages[start:end]
        here = sums[passages] + index.weights[start:end] * counts[term]
        sums[passages] = here
        left -= index.largest[term] * counts[term]
        if 0 < count <= len(here):
            reached = max(reached, float(np.partition(here, len(here) - count)[len(here) - count]))
        if reached - left > _SLACK:
            reaching = sums >= reached - left - _SLACK
            is_few = np.count_nonzero(reaching) * len(terms) < unread * _SEARCH_SHARE
            return np.flatnonzero(reaching).astype(np.int32) if is_few else None
    return None


def containment(index: TermImpacts, terms: Iterable[int], passages: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which of a few passages have which terms.

    Args:
        index: From `impacts`.
        terms: Term numbers.
        passages: Shape (m,): passage numbers in any order.

    Returns:
        Shape (m, n_terms).
    Cost: O(m log postings) per term.
    """
    columns = [_has(index.passages[index.indptr[term] : index.indptr[term + 1]], passages) for term in terms]
    return np.stack(columns, axis=1) if columns else np.zeros((len(passages), 0), dtype=np.bool_)


def _has(postings: NDArray[np.int32], passages: NDArray[np.intp]) -> NDArray[np.bool_]:
    places = np.minimum(np.searchsorted(postings, passages.astype(np.int32)), len(postings) - 1)
    return np.asarray(postings[places] == passages)
