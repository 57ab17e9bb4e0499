"""What a job must keep to be queued, rule by rule, each at its limit."""

from dataclasses import replace
from typing import Any

import pytest

from polyhop.schemas.errors import MAX_QUESTION_CHARACTERS, SubmissionError
from polyhop.schemas.queue import MAX_PRIORITY, JobSpec, NewQuestion, check_deadline, check_submission

SPEC = JobSpec(index="wiki")
QUESTIONS = [NewQuestion("q1", "Who?"), NewQuestion("q2", "Who?")]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limit": 0}, "its limit is 0; at least one passage"),
        ({"max_attempts": 0}, "max_attempts is 0; at least one attempt"),
        ({"priority": MAX_PRIORITY + 1}, "priority 1001 is not within"),
        ({"priority": -MAX_PRIORITY - 1}, "priority -1001 is not within"),
        ({"min_confidence": 1.01}, "min_confidence 1.01 is not within 0 to 1"),
        ({"min_confidence": float("nan")}, "min_confidence nan"),
        ({"deadline_seconds": 0.0}, "deadline is 0.0 s; it must be positive"),
        ({"deadline_seconds": float("inf")}, "deadline is inf s"),
        ({"index": ""}, "must not be ''"),
        ({"strategy": ""}, "must not be ''"),
        ({"queue": ""}, "must not be ''"),
        ({"key": ""}, "must not be ''"),
        ({"queue": "a,b"}, "a comma separates queues"),
        ({"queue": " a"}, "whitespace around it"),
        ({"queue": "a\nb"}, "unprintable characters"),
    ],
)
def test_a_job_that_breaks_a_rule_is_refused_with_that_rule(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SubmissionError, match=words) as refused:
        check_submission(replace(SPEC, **changes), QUESTIONS)
    assert str(refused.value).startswith("The job was not submitted: ")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"limit": 1, "max_attempts": 1, "priority": -MAX_PRIORITY},
        {"priority": MAX_PRIORITY, "min_confidence": 0.0},
        {"min_confidence": 1.0, "deadline_seconds": 1e-9, "key": "k"},
    ],
)
def test_a_job_at_its_limits_is_taken(changes: dict[str, Any]) -> None:
    check_submission(replace(SPEC, **changes), QUESTIONS)


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        ([], "it has no question"),
        ([*QUESTIONS, NewQuestion("", "Who?")], "question 3: its id is empty"),
        ([*QUESTIONS, NewQuestion("q1", "Where?")], "question 3: the id 'q1' is used twice"),
        ([NewQuestion("a", "x" * (MAX_QUESTION_CHARACTERS + 1))], "question 1: it is .* characters long"),
    ],
)
def test_a_question_that_could_not_be_answered_or_told_apart_is_named(questions: list[NewQuestion], words: str) -> None:
    with pytest.raises(SubmissionError, match=words):
        check_submission(SPEC, questions)


def test_the_longest_question_is_taken() -> None:
    check_submission(SPEC, [NewQuestion("a", "x" * MAX_QUESTION_CHARACTERS)])


def test_a_deadline_lies_ahead() -> None:
    check_deadline(None)
    check_deadline(0.5)
    for seconds in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SubmissionError, match="must be positive"):
            check_deadline(seconds)
