"""Questions in the queue: submitted, claimed, answered or failed, retried, forgotten; on each database."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule
from queue_parts import SPEC, Clock, failed, finished, only_second_tries, questions, result_of, states

from polyhop.schemas import errors
from polyhop.schemas import queue as schema
from polyhop.schemas.errors import SubmissionError, UnknownJobError
from polyhop.schemas.queue import DEATHS_PER_ATTEMPT, ClaimedQuestion, NewQuestion, QuestionState
from polyhop.warehouse.queue import queue as queues
from polyhop.warehouse.queue.queue import QuestionQueue, open_queue
from polyhop.warehouse.queue.schema import sqlite_url

DAY = 86_400.0
ONCE = replace(SPEC, max_attempts=1)
REFUSED_JOBS: list[tuple[dict[str, Any], str]] = [
    ({"limit": 0}, "limit is 0"),
    ({"max_attempts": 0}, "max_attempts is 0"),
    ({"priority": 1001}, "priority 1001"),
    ({"deadline_seconds": float("nan")}, "deadline is nan s"),
    ({"min_confidence": 1.5}, "min_confidence 1.5 is not within 0 to 1"),
    ({"min_confidence": float("nan")}, "min_confidence nan"),
    ({"index": ""}, "must not be ''"),
    ({"queue": "a,b"}, "queue is called 'a,b': a comma separates queues in `polyhop worker --queues`"),
    ({"queue": " a"}, "queue is called ' a': whitespace around it"),
    ({"queue": "a\nb"}, "unprintable characters are not served"),
]
FITS = NewQuestion("fits", "x" * 10_000)
REFUSED_QUESTIONS = [
    ([FITS, NewQuestion("long", "x" * 300_000)], "question 2: it is 300,000 characters long; the limit is 10,000"),
    ([NewQuestion(each, "Why?") for each in "aba"], "question 3: the id 'a' is used twice"),
    ([NewQuestion("", "Why?")], "question 1: its id is empty"),
    ([], "no question"),
]
LEASE_SECONDS = 10.0
MOST_CLAIMS = 2 * (DEATHS_PER_ATTEMPT + 1)  # of two attempts; a lease that ran out takes none
QUEUES, DEADLINES = ("a", "b"), st.sampled_from([None, 25.0])
Key = tuple[int, str]
"""Job and question."""
Lease = tuple[int, str, str]
"""Job, question, token."""
SUPPRESSED = list(HealthCheck)


def ids(claimed: Sequence[ClaimedQuestion]) -> list[str]:
    return [question.question_id for question in claimed]


def test_a_submitted_question_comes_back_with_all_that_was_said_about_it(queue: QuestionQueue, clock: Clock) -> None:
    said: Any = ("Who?", "Topic", ("Ann", "Änn"), ("p1",), {"hops": 2})
    job_id = queue.submit(replace(SPEC, parameters={"damping": 0.5}), [NewQuestion("a", *said)])
    row: Any = (job_id, "a", 0, *said, QuestionState.QUEUED, 0, *[None] * 8, {})
    assert [*queue.results(job_id)] == [schema.ResultRow(*row)]
    job = queue.job(job_id)
    assert (job.index, job.parameters, job.question_count, job.submitted_at) == ("wiki", {"damping": 0.5}, 1, clock.now)


def test_the_same_key_again_adds_nothing_and_for_something_else_it_is_refused_by_name(queue: QuestionQueue) -> None:
    spec = replace(SPEC, key="monday")
    first = queue.submit(spec, questions(3))
    assert queue.submit(replace(spec, name="other name", priority=5), questions(3)) == first
    for other, asked in ((spec, questions(4)), (replace(spec, strategy="bm25"), questions(3))):
        with pytest.raises(errors.IdempotencyKeyError, match="'monday' already belongs to job 1"):
            queue.submit(other, asked)
    assert [job.question_count for job in queue.jobs()] == [3]


def test_a_key_never_meets_that_of_a_job_without_key(queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = UUID(int=1)
    monkeypatch.setattr(queues, "uuid4", lambda: hidden)
    specs = [replace(SPEC, key=hidden.hex), replace(SPEC, key=f"once:{hidden.hex}"), SPEC]
    assert [queue.submit(spec, questions(1)) for spec in specs] == [1, 2, 3]
    assert [[job.job_id for job in queue.jobs(limit=limit)] for limit in (1, 9)] == [[3], [3, 2, 1]]


def test_a_full_queue_refuses_the_whole_job(open_one: Callable[..., QuestionQueue], clock: Clock) -> None:
    queue = open_one(max_depth=5, clock=clock)
    queue.submit(SPEC, questions(3))
    with pytest.raises(errors.QueueFullError, match="holds 3 waiting questions; 3 more would exceed its limit of 5"):
        queue.submit(SPEC, questions(3))
    queue.submit(replace(SPEC, queue="other"), questions(3))
    assert queue.count_open(["default"]) == 3
    queue.claim(["default"], "w", 1)
    queue.submit(SPEC, questions(3))
    assert queue.count_open(["default"]) == 6


def test_what_could_never_be_answered_is_refused(queue: QuestionQueue) -> None:
    for changes, words in REFUSED_JOBS:
        with pytest.raises(SubmissionError, match=words):
            queue.submit(replace(SPEC, **changes), questions(1))
    for asked, words in REFUSED_QUESTIONS:
        with pytest.raises(SubmissionError, match=words):
            queue.submit(SPEC, asked)
    with pytest.raises(errors.ContractError, match="JSON"):
        queue.submit(SPEC, [NewQuestion("a", "Why?", metadata={"x": float("nan")})])
    assert queue.jobs() == []
    assert queue.submit(SPEC, [FITS]) == 1


def test_texts_that_databases_refuse_are_stored_with_a_replacement_sign(queue: QuestionQueue) -> None:
    job_id = queue.submit(SPEC, [NewQuestion("a\x00", "W\x00hy\ud800? 😀 %s :x", topic="\x00", answers=("\x00",))])
    row = next(queue.results(job_id))
    assert (row.question_id, row.question, row.topic) == ("a\ufffd", "W\ufffdhy\ufffd? 😀 %s :x", "\ufffd")
    assert row.answers == ("\x00",)
    assert queue.claim(["default"], "w")[0].question == row.question


def test_results_keep_the_submitted_order_over_many_pages(queue: QuestionQueue) -> None:
    job_id = queue.submit(SPEC, questions(1_203))
    queue.submit(SPEC, questions(5, "other"))
    assert [(row.question_id, row.ordinal) for row in queue.results(job_id)] == [(f"q{n}", n) for n in range(1_203)]


def test_a_page_of_results_begins_after_a_place_and_keeps_to_states_and_words(queue: QuestionQueue) -> None:
    texts = ("Plain", "A 5% share", "A 5_ share", "A 5~ share", "ÖSTERREICH", "plain again")
    job_id = queue.submit(SPEC, [NewQuestion(str(n), text) for n, text in enumerate(texts)])
    queue.submit(SPEC, questions(5, "other"))
    queue.finish([finished(queue.claim(["default"], "w", 1)[0], "Vienna")])

    def found(*arguments: Any, **options: Any) -> str:
        return "".join(row.question_id for row in queue.results_page(job_id, *arguments, **options))

    assert [found(), found(2, limit=2), found(states=[QuestionState.DONE])] == ["012345", "23", "0"]
    words = {"5%": "1", "5_": "2", "5~": "3", "PLAIN": "05", "ÖST": "4", "vien": "0", "x": ""}
    assert {each: found(words=each) for each in words} == words


def test_unknown_jobs_and_questions(queue: QuestionQueue) -> None:
    for action in (queue.job, queue.results, queue.results_page, queue.cancel, queue.retry):
        with pytest.raises(UnknownJobError, match="no job 9 "):
            action(9)
    with pytest.raises(UnknownJobError, match="no job 9 "):
        queue.retry(9, ["q0"])
    job_id = queue.submit(SPEC, questions(1))
    assert queue.result(job_id, "nobody") is queue.result(9, "q0") is None


def test_a_claim_says_how_to_answer(queue: QuestionQueue, clock: Clock) -> None:
    spec = replace(SPEC, strategy="bm25", parameters={"k1": 1.2}, limit=5, deadline_seconds=100, max_attempts=2)
    spec = replace(spec, min_confidence=0.3, where="id = 'a'")
    jobs = queue.submit(spec, [NewQuestion("q0", "Why?", "rivers")]), queue.submit(SPEC, questions(1))
    claimed, other = queue.claim(["default"], "w", lease_seconds=30)
    until = (claimed.lease_token, clock.now + 30, clock.now + 100)
    how: Any = ("rivers", "default", "wiki", "bm25", {"k1": 1.2}, 5, 1, 2, *until, 0.3, "id = 'a'")
    assert claimed == ClaimedQuestion(jobs[0], "q0", 0, "Why?", *how)
    assert other.min_confidence is None
    assert [queue.job(each).min_confidence for each in jobs] == [0.3, None]


def test_only_the_named_queues_are_claimed_and_merged_by_priority_and_order(queue: QuestionQueue) -> None:
    for name, priority in (("slow", -5), ("slow", 0), ("fast", 1), ("other", 9), ("slow", 2)):
        queue.submit(replace(SPEC, queue=name, priority=priority), questions(2, f"{name} {priority}/"))
    assert queue.claim([], "w") == []
    expected = [f"{each}/{n}" for each in ("slow 2", "fast 1", "slow 0", "slow -5") for n in (0, 1)]
    assert ids(queue.claim(["slow", "fast", "slow"], "w", 7)) == expected[:7]
    assert (queue.count_open(["slow", "fast"]), queue.count_open(["other"]), queue.count_open([])) == (8, 2, 0)
    assert ids(queue.claim(["slow", "fast"], "v", 7)) == expected[7:]


def test_the_ageing_time_is_worth_one_priority_level(open_one: Callable[..., QuestionQueue], clock: Clock) -> None:
    queue = open_one(ageing_seconds=10, clock=clock)
    queue.submit(SPEC, questions(1, "old"))
    clock.advance(19)
    queue.submit(replace(SPEC, priority=2), questions(1, "new"))
    assert ids(queue.claim(["default"], "w", 1)) == ["new0"]
    clock.advance(2)
    queue.submit(replace(SPEC, priority=2), questions(1, "newer"))
    assert ids(queue.claim(["default"], "w", 2)) == ["old0", "newer0"]


def test_a_lease_that_ran_out_is_claimed_again_and_its_holder_refused(queue: QuestionQueue, clock: Clock) -> None:
    job_id = queue.submit(SPEC, questions(1))
    (late,) = queue.claim(["default"], "late", lease_seconds=30)
    clock.advance(29)
    assert queue.claim(["default"], "w") == []
    clock.advance(2)
    (claimed,) = queue.claim(["default"], "w")
    assert (claimed.attempt, claimed.lease_token != late.lease_token) == (2, True)
    assert queue.heartbeat("late", [late.lease_token]) == [late.lease_token]
    assert queue.finish([finished(late, "late")]) == set()
    assert queue.fail([failed(late)]) == set()
    assert queue.release([late.lease_token]) == set()
    queue.fail([failed(claimed, delay_seconds=0)])
    assert result_of(queue, job_id, "q0").error == "the model is away"
    (claimed,) = queue.claim(["default"], "w")
    assert queue.finish([finished(claimed, "good")]) == {claimed.lease_token}
    assert queue.finish([finished(late, "late")]) == queue.finish([finished(claimed, "second")]) == set()
    row = result_of(queue, job_id, "q0")
    assert (row.answer, row.worker_id, row.attempts, row.error) == ("good", "w", 3, None)


def test_heartbeats_keep_a_lease(queue: QuestionQueue, clock: Clock) -> None:
    queue.submit(SPEC, questions(2))
    first, second = queue.claim(["default"], "w", lease_seconds=30)
    for _ in range(5):
        clock.advance(20)
        assert queue.heartbeat("w", [first.lease_token], lease_seconds=30) == []
    assert ids(queue.claim(["default"], "v")) == [second.question_id]
    assert queue.heartbeat("w", [second.lease_token, first.lease_token]) == [second.lease_token]


def test_a_question_whose_workers_die_ends_among_the_dead(queue: QuestionQueue, clock: Clock) -> None:
    job_id = queue.submit(replace(SPEC, max_attempts=2), questions(1))
    told = []
    for _ in range(2 * DEATHS_PER_ATTEMPT):
        assert len(queue.claim(["default"], "w", lease_seconds=5)) == 1
        clock.advance(6)
        assert queue.claim(["other"], "v") == []
        told.append(result_of(queue, job_id, "q0").error)
    assert told == ["worker died 1 time", *(f"worker died {count} times" for count in range(2, 11))]
    assert queue.claim(["default"], "w") == []
    row = result_of(queue, job_id, "q0")
    assert (row.state, row.error_class, row.attempts, row.finished_at) == ("dead", "WorkerDied", 10, clock.now)


def test_a_repeated_claim_gives_what_the_first_leased(queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database had said yes, and the connection broke before the worker heard it."""
    queue.submit(SPEC, questions(3))
    claims = iter(["c1", "c2", "c1"])
    monkeypatch.setattr(queues, "uuid4", lambda: SimpleNamespace(hex=next(claims)))
    (first,) = queue.claim(["default"], "w", 1)
    (other,) = queue.claim(["default"], "w", 1)
    only_second_tries(queue, monkeypatch)
    (again,) = queue.claim(["default"], "w", 1)
    assert (again.question_id, again.attempt, again.lease_token) == (first.question_id, 1, first.lease_token)
    assert other.question_id == "q1"
    assert queue.heartbeat("w", [again.lease_token, other.lease_token]) == []


