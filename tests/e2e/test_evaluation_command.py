"""`polyhop eval` and `polyhop tune` on a small index: stored runs and their page, gates, samples, ranges, baselines."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_process import FITS, WIDTHS, assert_fits
from click.testing import Result
from drawing import stored_ranges
from parameters import heat_maps, several, values_of
from small_indexes import indexed, publish, write_rows

from polyhop.api import open_index
from polyhop.flows import evaluate as flow
from polyhop.flows.prefect_deploy import DeployedIndex, deployments
from polyhop.schemas import errors
from polyhop.schemas.requests import EvaluationRequest, TuningRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_questions
from polyhop.worker.loop import Worker, WorkerMetrics, WorkerOptions
from polyhop.worker.session import IndexPool

Command = Callable[..., Result]
PROJECT = Path(__file__).resolve().parents[2]
QUESTIONS: list[dict[str, object]] = [
    {
        "id": f"q{n}",
        "question": f"Which river does Town {n} lie on?",
        "answers": [f"River {n % 5}"],
        "supporting": [f"p{n}"] if n else [],
        "hops": 1 + n % 2,
        "type": "<b>bridge</b>" if n < 4 else "comparison",
    }
    for n in range(6)
]
BOOTSTRAP = "percentile bootstrap of the mean over questions"
COUNT = 24
"""Towns to tune on."""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with question files, the last line of one broken, and a root with two indexes that need no vectors.

    In `lengths`, long passages answer and short ones only name: BM25 finds the long ones if length does not count.
    """
    folder = tmp_path_factory.mktemp("evaluations")
    texts = [f"Town {n} lies on the River {n % 5} in Country {n % 3}." for n in range(30)]
    publish(folder, [{"id": f"p{n}", "title": f"Town {n}", "text": text} for n, text in enumerate(texts)])
    filler = " ".join(f"word{n}" for n in range(120))
    long = (f"Town {n} has a river. Town {n} is old. Town {n}. {filler}" for n in range(COUNT))
    publish(
        folder,
        [
            *({"id": f"p{n}", "title": f"Town {n}", "text": text} for n, text in enumerate(long)),
            *({"id": f"d{n}", "title": "List", "text": f"Town {n}"} for n in range(COUNT)),
        ],
        "lengths",
    )
    write_rows(folder / "questions.jsonl", QUESTIONS, "{broken")
    names = ({"question": f"Town {n}?", "supporting": [f"p{n}"], "answers": ["a river"]} for n in range(COUNT))
    write_rows(folder / "names.jsonl", [{"id": f"q{n}", **row} for n, row in enumerate(names)])
    return folder


@pytest.fixture
def evaluate(command: Command) -> Command:
    """`polyhop eval` of questions on `towns`."""
    return lambda line, questions="questions.jsonl": command(f"eval {questions} --index towns {line}")


@pytest.fixture
def evaluated(evaluate: Command) -> Callable[..., Any]:
    """Its JSON."""

    def run(line: str, **questions: str) -> Any:
        done = evaluate(f"{line} --json", **questions)
        assert done.exception is None, done.exception
        return json.loads(done.stdout)

    return run


