"""Evaluations: strategies run over a question file, judged, stored with their report, listed, compared, and tuned.

Serial, one warm-up question left out of the timings (algorithms.md 6.4); a question that fails counts 0 and is listed.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

from polyhop.flows.evaluation import report as reporting
from polyhop.flows.evaluation.bootstrap import DEFAULT_SEED, rest_of, sampled
from polyhop.flows.evaluation.metrics import TRIPLE_METRICS, find_golden, possible_subjects
from polyhop.flows.evaluation.tuning import MOST_TUNED, EvaluatedPart, check_parts, chosen_setting, tuning_document
from polyhop.schemas import requests
from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import ConfigurationError, ContractError, PolyhopError, StoreConflictError
from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.query import UNREAD, ModelUse, Question
from polyhop.schemas.records import BadRecord, QuestionRecord
from polyhop.schemas.settings import ANSWERS, CLOSED_BOOK, INDEX, Settings, flatten, settings_with, with_min_confidence
from polyhop.schemas.text import plural
from polyhop.schemas.version import VERSION
from polyhop.tasks.registry import producing_stages, source_kind
from polyhop.warehouse.artefacts import TRIPLES_OF_SUBJECTS
from polyhop.warehouse.files import evaluations
from polyhop.warehouse.files.disk import JSON_LINES, file_hash, require_writable, write_json_lines
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import usable_questions
from polyhop.warehouse.files.versions import default_strategy_of, strategies_of
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.machine import machine, now, peak_rss_mb
from polyhop.warehouse.open import open_published
from polyhop.warehouse.open_models import require_named_encoder
from polyhop.worker.answer import AnsweredQuestion, Answerer, ClosedBookAnswerer
from polyhop.worker.session import IndexSession
from polyhop.worker.strategies.base import StrategySpec
from polyhop.worker.strategies.registry import STRATEGIES, needed_artefacts, parse_setting, spec_of

DEPTH = 100  # passages asked for: MRR's depth (algorithms.md 6.2)
_OUT = "the per-question file"
SHOWN = ("recall@2", "recall@5", "recall@10", "mrr", "em", "f1", "containment")
SHOWN_OF_TRIPLES = ("triple_recall@10", "triple_recall@30", "triple_mrr")  # shown if the questions have golden triples
OnProgress = Callable[[str, int, int], None] | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of an evaluation: the JSON of `polyhop eval`, its stored form, and the skipped question records."""

    report: dict[str, Any]
    run: dict[str, Any]
    timings: dict[str, Any]
    rows: list[dict[str, Any]]
    bad: list[BadRecord]


Measured = tuple[list[reporting.Outcome], list[ModelUse]]
"""Outcomes of one strategy, and what reading took of a model, the warm-up question included."""
RunStrategy = Callable[[str, Callable[[], Measured]], Measured]
"""Runs the measurement of a strategy, which is named: directly, or as a task of a flow run."""


def evaluate_index(
    settings: Settings,
    request: requests.EvaluationRequest,
    on_progress: OnProgress = None,
    run_strategy: RunStrategy = lambda _name, measure: measure(),
) -> Evaluation:
    """Evaluates, judges the gates and stores; the report says what became of the gates, and where the run is.

    A gate that fails raises nothing: what was measured is shown first, then `failure_sentence` says what failed.
    """
    request = with_strategies(settings, request)
    gates = [reporting.parse_gate(text) for text in request.fail_below]
    reporting.check_names(gates, [*labels_of(request), *([CLOSED_BOOK] if request.closed_book else [])])
    reporting.check_measured(gates, unranked=CLOSED_BOOK, reads=settings.reader.reads)
    folder = Layout(settings.root).evaluations
    if request.is_stored:
        evaluations.check_folder(folder)
    evaluation = run_evaluation(settings, request, on_progress, run_strategy)
    strategies = evaluation.report["strategies"]
    reporting.check_names(gates, list(strategies))  # again: of `all`, some could not be served
    rows = reporting.gate_rows(gates, strategies, unranked=CLOSED_BOOK)
    report = {**evaluation.report, "gates": rows, "run": None, "folder": None}
    if request.is_stored:
        from polyhop.flows.evaluation.page import report_page, report_plots, summary_markdown

        run, timings = evaluation.run, evaluation.timings
        plots = report_plots(run)
        files = {
            evaluations.RUN: reporting.json_bytes(run),
            evaluations.TIMINGS: reporting.json_bytes(timings),
            evaluations.QUESTIONS: reporting.json_lines(evaluation.rows),
            evaluations.REPORT: report_page(run, timings, plots).encode(),
            evaluations.SUMMARY: summary_markdown(run, timings).encode(),
        }
        number, run_folder = evaluations.store_run(folder, files | plots)
        report |= {"run": number, "folder": str(run_folder)}
    return replace(evaluation, report=report)


