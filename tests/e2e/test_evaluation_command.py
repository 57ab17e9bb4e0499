"""`polyhop eval` on a small index: stored runs, their comparison, gates, and answers silenced by confidence."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from polyhop.api import open_index
from polyhop.flows.evaluate import evaluate_index, labels_of, left_out_sentences, run_evaluation, with_strategies
from polyhop.flows.prefect_deploy import DeployedIndex, deployments
from polyhop.schemas.errors import ConfigurationError, GateFailedError, SourceError, StoreError, UnknownIdError
from polyhop.schemas.requests import EvaluationRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_questions
from polyhop.worker.loop import Worker, WorkerMetrics, WorkerOptions
from polyhop.worker.session import IndexPool

Run = Callable[..., subprocess.CompletedProcess[str]]
Command = Callable[..., Result]

RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} lies on the River {n % 5} in Country {n % 3}."}
    for n in range(30)
]
QUESTIONS: list[dict[str, object]] = [
    {
        "id": f"q{n}",
        "question": f"Which river does Town {n} lie on?",
        "answers": [f"River {n % 5}"],
        "supporting": [f"p{n}"] if n else [],
        "hops": 1 + n % 2,
        "type": "bridge" if n < 4 else "comparison",
    }
    for n in range(6)
]
DETERMINISTIC = {"run.json", "questions.jsonl"}


@pytest.fixture(scope="module")
def published(publish: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a root whose index needs no vectors, and the question file, whose last line is broken."""
    folder = publish(tmp_path_factory.mktemp("evaluations"), RECORDS, questions=QUESTIONS)
    with (folder / "questions.jsonl").open("a", encoding="utf-8") as file:
        file.write("{broken\n")
    return folder


@pytest.fixture
def evaluated(command: Command) -> Callable[..., Any]:
    """The JSON of an evaluation that is not stored."""

    def run(*options: str) -> Any:
        done = command("eval", "questions.jsonl", "--index", "towns", "--json", "--no-store", *options)
        assert done.exception is None, done.exception
        return json.loads(done.stdout)

    return run


def test_evaluations_are_stored_equal_but_for_timings_listed_and_compared(
    command: Command, polyhop: Run, root: Path
) -> None:
    arguments = ("eval", "questions.jsonl", "--index", "towns", "--strategies", "bridge-lexical,bm25", "--json")
    gated = polyhop(
        *("eval", root.parent / "questions.jsonl", *arguments[2:], "--fail-below", "bm25:em=1", "--root", root)
    )
    assert (gated.returncode, "The gate failed: em of bm25 is" in gated.stderr) == (1, True)
    first = json.loads(gated.stdout)
    assert [row["passed"] for row in first["gates"]] == [False]
    second = json.loads(command(*arguments).stdout)
    folders = [Path(report["folder"]) for report in (first, second)]
    assert [report["run"] for report in (first, second)] == [1, 2]
    assert [folder.name for folder in folders] == ["000001", "000002"]
    files = [{path.name for path in folder.iterdir()} for folder in folders]
    assert files[0] == files[1] >= {*DETERMINISTIC, "timings.json", "report.html", "summary.md"}
    plots = {name for name in files[0] if name.endswith(".png")}
    assert plots
    for name in DETERMINISTIC | plots:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
    listed = json.loads(command("eval", "--list", "--json").stdout)
    assert [(row["run"], row["index"], row["version"], list(row["strategies"])) for row in listed] == [
        (1, "towns", 1, ["bridge-lexical", "bm25"]),
        (2, "towns", 1, ["bridge-lexical", "bm25"]),
    ]
    assert "bridge-lexical,bm25" in command("eval", "--list").stdout
    changes = json.loads(command("eval", "--compare", "1", "2", "--json").stdout)
    assert (changes["changed"], changes["most_changed"]) == ({}, [])
    assert "no metric changed" in command("eval", "--compare", "1", "2").stdout
    unknown = command("eval", "--compare", "1", "9")
    assert isinstance(unknown.exception, UnknownIdError)


