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
from polyhop.variants import parse_variant
from schemas.chat import Usage
from schemas.corpus import BadRecord
from schemas.errors import PolyhopError, SourceError
from schemas.query import ModelUse, Question
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
    """What to evaluate: strategies, or variants of them (variants.py); the parameters go to each."""

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
        ConfigurationError: For a parameter that does not exist or is out of its range, before anything runs.
        MissingArtefactError: If the index was not built for one of them, before anything runs.
    """
    variants = [parse_variant(label, request.parameters) for label in request.strategies]
    needed_artefacts([variant.strategy for variant in variants])
    records, bad = read_questions(request.questions)
    if not records:
        raise SourceError(f"There is no usable question in {request.questions}.")
    gold = [GoldQuestion(r.id, r.answers, frozenset(r.supporting)) for r in records]
    with open_index(request.index, settings=settings) as index:
        answerers = {v.label: index.session.answerer(v.strategy, v.parameters) for v in variants}
        uses: dict[str, list[ModelUse]] = {name: [] for name in request.strategies}
        outcomes = {
            name: _outcomes(answerers[name], name, records, uses[name], on_progress) for name in request.strategies
        }
        record_of = index.session.published.record_of
        report = {"index": index.name, "version": index.version, **evaluate(gold, outcomes, record_of)}
        report["reading"] = {name: _taken(uses[name]) for name in request.strategies}
        if request.out is not None:
            _write_rows(request.out, records, gold, outcomes, index)
    return report, bad


def _taken(uses: Sequence[ModelUse]) -> dict[str, Any]:
    """What reading took of a model, the warm-up question included; `fallbacks` were read by rules after all."""
    spent = sum((use.spent for use in uses), Usage())
    return {
        "model": uses[0].model if uses else None,
        "prompt": {"name": uses[0].prompt, "hash": uses[0].prompt_hash} if uses else None,
        "calls": spent.calls,
        "cached": sum(use.is_cached for use in uses),
        "fallbacks": sum(bool(use.error_class) for use in uses),
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "cost_usd": spent.cost_usd,
    }


def _outcomes(
    answerer: Answerer,
    strategy: str,
    records: Sequence[QuestionRecord],
    uses: list[ModelUse],
    on_progress: OnProgress,
) -> list[Outcome]:
    _one(answerer, records[0], uses)
    outcomes = []
    for done, record in enumerate(records, start=1):
        outcomes.append(_one(answerer, record, uses))
        if on_progress is not None:
            on_progress(strategy, done, len(records))
    return outcomes


def _one(answerer: Answerer, record: QuestionRecord, uses: list[ModelUse]) -> Outcome:
    start = time.perf_counter()
    try:
        answered = answerer.answer([Question(record.question, record.id)], limit=DEPTH)[0]
    except PolyhopError as error:
        return Outcome(error=str(error))
    uses.extend(use for use in (answered.reading.use, answered.naming) if use is not None)
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