def test_a_question_that_kills_workers_takes_no_neighbours_with_it(queue: QuestionQueue, clock: Clock) -> None:
    job_id = queue.submit(SPEC, questions(5))
    sizes = []
    while batch := queue.claim(["default"], "w", 3, lease_seconds=5):
        if "q1" in ids(batch):
            sizes.append(len(batch))
            clock.advance(6)
        else:
            queue.finish([finished(question) for question in batch])
    assert len(sizes) == 3 * DEATHS_PER_ATTEMPT
    assert [size == 1 for size in sizes] == [number >= schema.SUSPECT_AFTER_DEATHS for number in range(len(sizes))]
    assert states(queue, job_id) == ["done", "dead", "done", "done", "done"]


@pytest.mark.parametrize(("deaths", "most", "state"), [(DEATHS_PER_ATTEMPT - 1, 1, "dead"), (1, 2, "queued")])
def test_a_death_is_no_failed_attempt(queue: QuestionQueue, clock: Clock, deaths: int, most: int, state: str) -> None:
    job_id = queue.submit(replace(SPEC, max_attempts=most), questions(1))
    for _ in range(deaths):
        queue.claim(["default"], "w", lease_seconds=5)
        clock.advance(6)
    (last,) = queue.claim(["default"], "w")
    queue.fail([failed(last, delay_seconds=0)])
    assert states(queue, job_id) == [state]


