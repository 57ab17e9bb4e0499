"""The report of polyhop eval, comparisons of stored reports, gates, and tuning."""

import json
from typing import Any

import pytest
from bs4 import BeautifulSoup

from polyhop.flows.evaluation import tuning
from polyhop.flows.evaluation.bootstrap import against, intervals
from polyhop.flows.evaluation.metrics import TRIPLE_METRICS
from polyhop.flows.evaluation.report import (
    CHANGED_QUESTIONS,
    METRICS,
    Gate,
    GoldQuestion,
    Outcome,
    check_measured,
    check_names,
    compare_runs,
    evaluate,
    failure_sentence,
    gate_rows,
    long_answer_words,
    parse_gate,
    question_values,
)
from polyhop.schemas.errors import AlgorithmError, ConfigurationError
from polyhop.schemas.records import QuestionRecord
from polyhop.schemas.requests import parse_range

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
    assert [first[name] for name in ("hit@1", "hit@5", "hit@10")] == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert [first[name] for name in ("all@2", "all@5", "all@20")] == pytest.approx([0, 1 / 3, 1 / 3])
    assert [first[name] for name in ("mrr", "em", "f1")] == pytest.approx([0.5, 1 / 3, (2 / 3 + 1) / 3])
    assert first["latency_ms"] == pytest.approx({"p50": 2.5, "p95": 3.85, "p99": 3.97, "mean": 2.5})
    assert first["total_seconds"] == pytest.approx(0.01)
    assert (first["failures"], first["failed"]) == (0, [])
    assert (second["recall@2"], second["recall@30"], second["em"]) == pytest.approx((5 / 9, 2 / 3, 2 / 3))
    assert (second["failures"], second["failed"]) == (1, [{"id": "q2", "error": "the index vanished"}])
    assert (second["mrr"], second["latency_ms"]["p50"]) == pytest.approx((2 / 3, 20))


@pytest.mark.parametrize(
    ("outcome", "em", "failures", "answered"),
    [
        (Outcome(), None, 0, {"share": None, "em": None, "f1": None}),
        (Outcome(error="broken", is_read=False), None, 4, {"share": None, "em": None, "f1": None}),
        (Outcome(error="broken"), 0, 4, {"share": 0, "em": None, "f1": None}),
    ],
    ids=["no reader", "failed without a reader", "failed"],
)
def test_failures_count_zero_but_for_answers_that_no_reader_was_to_give(
    outcome: Outcome, em: float | None, failures: int, answered: dict[str, float | None]
) -> None:
    report = evaluate(GOLD, {"a": [outcome] * 4}, record_of)["strategies"]["a"]
    assert (report["mrr"], report["em"], report["failures"], report["answered"]) == (0, em, failures, answered)
    assert (report["calibration"], report["coverage"]) == ([], [])
    assert report["latency_ms"] == dict.fromkeys(("p50", "p95", "p99", "mean"))


def test_without_a_ranking_only_answers_are_judged_and_compared_and_without_a_reader_only_rankings() -> None:
    unranked = [Outcome(None, "Paris"), Outcome(None, error="broken"), Outcome(None, "Rome"), Outcome(None, "yes")]
    unread = [Outcome(tuple("abcde")), Outcome(error="broken"), Outcome(tuple("gh")), Outcome()]
    report = evaluate(GOLD, {"first": FIRST, "closed-book": unranked, "unread": unread}, record_of)
    row = report["strategies"]["closed-book"]
    assert (row["recall@5"], row["mrr"], row["hit@1"]) == (None, None, None)
    assert row["em"] == pytest.approx(2 / 3)
    assert list(report["paired"]["first vs closed-book"]) == ["em", "f1"]
    assert [group["strategies"]["closed-book"]["recall@5"] for group in report["by_hops"].values()] == [None] * 3
    assert (report["strategies"]["unread"]["em"], report["strategies"]["unread"]["f1"]) == (None, None)
    assert list(report["paired"]["first vs unread"]) == [name for name in METRICS if name not in {"em", "f1"}]


