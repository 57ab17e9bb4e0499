"""BM25, RM3 and coverage: hand-computed values, and bm25s on random corpora."""

from collections import Counter
from typing import Any

import bm25s
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from memory_index import lexical_from
from scipy import sparse

from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking import bm25
from polyhop.worker.ranking.fusion import best_positive
from polyhop.worker.ranking.pagerank import edge_weights

GOLDEN = [text.split() for text in ("the capital of france is paris", "paris is large")]
GOLDEN += [text.split() for text in ("berlin is the capital of germany", "france and germany share a border")]
WORDS = st.sampled_from("abcdefgh")
CORPORA = st.lists(st.lists(WORDS, min_size=1, max_size=12), min_size=1, max_size=12)


def test_golden_scores_of_four_passages() -> None:
    """G-SPRIG-4."""
    index = bm25.TermImpacts(lexical_from(GOLDEN), 1.5, 0.75)
    counts = bm25.count_terms(["capital", "of", "france"], index.terms)
    assert index.idf[list(counts)] == pytest.approx([0.693147] * 3, abs=1e-6)
    assert bm25.score(index, counts) == pytest.approx([1.953838, 0, 1.302558, 0.651279], abs=1e-6)


@given(
    CORPORA, st.lists(WORDS, min_size=1, max_size=6), st.sampled_from([0.5, 1.2, 1.5]), st.sampled_from([0, 0.75, 1])
)
def test_scores_equal_an_independent_package(corpus: list[list[str]], question: list[str], k1: float, b: float) -> None:
    """Its "lucene" variant leaves out the factor k1 + 1."""
    known = [word for word in question if any(word in row for row in corpus)]
    other = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float64")
    other.index(corpus, show_progress=False)
    expected = other.get_scores(known) * (k1 + 1) if known else np.zeros(len(corpus))
    index = bm25.TermImpacts(lexical_from(corpus), k1, b)
    assert bm25.score(index, bm25.count_terms(question, index.terms)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_known_terms_are_counted_in_ascending_number_and_without_words_nothing_scores() -> None:
    terms = lexical_from(GOLDEN).terms
    counts = bm25.count_terms(["paris", "france", "rome", "berlin", "paris"], terms)
    assert [*counts.items()] == [(terms["berlin"], 1), (terms["france"], 1), (terms["paris"], 2)]
    index = bm25.TermImpacts(lexical_from([[], []]), 1.5, 0.75)
    assert bm25.score(index, bm25.count_terms(["a"], index.terms)).tolist() == [0.0, 0.0]


@given(CORPORA, st.lists(WORDS, max_size=4, unique=True), st.data())
def test_containment_is_by_passage_and_term(corpus: list[list[str]], words: list[str], data: st.DataObject) -> None:
    index = bm25.TermImpacts(lexical_from(corpus), 1.2, 0.75)
    known = [word for word in words if word in index.terms]
    asked = data.draw(st.lists(st.integers(0, len(corpus) - 1), max_size=5))
    found = bm25.containment(index, [index.terms[word] for word in known], np.array(asked, dtype=np.intp))
    assert found.shape == (len(asked), len(known))
    assert found.tolist() == [[word in corpus[passage] for word in known] for passage in asked]


@pytest.mark.parametrize("lookups", [0.25, 1000])
@given(
    corpus=st.lists(st.lists(WORDS, min_size=1, max_size=12), min_size=1, max_size=40),
    question=st.dictionaries(WORDS, st.sampled_from([0, 0.5, 1, 2]), min_size=1, max_size=6),
    count=st.integers(0, 8),
)
@example(corpus=[["a"], ["a", *"c" * 10], *[["b"]] * 3], question={"a": 1, "b": 1}, count=2)  # a's second is below b's
def test_the_top_is_that_of_all_scores_bit_by_bit(corpus: Any, question: Any, count: int, lookups: float) -> None:
    index = bm25.TermImpacts(lexical_from(corpus), 1.5, 0.75)
    counts = dict(sorted((index.terms[word], times) for word, times in question.items() if word in index.terms))
    scores = bm25.score(index, counts)
    expected = best_positive(scores, count)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"_FEW_POSTINGS": 0, "_LOOKUP_SHARE": lookups, "_FREQUENT_SHARE": 1 / 4}.items():
            patch.setattr(bm25, name, value)
        numbers, found = bm25.top(index, counts, count)
    assert numbers.tolist() == expected.tolist()
    assert found.tolist() == scores[expected].tolist()


