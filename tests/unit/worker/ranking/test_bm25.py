"""BM25 against hand-computed values and an independent package."""

from collections import Counter
from collections.abc import Callable

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.graph import LexicalIndex
from polyhop.worker.ranking import bm25
from polyhop.worker.ranking.bm25 import containment, count_terms, impacts, score, top
from polyhop.worker.ranking.fusion import best_positive

MakeLexical = Callable[..., LexicalIndex]
GOLDEN = [
    ["the", "capital", "of", "france", "is", "paris"],
    ["paris", "is", "large"],
    ["berlin", "is", "the", "capital", "of", "germany"],
    ["france", "and", "germany", "share", "a", "border"],
]
WORDS = st.sampled_from("abcdefgh")
CORPORA = st.lists(st.lists(WORDS, min_size=1, max_size=12), min_size=1, max_size=12)


def test_golden_scores_of_four_passages(make_lexical: MakeLexical) -> None:
    """G-SPRIG-4."""
    index = impacts(make_lexical(GOLDEN), 1.5, 0.75)
    counts = count_terms(["capital", "of", "france"], index.terms)
    assert index.idf[list(counts)] == pytest.approx([0.693147] * 3, abs=1e-6)
    assert score(index, counts) == pytest.approx([1.953838, 0, 1.302558, 0.651279], abs=1e-6)


@given(
    CORPORA, st.lists(WORDS, min_size=1, max_size=6), st.sampled_from([0.5, 1.2, 1.5]), st.sampled_from([0, 0.75, 1])
)
def test_scores_equal_an_independent_package(
    make_lexical: MakeLexical, corpus: list[list[str]], question: list[str], k1: float, b: float
) -> None:
    """Its "lucene" variant leaves out the factor k1 + 1."""
    known = [word for word in question if any(word in row for row in corpus)]
    other = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float64")
    other.index(corpus, show_progress=False)
    expected = other.get_scores(known) * (k1 + 1) if known else np.zeros(len(corpus))
    index = impacts(make_lexical(corpus), k1, b)
    assert score(index, count_terms(question, index.terms)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_repeated_question_word_counts_repeatedly(make_lexical: MakeLexical) -> None:
    index = impacts(make_lexical(GOLDEN), 1.5, 0.75)
    once, twice = (score(index, count_terms(["paris"] * n, index.terms)) for n in (1, 2))
    assert twice == pytest.approx(2 * once)
    assert once[1] > 0


def test_words_outside_the_vocabulary_do_not_count(make_lexical: MakeLexical) -> None:
    index = impacts(make_lexical(GOLDEN), 1.5, 0.75)
    assert count_terms(["rome", "paris", "paris"], index.terms) == {index.terms["paris"]: 2}
    assert score(index, {}).tolist() == [0.0] * 4


def test_terms_are_counted_in_ascending_number_whatever_the_question(make_lexical: MakeLexical) -> None:
    terms = make_lexical(GOLDEN).terms
    assert list(count_terms(["paris", "france", "berlin"], terms)) == sorted(
        terms[word] for word in ("berlin", "france", "paris")
    )


def test_an_index_without_words_scores_nothing(make_lexical: MakeLexical) -> None:
    index = impacts(make_lexical([[], []]), 1.5, 0.75)
    assert score(index, count_terms(["a"], index.terms)).tolist() == [0.0, 0.0]


@given(CORPORA, st.lists(WORDS, max_size=4, unique=True), st.data())
def test_containment_says_which_passage_has_which_term(
    make_lexical: MakeLexical, corpus: list[list[str]], words: list[str], data: st.DataObject
) -> None:
    index = impacts(make_lexical(corpus), 1.2, 0.75)
    known = [word for word in words if word in index.terms]
    asked = data.draw(st.lists(st.integers(0, len(corpus) - 1), max_size=5))
    found = containment(index, [index.terms[word] for word in known], np.array(asked, dtype=np.intp))
    assert found.shape == (len(asked), len(known))
    assert found.tolist() == [[word in corpus[passage] for word in known] for passage in asked]


@given(CORPORA)
def test_one_more_occurrence_never_lowers_the_term_s_contribution(
    make_lexical: MakeLexical, corpus: list[list[str]]
) -> None:
    """With b = 0, so that length plays no part."""
    lexical = make_lexical(corpus)
    index = impacts(lexical, 1.5, 0.0)
    for term in lexical.terms.values():
        span = slice(lexical.indptr[term], lexical.indptr[term + 1])
        pairs = sorted(zip(lexical.tf[span].tolist(), index.weights[span].tolist(), strict=True))
        assert [weight for _, weight in pairs] == sorted(weight for _, weight in pairs)
    assert Counter(lexical.passages.tolist()) == Counter(
        passage for passage, row in enumerate(corpus) for _ in set(row)
    )


def test_copies_count_as_the_same_text_so_many_times(make_lexical: MakeLexical) -> None:
    texts, copies = [["red", "car"], ["blue"], ["red", "red", "bus", "stop"]], [3, 1, 2]
    written_out = [text for text, count in zip(texts, copies, strict=True) for _ in range(count)]
    once = impacts(make_lexical(texts), 1.5, 0.75, np.array(copies))
    all_of_them = impacts(make_lexical(written_out), 1.5, 0.75)
    asked = count_terms(["red", "stop"], once.terms)
    np.testing.assert_allclose(np.repeat(score(once, asked), copies), score(all_of_them, asked))


@pytest.mark.parametrize("read_share", [0.25, 1.0])
@given(
    corpus=st.lists(st.lists(WORDS, min_size=1, max_size=12), min_size=1, max_size=40),
    question=st.dictionaries(WORDS, st.sampled_from([0, 0.5, 1, 2]), min_size=1, max_size=6),
    count=st.integers(0, 8),
)
def test_the_top_is_that_of_all_scores_bit_by_bit(
    make_lexical: MakeLexical, corpus: list[list[str]], question: dict[str, float], count: int, read_share: float
) -> None:
    index = impacts(make_lexical(corpus), 1.5, 0.75)
    counts = dict(sorted((index.terms[word], times) for word, times in question.items() if word in index.terms))
    scores = score(index, counts)
    expected = best_positive(scores, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25, "_FEW_POSTINGS", 0)
        patch.setattr(bm25, "_READ_SHARE", read_share)
        patch.setattr(bm25, "_SEARCH_SHARE", 1000)
        numbers, found = top(index, counts, count)
    assert numbers.tolist() == expected.tolist()
    assert found.tolist() == scores[expected].tolist()


def test_a_rare_word_leaves_most_postings_unread(make_lexical: MakeLexical, monkeypatch: pytest.MonkeyPatch) -> None:
    """All passages have the common word; only those with the rare one are summed."""
    monkeypatch.setattr(bm25, "_FEW_POSTINGS", 0)
    monkeypatch.setattr(bm25, "_SEARCH_SHARE", 1)
    index = impacts(make_lexical([["common", "rare"] if n % 50 == 7 else ["common"] for n in range(500)]), 1.5, 0.75)
    monkeypatch.setattr(bm25, "score", lambda *_: pytest.fail("all postings were read"))
    numbers, _ = top(index, count_terms(["common", "rare"], index.terms), 5)
    assert numbers.tolist() == [7, 57, 107, 157, 207]