def run_evaluation(
    settings: Settings,
    request: requests.EvaluationRequest,
    on_progress: OnProgress = None,
    run_strategy: RunStrategy = lambda _name, measure: measure(),
) -> Evaluation:
    """Evaluates strategies on a question file."""
    started, start = now(), time.perf_counter()
    settings = with_min_confidence(settings, request.min_confidence)
    request = with_strategies(settings, request)
    _check(settings, request)
    variants = {label: requests.parse_variant(label, request.parameters) for label in labels_of(request)}
    needed_artefacts([variant.strategy for variant in variants.values()])  # refuses one that does not exist
    records, bad = usable_questions(request.questions)
    records, sample = _sample_of(request, records)
    with closing(IndexSession(open_published(settings.root, request.index), settings)) as session:
        published = session.published
        filtered = session.where(request.where)
        answerers, left_out = _served(filtered, request, variants)
        _require_encoders(settings, published, variants.values())
        if request.closed_book:
            answerers[CLOSED_BOOK] = session.closed_book()
        baselines = _baselines_of(request, list(answerers))
        gold = gold_of(records, published)
        measured = {
            name: run_strategy(name, partial(_measure, answerer, name, records, on_progress))
            for name, answerer in answerers.items()
        }
        outcomes = {name: found for name, (found, _) in measured.items()}
        values = {
            name: reporting.question_values(gold.questions, got, published.record_of) for name, got in outcomes.items()
        }
        evaluated = reporting.evaluate(gold.questions, outcomes, published.record_of, baselines)
        report = {"index": session.name, "version": session.version, "filter": filtered.filter_row, **evaluated}
        report |= _golden_triples_row(gold, outcomes)
        report["costs"] = cost_rows(published, variants, evaluated)
        report["reading"] = {name: _taken(uses) for name, (_, uses) in measured.items()}
        rows = _rows(records, outcomes, values, session.version)
        facts = {
            "index": session.name,
            "version": session.version,
            "questions": {"file": request.questions.name, "sha256": file_hash(request.questions, "the questions")}
            | {"left_out": len(bad), "unknown_supporting": len(gold.unknown_supporting), "sample": sample},
            "left_out": left_out,
            "parameters": dict(sorted(request.parameters.items())),
            "settings": answering_settings(settings, published.manifest.settings, request.where),
            "reader": (settings.models.read if settings.reader.reads else "") or settings.reader.name,
            "depth": DEPTH,
            "ranges": _ranges_of(request),
        }
    run = reporting.run_document({"polyhop": VERSION, **facts}, report, values, baselines)
    timings = reporting.timings_document(report, started, time.perf_counter() - start, machine(), peak_rss_mb())
    report |= {name: run[name] for name in ("baseline", "baselines", "ranges", "interval", "settings_hash")}
    report |= {"left_out": left_out, "unknown_supporting": len(gold.unknown_supporting), "sample": sample}
    report["reader"] = facts["reader"]
    if request.out is not None:
        write_json_lines(request.out, rows, _OUT)
    return Evaluation(report, run, timings, rows, bad)