def test_waiting_questions_die_at_the_deadline_and_leased_ones_may_finish(queue: QuestionQueue, clock: Clock) -> None:
    job_id = queue.submit(replace(SPEC, deadline_seconds=60), questions(3))
    queue.submit(SPEC, questions(1, "free"))
    kept, failing = queue.claim(["default"], "w", 2, lease_seconds=600)
    clock.advance(61)
    queue.sweep()
    assert states(queue, job_id) == ["leased", "leased", "dead"]
    assert queue.finish([finished(kept)]) == {kept.lease_token}
    queue.fail([failed(failing, delay_seconds=0)])
    assert ids(queue.claim(["default"], "w")) == ["free0"]
    assert states(queue, job_id) == ["done", "dead", "dead"]
    (error,) = queue.job(job_id).errors
    assert (error.error_class, error.count, error.example) == ("DeadlinePassed", 2, "deadline passed")


def test_a_deadline_lease_or_pause_ends_at_its_very_moment(queue: QuestionQueue, clock: Clock) -> None:
    """Each ends at the time that it names, not after it: whole seconds on a test's clock are exact."""
    job_id = queue.submit(replace(SPEC, deadline_seconds=60), questions(1))
    free = queue.submit(SPEC, questions(2, "free"))
    first, _ = queue.claim(["default"], "w", 3, lease_seconds=30)[1:]
    clock.advance(30)
    assert ids(queue.claim(["default"], "v", 1, lease_seconds=600)) == ["q0"]
    assert queue.finish([finished(first)]) == set()
    (again,) = queue.claim(["default"], "v", 1, lease_seconds=600)
    queue.fail([failed(again, delay_seconds=20)])
    clock.advance(19)
    assert "free0" not in ids(queue.claim(["default"], "v", 9, lease_seconds=600))
    clock.advance(1)
    assert ids(queue.claim(["default"], "v", 9, lease_seconds=600)) == ["free0"]
    late = queue.submit(replace(SPEC, deadline_seconds=60), questions(1))
    clock.advance(59)
    queue.sweep()
    assert states(queue, late) == ["queued"]
    clock.advance(1)
    assert queue.claim(["default"], "v") == []
    assert [states(queue, each) for each in (late, job_id, free)] == [["dead"], ["leased"], ["leased", "leased"]]


