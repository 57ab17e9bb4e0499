"""The command line that the evaluation flow runs, and the table that it shows."""

import sys
from pathlib import Path

from flows.evaluate import EvaluationOrder, evaluation_command, strategy_rows
from warehouse.files.evaluations import StoredRun


def test_an_order_becomes_one_command_whose_values_stay_whole() -> None:
    order = EvaluationOrder(
        questions="my questions.jsonl",
        index="wiki",
        strategies="bm25,qasa:gate=none",
        parameters={"k1": 1.2},
        baseline="bm25",
        fail_below=("recall@5=.65", "bm25:em=.1"),
        min_confidence=0.0,
    )
    command = evaluation_command(order, {"root": "a b"})
    assert command == [
        *(sys.executable, "-m", "polyhop.cli", "eval", "my questions.jsonl", "--json"),
        *("--index", "wiki", "--strategies", "bm25,qasa:gate=none", "--param", "k1=1.2"),
        *("--fail-below", "recall@5=.65", "--fail-below", "bm25:em=.1", "--set", "root=a b"),
        *("--baseline", "bm25", "--min-confidence", "0.0"),
    ]
    plain = evaluation_command(EvaluationOrder("q.jsonl", "wiki", "all"), {})
    assert plain[4:] == ["q.jsonl", "--json", "--index", "wiki", "--strategies", "all"]


def test_the_table_shows_the_best_strategy_first_and_none_where_nothing_was_measured() -> None:
    metrics = dict.fromkeys(("recall@2", "recall@5", "recall@10", "mrr", "em", "f1"), 0.123456)
    results = {
        "low": {**metrics, "answered": {"share": None}, "failures": 0},
        "unjudged": {**dict.fromkeys(metrics), "answered": {"share": 1.0}, "failures": 2},
        "high": {**metrics, "recall@5": 0.5, "answered": {"share": 0.25}, "failures": 1},
    }
    timings = {"strategies": {name: {"latency_ms": {"p50": 1.23456, "p95": None}} for name in results}}
    rows = strategy_rows(StoredRun(1, Path(), {"strategies": list(results), "results": results}, timings))
    assert [row["strategy"] for row in rows] == ["high", "low", "unjudged"]
    assert (rows[0]["answered"], rows[0]["recall@2"], rows[0]["p50 ms"], rows[0]["failures"]) == (
        0.25,
        0.1235,
        1.2346,
        1,
    )
    assert (rows[1]["answered"], rows[1]["p95 ms"], rows[2]["em"]) == (None, None, None)