def _require_encoders(settings: Settings, published: PublishedIndex, variants: Collection[requests.Variant]) -> None:
    """Refuses encoders that only a pulled manifest names, before every question fails by them."""
    if any(STRATEGIES[variant.strategy].needs_question_vector for variant in variants):
        for record in published.manifest.vectors.values():
            require_named_encoder(settings, published.layout.index(published.name), record.encoder)


def _check(settings: Settings, request: requests.EvaluationRequest) -> None:
    """Refuses what can be refused before anything runs."""
    if request.closed_book and not (settings.reader.reads and settings.models.read):
        raise ConfigurationError(
            "--closed-book asks a chat model without passages, so it needs --reader model and models.read."
        )
    for size in (request.sample, request.first):
        if size is not None and size < 1:
            raise ConfigurationError(f"A sample needs at least 1 question, not {size}; leave it out to ask all.")
    if request.sample is not None and request.first is not None:
        raise ConfigurationError("--first and --sample choose different questions; leave out one of them.")
    if request.sample is None and request.seed is not None:
        raise ConfigurationError("--seed needs --sample N.")
    if request.sample is None and request.asks_rest:
        raise ConfigurationError("--rest needs --sample N.")
    if request.out is not None:
        if request.out.exists() and request.questions.exists() and request.out.samefile(request.questions):
            raise ConfigurationError(f"--out would replace the questions in {request.questions}; name another file.")
        require_writable(request.out, _OUT, JSON_LINES)


def with_strategies(settings: Settings, request: requests.EvaluationRequest) -> requests.EvaluationRequest:
    """The request with the index's default strategy if it names none, and its own strategies instead of `own`."""
    labels = _written(request.strategies)
    if request.strategies and requests.OWN not in labels:
        return request
    layout = Layout(settings.root)
    if not labels:
        return replace(request, strategies=(default_strategy_of(layout, request.index),))
    own = strategies_of(layout, request.index)
    named = [name for label in labels for name in (own if label == requests.OWN else (label,))]
    return replace(request, strategies=tuple(dict.fromkeys(named)))


def labels_of(request: requests.EvaluationRequest) -> list[str]:
    """The strategies and variants by name, `all` and ranges taken apart."""
    return requests.expand_labels(_written(request.strategies), STRATEGIES)


def _written(texts: Sequence[str]) -> list[str]:
    return [label for text in texts for label in requests.labels_in(text, STRATEGIES)]


def _baselines_of(request: requests.EvaluationRequest, evaluated: list[str]) -> list[str]:
    """Baselines of the comparison: the requested ones, by default the first strategy."""
    asked = [name for label in _written(request.baselines) for name in requests.parse_range(label).points]
    for name in asked:
        if name not in evaluated:
            raise ConfigurationError(f"The baseline '{name}' is not evaluated; evaluated: {', '.join(evaluated)}.")
    return list(dict.fromkeys(asked)) or evaluated[:1]


def _ranges_of(request: requests.EvaluationRequest) -> list[dict[str, Any]]:
    """The ranges for run.json, in the order written: [{label, parameters, points[{label, values}]}]."""
    ranges = map(requests.parse_range, dict.fromkeys(_written(request.strategies)))
    return [
        {
            "label": one.label,
            "parameters": list(one.parameters),
            "points": [{"label": label, "values": list(values)} for label, values in one.points.items()],
        }
        for one in ranges
        if one.parameters
    ]


def _sample_of(
    request: requests.EvaluationRequest, records: list[QuestionRecord]
) -> tuple[list[QuestionRecord], dict[str, int | None] | None]:
    """The questions that are asked, and the sample for run.json: {size, seed, of}, None where all are asked for.

    The first questions of the file are a sample without a seed.
    """
    if request.first is not None:
        return records[: request.first], {"size": request.first, "seed": None, "of": len(records)}
    if request.sample is None:
        return records, None
    seed = DEFAULT_SEED if request.seed is None else request.seed
    chosen = sampled(records, request.sample, seed)
    row: dict[str, int | None] = {"size": request.sample, "seed": seed, "of": len(records)}
    if not request.asks_rest:
        return chosen, row
    left = rest_of(records, chosen)
    if not left:
        raise ConfigurationError(
            f"A sample of {request.sample} leaves out none of {plural(len(records), 'usable question')}; ask for fewer."
        )
    return left, {**row, "rest": True}


