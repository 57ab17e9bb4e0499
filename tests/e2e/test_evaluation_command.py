"""`polyhop eval` and `polyhop tune` on a small index: stored runs and their page, gates, samples, ranges, baselines."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from browser_process import FITS, WIDTHS, assert_fits
from drawing import stored_ranges
from parameters import heat_maps, several, values_of
from small_indexes import Call, indexed, publish, record, write_rows

from polyhop.api import open_index
from polyhop.flows import evaluate as flow
from polyhop.flows.prefect_deploy import DeployedIndex, deployments
from polyhop.schemas import errors
from polyhop.schemas.requests import EvaluationRequest, TuningRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_questions
from polyhop.worker.loop import Worker, WorkerMetrics, WorkerOptions
from polyhop.worker.session import IndexPool

PROJECT = Path(__file__).resolve().parents[2]
QUESTIONS: list[dict[str, object]] = [
    {"id": f"q{n}", "question": f"Which river does Town {n} lie on?", "answers": [f"River {n % 5}"]}
    | {"supporting": [f"p{n}"] if n else [], "hops": 1 + n % 2, "type": "<b>bridge</b>" if n < 4 else "comparison"}
    for n in range(6)
]
BOOTSTRAP = "percentile bootstrap of the mean over questions"
ALL = "eval questions.jsonl --index towns"
COUNT = 24
"""Towns to tune on."""
NAMES = "names.jsonl --index lengths"
TUNED = f"tune {NAMES} --strategy bm25:b=0,.5:k1=1,2 --metric recall@1 --sample 10 --seed 3"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with question files, the last line of one broken, and a root with two indexes that need no vectors.

    In `lengths`, long passages answer and short ones only name: BM25 finds the long ones if length does not count.
    """
    folder = tmp_path_factory.mktemp("evaluations")
    texts = [f"Town {n} lies on the River {n % 5} in Country {n % 3}." for n in range(30)]
    publish(folder, [record(f"p{n}", f"Town {n}", text) for n, text in enumerate(texts)])
    filler = " ".join(f"word{n}" for n in range(120))
    long = [f"Town {n} has a river. Town {n} is old. Town {n}. {filler}" for n in range(COUNT)]
    short = [record(f"d{n}", "List", f"Town {n}") for n in range(COUNT)]
    publish(folder, [record(f"p{n}", f"Town {n}", text) for n, text in enumerate(long)] + short, "lengths")
    write_rows(folder / "questions.jsonl", QUESTIONS, "{broken")
    gold = {"answers": ["a river"]}
    names = ({"id": f"q{n}", "question": f"Town {n}?", "supporting": [f"p{n}"], **gold} for n in range(COUNT))
    write_rows(folder / "names.jsonl", names)
    return folder


@pytest.fixture
def evaluate(command: Call) -> Call:
    """`polyhop eval` of questions on `towns`."""
    return lambda line, questions="questions.jsonl": command(f"eval {questions} --index towns {line}")


@pytest.fixture
def report_of(good: Call) -> Call:
    """The JSON of a command that must succeed."""
    return lambda line: good(f"{line} --json")[0]


@pytest.fixture
def evaluated(report_of: Call) -> Call:
    """The JSON of an evaluation on `towns`."""
    return lambda line, questions="questions.jsonl": report_of(f"eval {questions} --index towns {line}")