def test_a_rare_word_leaves_most_postings_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """All passages have the common word; only those with the rare one are summed."""
    monkeypatch.setattr(bm25, "_FEW_POSTINGS", 0)
    monkeypatch.setattr(bm25, "_LOOKUP_SHARE", 1)
    rows = [["common", "rare"] if n % 50 == 7 else ["common"] for n in range(500)]
    index = bm25.TermImpacts(lexical_from(rows), 1.5, 0.75)
    monkeypatch.setattr(bm25, "score", lambda *_: pytest.fail("all postings were read"))
    assert bm25.top(index, bm25.count_terms(["common", "rare"], index.terms), 5)[0].tolist() == [7, 57, 107, 157, 207]


def plain_rm3(corpus: list[list[str]], question: list[str], fb_docs: int, fb_terms: int, own: float) -> list[float]:
    """The definition over dictionaries; bm25s scores one word at a time, without the factor k1 + 1 = 2.5."""
    package = bm25s.BM25(k1=1.5, b=0.75, method="lucene", dtype="float64")
    package.index(corpus, show_progress=False)
    of_word = {word: 2.5 * package.get_scores([word]) for word in {word for row in corpus for word in row}}
    nothing = np.zeros(len(corpus))
    scores = sum((of_word.get(word, nothing) for word in question), nothing)
    feedback = [number for number in range(len(corpus)) if scores[number] > 0]
    feedback = sorted(feedback, key=lambda number: (-round(scores[number], 12), number))[:fb_docs]  # type: ignore[arg-type]
    if not feedback:
        return nothing.tolist()
    likely: Counter[str] = Counter()
    for number in feedback:
        for word in corpus[number]:
            likely[word] += scores[number] / sum(scores[feedback]) / len(corpus[number])
    kept = sorted(likely, key=lambda word: (-round(likely[word], 12), word))[:fb_terms]
    mixed: Counter[str] = Counter()
    for word in question:
        mixed[word] += own / len(question)  # type: ignore[assignment]
    for word in kept:
        mixed[word] += (1 - own) * likely[word] / sum(likely[other] for other in kept)  # type: ignore[assignment]
    return sum((of_word.get(word, nothing) * weight for word, weight in mixed.items()), nothing).tolist()


@given(
    CORPORA,
    st.lists(st.sampled_from("abcdefghxyz"), min_size=1, max_size=6),
    st.integers(1, 12),
    st.integers(1, 9),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
)
def test_rm3_equals_a_plain_computation(corpus: Any, question: Any, fb_docs: int, fb_terms: int, own: float) -> None:
    """Unknown words of the question (x, y, z) take their share of its own words; fb_docs may exceed the corpus."""
    index = bm25.TermImpacts(lexical_from(corpus), 1.5, 0.75)
    counts = bm25.count_terms(question, index.terms)
    scores = bm25.score(index, counts)
    first = best_positive(scores, fb_docs)
    model = bm25.relevance_model(bm25.term_shares(lexical_from(corpus)), first, scores[first], fb_terms)
    weights = bm25.interpolate(counts, len(question), *model, own)
    assert list(weights) == sorted(weights)
    expected = plain_rm3(corpus, question, fb_docs, fb_terms, own)
    assert bm25.score(index, weights).tolist() == pytest.approx(expected, abs=1e-9)


