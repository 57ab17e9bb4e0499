"""Comparisons of stored evaluations in words."""

from typing import Any

import pytest

from polyhop.commands.evaluate import print_comparison, print_stored

CHANGES: dict[str, Any] = {"first": 1, "second": 2, "changed": {}, "only_first": ["bm25"], "only_second": ["dense"]}
CHANGES |= {"questions": {"common": 3, "only_first": 0, "only_second": 0}}
CHANGES |= {"latency_ms": {}, "strategies": {}, "most_changed": []}


def test_evaluations_without_a_common_strategy_are_not_said_to_be_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison(CHANGES)
    printed = capsys.readouterr().out
    assert printed.endswith("  only in 1: bm25\n  only in 2: dense\n  no strategy is in both\n")
    assert "in both: " not in printed


def test_how_many_questions_are_in_both_is_told_where_they_differ(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison({**CHANGES, "questions": {"common": 0, "only_first": 100, "only_second": 2}})
    assert "  in both: 0 questions; 100 only in 1, 2 only in 2;" in capsys.readouterr().out


def test_a_stored_evaluation_that_cannot_be_read_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    readable = {"run": 2, "started": "2026-11-21T10:00:00+00:00", "index": "mine", "version": 1, "questions": "q.jsonl"}
    found = {"n": 3, "strategies": {"bm25": {"recall@5": 0.5, "em": None}}}
    print_stored([{"run": 1, "error": "run.json cannot be read: it is cut off"}, {**readable, **found}])
    printed = capsys.readouterr()
    assert "mine" in printed.out
    assert "evaluation 1 is left out: run.json cannot be read: it is cut off" in printed.err