def test_a_run_says_what_was_evaluated_and_how(root: Path) -> None:
    request = EvaluationRequest(
        questions=root.parent / "questions.jsonl",
        index="towns",
        strategies=("bm25:b=0.5", "bm25"),
        parameters={"k1": "1.2"},
        baselines=("bm25",),
        min_confidence=1.0,
    )
    evaluation = run_evaluation(Settings(root=root), request)
    run, timings, rows = evaluation.run, evaluation.timings, evaluation.rows
    assert json.loads(json.dumps([run, timings, rows])) == [run, timings, rows]
    assert run["questions"]["file"] == "questions.jsonl"
    assert [run["questions"][name] for name in ("n", "excluded", "left_out")] == [6, 1, 1]
    assert (run["strategies"], run["baseline"], run["parameters"]) == (["bm25:b=0.5", "bm25"], "bm25", {"k1": "1.2"})
    assert list(run["paired"]) == ["bm25:b=0.5"]
    assert (run["seed"], run["reader"], run["depth"], run["version"]) == (13, "rules", 100, 1)
    assert run["settings"]["reader.min_confidence"] == 1
    assert run["settings"]["index.extraction.extractor"] == "rules"
    assert [(hops, group["n"]) for hops, group in run["by_hops"].items()] == [("1", 3), ("2", 3)]
    assert [(kind, group["n"]) for kind, group in run["by_type"].items()] == [("bridge", 4), ("comparison", 2)]
    assert set(timings["strategies"]["bm25"]["parts_ms"]) >= {"encoding", "reading"}
    assert timings["peak_rss_mb"] > 1
    assert len(rows) == 12
    assert {row["is_shown"] for row in rows} == {False}
    assert run["results"]["bm25"]["shown"]["share"] == 0
    assert any(row["confidence"] > 0 for row in rows)


def test_all_strategies_are_those_that_the_index_can_serve(evaluated: Callable[..., Any]) -> None:
    report = evaluated("--strategies", "all", "--baseline", "bm25")
    assert {"bm25", "bridge-lexical"} <= set(report["strategies"])
    assert "vectors:passage" in report["left_out"]["dense"]
    assert set(report["left_out"]).isdisjoint(report["strategies"])
    assert report["run"] is None


def test_the_deployed_evaluation_asks_what_the_index_was_built_for(root: Path) -> None:
    (deployed,) = (each for each in deployments([DeployedIndex("towns")]) if each.kind == "evaluation")
    request = EvaluationRequest(Path("questions.jsonl"), "towns", (deployed.parameters["strategies"],))
    assert labels_of(with_strategies(Settings(root=root), request)) == ["bm25", "bridge-lexical"]


def test_all_that_were_left_out_are_one_line_and_no_reason_names_another_strategy(root: Path) -> None:
    request = EvaluationRequest(root.parent / "questions.jsonl", "towns", ("all",), is_stored=False)
    evaluation = run_evaluation(Settings(root=root), request)
    left_out = evaluation.report["left_out"]
    (line,) = (sentence for sentence in left_out_sentences(evaluation) if "of 'all' left out" in sentence)
    assert line.startswith(f"{len(left_out)} strategies of 'all' left out: {', '.join(left_out)}; ")
    assert [name for name, reason in left_out.items() if f"'{name}'" not in reason.split(" needs ")[0]] == []


def test_an_evaluation_prints_calibration_hops_and_the_baseline(command: Command) -> None:
    done = command(
        *("eval", "questions.jsonl", "--index", "towns", "--strategies", "bm25,bridge-lexical", "--no-store"),
        *("--baseline", "bridge-lexical", "--fail-below", "recall@5=0"),
    )
    assert done.exception is None
    for part in (
        "em of shown",
        "sentence hit",
        "Confidence stated -> exact match observed",
        "1 (3)",
        "bm25 vs bridge-lexical",
    ):
        assert part in done.stdout
    assert "line 7 was left out" in done.stderr