def test_questions_without_any_gold_and_no_question_at_all_give_null() -> None:
    report = evaluate([GoldQuestion("q")], {"a": [Outcome(("x",), "x", 0.1)], "b": [Outcome()]}, record_of)
    assert {report["strategies"]["a"][metric] for metric in METRICS} == {None}
    assert report["paired"] == {"a vs b": {}}
    report = evaluate([], {"a": []}, record_of)
    assert (report["n"], report["excluded"], report["strategies"]["a"]["em"]) == (0, 0, None)
    with pytest.raises(AlgorithmError, match="4 questions, but 3 outcomes"):
        evaluate(GOLD, {"first": FIRST[:3]}, record_of)


def test_answered_questions_are_judged_apart_and_with_their_confidence() -> None:
    gold = [GoldQuestion(f"q{n}", ("Rome",)) for n in range(5)] + [GoldQuestion("q5")]
    outcomes = [
        Outcome(guess="Rome", confidence=0.9, kind="extracted"),
        Outcome(guess="Old Rome", confidence=0.4, kind="extracted"),
        Outcome(guess="", confidence=0.05, kind="none"),
        Outcome(guess="Rome", kind="generated"),
        Outcome(error="broken"),
        Outcome(guess="Paris", confidence=0.8, kind="computed"),
    ]
    report = evaluate(gold, {"a": outcomes}, record_of)["strategies"]["a"]
    assert report["em"] == pytest.approx(2 / 5)
    assert report["answered"] == pytest.approx({"share": 3 / 5, "em": 2 / 3, "f1": (2 + 2 / 3) / 3})
    assert report["calibration"] == [{"n": 1, "stated": 0.4, "observed": 0}, {"n": 1, "stated": 0.9, "observed": 1}]
    coverage = [{"coverage": 0.2, "precision": 1, "confidence": 0.9}]
    assert report["coverage"] == [*coverage, {"coverage": 0.4, "precision": 0.5, "confidence": 0.4}]


def test_tokens_and_parts_of_the_time_are_summed_up() -> None:
    outcomes = [
        Outcome(parts={"seed": 0.001, "reading": 0.01}, prompt_tokens=100, completion_tokens=7, cost_usd=0.1),
        Outcome(parts={"seed": 0.003}, prompt_tokens=50, cost_usd=0.2),
        Outcome(error="broken", parts={"seed": 9.0}),
        Outcome(),
    ]
    report = evaluate(GOLD, {"a": outcomes}, record_of)["strategies"]["a"]
    assert list(report["tokens"].values()) == [150, 7, 37.5, 1.75]
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


def test_many_strategies_are_compared_with_the_baselines_only() -> None:
    names = [f"s{n}" for n in range(7)]
    paired = evaluate(GOLD, dict.fromkeys(names, FIRST), record_of, baselines=["s1", "s3"])["paired"]
    pairs = "01 03 12 13 14 15 16 23 34 35 36"
    assert list(paired) == [f"s{pair[0]} vs s{pair[1]}" for pair in pairs.split()]
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
    report = evaluate(GOLD, {"first": [Outcome(triples=(triple(1),))] * 4}, record_of)
    assert not set(TRIPLE_METRICS) & report["strategies"]["first"].keys()
    outcomes = [Outcome(error="gone", triples=()), Outcome(triples=(triple(3),)), Outcome(triples=())]
    values = question_values(TRIPLES_OF_QUESTIONS, outcomes, record_of)
    assert [row["triple_hit@10"] for row in values] == [0, 1, None]


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
    report = evaluate(gold, {"a": [Outcome(guess="Rome" if n % 2 else "") for n in range(12)]}, record_of)
    assert list(report["by_field"]) == ["operation", "typed"]
    groups = {name: (one["n"], one["strategies"]["a"]["em"]) for name, one in report["by_field"]["operation"].items()}
    assert groups == {"count": (6, 0), "rank": (5, 1)}
    assert [(name, group["n"]) for name, group in report["by_field"]["typed"].items()] == [("false", 6), ("true", 5)]
    assert "by_field" not in evaluate(GOLD, {"first": FIRST}, record_of)


