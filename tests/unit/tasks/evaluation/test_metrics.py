"""Answer and retrieval metrics: the golden rows, the laws, and agreement with ir-measures."""

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, P, R, Success, nDCG

from polyhop.schemas.text import norm_answer
from polyhop.tasks.evaluation.metrics import (
    all_at,
    containment,
    exact_match,
    f1_at,
    hit_at,
    judged_ranking,
    latency_milliseconds,
    ndcg_at,
    precision_at,
    recall_at,
    reciprocal_rank,
    token_f1,
)

# Source: algorithms.md G-EVAL.
GOLDEN = [
    ("The Eiffel Tower!", ["eiffel tower"], "eiffel tower", 1, 1),
    ("Paris, France", ["Paris"], "paris france", 0, 0.666667),
    ("a an the", [""], "", 1, 1),
    ("", ["Paris"], "", 0, 0),
    ("U.S.A.", ["usa"], "usa", 1, 1),
    ("rock-and-roll", ["rock and roll"], "rockandroll", 0, 0),
    ("Theodore the Great", ["theodore great"], "theodore great", 1, 1),
    ("New York City New York", ["New York"], "new york city new york", 0, 0.571429),
    ("1,952", ["1952"], "1952", 1, 1),
    ("Louis XIII of France", ["Louis XIV of France"], "louis xiii of france", 0, 0.75),
    ("It is 42 km", ["42 kilometres"], "it is 42 km", 0, 0.333333),
    ("São Paulo", ["sao paulo"], "são paulo", 0, 0.5),
    ("the City of Paris", ["Paris", "City of Paris, France"], "city of paris", 0, 0.857143),
]
CONTAINED = [
    ("Ann Roe wrote it", ["The paper was written by Ann Roe."], 0.5),
    ("The paper was written by Ann Roe.", ["The paper was written by Ann Roe."], 1),
    ("Oslo", ["Bergen and Oslo", "Oslo"], 1),
    ("Oslo, Oslo", ["Oslo and Bergen, Bergen"], 0.5),
    ("who is it", ["it is who"], 1),
    ("Oslo", ["it is"], 0),
    ("", ["Oslo"], 0),
    ("Oslo", ["the"], 1),
]
"""Content words of the first: paper, written, ann, roe; of an answer without any, all its words count."""
TEXTS = st.text(alphabet="ab thé,.-1 ", max_size=20)
IDS = st.sampled_from([f"p{number}" for number in range(12)])
RANKINGS = st.lists(IDS, unique=True)
GOLD_IDS = st.frozensets(IDS, min_size=1)


@pytest.mark.parametrize(("prediction", "answers", "normalised", "em", "f1"), GOLDEN)
def test_golden_answers(prediction: str, answers: list[str], normalised: str, em: float, f1: float) -> None:
    assert norm_answer(prediction) == normalised
    assert exact_match(prediction, answers) == em
    assert token_f1(prediction, answers) == pytest.approx(f1, abs=1e-6)


def test_golden_rankings() -> None:
    rows = [(list("abcde"), {"b", "e"}), (list("xyz"), {"q"}), (list("gh"), {"g", "h", "i"})]
    recalls = {k: sum(recall_at(ranking, gold, k) for ranking, gold in rows) / 3 for k in (1, 2, 5)}
    hits = {k: sum(hit_at(ranking, gold, k) for ranking, gold in rows) / 3 for k in (1, 2, 5)}
    assert recalls == pytest.approx({1: 0.111111, 2: 0.388889, 5: 0.555556}, abs=1e-6)
    assert hits == pytest.approx({1: 0.333333, 2: 0.666667, 5: 0.666667}, abs=1e-6)
    assert [reciprocal_rank(ranking, gold) for ranking, gold in rows] == [0.5, 0, 1]


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_f1_lies_between_exact_match_and_one(prediction: str, answers: list[str]) -> None:
    assert exact_match(prediction, answers) <= token_f1(prediction, answers) <= 1


@given(TEXTS, TEXTS)
def test_f1_is_symmetric(a: str, b: str) -> None:
    assert token_f1(a, [b]) == token_f1(b, [a])


@given(TEXTS, TEXTS)
def test_f1_ignores_the_order_of_words(a: str, b: str) -> None:
    assert token_f1(a, [b]) == token_f1(" ".join(reversed(norm_answer(a).split())), [b])


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), TEXTS)
def test_another_gold_answer_never_lowers_f1(prediction: str, answers: list[str], more: str) -> None:
    assert token_f1(prediction, [*answers, more]) == max(token_f1(prediction, answers), token_f1(prediction, [more]))


