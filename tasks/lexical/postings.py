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
        terms={term: place for place, term in enumerate(ordered)},
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
    number_now = np.full(len(earlier.lengths), -1, dtype=np.int64)
    number_now[numbers[is_kept]] = np.flatnonzero(is_kept)
    kept_terms, kept_passages, kept_tf = _entries(earlier, number_now)
    added_terms, added_passages, added_tf = _entries(changed, np.flatnonzero(~is_kept))
    left = np.bincount(kept_terms, minlength=len(earlier.terms)) > 0
    old_terms = [term for term, is_left in zip(earlier.terms, left.tolist(), strict=True) if is_left]
    # two ascending runs, which `sorted` merges
    terms = {term: number for number, term in enumerate(dict.fromkeys(sorted([*old_terms, *changed.terms])))}
    term_now = np.full(len(earlier.terms), -1, dtype=np.int64)
    term_now[left] = [terms[term] for term in old_terms]
    added_terms = np.array([terms[term] for term in changed.terms], dtype=np.int64)[added_terms]
    # both are in the order of terms, and of passages inside a term: the few are inserted among the many
    kept_terms = term_now[kept_terms]
    width = max(1, len(numbers))
    place = np.searchsorted(kept_terms * width + kept_passages, added_terms * width + added_passages)
    per_term = np.bincount(kept_terms, minlength=len(terms)) + np.bincount(added_terms, minlength=len(terms))
    lengths = np.empty(len(numbers), dtype=np.int32)
    lengths[is_kept], lengths[~is_kept] = earlier.lengths[numbers[is_kept]], changed.lengths
    return LexicalIndex(
        terms=terms,
        indptr=np.concatenate([[0], np.cumsum(per_term)]).astype(np.int64),
        passages=np.insert(kept_passages, place, added_passages).astype(np.int32),
        tf=np.insert(kept_tf, place, added_tf).astype(np.int32),
        lengths=lengths,
    )


def _entries(
    index: LexicalIndex, number_now: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Postings of passages that have a number, which is not -1, now: numbers of term and passage, and occurrences."""
    passages = number_now[index.passages]
    is_left = passages >= 0
    terms = np.repeat(np.arange(len(index.terms), dtype=np.int64), np.diff(index.indptr))
    return terms[is_left], passages[is_left], index.tf[is_left]