def test_released_questions_are_as_if_never_claimed_now_or_after_a_wait(queue: QuestionQueue, clock: Clock) -> None:
    job_id = queue.submit(ONCE, questions(2))
    for waking in (lambda: clock.advance(86_400), lambda: queue.wake(["other", "default"])):
        queue.release([question.lease_token for question in queue.claim(["default"], "w")], "waits for a reply")
        assert queue.claim(["default"], "w") == []
        assert queue.count_put_off(["default", "other"]) == queue.count_open(["default"]) == 2
        waking()
    held = queue.claim(["default"], "w")
    tokens = [question.lease_token for question in held]
    assert queue.release([*tokens, "1.forged", "nonsense", "9" * 40 + ".x"]) == set(tokens)
    assert [row.attempts for row in queue.results(job_id)] == [0, 0]
    assert [(q.question_id, q.attempt) for q in queue.claim(["default"], "w")] == [("q0", 1), ("q1", 1)]
    assert queue.finish([finished(question) for question in held]) == set()


def test_a_result_keeps_the_whole_answer(queue: QuestionQueue, clock: Clock) -> None:
    job_id = queue.submit(SPEC, questions(2))
    first, _ = queue.claim(["default"], "w")
    clock.advance(3)
    answer = replace(finished(first, "A\x00nn ü"), result={"passages": [{"id": "p", "score": 0.5}], "x": "\x00é"})
    assert queue.finish([answer]) == {first.lease_token}
    done, leased = queue.results(job_id)
    assert (done.state, done.answer, done.version, done.strategy) == (QuestionState.DONE, "A\ufffdnn ü", 7, "bridge")
    assert (done.worker_id, done.seconds, done.finished_at, done.result) == ("w", 0.25, clock.now, answer.result)
    assert (leased.state, leased.answer, leased.result, leased.worker_id) == (QuestionState.LEASED, None, {}, "w")
    assert (list(queue.results(job_id, [QuestionState.DONE])), list(queue.results(job_id, []))) == ([done], [])
    assert [*queue.results(job_id, [QuestionState.DONE], with_evidence=False)] == [replace(done, result={})]


