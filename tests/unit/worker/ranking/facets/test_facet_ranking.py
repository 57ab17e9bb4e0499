"""Scores of hub paths against a plain reading of algorithms.md 4B, and what holds for all graphs."""

import random
from collections import Counter, defaultdict
from itertools import pairwise
from math import log

import numpy as np
import pytest
from facet_index import ALBUMS, LABELS, MUSIC, music_hubs, paths_shown, shown, units_from
from hub_index import hubs_of, written
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubPaths
from polyhop.worker.ranking.facets.labels import content_stems, words_of
from polyhop.worker.ranking.facets.ranking import (
    FacetRanking,
    FacetRule,
    LinkedPassages,
    PathScores,
    _sum_of_best,
    best_paths,
    sum_of_best,
)
from polyhop.worker.ranking.facets.units import Units
from polyhop.worker.ranking.fusion import best

Floats = NDArray[np.float64]


@pytest.fixture(scope="module")
def music() -> Units:
    return units_from(music_hubs())


def unit_vectors(count: int, seed: int = 5) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)
    given: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return given


def scored(units: Units, question: str, vectors: bool = False, **rule: float) -> PathScores:
    count = int(units.document_texts.max(initial=-1)) + 1
    ranking = FacetRanking(units, unit_vectors(count) if vectors else None, ["Album"], FacetRule(**rule))
    asked = unit_vectors(2, 7)
    return ranking.score(ranking.read(question), asked[0] if vectors else None, asked[1] if vectors else None)


def plain_soft(units: Units, question: str, rule: FacetRule, similar: Floats) -> tuple[Floats, Floats]:
    """Factors of the soft score by definition, path by path."""
    asked = set(content_stems(words_of(question)))

    def bm25(texts: list[tuple[str, ...]]) -> list[float]:
        mean = sum(map(len, texts)) / len(texts)
        df = Counter(stem for text in texts for stem in set(text))
        scores = []
        for text in texts:
            counts, total = Counter(text), 0.0
            for stem in sorted(asked & set(text)):
                idf = log(1 + (len(texts) - df[stem] + 0.5) / (df[stem] + 0.5))
                norm = rule.k1 * (1 - rule.b + rule.b * len(text) / mean)
                total += idf * counts[stem] * (rule.k1 + 1) / (counts[stem] + norm)
            scores.append(total)
        return scores

    words = list(units.document_words())
    leaves = bm25([content_stems(words[document]) for document in units.path_documents.tolist()])
    labels = bm25([content_stems(units.value_words[value]) for value in units.hub_values.tolist()])
    largest = max(leaves)
    best: dict[int, dict[int, float]] = defaultdict(dict)
    documents = np.zeros(len(units.copies))
    for path, document in enumerate(units.path_documents.tolist()):
        score = 0.8 * leaves[path] / largest + 0.2 * max(0.0, float(similar[document]))
        documents[document] = score
        hub, signature = int(units.path_hubs[path]), int(units.document_signatures[document])
        best[hub][signature] = max(score, best[hub].get(signature, 0.0))
    hubs = np.array(
        [sum(sorted(best[hub].values())[-4:]) + 0.5 * labels[hub] / largest for hub in range(units.hub_count)]
    )
    return (hubs / hubs.max()) ** 8, documents


def test_the_soft_score_is_that_of_the_definition(music: Units) -> None:
    question = "Which folk album did the Harbour Band of London record in 1973?"
    vectors, vector = unit_vectors(int(music.document_texts.max()) + 1), unit_vectors(1, 7)[0]
    similar = (vectors @ vector).astype(np.float64)[music.document_texts]
    found = FacetRanking(music, vectors, (), FacetRule()).soft(words_of(question), similar)
    for found_part, part in zip(found, plain_soft(music, question, FacetRule(), similar), strict=True):
        np.testing.assert_allclose(found_part, part, atol=1e-6)


