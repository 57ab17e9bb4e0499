"""Postings from token lists (pure)."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import LexicalIndex


def build_postings(passages: Iterable[Sequence[str]]) -> LexicalIndex:
    """Term statistics of passages (their tokens, in number order), terms numbered in ascending order.

    Cost: O(tokens); memory O(postings).
    """
    first_seen: dict[str, int] = {}
    terms, counts, lengths, per_passage = array("i"), array("i"), array("i"), array("i")
    for tokens in passages:
        frequencies = Counter(tokens)
        terms.extend([first_seen.setdefault(term, len(first_seen)) for term in frequencies])
        counts.extend(frequencies.values())
        lengths.append(len(tokens))
        per_passage.append(len(frequencies))
    ordered = sorted(first_seen)
    number = np.empty(len(ordered), dtype=np.int32)
    number[[first_seen[term] for term in ordered]] = np.arange(len(ordered))
    term_of = number[np.frombuffer(terms, dtype=np.int32)]
    passage_of = np.repeat(np.arange(len(lengths), dtype=np.int32), per_passage)
    tf = np.frombuffer(counts, dtype=np.int32)
    order = np.argsort(term_of, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(term_of, minlength=len(ordered)))])
    return LexicalIndex(
        terms={term: number for number, term in enumerate(ordered)},
        indptr=indptr.astype(np.int64),
        passages=passage_of[order],
        tf=tf[order],
        lengths=np.asarray(lengths, dtype=np.int32),
    )


def merged_postings(earlier: LexicalIndex, numbers: NDArray[np.int64], changed: LexicalIndex) -> LexicalIndex:
    """Term statistics of passages of which most were counted before: those that `build_postings` gives of all.

    `numbers` has the number of each passage in `earlier`, ascending, -1 for those that are not there; `changed` has
    those alone, in their order.
    Cost: O(postings) without a loop over passages; O(terms) Python.
    """
    is_kept = numbers >= 0
    number_now = np.full(len(earlier.lengths), -1, dtype=np.int32)
    number_now[numbers[is_kept]] = np.flatnonzero(is_kept)
    kept_counts, kept_passages, kept_tf = _postings(earlier, number_now)
    added_counts, added_passages, added_tf = _postings(changed, np.flatnonzero(~is_kept).astype(np.int32))
    left = kept_counts > 0
    old_terms = [term for term, is_left in zip(earlier.terms, left.tolist(), strict=True) if is_left]
    # two ascending runs, which `sorted` merges
    terms = {term: number for number, term in enumerate(dict.fromkeys(sorted([*old_terms, *changed.terms])))}
    kept, added = (np.array([terms[term] for term in some], dtype=np.int32) for some in (old_terms, changed.terms))
    per_term = np.zeros(len(terms), dtype=np.int64)
    per_term[kept] += kept_counts[left]
    per_term[added] += added_counts
    # both are in the order of terms, and of passages inside a term: the few are inserted among the many
    width = np.int64(max(1, len(numbers)))
    keys = np.repeat(kept, kept_counts[left]) * width
    keys += kept_passages
    offsets = np.searchsorted(keys, np.repeat(added, added_counts) * width + added_passages)
    del keys  # half of the memory in use
    lengths = np.empty(len(numbers), dtype=np.int32)
    lengths[is_kept], lengths[~is_kept] = earlier.lengths[numbers[is_kept]], changed.lengths
    return LexicalIndex(
        terms=terms,
        indptr=np.concatenate([[0], np.cumsum(per_term)]).astype(np.int64),
        passages=np.insert(kept_passages, offsets, added_passages),
        tf=np.insert(kept_tf, offsets, added_tf),
        lengths=lengths,
    )


def _postings(
    index: LexicalIndex, number_now: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Counts of each term's postings whose passages still have a number (not -1); these numbers, and occurrences."""
    passages = number_now[index.passages]
    is_left = passages >= 0
    counts = np.add.reduceat(is_left, index.indptr[:-1], dtype=np.int64)  # no term is without postings
    return counts, passages[is_left], index.tf[is_left]