def test_dropped_terms_make_room_for_others_and_without_any_the_question_stays_as_it_is() -> None:
    lexical = lexical_from(GOLDEN)
    dropped = np.array([term in {"is", "of", "the"} for term in lexical.terms])
    terms, weights = bm25.relevance_model(bm25.term_shares(lexical), np.array([0, 2]), np.array([0.6, 0.4]), 3, dropped)
    assert [list(lexical.terms)[term] for term in terms] == ["capital", "france", "paris"]
    assert weights.sum() == pytest.approx(1)
    counts, every = bm25.count_terms(["capital", "of", "france"], lexical.terms), np.ones(len(lexical.terms), np.bool_)
    for feedback in (np.empty(0, np.intp), np.array([0])):
        model = bm25.relevance_model(bm25.term_shares(lexical), feedback, np.ones(len(feedback)), 5, every)
        assert [part.tolist() for part in model] == [[], []]
        assert bm25.interpolate(counts, 3, *model, 0.2) == pytest.approx(dict.fromkeys(counts, 1 / 3))
    assert bm25.term_shares(lexical_from([[], ["a"]])).toarray().tolist() == [[0.0], [1.0]]


def weights_of(graph: BipartiteGraph) -> sparse.csr_array:
    shape = (graph.passage_count, graph.entity_count)
    return sparse.csr_array((edge_weights(graph), graph.indices, graph.indptr), shape=shape)


def test_entities_weigh_by_rank_in_the_first_passages(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-1: w(paris, d2) 2.386294, all others of d2 and d1 1.693147; d2 is first, d1 second."""
    nobody = np.zeros(4, np.bool_)
    entities, sums = bm25.expansion_entities(weights_of(golden_graph), np.array([2, 1]), nobody, 5)
    assert [golden_graph.keys[entity] for entity in entities] == ["paris", "france", "bob"]
    assert sums == pytest.approx([2.386294 + 1.693147 / 2, 1.693147, 1.693147 / 2], abs=1e-6)


def test_added_words_count_once_beside_the_question_s_own() -> None:
    assert bm25.add_terms({3: 2, 7: 1}, [7, 1, 7], 0.5) == {1: 0.5, 3: 2, 7: 1.5}
    assert list(bm25.add_terms({7: 1}, [1], 0.5)) == [1, 7]


IDF = {"a": 1.0, "b": 2.0, "c": 3.0}
TEXTS = st.lists(st.sampled_from("abcxyz"), max_size=20)


@pytest.mark.parametrize(
    ("idf", "tokens", "expected"),
    [
        # V = 1 + 4 + 9. a and b are 2 apart, b and the second a 1: a(a) = 2/4 + 2/1, a(b) = 1/4 + 1/1
        (IDF, ["a", "x", "b", "a"], (5 / 14, (1 * 2.5 / 3.5 + 4 * 1.25 / 2.25) / 14)),
        (IDF, ["c", "c", "c"], (9 / 14, 0)),  # a repeated word is no neighbour of itself
        *((*nothing, (0, 0)) for nothing in [(IDF, []), (IDF, ["x", "y"]), ({}, ["a"]), ({}, [])]),
    ],
)
def test_hand_computed_coverage(idf: dict[str, float], tokens: list[str], expected: tuple[float, float]) -> None:
    assert bm25.coverage_and_proximity(idf, tokens) == pytest.approx(expected)


@given(TEXTS, TEXTS)
def test_both_shares_are_never_lowered_by_more_text_and_backwards_the_same(tokens: list[str], more: list[str]) -> None:
    before, after = bm25.coverage_and_proximity(IDF, tokens), bm25.coverage_and_proximity(IDF, tokens + more)
    assert all(0 <= early <= late + 1e-12 <= 1 + 2e-12 for early, late in zip(before, after, strict=True))
    assert bm25.coverage_and_proximity(IDF, tokens[::-1]) == pytest.approx(before)