def stored(report: Any, name: str = "run.json") -> Any:
    """A file of the folder in which an evaluation was stored."""
    text = (Path(report["folder"]) / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else text


def test_the_deployed_evaluation_asks_what_the_index_was_built_for(root: Path) -> None:
    (deployed,) = (each for each in deployments([DeployedIndex("towns")]) if each.kind == "evaluation")
    request = EvaluationRequest(Path("questions.jsonl"), "towns", (deployed.parameters["strategies"],))
    assert flow.labels_of(flow.with_strategies(Settings(root=root), request)) == ["bm25", "bridge-lexical"]


def test_supporting_ids_that_the_index_has_not_are_told_and_stored(root: Path, evaluate: Call) -> None:
    lines = [{**QUESTIONS[1], "supporting": ["p1", "nowhere"]}, {**QUESTIONS[2], "supporting": ["nowhere", "gone"]}]
    write_rows(root.parent / "other.jsonl", lines)
    done = evaluate("--strategies bm25 --json", "other.jsonl")
    assert done.stderr.startswith("2 supporting ids counted as missed, in no passage of 'towns'")
    report = json.loads(done.stdout)
    assert (report["unknown_supporting"], report["strategies"]["bm25"]["recall@5"]) == (2, 0.25)
    assert stored(report)["questions"]["unknown_supporting"] == 2
    assert "Supporting ids in no passage of the index: 2" in stored(report, "summary.md")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("eval questions.jsonl", "needs a question file and an index"),
        (f"{ALL} --fail-below dense:em=.5", "'dense', which is not evaluated"),
        (f"{ALL} --strategies all --no-store --fail-below dense:recall@5=.1", "dense"),
        (f"{ALL} --strategies ,", "No strategy to evaluate"),
        (f"{ALL} --strategies bm25 --baseline all", "The baseline 'all' is not evaluated; evaluated: bm25."),
        (f"{ALL} --strategies bm25 --seed 3", "--seed needs --sample N"),
        (f"{ALL} --strategies bm25 --first 2 --sample 2", "--first and --sample choose different questions"),
        (f"{ALL} --strategies bm25 --first 2 --rest", "--rest needs --sample N"),
        (f"{ALL} --strategies bm25 --rest", "--rest needs --sample N"),
        (f"{ALL} --strategies bm25 --rest --sample 6", "A sample of 6 leaves out none of 6 usable questions"),
        (f"{ALL} --strategies bm25:b=.3,bridg", "'bridg' in 'bm25:b=.3,bridg' is neither a strategy nor a number"),
        ("tune names.jsonl --index lengths --strategy bm25 --sample 20", "there are 20 to tune on and 4 to keep back"),
    ],
)
def test_a_wrong_experiment_is_refused_and_stores_nothing(command: Call, root: Path, line: str, sentence: str) -> None:
    done = command(line)
    assert isinstance(done.exception, errors.ConfigurationError)
    assert (sentence in str(done.exception), done.stdout) == (True, "")
    assert not [*root.glob("evaluations/*"), *root.glob("tunings/*")]


@pytest.mark.parametrize(
    ("questions", "out", "error", "sentence"),
    [
        ("nothere.jsonl", "", errors.SourceError, r"nothere\.jsonl"),
        ("bad.jsonl", "", errors.SourceError, r"no usable question in .*bad\.jsonl: line 1: missing question"),
        ("questions.jsonl", "questions.jsonl", errors.ConfigurationError, "would replace the questions"),
        ("questions.jsonl", "root", errors.StoreError, "that is a folder; name a file"),
        ("questions.jsonl", "root/nothere/rows.jsonl", errors.StoreError, "there is no folder .*; create it first"),
    ],
)
def test_an_evaluation_that_cannot_be_made_says_why_before_anything_is_asked_and_stores_nothing(
    command: Call, root: Path, monkeypatch: pytest.MonkeyPatch, questions: str, out: str, error: type, sentence: str
) -> None:
    monkeypatch.setattr("polyhop.flows.evaluate.open_published", None)
    write_rows(Path("bad.jsonl"), [{"id": 1}])
    before = Path("questions.jsonl").read_bytes()
    done = command(f"eval {questions} --index towns --strategies bm25 {out and f'--out {out}'}")
    assert (type(done.exception), bool(re.search(sentence, str(done.exception)))) == (error, True), done.exception
    assert Path("questions.jsonl").read_bytes() == before
    assert not list(root.glob("evaluations/*"))


def test_a_closed_index_says_so(root: Path) -> None:
    index = open_index("towns", root=root)
    index.close()
    with pytest.raises(errors.StoreError, match=r"^Index 'towns' is closed; open it again"):
        index.ask("Which river does Town 1 lie on?", strategy="bm25")