@pytest.mark.parametrize("hubs", [1, 2, 3])
def test_beyond_a_number_of_texts_only_the_best_hubs_are_compared(
    music: Units, hubs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors, (vector, rest) = unit_vectors(int(music.document_texts.max()) + 1), unit_vectors(2, 7)
    ranking = FacetRanking(music, vectors, (), FacetRule())
    question = ranking.read("Folk?")
    whole = ranking.score(question, vector, rest)
    monkeypatch.setattr("polyhop.worker.ranking.facets.ranking.EXACT_TEXTS", 1)
    monkeypatch.setattr("polyhop.worker.ranking.facets.ranking.EXACT_HUBS", hubs)
    compared = ranking._compared(question.words)
    chosen = best(ranking.soft(question.words, None)[0], hubs)
    assert compared is not None
    assert set(compared.tolist()) == set(music.path_documents[np.isin(music.path_hubs, chosen)].tolist())
    similar = ranking._cosines(vector, compared)
    assert similar is not None
    assert set(np.flatnonzero(similar).tolist()) == set(compared.tolist())
    if hubs == 3:  # all
        np.testing.assert_allclose(ranking.score(question, vector, rest).paths, whole.paths, atol=1e-6)


def test_the_compiled_sum_is_that_of_the_best_scores_of_signatures() -> None:
    """Four hubs, the first without paths; runs are their signatures."""
    numbers = np.random.default_rng(3)
    starts, runs = np.array([0, 0, 4, 6, 12]), np.array([0, 1, 3, 4, 7, 9, 12, 17, 18, 22, 30, 39, 40])
    documents, scores = numbers.integers(0, 15, 40).astype(np.int32), numbers.random(15)
    expected = []
    for hub in range(4):
        spans = pairwise(runs[starts[hub] : starts[hub + 1] + 1].tolist())
        best = sorted((max(scores[documents[begin:end]].tolist()) for begin, end in spans), reverse=True)
        expected.append(sum(best[:3]))
    assert sum_of_best((starts, runs, documents), scores, 3).tolist() == pytest.approx(expected)
    assert _sum_of_best((starts, runs, documents), scores, 3).tolist() == pytest.approx(expected)


def test_hubs_multiply_what_they_keep_of_each_condition(music: Units) -> None:
    """Rock and Ann: album 1 has both, the others one each."""
    found = scored(music, "Which rock did Anna Angstrom play?")
    assert found.hubs.tolist() == pytest.approx([1.0, 0.15, 0.15])
    assert scored(music, "Which rock did Anna Angstrom play?", floor=0.5).hubs.tolist() == [1.0, 0.5, 0.5]


def test_without_a_condition_hubs_are_alike(music: Units) -> None:
    assert scored(music, "zzz", vectors=True).hubs.tolist() == [1.0, 1.0, 1.0]


def test_the_asked_field_of_the_hub_that_meets_all_conditions_is_first(music: Units) -> None:
    found = paths_shown(music, scored(music, "In which release year was Morning Hills out?").paths)
    assert found[0] == ("Morning Hills", "release year", "1970")
    found = paths_shown(music, scored(music, "What genre has the record by the Harbour Band?").paths)
    assert set(found[:2]) == {
        ("The Dark Engine", "performed by", "The Harbour Band"),
        ("The Dark Engine", "has genre", "Rock"),
    }


def test_the_final_score_is_that_of_the_definition(music: Units) -> None:
    """One condition, Rock, of albums 1 and 3; `release year` is asked for. Own: Rock 1, years 1, others 0."""
    found = scored(music, "Of which release year are all things in rock?")
    ranking = FacetRanking(music, None, (), FacetRule())
    soft_hubs, soft_documents = ranking.soft(words_of("Of which release year are all things in rock?"), None)
    expected = []
    for path, document in enumerate(music.path_documents.tolist()):
        hub, (signature, value) = int(music.path_hubs[path]), shown(music, document)
        own = 1.001 if value == "Rock" or signature == "release year" else 0.001
        is_met = hub != 1
        facet = (1.0 if is_met else 0.15) * own / 1.001
        raw = soft_hubs[hub] * (1.0 if is_met else 0.15**0.5) * soft_documents[document]
        expected.append((facet, raw))
    top = max(raw for _, raw in expected)
    np.testing.assert_allclose(found.paths, [facet + 0.7 * raw / top for facet, raw in expected], atol=1e-9)


FIELDS = "a kind drum; a maker ann; a town rome; b kind drum; b maker bob; b town bonn; c kind vase; c maker ann"
"""Hubs a, b and c; `kind drum` has a word of the hubs' names."""


def test_the_words_that_name_a_hub_name_none_of_its_values() -> None:
    """`drum` is the name's: neither the value `drum` nor its field is asked for by it."""
    units = units_from(hubs_of(written(FIELDS), set("abc"), {"a": "Owl Drum", "b": "Fox Drum", "c": "Owl Vase"})[0])
    found = scored(units, "Where was the Owl Drum seen, in a town?").paths
    assert paths_shown(units, found)[0] == ("Owl Drum", "town", "rome")
    order = dict(zip(paths_shown(units, found), -np.sort(-found), strict=True))
    assert order["Owl Drum", "kind", "drum"] == pytest.approx(order["Owl Drum", "maker", "ann"])


def test_a_field_is_asked_for_by_its_mean_and_by_its_most_similar_value() -> None:
    """Two fields of two values; the rest is nearer to the mean of the one, and to a value of the other."""
    units = units_from(hubs_of(written("a one p; b one q; a two r; b two s"), {"a", "b"}, {})[0])
    angles = {"p": 40, "q": -50, "r": 5, "s": 140}  # degrees from the rest; means: -5 and 72.5
    texts = [shown(units, document)[1] for document in range(4)]
    radians = np.radians([angles[text] for text in texts])
    vectors = np.zeros((4, 2), dtype=np.float32)
    vectors[units.document_texts] = np.stack((np.cos(radians), np.sin(radians)), axis=1)
    rest = np.array([1, 0], dtype=np.float32)
    ranking = FacetRanking(units, vectors, (), FacetRule())
    asked = ranking._asked(ranking.read("Where?"), rest, ranking._cosines(rest, None))
    by_field = np.cos(np.radians([-5, 72.5])) + np.cos(np.radians([40, 5]))
    assert asked.tolist() == pytest.approx((0.3 * (by_field / by_field.max()) ** 3).tolist(), abs=1e-5)


def test_words_and_similarity_share_in_what_is_asked_for(music: Units) -> None:
    vectors = unit_vectors(int(music.document_texts.max()) + 1)
    question = FacetRanking(music, None, (), FacetRule()).read("Which genre?")
    shares = question.shares
    rest = unit_vectors(2, 7)[1]

    def asked(weight: float) -> Floats:
        ranking = FacetRanking(music, vectors, (), FacetRule(signature_similarity=weight))
        return ranking._asked(question, rest, ranking._cosines(rest, None))

    assert asked(0.0).tolist() == shares.tolist()
    assert asked(1.0).max() == 1.0
    np.testing.assert_allclose(asked(0.4), 0.6 * shares + 0.4 * asked(1.0), atol=1e-9)


WORDS = (
    "rock",
    "folk",
    "1969",
    "not",
    "recorded",
    "live",
    "London",
    "Anna",
    "between",
    "before",
    "and",
    "1973",
    "Hills",
    "zzz",
    "?",
)


@given(st.lists(st.sampled_from(WORDS), max_size=12), st.booleans())
def test_scores_are_finite_and_the_same_each_time(question: list[str], vectors: bool) -> None:
    units = units_from(music_hubs())
    first, second = (scored(units, " ".join(question), vectors) for _ in range(2))
    assert np.all(np.isfinite(first.paths))
    assert np.all(first.paths >= 0)
    assert first.paths.max() <= 1.7 + 1e-9
    assert first.paths.tolist() == second.paths.tolist()


@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(WORDS), min_size=1, max_size=8))
def test_the_order_of_triples_changes_nothing(order: random.Random, question: list[str]) -> None:
    triples = written(MUSIC)
    order.shuffle(triples)
    other = units_from(hubs_of([*triples, *triples[:3]], set(ALBUMS), LABELS)[0])
    asked = " ".join(question)
    expected = scored(units_from(music_hubs()), asked, vectors=False)
    assert scored(other, asked, vectors=False).paths.tolist() == expected.paths.tolist()


