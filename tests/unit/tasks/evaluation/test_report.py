"""The report of `polyhop eval`: its shape, who counts for what, and failures."""

import json

import pytest

from polyhop.schemas.errors import AlgorithmError
from polyhop.tasks.evaluation.metrics import TRIPLE_METRICS
from polyhop.tasks.evaluation.report import METRICS, GoldQuestion, Outcome, evaluate, long_answer_words, question_values

GOLD = [
    GoldQuestion("q1", ("Paris",), frozenset({"b", "e"})),
    GoldQuestion("q2", ("1952",), frozenset({"q"})),
    GoldQuestion("q3", (), frozenset({"g", "h", "i"})),
    GoldQuestion("q4", ("yes",), frozenset()),
]
FIRST = [
    Outcome(tuple("abcde"), "Paris, France", 0.001),
    Outcome(tuple("xyz"), "1,952", 0.002),
    Outcome(tuple("gh"), "Rome", 0.003),
    Outcome((), "", 0.004),
]
SECOND = [
    Outcome(("b#2", "b#1", "e"), "Paris", 0.010),
    Outcome(error="the index vanished", seconds=9.0),
    Outcome(tuple("ghi"), "", 0.020),
    Outcome(("z",), "Yes.", 0.030),
]


def record_of(passage_id: str) -> str:
    return passage_id.split("#", maxsplit=1)[0]


def test_the_report_of_two_strategies() -> None:
    report = evaluate(GOLD, {"first": FIRST, "second": SECOND}, record_of)
    assert json.loads(json.dumps(report)) == report
    assert (report["n"], report["excluded"]) == (4, 1)
    first, second = report["strategies"]["first"], report["strategies"]["second"]
    answers, cost = ("answered", "shown", "sentence_hit", "calibration", "coverage"), ("tokens", "cost_usd")
    timings = ("latency_ms", "parts_ms", "total_seconds")
    assert list(first) == [*METRICS, *answers, *cost, *timings, "failures", "failed", "intervals"]
    assert [first[f"recall@{k}"] for k in (1, 2, 5, 30)] == pytest.approx([1 / 9, 7 / 18, 5 / 9, 5 / 9])
    assert (first["hit@10"], first["mrr"], first["all@5"]) == pytest.approx((2 / 3, 0.5, 1 / 3))
    assert (first["em"], first["f1"]) == pytest.approx((1 / 3, (2 / 3 + 1) / 3))
    assert (first["hit@1"], first["hit@5"], first["all@2"], first["all@20"]) == pytest.approx((1 / 3, 2 / 3, 0, 1 / 3))
    assert first["latency_ms"] == pytest.approx({"p50": 2.5, "p95": 3.85, "p99": 3.97, "mean": 2.5})
    assert first["total_seconds"] == pytest.approx(0.01)
    assert (first["failures"], first["failed"]) == (0, [])
    assert (second["recall@2"], second["mrr"], second["em"]) == pytest.approx((5 / 9, 2 / 3, 2 / 3))


def test_failures_count_zero_are_listed_and_have_no_latency() -> None:
    report = evaluate(GOLD, {"second": SECOND}, record_of)["strategies"]["second"]
    assert (report["failures"], report["failed"]) == (1, [{"id": "q2", "error": "the index vanished"}])
    assert report["latency_ms"]["p99"] < 31
    assert report["recall@30"] == pytest.approx(2 / 3)


def test_every_two_strategies_are_compared_in_the_order_given() -> None:
    paired = evaluate(GOLD, {"b": FIRST, "a": SECOND, "c": FIRST}, record_of)["paired"]
    assert list(paired) == ["b vs a", "b vs c", "a vs c"]
    assert list(paired["b vs a"]) == list(METRICS)
    assert set(paired["b vs a"]["em"]) == {"difference", "low", "high", "wins", "ties", "losses", "significant"}
    em = paired["b vs a"]["em"]
    assert (em["wins"], em["ties"], em["losses"]) == (1, 0, 2)
    assert em["difference"] == pytest.approx(-1 / 3)
    assert paired["b vs c"]["mrr"]["ties"] == 3
    assert paired["b vs a"]["f1"]["difference"] == pytest.approx(-paired["a vs c"]["f1"]["difference"])