def stored(report: Any, name: str = "run.json") -> Any:
    """A file of the folder in which an evaluation was stored."""
    text = (Path(report["folder"]) / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else text


def test_the_deployed_evaluation_asks_what_the_index_was_built_for(root: Path) -> None:
    (deployed,) = (each for each in deployments([DeployedIndex("towns")]) if each.kind == "evaluation")
    request = EvaluationRequest(Path("questions.jsonl"), "towns", (deployed.parameters["strategies"],))
    assert flow.labels_of(flow.with_strategies(Settings(root=root), request)) == ["bm25", "bridge-lexical"]


def test_supporting_ids_that_the_index_has_not_are_told_and_stored(root: Path, evaluate: Command) -> None:
    lines = [{**QUESTIONS[1], "supporting": ["p1", "nowhere"]}, {**QUESTIONS[2], "supporting": ["nowhere", "gone"]}]
    write_rows(root.parent / "other.jsonl", lines)
    done = evaluate("--strategies bm25 --json", "other.jsonl")
    assert done.stderr.startswith("2 supporting ids counted as missed, in no passage of 'towns'")
    report = json.loads(done.stdout)
    assert (report["unknown_supporting"], report["strategies"]["bm25"]["recall@5"]) == (2, 0.25)
    assert stored(report)["questions"]["unknown_supporting"] == 2
    assert "Supporting ids in no passage of the index: 2" in stored(report, "summary.md")


ALL = "eval questions.jsonl --index towns"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("eval questions.jsonl", "needs a question file and an index"),
        (f"{ALL} --fail-below dense:em=.5", "'dense', which is not evaluated"),
        (f"{ALL} --strategies all --no-store --fail-below dense:recall@5=.1", "dense"),
        (f"{ALL} --strategies ,", "no strategy to evaluate"),
        (f"{ALL} --strategies bm25 --baseline all", "The baseline 'all' is not evaluated; evaluated: bm25."),
        (f"{ALL} --strategies bm25 --seed 3", "A seed belongs to a sample"),
        (f"{ALL} --strategies bm25 --rest", "The rest is what a sample leaves out"),
        (f"{ALL} --strategies bm25 --rest --sample 6", "A sample of 6 leaves out none of 6 usable questions"),
        (f"{ALL} --strategies bm25:b=.3,bridg", "'bridg' in 'bm25:b=.3,bridg' is neither a strategy nor a number"),
        ("tune names.jsonl --index lengths --strategy bm25 --sample 20", "there are 20 to tune on and 4 to keep back"),
    ],
)
def test_a_wrong_experiment_is_refused_in_one_sentence_and_stores_nothing(
    command: Command, root: Path, line: str, sentence: str
) -> None:
    done = command(line)
    assert isinstance(done.exception, errors.ConfigurationError)
    assert sentence in str(done.exception)
    assert done.stdout == ""
    assert not [*root.glob("evaluations/*"), *root.glob("tunings/*")]


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"questions": "nothere.jsonl"}, errors.SourceError, r"nothere\.jsonl"),
        ({"questions": "bad.jsonl"}, errors.SourceError, r"no usable question in .*bad\.jsonl: line 1: there is no"),
        ({"out": "questions.jsonl"}, errors.ConfigurationError, "would replace the questions"),
        ({"out": "root"}, errors.StoreError, "that is a folder; name a file"),
        ({"out": "root/nothere/rows.jsonl"}, errors.StoreError, "there is no folder .*; create it first"),
    ],
)
def test_an_evaluation_that_cannot_be_made_says_why_before_anything_is_asked_and_stores_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    monkeypatch.chdir(root.parent)
    monkeypatch.setattr("polyhop.flows.evaluate.open_published", None)
    write_rows(Path("bad.jsonl"), [{"id": 1}])
    before = Path("questions.jsonl").read_bytes()
    files = {name: Path(value) for name, value in given.items() if name in {"questions", "out"}}
    request = {"questions": Path("questions.jsonl"), "index": "towns", "strategies": ("bm25",), **given, **files}
    with pytest.raises(error, match=sentence):
        flow.evaluate_index(Settings(root=root), EvaluationRequest(**request))
    assert Path("questions.jsonl").read_bytes() == before
    assert not list(root.glob("evaluations/*"))


def test_a_closed_index_says_so(root: Path) -> None:
    index = open_index("towns", root=root)
    index.close()
    with pytest.raises(errors.StoreError, match=r"^Index 'towns' is closed; open it again"):
        index.ask("Which river does Town 1 lie on?", strategy="bm25")


def test_evaluations_are_stored_equal_but_for_timings_listed_and_compared(
    command: Command, evaluated: Callable[..., Any], said: Callable[..., Any], root: Path
) -> None:
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
    files = [{path.name for path in folder.iterdir()} for folder in folders]
    assert files[0] == files[1] >= {"run.json", "questions.jsonl", "timings.json", "report.html", "summary.md"}
    plots = {name for name in files[0] if name.endswith(".png")}
    assert plots
    for name in {"run.json", "questions.jsonl"} | plots:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
    listed = json.loads(command("eval --list --json").stdout)
    assert [(row["run"], row["index"], row["version"], list(row["strategies"])) for row in listed] == [
        (run, "towns", 1, ["bridge-lexical", "bm25"]) for run in (1, 2)
    ]
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