@given(
    st.lists(st.tuples(*[st.sampled_from("abcdexyz")] * 3), max_size=25),
    st.sets(st.sampled_from("abc")),
    st.lists(st.sampled_from([*"abcdexyz", "not", "and"]), max_size=6),
)
def test_any_small_graph_can_be_asked(triples: list[tuple[str, str, str]], hubs: set[str], question: list[str]) -> None:
    """Cycles, loops, hubs without paths, one label for several roles."""
    stored, _ = hubs_of(triples, hubs, {"x": "", "d": "Not e"})
    units = units_from(stored)
    found = scored(units, " ".join(question), vectors=units.hub_count > 0)
    assert found.paths.shape == (stored.paths.path_count,)
    assert np.all(np.isfinite(found.paths))


def no_paths() -> HubPaths:
    return hubs_of(written("a p b"), set())[0].paths


def test_a_triple_keeps_the_place_of_its_best_path() -> None:
    scores = np.array([0.5, 0.9, 0.9, 0.7, 0.0])
    assert best_paths(scores, np.array([4, 2, 3, 2, 1]), 10).tolist() == [1, 2, 0]
    assert best_paths(scores, np.array([4, 2, 3, 2, 1]), 1).tolist() == [1]
    assert best_paths(scores, np.array([4, 2, 3, 2, 1]), 0).tolist() == []


def test_triples_of_many_paths_do_not_crowd_out_others() -> None:
    scores = np.concatenate((np.linspace(1, 0.9, 50), [0.2, 0.1]))
    assert best_paths(scores, np.array([7] * 50 + [8, 9]), 3).tolist() == [0, 50, 51]


def test_passages_take_the_best_path_whose_triple_they_state() -> None:
    stored, _ = hubs_of(
        written("a p b; a p c; d p b"), {"a", "d"},
        triple_passages=[(("a", "p", "b"), 2), (("a", "p", "c"), 2), (("d", "p", "b"), 0)],
        hub_passages=[("a", 1)],
    )  # fmt: skip
    ranked = LinkedPassages(stored.paths, stored.triple_passages, stored.hub_passages).rank(
        np.array([0.2, 0.6, 0.5]), 5
    )
    assert [part.tolist() for part in ranked] == [[2, 0], [0.6, 0.5]]


def test_passages_attached_to_hubs_take_the_best_path_of_theirs() -> None:
    stored, _ = hubs_of(written("a p b; a p c; d p b"), {"a", "d"}, hub_passages=[("a", 1), ("d", 1), ("d", 3)])
    linked = LinkedPassages(stored.paths, stored.triple_passages, stored.hub_passages)
    assert [part.tolist() for part in linked.rank(np.array([0.2, 0.6, 0.7]), 5)] == [[1, 3], [0.7, 0.7]]
    assert [part.tolist() for part in linked.rank(np.array([0.2, 0.6, 0.0]), 5)] == [[1], [0.6]]
    assert [part.tolist() for part in LinkedPassages(no_paths(), stored.triple_passages, stored.hub_passages).rank(
        np.empty(0), 5)] == [[], []]  # fmt: skip