def test_evaluations_are_stored_listed_and_compared(command: Call, evaluated: Call, said: Call, root: Path) -> None:
    strategies = "--index towns --strategies bridge-lexical,bm25 --json"
    gates = "--fail-below mrr=0 --fail-below bm25:em=1"
    ended, out, told = said(f"eval {root.parent}/questions.jsonl {strategies} {gates} --root {root}")
    assert (ended, "The gate failed: em of bm25 is" in told, "mrr" in told) == (1, True, False)
    first, second = json.loads(out), evaluated("--strategies bridge-lexical,bm25")
    assert [(row["metric"], row["passed"]) for row in first["gates"] if row["strategy"] == "bm25"][-1] == ("em", False)
    metrics = {"recall@2", "recall@5", "recall@10", "recall@30", "hit@10", "mrr", "em", "f1", "latency_ms", "failures"}
    assert metrics <= set(first["strategies"]["bm25"])
    folders = [Path(report["folder"]) for report in (first, second)]
    assert folders == [root / "evaluations" / f"{number:06d}" for number in (1, 2)]
    files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert files[0].keys() == files[1].keys() >= {"timings.json", "report.html", "summary.md"}
    equal = {"run.json", "questions.jsonl"} | {name for name in files[0] if name.endswith(".png")}
    assert len(equal) > 2
    assert {name for name in equal if files[0][name] != files[1][name]} == set()
    listed = json.loads(command("eval --list --json").stdout)
    rows = [(row["run"], row["index"], row["version"], list(row["strategies"])) for row in listed]
    assert rows == [(run, "towns", 1, ["bridge-lexical", "bm25"]) for run in (1, 2)]
    assert "no metric changed" in command("eval --compare 1 2").stdout
    assert isinstance(command("eval --compare 1 9").exception, errors.UnknownIdError)

    # as runs were stored before there were samples, ranges and intervals
    run = stored(first)
    for name in ("baselines", "paired_further", "ranges", "interval"):
        del run[name]
    del run["questions"]["sample"]
    del run["results"]["bm25"]["intervals"]
    (folders[0] / "run.json").write_text(json.dumps(run), encoding="utf-8")
    assert "bridge-lexical,bm25" in command("eval --list").stdout
    for numbers in ("1 2", "2 1"):
        changes = json.loads(command(f"eval --compare {numbers} --json").stdout)
        assert (changes["changed"], changes["most_changed"]) == ({}, [])
        assert changes["strategies"]["bm25"]["mrr"]["paired"]["ties"] == 5


def test_a_run_says_what_was_evaluated_and_how(root: Path, evaluate: Call) -> None:
    more: Any = {"parameters": {"k1": "1.2"}, "baselines": ("bm25",), "min_confidence": 1.0}
    request = EvaluationRequest(root.parent / "questions.jsonl", "towns", ("bm25:b=0.5", "bm25"), **more)
    evaluation = flow.run_evaluation(Settings(root=root), request)
    for wrong, said in (({"min_confidence": 2.0}, "min_confidence is 2"), ({"sample": 0}, "at least 1 question")):
        with pytest.raises(errors.ConfigurationError, match=said):
            flow.run_evaluation(Settings(root=root), EvaluationRequest(request.questions, "towns", (), **wrong))
    run, timings, rows = evaluation.run, evaluation.timings, evaluation.rows
    assert json.loads(json.dumps([run, timings, rows])) == [run, timings, rows]
    assert [run["questions"][name] for name in ("file", "n", "excluded", "left_out")] == ["questions.jsonl", 6, 1, 1]
    assert (run["strategies"], run["baseline"], run["parameters"]) == (["bm25:b=0.5", "bm25"], "bm25", {"k1": "1.2"})
    assert list(run["paired"]) == ["bm25:b=0.5"]
    assert (run["seed"], run["reader"], run["depth"], run["version"]) == (13, "spans", 100, 1)
    assert run["interval"] == {"kind": BOOTSTRAP, "level": 0.95, "resamples": 10_000, "seed": 13}
    assert all(run["results"]["bm25"]["intervals"].values())
    assert run["settings"].items() >= {"reader.min_confidence": 1, "index.extraction.extractor": "rules"}.items()
    groups = [[(name, group["n"]) for name, group in run[by].items()] for by in ("by_hops", "by_type")]
    assert groups == [[("1", 3), ("2", 3)], [("<b>bridge</b>", 4), ("comparison", 2)]]
    assert set(timings["strategies"]["bm25"]["parts_ms"]) >= {"encoding", "reading"}
    assert timings["peak_rss_mb"] > 1
    assert (len(rows), {row["answer"] for row in rows}) == (12, {""})
    assert run["results"]["bm25"]["shown"]["share"] == 0
    assert any(row["confidence"] > 0 for row in rows)

    done = evaluate("--strategies bm25,bridge-lexical --no-store --baseline bridge-lexical --fail-below recall@5=0")
    assert done.exception is None
    told = ("em of shown", "sentence hit", "Confidence stated -> exact match observed", "1 (3)")
    means = f"95 % intervals of the means ({BOOTSTRAP}, 10,000 resamples)"
    assert [part for part in (*told, "bm25 vs bridge-lexical", means) if part not in done.stdout] == []
    assert "line 7 was left out" in done.stderr


