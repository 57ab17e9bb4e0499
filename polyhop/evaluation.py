"""Runs strategies over a question file and hands the outcomes to the metrics.

Serial, one warm-up question left out of the timings (algorithms.md 6.4); a question that fails counts 0 and is listed.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyhop.api import Index, open_index
from schemas.corpus import BadRecord
from schemas.errors import PolyhopError, SourceError
from schemas.query import Question
from schemas.questions import QuestionRecord
from schemas.settings import Settings
from schemas.strategies import needed_artefacts
from tasks.evaluation.report import GoldQuestion, Outcome, evaluate, question_values
from warehouse.files.disk import writing
from warehouse.files.questions import read_questions
from worker.answer import Answerer

DEPTH = 100
"""Passages asked for: MRR's depth (algorithms.md 6.2)."""

OnProgress = Callable[[str, int, int], None] | None


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to evaluate: the parameters go to every strategy named."""

    questions: Path
    index: str
    strategies: tuple[str, ...]
    parameters: Mapping[str, object]
    out: Path | None = None


def evaluate_index(
    settings: Settings, request: EvaluationRequest, on_progress: OnProgress = None
) -> tuple[dict[str, Any], list[BadRecord]]:
    """The report of `polyhop eval`, and the question records that were left out.

    Raises:
        SourceError: If the file has no usable question.
        UnknownStrategyError: For a strategy that does not exist, before anything runs.
        MissingArtefactError: If the index was not built for one of them, before anything runs.
    """
    needed_artefacts(request.strategies)
    records, bad = read_questions(request.questions)
    if not records:
        raise SourceError(f"There is no usable question in {request.questions}.")
    gold = [GoldQuestion(r.id, r.answers, frozenset(r.supporting)) for r in records]
    with open_index(request.index, settings=settings) as index:
        answerers = {name: index.session.answerer(name, request.parameters) for name in request.strategies}
        outcomes = {name: _outcomes(answerers[name], name, records, on_progress) for name in request.strategies}
        record_of = index.session.published.record_of
        report = {"index": index.name, "version": index.version, **evaluate(gold, outcomes, record_of)}
        if request.out is not None:
            _write_rows(request.out, records, gold, outcomes, index)
    return report, bad


def _outcomes(
    answerer: Answerer, strategy: str, records: Sequence[QuestionRecord], on_progress: OnProgress
) -> list[Outcome]:
    _one(answerer, records[0])
    outcomes = []
    for done, record in enumerate(records, start=1):
        outcomes.append(_one(answerer, record))
        if on_progress is not None:
            on_progress(strategy, done, len(records))
    return outcomes


def _one(answerer: Answerer, record: QuestionRecord) -> Outcome:
    start = time.perf_counter()
    try:
        answered = answerer.answer([Question(record.question, record.id)], limit=DEPTH)[0]
    except PolyhopError as error:
        return Outcome(error=str(error))
    return Outcome(
        ranking=tuple(passage.passage_id for passage in answered.retrieval.passages),
        answer=answered.reading.answer,
        seconds=time.perf_counter() - start,
    )


def _write_rows(
    out: Path,
    records: Sequence[QuestionRecord],
    gold: Sequence[GoldQuestion],
    outcomes: Mapping[str, Sequence[Outcome]],
    index: Index,
) -> None:
    with writing("the per-question file", out), out.open("w", encoding="utf-8") as file:
        for strategy, given in outcomes.items():
            values = question_values(gold, given, index.session.published.record_of)
            for record, outcome, value in zip(records, given, values, strict=True):
                row = {
                    "id": record.id,
                    "question": record.question,
                    "strategy": strategy,
                    "version": index.version,
                    "answer": outcome.answer,
                    "error": outcome.error,
                    "ranking": outcome.ranking[:30],
                    **value,
                }
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
