"""Experiments by `polyhop eval`: samples, ranges of parameters, several baselines, intervals of means."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from drawing import stored_ranges
from parameters import heat_maps, several, values_of

from polyhop.flows.evaluate import run_evaluation
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.requests import EvaluationRequest
from polyhop.schemas.settings import Settings
from polyhop.tasks.evaluation.report import METRICS

Command = Callable[..., Result]
PROJECT = Path(__file__).resolve().parents[2]

QUESTIONS: list[dict[str, object]] = [
    {"id": f"q{n}", "question": f"Which river does Town {n} lie on?", "supporting": [f"p{n}"] if n else []}
    for n in range(6)
]


@pytest.fixture(scope="module")
def published(publish: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a root whose index needs no vectors, and the question files beside it."""
    texts = {n: f"Town {n} lies on the River {n % 5} in Country {n % 3}." for n in range(20)}
    records = [{"id": f"p{n}", "title": f"Town {n}", "text": text} for n, text in texts.items()]
    answered = [{**question, "answers": [f"River {n % 5}"]} for n, question in enumerate(QUESTIONS)]
    return publish(tmp_path_factory.mktemp("experiments"), records, questions=answered, unanswered=QUESTIONS)


@pytest.fixture
def evaluate(command: Command) -> Command:
    """`polyhop eval` in this process, on that root."""
    return lambda *arguments: command("eval", *arguments)


@pytest.fixture
def evaluated(evaluate: Command) -> Callable[..., Any]:
    """The JSON of an evaluation of the questions."""

    def run(*options: str) -> Any:
        done = evaluate("questions.jsonl", "--index", "towns", "--json", *options)
        assert done.exception is None, done.exception
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("bm25", "--baseline", "all"), "The baseline 'all' is not evaluated; evaluated: bm25."),
        (("bm25", "--seed", "3"), "A seed belongs to a sample"),
        (("bm25", "--rest"), "The rest is what a sample leaves out"),
        (("bm25", "--rest", "--sample", "6"), "A sample of 6 leaves out none of 6 usable questions"),
        (("bm25:b=1..300",), "stands for 300 variants, at most 100 are possible"),
        (("bm25:b=.3,bridg",), "'bridg' in 'bm25:b=.3,bridg' is neither a strategy nor a number"),
        (("bm25:b=.3,k1=2",), "'k1=2' in 'bm25:b=.3,k1=2' is neither a strategy nor a value of 'b'"),
        (("bm25:b=.3,2",), "Parameter 'b' of strategy 'bm25' is '2'"),
    ],
)
def test_a_wrong_experiment_is_refused_in_one_sentence(
    evaluate: Command, options: tuple[str, ...], sentence: str
) -> None:
    done = evaluate("questions.jsonl", "--index", "towns", "--strategies", *options)
    assert isinstance(done.exception, ConfigurationError)
    assert sentence in str(done.exception)
    assert done.stdout == ""


def test_a_sample_of_nothing_is_refused_by_the_command_and_in_python(evaluate: Command, root: Path) -> None:
    assert evaluate("questions.jsonl", "--index", "towns", "--sample", "0").exit_code == 2
    request = EvaluationRequest(root.parent / "questions.jsonl", "towns", ("bm25",), sample=0)
    with pytest.raises(ConfigurationError, match="A sample has at least 1 question, not 0"):
        run_evaluation(Settings(root=root), request)


def test_a_sample_asks_the_same_questions_whatever_else_is_given(
    evaluate: Command, evaluated: Callable[..., Any], root: Path
) -> None:
    rows = root.parent / "rows.jsonl"
    asked = []
    for options in (("bm25",), ("bridge-lexical,bm25", "--baseline", "bm25", "--set", "reader.min_confidence=1")):
        report = evaluated(
            "--no-store", "--sample", "3", "--seed", "7", "--out", "rows.jsonl", "--strategies", *options
        )
        assert (report["n"], report["sample"]) == (3, {"size": 3, "seed": 7, "of": 6})
        lines = rows.read_text(encoding="utf-8").splitlines()
        asked.append(list(dict.fromkeys(json.loads(line)["id"] for line in lines)))
    assert asked[0] == asked[1] == sorted(asked[0])
    assert len(asked[0]) == 3
    rest = ("--rest", "--sample", "3", "--seed", "7", "--strategies", "bm25", "--no-store")
    report = evaluated(*rest, "--out", "rows.jsonl")
    assert (report["n"], report["sample"]) == (3, {"size": 3, "seed": 7, "of": 6, "rest": True})
    left = [json.loads(line)["id"] for line in rows.read_text(encoding="utf-8").splitlines()]
    assert sorted(asked[0] + left) == [question["id"] for question in QUESTIONS]
    said = evaluate("questions.jsonl", "--index", "towns", *rest).stdout
    assert said.startswith("3 of 6 questions (all but a random sample of 3, seed 7) on 'towns'")
    assert evaluated("--no-store", "--strategies", "bm25")["sample"] is None
    stored = evaluate("questions.jsonl", "--index", "towns", "--strategies", "bm25", "--sample", "2")
    assert stored.stdout.startswith("2 of 6 questions (random sample, seed 13) on 'towns', version 1\n")
    whole = evaluate("questions.jsonl", "--index", "towns", "--strategies", "bm25", "--sample", "50")
    assert "The sample of 50 is all there is: 6 usable questions." in whole.stderr
    assert whole.stdout.startswith("6 questions on 'towns'")
    listed = json.loads(evaluate("--list", "--json").stdout)
    assert [(row["n"], row["sample"]) for row in listed] == [
        (2, {"size": 2, "seed": 13, "of": 6}),
        (6, {"size": 50, "seed": 13, "of": 6}),
    ]
    assert "questions.jsonl (2 of 6, seed 13)" in evaluate("--list").stdout
    compared = evaluate("--compare", "1", "2").stdout
    assert "questions.sample.size: 2 -> 50" in compared
    assert "in both: 2 questions; 0 only in 1, 4 only in 2; intervals: those in both" in compared


