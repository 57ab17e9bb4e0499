"""What became of a job whose file had gold: its answers judged like those of an evaluation.

Asks nothing again; apart from answer.py, so that submitting pays for no metrics.
"""

from collections.abc import Iterator
from typing import Any

from polyhop.schemas.queue import QuestionState, ResultRow
from polyhop.tasks.evaluation.report import RETRIEVAL_METRICS, GoldQuestion, Outcome, evaluate


def job_metrics(rows: Iterator[ResultRow]) -> dict[str, Any] | None:
    """Metrics of a job whose file had answers or supporting passages; None if it had neither.

    Depths beyond the job's limit were not looked at and are None, like whatever has no gold.
    """
    gold, outcomes = [], []
    limits: set[int] = set()
    records: dict[str, str] = {}
    for row in rows:
        records |= {p["id"]: p["record"] for p in _passages(row) if "record" in p}
        limits |= {value for value in (row.result.get("limit"),) if isinstance(value, int)}
        gold.append(GoldQuestion(row.question_id, tuple(row.answers), frozenset(row.supporting)))
        outcomes.append(_outcome(row))
    if not any(question.answers or question.supporting for question in gold):
        return None
    report = evaluate(gold, {"job": outcomes}, lambda passage_id: records.get(passage_id, passage_id))
    metrics: dict[str, Any] = report["strategies"]["job"]
    beyond = {name for name in RETRIEVAL_METRICS if limits and int(name.partition("@")[2] or 0) > min(limits)}
    return {"n": report["n"], **metrics, **dict.fromkeys(beyond)}


def _outcome(row: ResultRow) -> Outcome:
    if row.state is not QuestionState.DONE:
        return Outcome(error=row.error or row.state.value)
    if row.damage is not None and row.damage.is_of_answer:
        return Outcome(error=row.damage.fault)
    reading: Any = row.result.get("reading") or {}
    usage, parts = reading.get("usage") or {}, row.result.get("seconds")
    return Outcome(
        ranking=tuple(passage["id"] for passage in _passages(row)),
        answer=row.answer,
        seconds=row.seconds,
        confidence=None if reading.get("kind") == "generated" else reading.get("confidence"),
        kind=reading.get("kind", ""),
        parts=parts if isinstance(parts, dict) else {},
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
        cost_usd=usage.get("cost_usd", 0.0),
    )


def _passages(row: ResultRow) -> list[dict[str, str]]:
    passages = row.result.get("passages", [])
    return passages if isinstance(passages, list) else []
