"""What changed between two stored evaluations."""

from typing import Any

import pytest

from polyhop.tasks.evaluation.report import CHANGED_QUESTIONS, METRICS, compare_runs


def run_of(results: dict[str, float], **changes: Any) -> dict[str, Any]:
    """run.json in which every metric of a strategy has one value."""
    return {
        "polyhop": "0.1.0",
        "index": "wiki",
        "version": 1,
        "reader": "rules",
        "depth": 100,
        "seed": 13,
        "questions": {"file": "q.jsonl", "sha256": "aa", "n": 2},
        "parameters": {},
        "settings": {"reader.min_confidence": 0.06},
        "strategies": list(results),
        "results": {name: dict.fromkeys(METRICS, value) for name, value in results.items()},
        **changes,
    }


def row_of(strategy: str, question: str, value: float | None, answer: str = "x") -> dict[str, Any]:
    """A line of questions.jsonl in which every metric has one value."""
    values = dict.fromkeys(METRICS, value)
    return {"id": question, "question": f"{question}?", "strategy": strategy, "answer": answer, **values}


def test_equal_runs_have_changed_in_nothing() -> None:
    run, rows = run_of({"a": 0.5}), [row_of("a", "q1", 0.0), row_of("a", "q2", 1.0)]
    changes = compare_runs(run, run, (rows, rows))
    assert (changes["changed"], changes["most_changed"], changes["only_first"]) == ({}, [], [])
    assert changes["strategies"]["a"]["em"]["difference"] == 0
    assert changes["strategies"]["a"]["em"]["paired"]["ties"] == 2


def test_what_was_run_differently_is_named_with_both_values() -> None:
    other = run_of({"a": 0.5, "c": 0.1}, version=2, parameters={"k": "3"}, settings={"reader.min_confidence": 0.3})
    changes = compare_runs(run_of({"b": 0.5, "a": 0.5}), other, ([], []))
    assert changes["changed"] == {
        "version": [1, 2],
        "settings.reader.min_confidence": [0.06, 0.3],
        "parameters.k": [None, "3"],
    }
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


def test_a_question_that_was_reworded_is_another_question() -> None:
    before, after = [row_of("a", "q1", 0.0)], [{**row_of("a", "q1", 1.0), "question": "Other words?"}]
    changes = compare_runs(run_of({"a": 0.0}), run_of({"a": 1.0}), (before, after))
    assert changes["questions"] == {"common": 0, "only_first": 1, "only_second": 1}
    assert changes["strategies"]["a"]["em"]["paired"] is None
    assert changes["most_changed"] == []


def test_values_that_could_not_be_measured_make_no_difference() -> None:
    first, second = run_of({"a": 0.5}), run_of({"a": 0.5})
    first["results"]["a"]["em"] = None
    changes = compare_runs(first, second, ([row_of("a", "q", None)], [row_of("a", "q", 1.0)]))
    assert changes["strategies"]["a"]["em"]["difference"] is None
    assert changes["strategies"]["a"]["em"]["paired"] is None
    assert changes["strategies"]["a"]["f1"]["difference"] == pytest.approx(0)


def test_only_the_questions_that_changed_most_are_shown() -> None:
    count = CHANGED_QUESTIONS + 5
    before = [row_of("a", f"q{n:02d}", 0.0) for n in range(count)]
    after = [row_of("a", f"q{n:02d}", (n + 1) / count) for n in range(count)]
    changes = compare_runs(run_of({"a": 0.0}), run_of({"a": 0.5}), (before, after))
    assert [row["id"] for row in changes["most_changed"]] == [f"q{n:02d}" for n in range(count - 1, 4, -1)]