TEN = "one two three four five six seven eight nine ten"


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ([()], None),
        ([(TEN,)], None),
        ([(f"{TEN} eleven", "short")], None),
        ([(TEN,), (f"{TEN} eleven",), ()], 10.5),
        ([("Paris",), (f"{TEN} eleven",), (TEN,)], None),
    ],
)
def test_gold_answers_are_long_by_their_median(answers: list[tuple[str, ...]], wanted: float | None) -> None:
    """algorithms.md 6.1: of several answers the shortest counts, and questions without one do not."""
    assert long_answer_words(answers) == wanted


def test_long_gold_answers_are_judged_by_f1_and_containment_alone() -> None:
    """Both gold answers have 11 words; content of the first: paper, tactics, written, ann, roe, oslo."""
    gold = [
        GoldQuestion("q1", ("The paper Tactics was written by Ann Roe in the Oslo.",)),
        GoldQuestion("q2", ("one two three four five six seven eight nine ten eleven",)),
        GoldQuestion("q3"),
    ]
    outcomes = [Outcome(guess="Ann Roe, in Oslo", confidence=0.9), Outcome(error="gone"), Outcome(guess="x")]
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


def run_of(results: dict[str, float], **changes: Any) -> dict[str, Any]:
    """run.json in which every metric of a strategy has one value."""
    facts = {"polyhop": "0.1.0", "index": "wiki", "version": 1, "reader": "rules", "depth": 100, "seed": 13}
    chosen = {"parameters": {}, "settings": {"reader.min_confidence": 0.06}, "strategies": list(results)}
    found = {name: dict.fromkeys(METRICS, value) for name, value in results.items()}
    return {**facts, **chosen, "questions": {"file": "q.jsonl", "sha256": "aa", "n": 2}, "results": found, **changes}


def row_of(strategy: str, question: str, value: float | None, answer: str = "x") -> dict[str, Any]:
    """A line of questions.jsonl in which every metric has one value."""
    values = dict.fromkeys(METRICS, value)
    return {
        "id": question,
        "question": f"{question}?",
        "strategy": strategy,
        "answer": answer,
        "guess": answer,
        **values,
    }


def test_what_was_run_differently_is_named_with_both_values() -> None:
    run, rows = run_of({"a": 0.5}), [row_of("a", "q1", 0.0), row_of("a", "q2", 1.0)]
    changes = compare_runs(run, run, (rows, rows))
    assert (changes["changed"], changes["most_changed"], changes["only_first"]) == ({}, [], [])
    assert changes["strategies"]["a"]["em"]["paired"]["ties"] == 2
    other = run_of({"a": 0.5, "c": 0.1}, version=2, parameters={"k": "3"}, settings={"reader.min_confidence": 0.3})
    changes = compare_runs(run_of({"b": 0.5, "a": 0.5}), other, ([], []))
    confidence = {"settings.reader.min_confidence": [0.06, 0.3]}
    assert changes["changed"] == {"version": [1, 2], **confidence, "parameters.k": [None, "3"]}
    assert (changes["only_first"], changes["only_second"], list(changes["strategies"])) == (["b"], ["c"], ["a"])
    assert changes["strategies"]["a"]["em"]["paired"] is None


