"""A question file to a job in the queue, and what became of it: the plain functions behind `submit` and the flow.

Answers nothing: workers do, wherever they run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.corpus import BadRecord
from schemas.errors import MissingArtefactError, SourceError
from schemas.queue import JobSpec, NewQuestion, QuestionState, ResultRow
from schemas.settings import Settings
from schemas.strategies import needed_artefacts
from tasks.evaluation.report import RETRIEVAL_METRICS, GoldQuestion, Outcome, evaluate
from warehouse.files.layout import Layout
from warehouse.files.questions import read_questions
from warehouse.files.versions import read_manifest, require_version
from warehouse.queue.queue import QuestionQueue


@dataclass(frozen=True, slots=True)
class Submission:
    """A question file and how it is to be answered."""

    questions: Path
    index: str
    strategy: str
    queue: str
    limit: int
    parameters: Mapping[str, object]
    priority: int
    key: str | None
    name: str
    deadline_seconds: float | None
    max_attempts: int
    skip_bad: bool
    min_confidence: float | None = None


def submit_file(settings: Settings, queue: QuestionQueue, request: Submission) -> tuple[int, int, list[BadRecord]]:
    """Submits a file as one job; returns its id, its number of questions and the records left out.

    Raises:
        SourceError: If a record is bad and `skip_bad` is not set, or no question is usable; nothing is submitted.
        UnknownStrategyError: If there is no such strategy.
        UnknownIndexError: If there is no such index.
        MissingArtefactError: If the index was not built for the strategy.
    """
    needed = needed_artefacts([request.strategy])
    _, folder = require_version(Layout(settings.root), request.index)
    artefacts = read_manifest(folder).artefacts
    for artefact in sorted(needed):
        if artefact not in artefacts:
            raise MissingArtefactError(artefact, request.index, request.strategy)
    records, bad = read_questions(request.questions)
    if bad and not request.skip_bad:
        first = bad[0]
        raise SourceError(
            f"Nothing was submitted: {len(bad)} questions in {request.questions} are unusable; the first is line "
            f"{first.line}: {first.reason}. Mend them, or leave them out with --skip-bad."
        )
    if not records:
        raise SourceError(f"Nothing was submitted: there is no usable question in {request.questions}.")
    spec = JobSpec(
        index=request.index,
        name=request.name,
        queue=request.queue,
        strategy=request.strategy,
        parameters=dict(request.parameters),
        limit=request.limit,
        priority=request.priority,
        deadline_seconds=request.deadline_seconds,
        key=request.key,
        max_attempts=request.max_attempts,
        min_confidence=request.min_confidence,
    )
    questions = [NewQuestion(r.id, r.question, r.topic, r.answers, r.supporting, r.metadata) for r in records]
    return queue.submit(spec, questions), len(questions), bad


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