def answering_settings(
    settings: Settings, built_with: Mapping[str, object], where: str | None = None
) -> dict[str, object]:
    """Settings that determine the answers, {name: value}; those of the index begin with `index.`."""
    own = flatten(settings.model_dump(mode="json", include=settings_with(ANSWERS)))
    own |= {} if where is None else {"questions.where": where}
    building = flatten(built_with)
    return own | {f"index.{name}": building[name] for name in flatten(settings_with(INDEX)) if name in building}


def _served(
    session: IndexSession, request: requests.EvaluationRequest, variants: Mapping[str, requests.Variant]
) -> tuple[dict[str, Answerer | ClosedBookAnswerer], dict[str, str]]:
    """Answerers by label, and the strategies that came with `all` and cannot be served, with the reason."""
    asked = requests.expand_labels((one for one in _written(request.strategies) if one != requests.ALL), STRATEGIES)
    ready: dict[str, Answerer | ClosedBookAnswerer] = {}
    left_out: dict[str, str] = {}
    for label, variant in variants.items():
        try:
            ready[label] = session.answerer(variant.strategy, variant.parameters)
        except PolyhopError as error:
            if label in asked:  # by name or range
                raise
            left_out[label] = str(error)
    if not ready:
        raise ConfigurationError("No strategy to evaluate; name some with --strategies a,b or use 'all'.")
    return ready, left_out


class Gold(NamedTuple):
    """The questions' gold, in order; supporting ids that the index does not hold, each once; how many golden triples.

    A triple of two questions counts twice; unknown ones are not in the graph.
    """

    questions: list[reporting.GoldQuestion]
    unknown_supporting: list[str]
    triple_count: int
    unknown_triples: int


def gold_of(records: Sequence[QuestionRecord], published: IndexReader) -> Gold:
    """The gold of questions; golden triples that are not in the graph stay as they are and will never be found."""
    golden = [triple for record in records for triple in record.golden_triples]
    rows = published.artefact(TRIPLES_OF_SUBJECTS)(possible_subjects(golden)) if golden else []
    ids = find_golden(golden, [NamedTriple(*row) for row in rows])
    questions = []
    for record in records:
        triples = frozenset(ids.get(triple, triple) for triple in record.golden_triples)
        asked = record.id, record.answers, frozenset(record.supporting), record.hops, record.type
        questions.append(reporting.GoldQuestion(*asked, triples, record.metadata))
    known = {*published.passage_ids, *map(published.record_of, published.passage_ids)}
    unknown = dict.fromkeys(one for record in records for one in record.supporting if one not in known)
    return Gold(questions, list(unknown), len(golden), sum(triple not in ids for triple in golden))


def _golden_triples_row(gold: Gold, outcomes: Mapping[str, Sequence[reporting.Outcome]]) -> dict[str, Any]:
    """{golden_triples{questions, triples, unknown, not_ranked_by[]}} for the report; empty without golden triples."""
    if not gold.triple_count:
        return {}
    unranked = [name for name, given in outcomes.items() if all(outcome.triples is None for outcome in given)]
    asked = sum(bool(question.triples) for question in gold.questions)
    found = {"questions": asked, "triples": gold.triple_count, "unknown": gold.unknown_triples}
    return {"golden_triples": {**found, "not_ranked_by": unranked}}


