"""Per-question values, means, calibration, comparisons and gates: the documents of a stored evaluation, or of two.

Source: architecture.md 9, algorithms.md 6.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import fsum
from operator import itemgetter
from statistics import median
from typing import Any

from polyhop.flows.evaluation.bootstrap import (
    KIND,
    SEED,
    Values,
    against,
    by_field,
    by_group,
    compare_pairs,
    intervals,
    mean,
    pairs_of,
)
from polyhop.flows.evaluation.metrics import (
    CONTAINMENT,
    RECALL_DEPTHS,
    TRIPLE_METRICS,
    all_at,
    containment,
    exact_match,
    hit_at,
    judged_ranking,
    latency_milliseconds,
    metrics_of,
    recall_at,
    reciprocal_rank,
    sentence_hit,
    token_f1,
    triple_values,
)
from polyhop.schemas.chat import sum_of_costs
from polyhop.schemas.errors import AlgorithmError, ConfigurationError
from polyhop.schemas.records import GoldenTriple, TripleIds
from polyhop.schemas.settings import flatten
from polyhop.schemas.text import content_hash, plural

GROUPS = 5  # chosen: of the 100 answers of a small evaluation, 20 each
COVERAGE_POINTS = 50  # chosen: two percent of the answers apart, closer than a plot shows

Judged = tuple[float, float]  # an answer's stated confidence and its exact match, both 0 to 1


def calibration(answers: Sequence[Judged], groups: int = GROUPS) -> list[dict[str, float | int]]:
    """[{n, stated, observed}]: confidence against exact match in groups of equal size, the least confident first.

    Source: reader.md, Confidence and silence.
    """
    ordered = sorted(answers, key=itemgetter(0))
    size, larger = divmod(len(ordered), groups)
    ends = accumulate(size + (number < larger) for number in range(groups))
    rows: list[dict[str, float | int]] = []
    start = 0
    for end in ends:
        part = ordered[start:end]
        start = end
        if part:
            stated = fsum(confidence for confidence, _ in part) / len(part)
            observed = fsum(match for _, match in part) / len(part)
            rows.append({"n": len(part), "stated": stated, "observed": observed})
    return rows


def coverage_curve(
    answers: Sequence[Judged], question_count: int, points: int = COVERAGE_POINTS
) -> list[dict[str, float]]:
    """Precision when only the most confident answers are given: [{coverage, precision, confidence}].

    Answers of equal confidence come together, so that their order decides nothing.
    """
    ordered = sorted(answers, key=itemgetter(0), reverse=True)
    right = list(accumulate(match for _, match in ordered))
    last_of_confidence = {confidence: rank for rank, (confidence, _) in enumerate(ordered)}
    ranks = list(last_of_confidence.values())
    count = min(points, len(ranks))
    kept = [ranks[((number + 1) * len(ranks)) // count - 1] for number in range(count)]
    return [
        {
            "coverage": (rank + 1) / question_count,
            "precision": right[rank] / (rank + 1),
            "confidence": ordered[rank][0],
        }
        for rank in kept
    ]


HIT_DEPTHS = (1, 5, 10)  # some of the depths of algorithms.md 6.2.
ALL_DEPTHS = (2, 5, 10, 20)  # those of algorithms.md 6.2 from 2 on: several golden passages do not fit into one.
RETRIEVAL_METRICS = (
    *(f"recall@{k}" for k in RECALL_DEPTHS),
    *(f"hit@{k}" for k in HIT_DEPTHS),
    *(f"all@{k}" for k in ALL_DEPTHS),
    "mrr",
)
METRICS = (*RETRIEVAL_METRICS, "em", "f1")
ANSWER_METRICS = ("em", "f1", CONTAINMENT)
ALL_METRICS = (*METRICS, CONTAINMENT, *TRIPLE_METRICS)
"""Also those that an evaluation has if its gold answers are long, or a question has golden triples."""
LONGEST_SHORT_ANSWER = 10
"""Words; chosen: gold answers of MuSiQue have 2 in the median, those of ORKG, which are sentences, 26."""


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question's gold: answers (none: not judged by em and f1), supporting ids (none: not judged by retrieval).

    `hops` and `type` are the file's own, None where it has none. `triples` (none: not judged by metrics of triples) are
    ids; a text is a golden triple that the graph does not have. `fields` are further ones of the file, as metadata.
    """

    id: str
    answers: tuple[str, ...] = ()
    supporting: frozenset[str] = frozenset()
    hops: int | None = None
    type: str | None = None
    triples: frozenset[GoldenTriple] = frozenset()
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one strategy for one question; tokens and cost are those of the original replies."""

    # Passage ids, in descending order of score; None if none was to be made: retrieval is not judged.
    ranking: tuple[str, ...] | None = ()
    guess: str | None = None  # The best short answer, shown or not; "" if nothing was found, None if no reader ran.
    seconds: float | None = None
    error: str | None = None  # Why the question failed; it then counts 0 and has no latency.
    confidence: float | None = None
    kind: str = ""  # Of the answer: "extracted", "computed", "generated", "none" or "unread".
    is_read: bool = True  # Whether there was a reader at all; without one a failed question counts in no answer metric.
    parts: Mapping[str, float] = field(default_factory=dict)  # Seconds by part (encoding, seed, traversal, reading).
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    # Ids of ranked triples, in descending order of score; None of a strategy that ranks none.
    triples: tuple[TripleIds, ...] | None = None
    answer: str | None = None  # The short answer that is shown, "" if none is; None if no reader ran.
    sentences: Sequence[Mapping[str, Any]] = ()  # Shown with the answer or instead of it, as in the JSON of `ask`.


def long_answer_words(gold: Iterable[Sequence[str]]) -> float | None:
    """The median words of the questions' gold answers if above LONGEST_SHORT_ANSWER: exact match says nothing.

    Of a question with several answers the shortest one counts, and questions without any do not. Source: algorithms.md
    6.1.
    """
    words = [min(len(answer.split()) for answer in answers) for answers in gold if answers]
    middle = median(words) if words else 0
    return middle if middle > LONGEST_SHORT_ANSWER else None


QuestionValues = dict[str, float | None]
"""One value per name in METRICS, CONTAINMENT if gold answers are long, and TRIPLE_METRICS if any question has golden
triples; None: the question does not count for that metric."""


def evaluate(
    gold: Sequence[GoldQuestion],
    outcomes: Mapping[str, Sequence[Outcome]],
    record_of: Callable[[str], str],
    baselines: Sequence[str] = (),
) -> dict[str, Any]:
    """Metrics of every strategy and paired comparisons of them, in the order given; one outcome per question.

    `record_of` gives the record of a passage id: pieces of a split record are judged as their record. `baselines`
    (default: the first) count where there are too many pairs. Returns {n, excluded, strategies{name: {…METRICS,
    answered, calibration, coverage, tokens, cost_usd, latency_ms, parts_ms, total_seconds, failures, failed,
    intervals{metric: {low, high}}}}, paired{"a vs b": {metric: …}}, by_hops, by_type, by_field{field: …} if a field
    groups the questions}; a mean over no question is None, has no comparison and None as its interval; `failed` lists
    {id, error}. Where gold answers are long (`long_answer_words`), `long_answers` is {median_words}, CONTAINMENT is
    among the metrics, and em, calibration and coverage are None.
    Source: architecture.md 9, algorithms.md 6.
    """
    values = {name: question_values(gold, given, record_of) for name, given in outcomes.items()}
    pairs = pairs_of(list(values), baselines or list(values)[:1])
    metrics = metrics_of(METRICS, values)
    means = intervals(values, metrics)
    fields = by_field([question.fields for question in gold], values, metrics)
    words = long_answer_words(question.answers for question in gold)
    # what the file says, else the number of supporting records; None without either
    counts = [len(question.supporting) if question.hops is None else question.hops for question in gold]
    hops = [str(count) if count else None for count in counts]
    return {
        "n": len(gold),
        "excluded": sum(not question.supporting for question in gold),
        "strategies": {
            name: {**_strategy_report(gold, given, values[name], metrics), "intervals": means[name]}
            for name, given in outcomes.items()
        },
        "paired": {f"{a} vs {b}": rows for (a, b), rows in compare_pairs(values, pairs, metrics).items()},
        "by_hops": by_group(hops, values, metrics),
        "by_type": by_group([question.type for question in gold], values, metrics),
        **({"by_field": fields} if fields else {}),
        **({} if words is None else {"long_answers": {"median_words": words}}),
    }


def question_values(
    gold: Sequence[GoldQuestion], outcomes: Sequence[Outcome], record_of: Callable[[str], str]
) -> list[QuestionValues]:
    """Every metric of every question, in order; a failed question has 0 wherever it counts."""
    if len(gold) != len(outcomes):
        raise AlgorithmError(f"{plural(len(gold), 'question')}, but {len(outcomes)} outcomes.")
    read = any(o.guess is not None for o in outcomes) or all(o.error and o.is_read for o in outcomes)
    has_triples = any(question.triples for question in gold)
    is_long = long_answer_words(question.answers for question in gold) is not None
    return [
        _retrieval_values(question, outcome, record_of)
        | _answer_values(question, outcome, read=read, is_long=is_long)
        | (triple_values(question.triples, outcome.triples, failed=outcome.error is not None) if has_triples else {})
        for question, outcome in zip(gold, outcomes, strict=True)
    ]


def _retrieval_values(question: GoldQuestion, outcome: Outcome, record_of: Callable[[str], str]) -> QuestionValues:
    supporting = question.supporting
    if not supporting or outcome.ranking is None:
        return dict.fromkeys(RETRIEVAL_METRICS)
    if outcome.error is not None:
        return dict.fromkeys(RETRIEVAL_METRICS, 0.0)
    ranking = judged_ranking(outcome.ranking, supporting, record_of)
    values: QuestionValues = {f"recall@{k}": recall_at(ranking, supporting, k) for k in RECALL_DEPTHS}
    values |= {f"all@{k}": all_at(ranking, supporting, k) for k in ALL_DEPTHS}
    values |= {f"hit@{k}": hit_at(ranking, supporting, k) for k in HIT_DEPTHS}
    return values | {"mrr": reciprocal_rank(ranking, supporting)}


def _answer_values(question: GoldQuestion, outcome: Outcome, *, read: bool, is_long: bool) -> QuestionValues:
    judge = {"f1": token_f1, CONTAINMENT: containment} if is_long else {"em": exact_match, "f1": token_f1}
    values: QuestionValues = {"em": None, **dict.fromkeys(judge)}
    if not question.answers or not read:
        return values
    if outcome.error is not None:
        return values | dict.fromkeys(judge, 0.0)
    return values | {name: value(outcome.guess or "", question.answers) for name, value in judge.items()}


def _strategy_report(
    gold: Sequence[GoldQuestion], outcomes: Sequence[Outcome], values: Sequence[QuestionValues], metrics: Sequence[str]
) -> dict[str, Any]:
    failed = [
        {"id": question.id, "error": outcome.error}
        for question, outcome in zip(gold, outcomes, strict=True)
        if outcome.error is not None
    ]
    # Questions with gold answers; the curves take answers whose reader states a confidence, which is that of an exact
    # match: where none is judged, there is no curve.
    # `shown` is of what is shown as a short answer; `sentence_hit`: a sentence that is shown holds a gold answer.
    judged = [(outcome, row) for outcome, row in zip(outcomes, values, strict=True) if row["f1"] is not None]
    answered = [(outcome, row) for outcome, row in judged if outcome.guess]
    is_long = any(CONTAINMENT in row for row in values)
    names = ANSWER_METRICS if is_long else ("em", "f1")
    shown = [row for outcome, row in judged if outcome.answer]
    hits = [
        sentence_hit([sentence["text"] for sentence in outcome.sentences], question.answers)
        for question, outcome, row in zip(gold, outcomes, values, strict=True)
        if row["f1"] is not None and not {"yes", "no"}.issuperset(question.answers)
    ]
    pairs = [(outcome.confidence, row["em"]) for outcome, row in answered]
    stated = [(confidence, match) for confidence, match in pairs if confidence is not None and match is not None]
    # Cost of the models' replies when they were made, also of cached ones.
    prompt = sum(outcome.prompt_tokens for outcome in outcomes)
    completion = sum(outcome.completion_tokens for outcome in outcomes)
    count = max(1, len(outcomes))
    done = [outcome for outcome in outcomes if outcome.error is None]
    seconds = [outcome.seconds for outcome in done if outcome.seconds is not None]
    parts = list(dict.fromkeys(part for outcome in done for part in outcome.parts))
    return {
        **{metric: mean(row[metric] for row in values) for metric in metrics},
        "answered": {
            "share": len(answered) / len(judged) if judged else None,
            **{name: mean(row[name] for _, row in answered) for name in names},
        },
        "shown": {
            "share": len(shown) / len(judged) if judged else None,
            **{name: mean(row[name] for row in shown) for name in names},
        },
        "sentence_hit": mean(hits),
        "calibration": None if is_long else calibration(stated),
        "coverage": None if is_long else coverage_curve(stated, len(judged)),
        "tokens": {
            "prompt": prompt,
            "completion": completion,
            "prompt_per_question": prompt / count,
            "completion_per_question": completion / count,
        },
        "cost_usd": sum_of_costs(outcome.cost_usd for outcome in outcomes),
        "latency_ms": latency_milliseconds(seconds),
        "parts_ms": {part: latency_milliseconds([o.parts[part] for o in done if part in o.parts]) for part in parts},
        "total_seconds": fsum(seconds),
        "failures": len(failed),
        "failed": failed,
    }


FORMAT = 1  # version of the layout of run.json: the first
DECIMALS = 12  # decimals of stored numbers (algorithms.md 0.3)
RANKING_KEPT = 30  # the deepest k of recall@k: what can be judged again; architecture.md 9.
_TIMINGS = ("latency_ms", "parts_ms", "total_seconds")


def run_document(
    facts: Mapping[str, Any], report: Mapping[str, Any], values: Mapping[str, Values], baselines: Sequence[str]
) -> dict[str, Any]:
    """The part of an evaluation that is the same every time: its facts, its report, the questions' values.

    `paired` is every other strategy minus `baseline`, the first of `baselines`; `paired_further` has the same by
    baseline for the others.
    """
    first, *further = baselines
    paired = against(values, baselines, metrics_of(METRICS, values))
    results = {
        name: {key: value for key, value in result.items() if key not in _TIMINGS}
        for name, result in report["strategies"].items()
    }
    settings = dict(sorted(facts["settings"].items()))
    document = {
        "format": FORMAT,
        **facts,
        "questions": {**facts["questions"], "n": report["n"], "excluded": report["excluded"]},
        "strategies": list(results),
        "settings": settings,
        "settings_hash": content_hash(json.dumps(settings, sort_keys=True, default=str)),
        "seed": SEED,
        "interval": KIND,
        "results": results,
        "baseline": first,
        "baselines": list(baselines),
        "paired": paired[first],
        "paired_further": {name: paired[name] for name in further},
        "by_hops": report["by_hops"],
        "by_type": report["by_type"],
        **{name: report[name] for name in ("by_field", "golden_triples", "long_answers") if name in report},
    }
    whole: dict[str, Any] = rounded(document)
    return whole


def timings_document(
    report: Mapping[str, Any], started: str, seconds: float, machine: Mapping[str, Any], peak_rss_mb: float
) -> dict[str, Any]:
    """The part of an evaluation that differs from run to run; `seconds` are those of the whole evaluation."""
    document = {
        "started": started,
        "seconds": seconds,
        "machine": dict(machine),
        "strategies": {name: {key: result[key] for key in _TIMINGS} for name, result in report["strategies"].items()},
        "reading": report.get("reading", {}),
        "costs": report.get("costs", {}),
        "peak_rss_mb": peak_rss_mb,
    }
    whole: dict[str, Any] = rounded(document)
    return whole


def rounded(document: Any) -> Any:
    """The same document with floats rounded to DECIMALS, tuples as lists."""
    if isinstance(document, float):
        return round(document, DECIMALS)
    if isinstance(document, Mapping):
        return {key: rounded(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [rounded(value) for value in document]
    return document


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """A document as a file: indented JSON, keys in the order that they have."""
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


def json_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as a file of JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


# Two stored evaluations side by side, and gates on metrics. Differences are the second run minus the first.

CHANGED_QUESTIONS = 20  # questions that are shown: those that changed most
_WEIGHED = ("recall@5", "mrr", "triple_recall@10", "triple_mrr", "em", "f1", "containment")
_FACTS = ("polyhop", "index", "version", "reader", "depth", "seed")

Row = Mapping[str, Any]  # A line of questions.jsonl: {id, question, strategy, answer, …ALL_METRICS}


def compare_runs(
    first: Mapping[str, Any], second: Mapping[str, Any], rows: tuple[Sequence[Row], Sequence[Row]]
) -> dict[str, Any]:
    """Compares two runs (run.json, questions.jsonl); questions are equal if id and text are.

    Returns {changed{name: [first, second]}, strategies{name: {metric: {first, second, difference, paired}}},
    questions{common, only_first, only_second}, most_changed[…], only_first[…], only_second[…]}; `paired` is the
    bootstrap over the questions of both runs, None without one.
    """
    names = [name for name in first["strategies"] if name in second["strategies"]]
    before, after = ({(row["strategy"], row["id"], row["question"]): row for row in some} for some in rows)
    pairs = {
        name: [(row, after[key]) for key, row in before.items() if key[0] == name and key in after] for name in names
    }
    asked, again = ({(row["id"], row["question"]) for row in some} for some in rows)
    return {
        "changed": _changed(first, second),
        "only_first": [name for name in first["strategies"] if name not in names],
        "only_second": [name for name in second["strategies"] if name not in names],
        "questions": {
            "common": len(asked & again),
            "only_first": len(asked - again),
            "only_second": len(again - asked),
        },
        "strategies": {name: _metrics(first["results"][name], second["results"][name], pairs[name]) for name in names},
        "most_changed": _most_changed([pair for name in names for pair in pairs[name]]),
    }


def _changed(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Facts, questions, parameters and settings that differ: [first, second], None where one has no such thing."""
    before, after = (
        {
            **{name: run.get(name) for name in _FACTS},
            **flatten(run["questions"], "questions."),
            **{f"parameters.{name}": value for name, value in run["parameters"].items()},
            **{f"settings.{name}": value for name, value in run.get("settings", {}).items()},
        }
        for run in (first, second)
    )
    names = dict.fromkeys((*before, *after))
    return {name: [before.get(name), after.get(name)] for name in names if before.get(name) != after.get(name)}


