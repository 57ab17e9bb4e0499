"""BM25 once per version and once per question, its trust, feedback from first passages, and re-ranking by coverage.

SPRIG and `bm25` count a question's repeated terms, bridge does not. Source: algorithms.md 2.9, 2B.2; the ATIRE/Lucene
idf, with the factor k1 + 1 that newer Lucene dropped.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import BipartiteGraph, LexicalIndex, distinct
from polyhop.worker.ranking.fusion import best, best_positive, kth_largest

if TYPE_CHECKING:
    from scipy import sparse


Ranking = tuple[NDArray[np.intp], NDArray[np.float64]]
"""Passage numbers in descending order of score, and their scores."""

_FEW_POSTINGS = 100_000  # Fewer postings are summed faster (.3 ms) than they are chosen from.

_LOOKUP_SHARE = 1 / 4
"""Lookups, one per passage read and term left, per posting of the question up to which they are faster than summing.

Measured on a million passages: a lookup takes some 12 ns, a posting in a sum 6.
"""

_FREQUENT_SHARE = 1 / 16
"""Share of all passages from which on a term's occurrences are also kept by passage, in a byte or two for each one.

Chosen: of passages of some 30 different terms each, fewer than 500 terms are so frequent.
"""

_SLACK = 1e-9
"""More than the order of a sum of contributions can change, and than scores are rounded by before they are compared."""


def inverse_document_frequency(df: NDArray[np.int64], passage_count: int) -> NDArray[np.float64]:
    """`ln(1 + (N - df + .5) / (df + .5))`, positive for every df up to N. Source: algorithms.md 2.9."""
    return np.log1p((passage_count - df + 0.5) / (df + 0.5))


class TermImpacts:
    """Postings with their BM25 contributions: a term's are computed for the first question that has it, then kept.

    Args:
        lexical: Postings of one analyser.
        k1: Saturation of repeated terms, at least 0.
        b: Share of length normalisation, 0 to 1.
        copies: Shape (n_passages,): how often each text occurs in the collection; None: once.

    Attributes:
        terms: Term number by term.
        indptr: Shape (n_terms + 1,), int64.
        passages: Shape (nnz,), int32: passage numbers, ascending inside a term.
        idf: Shape (n_terms,), float64.
        passage_count: Number of passages.
    Source: algorithms.md 2.9.
    """

    def __init__(self, lexical: LexicalIndex, k1: float, b: float, copies: NDArray[np.int64] | None = None) -> None:
        self.terms, self.indptr, self.passages = lexical.terms, lexical.indptr, lexical.passages
        self.passage_count = len(lexical.lengths)
        postings = np.diff(lexical.indptr)
        if copies is None:
            df, size, total = postings, self.passage_count, float(lexical.lengths.sum(dtype=np.int64))
        else:
            terms = np.repeat(np.arange(len(postings)), postings)
            df = np.bincount(terms, copies[lexical.passages], len(postings)).astype(np.int64)
            size, total = int(copies.sum()), float(np.dot(lexical.lengths, copies))
        self.idf = inverse_document_frequency(df, size)
        relative = lexical.lengths * (size / total) if total else np.zeros(self.passage_count)
        self._tf, self._k1, self._damping = lexical.tf, k1, k1 * (1 - b + b * relative)
        self._weighed: dict[int, tuple[NDArray[np.float64], float]] = {}
        self._by_passage: dict[int, NDArray[np.unsignedinteger]] = {}

    def postings(self, term: int) -> NDArray[np.int32]:
        """The passages that have a term, ascending."""
        return self.passages[self.indptr[term] : self.indptr[term + 1]]

    def weighed(self, term: int) -> tuple[NDArray[np.float64], float]:
        """Contribution of one occurrence of a query term to each of its passages, and the maximum.

        Returns:
            `idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))` for every posting.
        Source: algorithms.md 2.9.
        """
        known = self._weighed.get(term)
        if known is None:
            weights = self._weights(term, self._occurrences(term), self.postings(term))
            known = self._weighed[term] = weights, float(weights.max(initial=0.0))
        return known

    def among(self, term: int, passages: NDArray[np.integer]) -> NDArray[np.float64]:
        """The same for each of these passages, 0 for those without the term.

        Cost: O(m), for a term that is not frequent O(m log postings).
        """
        postings, added = self.postings(term), np.zeros(len(passages))
        if len(postings) < _FREQUENT_SHARE * self.passage_count:
            offsets = np.searchsorted(postings, passages.astype(np.int32, copy=False))  # else all postings are cast
            offsets[offsets == len(postings)] = 0
            has_term = postings[offsets] == passages
            added[has_term] = self.weighed(term)[0][offsets[has_term]]
            return added
        tf = self._by_passage.get(term)
        if tf is None:
            occurrences = self._occurrences(term)
            tf = np.zeros(self.passage_count, np.min_scalar_type(int(occurrences.max())))
            tf[postings] = occurrences
            self._by_passage[term] = tf
        here = tf[passages]
        has_term = here > 0
        added[has_term] = self._weights(term, here[has_term], passages[has_term])
        return added

    def _occurrences(self, term: int) -> NDArray[np.int32]:
        return self._tf[self.indptr[term] : self.indptr[term + 1]]

    def _weights(self, term: int, tf: NDArray[Any], passages: NDArray[np.integer]) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = self.idf[term] * tf * (self._k1 + 1) / (tf + self._damping[passages])
        return weights


def count_terms(tokens: Iterable[str], terms: Mapping[str, int]) -> dict[int, int]:
    """Occurrences of each known term, by ascending term number, so that sums have one order."""
    return dict(sorted(Counter(terms[token] for token in tokens if token in terms).items()))


def score(index: TermImpacts, counts: Mapping[int, float]) -> NDArray[np.float64]:
    """BM25 of every passage.

    Returns:
        Shape (n_passages,); 0 for passages without a question term.
    Source: algorithms.md 2.9.
    Cost: O(postings of the question's terms + passages).
    """
    from scipy import sparse

    if not counts:
        return np.zeros(index.passage_count)
    passages = [index.postings(term) for term in counts]
    weighed = ((index.weighed(term)[0], count) for term, count in counts.items())
    weights = np.concatenate([weights if count == 1 else weights * count for weights, count in weighed])
    starts = np.cumsum([0, *map(len, passages)])
    # a column for each term: adds in this order, and takes half the time of np.bincount, which copies the numbers
    columns = sparse.csc_array((weights, np.concatenate(passages), starts), shape=(index.passage_count, len(passages)))
    scores: NDArray[np.float64] = columns @ np.ones(len(passages))
    return scores


def top(index: TermImpacts, counts: Mapping[int, float], count: int) -> Ranking:
    """The passages with the largest BM25 above 0, without a sum over every posting (MaxScore).

    Terms are read in descending order of what they can add at most, and what the others add to the passages read is
    looked up: until the others together cannot bring any other passage among the first.

    Args:
        index: The postings.
        counts: Question terms and how often each counts, at least 0, ascending (`count_terms`).
        count: Passages to return at most.

    Returns:
        Numbers in descending order of score, ties by number, and scores: those of `best_positive` and `score`, bit by
        bit.
    Source: Turtle and Flood 1995.
    Cost: O(postings of the rarer terms, and as many lookups in each of the others).
    """
    near, scores = _read_in_part(index, counts, count)
    first = best_positive(scores, count)
    return near[first].astype(np.intp), scores[first]


def score_of(index: TermImpacts, counts: Mapping[int, float], passages: NDArray[np.integer]) -> NDArray[np.float64]:
    """BM25 of a few passages, shape (m,): that of `score`, bit by bit."""
    totals = np.zeros(len(passages))
    for term, times in counts.items():
        added = index.among(term, passages)
        totals += added if times == 1 else added * times
    return totals


def _read_in_part(
    index: TermImpacts, counts: Mapping[int, float], count: int
) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
    """Ascending numbers of passages, among them the first `count`, and their scores; all if summing all is faster."""
    terms = [term for term in counts if index.indptr[term + 1] > index.indptr[term]]
    most = {term: index.weighed(term)[1] * counts[term] for term in terms}
    terms.sort(key=lambda term: -most[term])
    read = np.cumsum([len(index.postings(term)) for term in terms])
    lookups = read * np.arange(len(terms) - 1, -1, -1)
    is_tried = (count > 0) & (read >= count) & (lookups > 0) & (lookups <= _LOOKUP_SHARE * read[-1:])
    worthwhile = np.flatnonzero(is_tried).tolist() if terms and read[-1] > _FEW_POSTINGS else []
    for last in worthwhile:
        near = distinct(np.concatenate([index.postings(term) for term in terms[: last + 1]]))
        scores = score_of(index, counts, near)
        if kth_largest(scores, count) - fsum(most[term] for term in terms[last + 1 :]) > _SLACK:
            return near, scores
    return np.arange(index.passage_count), score(index, counts)


def containment(index: TermImpacts, terms: Sequence[int], passages: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Matrix of the terms that a few passages contain.

    Args:
        index: The postings.
        terms: Term numbers.
        passages: Shape (m,): passage numbers in any order.

    Returns:
        Shape (m, n_terms).
    Cost: O(m log postings) per term.
    """
    found = np.zeros((len(passages), len(terms)), dtype=np.bool_)
    for column, term in enumerate(terms):
        found[:, column] = index.among(term, passages) > 0
    return found


# Source: bridge-masked.md 3 steps 0c and 0d.

DEPTH = 10  # Passages of either ranking that are compared. Source: bridge-masked.md 4 (10-20 do no harm).
ENOUGH = 3  # Common passages that make BM25 trusted in full. Source: bridge-masked.md 4 (2-4 do no harm).


@dataclass(frozen=True, slots=True)
class Trust:
    """Trust in a question's BM25 ranking."""

    completeness: float  # kappa: the share of its words, by idf, that BM25's top passage has, 0 to 1.
    agreement: int  # o: passages in both rankings' first `DEPTH`.

    @property
    def in_seeds(self) -> float:
        """r, `max(kappa, min(1, o / 3))`: the trust among seeds and in the cover."""
        return max(self.completeness, min(1.0, self.agreement / ENOUGH))

    @property
    def in_fusion(self) -> float:
        """`max(0, 2 kappa - 1)`: the trust in the score itself, none below half of the words."""
        return max(0.0, 2 * self.completeness - 1)


def completeness(contains: NDArray[np.bool_], idf: NDArray[np.float64]) -> float:
    """kappa: the share of the question's words, by idf, that a passage has; 0 without words.

    Args:
        contains: Shape (n_stems,): which of the question's distinct stems the passage has.
        idf: Shape (n_stems,): rarity of each, above 0.
    """
    return float(idf[contains].sum() / idf.sum()) if len(idf) else 0.0


def agreement(by_cosine: NDArray[np.intp], by_words: NDArray[np.intp]) -> int:
    """o: passages in both of two rankings, each of distinct passage numbers."""
    return len(np.intersect1d(by_cosine, by_words, assume_unique=True))


# Source: algorithms.md 2.9; Lavrenko and Croft 2001 (RM1), Abdul-Jaleel et al. 2004 (RM3).


def term_shares(lexical: LexicalIndex) -> "sparse.csr_array":
    """The postings by passage: `tf / length`, a passage's maximum-likelihood language model.

    Returns:
        Shape (n_passages, n_terms), CSR float64, columns ascending; rows sum to 1, or 0 for passages without a token.
    Source: algorithms.md 2.9 (RM1).
    Cost: O(postings), once per version.
    """
    from scipy import sparse

    shape = (len(lexical.terms), len(lexical.lengths))
    counts = sparse.csr_array((lexical.tf.astype(np.float64), lexical.passages, lexical.indptr), shape=shape)
    shares = counts.T.tocsr()
    shares.data /= np.repeat(lexical.lengths, np.diff(shares.indptr))
    return shares


def relevance_model(
    shares: "sparse.csr_array",
    passages: NDArray[np.intp],
    scores: NDArray[np.float64],
    count: int,
    dropped: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """RM1: the terms most likely in the first passages, `sum over d of P(d) * tf / length`.

    Args:
        shares: From `term_shares`.
        passages: Shape (m,): passage numbers, in descending order of score.
        scores: Shape (m,), above 0; normalised they are P(d).
        count: Terms to keep.
        dropped: Shape (n_terms,): terms that take no part (stop words); None: all do.

    Returns:
        At most `count` term numbers, most likely first, ties by number, and their weights, which sum to 1.
    Source: algorithms.md 2.9 (RM3).
    Cost: O(postings of these passages, sorted).
    """
    terms, values = _entries(shares, passages, scores / scores.sum() if len(scores) else scores)
    if dropped is not None:
        kept = ~dropped[terms]
        terms, values = terms[kept], values[kept]
    distinct, inverse = np.unique(terms, return_inverse=True)
    likely = np.bincount(inverse, values, len(distinct)).astype(np.float64, copy=False)
    first = best(likely, count)
    return distinct[first].astype(np.intp), likely[first] / likely[first].sum() if len(first) else likely[first]


def interpolate(
    counts: Mapping[int, int],
    length: int,
    terms: NDArray[np.intp],
    weights: NDArray[np.float64],
    original_weight: float,
) -> dict[int, float]:
    """RM3: the question's own terms and those of the relevance model, `lambda * P_ml + (1 - lambda) * RM1`.

    Args:
        counts: Known terms of the question and how often each occurs.
        length: Tokens of the question, unknown ones included.
        terms: Shape (k,): term numbers of the relevance model.
        weights: Shape (k,): their weights.
        original_weight: lambda, 0 to 1; without terms in the relevance model the question keeps everything.

    Returns:
        Weight by term, ascending.
    Source: algorithms.md 2.9 (RM3).
    """
    own = original_weight if len(terms) else 1.0
    mixed = {term: own * count / length for term, count in counts.items()}
    for term, weight in zip(terms.tolist(), weights.tolist(), strict=True):
        mixed[term] = mixed.get(term, 0.0) + (1 - own) * weight
    return dict(sorted(mixed.items()))


def expansion_entities(
    weights: "sparse.csr_array", passages: NDArray[np.intp], excluded: NDArray[np.bool_], count: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The entities that weigh most in the first passages: `sum over d of w(e, d) / rank(d)`.

    Args:
        weights: Shape (n_passages, n_entities), CSR: w of algorithms.md 2.4.
        passages: Shape (m,): passage numbers, in descending order of score.
        excluded: Shape (n_entities,): entities that are not taken.
        count: Entities to keep.

    Returns:
        At most `count` entity numbers, in descending order of score, ties by number, and their sums.
    Source: algorithms.md 2.9 (BM25-2step).
    Cost: O(mentions of these passages, sorted).
    """
    entities, values = _entries(weights, passages, 1.0 / np.arange(1, len(passages) + 1))
    kept = ~excluded[entities]
    distinct, inverse = np.unique(entities[kept], return_inverse=True)
    sums = np.bincount(inverse, values[kept], len(distinct)).astype(np.float64, copy=False)
    first = best(sums, count)
    return distinct[first].astype(np.intp), sums[first]


def too_common(graph: BipartiteGraph, max_df_ratio: float) -> NDArray[np.bool_]:
    """Shape (n_entities,): entities that more than this share of all passages mention. Source: algorithms.md 2.9."""
    return np.asarray(graph.df > max_df_ratio * graph.passage_count)


def add_terms(counts: Mapping[int, int], added: Iterable[int], weight: float) -> dict[int, float]:
    """A question's terms, each occurrence counting 1, and further terms, each counting `weight` once.

    Returns:
        Weight by term, ascending.
    Source: algorithms.md 2.9 (BM25-2step); once per term is ours, the source does not say.
    """
    total: dict[int, float] = dict(counts)
    for term in sorted(set(added)):
        total[term] = total.get(term, 0.0) + weight
    return dict(sorted(total.items()))


def _entries(
    matrix: "sparse.csr_array", rows: NDArray[np.intp], factors: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Columns of these rows, row by row, and their values, each row multiplied by its factor."""
    spans = [(int(matrix.indptr[row]), int(matrix.indptr[row + 1])) for row in rows.tolist()]
    if not spans:
        return np.empty(0, dtype=np.int32), np.empty(0)
    columns = np.concatenate([matrix.indices[start:end] for start, end in spans])
    values = [matrix.data[start:end] * factor for (start, end), factor in zip(spans, factors.tolist(), strict=True)]
    return columns, np.concatenate(values)


# Source: algorithms.md 2.9 (BM25+CE, token-free ranker); a(t) is Buettcher, Clarke and Lushman 2006.


def coverage_and_proximity(idf: Mapping[str, float], tokens: Sequence[str]) -> tuple[float, float]:
    """Both parts of a passage's score.

    Returns:
        Coverage and proximity, each from 0 to 1; both 0 if the question has no known term.
    Source: algorithms.md 2.9 (BM25+CE, token-free ranker).
    Cost: O(tokens).
    """
    hits = [(position, token) for position, token in enumerate(tokens) if token in idf]
    if not hits:
        return 0.0, 0.0
    # a(t) of the terms that have a neighbour.
    nearness: dict[str, float] = {}
    for (before, first), (after, second) in pairwise(hits):
        if first != second:
            squared = (after - before) ** 2
            nearness[first] = nearness.get(first, 0.0) + idf[second] / squared
            nearness[second] = nearness.get(second, 0.0) + idf[first] / squared
    total = sum(value * value for value in idf.values())
    present = {token for _, token in hits}
    covered, close = 0.0, 0.0
    for term, value in idf.items():
        if term in present:
            covered += value * value
            close += value * value * nearness.get(term, 0.0) / (nearness.get(term, 0.0) + 1)
    return covered / total, close / total