def test_supporting_ids_that_the_index_has_not_are_told_and_stored(root: Path, command: Command) -> None:
    lines = [{**QUESTIONS[1], "supporting": ["p1", "nowhere"]}, {**QUESTIONS[2], "supporting": ["nowhere", "gone"]}]
    (root.parent / "other.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    done = command("eval", "other.jsonl", "--index", "towns", "--strategies", "bm25", "--json")
    assert done.stderr.startswith("2 supporting ids counted as missed, in no passage of 'towns'")
    report = json.loads(done.stdout)
    assert (report["unknown_supporting"], report["strategies"]["bm25"]["recall@5"]) == (2, 0.25)
    folder = Path(report["folder"])
    assert json.loads((folder / "run.json").read_text(encoding="utf-8"))["questions"]["unknown_supporting"] == 2
    assert "Supporting ids in no passage of the index: 2" in (folder / "summary.md").read_text(encoding="utf-8")


def test_rows_that_could_not_be_written_are_refused_before_anything_is_asked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyhop.flows.evaluate.open_published", None)
    questions = root.parent / "questions.jsonl"
    before = questions.read_bytes()
    requests = {
        out: EvaluationRequest(questions=questions, index="towns", strategies=("bm25",), parameters={}, out=out)
        for out in (questions, root, root / "nothere" / "rows.jsonl")
    }
    for out, (kind, sentence) in zip(
        requests,
        [
            (ConfigurationError, "would replace the questions"),
            (StoreError, "that is a folder; name a file"),
            (StoreError, "there is no folder .*; create it first"),
        ],
        strict=True,
    ):
        with pytest.raises(kind, match=sentence):
            run_evaluation(Settings(root=root), requests[out])
    assert questions.read_bytes() == before


def test_an_evaluation_that_could_not_be_stored_is_refused_before_anything_is_asked(
    root: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyhop.flows.evaluate.run_evaluation", None)
    (root / "evaluations").touch()
    done = command("eval", "questions.jsonl", "--index", "towns", "--strategies", "bm25")
    assert isinstance(done.exception, StoreError)
    assert "Cannot write the evaluation" in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("questions.jsonl",), "needs a question file and an index"),
        (("--index", "towns"), "needs a question file and an index"),
        (
            ("questions.jsonl", "--index", "towns", "--fail-below", "recal@5=.5"),
            "unknown metric 'recal@5'; metrics: recall",
        ),
        (("questions.jsonl", "--index", "towns", "--fail-below", "dense:em=.5"), "'dense', which is not evaluated"),
        (("questions.jsonl", "--index", "towns", "--strategies", "bm25", "--baseline", "dense"), "evaluated: bm25"),
        (("questions.jsonl", "--index", "towns", "--strategies", ","), "no strategy to evaluate"),
    ],
)
def test_a_wrong_evaluation_is_refused_in_one_sentence(
    command: Command, arguments: tuple[str, ...], sentence: str
) -> None:
    done = command("eval", *arguments)
    assert isinstance(done.exception, ConfigurationError)
    assert sentence in str(done.exception)
    assert done.stdout == ""


def test_an_evaluation_that_cannot_be_made_says_why_and_stores_nothing(root: Path) -> None:
    questions = root.parent / "questions.jsonl"
    request = EvaluationRequest(root.parent / "nothere.jsonl", "towns", ("bm25",))
    with pytest.raises(SourceError, match=r"nothere\.jsonl"):
        evaluate_index(Settings(root=root), request)
    with pytest.raises(ConfigurationError, match="The least confidence is 2; it must be within 0 to 1"):
        evaluate_index(Settings(root=root), EvaluationRequest(questions, "towns", ("bm25",), min_confidence=2))
    assert not list(root.glob("evaluations/*"))


def test_an_evaluation_reports_its_run_its_gates_and_its_progress(root: Path) -> None:
    questions, seen = root.parent / "questions.jsonl", []
    request = EvaluationRequest(questions, "towns", ("bm25",), fail_below=("recall@5=.1", "bm25:em=1"))
    report = evaluate_index(Settings(root=root), request, lambda *progress: seen.append(progress)).report
    assert [(row["metric"], row["passed"]) for row in report["gates"]] == [("recall@5", True), ("em", False)]
    assert Path(report["folder"]) == root / "evaluations" / f"{report['run']:06d}"
    assert seen == [("bm25", done, 6) for done in range(1, 7)]


def test_a_gate_on_a_strategy_that_could_not_be_served_does_not_pass(command: Command) -> None:
    done = command("eval", "questions.jsonl", "--index", "towns", "--strategies", "all", "--no-store",
                   "--fail-below", "dense:recall@5=.1")  # fmt: skip
    assert isinstance(done.exception, ConfigurationError)
    gate = ("--fail-below", "mrr=0", "--fail-below", "all@2=1", "--fail-below", "em=1")
    failed = command("eval", "questions.jsonl", "--index", "towns", "--strategies", "bm25", "--no-store", *gate)
    assert isinstance(failed.exception, GateFailedError)
    assert "em of bm25" in str(failed.exception)
    assert "mrr" not in str(failed.exception)