def _metrics(
    first: Mapping[str, Any], second: Mapping[str, Any], pairs: Sequence[tuple[Row, Row]]
) -> dict[str, dict[str, Any]]:
    before, after = [row for row, _ in pairs], [row for _, row in pairs]
    metrics = [metric for metric in ALL_METRICS if metric in first and metric in second]
    paired = compare_pairs({"second": after, "first": before}, [("second", "first")], metrics)["second", "first"]
    return {
        metric: {
            "first": first[metric],
            "second": second[metric],
            "difference": _difference(first[metric], second[metric]),
            "paired": paired.get(metric),
        }
        for metric in metrics
    }


def _difference(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else round(second - first, 12)


def _most_changed(pairs: Sequence[tuple[Row, Row]]) -> list[dict[str, Any]]:
    """Questions by the sum of their changes, largest first; equal ones by strategy and id."""
    rows = []
    for before, after in pairs:
        changes = {metric: _difference(before.get(metric), after.get(metric)) or 0.0 for metric in _WEIGHED}
        size = round(sum(map(abs, changes.values())), 12)
        if size or any(before[name] != after[name] for name in ("answer", "guess")):
            rows.append(
                {
                    "id": before["id"],
                    "question": before["question"],
                    "strategy": before["strategy"],
                    "change": size,
                    **{metric: change for metric, change in changes.items() if change},
                    "answers": [before["answer"], after["answer"]],
                    "guesses": [before["guess"], after["guess"]],
                }
            )
    rows.sort(key=lambda row: (-row["change"], row["strategy"], row["id"]))
    return rows[:CHANGED_QUESTIONS]


@dataclass(frozen=True, slots=True)
class Gate:
    """Every strategy, or the named one, must reach `threshold` in `metric`."""

    metric: str
    threshold: float
    strategy: str | None = None


def parse_gate(text: str) -> Gate:
    """A gate from `metric=value` or `strategy:metric=value`; the strategy may have its own parameters."""
    left, separator, value = text.rpartition("=")
    strategy, colon, metric = left.rpartition(":")
    try:
        threshold = float(value)
    except ValueError:
        separator = ""
        threshold = 0.0
    if not separator or not 0 <= threshold <= 1:
        raise ConfigurationError(
            f"--fail-below takes metric=value or strategy:metric=value with a value from 0 to 1, "
            f"like recall@5=.65 or bridge:em=.1, not '{text}'."
        )
    if metric.strip() not in ALL_METRICS:
        raise ConfigurationError(f"--fail-below: unknown metric '{metric.strip()}'; metrics: {', '.join(ALL_METRICS)}.")
    return Gate(metric.strip(), threshold, strategy.strip() if colon else None)


def check_names(gates: Sequence[Gate], strategies: Sequence[str]) -> None:
    """Refuses gates for what is not evaluated, before anything runs."""
    for gate in gates:
        if gate.strategy is not None and gate.strategy not in strategies:
            raise ConfigurationError(
                f"--fail-below names '{gate.strategy}', which is not evaluated; evaluated: {', '.join(strategies)}."
            )


def check_measured(gates: Sequence[Gate], *, unranked: str, reads: bool) -> None:
    """Refuses gates for what this evaluation does not measure, before anything runs; `unranked` ranks nothing."""
    for gate in gates:
        if gate.metric in ANSWER_METRICS and not reads:
            raise ConfigurationError(f"--fail-below {gate.metric} needs answers; use --reader spans or model.")
        if gate.strategy == unranked and gate.metric not in ANSWER_METRICS:
            raise ConfigurationError(
                f"--fail-below cannot judge {gate.metric} of '{unranked}', which ranks no passages; "
                f"its metrics: {', '.join(ANSWER_METRICS)}."
            )


def gate_rows(
    gates: Sequence[Gate], strategies: Mapping[str, Mapping[str, Any]], *, unranked: str = ""
) -> list[dict[str, Any]]:
    """Results of gates by strategy: [{strategy, metric, threshold, value, passed}], in the order given.

    A gate for the retrieval of all strategies leaves out the row `unranked`, which has none.
    """
    return [
        {
            "strategy": name,
            "metric": gate.metric,
            "threshold": gate.threshold,
            "value": result.get(gate.metric),
            "passed": (value := result.get(gate.metric)) is not None and value >= gate.threshold,
        }
        for gate in gates
        for name, result in strategies.items()
        if gate.strategy in {None, name} and not (name == unranked and gate.metric not in ANSWER_METRICS)
    ]


def failure_sentence(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """One sentence on the gates that failed; None if none did."""
    failed = [
        f"{row['metric']} of {row['strategy']} "
        + (
            f"could not be measured ({_reason(row['metric'])}), {row['threshold']:g} is wanted"
            if row["value"] is None
            else f"is {row['value']:.6g}, below {row['threshold']:g}"
        )
        for row in rows
        if not row["passed"]
    ]
    return f"The gate failed: {'; '.join(failed)}." if failed else None


def _reason(metric: str) -> str:
    without = "the questions have no gold for it"
    if metric in ANSWER_METRICS:
        return f"{without}, or their gold answers are too long or too short for it"
    return f"{without}, or the strategy ranks no triples" if metric in TRIPLE_METRICS else without
