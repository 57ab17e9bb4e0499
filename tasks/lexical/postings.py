"""Postings from token lists (pure).

Knows no analyser and no formula.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from polyhop.schemas.graph import LexicalIndex


def build_postings(passages: Iterable[Sequence[str]]) -> LexicalIndex:
    """Term statistics of passages in number order.

    Args:
        passages: Tokens of each passage.

    Returns:
        Postings, terms numbered in ascending order.

    Cost: O(tokens); memory O(postings).
    """
    first_seen: dict[str, int] = {}
    terms: list[list[int]] = []
    counts: list[list[int]] = []
    lengths: list[int] = []
    for tokens in passages:
        frequencies = Counter(tokens)
        terms.append([first_seen.setdefault(term, len(first_seen)) for term in frequencies])
        counts.append(list(frequencies.values()))
        lengths.append(len(tokens))
    ordered = sorted(first_seen)
    number = np.empty(len(ordered), dtype=np.int64)
    number[[first_seen[term] for term in ordered]] = np.arange(len(ordered))
    per_passage = [len(row) for row in terms]
    total = sum(per_passage)
    term_of = number[np.fromiter(chain.from_iterable(terms), dtype=np.int64, count=total)]
    passage_of = np.repeat(np.arange(len(lengths), dtype=np.int32), per_passage)
    tf = np.fromiter(chain.from_iterable(counts), dtype=np.int32, count=total)
    order = np.argsort(term_of, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(term_of, minlength=len(ordered)))])
    return LexicalIndex(
        terms={term: place for place, term in enumerate(ordered)},
        indptr=indptr.astype(np.int64),
        passages=passage_of[order],
        tf=tf[order],
        lengths=np.asarray(lengths, dtype=np.int32),
    )
