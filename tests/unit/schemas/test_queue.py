"""Types of the queue, what they refuse, and submissions."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas import queue
from polyhop.schemas.errors import MAX_QUESTION_CHARACTERS, ContractError, SubmissionError

SPEC = queue.JobSpec("wiki", parameters={"a": 1, "b": 2})
QUESTIONS = [queue.NewQuestion("1", "Who?"), queue.NewQuestion("2", "Why?", "Topic", ("yes",), ("p",), {"hops": 2})]


def test_the_hash_of_a_submission_forgets_how_it_is_scheduled_and_in_which_order_parameters_stand() -> None:
    same = replace(SPEC, name="n", priority=9, deadline_seconds=5, key="k", max_attempts=1, parameters={"b": 2, "a": 1})
    assert queue.submission_hash(same, list(QUESTIONS)) == queue.submission_hash(SPEC, QUESTIONS)


def test_the_hash_of_a_submission_changes_with_how_it_is_answered_with_each_question_and_their_order() -> None:
    answered = {"queue": "x", "index": "x", "strategy": "x", "limit": 3, "parameters": {}, "min_confidence": 0.0}
    asked = {"id": "x", "question": "x", "topic": "x", "answers": ("x",), "supporting": (), "metadata": {}}
    hashes = {queue.submission_hash(SPEC, QUESTIONS), queue.submission_hash(SPEC, QUESTIONS[::-1])}
    hashes |= {queue.submission_hash(replace(SPEC, **{name: value}), QUESTIONS) for name, value in answered.items()}  # type: ignore[arg-type]
    for name, value in asked.items():
        hashes.add(queue.submission_hash(SPEC, [QUESTIONS[0], replace(QUESTIONS[1], **{name: value})]))  # type: ignore[arg-type]
    assert len(hashes) == 2 + len(answered) + len(asked)


@given(st.text(st.characters(exclude_categories=[])))
def test_storable_text_can_be_encoded_and_keeps_all_that_could_be_stored(text: str) -> None:
    stored = queue.storable(text)
    stored.encode("utf-8")
    assert "\x00" not in stored
    assert queue.storable(stored) == stored
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return
    assert stored == text.replace("\x00", "\ufffd")


def test_json_is_compact_sorted_and_ascii() -> None:
    assert queue.to_json({"b": "ü\x00", "a": (1, None)}) == '{"a":[1,null],"b":"\\u00fc\\u0000"}'
    assert json.loads(queue.to_json("\ud800")) == "\ud800"


@pytest.mark.parametrize("value", [float("inf"), {1, 2}, b"x", object()])
def test_what_json_has_no_word_for_is_refused(value: object) -> None:
    with pytest.raises(ContractError, match="Cannot store a value"):
        queue.to_json({"value": value})


TIMES = st.floats(0, 1e6)
PRIORITIES = st.integers(-9, 9)


@given(st.tuples(TIMES, PRIORITIES), st.tuples(TIMES, PRIORITIES), st.floats(1, 3600), TIMES)
def test_the_effective_time_orders_like_priority_plus_waiting_at_any_moment(
    one: tuple[float, int], other: tuple[float, int], ageing: float, later: float
) -> None:
    now = max(one[0], other[0]) + later
    first, second = (priority + (now - submitted) / ageing for submitted, priority in (one, other))
    if abs(first - second) > 1e-6:
        assert (queue.effective_time(*one, ageing) < queue.effective_time(*other, ageing)) == (first > second)


@given(st.integers(1, 10_000), st.text())
def test_the_backoff_doubles_to_its_limit_and_spreads_the_same_way_every_time(attempt: int, salt: str) -> None:
    longest = min(300.0, 2.0 ** min(attempt - 1, 10))
    pause = queue.backoff_seconds(attempt, salt)
    assert longest / 2 <= pause <= longest
    assert queue.backoff_seconds(attempt, salt) == pause
    pauses = [queue.backoff_seconds(5, str(number)) for number in range(1000)]
    assert len(set(pauses)) > 990
    assert 11.5 < sum(pauses) / len(pauses) < 12.5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limit": 0}, "its limit is 0; at least one passage"),
        ({"max_attempts": 0}, "max_attempts is 0; at least one attempt"),
        ({"priority": queue.MAX_PRIORITY + 1}, "priority 1001 is not within"),
        ({"priority": -queue.MAX_PRIORITY - 1}, "priority -1001 is not within"),
        ({"min_confidence": 1.01}, "min_confidence 1.01 is not within 0 to 1"),
        ({"min_confidence": float("nan")}, "min_confidence nan"),
        ({"deadline_seconds": 0.0}, "deadline is 0.0 s; it must be positive"),
        ({"deadline_seconds": float("inf")}, "deadline is inf s"),
        *(({name: ""}, "must not be ''") for name in ("index", "strategy", "queue", "key")),
        ({"queue": "a,b"}, "a comma separates queues"),
        ({"queue": " a"}, "whitespace around it"),
        ({"queue": "a\nb"}, "unprintable characters"),
    ],
)
def test_a_job_that_breaks_a_rule_is_refused_with_that_rule(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SubmissionError, match=words) as refused:
        queue.check_submission(replace(SPEC, **changes), QUESTIONS)
    assert str(refused.value).startswith("The job was not submitted: ")


@pytest.mark.parametrize(
    "changes",
    [
        {"limit": 1, "max_attempts": 1, "priority": -queue.MAX_PRIORITY, "min_confidence": 1.0},
        {"priority": queue.MAX_PRIORITY, "min_confidence": 0.0, "deadline_seconds": 1e-9, "key": "k"},
    ],
)
def test_a_job_at_its_limits_is_taken(changes: dict[str, Any]) -> None:
    longest = queue.NewQuestion("a", "x" * MAX_QUESTION_CHARACTERS)
    queue.check_submission(replace(SPEC, **changes), [*QUESTIONS, longest])


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        ([], "it has no question"),
        ([*QUESTIONS, queue.NewQuestion("", "Who?")], "question 3: its id is empty"),
        ([*QUESTIONS, queue.NewQuestion("1", "Where?")], "question 3: the id '1' is used twice"),
        ([queue.NewQuestion("a", "x" * (MAX_QUESTION_CHARACTERS + 1))], "question 1: it is .* characters long"),
    ],
)
def test_a_question_that_cannot_be_asked_is_named(questions: list[queue.NewQuestion], words: str) -> None:
    with pytest.raises(SubmissionError, match=words):
        queue.check_submission(SPEC, questions)


def test_a_deadline_lies_ahead() -> None:
    queue.check_deadline(None)
    queue.check_deadline(0.5)
    for seconds in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SubmissionError, match="must be positive"):
            queue.check_deadline(seconds)