def test_all_strategies_are_those_that_the_index_can_serve_and_the_others_are_one_line(root: Path) -> None:
    questions = root.parent / "questions.jsonl"
    request = EvaluationRequest(questions, "towns", ("all",), baselines=("bm25",), is_stored=False)
    evaluation = flow.evaluate_index(Settings(root=root), request)
    report, left_out = evaluation.report, evaluation.report["left_out"]
    assert {"bm25", "bridge-lexical"} <= set(report["strategies"])
    assert "vectors:passage" in left_out["dense"]
    assert set(left_out).isdisjoint(report["strategies"])
    (line,) = (sentence for sentence in flow.left_out_sentences(evaluation) if "of 'all' left out" in sentence)
    assert line.startswith(f"{len(left_out)} strategies of 'all' left out: {', '.join(left_out)}; ")


def test_an_unsure_answer_is_silenced_by_the_asker_and_by_the_job(command: Call, root: Path) -> None:
    ask = ("ask --index towns --strategy bm25 --json", str(QUESTIONS[1]["question"]), "--set")
    given, silent = (json.loads(command(*ask, f"reader.min_confidence={least}").stdout) for least in (0.1, 1))
    assert given["answer"] == silent["guess"] != silent["answer"] == ""
    assert any(silent["guess"] in sentence["text"] for sentence in silent["sentences"])
    assert silent["reading"]["confidence"] == given["reading"]["confidence"] < 1
    submit = "submit questions.jsonl --skip-bad --index towns --strategy bm25 --json --min-confidence"
    jobs = [json.loads(command(submit, least).stdout)["job_id"] for least in ("0.1", "1")]
    with open_questions(Settings(root=root)) as queue:  # a worker without signal handlers, which would stay here
        Worker(queue, IndexPool(Settings(root=root)), WorkerOptions(until_empty=True), WorkerMetrics()).run()
    kept, empty = (list(map(json.loads, command(f"results {job}").stdout.splitlines())) for job in jobs)
    assert next(row["answer"] for row in kept if row["id"] == "q1") == given["answer"]
    assert [row["answer"] for row in empty] == [""] * 6
    listed = json.loads(command("jobs --json").stdout)
    assert {row["job_id"]: row["min_confidence"] for row in listed} == {jobs[0]: 0.1, jobs[1]: 1}


@pytest.mark.parametrize("least", [0.1, 1])
def test_a_row_has_answer_guess_and_sentences_as_ask_has(good: Call, evaluated: Call, root: Path, least: float) -> None:
    shown = f"--set reader.min_confidence={least}"
    evaluated(f"--no-store --sample 1 --out rows.jsonl --strategies bm25 {shown}")
    row = json.loads((root.parent / "rows.jsonl").read_text(encoding="utf-8"))
    (asked,) = good(f"ask '{row['question']}' --index towns --strategy bm25 --json {shown}")
    assert row.items() >= {name: asked[name] for name in ("answer", "guess", "sentences")}.items()