def test_a_batch_is_accepted_without_lost_leases_and_refused_if_it_is_not_json(queue: QuestionQueue) -> None:
    job_id = queue.submit(SPEC, questions(3))
    held = queue.claim(["default"], "w")
    with pytest.raises(errors.ContractError, match="JSON"):
        queue.finish([finished(held[0]), replace(finished(held[1]), result={"score": float("nan")})])
    assert states(queue, job_id) == ["leased", "leased", "leased"]
    queue.release([held[1].lease_token])
    assert queue.finish([finished(question) for question in held]) == {held[0].lease_token, held[2].lease_token}
    assert states(queue, job_id) == ["done", "queued", "done"]
    assert queue.finish([]) == queue.fail([]) == queue.release([]) == set()


def test_a_passing_error_waits_longer_each_time_and_ends_among_the_dead(queue: QuestionQueue, clock: Clock) -> None:
    job_id = queue.submit(replace(SPEC, max_attempts=3), questions(1))
    for longest in (1.0, 2.0):
        (claimed,) = queue.claim(["default"], "w")
        assert queue.fail([failed(claimed)]) == {claimed.lease_token}
        clock.advance(longest / 2 - 0.01)
        assert queue.claim(["default"], "w") == []
        clock.advance(longest / 2 + 0.02)
    (claimed,) = queue.claim(["default"], "w")
    queue.fail([failed(claimed, error="away\x00")])
    row = result_of(queue, job_id, "q0")
    assert (row.state, row.attempts, row.error, row.finished_at) == (QuestionState.DEAD, 3, "away\ufffd", clock.now)
    assert row.error_class == "ModelUnavailableError"


def test_a_permanent_error_ends_a_question_at_once(queue: QuestionQueue) -> None:
    job_id = queue.submit(SPEC, questions(3))
    failures = [failed(q, error=f"no {q.question_id}", retryable=False) for q in queue.claim(["default"], "w")]
    queue.fail([replace(failures[0], error_class="UnknownIndexError"), *failures[1:]])
    assert states(queue, job_id) == ["dead", "dead", "dead"]
    errors = schema.ErrorCount("ModelUnavailableError", 2, "no q1"), schema.ErrorCount("UnknownIndexError", 1, "no q0")
    assert queue.job(job_id).errors == errors


