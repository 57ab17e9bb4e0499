"""Runs strategies over a question file: golden answers, costs, and the outcomes with their metrics.

Serial, one warm-up question left out of the timings (algorithms.md 6.4); a question that fails counts 0 and is listed.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import ConfigurationError, PolyhopError
from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.query import UNREAD, ModelUse, Question
from polyhop.schemas.records import BadRecord, QuestionRecord
from polyhop.schemas.requests import (
    ALL,
    OWN,
    EvaluationRequest,
    Variant,
    expand_labels,
    labels_in,
    parse_range,
    parse_variant,
)
from polyhop.schemas.runs import StageTiming
from polyhop.schemas.settings import CLOSED_BOOK, Settings, flatten, with_min_confidence
from polyhop.schemas.text import plural
from polyhop.schemas.version import VERSION
from polyhop.tasks.evaluation.bootstrap import DEFAULT_SEED, rest_of, sampled
from polyhop.tasks.evaluation.metrics import find_golden, possible_subjects
from polyhop.tasks.evaluation.report import (
    RANKING_KEPT,
    GoldQuestion,
    Outcome,
    QuestionValues,
    RunFacts,
    evaluate,
    question_values,
    rounded,
    run_document,
    timings_document,
)
from polyhop.tasks.registry import producing_stages, source_kind
from polyhop.tasks.stage import Stage
from polyhop.warehouse.artefacts import TRIPLES_OF_SUBJECTS
from polyhop.warehouse.files.disk import file_hash, require_place, write_json_lines
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import usable_questions
from polyhop.warehouse.files.versions import default_strategy_of, strategies_of
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.machine import machine, now, peak_rss_mb
from polyhop.warehouse.open import open_published
from polyhop.worker.answer import AnsweredQuestion, ClosedBookAnswerer
from polyhop.worker.session import IndexSession
from polyhop.worker.strategies.registry import STRATEGIES, needed_artefacts, spec_of

DEPTH = 100
"""MRR's depth (algorithms.md 6.2)."""


_BUILDING = ("corpus", "extraction", "resolution", "propositions")
_NOT_ANSWERING: Mapping[str, bool | set[str]] = {
    **dict.fromkeys((*_BUILDING, "root", "strategies", "batch_size", "keep_versions", "queue", "worker"), True),
    **dict.fromkeys(("max_cost_usd", "max_tokens", "min_coverage"), True),
    "models": {
        *("extract", "resolve", "api_base", "timeout_seconds", "max_attempts", "concurrency", "requests_per_minute"),
        *("tokens_per_minute", "prompt_price", "completion_price"),
    },
    "encoder": {"batch_size", "threads"},
    "reader": {"reads"},  # the run says who reads
}


def answering_settings(
    settings: Settings, built_with: Mapping[str, object], where: str | None = None
) -> dict[str, object]:
    """{name: value}; those that the version was built with begin with `index.`.

    Args:
        settings: Of this run.
        built_with: The settings in the version's manifest.
        where: The filter of the questions, if there is one: it is a setting, `questions.where`, too.
    """
    own = flatten(settings.model_dump(mode="json", exclude=_NOT_ANSWERING))
    building = {name: section for name, section in built_with.items() if name in _BUILDING}
    own |= {} if where is None else {"questions.where": where}
    return {**own, **{f"index.{name}": value for name, value in flatten(building).items()}}


def with_strategies(settings: Settings, request: EvaluationRequest) -> EvaluationRequest:
    """The request with the index's default strategy if it names none, and its own strategies in place of `own`."""
    labels = _written(request.strategies)
    if request.strategies and OWN not in labels:
        return request
    layout = Layout(settings.root)
    if not labels:
        return replace(request, strategies=(default_strategy_of(layout, request.index),))
    own = strategies_of(layout, request.index)
    named = [name for label in labels for name in (own if label == OWN else (label,))]
    return replace(request, strategies=tuple(dict.fromkeys(named)))


def labels_of(request: EvaluationRequest) -> list[str]:
    """The strategies and variants by name, `all` and ranges taken apart."""
    return expand_labels(_written(request.strategies), STRATEGIES)


def named_labels(request: EvaluationRequest) -> list[str]:
    """Those that were asked for by name or range, not by `all`."""
    return expand_labels((label for label in _written(request.strategies) if label != ALL), STRATEGIES)


def baselines_of(request: EvaluationRequest, labels: Sequence[str]) -> list[str]:
    """What the others are compared with: the baselines asked for, the first of the strategies if there are none."""
    baselines = list(dict.fromkeys(name for label in _written(request.baselines) for name in parse_range(label).points))
    for baseline in baselines:
        if baseline not in labels:
            raise ConfigurationError(f"The baseline '{baseline}' is not evaluated; evaluated: {', '.join(labels)}.")
    return baselines or list(labels[:1])


