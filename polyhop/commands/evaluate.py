"""`polyhop eval`, `score` and `tune`: strategies compared, stored, and shown as tables for people; `tune-prompts`."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from polyhop.commands import options
from polyhop.output import print_error, print_json, print_line, print_table, progress, rounded
from polyhop.schemas.chat import cost_words
from polyhop.schemas.errors import ConfigurationError, GateFailedError, SourceError
from polyhop.schemas.settings import CLOSED_BOOK, Settings
from polyhop.schemas.text import plural
from polyhop.terminal import CHANGED, LEADING, OF_ANSWERS, PREFIX, TRIPLES_WITH_INTERVAL, changed_rows, stored_table

SHOWN_OF_TRIPLES = tuple(
    f"{PREFIX}{name}"
    for name in ("recall@10", "recall@30", "precision@10", "f1@10", "hit@10", "hit@30", "ndcg@10", "mrr")
)
SHOWN = ("recall@2", "recall@5", "recall@10", "recall@30", "hit@10", "mrr", *OF_ANSWERS)
WITH_INTERVAL = ("recall@5", "recall@10", "mrr", *OF_ANSWERS)
WEIGHED = ("recall@5", "mrr", LEADING, "triple_mrr", *OF_ANSWERS)
SHOWN_SETTINGS = 10  # of a tuning, the best ones; JSON and report have them all
Strategies = Annotated[
    str | None,
    Option(
        "--strategies",
        help="Names, separated by commas, 'all', or 'own' (those that the index was built for); with "
        "parameters, qasa:gate=none:steps=1, also "
        "several values, qasa:decay=.3,.5,.7, and ranges, proprag:beam_width=1..6; default: that of the index.",
    ),
]
Baselines = Annotated[
    list[str] | None,
    Option("--baseline", help="Strategy that the others are compared with; default: the first; may be repeated."),
]
Gates = Annotated[
    list[str] | None,
    Option(
        "--fail-below", help="Exit 1 if a metric is lower: recall@5=.65, bridge:em=.1, triple_mrr=.9; may be repeated."
    ),
]
Questions = Annotated[
    Path | None, Argument(help="Questions: .jsonl {id, question, answers[], supporting[], golden_triples[]}, …")
]
Sample = Annotated[int | None, Option("--sample", min=1, help="Size of a random sample of the questions.")]
Seed = Annotated[int | None, Option("--seed", help="Random seed of the sample; default: 13.")]
ClosedBook = Annotated[
    bool, Option("--closed-book", help="Add a row in which the model answers without passages (needs --reader model).")
]


def evaluate(
    questions: Questions = None,
    index: Annotated[str | None, Option("--index", help="Name of the index.")] = None,
    strategies: Strategies = None,
    where: options.Where = None,
    param: options.Parameters = None,
    baseline: Baselines = None,
    sample: Sample = None,
    seed: Seed = None,
    first: Annotated[int | None, Option("--first", min=1, help="Ask only the first N questions.")] = None,
    rest: Annotated[bool, Option("--rest", help="Ask the questions that the sample leaves out.")] = False,
    fail_below: Gates = None,
    out: Annotated[Path | None, Option("--out", help="Write one JSON line per question and strategy.")] = None,
    no_store: Annotated[bool, Option("--no-store", help="Do not store the evaluation and its report.")] = False,
    list_: Annotated[bool, Option("--list", help="List the stored evaluations.")] = False,
    compare: Annotated[tuple[int, int] | None, Option("--compare", help="Compare two stored evaluations.")] = None,
    reader: options.ReaderName = None,
    closed_book: ClosedBook = False,
    set_: options.Set = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Compare strategies on a question set: recall, hit, MRR, exact match, F1, latency, paired bootstrap."""
    settings = options.with_reader(options.settings_of(root, set_), reader)
    if list_ or compare is not None:
        _show_stored(settings, questions, None if list_ else compare, json=json)
        return
    if questions is None or index is None:
        raise ConfigurationError(
            "polyhop eval needs a question file and an index: polyhop eval QUESTIONS --index NAME "
            "(stored evaluations: --list, --compare A B)."
        )
    from polyhop.flows.evaluate import evaluate_index, left_out_sentences
    from polyhop.flows.evaluation.report import failure_sentence
    from polyhop.schemas.requests import EvaluationRequest

    request = EvaluationRequest(
        questions=questions,
        index=index,
        strategies=() if strategies is None else (strategies,),
        parameters=options.pairs(param, "--param"),
        out=out,
        baselines=tuple(baseline or ()),
        fail_below=tuple(fail_below or ()),
        is_stored=not no_store,
        sample=sample,
        seed=seed,
        first=first,
        asks_rest=rest,
        closed_book=closed_book,
        where=where,
    )
    with progress() as update:
        evaluation = evaluate_index(settings, request, update)
    for sentence in left_out_sentences(evaluation):
        print_error(sentence)
    _show(evaluation.report, json=json)
    failed = failure_sentence(evaluation.report["gates"])
    if failed is not None:
        raise GateFailedError(failed)