def test_metrics_of_a_job_are_those_of_the_evaluation(good: Call, evaluated: Call) -> None:
    compared = ("em", "f1", "answered", "shown", "sentence_hit")
    report = evaluated("--no-store --strategies bm25 --set reader.min_confidence=.4")["strategies"]["bm25"]
    submit = "submit questions.jsonl --skip-bad --index towns --strategy bm25 --json --min-confidence .4"
    (job,) = good(submit)
    good("worker --until-empty --json")
    (metrics,) = good(f"results {job['job_id']} --metrics --json")
    assert {name: metrics[name] for name in compared} == {name: report[name] for name in compared}


def test_long_gold_answers_are_judged_by_f1_and_containment(evaluate: Call, evaluated: Call, root: Path) -> None:
    long = (f"Town {n}, a town of the Country, lies on the River {n % 5}." for n in range(6))
    rows = [{**question, "answers": [text]} for question, text in zip(QUESTIONS, long, strict=True)]
    write_rows(root.parent / "sentences.jsonl", rows)
    text = evaluate("--strategies bm25 --no-store --fail-below containment=.01", "sentences.jsonl").stdout
    assert "The gold answers are long (median 12 words), so answers are judged by token F1 and containment" in text
    assert ("f1 of shown" in text, "Confidence stated" in text, " em " in text) == (True, False, False)
    report = evaluated("--strategies bm25", questions="sentences.jsonl")
    assert report["long_answers"] == {"median_words": 12}
    assert not (Path(report["folder"]) / "calibration.png").exists()
    for shown in (stored(report, "report.html"), stored(report, "summary.md")):
        told = [words in shown for words in ("containment of the shown", "median 12 words", "em of the shown")]
        assert told == [True, True, False]
    gated = evaluate("--strategies bm25 --no-store --fail-below em=.1", "sentences.jsonl")
    assert "gold answers are too long" in str(gated.exception)


def test_a_sample_is_the_same_questions_every_time(command: Call, evaluate: Call, evaluated: Call, root: Path) -> None:
    def asked(line: str) -> tuple[Any, list[str]]:
        report = evaluated(f"--no-store --sample 3 --seed 7 --out rows.jsonl --strategies {line}")
        lines = (root.parent / "rows.jsonl").read_text(encoding="utf-8").splitlines()
        return (report["n"], report["sample"]), list(dict.fromkeys(json.loads(line)["id"] for line in lines))

    first, other = asked("bm25"), asked("bridge-lexical,bm25 --baseline bm25 --set reader.min_confidence=1")
    assert first == other == ((3, {"size": 3, "seed": 7, "of": 6}), sorted(first[1]))
    report, left = asked("bm25 --rest")
    assert report == (3, {"size": 3, "seed": 7, "of": 6, "rest": True})
    assert sorted(first[1] + left) == [f"q{n}" for n in range(6)]
    told = evaluate("--rest --sample 3 --seed 7 --strategies bm25 --no-store").stdout
    assert told.startswith("3 of 6 questions (all but a random sample of 3, seed 7) on 'towns'")
    two, whole = (evaluate(f"--strategies bm25 --sample {size}") for size in (2, 50))
    assert two.stdout.startswith("2 of 6 questions (random sample, seed 13) on 'towns', version 1\n")
    assert "The sample of 50 includes all questions: 6 usable questions." in whole.stderr
    assert "questions.jsonl (2 of 6, seed 13)" in command("eval --list").stdout
    compared = command("eval --compare 1 2").stdout
    assert "questions.sample.size: 2 -> 50" in compared
    assert "in both: 2 questions; 0 only in 1, 4 only in 2; intervals: those in both" in compared