def ranges_of(request: EvaluationRequest) -> list[dict[str, Any]]:
    """The ranges for run.json, in the order written: [{label, parameters, points[{label, values}]}]."""
    ranges = [parse_range(label) for label in dict.fromkeys(_written(request.strategies))]
    return [
        {
            "label": one.label,
            "parameters": list(one.parameters),
            "points": [{"label": label, "values": list(values)} for label, values in one.points.items()],
        }
        for one in ranges
        if one.parameters
    ]


def check_sample(request: EvaluationRequest) -> None:
    """Refuses a sample of nothing, and a seed or a rest without a sample."""
    if request.sample is not None and request.sample < 1:
        raise ConfigurationError(f"A sample has at least 1 question, not {request.sample}; leave it out to ask all.")
    if request.sample is None and request.seed is not None:
        raise ConfigurationError("A seed belongs to a sample; say how many questions with --sample N.")
    if request.sample is None and request.asks_rest:
        raise ConfigurationError("The rest is what a sample leaves out; say how many questions with --sample N.")


def sample_of(
    request: EvaluationRequest, records: list[QuestionRecord]
) -> tuple[list[QuestionRecord], dict[str, int] | None]:
    """The questions that are asked, and the sample for run.json: {size, seed, of}, None where all are asked for.

    Of the rest that a sample leaves out it is {size, seed, of, rest}: the sample is not asked.
    """
    if request.sample is None:
        return records, None
    seed = DEFAULT_SEED if request.seed is None else request.seed
    chosen = sampled(records, request.sample, seed)
    row = {"size": request.sample, "seed": seed, "of": len(records)}
    if not request.asks_rest:
        return chosen, row
    left = rest_of(records, chosen)
    if not left:
        raise ConfigurationError(
            f"A sample of {request.sample} leaves out none of {plural(len(records), 'usable question')}; ask for fewer."
        )
    return left, {**row, "rest": True}


def _written(texts: Sequence[str]) -> list[str]:
    return [label for text in texts for label in labels_in(text, STRATEGIES)]


def cost_rows(published: PublishedIndex, variants: Mapping[str, Variant], report: Mapping[str, Any]) -> dict[str, Any]:
    """{label: {index{prompt_tokens, completion_tokens, seconds, stages}, question{…}}}, in the report's order.

    Args:
        published: The open version.
        variants: Strategies by label; a row that is none of them (closed-book) needs no index.
        report: From `polyhop.tasks.evaluation.report.evaluate`.

    `index` sums over the stages whose work is in the artefacts that the strategy declares. Tokens are those of the
    replies when they were made, whoever paid for them. Seconds are those of the runs that computed the results, None
    if one of them was not recorded; `stages` has each one, or None.
    """
    return {
        label: {"index": _index_cost(published, variants.get(label)), "question": _question_cost(result)}
        for label, result in report["strategies"].items()
    }


def _index_cost(published: PublishedIndex, variant: Variant | None) -> dict[str, Any]:
    stages = _stages_of(published, variant) if variant is not None else []
    recorded = published.stage_timings()
    timings = {stage.name: recorded.get(stage.name) for stage in stages}
    tokens = [_tokens_of(published, stage) for stage in stages]
    return {
        "prompt_tokens": sum(prompt for prompt, _ in tokens),
        "completion_tokens": sum(completion for _, completion in tokens),
        "seconds": _sum_of(timings),
        "stages": {name: timing.model_dump() if timing else None for name, timing in timings.items()},
    }


def _stages_of(published: PublishedIndex, variant: Variant) -> list[Stage]:
    spec = spec_of(variant.strategy)
    artefacts = {*spec.needs, "entities"} if spec.needs_question_names else spec.needs
    return producing_stages(artefacts, source_kind(published.manifest.stages))


def _tokens_of(published: PublishedIndex, stage: Stage) -> tuple[int, int]:
    """Those of the ledger for the stage that fills it; what others counted, if they asked a model."""
    if "extraction_ledger" in stage.table_names:
        return published.extraction_tokens()
    record = published.manifest.stages.get(stage.name)
    counts = record.counts if record else {}
    return counts.get("prompt_tokens", 0), counts.get("completion_tokens", 0)


def _sum_of(timings: Mapping[str, StageTiming | None]) -> float | None:
    known = [timing.seconds for timing in timings.values() if timing is not None]
    return sum(known) if len(known) == len(timings) else None


def _question_cost(result: Mapping[str, Any]) -> dict[str, Any]:
    mean = result["latency_ms"]["mean"]
    return {
        "prompt_tokens": result["tokens"]["prompt_per_question"],
        "completion_tokens": result["tokens"]["completion_per_question"],
        "seconds": None if mean is None else mean / 1000,
    }


@dataclass(frozen=True, slots=True)
class Gold:
    """The questions' gold.

    Attributes:
        questions: In the file's order.
        unknown_supporting: Supporting ids that the index holds neither as a record nor as a piece of one, each once.
        triple_count: Golden triples of all questions; one of two questions counts twice.
        unknown_triples: Those of them that are not in the graph.
    """

    questions: list[GoldQuestion]
    unknown_supporting: list[str]
    triple_count: int
    unknown_triples: int