def test_without_a_reader_answers_are_not_judged() -> None:
    outcomes = [Outcome(tuple("abcde")), Outcome(error="broken"), Outcome(tuple("gh")), Outcome()]
    report = evaluate(GOLD, {"ranked": outcomes, "read": FIRST}, record_of)
    assert (report["strategies"]["ranked"]["em"], report["strategies"]["ranked"]["f1"]) == (None, None)
    assert "em" not in report["paired"]["ranked vs read"]
    assert "mrr" in report["paired"]["ranked vs read"]


def test_without_a_reader_answers_are_not_judged_even_if_every_question_failed() -> None:
    outcomes = [Outcome(error="broken", is_read=False)] * 4
    report = evaluate(GOLD, {"ranked": outcomes}, record_of)["strategies"]["ranked"]
    assert (report["mrr"], report["em"], report["failures"]) == (0, None, 4)


def test_without_a_ranking_only_answers_are_judged_and_compared() -> None:
    unranked = [Outcome(None, "Paris"), Outcome(None, error="broken"), Outcome(None, "Rome"), Outcome(None, "yes")]
    report = evaluate(GOLD, {"first": FIRST, "closed-book": unranked}, record_of)
    row = report["strategies"]["closed-book"]
    assert (row["recall@5"], row["mrr"], row["hit@1"]) == (None, None, None)
    assert row["em"] == pytest.approx(2 / 3)
    assert list(report["paired"]["first vs closed-book"]) == ["em", "f1"]
    assert [group["strategies"]["closed-book"]["recall@5"] for group in report["by_hops"].values()] == [
        None,
        None,
        None,
    ]


def test_when_everything_failed_everything_counts_zero() -> None:
    report = evaluate(GOLD, {"broken": [Outcome(error="broken")] * 4}, record_of)["strategies"]["broken"]
    assert (report["mrr"], report["em"], report["failures"]) == (0, 0, 4)


def test_questions_without_any_gold_give_null() -> None:
    report = evaluate([GoldQuestion("q")], {"a": [Outcome(("x",), "x", 0.1)], "b": [Outcome()]}, record_of)
    assert {report["strategies"]["a"][metric] for metric in METRICS} == {None}
    assert report["paired"] == {"a vs b": {}}


def test_no_question_at_all_gives_an_empty_report() -> None:
    report = evaluate([], {"a": []}, record_of)
    assert (report["n"], report["excluded"], report["strategies"]["a"]["em"]) == (0, 0, None)


def test_an_outcome_too_few_is_refused() -> None:
    with pytest.raises(AlgorithmError, match="4 questions, but 3 outcomes"):
        evaluate(GOLD, {"first": FIRST[:3]}, record_of)


def test_values_by_question_are_none_where_a_question_does_not_count() -> None:
    values = question_values(GOLD, FIRST, record_of)
    assert (values[3]["mrr"], values[3]["em"], values[2]["em"]) == (None, 0, None)


def test_answered_questions_are_judged_apart_and_with_their_confidence() -> None:
    gold = [GoldQuestion(f"q{n}", ("Rome",)) for n in range(5)] + [GoldQuestion("q5")]
    outcomes = [
        Outcome(answer="Rome", confidence=0.9, kind="extracted"),
        Outcome(answer="Old Rome", confidence=0.4, kind="extracted"),
        Outcome(answer="", confidence=0.05, kind="none"),
        Outcome(answer="Rome", kind="generated"),
        Outcome(error="broken"),
        Outcome(answer="Paris", confidence=0.8, kind="computed"),
    ]
    report = evaluate(gold, {"a": outcomes}, record_of)["strategies"]["a"]
    assert report["em"] == pytest.approx(2 / 5)
    assert report["answered"] == pytest.approx({"share": 3 / 5, "em": 2 / 3, "f1": (2 + 2 / 3) / 3})
    assert report["calibration"] == [{"n": 1, "stated": 0.4, "observed": 0}, {"n": 1, "stated": 0.9, "observed": 1}]
    assert report["coverage"] == [
        {"coverage": 0.2, "precision": 1, "confidence": 0.9},
        {"coverage": 0.4, "precision": 0.5, "confidence": 0.4},
    ]


def test_without_a_reader_there_is_no_answered_share() -> None:
    report = evaluate(GOLD, {"ranked": [Outcome()] * 4}, record_of)["strategies"]["ranked"]
    assert report["answered"] == {"share": None, "em": None, "f1": None}
    assert (report["calibration"], report["coverage"]) == ([], [])


