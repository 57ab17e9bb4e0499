"""Tuning a strategy: settings tried on a sample of the questions, the best one and the default judged on the rest."""

from dataclasses import dataclass
from typing import Any

from polyhop.flows.evaluate import OnProgress, left_out_sentences, run_evaluation
from polyhop.schemas.errors import ConfigurationError, StoreConflictError
from polyhop.schemas.requests import EvaluationRequest, Range, TuningRequest, labels_in, parse_range, parse_variant
from polyhop.schemas.settings import Settings
from polyhop.tasks.evaluation.bootstrap import DEFAULT_SEED, rest_of, sampled
from polyhop.tasks.evaluation.metrics import TRIPLE_METRICS
from polyhop.tasks.evaluation.report import ALL_METRICS, ANSWER_METRICS, json_bytes, rounded
from polyhop.tasks.evaluation.tuning import MOST_TUNED, Part, check_parts, chosen_setting, tuning_document
from polyhop.warehouse.files.evaluations import REPORT, TUNING, check_folder, store_run
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import usable_questions
from polyhop.warehouse.files.versions import default_strategy_of
from polyhop.worker.strategies.base import StrategySpec
from polyhop.worker.strategies.registry import STRATEGIES, parse_setting, spec_of


@dataclass(frozen=True, slots=True)
class Tuning:
    """What came out: the JSON of `polyhop tune`, and what is to be said beside it."""

    report: dict[str, Any]
    sentences: list[str]


def tune_index(settings: Settings, request: TuningRequest, on_progress: OnProgress = None) -> Tuning:
    """Tries settings on a sample, judges the best one and the default on the rest, stores both with a report."""
    spec, tried = _tried(settings, request)
    records, _ = usable_questions(request.questions)
    size = min(MOST_TUNED, len(records) // 2) if request.sample is None else request.sample
    if size < 1:
        raise ConfigurationError(f"A sample has at least 1 question, not {size}; leave it out to take half of them.")
    seed = DEFAULT_SEED if request.seed is None else request.seed
    sample = sampled(records, size, seed)
    check_parts((sample, rest_of(records, sample)), request.metric)
    folder = Layout(settings.root).tunings
    if request.is_stored:
        check_folder(folder)

    def asked(*strategies: str, asks_rest: bool = False) -> EvaluationRequest:
        return EvaluationRequest(
            questions=request.questions,
            index=request.index,
            strategies=tuple(dict.fromkeys(strategies)),
            parameters=request.parameters,
            baselines=(spec.name,),
            is_stored=False,
            sample=size,
            seed=seed,
            asks_rest=asks_rest,
        )

    tuning = run_evaluation(settings, asked(spec.name, tried.label), on_progress)
    chosen = chosen_setting(request.metric, spec.name, [spec.name, *tried.points], tuning.run)
    rest = run_evaluation(settings, asked(spec.name, chosen, asks_rest=True), on_progress)
    if rest.report["version"] != tuning.report["version"]:
        raise StoreConflictError(
            f"Version {rest.report['version']} of '{request.index}' was published while version "
            f"{tuning.report['version']} was tuned, so that the two parts cannot be compared; run polyhop tune again."
        )
    on_sample, on_rest = (Part(one.run, one.rows) for one in (tuning, rest))
    questions = tuning.run["questions"]
    report: dict[str, Any] = rounded(
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
        from polyhop.tasks.evaluation.tuning import tuning_page

        files = {TUNING: json_bytes(report), REPORT: tuning_page(report, tuning.run, tuning.timings).encode()}
        number, place = store_run(folder, files, TUNING)
        stored = {"run": number, "folder": str(place)}
    return Tuning(report | stored, list(dict.fromkeys([*left_out_sentences(tuning), *left_out_sentences(rest)])))


def _tried(settings: Settings, request: TuningRequest) -> tuple[StrategySpec, Range]:
    """The strategy and its settings: the label's own ranges, or the strategy's grid but for what the label fixes."""
    label = request.strategy or default_strategy_of(Layout(settings.root), request.index)
    labels = labels_in(label, STRATEGIES)
    if len(labels) != 1:
        raise ConfigurationError(f"polyhop tune takes one strategy, not {len(labels)}: {', '.join(labels) or 'none'}.")
    spec, metric = spec_of(label.partition(":")[0].strip()), request.metric
    if metric not in ALL_METRICS:
        raise ConfigurationError(f"There is no metric '{metric}' to tune by; metrics: {', '.join(ALL_METRICS)}.")
    if metric in ANSWER_METRICS and not settings.reader.reads:
        raise ConfigurationError(f"Tuning by {metric} needs answers, and --reader none reads none.")
    if metric in TRIPLE_METRICS and not spec.ranks_triples:
        raise ConfigurationError(f"Tuning by {metric} needs ranked triples, and strategy '{spec.name}' ranks none.")
    if not parse_range(label).parameters:
        fixed = parse_variant(label, {}).parameters
        grid = [f"{name}={values}" for name, values in spec.parameters.grid.items() if name not in fixed]
        if not grid:
            raise ConfigurationError(
                f"Strategy '{spec.name}' has no values of its own to try; name some, like "
                "bridge:graph_weight=.2,.35,.5."
            )
        label = ":".join((label, *grid))
    tried = parse_range(label)
    # values out of their range are refused, and a single setting
    parse_setting(spec, request.parameters)
    first, *others = [parse_setting(spec, parse_variant(one, request.parameters).parameters) for one in tried.points]
    if all(other == first for other in others):
        raise ConfigurationError(
            f"'{tried.label}' is a single setting, so there is nothing to choose from; give a parameter several "
            "values, or compare it with the default by polyhop eval."
        )
    return spec, tried