def cost_rows(
    published: PublishedIndex, variants: Mapping[str, requests.Variant], report: Mapping[str, Any]
) -> dict[str, Any]:
    """{label: {index{prompt_tokens, completion_tokens, seconds, stages}, question{…}}}, in the report's order.

    `index` sums over the stages whose work is in the artefacts that the strategy declares; closed-book needs none.
    Tokens are those of the replies when they were made, also of cached ones. Seconds are those of the runs that
    computed the results, None if one of them was not recorded; `stages` has each one, or None.
    """
    found = {}
    for label, result in report["strategies"].items():
        tokens, mean = result["tokens"], result["latency_ms"]["mean"]
        question = {f"{kind}_tokens": tokens[f"{kind}_per_question"] for kind in ("prompt", "completion")}
        question["seconds"] = None if mean is None else mean / 1000
        found[label] = {"index": _index_cost(published, variants.get(label)), "question": question}
    return found


def _index_cost(published: PublishedIndex, variant: requests.Variant | None) -> dict[str, Any]:
    manifest, recorded = published.manifest, published.stage_timings()
    stages = []
    if variant is not None:
        spec = spec_of(variant.strategy)
        artefacts = {*spec.needs, "entities"} if spec.needs_question_names else spec.needs
        stages = producing_stages(artefacts, source_kind(manifest.stages))
    tokens = []
    for stage in stages:
        counts = record.counts if (record := manifest.stages.get(stage.name)) else {}
        # those of the ledger for the stage that fills it; what others counted, if they asked a model
        is_ledger = "extraction_ledger" in stage.table_names
        own = counts.get("prompt_tokens", 0), counts.get("completion_tokens", 0)
        tokens.append(published.extraction_tokens() if is_ledger else own)
    uses = {stage.name: recorded.get(stage.name) for stage in stages}
    seconds = [use.seconds for use in uses.values() if use is not None]
    return {
        "prompt_tokens": sum(prompt for prompt, _ in tokens),
        "completion_tokens": sum(completion for _, completion in tokens),
        "seconds": sum(seconds) if len(seconds) == len(uses) else None,
        "stages": {name: use and use.model_dump() for name, use in uses.items()},
    }


def _taken(uses: Sequence[ModelUse]) -> dict[str, Any]:
    """Model use of reading, the warm-up question included; `fallbacks` were read without the model instead."""
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
    answerer: Answerer | ClosedBookAnswerer, strategy: str, records: Sequence[QuestionRecord], on_progress: OnProgress
) -> Measured:
    outcomes: list[reporting.Outcome] = []
    uses: list[ModelUse] = []
    _one(answerer, records[0], uses)
    for done, record in enumerate(records, start=1):
        outcomes.append(_one(answerer, record, uses))
        if on_progress is not None:
            on_progress(strategy, done, len(records))
    return outcomes, uses


def _one(answerer: Answerer | ClosedBookAnswerer, record: QuestionRecord, uses: list[ModelUse]) -> reporting.Outcome:
    start = time.perf_counter()
    try:
        answered: AnsweredQuestion
        (answered,) = answerer.answer([Question(record.question, record.id, topic=record.topic)], limit=DEPTH)
    except PolyhopError as error:
        triples = () if answerer.ranks_triples else None
        return reporting.Outcome(
            () if answerer.ranks else None, error=str(error), is_read=answerer.reads, triples=triples
        )
    seconds = time.perf_counter() - start
    reading = answered.reading
    own = [use for use in (reading.use, answered.naming) if use is not None]
    uses.extend(own)
    usage = sum((use.usage for use in own), Usage())
    ranked = tuple((t.subject_id, t.predicate, t.object_id) for t in answered.retrieval.triples)
    return reporting.Outcome(
        ranking=tuple(passage.passage_id for passage in answered.retrieval.passages) if answerer.ranks else None,
        guess=None if reading.kind == UNREAD else reading.guess,
        answer=None if reading.kind == UNREAD else reading.answer,
        sentences=tuple(map(asdict, reading.sentences)),
        seconds=seconds,
        confidence=None if reading.kind in {"generated", UNREAD} else reading.confidence,
        kind=reading.kind,
        is_read=reading.kind != UNREAD,
        parts=dict(answered.seconds),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=usage.cost_usd,
        triples=ranked if answerer.ranks_triples or ranked else None,
    )


