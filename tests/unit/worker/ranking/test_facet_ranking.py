"""Units, scores and short answers of hub paths against a plain reading of algorithms.md 4B."""

import random
from collections import Counter, defaultdict
from itertools import pairwise
from math import log

import numpy as np
import pytest
from facet_index import ALBUMS, LABELS, MUSIC, make_units, music_hubs, paths_shown, shown, units_from
from hub_index import hubs_of, written
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polyhop.worker.ranking.facets.answers import PRECISION, FacetAnswer, answer_of
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
from polyhop.worker.ranking.facets.units import Units, signatures_of
from polyhop.worker.ranking.fusion import best


@pytest.fixture(scope="module")
def music() -> Units:
    return units_from(music_hubs())


def test_signatures_are_the_ways_from_hubs_to_values_in_words(music: Units) -> None:
    """Three albums and two studios are what last triples leave; documents of a signature stand together."""
    texts = ["has genre", "live album", "performed by", "recorded at located in", "release year"]
    assert list(music.signature_texts) == texts
    for signature in range(5):
        expected = np.flatnonzero(music.document_signatures == signature)
        assert np.array(music.documents_of(signature)).tolist() == expected.tolist()
    assert len(set(music.path_parents.tolist())) == 5
    assert sorted(music.label_numbers[~np.isnan(music.label_numbers)].tolist()) == [1969, 1970, 1973]
    units = make_units("a p v1", ())
    assert (units.hub_count, len(units.copies), units.signature_texts) == (0, 0, ())


def test_paths_of_one_signature_and_value_are_one_document(music: Units) -> None:
    documents = [shown(music, number) for number in range(len(music.copies))]
    assert len(set(documents)) == len(documents) == 11
    copies = dict(zip(documents, music.copies.tolist(), strict=True))
    assert copies["has genre", "Rock"] == 2
    assert copies["performed by", "Anna Ångström"] == 2
    assert music.copies.sum() == len(music.path_hubs) == 14
    for document in range(len(music.copies)):
        assert set(music.path_documents[music.document_paths.of_all([document])].tolist()) == {document}


def test_values_are_compared_by_stems() -> None:
    labels = {"v1": "Focus Group", "v2": "focus groups", "v3": "x"}
    units = make_units("a p v1; b p v2; c p v3", ("a", "b", "c"), labels)
    assert len(units.copies) == 3
    assert len(set(units.document_labels.tolist())) == 2


HUBS, _ = hubs_of(
    written("P1 author A1; P1 venue V; A1 born V; P2 author A2; P2 cites P1; A2 knows A1"), {"P1", "P2"}, {}
)


def test_a_signature_is_the_predicates_of_a_path() -> None:
    graph, paths = HUBS.graph, HUBS.paths
    expected = [tuple(graph.predicates[paths.triples_of(path)].tolist()) for path in range(paths.path_count)]
    numbers, signatures = signatures_of(graph, paths)
    assert [signatures[number] for number in numbers.tolist()] == expected
    assert signatures == sorted(set(expected))
    assert {len(signature) for signature in signatures} >= {1, 2}


Floats = NDArray[np.float64]


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
    both = {("performed by", "The Harbour Band"), ("has genre", "Rock")}
    assert set(found[:2]) == {("The Dark Engine", *one) for one in both}


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


SAID = "rock folk 1969 not recorded live London Anna between before and 1973 Hills zzz ?"


@given(st.lists(st.sampled_from(SAID.split()), max_size=12), st.booleans())
def test_scores_are_finite_and_the_same_each_time(question: list[str], vectors: bool) -> None:
    units = units_from(music_hubs())
    first, second = (scored(units, " ".join(question), vectors) for _ in range(2))
    assert np.all(np.isfinite(first.paths))
    assert np.all(first.paths >= 0)
    assert first.paths.max() <= 1.7 + 1e-9
    assert first.paths.tolist() == second.paths.tolist()


@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(SAID.split()), min_size=1, max_size=8))
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


@pytest.mark.parametrize(
    ("scores", "triples", "count", "expected"),
    [
        *(([0.5, 0.9, 0.9, 0.7, 0.0], [4, 2, 3, 2, 1], n, found) for n, found in [(10, [1, 2, 0]), (1, [1]), (0, [])]),
        # triples of many paths do not crowd out others
        ([*np.linspace(1, 0.9, 50), 0.2, 0.1], [7] * 50 + [8, 9], 3, [0, 50, 51]),
    ],
)
def test_a_triple_keeps_the_place_of_its_best_path(
    scores: list[float], triples: list[int], count: int, expected: list[int]
) -> None:
    assert best_paths(np.array(scores), np.array(triples), count).tolist() == expected