def test_hotpot_gives_a_yes_that_should_be_a_name_nothing() -> None:
    assert token_f1("yes", ["yes it is"]) == pytest.approx(0.5)
    assert token_f1("yes", ["yes it is"], hotpot_yes_no=True) == 0
    assert token_f1("Yes.", ["yes"], hotpot_yes_no=True) == 1


def test_f1_without_a_gold_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        token_f1("Paris", [])


@given(st.lists(st.tuples(RANKINGS, GOLD_IDS), min_size=1, max_size=4))
def test_retrieval_metrics_agree_with_ir_measures(rows: list[tuple[list[str], frozenset[str]]]) -> None:
    qrels = [ir_measures.Qrel(str(n), gold, 1) for n, (_, supporting) in enumerate(rows) for gold in supporting]
    run = [
        ir_measures.ScoredDoc(str(n), passage_id, float(-place))
        for n, (ranking, _) in enumerate(rows)
        for place, passage_id in enumerate(ranking)
    ]
    measures = [R @ 1, R @ 3, R @ 10, RR @ 100, RR @ 2, Success @ 1, Success @ 5, P @ 1, P @ 10, nDCG @ 3, nDCG @ 10]
    theirs = ir_measures.calc_aggregate(measures, qrels, run)
    ours = {
        **{R @ k: [recall_at(ranking, gold, k) for ranking, gold in rows] for k in (1, 3, 10)},
        **{RR @ k: [reciprocal_rank(ranking, gold, k) for ranking, gold in rows] for k in (2, 100)},
        **{Success @ k: [hit_at(ranking, gold, k) for ranking, gold in rows] for k in (1, 5)},
        **{P @ k: [precision_at(ranking, gold, k) for ranking, gold in rows] for k in (1, 10)},
        **{nDCG @ k: [ndcg_at(ranking, gold, k) for ranking, gold in rows] for k in (3, 10)},
    }
    assert {measure: sum(values) / len(rows) for measure, values in ours.items()} == pytest.approx(theirs)


@given(RANKINGS, GOLD_IDS, st.integers(1, 15))
def test_f1_of_a_ranking_is_the_harmonic_mean_of_precision_and_recall(
    ranking: list[str], gold: frozenset[str], depth: int
) -> None:
    precision, recall = precision_at(ranking, gold, depth), recall_at(ranking, gold, depth)
    expected = 2 * precision * recall / (precision + recall) if precision else 0
    assert f1_at(ranking, gold, depth) == pytest.approx(expected)


@given(RANKINGS, GOLD_IDS, st.integers(1, 15))
def test_all_gold_means_recall_is_one(ranking: list[str], gold: frozenset[str], depth: int) -> None:
    assert all_at(ranking, gold, depth) == float(recall_at(ranking, gold, depth) == 1)


def test_a_first_gold_behind_the_depth_is_not_counted() -> None:
    ranking = [f"p{number}" for number in range(200)]
    assert reciprocal_rank(ranking, {"p99"}) == 0.01
    assert reciprocal_rank(ranking, {"p100"}) == 0


def test_pieces_are_judged_by_their_record_and_the_first_piece_counts() -> None:
    ranking = judged_ranking(["b#2", "a#1", "b#1", "c"], {"a", "c"}, lambda passage_id: passage_id.split("#")[0])
    assert ranking == ["b", "a", "c"]


def test_a_piece_that_gold_names_stays_itself() -> None:
    ranking = judged_ranking(["a#1", "a#2", "a#3"], {"a#2"}, lambda passage_id: passage_id.split("#")[0])
    assert ranking == ["a", "a#2"]


def test_latency_percentiles_are_interpolated() -> None:
    expected = {"p50": 2.5, "p95": 3.85, "p99": 3.97, "mean": 2.5}
    assert latency_milliseconds([0.001, 0.002, 0.003, 0.004]) == pytest.approx(expected)
    assert latency_milliseconds([]) == dict.fromkeys(expected)


@pytest.mark.parametrize(("prediction", "answers", "wanted"), CONTAINED)
def test_golden_containment(prediction: str, answers: list[str], wanted: float) -> None:
    assert containment(prediction, answers) == wanted
