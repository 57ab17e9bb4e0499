"""The table that the evaluation flow shows."""

from pathlib import Path

from polyhop.flows.evaluate import strategy_rows
from polyhop.warehouse.files.evaluations import StoredRun


def test_the_table_shows_the_best_strategy_first_and_none_where_nothing_was_measured() -> None:
    metrics = dict.fromkeys(("recall@2", "recall@5", "recall@10", "mrr", "em", "f1"), 0.123456)
    results = {
        "low": {**metrics, "shown": {"share": None}, "failures": 0},
        "unjudged": {**dict.fromkeys(metrics), "shown": {"share": 1.0}, "failures": 2},
        "high": {**metrics, "recall@5": 0.5, "shown": {"share": 0.25}, "failures": 1},
    }
    timings = {"strategies": {name: {"latency_ms": {"p50": 1.23456, "p95": None}} for name in results}}
    rows = strategy_rows(StoredRun(1, Path(), {"strategies": list(results), "results": results}, timings))
    assert [row["strategy"] for row in rows] == ["high", "low", "unjudged"]
    assert (rows[0]["shown"], rows[0]["recall@2"], rows[0]["p50 ms"], rows[0]["failures"]) == (
        0.25,
        0.1235,
        1.2346,
        1,
    )
    assert (rows[1]["shown"], rows[1]["p95 ms"], rows[2]["em"]) == (None, None, None)