def test_tokens_and_parts_of_the_time_are_summed_up() -> None:
    outcomes = [
        Outcome(parts={"seed": 0.001, "reading": 0.01}, prompt_tokens=100, completion_tokens=7, cost_usd=0.1),
        Outcome(parts={"seed": 0.003}, prompt_tokens=50, cost_usd=0.2),
        Outcome(error="broken", parts={"seed": 9.0}),
        Outcome(),
    ]
    report = evaluate(GOLD, {"a": outcomes}, record_of)["strategies"]["a"]
    assert report["tokens"] == {
        "prompt": 150,
        "completion": 7,
        "prompt_per_question": 37.5,
        "completion_per_question": 1.75,
    }
    assert report["cost_usd"] == pytest.approx(0.3)
    assert list(report["parts_ms"]) == ["seed", "reading"]
    assert report["parts_ms"]["seed"] == pytest.approx({"p50": 2, "p95": 2.9, "p99": 2.98, "mean": 2})


def test_hops_come_from_the_file_or_the_number_of_supporting_records_and_types_from_the_file() -> None:
    gold = [
        GoldQuestion("q1", (), frozenset({"a", "b"})),
        GoldQuestion("q2", (), frozenset({"a"}), hops=2, type="bridge"),
        GoldQuestion("q3", (), frozenset({"z"}), hops=10),
        GoldQuestion("q4"),
    ]
    outcomes = [Outcome(("a", "b"))] * 4
    report = evaluate(gold, {"first": outcomes, "second": outcomes}, record_of)
    assert [(hops, group["n"]) for hops, group in report["by_hops"].items()] == [("2", 2), ("10", 1)]
    assert report["by_hops"]["2"]["strategies"]["second"]["recall@1"] == pytest.approx(0.75)
    assert report["by_hops"]["2"]["strategies"]["first"]["em"] is None
    assert [(kind, group["n"]) for kind, group in report["by_type"].items()] == [("bridge", 1)]


def test_many_strategies_are_compared_with_the_baseline_only() -> None:
    names = [f"s{n}" for n in range(7)]
    paired = evaluate(GOLD, dict.fromkeys(names, FIRST), record_of, baselines=["s2"])["paired"]
    assert list(paired) == ["s0 vs s2", "s1 vs s2", "s2 vs s3", "s2 vs s4", "s2 vs s5", "s2 vs s6"]
    assert len(evaluate(GOLD, dict.fromkeys(names[:6], FIRST), record_of)["paired"]) == 15


def triple(number: int) -> tuple[str, str, str]:
    return ("R1", "p", f"R{number}")


TRIPLES_OF_QUESTIONS = [
    GoldQuestion("q1", triples=frozenset({triple(1), triple(2), "(R9:not, in, the:graph)", triple(40)})),
    GoldQuestion("q2", ("Rome",), frozenset({"a"}), triples=frozenset({triple(3)})),
    GoldQuestion("q3", ("Rome",), frozenset({"a"})),
]


def test_triples_are_judged_beside_passages_where_a_question_has_golden_ones() -> None:
    """By hand: q1 finds two of four within 10 (ranks 2 and 4) and a third at rank 30; q2 finds nothing."""
    ranking = [triple(n) for n in (0, 1, 1, 5, 2, *range(100, 125), 40)]  # a triple ranked twice counts once
    outcomes = [Outcome(triples=tuple(ranking)), Outcome(("a",), triples=()), Outcome(("a",), triples=(triple(3),))]
    report = evaluate(TRIPLES_OF_QUESTIONS, {"hubs": outcomes, "plain": [Outcome(("a",))] * 3}, record_of)
    hubs, plain = report["strategies"]["hubs"], report["strategies"]["plain"]
    assert json.loads(json.dumps(report)) == report
    assert [hubs[f"triple_recall@{k}"] for k in (1, 2, 5, 10, 30)] == [0, 0.125, 0.25, 0.25, 0.375]
    assert [hubs[f"triple_precision@{k}"] for k in (10, 30)] == pytest.approx([0.1, 0.05])
    assert [hubs[f"triple_f1@{k}"] for k in (10, 30)] == pytest.approx([4 / 14 / 2, 6 / 34 / 2])
    assert (hubs["triple_hit@10"], hubs["triple_mrr"]) == (0.5, 0.25)
    assert (hubs["recall@1"], hubs["intervals"]["triple_mrr"]) == (1, {"low": 0, "high": 0.5})
    assert {plain[metric] for metric in TRIPLE_METRICS} == {None}
    assert not set(TRIPLE_METRICS) & report["paired"]["hubs vs plain"].keys()
    paired = evaluate(TRIPLES_OF_QUESTIONS, {"a": outcomes, "b": [Outcome(triples=())] * 3}, record_of)["paired"]
    assert paired["a vs b"]["triple_recall@30"]["difference"] == 0.375