def test_passages_take_the_best_path_whose_triple_they_state_or_whose_hub_they_are_attached_to() -> None:
    triples = written("a p b; a p c; d p b")
    stated = [*zip(triples, (2, 2, 0), strict=True)]
    stored, _ = hubs_of(triples, {"a", "d"}, triple_passages=stated, hub_passages=[("a", 1)])
    linked = LinkedPassages(stored.paths, stored.triple_passages, stored.hub_passages)
    assert [part.tolist() for part in linked.rank(np.array([0.2, 0.6, 0.5]), 5)] == [[2, 0], [0.6, 0.5]]
    stored, _ = hubs_of(triples, {"a", "d"}, hub_passages=[("a", 1), ("d", 1), ("d", 3)])
    linked = LinkedPassages(stored.paths, stored.triple_passages, stored.hub_passages)
    assert [part.tolist() for part in linked.rank(np.array([0.2, 0.6, 0.7]), 5)] == [[1, 3], [0.7, 0.7]]
    assert [part.tolist() for part in linked.rank(np.array([0.2, 0.6, 0.0]), 5)] == [[1], [0.6]]
    no_paths = hubs_of(written("a p b"), set())[0].paths
    nothing = LinkedPassages(no_paths, stored.triple_passages, stored.hub_passages).rank(np.empty(0), 5)
    assert [part.tolist() for part in nothing] == [[], []]


BRIDGES = """
b1 river Severn; b1 opened 1966; b1 length 1600; b1 material Steel; b1 material Iron; b1 toll True;
b1 bridgeClass Road; b1 span s1; s1 shape Arch; s1 lanes 4; b1 span s2; s2 shape Beam; s2 lanes 2;
b2 river Severn; b2 opened 1996; b2 length 5128; b2 material Steel; b2 toll False; b2 bridgeClass Road;
b3 river Tamar; b3 opened 1859; b3 length 667; b3 material Iron; b3 toll True; b3 bridgeClass Rail
"""
NAMES = {"b1": "Old Crossing", "b2": "New Crossing", "b3": "Royal Albert"}


@pytest.fixture(scope="module")
def bridges() -> Units:
    return make_units(BRIDGES, tuple(NAMES), NAMES)


def answered(units: Units, question: str) -> FacetAnswer | None:
    ranking = FacetRanking(units, None, ["Bridge"], FacetRule())
    read = ranking.read(question)
    return answer_of(units, read, ranking.score(read, None), ranking.fields.kinds)


@pytest.mark.parametrize(
    ("question", "kind", "texts"),
    [
        ("What is the material of Royal Albert?", "values", {"Iron"}),
        ("Which material has Old Crossing?", "values", {"Steel", "Iron"}),
        ("What is the length of New Crossing?", "values", {"5128"}),
        ("Which bridges cross the Severn?", "names", {"Old Crossing", "New Crossing"}),
        ("How many bridges cross the Severn?", "number", {"2"}),
        ("How many kinds of material has Old Crossing?", "number", {"2"}),
        ("What is the number of bridges of Iron?", "number", {"2"}),
        ("What bridge class has Royal Albert?", "values", {"Rail"}),
        ("Which material is most common on the Severn?", "most frequent", {"Steel"}),
        ("Does New Crossing take a toll?", "yes or no", {"no"}),
        ("Does Royal Albert take a toll?", "yes or no", {"yes"}),
        ("How many lanes has the Arch of Old Crossing?", "values", {"4"}),
    ],
)
def test_plain_questions_have_an_answer(bridges: Units, question: str, kind: str, texts: set[str]) -> None:
    answer = answered(bridges, question)
    assert answer is not None
    assert (answer.kind, set(answer.texts)) == (kind, texts)
    assert 0.6 < answer.confidence <= PRECISION


@pytest.mark.parametrize(
    "question",
    [
        "What is the weight of Royal Albert?",
        "What is there?",
        "Who built it?",
        "Which is longer, Old Crossing or New Crossing?",
        "How do the bridges of the Severn differ?",
        "Is Royal Albert of Iron?",
        "Which bridge of the Severn is the largest?",
        "What are the material and the length of Royal Albert?",
        "Which shape is most common on Old Crossing?",
        "Rank the bridges of the Severn by length.",
        "",
    ],
)
def test_in_doubt_there_is_no_answer(bridges: Units, question: str) -> None:
    assert answered(bridges, question) is None


def test_an_answer_rests_on_the_paths_and_hubs_that_say_so(bridges: Units) -> None:
    answer = answered(bridges, "What is the length of New Crossing?")
    assert answer is not None
    assert [bridges.value_texts[int(bridges.hub_values[hub])] for hub in answer.hubs] == ["New Crossing"]
    documents = bridges.path_documents[answer.paths]
    assert [bridges.value_texts[int(bridges.document_values[document])] for document in documents] == ["5128"]


def test_a_list_is_no_short_answer_when_it_is_long() -> None:
    names = {f"b{number}": f"Crossing{number}" for number in range(11)}
    units = make_units("; ".join(f"{name} river Severn" for name in names), tuple(names), names)
    assert answered(units, "Which bridges cross the Severn?") is None
    count = answered(units, "How many bridges cross the Severn?")
    assert count is not None
    assert count.texts == ("11",)
    assert len(count.hubs) == 11
    assert np.all(np.diff(count.hubs) > 0)


@pytest.mark.parametrize(("more", "expected"), [("", {"yes"}), ("b3 toll yes", {"yes"}), ("b3 toll False", None)])
def test_a_field_that_says_yes_and_no_is_no_answer(more: str, expected: set[str] | None) -> None:
    units = make_units(f"{BRIDGES}; {more}" if more else BRIDGES, tuple(NAMES), NAMES)
    answer = answered(units, "Does Royal Albert take a toll?")
    assert (answer and set(answer.texts)) == expected