def test_a_cancelled_job_is_never_claimed_and_its_workers_lose_their_leases(queue: QuestionQueue) -> None:
    job_id = queue.submit(SPEC, questions(3))
    done, held = queue.claim(["default"], "w", 2)
    queue.finish([finished(done)])
    assert [queue.cancel(job_id), queue.cancel(job_id)] == [2, 0]
    assert queue.claim(["default"], "w") == []
    assert queue.heartbeat("w", [held.lease_token]) == [held.lease_token]
    assert queue.finish([finished(held)]) == set()
    assert states(queue, job_id) == ["done", "cancelled", "cancelled"]
    assert not queue.job(job_id).is_open


def test_a_retried_job_gives_dead_and_cancelled_questions_new_attempts(queue: QuestionQueue, clock: Clock) -> None:
    job_id = queue.submit(replace(ONCE, deadline_seconds=60), questions(3))
    done, dead = queue.claim(["default"], "w", 2)
    queue.finish([finished(done)])
    queue.fail([failed(dead)])
    queue.cancel(job_id)
    clock.advance(600)
    assert queue.retry(job_id) == 2
    job = queue.job(job_id)
    assert (job.deadline, job.errors, states(queue, job_id)) == (clock.now + 60, (), ["done", "queued", "queued"])
    assert [(q.question_id, q.attempt) for q in queue.claim(["default"], "w")] == [("q1", 1), ("q2", 1)]
    assert queue.retry(job_id) == 0


def test_only_the_named_questions_are_asked_again_and_good_answers_never(queue: QuestionQueue) -> None:
    job_id = queue.submit(ONCE, questions(4))
    done, dead, gone, _ = queue.claim(["default"], "w")
    queue.finish([finished(done)])
    queue.fail([failed(dead), failed(gone)])
    for name, reason in (("q0", "it has an answer"), ("q3", "it is leased"), ("q9", "it does not exist")):
        with pytest.raises(errors.RetryRefusedError, match=f"Question '{name}' of job 1 cannot be retried: {reason}"):
            queue.retry(job_id, ["q1", name])
    assert queue.retry(job_id, ["q1"]) == 1
    assert states(queue, job_id) == ["done", "queued", "dead", "leased"]


def test_a_retry_may_bring_a_deadline_of_its_own(queue: QuestionQueue, clock: Clock) -> None:
    job_id = queue.submit(replace(SPEC, deadline_seconds=5), questions(1))
    clock.advance(5)
    queue.sweep()
    assert queue.retry(job_id, deadline_seconds=600) == 1
    clock.advance(599)
    (claimed,) = queue.claim(["default"], "w")
    assert (claimed.deadline, queue.job(job_id).deadline_seconds) == (clock.now + 1, 600)
    for refused in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SubmissionError, match="must be positive"):
            queue.retry(job_id, deadline_seconds=refused)


def test_a_job_shows_its_counts_and_its_longest_wait(queue: QuestionQueue, clock: Clock) -> None:
    job_id = queue.submit(replace(SPEC, name="night", queue="slow", priority=3), questions(4))
    assert queue.job(job_id).oldest_wait_seconds == 0.0
    clock.advance(30)
    first, second, _ = queue.claim(["slow"], "w", 3)
    queue.finish([finished(first)])
    queue.fail([failed(second, retryable=False)])
    (job,) = queue.jobs()
    assert job == queue.job(job_id)
    assert (job.name, job.queue, job.priority, job.limit, job.max_attempts) == ("night", "slow", 3, 10, 3)
    once = dict.fromkeys(["queued", "leased", "done", "dead"], 1)
    assert {state.value: count for state, count in job.counts.items()} == {**once, "cancelled": 0}
    assert (job.open_count, job.is_open, job.oldest_wait_seconds) == (2, True, 30.0)
    queue.claim(["slow"], "w")
    assert queue.job(job_id).oldest_wait_seconds is None


