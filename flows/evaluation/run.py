"""Runs strategies over a question file and hands the outcomes to the metrics.

Serial, one warm-up question left out of the timings (algorithms.md 6.4); a question that fails counts 0 and is listed.
Stores nothing (store.py does).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from polyhop.flows.evaluation.asked import (
    baselines_of,
    check_sample,
    labels_of,
    named_labels,
    ranges_of,
    sample_of,
    with_strategies,
)
from polyhop.flows.evaluation.closed_book import check_closed_book, closed_book_answerers
from polyhop.flows.evaluation.costs import cost_rows
from polyhop.flows.evaluation.depth import DEPTH
from polyhop.flows.evaluation.golden import Gold, gold_of, golden_triples_row
from polyhop.flows.evaluation.served import Answering, served
from polyhop.flows.evaluation.settings import answering_settings
from polyhop.schemas.chat import Usage
from polyhop.schemas.corpus import BadRecord
from polyhop.schemas.errors import ConfigurationError, PolyhopError
from polyhop.schemas.query import UNREAD, ModelUse, Question
from polyhop.schemas.questions import QuestionRecord
from polyhop.schemas.requests import EvaluationRequest
from polyhop.schemas.settings import Settings, with_min_confidence
from polyhop.schemas.variants import Variant, parse_variant
from polyhop.schemas.version import VERSION
from polyhop.tasks.evaluation.report import Outcome, QuestionValues, evaluate, question_values
from polyhop.tasks.evaluation.run_documents import RANKING_KEPT, RunFacts, rounded, run_document, timings_document
from polyhop.warehouse.files.disk import file_hash, require_place
from polyhop.warehouse.files.json_lines import write_json_lines
from polyhop.warehouse.files.questions import usable_questions
from polyhop.warehouse.machine import machine, now, peak_rss_mb
from polyhop.warehouse.open import open_published
from polyhop.worker.answer import AnsweredQuestion
from polyhop.worker.session import IndexSession
from polyhop.worker.strategies.registry import needed_artefacts

_OUT = "the per-question file"
OnProgress = Callable[[str, int, int], None] | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came out: the JSON of `polyhop eval`, what is stored of it, the question records that were left out."""

    report: dict[str, Any]
    run: dict[str, Any]
    timings: dict[str, Any]
    rows: list[dict[str, Any]]
    bad: list[BadRecord]


@dataclass(slots=True)
class _Measured:
    """Outcomes of one strategy, and what reading took of a model, the warm-up question included."""

    outcomes: list[Outcome] = field(default_factory=list)
    uses: list[ModelUse] = field(default_factory=list)


RunStrategy = Callable[[str, Callable[[], _Measured]], _Measured]
"""Runs the measurement of a strategy, which is named: directly, or as a task of a flow run."""


def run_directly(_name: str, measure: Callable[[], _Measured]) -> _Measured:
    """Measures a strategy at once, in this process."""
    return measure()


def run_evaluation(
    settings: Settings,
    request: EvaluationRequest,
    on_progress: OnProgress = None,
    run_strategy: RunStrategy = run_directly,
) -> Evaluation:
    """Evaluates strategies on a question file.

    Raises:
        SourceError: If the file has no usable question.
        UnknownStrategyError: For a strategy that does not exist, before anything runs.
        ConfigurationError: For a malformed variant or range, a parameter that does not exist, a parameter, sample or
            confidence out of its range, an `out` that would replace the questions, or a closed-book row without a
            model, before anything runs.
        StoreError: If `out` cannot be written, before anything runs.
        MissingArtefactError: If the index was not built for one of them, before anything runs.
    """
    started, start = now(), time.perf_counter()
    settings = with_min_confidence(settings, request.min_confidence)
    request = with_strategies(settings, request)
    check_closed_book(settings, request)
    check_sample(request)
    variants = _variants(request)
    if request.out is not None:
        _check_out(request.out, request.questions)
    records, bad = usable_questions(request.questions)
    records, sample = sample_of(request, records)
    with closing(IndexSession(open_published(settings.root, request.index), settings)) as session:
        filtered = session.where(request.where)
        answerers, left_out = served(filtered, variants, named_labels(request))
        answerers |= closed_book_answerers(session, request)
        baselines = baselines_of(request, list(answerers))
        gold = gold_of(records, session.published)
        measured = {
            name: run_strategy(name, partial(_measure, answerer, name, records, on_progress))
            for name, answerer in answerers.items()
        }
        outcomes = {name: found.outcomes for name, found in measured.items()}
        record_of = session.published.record_of
        values = {name: question_values(gold.questions, given, record_of) for name, given in outcomes.items()}
        evaluated = evaluate(gold.questions, outcomes, record_of, baselines)
        report = {"index": session.name, "version": session.version, "filter": filtered.filter_row, **evaluated}
        report |= golden_triples_row(gold, outcomes)
        by_label = {variant.label: variant for variant in variants}
        report["costs"] = cost_rows(session.published, by_label, evaluated)
        report["reading"] = {name: _taken(found.uses) for name, found in measured.items()}
        asked = _questions_row(request, len(bad), gold, sample)
        facts = _facts(settings, request, session, left_out, baselines, asked)
    rows = _rows(records, outcomes, values, facts.version)
    run = run_document(facts, report, values)
    timings = timings_document(report, started, time.perf_counter() - start, machine(), peak_rss_mb())
    report |= {name: run[name] for name in ("baseline", "baselines", "ranges", "interval", "settings_hash")}
    report |= {"left_out": left_out, "unknown_supporting": len(gold.unknown_supporting), "sample": sample}
    report["reader"] = facts.reader
    if request.out is not None:
        write_json_lines(request.out, rows, _OUT)
    return Evaluation(report, run, timings, rows, bad)


