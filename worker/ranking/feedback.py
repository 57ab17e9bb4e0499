"""What the first passages of a ranking add to a question: words of a relevance model (RM3), or entities they mention.

Ranks no passages (bm25.py does, before and after). Source: algorithms.md 2.9; Lavrenko and Croft 2001 (RM1),
Abdul-Jaleel et al. 2004 (RM3).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import BipartiteGraph, LexicalIndex
from polyhop.worker.ranking.order import best

if TYPE_CHECKING:
    from scipy import sparse


def term_shares(lexical: LexicalIndex) -> "sparse.csr_array":
    """The postings by passage: `tf / length`, a passage's maximum-likelihood language model.

    Args:
        lexical: Postings of one analyser.

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
    distinct, places = np.unique(terms, return_inverse=True)
    likely = np.bincount(places, values, len(distinct)).astype(np.float64, copy=False)
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
    weights: "sparse.csr_array",
    passages: NDArray[np.intp],
    excluded: NDArray[np.bool_],
    count: int,
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
    distinct, places = np.unique(entities[kept], return_inverse=True)
    sums = np.bincount(places, values[kept], len(distinct)).astype(np.float64, copy=False)
    first = best(sums, count)
    return distinct[first].astype(np.intp), sums[first]


def too_common(graph: BipartiteGraph, max_df_ratio: float) -> NDArray[np.bool_]:
    """Shape (n_entities,): entities that more than this share of all passages mention. Source: algorithms.md 2.9."""
    return np.asarray(graph.df > max_df_ratio * graph.passage_count)


def add_terms(counts: Mapping[int, int], added: Iterable[int], weight: float) -> dict[int, float]:
    """A question's terms, each occurrence counting 1, and further terms, each counting `weight` once.

    Args:
        counts: Known terms of the question and how often each occurs.
        added: Terms of the added entities; one that several of them share is added once, so that it does not outweigh
            the question.
        weight: At least 0; a term of the question that is added gets both.

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