def test_a_run_says_what_was_evaluated_and_how(root: Path, evaluate: Command) -> None:
    request = EvaluationRequest(
        questions=root.parent / "questions.jsonl",
        index="towns",
        strategies=("bm25:b=0.5", "bm25"),
        parameters={"k1": "1.2"},
        baselines=("bm25",),
        min_confidence=1.0,
    )
    evaluation = flow.run_evaluation(Settings(root=root), request)
    run, timings, rows = evaluation.run, evaluation.timings, evaluation.rows
    assert json.loads(json.dumps([run, timings, rows])) == [run, timings, rows]
    assert [run["questions"][name] for name in ("file", "n", "excluded", "left_out")] == ["questions.jsonl", 6, 1, 1]
    assert (run["strategies"], run["baseline"], run["parameters"]) == (["bm25:b=0.5", "bm25"], "bm25", {"k1": "1.2"})
    assert list(run["paired"]) == ["bm25:b=0.5"]
    assert (run["seed"], run["reader"], run["depth"], run["version"]) == (13, "rules", 100, 1)
    assert run["interval"] == {"kind": BOOTSTRAP, "level": 0.95, "resamples": 10_000, "seed": 13}
    assert all(run["results"]["bm25"]["intervals"].values())
    assert run["settings"].items() >= {"reader.min_confidence": 1, "index.extraction.extractor": "rules"}.items()
    assert [(hops, group["n"]) for hops, group in run["by_hops"].items()] == [("1", 3), ("2", 3)]
    assert [(kind, group["n"]) for kind, group in run["by_type"].items()] == [("<b>bridge</b>", 4), ("comparison", 2)]
    assert set(timings["strategies"]["bm25"]["parts_ms"]) >= {"encoding", "reading"}
    assert timings["peak_rss_mb"] > 1
    assert (len(rows), {row["is_shown"] for row in rows}) == (12, {False})
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


def test_an_unsure_answer_is_silenced_by_the_asker_and_by_the_job(command: Command, root: Path) -> None:
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


def test_long_gold_answers_are_said_to_be_judged_by_f1_and_containment(
    evaluate: Command, evaluated: Callable[..., Any], root: Path
) -> None:
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
        assert "containment of the shown" in shown
        assert "median 12 words" in shown
        assert "em of the shown" not in shown
    gated = evaluate("--strategies bm25 --no-store --fail-below em=.1", "sentences.jsonl")
    assert "gold answers are too long" in str(gated.exception)


def test_a_sample_asks_the_same_questions_whatever_else_is_given(
    command: Command, evaluate: Command, evaluated: Callable[..., Any], root: Path
) -> None:
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
    assert "The sample of 50 is all there is: 6 usable questions." in whole.stderr
    assert "questions.jsonl (2 of 6, seed 13)" in command("eval --list").stdout
    compared = command("eval --compare 1 2").stdout
    assert "questions.sample.size: 2 -> 50" in compared
    assert "in both: 2 questions; 0 only in 1, 4 only in 2; intervals: those in both" in compared


