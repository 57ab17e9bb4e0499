from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyhop.tasks.lexical.postings import build_postings, merged_postings

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


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["a", "b", "zz", "é"]), max_size=6), st.sampled_from(["keep", "drop", "add"])
        ),
        max_size=8,
    )
)
def test_postings_from_those_before_are_those_of_all_passages(edits: list[tuple[list[str], str]]) -> None:
    before = [tokens for tokens, edit in edits if edit != "add"]
    after = [(tokens, edit) for tokens, edit in edits if edit != "drop"]
    rows = np.cumsum([edit != "add" for _, edit in edits]) - 1
    numbers = [row if edit == "keep" else -1 for row, (_, edit) in zip(rows, edits, strict=True) if edit != "drop"]
    changed = build_postings(tokens for tokens, edit in after if edit == "add")
    found = merged_postings(build_postings(before), np.array(numbers, dtype=np.int64), changed)
    wanted = build_postings(tokens for tokens, _ in after)
    assert list(found.terms.items()) == list(wanted.terms.items())
    for name in ("indptr", "passages", "tf", "lengths"):
        array, expected = getattr(found, name), getattr(wanted, name)
        assert array.dtype == expected.dtype
        assert array.tolist() == expected.tolist()
