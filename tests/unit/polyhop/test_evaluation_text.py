"""Comparisons of stored evaluations in words."""

from typing import Any

import pytest

from polyhop.commands.evaluation_text import print_comparison

CHANGES: dict[str, Any] = {"first": 1, "second": 2, "changed": {}, "only_first": ["bm25"], "only_second": ["dense"]}
CHANGES |= {"questions": {"common": 3, "only_first": 0, "only_second": 0}}
CHANGES |= {"latency_ms": {}, "strategies": {}, "most_changed": []}


def test_evaluations_without_a_common_strategy_are_not_said_to_be_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison(CHANGES)
    printed = capsys.readouterr().out
    assert printed.endswith("  only in 1: bm25\n  only in 2: dense\n  no strategy is in both\n")
    assert "questions are in both" not in printed


def test_how_many_questions_are_in_both_is_told_where_they_differ(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison({**CHANGES, "questions": {"common": 0, "only_first": 100, "only_second": 2}})
    assert "  0 questions are in both, 100 only in 1, 2 only in 2;" in capsys.readouterr().out