def test_metrics_count_by_queue_and_state(queue: QuestionQueue, clock: Clock) -> None:
    assert queue.metrics() == schema.QueueMetrics({}, {}, 0)
    queue.submit(SPEC, questions(2))
    clock.advance(5)
    queue.submit(SPEC, questions(2))
    queue.submit(replace(SPEC, queue="other"), questions(1))
    queue.claim(["other"], "w")
    queue.report_worker("w", host="h", process_id=1, queues=["other"], versions={})
    none = dict.fromkeys(QuestionState, 0)
    counts = {"default": none | {QuestionState.QUEUED: 4}, "other": none | {QuestionState.LEASED: 1}}
    assert queue.metrics() == schema.QueueMetrics(counts, {"default": 5.0}, 1)


def test_only_finished_jobs_without_recent_change_are_forgotten(queue: QuestionQueue, clock: Clock) -> None:
    old = queue.submit(replace(SPEC, key="old"), questions(2))
    queue.finish([finished(question) for question in queue.claim(["default"], "w")])
    still_open = queue.submit(SPEC, questions(1))
    clock.advance(8 * DAY)
    recent = queue.submit(SPEC, questions(1))
    queue.cancel(recent)
    assert [queue.purge(9), queue.purge(7)] == [0, 1]
    assert [job.job_id for job in queue.jobs()] == [recent, still_open]
    with pytest.raises(UnknownJobError):
        queue.results(old)
    assert queue.submit(replace(SPEC, key="old"), questions(2)) > recent
    assert [queue._purge(job_id) for job_id in (still_open, old, recent)] == [False, False, True]  # asked once more


def test_workers_are_listed_while_they_give_signs_of_life(queue: QuestionQueue, clock: Clock) -> None:
    started = clock.now
    queue.report_worker("w", host="h", process_id=7, queues=["a", "b"], versions={"wiki": 1})
    clock.advance(50)
    queue.report_worker("w", host="h", process_id=7, queues=["a", "b"], versions={"wiki": 2})
    clock.advance(50)
    assert queue.heartbeat("w", []) == []
    assert queue.workers(10) == [schema.WorkerRow("w", "h", 7, ("a", "b"), {"wiki": 2}, started, clock.now)]
    clock.advance(61)
    assert queue.workers() == []
    queue.report_worker("v", host="h", process_id=8, queues=["a"], versions={})
    assert [worker.worker_id for worker in queue.workers(3600)] == ["w", "v"]
    queue.remove_worker("v")
    assert [worker.worker_id for worker in queue.workers(3600)] == ["w"]
    clock.advance(2 * DAY)
    queue.report_worker("v", host="h", process_id=8, queues=["a"], versions={})
    assert [worker.worker_id for worker in queue.workers(30 * DAY)] == ["v"]


def test_a_worker_says_why_and_since_when_it_waits_for_a_model(queue: QuestionQueue, clock: Clock) -> None:
    def report(outage: str | None) -> tuple[str | None, float | None]:
        queue.report_worker("w", host="h", process_id=7, queues=["a"], versions={}, outage=outage)
        (worker,) = queue.workers()
        return worker.outage, worker.outage_since

    assert report(None) == (None, None)
    began = clock.now
    assert report("refused\x00") == ("refused\ufffd", began)
    clock.advance(5)
    assert report("timeout") == ("timeout", began)
    assert report(None) == (None, None)
    assert report("again") == ("again", clock.now)