def test_the_first_questions_of_a_file_are_asked(command: Call, evaluated: Call, evaluate: Call, root: Path) -> None:
    report = evaluated("--no-store --first 2 --out rows.jsonl --strategies bm25")
    lines = (root.parent / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["q0", "q1"]
    assert (report["n"], report["sample"]) == (2, {"size": 2, "seed": None, "of": 6})
    printed = evaluate("--strategies bm25 --first 2").stdout
    assert printed.startswith("2 of 6 questions (the first) on 'towns', version 1\n")
    assert "questions.jsonl (2 of 6, the first)" in command("eval --list").stdout


def test_ranges_are_evaluated_as_variants_and_stored_as_ranges(evaluated: Call) -> None:
    strategies = "bridge-lexical:restart=.3,.5:seeds=1..2,bm25:b=0..1,bm25"
    report = evaluated(f"--strategies {strategies} --baseline bm25 --baseline bm25:b=1")
    crossed = [f"bridge-lexical:restart={r}:seeds={s}" for r in (".3", ".5") for s in (1, 2)]
    assert list(report["strategies"]) == [*crossed, "bm25:b=0", "bm25:b=1", "bm25"]
    assert (report["baseline"], report["baselines"]) == ("bm25", ["bm25", "bm25:b=1"])
    run = stored(report)
    assert run["ranges"] == report["ranges"]
    assert [(one["label"], one["parameters"]) for one in run["ranges"]] == [
        ("bridge-lexical:restart=.3,.5:seeds=1..2", ["restart", "seeds"]),
        ("bm25:b=0..1", ["b"]),
    ]
    assert run["ranges"][1]["points"] == [{"label": f"bm25:b={b}", "values": [b]} for b in ("0", "1")]
    assert list(run["paired"]) == [*crossed, "bm25:b=0", "bm25:b=1"]
    assert [*run["paired_further"]["bm25:b=1"]] == [*crossed, "bm25:b=0", "bm25"]
    files = {path.name for path in Path(report["folder"]).iterdir()}
    assert files >= {"paired_differences.png", "paired_differences_2.png"}


@pytest.mark.rare
def test_the_command_of_algorithms_md_has_what_the_figures_of_sprig_show(report_of: Call) -> None:
    text = (PROJECT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ polyhop (eval .* --strategies .*graph-hybrid.*)$", text, re.MULTILINE)
    sizes, weighting, penalty, mode = stored_ranges(report_of(line.replace("--index mine", "--index towns --no-store")))
    assert sizes.parameters == ("seeds", "restart", "max_iter")
    assert [len(found.labels) for found in heat_maps(sizes)] == [9, 9, 9]
    shown = {several(one)[0]: values_of(one, several(one)[0]) for one in (weighting, penalty, mode)}
    assert shown == {
        "seed_weighting": ["rank", "raw", "softmax"],
        "hub_penalty": ["0", ".25", ".5", ".75", "1"],
        "ppr": ["power", "push"],
    }
    assert all(len(several(one)) > 1 for one in (sizes, weighting, penalty, mode))


def test_the_best_setting_of_the_sample_is_judged_on_the_rest(command: Call, report_of: Call, root: Path) -> None:
    """As two evaluations would."""
    report = report_of(TUNED)
    assert (report["chosen"], report["default"], report["reader"]) == ("bm25:b=0:k1=1", "bm25", "none")
    assert report["use"]["param"] == ["b=0", "k1=1"]
    assert [len(row["values"]) for row in report["tried"]] == [0, 2, 2, 2, 2]
    for part, rest in (("tuning", ""), ("rest", "--rest")):
        options = f"--sample 10 --seed 3 {rest} --reader none --no-store"
        evaluated = report_of(f"eval {NAMES} --strategies bm25,bm25:b=0:k1=1 {options}")
        assert report[part]["n"] == evaluated["n"]
        for who, label in (("default", "bm25"), ("chosen", "bm25:b=0:k1=1")):
            assert report[part][who]["mean"] == pytest.approx(evaluated["strategies"][label]["recall@1"], abs=1e-6)
    assert (report["tuning"]["n"], report["rest"]["n"]) == (10, COUNT - 10)
    paired = report["rest"]["paired"]
    assert paired["difference"] == pytest.approx(report["rest"]["chosen"]["mean"] - report["rest"]["default"]["mean"])
    assert (paired["wins"], paired["significant"], paired["p"] < 0.05) == (COUNT - 10, True, True)
    assert "recall@5" in report["rest"]["metrics"]
    assert Path(report["folder"]) == root / "tunings" / "000001"
    tuning = stored(report, "tuning.json")
    assert ("run" in tuning, tuning["rest"]["paired"]["p"]) == (False, pytest.approx(paired["p"], abs=1e-6))
    assert {path.name for path in Path(report["folder"]).iterdir()} == {"tuning.json", "report.html"}
    assert not (root / "evaluations").exists()
    printed = command(f"{TUNED} --no-store").stdout.splitlines()
    assert printed[0] == "bm25 on 'lengths', version 1: 5 settings on 10 of 24 questions (random sample, seed 3)"
    assert any(line.split()[:2] == ["bm25:b=0:k1=1", "1.000"] for line in printed)
    assert any(line.endswith("better by more than chance.") for line in printed)
    use = "polyhop ask QUESTION --index lengths --strategy bm25 --param b=0 --param k1=1"
    assert printed[-1] == f"Nothing was changed; to use it: {use}"


def test_answers_are_read_where_the_metric_judges_them(report_of: Call) -> None:
    report = report_of(f"tune {NAMES} --strategy bm25:b=0,.75 --metric f1 --no-store")
    assert (report["reader"], report["tuning"]["judged"], "em" in report["rest"]["metrics"]) == ("spans", 12, True)


def test_a_version_that_is_published_meanwhile_ends_the_tuning(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, evaluate = root.parent / "lengths.jsonl", flow.run_evaluation

    def evaluate_and_publish(*arguments: object) -> object:
        found = evaluate(*arguments)  # type: ignore[arg-type]
        corpus.write_text(corpus.read_text(encoding="utf-8").replace("river", "lake"), encoding="utf-8")
        indexed(Settings(root=root, strategies=("bm25",)), corpus, "lengths", source_name="lengths")
        return found

    monkeypatch.setattr("polyhop.flows.evaluate.run_evaluation", evaluate_and_publish)
    request = TuningRequest(root.parent / "names.jsonl", "lengths", "bm25:b=0,.75", is_stored=False)
    with pytest.raises(errors.StoreConflictError, match="2 of 'lengths' was published while version 1 was tuned"):
        flow.tune_index(Settings(root=root, strategies=("bm25",)), request)


FACTS = FITS | {
    "drawn": "[...document.images].filter(i => i.complete && i.naturalWidth > 0 && i.clientWidth > 400).length",
    "cut_tables": "[...document.querySelectorAll('#results .frame')].filter(e => e.scrollWidth > e.clientWidth).length",
}


def test_the_report_that_eval_stores_fits_every_window_and_loads_nothing(browser: Any, evaluated: Call) -> None:
    label = "bridge-lexical:restart=0.3"
    made = evaluated(f"--strategies bm25,{label},bm25:b=0,.5,1:k1=1,2 --baseline bm25 --baseline {label}")
    report = Path(made["folder"]) / "report.html"
    for width, scheme in zip(WIDTHS, ("light", "dark", "light"), strict=True):
        looked = browser.look(report, evaluate=FACTS, width=width, scheme=scheme)
        assert_fits(looked.values)
        assert width > 400 or looked.values["scrolling"] >= len(looked.requests) - 1  # every plot, and tables
        assert looked.requests[0] == report.as_uri()
        assert all(address.startswith("data:image/png;base64,") for address in looked.requests[1:])
        assert looked.values["drawn"] == 3  # recall, two differences
    assert looked.values["cut_tables"] == 0


@pytest.mark.parametrize(
    ("gold", "sentence"),
    [
        ({}, "Nothing was scored: no question has 'answers', 'supporting' or 'golden_triples'"),
        ({"supporting": ["p1"]}, "Answers were not scored (no em, no f1): no question has gold answers"),
        ({"answers": ["River 1"]}, ""),
    ],
)
def test_an_evaluation_says_what_it_has_no_gold_for(
    evaluate: Call, root: Path, gold: dict[str, Any], sentence: str
) -> None:
    write_rows(root.parent / "gold.jsonl", [{"id": "q1", "question": "Which river does Town 1 lie on?", **gold}])
    said = evaluate("--strategies bm25 --no-store", "gold.jsonl").stderr
    assert (sentence in said, "not scored" in said or "Nothing was scored" in said) == (True, bool(sentence))