def gold_of(records: Sequence[QuestionRecord], published: IndexReader) -> Gold:
    """The gold of questions; golden triples that are not in the graph stay as they are and will never be found."""
    golden = [triple for record in records for triple in record.golden_triples]
    rows = published.artefact(TRIPLES_OF_SUBJECTS)(possible_subjects(golden)) if golden else []
    ids = find_golden(golden, [NamedTriple(*row) for row in rows])
    questions = [
        GoldQuestion(
            record.id,
            record.answers,
            frozenset(record.supporting),
            record.hops,
            record.type,
            frozenset(ids.get(triple, triple) for triple in record.golden_triples),
            record.metadata,
        )
        for record in records
    ]
    unknown = sum(triple not in ids for triple in golden)
    return Gold(questions, _unknown_supporting(records, published), len(golden), unknown)


def _unknown_supporting(records: Iterable[QuestionRecord], published: IndexReader) -> list[str]:
    known = set(published.passage_ids)
    known.update(map(published.record_of, published.passage_ids))
    return list(dict.fromkeys(one for record in records for one in record.supporting if one not in known))


def golden_triples_row(gold: Gold, outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    """{golden_triples{questions, triples, unknown, not_ranked_by[]}} for the report; empty without golden triples."""
    if not gold.triple_count:
        return {}
    unranked = [name for name, given in outcomes.items() if all(outcome.triples is None for outcome in given)]
    return {
        "golden_triples": {
            "questions": sum(bool(question.triples) for question in gold.questions),
            "triples": gold.triple_count,
            "unknown": gold.unknown_triples,
            "not_ranked_by": unranked,
        }
    }


def golden_sentences(report: Mapping[str, Any]) -> list[str]:
    """What was not judged by golden triples: those that the graph does not have, strategies that rank none."""
    golden = report.get("golden_triples") or {"unknown": 0, "not_ranked_by": []}
    sentences = []
    if golden["unknown"]:
        be, count = ("is", "counts") if golden["unknown"] == 1 else ("are", "count")
        which = f"{golden['unknown']} of {golden['triples']} golden triples {be}"
        sentences.append(f"{which} not in the graph of '{report['index']}' and {count} as missed.")
    if golden["not_ranked_by"]:
        sentences.append(f"Not judged by golden triples, because they rank none: {', '.join(golden['not_ranked_by'])}.")
    return sentences


class Answering(Protocol):
    """Answers questions: a strategy with a reader, one without, or a model without passages."""

    @property
    def ranks(self) -> bool:
        """Whether it ranks passages."""
        ...

    @property
    def ranks_triples(self) -> bool:
        """Whether it ranks triples."""
        ...

    @property
    def reads(self) -> bool:
        """Whether it reads answers."""
        ...

    def answer(self, questions: Sequence[Question], *, limit: int) -> list[AnsweredQuestion]:
        """One answer per question, in order."""
        ...


def served(
    session: IndexSession, variants: Sequence[Variant], asked: Sequence[str]
) -> tuple[dict[str, Answering], dict[str, str]]:
    """Answerers by label, and the strategies that came with `all` and cannot be served, with the reason.

    Args:
        session: The open version.
        variants: All that are to be evaluated.
        asked: Labels of those that did not only come with `all`.

    Raises:
        PolyhopError: If a strategy cannot be served that was asked for by name.
        ConfigurationError: If none is left.
    """
    ready: dict[str, Answering] = {}
    left_out: dict[str, str] = {}
    for variant in variants:
        try:
            ready[variant.label] = session.answerer(variant.strategy, variant.parameters)
        except PolyhopError as error:
            if variant.label in asked:
                raise
            left_out[variant.label] = str(error)
    if not ready:
        raise ConfigurationError("There is no strategy to evaluate; name some with --strategies a,b or use 'all'.")
    return ready, left_out


def closed_book_labels(request: EvaluationRequest) -> list[str]:
    """The row's label, if it is asked for."""
    return [CLOSED_BOOK] if request.closed_book else []


def check_closed_book(settings: Settings, request: EvaluationRequest) -> None:
    """Refuses a closed-book row without a model that reads."""
    if request.closed_book and not (settings.reader.reads and settings.models.chat_reader):
        raise ConfigurationError(
            "--closed-book asks a chat model without passages, so it needs --reader model and models.read; rules, and "
            "models that mark answers, know nothing without passages."
        )


def closed_book_answerers(session: IndexSession, request: EvaluationRequest) -> dict[str, ClosedBookAnswerer]:
    """The answerer of the row by its label; empty if it is not asked for."""
    return {label: session.closed_book() for label in closed_book_labels(request)}


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
    """Evaluates strategies on a question file."""
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