def test_ranges_are_evaluated_as_variants_and_stored_as_ranges(evaluated: Callable[..., Any]) -> None:
    report = evaluated(
        *("--strategies", "bridge-lexical:restart=.3,.5:seeds=1..2,bm25:b=0..1,bm25"),
        *("--baseline", "bm25", "--baseline", "bm25:b=1"),
    )
    crossed = [f"bridge-lexical:restart={r}:seeds={s}" for r in (".3", ".5") for s in (1, 2)]
    assert list(report["strategies"]) == [*crossed, "bm25:b=0", "bm25:b=1", "bm25"]
    assert (report["baseline"], report["baselines"]) == ("bm25", ["bm25", "bm25:b=1"])
    assert {frozenset(pair.split(" vs ")) for pair in report["paired"]} == {
        frozenset((one, other)) for one in report["baselines"] for other in report["strategies"] if one != other
    }
    run = json.loads((Path(report["folder"]) / "run.json").read_text(encoding="utf-8"))
    assert run["ranges"] == report["ranges"]
    assert [(one["label"], one["parameters"]) for one in run["ranges"]] == [
        ("bridge-lexical:restart=.3,.5:seeds=1..2", ["restart", "seeds"]),
        ("bm25:b=0..1", ["b"]),
    ]
    assert run["ranges"][1]["points"] == [{"label": f"bm25:b={b}", "values": [b]} for b in ("0", "1")]
    assert list(run["paired"]) == [*crossed, "bm25:b=0", "bm25:b=1"]
    assert {name: list(rows) for name, rows in run["paired_further"].items()} == {
        "bm25:b=1": [*crossed, "bm25:b=0", "bm25"]
    }
    one = run["paired"]["bm25:b=1"]["mrr"]
    back = run["paired_further"]["bm25:b=1"]["bm25"]["mrr"]
    assert (one["difference"], one["low"], one["wins"]) == (-back["difference"], -back["high"], back["losses"])
    files = {path.name for path in Path(report["folder"]).iterdir()}
    assert files >= {"paired_differences.png", "paired_differences_2.png"}


def test_the_command_of_algorithms_md_has_what_the_figures_of_sprig_show(evaluate: Command) -> None:
    text = (PROJECT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ polyhop eval (.* --strategies .*graph-hybrid.*)$", text, re.MULTILINE)
    done = evaluate(*shlex.split(line.replace("--index mine", "--index towns")), "--no-store", "--json")
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


def test_every_metric_has_its_interval_and_null_where_nothing_is_judged(evaluate: Command) -> None:
    arguments = ("--index", "towns", "--strategies", "bm25")
    report = json.loads(evaluate("unanswered.jsonl", *arguments, "--json").stdout)
    result = report["strategies"]["bm25"]
    for metric in METRICS:
        interval = result["intervals"][metric]
        assert (interval is None) == (result[metric] is None) == (metric in {"em", "f1"})
        assert interval is None or interval["low"] <= result[metric] <= interval["high"]
    assert report["interval"] == {
        "kind": "percentile bootstrap of the mean over questions", "level": 0.95, "resamples": 10_000, "seed": 13,
    }  # fmt: skip
    folder = Path(report["folder"])
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["results"]["bm25"]["intervals"]["em"] is None
    assert "percentile bootstrap of the mean over questions" in (folder / "report.html").read_text(encoding="utf-8")
    printed = evaluate("unanswered.jsonl", *arguments, "--no-store").stdout
    assert "95 % intervals of the means (percentile bootstrap of the mean over questions, 10,000 resamples)" in printed
    low, high = (result["intervals"]["recall@5"][end] for end in ("low", "high"))
    assert f"bm25      [{low:.3f}, {high:.3f}]" in printed


def test_runs_that_were_stored_before_samples_ranges_and_intervals_are_listed_and_compared(
    evaluate: Command, root: Path
) -> None:
    for _ in range(2):
        assert evaluate("questions.jsonl", "--index", "towns", "--strategies", "bm25").exception is None
    path = root / "evaluations" / "000001" / "run.json"
    run = json.loads(path.read_text(encoding="utf-8"))
    for name in ("baselines", "paired_further", "ranges", "interval"):
        del run[name]
    del run["questions"]["sample"]
    del run["results"]["bm25"]["intervals"]
    path.write_text(json.dumps(run), encoding="utf-8")
    assert [row["sample"] for row in json.loads(evaluate("--list", "--json").stdout)] == [None, None]
    assert evaluate("--list").exception is None
    for numbers in (("1", "2"), ("2", "1")):
        changes = json.loads(evaluate("--compare", *numbers, "--json").stdout)
        assert (changes["changed"], changes["most_changed"]) == ({}, [])
        assert changes["strategies"]["bm25"]["mrr"]["paired"]["ties"] == 5


def test_the_request_of_python_reads_lists_and_ranges_as_the_command_does(root: Path) -> None:
    questions = root.parent / "questions.jsonl"
    given = [("bm25:b=.3,.5", "bridge-lexical"), ("bm25:b=.3,.5,bridge-lexical",)]
    runs = [
        run_evaluation(Settings(root=root), EvaluationRequest(questions, "towns", strategies, sample=2)).run
        for strategies in given
    ]
    assert runs[0] == runs[1]
    assert runs[0]["strategies"] == ["bm25:b=.3", "bm25:b=.5", "bridge-lexical"]