def _rows(
    records: Sequence[QuestionRecord],
    outcomes: Mapping[str, Sequence[reporting.Outcome]],
    values: Mapping[str, Sequence[reporting.QuestionValues]],
    version: int,
) -> list[dict[str, Any]]:
    rows = [
        {
            "id": record.id,
            "question": record.question,
            "strategy": strategy,
            "version": version,
            "answer": outcome.answer,
            "guess": outcome.guess,
            "sentences": list(outcome.sentences),
            "kind": outcome.kind,
            "confidence": outcome.confidence,
            "error": outcome.error,
            "ranking": None if outcome.ranking is None else outcome.ranking[: reporting.RANKING_KEPT],
            **({} if outcome.triples is None else {"triples": outcome.triples[: reporting.RANKING_KEPT]}),
            **value,
        }
        for strategy, given in outcomes.items()
        for record, outcome, value in zip(records, given, values[strategy], strict=True)
    ]
    return cast("list[dict[str, Any]]", reporting.rounded(rows))


def left_out_sentences(evaluation: Evaluation) -> list[str]:
    """Sentences about skipped question records, supporting ids, golden triples and strategies, with reasons."""
    report = evaluation.report
    sentences = [f"{record.source} line {record.line} was left out: {record.reason}" for record in evaluation.bad]
    if report["unknown_supporting"]:
        sentences.append(
            f"{plural(report['unknown_supporting'], 'supporting id')} counted as missed, in no passage of "
            f"'{report['index']}'; were the questions written for another corpus?"
        )
    sentences += _without_gold(report)
    golden = report.get("golden_triples") or {"unknown": 0, "not_ranked_by": []}
    if golden["unknown"]:
        be, count = ("is", "counts") if golden["unknown"] == 1 else ("are", "count")
        which = f"{golden['unknown']} of {golden['triples']} golden triples {be}"
        sentences.append(f"{which} not in the graph of '{report['index']}' and {count} as missed.")
    if golden["not_ranked_by"]:
        sentences.append(
            f"Not scored by golden triples, because they rank no triples: {', '.join(golden['not_ranked_by'])}."
        )
    sample = report["sample"]
    if sample is not None and sample["size"] > sample["of"] and not sample.get("rest"):
        sentences.append(
            f"The sample of {sample['size']} includes all questions: {plural(sample['of'], 'usable question')}."
        )
    left_out: dict[str, str] = report["left_out"]
    if left_out:
        why = "" if len(left_out) == 1 else "; the report lists all reasons, the first is: "
        names = f"{plural(len(left_out), 'strategy', 'strategies')} of 'all' left out: {', '.join(left_out)}"
        sentences.append(f"{names}{why or ': '}{next(iter(left_out.values()))}")
    return sentences


def _without_gold(report: Mapping[str, Any]) -> list[str]:
    """Sentences about missing gold: answers only, or everything."""
    has_answers = any(found["answered"]["share"] is not None for found in report["strategies"].values())
    if has_answers:
        return []
    if report["excluded"] == report["n"] and "golden_triples" not in report:
        fields = "'answers', 'supporting' or 'golden_triples'"
        return [f"Nothing was scored: no question has {fields}; add them to the question file."]
    if report["reader"] == "none":
        return []
    return ["Answers were not scored (no em, no f1): no question has gold answers; add them as 'answers'."]


def stored_run(settings: Settings, number: int) -> evaluations.StoredRun:
    """One stored evaluation."""
    return evaluations.read_run(Layout(settings.root).evaluations, number)


def stored_rows(settings: Settings) -> list[dict[str, Any]]:
    """Stored evaluations, oldest first, one row each; an unreadable one is {run, error}."""
    folder = Layout(settings.root).evaluations
    rows: list[dict[str, Any]] = []
    for number in evaluations.run_numbers(folder):
        try:
            stored = evaluations.read_run(folder, number)
        except ContractError as error:
            rows.append({"run": number, "error": str(error)})
            continue
        rows.append({**stored_row(stored), "folder": str(stored.path)})
    return rows


