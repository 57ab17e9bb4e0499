"""Claims: order, ageing, leases, fencing, deadlines."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from queue_parts import Clock, Make, only_second_tries, result_of

from polyhop.schemas.queue import DEATHS_PER_ATTEMPT, SUSPECT_AFTER_DEATHS, ClaimedQuestion, QuestionState
from polyhop.warehouse.queue.queue import QuestionQueue


def ids(claimed: Sequence[ClaimedQuestion]) -> list[str]:
    return [question.question_id for question in claimed]


def states(queue: QuestionQueue, job_id: int) -> dict[str, str]:
    return {row.question_id: row.state.value for row in queue.results(job_id)}


def test_a_claim_says_how_to_answer(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    spec = replace(make.spec, strategy="bm25", parameters={"k1": 1.2}, limit=5, deadline_seconds=100, max_attempts=2)
    job_id = queue.submit(spec, make.questions(1))
    (claimed,) = queue.claim(["default"], "w", lease_seconds=30)
    assert (claimed.job_id, claimed.question_id, claimed.ordinal, claimed.question) == (job_id, "q0", 0, "What is q 0?")
    assert (claimed.queue, claimed.index, claimed.strategy, claimed.limit) == ("default", "wiki", "bm25", 5)
    assert (claimed.parameters, claimed.attempt, claimed.max_attempts) == ({"k1": 1.2}, 1, 2)
    assert (claimed.lease_until, claimed.deadline) == (clock.now + 30, clock.now + 100)


def test_questions_come_in_submitted_order_and_only_once(queue: QuestionQueue, make: type[Make]) -> None:
    queue.submit(make.spec, make.questions(3, "a"))
    queue.submit(make.spec, make.questions(2, "b"))
    assert ids(queue.claim(["default"], "w", 4)) == ["a0", "a1", "a2", "b0"]
    assert ids(queue.claim(["default"], "v", 4)) == ["b1"]
    assert queue.claim(["default"], "w", 4) == []


def test_only_the_named_queues_are_claimed_and_merged_by_order(queue: QuestionQueue, make: type[Make]) -> None:
    for name, prefix, priority in (("slow", "s", 0), ("fast", "f", 1), ("other", "o", 9), ("slow", "t", 2)):
        queue.submit(replace(make.spec, queue=name, priority=priority), make.questions(2, prefix))
    assert queue.claim([], "w") == []
    assert ids(queue.claim(["slow", "fast", "slow"], "w", 5)) == ["t0", "t1", "f0", "f1", "s0"]


def test_a_higher_priority_goes_first(queue: QuestionQueue, make: type[Make]) -> None:
    for priority in (0, 5, -5):
        queue.submit(replace(make.spec, priority=priority), make.questions(1, f"p{priority}-"))
    assert ids(queue.claim(["default"], "w")) == ["p5-0", "p0-0", "p-5-0"]


def test_waiting_for_the_ageing_time_is_worth_one_priority_level(
    open_one: Callable[..., QuestionQueue], make: type[Make], clock: Clock
) -> None:
    queue = open_one(ageing_seconds=10, clock=clock)
    queue.submit(make.spec, make.questions(1, "old"))
    clock.advance(19)
    queue.submit(replace(make.spec, priority=2), make.questions(1, "new"))
    assert ids(queue.claim(["default"], "w", 1)) == ["new0"]
    clock.advance(2)
    queue.submit(replace(make.spec, priority=2), make.questions(1, "newer"))
    assert ids(queue.claim(["default"], "w", 2)) == ["old0", "newer0"]


def test_a_lease_that_ran_out_is_claimed_again_and_its_holder_refused(
    queue: QuestionQueue, make: type[Make], clock: Clock
) -> None:
    job_id = queue.submit(make.spec, make.questions(1))
    (late,) = queue.claim(["default"], "late", lease_seconds=30)
    clock.advance(29)
    assert queue.claim(["default"], "w") == []
    clock.advance(2)
    (claimed,) = queue.claim(["default"], "w")
    assert (claimed.attempt, claimed.lease_token != late.lease_token) == (2, True)
    assert queue.heartbeat("late", [late.lease_token]) == [late.lease_token]
    assert queue.finish([make.finished(late, "late")]) == set()
    assert queue.fail([make.failed(late)]) == set()
    assert queue.release([late.lease_token]) == set()
    assert queue.finish([make.finished(claimed, "good")]) == {claimed.lease_token}
    assert queue.finish([make.finished(late, "late")]) == set()
    row = result_of(queue, job_id, "q0")
    assert (row.answer, row.worker_id, row.attempts) == ("good", "w", 2)


def test_heartbeats_keep_a_lease(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    queue.submit(make.spec, make.questions(2))
    first, second = queue.claim(["default"], "w", lease_seconds=30)
    for _ in range(5):
        clock.advance(20)
        assert queue.heartbeat("w", [first.lease_token], lease_seconds=30) == []
    assert ids(queue.claim(["default"], "v")) == [second.question_id]
    assert queue.heartbeat("w", [second.lease_token, first.lease_token]) == [second.lease_token]


def test_a_question_whose_workers_die_ends_among_the_dead(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    job_id = queue.submit(replace(make.spec, max_attempts=2), make.questions(1))
    for _ in range(2 * DEATHS_PER_ATTEMPT):
        assert len(queue.claim(["default"], "w", lease_seconds=5)) == 1
        clock.advance(6)
    assert queue.claim(["default"], "w") == []
    row = result_of(queue, job_id, "q0")
    assert (row.state, row.error, row.error_class) == (QuestionState.DEAD, "worker died 10 times", "WorkerDied")
    assert (row.attempts, row.finished_at) == (10, clock.now)


def test_one_death_is_told_in_the_singular_and_a_topic_is_claimed_with_its_question(
    queue: QuestionQueue, make: type[Make], clock: Clock
) -> None:
    job_id = queue.submit(make.spec, [replace(make.questions(1)[0], topic="rivers")])
    (claimed,) = queue.claim(["default"], "w", lease_seconds=5)
    assert claimed.topic == "rivers"
    clock.advance(6)
    queue.claim(["other"], "v")
    assert result_of(queue, job_id, "q0").error == "worker died 1 time"


def test_a_claim_that_is_tried_again_gives_back_what_its_first_try_had_leased(
    queue: QuestionQueue, make: type[Make], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database had said yes, and the connection broke before the worker heard it."""
    queue.submit(make.spec, make.questions(3))
    claims = iter(["c1", "c2", "c1"])
    monkeypatch.setattr("polyhop.warehouse.queue.queue.uuid4", lambda: SimpleNamespace(hex=next(claims)))
    (first,) = queue.claim(["default"], "w", 1)
    (other,) = queue.claim(["default"], "w", 1)
    only_second_tries(queue, monkeypatch)
    (again,) = queue.claim(["default"], "w", 1)
    assert (again.question_id, again.attempt, again.lease_token) == (first.question_id, 1, first.lease_token)
    assert other.question_id == "q1"
    assert queue.heartbeat("w", [again.lease_token, other.lease_token]) == []


