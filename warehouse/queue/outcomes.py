"""What a worker did with a question: finished, failed or given back; refused where the lease is no longer held.

Each function is a piece of one transaction and gives the tokens that were accepted.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import RowMapping

from polyhop.schemas.queue import FailedQuestion, FinishedQuestion, QuestionState, backoff_seconds, storable, to_json
from polyhop.warehouse.queue.leases import question_numbers
from polyhop.warehouse.queue.transactions import Transaction


def result_texts(finished: Sequence[FinishedQuestion]) -> dict[str, str]:
    """{token: JSON of the result}.

    Raises:
        ContractError: If a result is not JSON-able; nothing is stored then.
    """
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