def _variants(request: EvaluationRequest) -> list[Variant]:
    """The variants to run; raises for a strategy that does not exist."""
    variants = [parse_variant(label, request.parameters) for label in labels_of(request)]
    needed_artefacts([variant.strategy for variant in variants])
    return variants


def _check_out(out: Path, questions: Path) -> None:
    if out.exists() and questions.exists() and out.samefile(questions):
        raise ConfigurationError(f"--out would replace the questions in {questions}; name another file.")
    require_place(out, _OUT)


def _questions_row(
    request: EvaluationRequest, bad: int, gold: Gold, sample: Mapping[str, int] | None
) -> dict[str, Any]:
    return {
        "file": request.questions.name,
        "sha256": file_hash(request.questions, "the questions"),
        "left_out": bad,
        "unknown_supporting": len(gold.unknown_supporting),
        "sample": sample,
    }


def _facts(
    settings: Settings,
    request: EvaluationRequest,
    session: IndexSession,
    left_out: Mapping[str, str],
    baselines: Sequence[str],
    questions: Mapping[str, Any],
) -> RunFacts:
    return RunFacts(
        index=session.name,
        version=session.version,
        questions=questions,
        parameters=request.parameters,
        left_out=left_out,
        settings=answering_settings(settings, session.published.manifest.settings, request.where),
        reader=(settings.models.read or "rules") if settings.reader.reads else "none",
        depth=DEPTH,
        baselines=baselines,
        ranges=ranges_of(request),
        polyhop=VERSION,
    )


def _taken(uses: Sequence[ModelUse]) -> dict[str, Any]:
    """What reading took of a model, the warm-up question included; `fallbacks` were read by rules after all."""
    spent = sum((use.spent for use in uses), Usage())
    return {
        "model": uses[0].model if uses else None,
        "prompt": {"name": uses[0].prompt, "hash": uses[0].prompt_hash} if uses and uses[0].prompt else None,
        "calls": spent.calls,
        "cached": sum(use.is_cached for use in uses),
        "fallbacks": sum(bool(use.error_class) for use in uses),
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "cost_usd": spent.cost_usd,
    }


def _measure(
    answerer: Answering, strategy: str, records: Sequence[QuestionRecord], on_progress: OnProgress
) -> _Measured:
    measured = _Measured()
    _one(answerer, records[0], measured.uses)
    for done, record in enumerate(records, start=1):
        measured.outcomes.append(_one(answerer, record, measured.uses))
        if on_progress is not None:
            on_progress(strategy, done, len(records))
    return measured


def _one(answerer: Answering, record: QuestionRecord, uses: list[ModelUse]) -> Outcome:
    start = time.perf_counter()
    try:
        answered = answerer.answer([Question(record.question, record.id, topic=record.topic)], limit=DEPTH)[0]
    except PolyhopError as error:
        triples = () if answerer.ranks_triples else None
        return Outcome(() if answerer.ranks else None, error=str(error), is_read=answerer.reads, triples=triples)
    seconds = time.perf_counter() - start
    outcome = _outcome(answered, seconds, uses)
    return replace(
        outcome,
        ranking=outcome.ranking if answerer.ranks else None,
        triples=outcome.triples if answerer.ranks_triples or outcome.triples else None,
    )


def _outcome(answered: AnsweredQuestion, seconds: float, uses: list[ModelUse]) -> Outcome:
    reading = answered.reading
    own = [use for use in (reading.use, answered.naming) if use is not None]
    uses.extend(own)
    usage = sum((use.usage for use in own), Usage())
    return Outcome(
        ranking=tuple(passage.passage_id for passage in answered.retrieval.passages),
        answer=None if reading.kind == UNREAD else reading.answer,
        seconds=seconds,
        confidence=None if reading.kind in {"generated", UNREAD} else reading.confidence,
        kind=reading.kind,
        is_read=reading.kind != UNREAD,
        parts=dict(answered.seconds),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=usage.cost_usd,
        triples=tuple((t.subject_id, t.predicate, t.object_id) for t in answered.retrieval.triples),
    )


def _rows(
    records: Sequence[QuestionRecord],
    outcomes: Mapping[str, Sequence[Outcome]],
    values: Mapping[str, Sequence[QuestionValues]],
    version: int,
) -> list[dict[str, Any]]:
    rows = [
        {
            "id": record.id,
            "question": record.question,
            "strategy": strategy,
            "version": version,
            "answer": outcome.answer,
            "kind": outcome.kind,
            "confidence": outcome.confidence,
            "error": outcome.error,
            "ranking": None if outcome.ranking is None else outcome.ranking[:RANKING_KEPT],
            **({} if outcome.triples is None else {"triples": outcome.triples[:RANKING_KEPT]}),
            **value,
        }
        for strategy, given in outcomes.items()
        for record, outcome, value in zip(records, given, values[strategy], strict=True)
    ]
    whole: list[dict[str, Any]] = rounded(rows)
    return whole