def test_metrics_and_questions_of_both_runs_are_paired_second_minus_first() -> None:
    before = [row_of("a", "q1", 0.0, "old"), row_of("a", "q2", 1.0), row_of("a", "gone", 1.0)]
    after = [row_of("a", "q2", 1.0, "same score"), row_of("a", "q1", 1.0, "new"), row_of("a", "fresh", 0.0)]
    changes = compare_runs(run_of({"a": 0.5}), run_of({"a": 0.75}), (before, after))
    assert changes["questions"] == {"common": 2, "only_first": 1, "only_second": 1}
    found = changes["strategies"]["a"]["recall@5"]
    assert (found["first"], found["second"], found["difference"]) == (0.5, 0.75, 0.25)
    assert (found["paired"]["difference"], found["paired"]["wins"], found["paired"]["losses"]) == (0.5, 1, 0)
    assert [(row["id"], row["change"], row["answers"]) for row in changes["most_changed"]] == [
        ("q1", 4, ["old", "new"]),
        ("q2", 0, ["x", "same score"]),
    ]


def test_a_question_that_was_reworded_is_another_question_and_what_was_not_measured_makes_no_difference() -> None:
    before, after = [row_of("a", "q1", 0.0)], [{**row_of("a", "q1", 1.0), "question": "Other words?"}]
    changes = compare_runs(run_of({"a": 0.0}), run_of({"a": 1.0}), (before, after))
    assert changes["questions"] == {"common": 0, "only_first": 1, "only_second": 1}
    assert (changes["strategies"]["a"]["em"]["paired"], changes["most_changed"]) == (None, [])
    first, second = run_of({"a": 0.5}), run_of({"a": 0.5})
    first["results"]["a"]["em"] = None
    changes = compare_runs(first, second, ([row_of("a", "q", None)], [row_of("a", "q", 1.0)]))
    assert changes["strategies"]["a"]["em"] | {"difference": None, "paired": None} == changes["strategies"]["a"]["em"]
    assert changes["strategies"]["a"]["f1"]["difference"] == pytest.approx(0)


def test_only_the_questions_that_changed_most_are_shown() -> None:
    count = CHANGED_QUESTIONS + 5
    before = [row_of("a", f"q{n:02d}", 0.0) for n in range(count)]
    after = [row_of("a", f"q{n:02d}", (n + 1) / count) for n in range(count)]
    changes = compare_runs(run_of({"a": 0.0}), run_of({"a": 0.5}), (before, after))
    assert [row["id"] for row in changes["most_changed"]] == [f"q{n:02d}" for n in range(count - 1, 4, -1)]


Results = dict[str, dict[str, Any]]

STRATEGIES: Results = {"bridge": {"recall@5": 0.65, "em": None}, "bm25": {"recall@5": 0.4992, "em": 0.1}}


def test_a_gate_is_read_with_and_without_a_strategy_and_one_written_otherwise_is_refused() -> None:
    assert parse_gate("recall@5=.65") == Gate("recall@5", 0.65)
    assert parse_gate(" qasa:gate=none:steps=1 : mrr = 1") == Gate("mrr", 1.0, "qasa:gate=none:steps=1")
    for text in ("recall@5", "recall@5=", "recall@5=high", "recall@5=65", "recall@5=nan", "=.5x"):
        with pytest.raises(ConfigurationError, match="takes metric=value"):
            parse_gate(text)
    known = r"unknown metric 'recal@5'; metrics: recall@1, .*, containment, .*, triple_mrr\."
    with pytest.raises(ConfigurationError, match=known):
        parse_gate("bridge:recal@5=.5")
    check_names([Gate("em", 0.1), Gate("em", 0.1, "bm25")], ["bridge", "bm25"])
    with pytest.raises(ConfigurationError, match="'dense', which is not evaluated; evaluated: bridge, bm25"):
        check_names([Gate("em", 0.1, "dense")], ["bridge", "bm25"])


NO_GOLD = "could not be measured (the questions have no gold for it, or"
NO_ANSWERS = f"{NO_GOLD} their gold answers are too long or too short for it), 0.1 is wanted"
NO_TRIPLES = "; ".join(
    f"triple_recall@10 of {label} {NO_GOLD} the strategy ranks no triples), 0.9 is wanted"
    for label in ("bm25", "dense")
)
OF_TRIPLES: Results = {"hublink": {"triple_recall@10": 0.95}, "bm25": {"triple_recall@10": None}, "dense": {}}


