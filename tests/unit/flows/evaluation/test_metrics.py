"""Metrics of answers and retrieval, scores of predictions, golden triples; bootstrap, calibration, groups, samples."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, P, R, Success, nDCG

from polyhop.flows.evaluation import bootstrap, metrics
from polyhop.flows.evaluation.bootstrap import LEAST_MEMBERS
from polyhop.flows.evaluation.report import COVERAGE_POINTS, calibration, coverage_curve
from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.records import Prediction, QuestionRecord
from polyhop.schemas.text import norm_answer
from polyhop.warehouse.files.questions import read_questions

GOLDEN = [
    ("The Eiffel Tower!", ["eiffel tower"], "eiffel tower", 1, 1),
    ("Paris, France", ["Paris"], "paris france", 0, 0.666667),
    ("a an the", [""], "", 1, 1),
    ("", ["Paris"], "", 0, 0),  # algorithms.md G-EVAL
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
    assert metrics.exact_match(prediction, answers) == em
    assert metrics.token_f1(prediction, answers) == pytest.approx(f1, abs=1e-6)


def test_the_reciprocal_rank_of_what_comes_after_the_hundredth_is_zero() -> None:
    assert [metrics.reciprocal_rank([f"p{n}" for n in range(200)], {gold}) for gold in ("p99", "p100")] == [0.01, 0]


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), TEXTS)
def test_laws_of_f1(a: str, answers: list[str], b: str) -> None:
    """Between exact match and one, symmetric, whatever the order of words; another gold answer never lowers it."""
    assert metrics.exact_match(a, answers) <= metrics.token_f1(a, answers) <= 1
    backwards = " ".join(reversed(norm_answer(a).split()))
    assert metrics.token_f1(a, [b]) == metrics.token_f1(b, [a]) == metrics.token_f1(backwards, [b])
    assert metrics.token_f1(a, [*answers, b]) == max(metrics.token_f1(a, answers), metrics.token_f1(a, [b]))


def test_hotpot_gives_a_yes_that_should_be_a_name_nothing_and_gold_is_needed() -> None:
    assert metrics.token_f1("yes", ["yes it is"]) == pytest.approx(0.5)
    assert metrics.token_f1("yes", ["yes it is"], hotpot_yes_no=True) == 0
    assert metrics.token_f1("Yes.", ["yes"], hotpot_yes_no=True) == 1
    assert metrics.score_rows([prediction("yes", "yes it is")], hotpot_yes_no=True) == [metrics.Score(0.0, 0.0)]
    with pytest.raises(ValueError, match="empty"):
        metrics.token_f1("Paris", [])


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
        **{R @ k: [metrics.recall_at(ranking, gold, k) for ranking, gold in rows] for k in (1, 3, 10)},
        **{RR @ k: [metrics.reciprocal_rank(ranking, gold, k) for ranking, gold in rows] for k in (2, 100)},
        **{Success @ k: [metrics.hit_at(ranking, gold, k) for ranking, gold in rows] for k in (1, 5)},
        **{P @ k: [metrics.precision_at(ranking, gold, k) for ranking, gold in rows] for k in (1, 10)},
        **{nDCG @ k: [metrics.ndcg_at(ranking, gold, k) for ranking, gold in rows] for k in (3, 10)},
    }
    assert {measure: sum(values) / len(rows) for measure, values in ours.items()} == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("passages", "gold", "judged"),
    [("b#2 a#1 b#1 c", {"a", "c"}, "b a c"), ("a#1 a#2 a#3", {"a#2"}, "a a#2")],
    ids=["by record", "named by gold"],
)
def test_pieces_are_judged_by_their_record_unless_gold_names_them(passages: str, gold: set[str], judged: str) -> None:
    assert metrics.judged_ranking(passages.split(), gold, lambda one: one.split("#")[0]) == judged.split()


@pytest.mark.parametrize(("prediction", "answers", "wanted"), CONTAINED)
def test_golden_containment(prediction: str, answers: list[str], wanted: float) -> None:
    assert metrics.containment(prediction, answers) == wanted


def prediction(said: str, *answers: str) -> Prediction:
    return Prediction(id="q", prediction=said, answers=answers)


def test_the_best_gold_answer_counts_and_no_gold_answer_is_no_score() -> None:
    rows = [prediction("the Ada Lovelace", "Babbage", "Ada Lovelace"), prediction("x"), prediction("", "x")]
    found = metrics.score_rows([*rows, prediction("Ada Byron", "Ada Lovelace")])
    assert found == [metrics.Score(1.0, 1.0), None, metrics.Score(0.0, 0.0), metrics.Score(0.0, 0.5)]
    assert metrics.mean_scores(found) == {"n": 4, "em": 1 / 3, "f1": 0.5}
    assert metrics.mean_scores([None]) == {"n": 1, "em": None, "f1": None}


ADA = NamedTriple("R1", "Ada Lovelace", "born in", "R2", "London")
NAMED_BADLY = NamedTriple("R3", "Titles (1), born in, R2:x: a history", "part of: a, b", "R4", "Volume, part (2)")
URIS = NamedTriple("http://ex.org/a", "A", "http://ex.org/p", "http://ex.org/b", "B")
VALUE = NamedTriple("R1", "Ada Lovelace", "born in year", "6f1c", "1815, December")
GRAPH = [ADA, NAMED_BADLY, URIS, VALUE, NamedTriple("R1", "Ada Lovelace", "lived in", "R2", "London")]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("R1:Ada Lovelace, born in, R2:London", ADA),
        ("(R1:Augusta Ada King, born in, R2:London, England)", ADA),
        ("(R1, born in, R2)", ADA),
        (f"(R3:{NAMED_BADLY.subject}, part of: a, b, R4:Volume, part (2))", NAMED_BADLY),
        ("(http://ex.org/a:A, http://ex.org/p, http://ex.org/b:B)", URIS),
        ("(http://ex.org/a, http://ex.org/p, http://ex.org/b)", URIS),
        ("(R1:Ada Lovelace, born in year, 1815, December)", VALUE),
        (("R1", "born in year", "1815, December"), VALUE),
    ],
)
def test_a_golden_triple_is_found_whatever_is_in_names_and_ids(written: Any, meant: NamedTriple) -> None:
    assert metrics.find_golden([written], GRAPH) == {written: meant.ids}


def test_golden_triples_that_the_graph_does_not_have_are_not_found() -> None:
    others = ["None", "(R1:Ada Lovelace, born in, R9:London)", "(R9:Ada Lovelace, born in, R2:London)"]
    others += ["", "(R1:Ada Lovelace, died in, R2:London)", "(R10:Ada Lovelace, born in, R2:London)"]
    assert metrics.find_golden([*others, ("R1", "born in", "London, Ontario"), ("R2", "born in", "R1")], GRAPH) == {}
    twice = [VALUE, VALUE._replace(object_id="7a2d")]  # a value that two objects have means neither
    assert metrics.find_golden([("R1", "born in year", VALUE.object)], twice) == {}


def test_of_two_triples_that_fit_it_is_the_one_whose_names_the_text_has() -> None:
    other = NamedTriple("R1", "Ada Lovelace, born in, R2:London", "born in", "R5", "x")
    text = "(R1:Ada Lovelace, born in, R2:London, born in, R5:x)"
    named_otherwise = NamedTriple("R1", "Ada Lovelace", "born in", "R2", "London, born in, R5:x")
    assert metrics.find_golden([text], [other, ADA]) == {text: other.ids}
    without_names = other._replace(subject="Ada", object="y")
    assert metrics.find_golden([text], [named_otherwise, without_names]) == {text: named_otherwise.ids}
    assert metrics.find_golden([text], [ADA._replace(subject="Ada"), without_names]) == {text: other.ids}


AWKWARD = st.text(alphabet="aR1,: ()", max_size=8).map(str.strip)
GOLDEN_IDS = st.sampled_from(["R1", "R2", "R11", "a:b", "L,1"])
TRIPLES = st.builds(NamedTriple, GOLDEN_IDS, AWKWARD, AWKWARD.filter(bool), GOLDEN_IDS, AWKWARD)


def _written(row: NamedTriple) -> str:
    return f"({row.subject_id}:{row.subject}, {row.predicate}, {row.object_id}:{row.object})"


@given(st.lists(TRIPLES, min_size=1, max_size=6, unique_by=lambda row: row.ids), st.data())
def test_every_triple_of_a_graph_is_found_by_a_text_of_its_own(graph: list[NamedTriple], data: st.DataObject) -> None:
    meant = data.draw(st.sampled_from(graph))
    text = _written(meant)
    assert meant.subject_id in metrics.possible_subjects([text])
    found = metrics.find_golden([text], graph)[text]
    assert found in {row.ids for row in graph if _written(row) == text}  # two triples may be written alike


def test_cells_of_a_csv_file_hold_several(tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text('question,golden_triples\nWho?,"(R1:a, p, R2:b)|(R1:a, p, R3:c)"\n')
    ((record,), _) = read_questions(tmp_path / "questions.csv")
    assert record.golden_triples == ("(R1:a, p, R2:b)", "(R1:a, p, R3:c)")
    assert record.metadata == {"golden_triples": [*record.golden_triples]}


@pytest.mark.shared_data
def test_all_golden_triples_of_orkg_but_the_one_that_is_none_are_in_its_graph(shared_data: Path) -> None:
    def end(node: Any) -> tuple[str, str]:
        return (node["id"], node["name"]) if isinstance(node, dict) else (str(node), str(node))

    lines = (shared_data / "orkg" / "triples.jsonl").read_text(encoding="utf-8").splitlines()
    rows = map(json.loads, lines)
    stated = [NamedTriple(*end(row["subject"]), row["predicate"], *end(row["object"])) for row in rows]
    records, _ = read_questions(shared_data / "orkg" / "questions.jsonl")
    golden = [triple for record in records for triple in record.golden_triples]
    found = metrics.find_golden(golden, stated)
    assert len(golden) > 800
    assert [triple for triple in golden if triple not in found] == ["None"]


A = [1, 0.5, 1, 0, 0.5, 1, 1, 0.5]
B = [0.5, 0.5, 1, 0.5, 0, 1, 0.5, 0.5]


def paired_bootstrap(a: Sequence[float], b: Sequence[float], **options: int) -> bootstrap.PairedDifference:
    """The only column of a comparison of two strategies."""
    (found,) = bootstrap.bootstrap_columns((np.array(a) - np.array(b))[:, np.newaxis], **options)
    return found


def test_golden_case() -> None:
    values = {"difference": 0.125, "low": -0.125, "high": 0.375, "wins": 3, "ties": 4, "losses": 1}
    assert paired_bootstrap(A, B).as_row() == {**values, "significant": False}
    assert not bootstrap.PairedDifference(0.1, 0.0, 0.2, 1, 0, 0).significant  # an interval that ends at zero
    assert paired_bootstrap([1.0] * 5, [0.0] * 5).significant
    assert paired_bootstrap([0.0] * 5, [1.0] * 5).significant


def test_chunks_draw_the_stream_of_one_large_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(5).normal(0.1, 1, size=37)
    drawn = np.random.default_rng(13).integers(0, 37, size=(10_000, 37))
    low, high = np.percentile(differences[drawn].mean(axis=1), [2.5, 97.5])
    for cells in (1, 37 * 7, 1 << 20):
        monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", cells)
        result = paired_bootstrap(differences.tolist(), [0.0] * 37)
        assert (result.low, result.high) == pytest.approx((low, high), abs=1e-11)


def test_differences_of_rounding_noise_are_ties_and_no_questions_are_refused() -> None:
    assert paired_bootstrap([0.1 + 0.2, 0.5], [0.3, 0.5]) == bootstrap.PairedDifference(0, 0, 0, 0, 2, 0)
    with pytest.raises(AlgorithmError, match="at least one question"):
        paired_bootstrap([], [])


def test_p_is_twice_the_share_of_resamples_that_turn_the_sign() -> None:
    differences = np.array(A) - np.array(B)
    drawn = np.random.default_rng(13).integers(0, 8, size=(10_000, 8))
    means = np.round(differences[drawn].mean(axis=1), 12)
    assert bootstrap.bootstrap_p(differences) == 2 * (int((means <= 0).sum()) + 1) / 10_001
    assert bootstrap.bootstrap_p(-differences) == bootstrap.bootstrap_p(differences)

    assert bootstrap.bootstrap_p(np.zeros(5)) == 1.0
    assert bootstrap.bootstrap_p(np.full(5, 0.1), resamples=99) == 0.02
    with pytest.raises(AlgorithmError, match="at least one question"):
        bootstrap.bootstrap_p(np.zeros(0))


def test_fifths_by_hand() -> None:
    answers = [(0.9, 1.0), (0.1, 0.0), (0.3, 0.0), (0.2, 1.0), (0.8, 1.0), (0.4, 0.0), (0.5, 1.0)]
    assert calibration(answers) == [
        {"n": 2, "stated": pytest.approx(0.15), "observed": 0.5},
        {"n": 2, "stated": pytest.approx(0.35), "observed": 0},
        {"n": 1, "stated": 0.5, "observed": 1},
        {"n": 1, "stated": 0.8, "observed": 1},
        {"n": 1, "stated": 0.9, "observed": 1},
    ]


def test_the_curve_by_hand() -> None:
    assert (calibration([]), coverage_curve([], 3)) == ([], [])
    answers = [(0.5, 0.0), (0.9, 1.0), (0.5, 1.0), (0.2, 0.0)]
    assert coverage_curve(answers, 8) == [
        {"coverage": 1 / 8, "precision": 1, "confidence": 0.9},
        {"coverage": 3 / 8, "precision": pytest.approx(2 / 3), "confidence": 0.5},
        {"coverage": 4 / 8, "precision": 0.5, "confidence": 0.2},
    ]


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 1.0])), min_size=1, max_size=200))
def test_a_curve_is_short_falls_in_confidence_and_ends_with_all_answers(answers: list[tuple[float, float]]) -> None:
    curve = coverage_curve(answers, len(answers))
    assert len(curve) <= COVERAGE_POINTS
    assert curve[-1]["coverage"] == 1
    assert curve[-1]["precision"] == pytest.approx(sum(right for _, right in answers) / len(answers))
    assert [point["confidence"] for point in curve] == sorted({point["confidence"] for point in curve}, reverse=True)
    for point in curve:
        given_answers = [right for confidence, right in answers if confidence >= point["confidence"]]
        assert point["coverage"] == pytest.approx(len(given_answers) / len(answers))
        assert point["precision"] == pytest.approx(sum(given_answers) / len(given_answers))


def test_every_further_baseline_is_compared_with_every_other_strategy() -> None:
    assert bootstrap.against({"only": [{"em": 1.0}]}, ["only"], ["em"]) == {"only": {}}
    means = {"a": (1.0, 0.0), "b": (0.0, 0.0), "c": (1.0, 1.0)}
    values: dict[str, list[dict[str, float | None]]] = {name: [{"em": v} for v in own] for name, own in means.items()}
    both = bootstrap.against(values, ["a", "c"], ["em"])
    assert {baseline: list(rows) for baseline, rows in both.items()} == {"a": ["b", "c"], "c": ["a", "b"]}
    assert both["a"] == bootstrap.against(values, ["a"], ["em"])["a"]
    assert both["c"]["a"]["em"]["difference"] == -both["a"]["c"]["em"]["difference"] == -0.5


@pytest.mark.rare
def test_intervals_are_those_of_scipys_percentile_bootstrap() -> None:
    from scipy import stats  # a second of imports, which every test process would pay for at collection

    generator = np.random.default_rng(7)
    drawn = {"recall@5": generator.choice([0.0, 1 / 3, 0.5, 1.0], 60), "mrr": generator.random(60)}
    rows: list[dict[str, float | None]] = [
        {"em": None, "recall@5": None if n < 9 else float(drawn["recall@5"][n]), "mrr": float(drawn["mrr"][n])}
        for n in range(60)
    ]
    found = bootstrap.intervals({"one": rows}, ["recall@5", "mrr", "em"])["one"]
    assert found["em"] is None
    for metric, first in (("recall@5", 9), ("mrr", 0)):
        expected = stats.bootstrap(
            (drawn[metric][first:],), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(13)
        ).confidence_interval
        interval = found[metric]
        assert interval is not None
        assert (interval["low"], interval["high"]) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_an_interval_depends_on_no_other_strategy_or_metric() -> None:
    rows: list[dict[str, float | None]] = [{"em": n % 3 / 2, "f1": n % 2 * 1.0} for n in range(20)]
    alone = bootstrap.intervals({"one": rows}, ["em"])["one"]["em"]
    beside = bootstrap.intervals({"other": rows[::-1], "one": rows}, ["f1", "em"])["one"]["em"]
    assert alone == beside


def values(count: int) -> dict[str, list[dict[str, float | None]]]:
    return {"bm25": [{"mrr": float(number)} for number in range(count)]}


def test_groups_come_by_number_and_then_by_word_with_their_own_means() -> None:
    found = bootstrap.by_group(["10", "b", None, "2", "b", "²"], values(6), ["mrr"])
    assert list(found) == ["2", "10", "b", "²"]
    assert {key: group["n"] for key, group in found.items()} == {"2": 1, "10": 1, "b": 2, "²": 1}
    assert found["b"]["strategies"] == {"bm25": {"mrr": 2.5}}
    means = [bootstrap.mean(values) for values in ([1.0, None, 2.0], [0.0], [None], [])]
    assert means == [1.5, 0.0, None, None]
    assert bootstrap.by_group([], values(0), ["mrr"]) == {}


MOST_GROUPS = [str(number) for number in range(bootstrap.MOST_GROUPS)]


@pytest.mark.parametrize(
    ("column", "groups"),
    [
        (["a"] * LEAST_MEMBERS + ["b"] * LEAST_MEMBERS, ["a", "b"]),
        (["a"] * (2 * LEAST_MEMBERS - 1) + ["b"], ["a", "b"]),
        (["a"] * LEAST_MEMBERS + ["b"] * (LEAST_MEMBERS - 1), None),
        ([True, False] * LEAST_MEMBERS, ["false", "true"]),
        ([True, False, None] * LEAST_MEMBERS, ["false", "true"]),
        ([2, 10] * LEAST_MEMBERS, ["2", "10"]),
        ([" a ", "a", "b"] * LEAST_MEMBERS, ["a", "b"]),
        ([1.5, 2.5] * LEAST_MEMBERS, None),
        ([["x"], ["y"]] * LEAST_MEMBERS, None),
        (["a", "b" * (bootstrap.LONGEST_VALUE + 1)] * LEAST_MEMBERS, None),
        (MOST_GROUPS * LEAST_MEMBERS, MOST_GROUPS),
        ([*MOST_GROUPS, "more"] * LEAST_MEMBERS, None),
    ],
)
def test_a_field_with_few_values_groups_questions(column: list[object], groups: list[str] | None) -> None:
    found = bootstrap.by_field([{"field": value} for value in column], values(len(column)), ["mrr"])
    assert [list(one) for one in found.values()] == ([] if groups is None else [groups])


RECORDS = [QuestionRecord(f"q{n}", f"Question {n}?") for n in range(40)]


def test_a_sample_depends_on_its_seed_and_not_on_the_order_of_the_file() -> None:
    first = bootstrap.sampled(RECORDS, 10, 13)
    # by sha256sum of the lines sample, 13 and the id: the sample of a stored run can be drawn again later
    numbers = (1, 3, 4, 7, 10, 11, 18, 19, 26, 29)
    assert first == [RECORDS[number] for number in numbers]
    assert first != bootstrap.sampled(RECORDS, 10, 14)
    assert bootstrap.sampled(RECORDS[::-1], 10, 13) == first[::-1]


def test_a_smaller_sample_is_part_of_a_larger_one_and_the_largest_is_the_set() -> None:
    samples = [{record.id for record in bootstrap.sampled(RECORDS, size, 5)} for size in range(1, 41)]
    assert [len(ids) for ids in samples] == list(range(1, 41))
    assert all(small < large for small, large in pairwise(samples))
    assert bootstrap.sampled(RECORDS, 41, 1) == bootstrap.sampled(RECORDS, 40, 1) == RECORDS
