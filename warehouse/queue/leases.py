"""Handing questions to workers: claims, heartbeats, leases, deadlines, and what became of each question.

Each function is a piece of one transaction. Invariant: every claim gives every question a new token, and only the
holder of the current one can change the question.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import RowMapping

from polyhop.schemas.queue import (
    DEADLINE_ERROR,
    DEATHS_PER_ATTEMPT,
    SUSPECT_AFTER_DEATHS,
    WORKER_DIED_ERROR,
    ClaimedQuestion,
    FailedQuestion,
    FinishedQuestion,
    QuestionState,
    backoff_seconds,
    storable,
    to_json,
)
from polyhop.warehouse.queue.schema import Transaction

LEASES_PER_SWEEP = 1_000  # chosen: bounds one transaction; the next sweep takes the rest


def question_numbers(lease_tokens: Iterable[str]) -> list[int]:
    """The questions that tokens belong to, by number; a token that was never given out belongs to none."""
    heads = (token.partition(".")[0] for token in lease_tokens)
    return [int(head) for head in heads if head.isascii() and head.isdecimal() and len(head) < 19]


def sweep(tx: Transaction) -> None:
    """Takes back the leases of dead workers and ends questions whose deadline has passed."""
    expired = tx.rows("claim.expired", now=tx.now, limit=LEASES_PER_SWEEP)
    if expired:
        tx.run_many("claim.expire", [_expiry(row, tx.now) for row in expired])
    tx.run("claim.pass_deadlines", now=tx.now, error_class=DEADLINE_ERROR)


def _expiry(row: RowMapping, now: float) -> dict[str, object]:
    deaths = row["lost_leases"] + 1
    is_dead = deaths >= DEATHS_PER_ATTEMPT * row["max_attempts"]
    return {
        "number": row["number"],
        "state": QuestionState.DEAD.value if is_dead else QuestionState.QUEUED.value,
        "error": f"worker died {deaths} {'time' if deaths == 1 else 'times'}",
        "error_class": WORKER_DIED_ERROR,
        "finished_at": now if is_dead else None,
        "now": now,
    }


def claim(
    tx: Transaction, queues: Sequence[str], worker_id: str, claim_id: str, limit: int, lease_seconds: float
) -> list[ClaimedQuestion]:
    """The next questions of the queues, each with a lease of its own."""
    if tx.attempt > 1:
        tx.run("claim.undo_claim", worker_id=worker_id, claim_id=claim_id)
    sweep(tx)
    lease_until = tx.now + lease_seconds
    chosen = _choose(_waiting(tx, queues, limit), limit)
    if not chosen:
        return []
    claimed = _read(tx, chosen, claim_id, lease_until)
    leased = [
        {"number": number, "worker_id": worker_id, "lease_token": q.lease_token, "lease_until": lease_until}
        for number, q in claimed.items()
    ]
    tx.run_many("claim.lease", leased)
    return list(claimed.values())


def _waiting(tx: Transaction, queues: Sequence[str], limit: int) -> list[RowMapping]:
    # One indexed look per queue; a common ORDER BY over several queues would sort all that waits.
    waiting = [
        row
        for queue in sorted(set(queues))
        for row in tx.rows("claim.candidates", queue=queue, now=tx.now, limit=limit)
    ]
    waiting.sort(key=lambda row: (row["effective_at"], row["number"]))
    return waiting


def _read(
    tx: Transaction, chosen: Sequence[RowMapping], claim_id: str, lease_until: float
) -> dict[int, ClaimedQuestion]:
    """The questions by number."""
    jobs = {row["job_id"]: row for row in tx.rows("claim.job_specs", job_ids=sorted({r["job_id"] for r in chosen}))}
    parameters = {job_id: json.loads(job["parameters_json"]) for job_id, job in jobs.items()}
    return {
        row["number"]: _claimed(
            row, jobs[row["job_id"]], parameters[row["job_id"]], f"{row['number']}.{claim_id}", lease_until
        )
        for row in chosen
    }


def _choose(waiting: Sequence[RowMapping], limit: int) -> list[RowMapping]:
    """At most `limit`; a question that lost several workers goes alone, so it kills no neighbours."""
    if waiting and _is_suspect(waiting[0]):
        return [waiting[0]]
    return [row for row in waiting if not _is_suspect(row)][:limit]


def _is_suspect(row: RowMapping) -> bool:
    return bool(row["lost_leases"] >= SUSPECT_AFTER_DEATHS)


def _claimed(
    row: RowMapping, job: RowMapping, parameters: Mapping[str, Any], token: str, lease_until: float
) -> ClaimedQuestion:
    return ClaimedQuestion(
        job_id=row["job_id"],
        question_id=row["question_id"],
        ordinal=row["ordinal"],
        question=row["question"],
        topic=row["topic"],
        queue=row["queue"],
        index=job["index_name"],
        strategy=job["strategy"],
        parameters=parameters,
        limit=job["passage_limit"],
        attempt=row["attempts"] + 1,
        max_attempts=row["max_attempts"],
        lease_token=token,
        lease_until=lease_until,
        deadline=row["deadline_at"],
        min_confidence=job["min_confidence"],
        where=job["where_text"],
    )


def heartbeat(tx: Transaction, worker_id: str, lease_tokens: Sequence[str], lease_seconds: float) -> list[str]:
    """Renews leases and notes that the worker lives; gives the tokens that are no longer held."""
    tx.run("workers.beat", worker_id=worker_id, now=tx.now)
    if not lease_tokens:
        return []
    rows = tx.rows(
        "finish.extend",
        numbers=question_numbers(lease_tokens),
        lease_tokens=list(lease_tokens),
        lease_until=tx.now + lease_seconds,
    )
    held = {row["lease_token"] for row in rows}
    return [token for token in lease_tokens if token not in held]


def result_texts(finished: Sequence[FinishedQuestion]) -> dict[str, str]:
    """{token: JSON of the result}."""
    return {each.lease_token: to_json(dict(each.result)) for each in finished}


def finish(tx: Transaction, finished: Sequence[FinishedQuestion], texts: dict[str, str]) -> set[str]:
    """Stores answers and closes their questions."""
    by_token = {each.lease_token: each for each in finished}
    held = {"numbers": question_numbers(by_token), "lease_tokens": list(by_token)}
    before = tx.rows("finish.finished_before", **held) if tx.attempt > 1 else []
    closed = tx.rows("finish.finish", **held, now=tx.now)
    if closed:
        tx.run_many(
            "finish.add_result",
            [_result(row, by_token[row["lease_token"]], texts[row["lease_token"]], tx.now) for row in closed],
        )
    return {row["lease_token"] for row in (*before, *closed)}


def _result(row: RowMapping, finished: FinishedQuestion, text: str, now: float) -> dict[str, object]:
    return {
        "job_id": row["job_id"],
        "question_id": row["question_id"],
        "worker_id": row["worker_id"],
        "answer": storable(finished.answer),
        "version": finished.version,
        "strategy": finished.strategy,
        "seconds": finished.seconds,
        "now": now,
        "result_json": text,
    }


def fail(tx: Transaction, failed: Sequence[FailedQuestion]) -> set[str]:
    """Queues questions again after a pause, or ends them if the error is permanent or no attempt is left."""
    by_token = {each.lease_token: each for each in failed}
    rows = _held(tx, by_token)
    if rows:
        tx.run_many("finish.fail", [_failure(row, by_token[row["lease_token"]], tx.now) for row in rows])
    return {row["lease_token"] for row in rows}


def _failure(row: RowMapping, failed: FailedQuestion, now: float) -> dict[str, object]:
    is_dead = not failed.retryable or row["attempts"] - row["lost_leases"] >= row["max_attempts"]
    pause = failed.delay_seconds
    if pause is None:
        pause = backoff_seconds(row["attempts"], str(row["number"]))
    return {
        "number": row["number"],
        "state": QuestionState.DEAD.value if is_dead else QuestionState.QUEUED.value,
        "available_at": now if is_dead else now + max(0.0, pause),
        "error": storable(failed.error),
        "error_class": storable(failed.error_class),
        "finished_at": now if is_dead else None,
    }


def release(tx: Transaction, lease_tokens: Sequence[str]) -> set[str]:
    """Gives leases back; the attempt does not count."""
    rows = _held(tx, lease_tokens)
    if rows:
        tx.run("finish.release", numbers=[row["number"] for row in rows], now=tx.now)
    return {row["lease_token"] for row in rows}


def _held(tx: Transaction, lease_tokens: Iterable[str]) -> Sequence[RowMapping]:
    tokens = list(lease_tokens)
    return tx.rows("finish.held", numbers=question_numbers(tokens), lease_tokens=tokens)