class QueueMachine(RuleBasedStateMachine):
    """Compares the queue with what a handful of dictionaries remember."""

    jobs = Bundle("jobs")
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.now = 1_000_000.0
        self.queue = open_queue(sqlite_url(Path(self.folder) / "queue.sqlite"), clock=lambda: self.now)
        self.sizes: dict[int, int] = {}
        self.held: dict[Key, str] = {}
        self.until: dict[str, float] = {}
        self.answers: dict[Key, str] = {}

    def teardown(self) -> None:
        self.queue.close()
        shutil.rmtree(self.folder)

    @rule(target=jobs, size=st.integers(1, 4), told=st.tuples(st.sampled_from(QUEUES), st.integers(-2, 2), DEADLINES))
    def submit(self, size: int, told: tuple[str, int, float | None]) -> int:
        queue, priority, deadline = told
        spec = schema.JobSpec("wiki", queue=queue, priority=priority, deadline_seconds=deadline, max_attempts=2)
        job_id = self.queue.submit(spec, [NewQuestion(str(n), "Why?") for n in range(size)])
        self.sizes[job_id] = size
        return job_id

    @rule(target=leases, queues=st.sets(st.sampled_from(QUEUES)), limit=st.integers(1, 5))
    def claim(self, queues: set[str], limit: int) -> Any:
        claimed = self.queue.claim(sorted(queues), "w", limit, LEASE_SECONDS)
        assert len(claimed) <= limit
        for each in claimed:
            key = (each.job_id, each.question_id)
            assert key not in self.answers
            assert key not in self.held or self.until[self.held[key]] <= self.now
            assert each.lease_token not in self.until
            assert 1 <= each.attempt <= MOST_CLAIMS
            self.held[key] = each.lease_token
            self.until[each.lease_token] = self.now + LEASE_SECONDS
        return multiple(*((each.job_id, each.question_id, each.lease_token) for each in claimed))

    @rule(seconds=st.sampled_from([0.5, 4.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(lease=leases)
    def heartbeat(self, lease: Lease) -> None:
        job_id, question_id, token = lease
        lost = self.queue.heartbeat("w", [token], LEASE_SECONDS)
        if not lost:
            assert self.held.get((job_id, question_id)) == token
            self.until[token] = self.now + LEASE_SECONDS

    def settle(self, chosen: Iterable[Lease], accepted: set[str]) -> Iterator[tuple[Key, str]]:
        """The accepted leases, each of which must have been the last one given out for its question."""
        assert accepted <= {token for *_, token in chosen}
        for job_id, question_id, token in chosen:
            is_current = self.held.get((job_id, question_id)) == token
            assert is_current or token not in accepted
            assert token in accepted or not is_current or self.until[token] <= self.now
            if token in accepted:
                yield (job_id, question_id), token
                del self.held[job_id, question_id]

    @rule(chosen=st.lists(leases, max_size=4, unique=True))
    def finish(self, chosen: list[Lease]) -> None:
        done = [schema.FinishedQuestion(token, token, 1, "bridge", 0.1) for *_, token in chosen]
        for key, token in self.settle(chosen, self.queue.finish(done)):
            assert key not in self.answers
            self.answers[key] = token

    @rule(chosen=st.lists(leases, max_size=4, unique=True), way=st.sampled_from(["retry", "give up", "release"]))
    def give_back(self, chosen: list[Lease], way: str) -> None:
        tokens = [token for *_, token in chosen]
        failures = [schema.FailedQuestion(token, "no", "ModelError", way == "retry") for token in tokens]
        accepted = self.queue.release(tokens) if way == "release" else self.queue.fail(failures)
        assert len([*self.settle(chosen, accepted)]) == len(accepted)

    @rule(job_id=jobs)
    def cancel(self, job_id: int) -> None:
        if job_id in self.sizes:
            self.queue.cancel(job_id)
            for key in [key for key in self.held if key[0] == job_id]:
                del self.held[key]

    @rule(job_id=jobs)
    def retry(self, job_id: int) -> None:
        if job_id in self.sizes:
            self.queue.retry(job_id)

    @rule()
    def sweep(self) -> None:
        self.queue.sweep()

    @rule()
    def purge(self) -> None:
        self.now += 0.25
        self.queue.purge(0)
        left = {job.job_id for job in self.queue.jobs(1000)}
        for job_id in set(self.sizes) - left:
            assert not any(key[0] == job_id and self.until[token] > self.now for key, token in self.held.items())
            del self.sizes[job_id]
            self.held = {key: token for key, token in self.held.items() if key[0] != job_id}
            self.answers = {key: answer for key, answer in self.answers.items() if key[0] != job_id}

    @invariant()
    def every_question_is_in_one_state_and_done_exactly_with_its_one_result(self) -> None:
        seen = {}
        for job in self.queue.jobs(1000):
            rows = list(self.queue.results(job.job_id))
            assert [row.question_id for row in rows] == [str(n) for n in range(self.sizes[job.job_id])]
            assert Counter(row.state for row in rows) == Counter(job.counts)
            for row in rows:
                assert (row.state is QuestionState.DONE) == (row.answer is not None)
                assert 0 <= row.attempts <= MOST_CLAIMS
                assert (row.finished_at is None) == (row.state in {QuestionState.QUEUED, QuestionState.LEASED})
                if row.answer is not None:
                    seen[row.job_id, row.question_id] = row.answer
        assert seen == self.answers
        open_count = sum(job.open_count for job in self.queue.jobs(1000))
        assert self.queue.count_open(QUEUES) == open_count


QueueMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=30, suppress_health_check=SUPPRESSED)
TestQueueMachine = pytest.mark.slow(QueueMachine.TestCase)
