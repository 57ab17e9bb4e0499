"""Finishing, failing, cancelling, retrying, forgetting; jobs and workers as people see them."""

from dataclasses import replace

import pytest
from queue_parts import Clock, Make, only_second_tries, result_of

from polyhop.schemas.errors import ContractError, UnknownJobError
from polyhop.schemas.queue import ErrorCount, QuestionState, QueueMetrics, WorkerRow
from polyhop.warehouse.queue.queue import QuestionQueue

DAY = 86_400.0
NO_QUESTIONS = dict.fromkeys(QuestionState, 0)


def states(queue: QuestionQueue, job_id: int) -> list[str]:
    return [row.state.value for row in queue.results(job_id)]


def test_a_result_keeps_the_whole_answer(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    job_id = queue.submit(make.spec, make.questions(2))
    first, _ = queue.claim(["default"], "w")
    clock.advance(3)
    answer = replace(make.finished(first, "A\x00nn ü"), result={"passages": [{"id": "p", "score": 0.5}], "x": "\x00é"})
    assert queue.finish([answer]) == {first.lease_token}
    done, leased = queue.results(job_id)
    assert (done.state, done.answer, done.version, done.strategy) == (QuestionState.DONE, "A\ufffdnn ü", 7, "bridge")
    assert (done.worker_id, done.seconds, done.finished_at) == ("w", 0.25, clock.now)
    assert done.result == {"passages": [{"id": "p", "score": 0.5}], "x": "\x00é"}
    assert (leased.state, leased.answer, leased.result) == (QuestionState.LEASED, None, {})
    assert [row.question_id for row in queue.results(job_id, [QuestionState.DONE])] == ["q0"]
    assert list(queue.results(job_id, [])) == []
    (bare,) = queue.results(job_id, [QuestionState.DONE], with_evidence=False)
    assert (bare.answer, bare.version, bare.result) == (done.answer, done.version, {})
    assert done.result


def test_finishing_twice_keeps_the_first_answer(queue: QuestionQueue, make: type[Make]) -> None:
    job_id = queue.submit(make.spec, make.questions(1))
    (claimed,) = queue.claim(["default"], "w")
    assert queue.finish([make.finished(claimed, "first")]) == {claimed.lease_token}
    assert queue.finish([make.finished(claimed, "second")]) == set()
    assert result_of(queue, job_id, "q0").answer == "first"


def test_a_batch_is_accepted_in_part_where_leases_were_lost(queue: QuestionQueue, make: type[Make]) -> None:
    job_id = queue.submit(make.spec, make.questions(3))
    held = queue.claim(["default"], "w")
    queue.release([held[1].lease_token])
    accepted = queue.finish([make.finished(question) for question in held])
    assert accepted == {held[0].lease_token, held[2].lease_token}
    assert states(queue, job_id) == ["done", "queued", "done"]


def test_a_result_that_is_not_json_stores_nothing_of_its_batch(queue: QuestionQueue, make: type[Make]) -> None:
    job_id = queue.submit(make.spec, make.questions(2))
    good, bad = queue.claim(["default"], "w")
    with pytest.raises(ContractError, match="JSON"):
        queue.finish([make.finished(good), replace(make.finished(bad), result={"score": float("nan")})])
    assert states(queue, job_id) == ["leased", "leased"]
    assert queue.finish([]) == queue.fail([]) == queue.release([]) == set()


def test_a_passing_error_waits_longer_each_time_and_ends_among_the_dead(
    queue: QuestionQueue, make: type[Make], clock: Clock
) -> None:
    job_id = queue.submit(replace(make.spec, max_attempts=3), make.questions(1))
    for longest in (1.0, 2.0):
        (claimed,) = queue.claim(["default"], "w")
        assert queue.fail([make.failed(claimed)]) == {claimed.lease_token}
        clock.advance(longest / 2 - 0.01)
        assert queue.claim(["default"], "w") == []
        clock.advance(longest / 2 + 0.02)
    (claimed,) = queue.claim(["default"], "w")
    queue.fail([make.failed(claimed, error="away\x00")])
    row = result_of(queue, job_id, "q0")
    assert (row.state, row.attempts, row.error) == (QuestionState.DEAD, 3, "away\ufffd")
    assert (row.error_class, row.finished_at) == ("ModelUnavailableError", clock.now)


def test_a_given_pause_overrides_the_backoff(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    queue.submit(make.spec, make.questions(1))
    (claimed,) = queue.claim(["default"], "w")
    queue.fail([make.failed(claimed, delay_seconds=120)])
    clock.advance(119)
    assert queue.claim(["default"], "w") == []
    clock.advance(1)
    assert [question.attempt for question in queue.claim(["default"], "w")] == [2]


def test_a_permanent_error_ends_a_question_at_once(queue: QuestionQueue, make: type[Make]) -> None:
    job_id = queue.submit(make.spec, make.questions(3))
    failures = [make.failed(q, error=f"no {q.question_id}", retryable=False) for q in queue.claim(["default"], "w", 2)]
    queue.fail([replace(failures[0], error_class="UnknownIndexError"), failures[1]])
    (last,) = queue.claim(["default"], "w")
    queue.fail([make.failed(last, retryable=False, error="no q2")])
    assert states(queue, job_id) == ["dead", "dead", "dead"]
    assert queue.job(job_id).errors == (
        ErrorCount("ModelUnavailableError", 2, "no q1"),
        ErrorCount("UnknownIndexError", 1, "no q0"),
    )


def test_an_answer_after_a_failed_attempt_shows_no_error(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    job_id = queue.submit(make.spec, make.questions(1))
    (claimed,) = queue.claim(["default"], "w")
    queue.fail([make.failed(claimed, delay_seconds=0)])
    assert result_of(queue, job_id, "q0").error == "the model is away"
    queue.finish([make.finished(question) for question in queue.claim(["default"], "w")])
    assert result_of(queue, job_id, "q0").error is None


def test_a_cancelled_job_is_never_claimed_and_its_workers_lose_their_leases(
    queue: QuestionQueue, make: type[Make]
) -> None:
    job_id = queue.submit(make.spec, make.questions(3))
    done, held = queue.claim(["default"], "w", 2)
    queue.finish([make.finished(done)])
    assert queue.cancel(job_id) == 2
    assert queue.cancel(job_id) == 0
    assert queue.claim(["default"], "w") == []
    assert queue.heartbeat("w", [held.lease_token]) == [held.lease_token]
    assert queue.finish([make.finished(held)]) == set()
    assert states(queue, job_id) == ["done", "cancelled", "cancelled"]
    assert not queue.job(job_id).is_open


def test_retrying_a_job_gives_dead_and_cancelled_questions_all_attempts_again(
    queue: QuestionQueue, make: type[Make], clock: Clock
) -> None:
    job_id = queue.submit(replace(make.spec, max_attempts=1, deadline_seconds=60), make.questions(3))
    done, dead = queue.claim(["default"], "w", 2)
    queue.finish([make.finished(done)])
    queue.fail([make.failed(dead)])
    queue.cancel(job_id)
    clock.advance(600)
    assert queue.retry(job_id) == 2
    job = queue.job(job_id)
    assert (job.counts[QuestionState.QUEUED], job.deadline, job.errors) == (2, clock.now + 60, ())
    assert [(q.question_id, q.attempt) for q in queue.claim(["default"], "w")] == [("q1", 1), ("q2", 1)]
    assert queue.retry(job_id) == 0


def test_a_job_that_was_just_submitted_has_waited_for_no_time(queue: QuestionQueue, make: type[Make]) -> None:
    job_id = queue.submit(make.spec, make.questions(1))
    assert queue.job(job_id).oldest_wait_seconds == 0.0


def test_a_job_that_is_gone_or_open_again_is_not_forgotten(queue: QuestionQueue, make: type[Make]) -> None:
    job_id = queue.submit(make.spec, make.questions(1))
    assert [queue._purge(number) for number in (job_id, 99)] == [False, False]
    queue.cancel(job_id)
    assert queue._purge(job_id)


def test_a_result_names_the_worker_that_answered_and_before_the_one_that_holds_it(
    queue: QuestionQueue, make: type[Make]
) -> None:
    job_id = queue.submit(make.spec, make.questions(2))
    first, _ = queue.claim(["default"], "w", 2)
    queue.finish([make.finished(first)])
    assert [row.worker_id for row in queue.results(job_id)] == ["w", "w"]
    assert result_of(queue, job_id, "q1").state is QuestionState.LEASED


def test_a_transaction_that_is_tried_again_counts_what_its_first_try_had_stored(
    queue: QuestionQueue, make: type[Make], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database had said yes, and the connection broke before the worker heard it."""
    queue.submit(make.spec, make.questions(1))
    (claimed,) = queue.claim(["default"], "w")
    finished = make.finished(claimed)
    assert queue.finish([finished]) == {claimed.lease_token}
    assert queue.finish([finished]) == set()
    only_second_tries(queue, monkeypatch)
    assert queue.finish([finished]) == {claimed.lease_token}


def test_a_job_shows_its_counts_and_its_longest_wait(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    job_id = queue.submit(replace(make.spec, name="night", queue="slow", priority=3), make.questions(4))
    clock.advance(30)
    first, second, _ = queue.claim(["slow"], "w", 3)
    queue.finish([make.finished(first)])
    queue.fail([make.failed(second, retryable=False)])
    (job,) = queue.jobs()
    assert job == queue.job(job_id)
    assert (job.name, job.queue, job.priority, job.limit, job.max_attempts) == ("night", "slow", 3, 10, 3)
    assert {state.value: count for state, count in job.counts.items()} == {
        "queued": 1,
        "leased": 1,
        "done": 1,
        "dead": 1,
        "cancelled": 0,
    }
    assert (job.open_count, job.is_open, job.oldest_wait_seconds) == (2, True, 30.0)
    queue.claim(["slow"], "w")
    assert queue.job(job_id).oldest_wait_seconds is None


def test_metrics_count_by_queue_and_state(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    assert queue.metrics() == QueueMetrics({}, {}, 0)
    queue.submit(make.spec, make.questions(2))
    clock.advance(5)
    queue.submit(make.spec, make.questions(2))
    queue.submit(replace(make.spec, queue="other"), make.questions(1))
    queue.claim(["other"], "w")
    queue.report_worker("w", host="h", process_id=1, queues=["other"], versions={})
    metrics = queue.metrics()
    assert metrics.counts == {
        "default": NO_QUESTIONS | {QuestionState.QUEUED: 4},
        "other": NO_QUESTIONS | {QuestionState.LEASED: 1},
    }
    assert (metrics.oldest_wait_seconds, metrics.worker_count) == ({"default": 5.0}, 1)


def test_only_finished_jobs_without_recent_change_are_forgotten(
    queue: QuestionQueue, make: type[Make], clock: Clock
) -> None:
    old = queue.submit(replace(make.spec, key="old"), make.questions(2))
    queue.finish([make.finished(question) for question in queue.claim(["default"], "w")])
    still_open = queue.submit(make.spec, make.questions(1))
    clock.advance(8 * DAY)
    recent = queue.submit(make.spec, make.questions(1))
    queue.cancel(recent)
    assert queue.purge(9) == 0
    assert queue.purge(7) == 1
    assert [job.job_id for job in queue.jobs()] == [recent, still_open]
    with pytest.raises(UnknownJobError):
        queue.results(old)
    assert queue.submit(replace(make.spec, key="old"), make.questions(2)) > recent


def test_workers_are_listed_while_they_give_signs_of_life(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    started = clock.now
    queue.report_worker("w", host="h", process_id=7, queues=["a", "b"], versions={"wiki": 1})
    clock.advance(50)
    queue.report_worker("w", host="h", process_id=7, queues=["a", "b"], versions={"wiki": 2})
    clock.advance(50)
    assert queue.heartbeat("w", []) == []
    assert queue.workers(10) == [WorkerRow("w", "h", 7, ("a", "b"), {"wiki": 2}, started, clock.now)]
    clock.advance(61)
    assert queue.workers() == []
    queue.report_worker("v", host="h", process_id=8, queues=["a"], versions={})
    assert [worker.worker_id for worker in queue.workers(3600)] == ["w", "v"]
    queue.remove_worker("v")
    assert [worker.worker_id for worker in queue.workers(3600)] == ["w"]
    clock.advance(2 * DAY)
    queue.report_worker("v", host="h", process_id=8, queues=["a"], versions={})
    assert [worker.worker_id for worker in queue.workers(30 * DAY)] == ["v"]


def test_a_worker_says_why_and_since_when_it_waits_for_a_model(
    queue: QuestionQueue, make: type[Make], clock: Clock
) -> None:
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
    clock.advance(5)
    assert report("again") == ("again", clock.now)