def _show_stored(settings: Settings, questions: Path | None, compared: tuple[int, int] | None, *, json: bool) -> None:
    """Compares two stored evaluations, or lists all."""
    if questions is not None:
        raise ConfigurationError("--list and --compare read stored evaluations; leave out the question file.")
    from polyhop.flows.evaluate import compare, stored_rows

    found: Any = stored_rows(settings) if compared is None else compare(settings, *compared)
    show = print_stored if compared is None else print_comparison
    print_json(rounded(found)) if json else show(found)


def _show(report: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json(rounded(report))
        return
    print_line(f"{_asked(report['n'], report['sample'])} on '{report['index']}', version {report['version']}")
    print_evaluation(report)
    if report["folder"] is not None:
        print_line(f"Stored as evaluation {report['run']}, with a report: {report['folder']}/report.html")


def _asked(count: int, sample: Mapping[str, Any] | None) -> str:
    """Number of questions asked, and the total if they are a sample."""
    if sample is None or sample["size"] >= sample["of"]:
        return plural(count, "question")
    size, seed = sample["size"], sample["seed"]
    if seed is None:
        return f"{count} of {sample['of']} questions (the first)"
    which = f"all but a random sample of {size}, seed {seed}" if sample.get("rest") else f"random sample, seed {seed}"
    return f"{count} of {sample['of']} questions ({which})"


def print_evaluation(report: Mapping[str, Any]) -> None:
    """The comparison as tables: metrics and their intervals, costs, hops, confidence, and the paired bootstrap."""
    strategies, is_long = report["strategies"], "long_answers" in report
    unused, judge = ("em", "f1") if is_long else ("containment", "em")
    # of questions with golden triples and no gold passages, columns of passages would be empty
    has_passages = "golden_triples" not in report or report["excluded"] < report["n"]
    shown = [name for name in (SHOWN if has_passages else OF_ANSWERS) if name != unused]
    rows = []
    for name, result in strategies.items():
        latency, short = result["latency_ms"], result["shown"]
        answers = (short["share"], short[judge], result["sentence_hit"])
        figures = (*answers, latency["p50"], latency["p95"], result["failures"])
        rows.append([name, *(result[metric] for metric in shown), *figures])
    columns = ["strategy", *shown, "shown", f"{judge} of shown", "sentence hit", "p50 ms", "p95 ms", "failures"]
    print_table(columns, rows)
    kind = report["interval"]
    judged = [metric for metric in WITH_INTERVAL if any(one["intervals"].get(metric) for one in strategies.values())]
    if judged:
        level, how = f"{100 * kind['level']:.0f} %", f"{kind['kind']}, {kind['resamples']:,} resamples"
        print_line(f"{level} intervals of the means ({how})")
        _print_intervals(strategies, judged)
    _print_triples(report)
    print_costs(report["costs"])
    _print_reading(report)
    if has_passages:
        _print_groups("recall@5 by number of hops", report["by_hops"], list(strategies), "recall@5")
    # stated confidence against exact match in fifths of the answered questions
    rows = [
        [name, *(f"{group['stated']:.2f} -> {group['observed']:.2f} ({group['n']})" for group in result["calibration"])]
        for name, result in strategies.items()
        if result["calibration"]
    ]
    if rows:
        columns = ["strategy", *map(str, range(1, max(map(len, rows))))]
        print_line("Confidence stated -> exact match observed (answers), from the least to the most confident fifth")
        print_table(columns, [[*row, *[""] * (len(columns) - len(row))] for row in rows])
    for pair, metrics in report["paired"].items():
        if any(pair.startswith(f"{one} vs ") or pair.endswith(f" vs {one}") for one in report["baselines"]):
            # the metrics of rankings that sum up a pair; one of answers where one of the two ranks nothing
            leading = [name for name in ("recall@5", LEADING) if name in metrics]
            for metric in leading or [name for name in ("em", "f1") if name in metrics][:1]:
                found = metrics[metric]
                print_line(
                    f"{pair}, {metric}: {found['difference']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}], "
                    f"{found['wins']} wins {found['ties']} ties {found['losses']} losses, "
                    f"{'significant' if found['significant'] else 'not significant'}"
                )


def _print_reading(report: Mapping[str, Any]) -> None:
    """Prints the reader of the answers and how they were scored."""
    if report["reader"] == "none":
        print_line("Reading is disabled (--reader none), so em and f1 are not reported")
    elif "long_answers" in report:
        from polyhop.flows.evaluation.page import long_answers_sentence

        print_line(long_answers_sentence(report["long_answers"]))
    for name, taken in report.get("reading", {}).items():
        if taken["model"]:
            unusable = "left unanswered" if name == CLOSED_BOOK else "read without it instead"
            print_line(
                f"{name} asked {taken['model']}: {plural(taken['calls'], 'call')}, {taken['cached']} cached, "
                f"{taken['fallbacks']} {unusable}, {taken['prompt_tokens']} + {taken['completion_tokens']} "
                f"tokens, {cost_words(taken['cost_usd'])}"
            )


def _print_triples(report: Mapping[str, Any]) -> None:
    """The strategies that rank triples, judged by golden triples; nothing without golden triples."""
    golden = report.get("golden_triples")
    found = {name: one for name, one in report["strategies"].items() if one.get(LEADING) is not None}
    if golden is None or not found:
        return
    print_line(f"Ranked triples against the golden triples of {plural(golden['questions'], 'question')}")
    columns = ["strategy", *(metric.removeprefix(PREFIX) for metric in SHOWN_OF_TRIPLES)]
    print_table(columns, [[name, *(one[metric] for metric in SHOWN_OF_TRIPLES)] for name, one in found.items()])
    print_line(f"{100 * report['interval']['level']:.0f} % intervals of these means")
    _print_intervals(found, TRIPLES_WITH_INTERVAL)
    for title, groups in (("number of hops", report["by_hops"]), *report.get("by_field", {}).items()):
        _print_groups(f"recall@10 of triples by {title}", groups, list(found), LEADING)


def _print_intervals(strategies: Mapping[str, Any], metrics: Sequence[str]) -> None:
    rows = [[name, *(_bounds(one["intervals"].get(metric)) for metric in metrics)] for name, one in strategies.items()]
    print_table(["strategy", *(metric.removeprefix(PREFIX) for metric in metrics)], rows)


def _bounds(interval: Mapping[str, Any] | None) -> str:
    return "" if interval is None or interval["low"] is None else f"[{interval['low']:.3f}, {interval['high']:.3f}]"


def _print_groups(title: str, groups: Mapping[str, Any], names: Sequence[str], metric: str) -> None:
    if len(groups) > 1:
        print_line(title)
        rows = [[name, *(group["strategies"][name][metric] for group in groups.values())] for name in names]
        print_table(["strategy", *(f"{key} ({group['n']})" for key, group in groups.items())], rows)


def print_costs(costs: Mapping[str, Mapping[str, Any]]) -> None:
    """The table, and which of its seconds are not those of a first run."""
    print_line("Costs: the index as far as the strategy needs it, and a question (prompt + completion tokens)")
    rows = []
    for name, cost in costs.items():
        index, question = cost["index"], cost["question"]
        tokens = f"{index['prompt_tokens']:,} + {index['completion_tokens']:,}"
        seconds = "not recorded" if index["seconds"] is None else index["seconds"]
        asked = f"{question['prompt_tokens']:.1f} + {question['completion_tokens']:.1f}"
        rows.append([name, tokens, seconds, asked, question["seconds"]])
    print_table(["strategy", "index tokens", "index s", "tokens per question", "s per question"], rows)
    stages = {name: one for cost in costs.values() for name, one in cost["index"]["stages"].items() if one}
    partly = [f"{n} {s['computed']:,} of {s['units']:,}" for n, s in stages.items() if s["computed"] < s["units"]]
    if partly:
        print_line(f"  seconds of the last run that computed these stages; the rest was cached: {', '.join(partly)}")


def print_stored(rows: Sequence[Mapping[str, Any]]) -> None:
    """The stored evaluations, the oldest first, with figures of their best strategy by recall@5."""
    if not rows:
        print_line("No evaluation is stored yet; polyhop eval QUESTIONS --index NAME stores one.")
        return
    print_table(*stored_table(rows))
    for row in rows:
        if "error" in row:
            print_error(f"evaluation {row['run']} is left out: {row['error']}")


def print_comparison(changes: Mapping[str, Any]) -> None:
    """Prints the changes from the first to the second stored evaluation."""
    print_line(f"Evaluation {changes['first']} -> {changes['second']}")
    _print_facts(changes)
    if not changes["strategies"]:
        print_line("  no strategy is in both")
        return
    for name, latency in changes["latency_ms"].items():
        p50, p95 = (
            " -> ".join("unmeasured" if value is None else f"{value:.1f} ms" for value in latency[key])
            for key in ("p50", "p95")
        )
        print_line(f"  {name}, latency p50: {p50}, p95: {p95}")
    rows = changed_rows(changes)
    if not rows:
        print_line("  no metric changed in any strategy of both")
        return
    print_table(CHANGED, rows)
    if changes["most_changed"]:
        print_line("Questions that changed most")
    for row in changes["most_changed"]:
        answers = row["answers"]
        changed = row["guesses"] if answers[0] == answers[1] else answers  # metrics are of guesses, shown or not
        before, after = (answer or "(none)" for answer in changed)
        moved = ", ".join(f"{m} {row[m]:+.2f}" for m in WEIGHED if m in row)
        print_line(f"  {row['strategy']}  [{row['id']}] {moved or 'another answer'}: {before} -> {after}")


def _print_facts(changes: Mapping[str, Any]) -> None:
    for name, (before, after) in changes["changed"].items():
        print_line(f"  {name}: {before} -> {after}")
    if not changes["changed"]:
        print_line("  the same index, version, questions, parameters and settings")
    for key, number in (("only_first", "first"), ("only_second", "second")):
        if changes[key]:
            print_line(f"  only in {changes[number]}: {', '.join(changes[key])}")
    questions = changes["questions"]
    if questions["only_first"] or questions["only_second"]:
        print_line(
            f"  in both: {plural(questions['common'], 'question')}; {questions['only_first']} only in "
            f"{changes['first']}, {questions['only_second']} only in {changes['second']}; intervals: those in both"
        )


def score(
    predictions: Annotated[
        Path, Argument(help="Predictions: .jsonl, .csv or .parquet of {id, prediction, answers[]}.")
    ],
    out: Annotated[Path | None, Option("--out", help="Write one JSON line per prediction.")] = None,
    hotpot_yes_no: Annotated[
        bool, Option("--hotpot-yes-no", help="F1 as in HotpotQA's script, where a wrong yes or no scores 0.")
    ] = False,
    skip_bad: Annotated[
        bool, Option("--skip-bad", help="Score the valid lines of a file that has invalid ones.")
    ] = False,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Score predictions by exact match and token F1 (SQuAD's normalisation, the best of several gold answers)."""
    del root  # every command takes it; this one reads and writes no index
    from polyhop.flows.evaluation.metrics import mean_scores, score_rows
    from polyhop.warehouse.files.questions import read_predictions

    rows, bad = read_predictions(predictions)
    if bad and not skip_bad:
        first = bad[0]
        raise SourceError(
            f"Nothing was scored: {plural(len(bad), 'line')} of {predictions} cannot be used; the first is line "
            f"{first.line}: {first.reason}. Fix them, or leave them out with --skip-bad."
        )
    for record in bad:
        print_error(f"{record.source} line {record.line} was left out: {record.reason}")
    if not rows:
        raise SourceError(f"Nothing was scored: {predictions} has no usable prediction.")
    scores = score_rows(rows, hotpot_yes_no=hotpot_yes_no)
    if out is not None:
        from polyhop.warehouse.files.disk import write_json_lines

        lines = (
            {"id": row.id, "prediction": row.prediction, "answers": row.answers}
            | {"em": found.em if found else None, "f1": found.f1 if found else None}
            for row, found in zip(rows, scores, strict=True)
        )
        write_json_lines(out, lines, "the scores")
    means = rounded(mean_scores(scores))
    if json:
        print_json(means)
        return
    judged = sum(found is not None for found in scores)
    said = "none with a gold answer to judge it by"
    if judged:
        said = f"{judged} judged: exact match {means['em']:.3f}, F1 {means['f1']:.3f}"
    print_line(f"{plural(means['n'], 'prediction')}, {said}")


def tune(
    questions: Annotated[Path, Argument(help="Question file in the format of `polyhop eval`.")],
    index: options.IndexName,
    strategy: Annotated[
        str,
        Option(
            "--strategy",
            help="With the values to try, bridge:graph_weight=.2,.35,.5; a name alone: the strategy's own values; "
            "default: that of the index.",
        ),
    ] = "",
    metric: Annotated[
        str, Option("--metric", help="Metric that selects the best setting: recall@10, mrr, f1, triple_mrr, …")
    ] = "recall@5",
    sample: Annotated[
        int | None,
        Option("--sample", min=1, help="Size of the random sample that they are tried on; default: half, at most 500."),
    ] = None,
    seed: Annotated[int | None, Option("--seed", help="Random seed of the sample; default: 13.")] = None,
    param: options.Parameters = None,
    reader: options.ReaderName = None,
    no_store: Annotated[bool, Option("--no-store", help="Do not store the result and its report.")] = False,
    set_: options.Set = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Try settings of a strategy on a sample of the questions, and judge the best one on the rest; changes nothing.

    Answers are read only if the metric is em or f1, or with --reader.
    """
    from polyhop.flows.evaluate import tune_index
    from polyhop.flows.evaluation.report import ANSWER_METRICS
    from polyhop.schemas.requests import TuningRequest

    settings = options.with_reader(
        options.settings_of(root, set_), reader if reader or metric in ANSWER_METRICS else "none"
    )
    request = TuningRequest(
        questions=questions,
        index=index,
        strategy=strategy.strip(),
        parameters=options.pairs(param, "--param"),
        metric=metric.strip(),
        sample=sample,
        seed=seed,
        is_stored=not no_store,
    )
    with progress() as update:
        tuning = tune_index(settings, request, update)
    for sentence in tuning.sentences:
        print_error(sentence)
    print_json(rounded(tuning.report)) if json else print_tuning(tuning.report)


def tune_prompts(
    index: options.IndexName,
    sample: Annotated[int, Option("--sample", min=2, help="Passages to sample.")] = 200,
    out: Annotated[Path | None, Option("--out", help="Folder of the files; default: INDEX-prompts.")] = None,
    force: Annotated[bool, Option("--force", help="Replace existing files.")] = False,
    set_: options.Set = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Write extraction prompts that fit an index's corpus, by asking models.extract; changes no index."""
    from polyhop.flows.prompts import tune_prompts as tune

    folder, settings = out or Path(f"{index}-prompts"), options.settings_of(root, set_)
    tuned = tune(settings, index, folder, sample=sample, replaces=force)
    if json:
        print_json(tuned)
        return
    by = f"{tuned['model']} ({plural(tuned['calls'], 'call')}, {cost_words(tuned['cost_usd'])})"
    print_line(f"Sampled {plural(tuned['sample'], 'passage')} of '{index}', by {by}")
    print_line(f"  types: {', '.join(tuned['types'])}; examples: {', '.join(tuned['examples'])}")
    print_line(f"  written: {', '.join(tuned['files'])}")
    sets = " ".join(f"--set {shlex.quote(f'{name}={value}')}" for name, value in tuned["settings"].items())
    print_line("Review the examples, then pass the folder to an index run:")
    print_line(f"  polyhop index SOURCE --index {index}-tuned --extractor model {sets}")


def print_tuning(report: Mapping[str, Any]) -> None:
    """The best settings on the sample, the default and the chosen one on both parts, and what follows from that."""
    from polyhop.flows.evaluation.tuning import tuning_findings

    name, tuned, rest = report["metric"], report["tuning"], report["rest"]
    print_line(
        f"{report['strategy']} on '{report['index']}', version {report['version']}: {len(report['tried'])} settings on "
        f"{tuned['n']} of {report['questions']['of']} questions (random sample, seed {report['seed']})"
    )
    best = sorted(report["tried"], key=lambda one: -one["mean"])[:SHOWN_SETTINGS]
    rows = [[one["label"], one["mean"], _bounds(one)] for one in best]
    print_table(["setting", f"{name} on the sample", "95 % interval"], rows)
    left = len(report["tried"]) - len(best)
    if left:
        print_line(f"  {left} more, with a lower or equal score")
    print_table(
        ["choice", f"sample ({tuned['n']})", f"rest ({rest['n']})", "95 % interval of the rest"],
        [[who, tuned[who]["mean"], rest[who]["mean"], _bounds(rest[who])] for who in ("default", "chosen")],
    )
    for sentence in tuning_findings(report):
        print_line(sentence)
    for label, count in report["failures"].items():
        if count:
            print_line(f"{plural(count, 'question')} of the rest failed with {label}, counted as 0")
    if report["folder"] is not None:
        print_line(f"Stored as tuning {report['run']}, with a report: {report['folder']}/report.html")
