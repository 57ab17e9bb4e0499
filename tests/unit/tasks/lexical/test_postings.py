from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyhop.tasks.lexical.postings import build_postings

TOKENS = st.lists(st.lists(st.sampled_from(["a", "b", "zz", "é"]), max_size=8), max_size=8)


def test_terms_are_numbered_in_ascending_order() -> None:
    index = build_postings([["b", "a", "b"], [], ["c", "a"]])
    assert index.terms == {"a": 0, "b": 1, "c": 2}
    assert index.indptr.tolist() == [0, 2, 3, 4]
    assert index.passages.tolist() == [0, 2, 0, 2]
    assert index.tf.tolist() == [1, 1, 2, 1]
    assert index.lengths.tolist() == [3, 0, 2]


def test_no_passages_give_empty_arrays() -> None:
    index = build_postings([])
    assert index.terms == {}
    assert index.indptr.tolist() == [0]


@given(TOKENS)
def test_postings_count_every_token_once(passages: list[list[str]]) -> None:
    index = build_postings(passages)
    found: dict[int, Counter[str]] = {n: Counter() for n in range(len(passages))}
    for term, number in index.terms.items():
        begin, end = index.indptr[number], index.indptr[number + 1]
        assert (np.diff(index.passages[begin:end]) > 0).all()
        for passage, tf in zip(index.passages[begin:end], index.tf[begin:end], strict=True):
            found[int(passage)][term] = int(tf)
    assert found == {n: Counter(tokens) for n, tokens in enumerate(passages)}