def test_ranges_are_evaluated_as_variants_and_stored_as_ranges(evaluated: Callable[..., Any]) -> None:
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
def test_the_command_of_algorithms_md_has_what_the_figures_of_sprig_show(command: Command) -> None:
    text = (PROJECT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ polyhop (eval .* --strategies .*graph-hybrid.*)$", text, re.MULTILINE)
    done = command(line.replace("--index mine", "--index towns --no-store --json"))
    assert done.exception is None, done.exception
    sizes, weighting, penalty, mode = stored_ranges(json.loads(done.stdout))
    assert sizes.parameters == ("seeds", "restart", "max_iter")
    assert [len(found.labels) for found in heat_maps(sizes)] == [9, 9, 9]
    shown = {several(one)[0]: values_of(one, several(one)[0]) for one in (weighting, penalty, mode)}
    assert shown == {
        "seed_weighting": ["rank", "raw", "softmax"],
        "hub_penalty": ["0", ".25", ".5", ".75", "1"],
        "ppr": ["power", "push"],
    }
    assert all(len(several(one)) > 1 for one in (sizes, weighting, penalty, mode))


NAMES = "names.jsonl --index lengths"
TUNED = f"tune {NAMES} --strategy bm25:b=0,.5:k1=1,2 --metric recall@1 --sample 10 --seed 3"


def test_the_best_setting_of_the_sample_is_judged_on_the_rest_as_two_evaluations_would(
    command: Command, root: Path
) -> None:
    done = command(f"{TUNED} --json")
    assert done.exception is None, done.exception
    report = json.loads(done.stdout)
    assert (report["chosen"], report["default"], report["reader"]) == ("bm25:b=0:k1=1", "bm25", "none")
    assert report["use"]["param"] == ["b=0", "k1=1"]
    assert [len(row["values"]) for row in report["tried"]] == [0, 2, 2, 2, 2]
    for part, rest in (("tuning", ""), ("rest", "--rest")):
        options = f"--sample 10 --seed 3 {rest} --reader none --no-store --json"
        evaluated = json.loads(command(f"eval {NAMES} --strategies bm25,bm25:b=0:k1=1 {options}").stdout)
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
    assert tuning["rest"]["paired"]["p"] == pytest.approx(paired["p"], abs=1e-6)
    assert "run" not in tuning
    assert {path.name for path in Path(report["folder"]).iterdir()} == {"tuning.json", "report.html"}
    assert not (root / "evaluations").exists()
    printed = command(f"{TUNED} --no-store").stdout.splitlines()
    assert printed[0] == "bm25 on 'lengths', version 1: 5 settings on 10 of 24 questions (random sample, seed 3)"
    assert any(line.split()[:2] == ["bm25:b=0:k1=1", "1.000"] for line in printed)
    assert any(line.endswith("better by more than chance.") for line in printed)
    assert printed[-1] == (
        "Nothing was changed; to use it: polyhop ask QUESTION --index lengths --strategy bm25 --param b=0 --param k1=1"
    )


def test_answers_are_read_where_the_metric_judges_them(command: Command) -> None:
    done = command(f"tune {NAMES} --strategy bm25:b=0,.75 --metric f1 --no-store --json")
    assert done.exception is None, done.exception
    report = json.loads(done.stdout)
    assert (report["reader"], report["tuning"]["judged"]) == ("rules", 12)
    assert "em" in report["rest"]["metrics"]


def test_a_version_that_is_published_meanwhile_ends_the_tuning(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, evaluate = root.parent / "lengths.jsonl", flow.run_evaluation

    def evaluate_and_publish(*arguments: object) -> object:
        found = evaluate(*arguments)  # type: ignore[arg-type]
        corpus.write_text(corpus.read_text(encoding="utf-8").replace("river", "lake"), encoding="utf-8")
        indexed(Settings(root=root, strategies=("bm25",)), corpus, "lengths", source_name="lengths")
        return found

    monkeypatch.setattr("polyhop.flows.evaluate.run_evaluation", evaluate_and_publish)
    request = TuningRequest(root.parent / "names.jsonl", "lengths", "bm25:b=0,.75", is_stored=False)
    with pytest.raises(
        errors.StoreConflictError, match=r"Version 2 of 'lengths' was published while version 1 was tuned"
    ):
        flow.tune_index(Settings(root=root, strategies=("bm25",)), request)


FACTS = {
    "title": "document.title",
    "drawn": "[...document.images].filter(i => i.complete && i.naturalWidth > 0 && i.clientWidth > 400).length",
    "images": "document.images.length",
    "strategies": "[...document.querySelector('#results tbody').rows].map(row => row.cells[0].textContent)",
    "active": "document.querySelectorAll('script, iframe, object, embed, link, form, b').length",
    "points": "[...document.querySelectorAll('#ranges tbody tr')].map(r => [...r.cells].map(c => c.innerText))",
    "width": "document.documentElement.scrollWidth",
    "scrolled": "[...document.querySelectorAll('#results .frame')].filter(e => e.scrollWidth > e.clientWidth).length",
    "fetched": "fetch('data:text/plain,x').then(() => 'reached', () => 'refused')",
}
SCHEMES = dict(zip(WIDTHS, ("light", "dark", "light"), strict=True))


def test_the_report_that_eval_stores_is_a_readable_page(browser: Any, evaluated: Callable[..., Any]) -> None:
    """In a real browser: complete in itself, and nothing runs that a question file holds."""
    label = "bridge-lexical:restart=0.3"
    made = evaluated(f"--strategies bm25,{label},bm25:b=0,.5,1:k1=1,2 --baseline bm25 --baseline {label}")
    report = Path(made["folder"]) / "report.html"
    looks = {width: browser.look(report, evaluate=FACTS | FITS, width=width, scheme=SCHEMES[width]) for width in WIDTHS}
    for width, looked in looks.items():
        assert_fits(looked.values)
        assert width > 400 or looked.values["scrolling"] >= len(looked.requests) - 1  # every plot, and tables
        assert looked.requests[0] == report.as_uri()
        assert all(address.startswith("data:image/png;base64,") for address in looked.requests[1:])
        values = looked.values
        assert values["title"] == "Evaluation of index towns, version 1 – Polyhop"
        assert values["images"] == values["drawn"] == 3  # recall, two differences
        assert values["width"] <= width
        assert (values["active"], values["fetched"]) == (0, "refused")
    points = [[b, k1] for b in ("0", ".5", "1") for k1 in ("1", "2")]
    variants = [f"bm25:b={b}:k1={k1}" for b, k1 in points]
    widest = looks[max(WIDTHS)]
    assert sorted(widest.values["strategies"]) == sorted(["bm25", label, *variants])
    assert [row[:2] for row in widest.values["points"]] == points
    assert widest.values["scrolled"] == 0
    assert "<b>bridge</b> (n = 4)" in widest.text