@pytest.mark.parametrize(
    ("gate", "results", "failed"),
    [
        ("recall@5=.65", STRATEGIES, "recall@5 of bm25 is 0.4992, below 0.65"),  # an equal value passes
        ("bridge:recall@5=.65", STRATEGIES, None),
        ("mrr=.65", {"bm25": {"mrr": 0.649986}}, "mrr of bm25 is 0.649986, below 0.65"),  # not written like it
        ("em=.1", STRATEGIES, f"em of bridge {NO_ANSWERS}"),
        ("triple_recall@10=.9", OF_TRIPLES, NO_TRIPLES),
    ],
    ids=["equal", "named", "just below", "not measured", "triples"],
)
def test_a_gate_fails_below_it_or_if_nothing_was_measured(gate: str, results: Results, failed: str | None) -> None:
    sentence = failure_sentence(gate_rows([parse_gate(gate)], results))
    assert sentence == (failed and f"The gate failed: {failed}.")


def test_gates_for_what_is_not_measured_are_refused() -> None:
    check_measured([Gate("recall@5", 0.1), Gate("em", 0.1, "closed-book")], unranked="closed-book", reads=True)
    check_measured([Gate("mrr", 0.1, "bm25")], unranked="closed-book", reads=False)
    with pytest.raises(ConfigurationError, match=r"^--fail-below em needs answers; use --reader spans or model\.$"):
        check_measured([Gate("em", 0.1)], unranked="closed-book", reads=False)
    unjudged = r"cannot judge triple_mrr of 'closed-book', .*: em, f1, containment\."
    with pytest.raises(ConfigurationError, match=unjudged):
        check_measured([Gate("triple_mrr", 0.1, "closed-book")], unranked="closed-book", reads=True)


def test_a_gate_for_the_retrieval_of_all_leaves_out_the_row_without_retrieval() -> None:
    results: Results = {"bm25": {"recall@5": 0.7, "em": 0.2}, "closed-book": {"recall@5": None, "em": 0.1}}
    gates = [Gate("recall@5", 0.5), Gate("em", 0.15)]
    rows = gate_rows(gates, results, unranked="closed-book")
    passed = [(row["strategy"], row["metric"], row["passed"]) for row in rows]
    assert passed == [("bm25", "recall@5", True), ("bm25", "em", True), ("closed-book", "em", False)]


TRIED = parse_range("s:width=1,2:b=x,y z")
LABELS = ["s", *TRIED.points]
WIDE = "s:width=2:b=y z"
TIMINGS = {"strategies": {label: {"latency_ms": {"p50": None}} for label in LABELS}}


def _part(values: dict[str, list[float]]) -> tuning.EvaluatedPart:
    """Questions q0, q1, … with these values of mrr by label."""
    by_label = {s: [{"mrr": v, "f1": v / 2} for v in each] for s, each in values.items()}
    rows = [{"id": f"q{n}", "strategy": s, **row} for s, each in by_label.items() for n, row in enumerate(each)]
    means = intervals(by_label, ["mrr", "f1"])
    points = [{"label": label, "values": list(given)} for label, given in TRIED.points.items()]
    run = {
        "strategies": list(values),
        "results": {
            s: {"mrr": sum(v) / len(v), "f1": sum(v) / len(v) / 2, "intervals": means[s], "failures": 0}
            for s, v in values.items()
        },
        "baseline": "s",
        "paired": against(by_label, ["s"], ["mrr", "f1"])["s"],
        "polyhop": "1.0",
        "interval": {"level": 0.95, "kind": "bootstrap", "resamples": 10},
        "ranges": [{"label": TRIED.label, "parameters": list(TRIED.parameters), "points": points}],
        "questions": {"n": len(values["s"]), "file": "q.jsonl"},
    }
    return tuning.EvaluatedPart(run, rows)