def stored_row(stored: evaluations.StoredRun) -> dict[str, Any]:
    """An evaluation with the figures by which a list shows it."""
    run, asked = stored.run, stored.run["questions"]
    figures = {name: run["results"][name] for name in run["strategies"]}
    facts = {"started": stored.timings["started"], "index": run["index"], "version": run["version"]}
    questions = {"questions": asked["file"], "n": asked["n"], "sample": asked.get("sample")}
    strategies = {
        name: {"recall@5": found.get("recall@5"), "em": found.get("em")}
        | {metric: found[metric] for metric in ("triple_recall@10",) if metric in found}
        for name, found in figures.items()
    }
    return {"run": stored.number, **facts, **questions, "settings_hash": run["settings_hash"], "strategies": strategies}


def compare(settings: Settings, first: int, second: int) -> dict[str, Any]:
    """Compares two stored evaluations."""
    one, other = stored_run(settings, first), stored_run(settings, second)
    changes = reporting.compare_runs(one.run, other.run, (one.question_rows(), other.question_rows()))
    latency = {
        name: {key: [_latency(run, name).get(key) for run in (one, other)] for key in ("p50", "p95")}
        for name in changes["strategies"]
    }
    started = [one.timings["started"], other.timings["started"]]
    return {"first": first, "second": second, "started": started, **changes, "latency_ms": latency}


def _latency(stored: evaluations.StoredRun, strategy: str) -> dict[str, float | None]:
    found: dict[str, float | None] = stored.timings["strategies"].get(strategy, {}).get("latency_ms", {})
    return found


def strategy_rows(stored: evaluations.StoredRun) -> list[dict[str, Any]]:
    """One row per strategy, the best by recall@5 (or of triples) first: metrics, share shown, latency, failures."""
    rows = []
    for name in stored.run["strategies"]:
        result, latency = stored.run["results"][name], _latency(stored, name)
        figures = {metric: result[metric] for metric in (*SHOWN, *SHOWN_OF_TRIPLES) if metric in result}
        figures |= {"shown": result["shown"]["share"], "p50 ms": latency["p50"], "p95 ms": latency["p95"]}
        shown = {key: None if value is None else round(value, 4) for key, value in figures.items()}
        rows.append({"strategy": name, **shown, "failures": result["failures"]})
    rows.sort(key=lambda row: -(row["recall@5"] or row.get(SHOWN_OF_TRIPLES[0]) or 0.0))
    return rows


@dataclass(frozen=True, slots=True)
class Tuning:
    """Result of tuning: the JSON of `polyhop tune`, and its sentences."""

    report: dict[str, Any]
    sentences: list[str]