def _work(root: Path) -> None:
    """A worker without signal handlers, which would stay in this process."""
    settings = Settings(root=root)
    with open_questions(settings) as queue:
        options = WorkerOptions(queues=("default",), until_empty=True)
        report = Worker(queue, IndexPool(settings), options, WorkerMetrics()).run()
    assert (report.finished, report.failed) == (12, 0)


def test_an_unsure_answer_is_silenced_by_the_asker_and_by_the_job(command: Command, root: Path) -> None:
    question = str(QUESTIONS[1]["question"])
    ask = ("ask", question, "--index", "towns", "--strategy", "bm25", "--json")
    given, silent = (json.loads(command(*ask, "--set", f"reader.min_confidence={least}").stdout) for least in (0.1, 1))
    assert given["answer"] == silent["guess"] != ""
    assert silent["answer"] == ""
    assert any(silent["guess"] in sentence["text"] for sentence in silent["sentences"])
    assert silent["reading"]["confidence"] == given["reading"]["confidence"] < 1
    submit = ("submit", "questions.jsonl", "--skip-bad", "--index", "towns", "--strategy", "bm25", "--json")
    jobs = [json.loads(command(*submit, "--min-confidence", least).stdout)["job_id"] for least in ("0.1", "1")]
    _work(root)
    answers = [
        {row["id"]: row for row in map(json.loads, command("results", str(job)).stdout.splitlines())} for job in jobs
    ]
    assert answers[0]["q1"]["answer"] == given["answer"]
    assert {row["answer"] for row in answers[1].values()} == {""}
    assert answers[1]["q1"]["reading"]["confidence"] == given["reading"]["confidence"]
    listed = json.loads(command("jobs", "--json").stdout)
    assert {row["job_id"]: row["min_confidence"] for row in listed} == {jobs[0]: 0.1, jobs[1]: 1}


def test_answers_are_judged_by_f1_and_containment_where_gold_answers_are_sentences(
    command: Command, root: Path
) -> None:
    """Text, JSON, page and summary: no exact match, no calibration, and why; a gate for exact match does not pass."""
    rows = [
        q | {"answers": [f"Town {n}, a town of the Country, lies on the River {n % 5}."]}
        for n, q in enumerate(QUESTIONS)
    ]
    (root.parent / "sentences.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    arguments = ("eval", "sentences.jsonl", "--index", "towns", "--strategies", "bm25")
    said = "The gold answers are long (median 12 words), so answers are judged by token F1 and containment"
    text = command(*arguments, "--no-store").stdout
    assert said in text
    assert "f1 of shown" in text
    assert "Confidence stated" not in text
    assert " em " not in text
    report = json.loads(command(*arguments, "--json").stdout)
    found = report["strategies"]["bm25"]
    assert report["long_answers"] == {"median_words": 12}
    assert (found["em"], found["answered"]["em"], found["calibration"], found["coverage"]) == (None,) * 4
    assert 0 < found["containment"] < 1
    folder = Path(report["folder"])
    assert not (folder / "calibration.png").exists()
    for name in ("report.html", "summary.md"):
        shown = (folder / name).read_text(encoding="utf-8")
        assert "containment of the shown" in shown
        assert "median 12 words" in shown
        assert "em of the shown" not in shown
    row = json.loads((folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert (row["em"], row["containment"] > 0) == (None, True)
    gated = command(*arguments, "--no-store", "--fail-below", "em=.1")
    assert "gold answers are too long" in str(gated.exception)
    assert command(*arguments, "--no-store", "--fail-below", "containment=.01").exception is None


def test_a_closed_index_says_so(root: Path) -> None:
    index = open_index("towns", root=root)
    index.close()
    with pytest.raises(StoreError, match=r"^Index 'towns' is closed; open it again"):
        index.ask("Which river does Town 1 lie on?", strategy="bm25")


def test_a_file_without_usable_questions_names_the_first_and_its_fault(root: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"id": 1}\n')
    request = EvaluationRequest(tmp_path / "bad.jsonl", "towns", ("bm25",))
    with pytest.raises(SourceError, match=r"no usable question in .*bad\.jsonl: line 1: there is no question"):
        run_evaluation(Settings(root=root), request)