def _report(rest: dict[str, list[float]], best: float = 0.9) -> dict[str, Any]:
    sample = _part({label: [best if label == WIDE else 0.4] * 12 for label in LABELS})
    found = tuning.tuning_document("mrr", "s", TRIED, sample, _part(rest), {"k": "7"})
    facts = {"index": "towns", "version": 3, "questions": {"file": "q.jsonl", "of": 24}, "seed": 13, "reader": "none"}
    return {**facts, **found}


BETTER = {"s": [0.2] * 12, WIDE: [0.7] * 11 + [0.1]}
EQUAL = {"s": [0.2, 0.8] * 6, WIDE: [0.2, 0.8] * 5 + [0.8, 0.2]}
WORSE = {"s": [0.9] * 12, WIDE: [0.2] * 12}


def test_of_equal_settings_the_default_is_best_then_the_first() -> None:
    for values, best in (([0.5, 0.4, 0.5], "s"), ([0.4, 0.5, 0.5], "s:b")):
        labels = ("s", "s:b", "s:a")
        run = {"results": {label: {"mrr": value} for label, value in zip(labels, values, strict=True)}}
        assert tuning.chosen_setting("mrr", "s", labels, run) == best


@pytest.mark.parametrize(("metric", "judged"), [("recall@5", 0), ("mrr", 0), ("f1", 1), ("triple_f1@10", 2)])
def test_a_metric_judges_the_questions_that_have_its_gold(metric: str, judged: int) -> None:
    gold = {"supporting": ("p",)}, {"answers": ("a",)}, {"golden_triples": ("(a, b, c)",)}
    assert [tuning.is_judged(QuestionRecord("q", "?", **one), metric) for one in gold].index(True) == judged  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [(9, 30), (30, 9)])
def test_too_few_judged_questions_on_either_side_are_refused(sizes: tuple[int, int]) -> None:
    judged = [QuestionRecord(str(n), "?", supporting=("p",)) for n in range(30)]
    tuning.check_parts([judged[:10]] * 2, "mrr")
    with pytest.raises(ConfigurationError) as refused:
        tuning.check_parts([[*judged[:size], *([QuestionRecord("u", "?")] * 5)] for size in sizes], "mrr")
    assert str(refused.value).endswith(
        f"there are {sizes[0]} to tune on and {sizes[1]} to keep back; take more questions, another --sample, or "
        "another --metric (of 49 questions, 39 have supporting passages, 0 have answers, 0 have golden triples)."
    )


def test_the_document_has_both_parts_the_paired_test_and_how_to_use_the_setting() -> None:
    report = _report(BETTER)
    assert (report["default"], report["chosen"], report["is_default"]) == ("s", WIDE, False)
    assert report["grid"] == {"width": ["1", "2"], "b": ["x", "y z"]}
    assert [row["label"] for row in report["tried"]] == LABELS
    assert report["tried"][1]["values"] == {"width": "1", "b": "x"}
    assert report["tuning"]["chosen"] == {"mean": pytest.approx(0.9), "low": 0.9, "high": 0.9}
    rest = report["rest"]
    assert (rest["n"], rest["judged"], rest["default"]["mean"]) == (12, 12, pytest.approx(0.2))
    paired = rest["paired"]
    assert (paired["wins"], paired["losses"], paired["significant"], paired["p"] < 0.05) == (11, 1, True, True)
    assert paired["difference"] == pytest.approx(rest["chosen"]["mean"] - 0.2)
    assert list(rest["metrics"]) == ["f1"]
    assert rest["metrics"]["f1"]["paired"]["difference"] == pytest.approx(paired["difference"] / 2)
    assert report["use"] == {"strategy": "s", "param": ["k=7", "width=2", "b=y z"], "label": WIDE}