def tune_index(settings: Settings, request: requests.TuningRequest, on_progress: OnProgress = None) -> Tuning:
    """Tries settings on a sample, judges the best one and the default on the rest, stores both with a report."""
    spec, tried = _tried(settings, request)
    records, _ = usable_questions(request.questions)
    size = min(MOST_TUNED, len(records) // 2) if request.sample is None else request.sample
    if size < 1:
        raise ConfigurationError(
            f"A sample needs at least 1 question, not {size}; leave it out to use half of the questions."
        )
    seed = DEFAULT_SEED if request.seed is None else request.seed
    sample = sampled(records, size, seed)
    check_parts((sample, rest_of(records, sample)), request.metric)
    folder = Layout(settings.root).tunings
    if request.is_stored:
        evaluations.check_folder(folder)

    asked = requests.EvaluationRequest(request.questions, request.index, (), request.parameters, baselines=(spec.name,))
    asked = replace(asked, is_stored=False, sample=size, seed=seed)
    tuning = run_evaluation(settings, replace(asked, strategies=(spec.name, tried.label)), on_progress)
    chosen = chosen_setting(request.metric, spec.name, [spec.name, *tried.points], tuning.run)
    both = tuple(dict.fromkeys((spec.name, chosen)))
    rest = run_evaluation(settings, replace(asked, strategies=both, asks_rest=True), on_progress)
    if rest.report["version"] != tuning.report["version"]:
        raise StoreConflictError(
            f"Version {rest.report['version']} of '{request.index}' was published while version "
            f"{tuning.report['version']} was tuned, so that the two parts cannot be compared; run polyhop tune again."
        )
    on_sample, on_rest = (EvaluatedPart(one.run, one.rows) for one in (tuning, rest))
    questions = tuning.run["questions"]
    report: dict[str, Any] = reporting.rounded(
        {
            "index": tuning.report["index"],
            "version": tuning.report["version"],
            "questions": {"file": questions["file"], "sha256": questions["sha256"], "of": questions["sample"]["of"]},
            "seed": seed,
            "reader": tuning.report["reader"],
            **tuning_document(request.metric, spec.name, tried, on_sample, on_rest, request.parameters),
            "interval": tuning.run["interval"],
            "failures": {label: found["failures"] for label, found in rest.run["results"].items()},
            "settings_hash": tuning.run["settings_hash"],
        }
    )
    stored: dict[str, Any] = {"run": None, "folder": None}
    if request.is_stored:
        from polyhop.flows.evaluation.tuning import tuning_page

        files = {
            evaluations.TUNING: reporting.json_bytes(report),
            evaluations.REPORT: tuning_page(report, tuning.run, tuning.timings).encode(),
        }
        number, run_folder = evaluations.store_run(folder, files, evaluations.TUNING)
        stored = {"run": number, "folder": str(run_folder)}
    return Tuning(report | stored, list(dict.fromkeys([*left_out_sentences(tuning), *left_out_sentences(rest)])))


def _tried(settings: Settings, request: requests.TuningRequest) -> tuple[StrategySpec, requests.Range]:
    """The strategy and its settings: the label's own ranges, or the strategy's grid but for what the label fixes."""
    label = request.strategy or default_strategy_of(Layout(settings.root), request.index)
    labels = requests.labels_in(label, STRATEGIES)
    if len(labels) != 1:
        raise ConfigurationError(f"polyhop tune takes one strategy, not {len(labels)}: {', '.join(labels) or 'none'}.")
    spec, metric = spec_of(label.partition(":")[0].strip()), request.metric
    if metric not in reporting.ALL_METRICS:
        raise ConfigurationError(f"Unknown metric '{metric}' to tune by; metrics: {', '.join(reporting.ALL_METRICS)}.")
    if metric in reporting.ANSWER_METRICS and not settings.reader.reads:
        raise ConfigurationError(f"Tuning by {metric} needs answers; use --reader spans or model.")
    if metric in TRIPLE_METRICS and not spec.ranks_triples:
        raise ConfigurationError(
            f"Tuning by {metric} needs ranked triples, but strategy '{spec.name}' ranks passages only."
        )
    if not requests.parse_range(label).parameters:
        fixed = requests.parse_variant(label, {}).parameters
        grid = [f"{name}={values}" for name, values in spec.parameters.grid.items() if name not in fixed]
        if not grid:
            raise ConfigurationError(
                f"Strategy '{spec.name}' has no default values to try; name some, like bridge:graph_weight=.2,.35,.5."
            )
        label = ":".join((label, *grid))
    tried = requests.parse_range(label)
    # values out of their range are refused, and a single setting
    parse_setting(spec, request.parameters)
    first, *others = [
        parse_setting(spec, requests.parse_variant(one, request.parameters).parameters) for one in tried.points
    ]
    if all(other == first for other in others):
        raise ConfigurationError(
            f"'{tried.label}' is a single setting; give a parameter several "
            "values, or compare it with the default by polyhop eval."
        )
    return spec, tried