def test_a_question_that_kills_workers_takes_no_neighbours_with_it(
    queue: QuestionQueue, make: type[Make], clock: Clock
) -> None:
    job_id = queue.submit(make.spec, make.questions(5))
    dead = 0
    while batch := queue.claim(["default"], "w", 3, lease_seconds=5):
        if "q1" in ids(batch):
            dead += 1
            clock.advance(6)
        else:
            queue.finish([make.finished(question) for question in batch])
    assert dead == 3 * DEATHS_PER_ATTEMPT
    assert states(queue, job_id) == {"q0": "done", "q1": "dead", "q2": "done", "q3": "done", "q4": "done"}


def test_a_dead_worker_is_no_failed_attempt(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    job_id = queue.submit(replace(make.spec, max_attempts=1), make.questions(1))
    for _ in range(DEATHS_PER_ATTEMPT - 1):
        queue.claim(["default"], "w", lease_seconds=5)
        clock.advance(6)
    (last,) = queue.claim(["default"], "w")
    queue.fail([make.failed(last, delay_seconds=0)])
    assert states(queue, job_id) == {"q0": "dead"}
    job_id = queue.submit(replace(make.spec, max_attempts=2), make.questions(1, "other"))
    queue.claim(["default"], "w", lease_seconds=5)
    clock.advance(6)
    (second,) = queue.claim(["default"], "w")
    queue.fail([make.failed(second, delay_seconds=0)])
    assert list(states(queue, job_id).values()) == ["queued"]


def test_questions_that_lost_several_workers_are_claimed_alone(
    queue: QuestionQueue, make: type[Make], clock: Clock
) -> None:
    queue.submit(make.spec, make.questions(3))
    for _ in range(SUSPECT_AFTER_DEATHS):
        assert len(queue.claim(["default"], "w", lease_seconds=5)) == 3
        clock.advance(6)
    assert [len(queue.claim(["default"], "w")) for _ in range(4)] == [1, 1, 1, 0]


def test_waiting_questions_die_at_the_deadline_and_leased_ones_may_finish(
    queue: QuestionQueue, make: type[Make], clock: Clock
) -> None:
    job_id = queue.submit(replace(make.spec, deadline_seconds=60), make.questions(3))
    queue.submit(make.spec, make.questions(1, "free"))
    kept, failing = queue.claim(["default"], "w", 2, lease_seconds=600)
    clock.advance(61)
    queue.sweep()
    assert states(queue, job_id) == {"q0": "leased", "q1": "leased", "q2": "dead"}
    assert queue.finish([make.finished(kept)]) == {kept.lease_token}
    queue.fail([make.failed(failing, delay_seconds=0)])
    assert ids(queue.claim(["default"], "w")) == ["free0"]
    assert states(queue, job_id) == {"q0": "done", "q1": "dead", "q2": "dead"}
    (error,) = queue.job(job_id).errors
    assert (error.error_class, error.count, error.example) == ("DeadlinePassed", 2, "deadline passed")


def test_a_deadline_lease_or_pause_ends_at_its_very_moment(
    queue: QuestionQueue, make: type[Make], clock: Clock
) -> None:
    """Each ends at the time that it names, not after it: whole seconds on a test's clock are exact."""
    job_id = queue.submit(replace(make.spec, deadline_seconds=60), make.questions(1))
    free = queue.submit(make.spec, make.questions(2, "free"))
    first, _ = queue.claim(["default"], "w", 3, lease_seconds=30)[1:]
    clock.advance(30)
    assert ids(queue.claim(["default"], "v", 1, lease_seconds=600)) == ["q0"]
    assert queue.finish([make.finished(first)]) == set()
    (again,) = queue.claim(["default"], "v", 1, lease_seconds=600)
    queue.fail([make.failed(again, delay_seconds=20)])
    clock.advance(19)
    assert "free0" not in ids(queue.claim(["default"], "v", 9, lease_seconds=600))
    clock.advance(1)
    assert ids(queue.claim(["default"], "v", 9, lease_seconds=600)) == ["free0"]
    late = queue.submit(replace(make.spec, deadline_seconds=60), make.questions(1))
    clock.advance(59)
    queue.sweep()
    assert states(queue, late) == {"q0": "queued"}
    clock.advance(1)
    assert queue.claim(["default"], "v") == []
    assert states(queue, late) == {"q0": "dead"}
    assert (states(queue, job_id), states(queue, free)) == ({"q0": "leased"}, {"free0": "leased", "free1": "leased"})


def test_released_questions_are_as_if_never_claimed(queue: QuestionQueue, make: type[Make]) -> None:
    job_id = queue.submit(replace(make.spec, max_attempts=1), make.questions(2))
    held = queue.claim(["default"], "w")
    tokens = [question.lease_token for question in held]
    assert queue.release([*tokens, "1.forged", "nonsense", "9" * 40 + ".x"]) == set(tokens)
    assert [row.attempts for row in queue.results(job_id)] == [0, 0]
    again = queue.claim(["default"], "w")
    assert [(question.question_id, question.attempt) for question in again] == [("q0", 1), ("q1", 1)]
    assert queue.finish([make.finished(question) for question in held]) == set()


def test_open_questions_are_those_waiting_or_leased(queue: QuestionQueue, make: type[Make]) -> None:
    queue.submit(make.spec, make.questions(3))
    queue.submit(replace(make.spec, queue="other"), make.questions(4))
    first, _ = queue.claim(["default"], "w", 2)
    assert (queue.count_open(["default"]), queue.count_open(["other", "default"]), queue.count_open([])) == (3, 7, 0)
    queue.finish([make.finished(first)])
    assert queue.count_open(["default"]) == 2