@pytest.mark.parametrize(
    ("rest", "verdict", "use"),
    [
        (BETTER, "better by more than chance.", "to use it: "),
        (EQUAL, "no more than chance, so the default is as good a choice.", "to use it all the same: "),
        (WORSE, "worse by more than chance: keep the default.", "to use it all the same: "),
    ],
    ids=["better", "equal", "worse"],
)
def test_the_sentences_say_what_the_rest_says(rest: dict[str, list[float]], verdict: str, use: str) -> None:
    first, second, third = tuning.tuning_findings(_report(rest))
    assert first == f"Highest mrr on the sample: {WIDE} with 0.900; the default has 0.400."
    assert second.startswith("On the 12 questions kept back, chosen minus default: ")
    assert second.endswith(verdict)
    assert third == (
        f"Nothing was changed; {use}polyhop ask QUESTION --index towns --strategy s --param k=7 --param width=2 "
        "--param 'b=y z'"
    )


def test_where_no_setting_is_higher_there_is_nothing_to_change_and_where_nothing_was_judged_it_is_refused() -> None:
    report = _report({"s": [0.2] * 12}, best=0.4)
    assert (report["chosen"], report["is_default"], report["rest"]["paired"]) == ("s", True, None)
    (said,) = tuning.tuning_findings(report)
    assert said == "No setting has a higher mrr on the sample than the default; there is nothing to change."
    sample = _part({label: [0.4] * 12 for label in LABELS})
    page = BeautifulSoup(tuning.tuning_page(report, sample.run, TIMINGS), "html.parser")
    assert len(page.select("#parts table")) == 1
    with pytest.raises(ConfigurationError, match="recall@5 judged nothing"):
        tuning.tuning_document("recall@5", "s", TRIED, sample, _part(BETTER), {})


def test_the_page_shows_sample_and_rest_side_by_side_and_all_that_was_tried() -> None:
    run = _part({label: [0.9 if label == WIDE else 0.4] * 12 for label in LABELS}).run
    page = BeautifulSoup(tuning.tuning_page(_report(BETTER), run, TIMINGS), "html.parser")
    first, second = page.select("#parts table")
    cells = [[cell.get_text() for cell in row.find_all(["th", "td"])] for row in first.select("tbody tr")]
    assert cells[0] == ["default", "s", "0.400 [0.400, 0.400]", "0.200 [0.200, 0.200]"]
    assert cells[1][:3] == ["chosen", WIDE, "0.900 [0.900, 0.900]"]
    assert [row.find("th").get_text() for row in second.select("tbody tr")] == ["mrr", "f1"]
    assert second.select("td.better")
    assert not page.select("#ranges img")
    assert len(page.select("#ranges tbody tr")) == len(TRIED.points)
    facts = {item.dt.get_text(): item.dd.get_text() for item in page.select(".facts div") if item.dt and item.dd}
    assert (facts["Tuned on"], facts["Kept back"], facts["Settings tried"]) == ("12, random, seed 13", "12", "5")


@pytest.mark.parametrize(("words", "refused"), [(2, "containment"), (11, "em")])
def test_a_metric_that_gold_answers_of_this_length_do_not_have_is_refused(words: int, refused: str) -> None:
    parts = [[QuestionRecord(str(n), "?", answers=("word " * words,)) for n in range(10)]] * 2
    tuning.check_parts(parts, "f1")
    with pytest.raises(ConfigurationError, match=f"not judged by {refused}; take --metric f1"):
        tuning.check_parts(parts, refused)


def test_a_guess_that_changed_without_being_shown_is_a_change() -> None:
    before, after = ({**row_of("a", "q1", 1.0, ""), "guess": guess} for guess in ("old", "new"))
    changes = compare_runs(run_of({"a": 1.0}), run_of({"a": 1.0}), ([before], [after]))
    assert [(row["answers"], row["guesses"]) for row in changes["most_changed"]] == [(["", ""], ["old", "new"])]