def test_a_failed_question_counts_zero_among_triples_too() -> None:
    outcomes = [Outcome(error="gone", triples=()), Outcome(triples=(triple(3),)), Outcome(triples=())]
    values = question_values(TRIPLES_OF_QUESTIONS, outcomes, record_of)
    assert [row["triple_hit@10"] for row in values] == [0, 1, None]


def test_without_golden_triples_there_are_no_metrics_of_them() -> None:
    report = evaluate(GOLD, {"first": [Outcome(triples=(triple(1),))] * 4}, record_of)
    assert not set(TRIPLE_METRICS) & report["strategies"]["first"].keys()


def test_groups_by_fields_of_the_file_that_group_the_questions() -> None:
    """Not by what differs from question to question, is the same for all, or is no word, number or flag."""
    gold = [
        GoldQuestion(
            f"q{n}",
            ("Rome",),
            fields={"operation": ("count", "rank")[n % 2], "typed": n < 5, "note": f"{n}", "set": "x", "list": [n % 2]},
        )
        for n in range(11)
    ] + [GoldQuestion("q11", fields={"typed": None})]
    report = evaluate(gold, {"a": [Outcome(answer="Rome" if n % 2 else "") for n in range(12)]}, record_of)
    assert list(report["by_field"]) == ["operation", "typed"]
    groups = report["by_field"]["operation"]
    assert {name: (group["n"], group["strategies"]["a"]["em"]) for name, group in groups.items()} == {
        "count": (6, 0),
        "rank": (5, 1),
    }
    assert [(name, group["n"]) for name, group in report["by_field"]["typed"].items()] == [("false", 6), ("true", 5)]
    assert "by_field" not in evaluate(GOLD, {"first": FIRST}, record_of)


TEN = "one two three four five six seven eight nine ten"


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ([], None),
        ([()], None),
        ([(TEN,)], None),
        ([(f"{TEN} eleven",)], 11),
        ([(f"{TEN} eleven", "short")], None),
        ([(TEN,), (f"{TEN} eleven",), ()], 10.5),
        ([("Paris",), (f"{TEN} eleven",), (TEN,)], None),
    ],
)
def test_gold_answers_are_long_if_their_median_is_above_ten_words(
    answers: list[tuple[str, ...]], wanted: float | None
) -> None:
    """algorithms.md 6.1: of several answers the shortest counts, and questions without one do not."""
    assert long_answer_words(answers) == wanted


def test_long_gold_answers_are_judged_by_f1_and_containment_alone() -> None:
    """Both gold answers have 11 words; content of the first: paper, tactics, written, ann, roe, oslo."""
    gold = [
        GoldQuestion("q1", ("The paper Tactics was written by Ann Roe in the Oslo.",)),
        GoldQuestion("q2", ("one two three four five six seven eight nine ten eleven",)),
        GoldQuestion("q3"),
    ]
    outcomes = [Outcome(answer="Ann Roe, in Oslo", confidence=0.9), Outcome(error="gone"), Outcome(answer="x")]
    report = evaluate(gold, {"one": outcomes}, record_of)
    assert report["long_answers"] == {"median_words": 11}
    one = report["strategies"]["one"]
    # tokens of gold: paper tactics was written by ann roe in oslo (9), of the answer: ann roe in oslo (4)
    assert (one["em"], one["f1"], one["containment"]) == (None, pytest.approx(8 / 13 / 2), pytest.approx(3 / 6 / 2))
    assert one["answered"] == pytest.approx({"share": 0.5, "em": None, "f1": 8 / 13, "containment": 0.5})
    assert (one["calibration"], one["coverage"], one["intervals"]["em"]) == (None, None, None)
    assert one["intervals"]["containment"].keys() == {"low", "high"}
    short = evaluate([GoldQuestion("q1", ("Oslo",))], {"one": outcomes[:1]}, record_of)
    assert "long_answers" not in short
    assert "containment" not in short["strategies"]["one"]
    assert [row["stated"] for row in short["strategies"]["one"]["calibration"]] == [0.9]
