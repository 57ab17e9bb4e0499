"""Facets: words and labels, conditions, scores and short answers: algorithms.md 4B."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import inf, log, nextafter
from typing import Any

import numpy as np
import pytest
from bm25s.stopwords import STOPWORDS_EN_PLUS
from hypothesis import given
from hypothesis import strategies as st
from memory_index import hubs_of, make_units, music_hubs, paths_shown, shown, units_from, written
from numpy.typing import NDArray

from polyhop.worker.ranking.facets import conditions, labels
from polyhop.worker.ranking.facets.answers import PRECISION, FacetAnswer, answer_of
from polyhop.worker.ranking.facets.ranking import (
    FacetRanking,
    FacetRule,
    FacetScores,
    LinkedPassages,
    _sum_of_best,
    best_paths,
    sum_of_best,
)
from polyhop.worker.ranking.facets.units import Fields, Kind, Units, signatures_of
from polyhop.worker.ranking.fusion import best


def test_stop_words_are_those_of_bm25s_and_marked_as_negations_are_and_words_are_stemmed_without_accents() -> None:
    assert len(STOPWORDS_EN_PLUS) == 179
    assert {part for word in STOPWORDS_EN_PLUS for part in re.findall(r"[^\W_]+", word)} == labels.STOP_WORDS
    words = labels.words_of("The Grüners evaluated: MÉTHODES")
    assert [word.text for word in words] == ["The", "Gruners", "evaluated", "METHODES"]
    assert [word.is_stop for word in words] == [True, False, False, False]
    assert labels.content_stems(words) == ("gruner", "evalu", "method")
    text = "It isn't there, they don’t know, it lacks a guide without a note on Norway, not the t test of Can T"
    assert [word.text for word in labels.words_of(text) if word.is_negation] == ["t", "t", "lacks", "without", "not"]


def test_what_a_sentence_says_to_do_with_the_answer_names_nothing() -> None:
    texts = ("List the drummers. Sort them by age", "Which drummers are on the list?")
    found = [labels.content_stems(labels.question_words(text)) for text in texts]
    assert found == [("drummer", "age"), ("drummer", "list")]


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ("evolv evolut", True),
        ("architect architectur", True),
        ("evil evolut", False),
        ("cat cats", False),
        ("interview interact", False),
        ("20181 20182", False),
    ],
)
def test_a_family_shares_most_of_a_long_enough_beginning(pair: str, expected: bool) -> None:
    one, other = pair.split()
    assert labels.are_family(one, other) is labels.are_family(other, one) is expected


def test_a_family_counts_less_than_the_word_itself_and_rare_words_more_than_stop_words() -> None:
    texts = ("architecture evolution", "evolving systems of", "the system")
    index = labels.LabelIndex(list(map(labels.words_of, texts)), [])
    names = {number: stem for stem, number in index.numbers.items()}
    evolving, unknown = (index.meanings(word) for word in labels.words_of("evolving zzzzzz"))
    assert [(names[number], factor) for number, factor in evolving] == [("evolv", 1.0), ("evolut", 0.9)]
    assert [*unknown] == []
    weights = {stem: float(index.idf[number]) for stem, number in index.numbers.items()}
    assert weights["evolv"] > weights["system"]
    assert weights["of"] == pytest.approx(weights["evolv"] / 10)


STORED_LABELS = (
    *("Case Study", "Data Mining Technique", "Freedom from Risk", "Architecture Evolution", "Theory of Games"),
    *("Games of Theory", "Jane Doe", "Quality of Method", "The"),
    "A very long label about many other things and one Zyx",
)
PREDICATES = ("publication year", "quality")


@pytest.mark.parametrize(
    ("question", "shared", "expected"),
    [
        # most of a label by weight is enough
        ("Who used data mining?", (), [("data mining", ["Data Mining Technique"], 0.667)]),
        ("Who used data?", (), []),
        # a word of one short value that hubs share is half a mention
        ("Who used mining?", ["Data Mining Technique"], [("mining", ["Data Mining Technique"], 0.5)]),
        ("Who used mining?", (), []),
        ("Who plays games?", ["Theory of Games", "Games of Theory"], []),
        ("Who asks for quality?", ["Quality of Method"], []),
        ("Who wrote many things?", STORED_LABELS, []),
        # words may stand in another order with stop words between, but not too far apart
        ("a study of the case", (), [("study of the case", ["Case Study"], 1.0)]),
        ("the risk they have freedom from", (), [("risk they have freedom", ["Freedom from Risk"], 0.952)]),
        ("a case that people study", (), []),
        # a word family finds a label and weakens it
        ("evolving architecture", (), [("evolving architecture", ["Architecture Evolution"], 0.95)]),
        # readings of one span and score stay alternatives, a heavier one takes the words
        ("the theory of games", (), [("theory of games", ["Games of Theory", "Theory of Games"], 1.0)]),
        ("which quality of a method", (), [("quality of a method", ["Quality of Method"], 1.0)]),
        # stop words and unknown words alone name nothing
        ("What is the most of the zzz?", (), []),
    ],
)
def test_a_label_is_mentioned_where_enough_of_its_words_are(question: str, shared: Any, expected: Any) -> None:
    """Words, labels and strength of each mention."""
    index = labels.LabelIndex(list(map(labels.words_of, STORED_LABELS)), list(map(labels.words_of, PREDICATES)))
    named = {index.number_of(labels.words_of(label)): label for label in (*STORED_LABELS, *PREDICATES)}
    words = labels.words_of(question)
    is_shared = np.array([named[number] in shared for number in range(len(index.stems))])
    found: list[Any] = [
        (" ".join(word.text for word in words[one.start : one.end]), [named[n] for n in one.labels], one.strength)
        for one in labels.find_mentions(index, list(map(index.meanings, words)), words, 0.6, is_shared)
    ]
    assert found == [(span, named_by, pytest.approx(strength, abs=5e-4)) for span, named_by, strength in expected]


def conditions_of(units: Units, question: str) -> conditions.ReadQuestion:
    return FacetRanking(units, None, ["Album"], FacetRule()).read(question)


def matched(units: Units, read: conditions.ReadQuestion) -> list[dict[tuple[str, str], float]]:
    """Documents of each facet with their strengths."""
    documents = (facet.documents.items() for facet in read.facets)
    return [{shown(units, number): round(strength, 3) for number, strength in rows} for rows in documents]


@pytest.fixture(scope="module")
def music() -> Units:
    return units_from(music_hubs())


SHIPS = ("a", "b", "c")
LAUNCHED = "a launched 1880; b launched 1895; c launched 1910; a length 40; b length 90; c length 95"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # 1900 is no label; all lengths are below it, so that it tells nothing of them
        ("What appeared before 1900?", [("launched", "1880", "1895")]),
        ("What appeared between 1900 and 1880?", [("launched", "1880", "1895")]),
        # two ranges of one field are two conditions
        ("What appeared after 1885 but before 1900?", [("launched", "1895", "1910"), ("launched", "1880", "1895")]),
        # a range that no value is in, or all are
        ("What appeared before 1700?", []),
        ("What appeared after 7?", []),
    ],
)
def test_a_range_needs_no_label_of_its_number(question: str, expected: list[tuple[str, ...]]) -> None:
    units = make_units(LAUNCHED, SHIPS)
    documents = [{(field, value): 1.0 for value in values} for field, *values in expected]
    assert matched(units, conditions_of(units, question)) == documents


def test_a_number_within_a_longer_label_is_no_range() -> None:
    units = make_units(LAUNCHED, SHIPS, {"a": "Life before 1900 remembered"})
    (facet,) = conditions_of(units, 'How long is "Life before 1900 remembered"?').facets
    assert (facet.signatures, facet.hubs) == ((conditions.HUB,), {0: 1.0})


def test_an_introducer_is_used_up() -> None:
    people = {"ann": "Ann Lee", "bob": "Bob Roe", "cid": "Cid Poe"}
    units = make_units("a drummer ann; b singer ann; c drummer bob; d singer cid", tuple("abcd"), people)
    assert conditions_of(units, "Where is the drummer Ann Lee?").shares.tolist() == [0.0, 0.0]
    asked = conditions_of(units, "Where does Ann Lee stand near some far away tired drummer?").shares
    assert asked.tolist() == [1.0, 0.0]


def test_a_predicate_named_as_a_whole_is_asked_for(music: Units) -> None:
    """`live album` is a predicate; album is what all hubs are, and tells nothing."""
    shares = conditions_of(music, "In which release year did Morning Hills appear?").shares
    expected = [float(text == "release year") for text in music.signature_texts]
    assert shares.tolist() == pytest.approx(expected)
    assert conditions_of(music, "Which album is it?").shares.tolist() == [0.0] * len(music.signature_texts)


def test_a_value_in_the_question_s_own_polarity_is_met_and_a_negation_before_it_turns_it_round() -> None:
    """Half of the hubs have no tool."""
    labels = {"yes": "Tool is available", "no": "No tool used", "other": "Tool is not available"}
    hubs = tuple(f"h{number}" for number in range(6))
    text = "; ".join(f"{hub} toolSupport {[*labels][n % 3]}; {hub} grade g{n}" for n, hub in enumerate(hubs))
    tools = make_units(text, hubs, labels)
    (found,) = matched(tools, conditions_of(tools, "Where is a tool available?"))
    assert found["tool support", "Tool is available"] == 1.0
    assert found.get(("tool support", "No tool used"), 0.0) < 0.15
    (found,) = matched(tools, conditions_of(tools, "Where isn't a tool available?"))
    assert ("tool support", "Tool is available") not in found
    assert found["tool support", "Tool is not available"] >= 0.55
    assert found["tool support", "No tool used"] == pytest.approx(0.6, abs=0.05)
    far = "Not one of the many people here knows where a tool is available"
    (found,) = matched(tools, conditions_of(tools, far))
    assert found["tool support", "Tool is available"] == 1.0


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("known until the 1600 fire", [("1600", -inf, 1601)]),
        ("after the year 1990", [("1990", 1991, inf)]),
        ("more than 20 rooms", [("20", 21, inf)]),
        ("at least 20, at most 30", [("20", 20, inf), ("30", -inf, 31)]),
        ("earlier than 1800 and since 1700", [("1800", -inf, 1800), ("1700", 1700, inf)]),
        ("between the years 1972 and 1969", [("1972 and 1969", 1969, 1973)]),
        ("from 3 to 5 after 7", [("3 to 5", 3, 6), ("7", 8, inf)]),
        ("before 1990 or 2000", [("1990", -inf, 1990)]),
        ("after 14 June 2021", [("14 June 2021", 2021 + 169 / 372, inf)]),
        ("until 2021-06-14", [("2021 06 14", -inf, 2021 + 169 / 372)]),
        ("since June 2021", [("June 2021", 2021 + 155 / 372, inf)]),
        ("longer than 2 weeks", [("2 weeks", nextafter(14, inf), inf)]),
        *((text, []) for text in ("between 1969 or 1972", "from 1969 and 1972", "older than 40", "before x1990", "")),
        ("before the great fire of London in 1666", []),
    ],
)
def test_a_range_is_a_number_and_what_opens_it(question: str, expected: list[tuple[str, float, float]]) -> None:
    words = labels.words_of(question)
    spans = [(words[one.start : one.end], one.low, one.high) for one in conditions.number_ranges(words)]
    found = [(" ".join(word.text for word in span), *ends) for span, *ends in spans]
    assert found == [(text, *(pytest.approx(end, abs=0, rel=1e-15) for end in ends)) for text, *ends in expected]


BRIDGES = """
b1 river Severn; b1 opened 1966; b1 length 1600; b1 material Steel; b1 material Iron; b1 toll True;
b1 bridgeClass Road; b1 span s1; s1 shape Arch; s1 lanes 4; b1 span s2; s2 shape Beam; s2 lanes 2;
b2 river Severn; b2 opened 1996; b2 length 5128; b2 material Steel; b2 toll False; b2 bridgeClass Road;
b3 river Tamar; b3 opened 1859; b3 length 667; b3 material Iron; b3 toll True; b3 bridgeClass Rail;
b1 surveyed 3|May|1990; b2 surveyed 1990; b3 surveyed 1991
"""
NAMES = {"b1": "Old Crossing", "b2": "New Crossing", "b3": "Royal Albert"}


@pytest.fixture(scope="module")
def bridges() -> Units:
    return make_units(BRIDGES, tuple(NAMES), {**NAMES, "3|May|1990": "3 May 1990"})


def ranking_of(units: Units) -> FacetRanking:
    return FacetRanking(units, None, ["Bridge"], FacetRule())


def test_the_hub_at_the_end_of_a_field_comes_first_of_those_that_meet_the_rest(bridges: Units) -> None:
    """Others stay possible."""
    ranking = ranking_of(bridges)
    for question, hub in (
        ("Which bridge over the Severn opened the earliest?", "Old Crossing"),
        ("Which bridge over the Severn is the latest?", "New Crossing"),
        ("Which bridge has the smallest length?", "Royal Albert"),
    ):
        assert paths_shown(bridges, ranking.score(ranking.read(question), None).paths)[0][0] == hub
    scores = ranking.score(ranking.read("Which bridge over the Severn has the largest length?"), None)
    shown_paths = [shown(bridges, document) for document in bridges.path_documents.tolist()]
    first, second = (scores.paths[shown_paths.index(("length", value))] for value in ("5128", "1600"))
    assert second / first == pytest.approx(conditions.NOT_EXTREME, abs=0.1)  # its hub meets the condition so far


def test_a_field_is_of_the_kind_of_its_values(bridges: Units) -> None:
    assert dict(zip(bridges.signature_texts, Fields(bridges).kinds.tolist(), strict=True)) == {
        "river": Kind.OTHER, "opened": Kind.TIME, "length": Kind.NUMBER, "toll": Kind.YES_NO, "surveyed": Kind.TIME,
        "material": Kind.OTHER, "bridge class": Kind.OTHER, "span shape": Kind.OTHER, "span lanes": Kind.NUMBER,
    }  # fmt: skip
    assert Fields(make_units("a p v", ("a",), {"v": ""})).kinds.tolist() == [Kind.OTHER]


@pytest.mark.parametrize(
    ("kind", "questions"),
    [
        (Kind.TIME, ["When was it opened?", "Who built it, and when was that?"]),
        (Kind.NUMBER, ["How long is it?", "Which has the most lanes?"]),
        (Kind.YES_NO, ["Is there a toll?"]),
        (Kind.TIME | Kind.YES_NO, ["Was there a toll when it was opened?"]),
        (Kind.OTHER, ["Which material is the most common?", "Do both have the same toll?", "What is there?", ""]),
    ],
)
def test_a_question_asks_for_kinds_in_plain_words(kind: Kind, questions: list[str]) -> None:
    found = {conditions.asked_kinds(labels.question_words(question)) for question in questions}
    assert found == {kind}


@pytest.mark.parametrize(
    ("question", "extreme"),
    [
        ("Which is the longest?", (Kind.NUMBER, True)),
        ("Which has the fewest lanes?", (Kind.NUMBER, False)),
        ("Which is the most recent?", (Kind.TIME, True)),
        ("Which opened the earliest?", (Kind.TIME, False)),
        ("Which river has the most crossings?", (Kind.NUMBER, True)),
        ("Which is the most common river?", None),
        ("List them, oldest first.", None),
        ("Sort them from newest to oldest.", None),
        ("Which has at least 2 lanes?", None),
        ("Which has most?", None),
    ],
)
def test_a_superlative_asks_for_one_end_of_a_field(question: str, extreme: tuple[Kind, bool] | None) -> None:
    assert conditions.asked_extreme(labels.question_words(question)) == extreme


def test_words_of_the_hubs_type_are_not_encoded_unless_its_kind_is_asked_for(bridges: Units) -> None:
    ranking = ranking_of(bridges)
    assert ranking.read("Which bridge over the Severn is long?").rest == "Which over the it is long"
    assert ranking.read("What kind of bridge is long?").rest == "What kind of bridge is long"
    assert [word.text for word in ranking.read("Which bridge is long?").words_without_hubs] == ["Which", "is", "long"]


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ("Which crossings have more than 1000 metres?", {"length"}),
        ("Which crossings came before 1900?", {"opened"}),
        ("Which are between 1000 and 1970?", {"length", "opened"}),
    ],
)
def test_amounts_and_times_are_limited_in_fields_of_their_own(bridges: Units, question: str, fields: set[str]) -> None:
    (facet,) = conditions_of(bridges, question).facets
    assert {bridges.signature_texts[signature] for signature in facet.signatures} == fields


def test_a_signature_is_the_predicates_of_a_path() -> None:
    rows = written("P1 author A1; P1 venue V; A1 born V; P2 author A2; P2 cites P1; A2 knows A1")
    stored, _ = hubs_of(rows, {"P1", "P2"}, {})
    graph, paths = stored.graph, stored.paths
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


def scored(units: Units, question: str, vectors: bool = False, **rule: float) -> FacetScores:
    count = int(units.document_texts.max(initial=-1)) + 1
    ranking = FacetRanking(units, unit_vectors(count) if vectors else None, ["Album"], FacetRule(**rule))
    asked = unit_vectors(2, 7)
    return ranking.score(ranking.read(question), asked[0] if vectors else None, asked[1] if vectors else None)


def plain_soft(units: Units, question: str, rule: FacetRule, similar: Floats) -> tuple[Floats, Floats]:
    """Factors of the soft score by definition, path by path."""
    asked = set(labels.content_stems(labels.words_of(question)))

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
    leaves = bm25([labels.content_stems(words[document]) for document in units.path_documents.tolist()])
    of_labels = bm25([labels.content_stems(units.value_words[value]) for value in units.hub_values.tolist()])
    largest = max(leaves)
    best: dict[int, dict[int, float]] = defaultdict(dict)
    documents = np.zeros(len(units.copies))
    for path, document in enumerate(units.path_documents.tolist()):
        score = 0.8 * leaves[path] / largest + 0.2 * max(0.0, float(similar[document]))
        documents[document] = score
        hub, signature = int(units.path_hubs[path]), int(units.document_signatures[document])
        best[hub][signature] = max(score, best[hub].get(signature, 0.0))
    best_four = [sum(sorted(best[hub].values())[-4:]) for hub in range(units.hub_count)]
    hubs = np.array(best_four) + 0.5 * np.array(of_labels) / largest
    return (hubs / hubs.max()) ** 8, documents


def test_the_soft_score_is_that_of_the_definition(music: Units) -> None:
    question = "Which folk album did the Harbour Band of London record in 1973?"
    vectors, vector = unit_vectors(int(music.document_texts.max()) + 1), unit_vectors(1, 7)[0]
    similar = (vectors @ vector).astype(np.float64)[music.document_texts]
    found = FacetRanking(music, vectors, (), FacetRule()).soft(labels.words_of(question), similar)
    for found_part, part in zip(found, plain_soft(music, question, FacetRule(), similar), strict=True):
        np.testing.assert_allclose(found_part, part, atol=1e-6)


@pytest.mark.parametrize("hubs", [1, 3])
def test_of_many_texts_the_best_hubs_are_compared(music: Units, hubs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, (vector, rest) = unit_vectors(int(music.document_texts.max()) + 1), unit_vectors(2, 7)
    ranking = FacetRanking(music, vectors, (), FacetRule())
    question = ranking.read("Folk?")
    whole = ranking.score(question, vector, rest)
    monkeypatch.setattr("polyhop.worker.ranking.facets.ranking.EXACT_TEXTS", 1)
    monkeypatch.setattr("polyhop.worker.ranking.facets.ranking.EXACT_HUBS", hubs)
    compared = ranking._compared(question.words)
    chosen = best(ranking.soft(question.words, None)[0], hubs)
    expected = np.unique(music.path_documents[np.isin(music.path_hubs, chosen)])
    similar = ranking._cosines(vector, compared)
    assert similar is not None
    assert np.flatnonzero(similar).tolist() == expected.tolist()
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


def test_the_final_score_is_that_of_the_definition(music: Units) -> None:
    """One condition, Rock, of albums 1 and 3; `release year` is asked for. Own: Rock 1, years 1, others 0."""
    found = scored(music, "Of which release year are all things in rock?")
    ranking = FacetRanking(music, None, (), FacetRule())
    soft_hubs, soft_documents = ranking.soft(labels.words_of("Of which release year are all things in rock?"), None)
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
    vectors, rest = unit_vectors(int(music.document_texts.max()) + 1), unit_vectors(2, 7)[1]
    question = FacetRanking(music, None, (), FacetRule()).read("Which genre?")
    rankings = [FacetRanking(music, vectors, (), FacetRule(signature_similarity=weight)) for weight in (0, 1, 0.4)]
    words, similarity, both = (one._asked(question, rest, one._cosines(rest, None)) for one in rankings)
    assert words.tolist() == question.shares.tolist()
    assert similarity.max() == 1.0
    np.testing.assert_allclose(both, 0.6 * words + 0.4 * similarity, atol=1e-9)


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
def test_triples_go_by_best_path(scores: list[float], triples: list[int], count: int, expected: list[int]) -> None:
    assert best_paths(np.array(scores), np.array(triples), count).tolist() == expected


def test_passages_take_the_best_path_whose_triple_they_state_or_whose_hub_they_are_attached_to() -> None:
    triples = written("a p b; a p c; d p b")

    def ranked(scores: Sequence[float], hubs: set[str], **links: Any) -> list[list[float]]:
        stored, _ = hubs_of(triples, hubs, **links)
        linked = LinkedPassages(stored.paths, stored.triple_passages, stored.hub_passages)
        return [part.tolist() for part in linked.rank(np.array(scores), 5)]

    stated = {"triple_passages": [*zip(triples, (2, 2, 0), strict=True)], "hub_passages": [("a", 1)]}
    assert ranked([0.2, 0.6, 0.5], {"a", "d"}, **stated) == [[2, 0], [0.6, 0.5]]
    attached: dict[str, Any] = {"hub_passages": [("a", 1), ("d", 1), ("d", 3)]}
    assert ranked([0.2, 0.6, 0.7], {"a", "d"}, **attached) == [[1, 3], [0.7, 0.7]]
    assert ranked([0.2, 0.6, 0.0], {"a", "d"}, **attached) == [[1], [0.6]]
    linked = hubs_of(triples, {"a", "d"}, **attached)[0]
    nothing = LinkedPassages(hubs_of(triples, set())[0].paths, linked.triple_passages, linked.hub_passages)
    assert [part.tolist() for part in nothing.rank(np.empty(0), 5)] == [[], []]


def answered(units: Units, question: str) -> FacetAnswer | None:
    ranking = ranking_of(units)
    read = ranking.read(question)
    return answer_of(units, read, ranking.score(read, None), ranking.fields.kinds)


@pytest.mark.parametrize(
    ("question", "kind", "texts"),
    [
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
def test_plain_questions_are_answered_by_their_paths(bridges: Units, question: str, kind: str, texts: set[str]) -> None:
    answer = answered(bridges, question)
    assert answer is not None
    assert (answer.kind, set(answer.texts)) == (kind, texts)
    assert 0.6 < answer.confidence <= PRECISION
    if kind == "values":
        documents = bridges.document_values[bridges.path_documents[answer.paths]]
        assert {bridges.value_texts[int(value)] for value in documents} == texts
        hubs = [bridges.value_texts[int(bridges.hub_values[hub])] for hub in answer.hubs]
        assert [name for name in NAMES.values() if name in question] == hubs


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
    ],
)
def test_in_doubt_there_is_no_answer(bridges: Units, question: str) -> None:
    assert answered(bridges, question) is None


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
