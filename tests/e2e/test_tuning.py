"""`polyhop tune`: a setting chosen on a sample, judged on the rest, as two evaluations would; nothing is changed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from polyhop.flows.evaluate import run_evaluation, tune_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import StoreConflictError
from polyhop.schemas.requests import IndexRequest, TuningRequest
from polyhop.schemas.settings import Settings

Command = Callable[..., Result]
COUNT = 24


@pytest.fixture(scope="module")
def published(publish: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long passages that answer, and short ones that only name: BM25 finds the long ones if length does not count."""
    filler = " ".join(f"word{n}" for n in range(120))
    long = [
        {"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} has a river. Town {n} is old. Town {n}. {filler}"}
        for n in range(COUNT)
    ]
    short = [{"id": f"d{n}", "title": "List", "text": f"Town {n}"} for n in range(COUNT)]
    questions = [
        {"id": f"q{n}", "question": f"Town {n}?", "supporting": [f"p{n}"], "answers": ["a river"]} for n in range(COUNT)
    ]
    return publish(tmp_path_factory.mktemp("tuning"), [*long, *short], questions=questions)


ARGUMENTS = ("questions.jsonl", "--index", "towns")
TUNED = (*ARGUMENTS, "--strategy", "bm25:b=0,.5:k1=1,2", "--metric", "recall@1", "--sample", "10", "--seed", "3")


def test_the_best_setting_of_the_sample_is_judged_on_the_rest_as_two_evaluations_would(
    command: Command, root: Path
) -> None:
    done = command("tune", *TUNED, "--json")
    assert done.exception is None, done.exception
    report = json.loads(done.stdout)
    assert (report["chosen"], report["default"], report["reader"]) == ("bm25:b=0:k1=1", "bm25", "none")
    assert report["use"]["param"] == ["b=0", "k1=1"]
    assert [len(row["values"]) for row in report["tried"]] == [0, 2, 2, 2, 2]
    for part, rest in (("tuning", ()), ("rest", ("--rest",))):
        options = ("--sample", "10", "--seed", "3", *rest, "--reader", "none", "--no-store", "--json")
        evaluated = json.loads(command("eval", *ARGUMENTS, "--strategies", "bm25,bm25:b=0:k1=1", *options).stdout)
        assert report[part]["n"] == evaluated["n"]
        for who, label in (("default", "bm25"), ("chosen", "bm25:b=0:k1=1")):
            assert report[part][who]["mean"] == pytest.approx(evaluated["strategies"][label]["recall@1"], abs=1e-6)
    assert (report["tuning"]["n"], report["rest"]["n"]) == (10, COUNT - 10)
    paired = report["rest"]["paired"]
    assert paired["difference"] == pytest.approx(report["rest"]["chosen"]["mean"] - report["rest"]["default"]["mean"])
    assert (paired["wins"], paired["significant"], paired["p"] < 0.05) == (COUNT - 10, True, True)
    assert "recall@5" in report["rest"]["metrics"]
    folder = Path(report["folder"])
    assert folder == root / "tunings" / "000001"
    stored = json.loads((folder / "tuning.json").read_text(encoding="utf-8"))
    assert stored["rest"]["paired"]["p"] == pytest.approx(paired["p"], abs=1e-6)
    assert "run" not in stored
    assert {path.name for path in folder.iterdir()} == {"tuning.json", "report.html"}
    assert not (root / "evaluations").exists()


def test_the_text_says_what_was_chosen_what_it_is_worth_and_that_nothing_was_changed(command: Command) -> None:
    printed = command("tune", *TUNED, "--no-store").stdout.splitlines()
    assert printed[0] == "bm25 on 'towns', version 1: 5 settings on 10 of 24 questions (random sample, seed 3)"
    assert any(line.split()[:2] == ["bm25:b=0:k1=1", "1.000"] for line in printed)
    default, chosen = (next(line.split() for line in printed if line.startswith(who)) for who in ("default", "chosen"))
    assert chosen[1:3] == ["1.000", "1.000"]
    assert float(default[2]) < 1
    assert any(line.endswith("better by more than chance.") for line in printed)
    assert printed[-1] == (
        "Nothing was changed; to use it: polyhop ask QUESTION --index towns --strategy bm25 --param b=0 --param k1=1"
    )


def test_answers_are_read_where_the_metric_judges_them(command: Command) -> None:
    done = command("tune", *ARGUMENTS, "--strategy", "bm25:b=0,.75", "--metric", "f1", "--no-store", "--json")
    assert done.exception is None, done.exception
    report = json.loads(done.stdout)
    assert (report["reader"], report["tuning"]["judged"]) == ("rules", 12)
    assert "em" in report["rest"]["metrics"]


def test_a_wrong_request_is_wrong_usage_and_stores_nothing(command: Command, root: Path) -> None:
    done = command("tune", *ARGUMENTS, "--metric", "recall@7")
    assert "Unknown metric 'recall@7' to tune by" in str(done.exception)
    done = command("tune", *ARGUMENTS, "--strategy", "bm25", "--sample", "20")
    assert "there are 20 to tune on and 4 to keep back" in str(done.exception)
    assert not (root / "tunings").exists()


def test_a_version_that_is_published_meanwhile_ends_the_tuning(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = root.parent / "corpus.jsonl"
    settings = Settings(root=root, strategies=("bm25",))

    def evaluate_and_publish(*arguments: object) -> object:
        found = run_evaluation(*arguments)  # type: ignore[arg-type]
        corpus.write_text(corpus.read_text(encoding="utf-8").replace("river", "lake"), encoding="utf-8")
        run_index(settings, IndexRequest("towns", corpus, source_name="corpus"), DirectRunner())
        return found

    monkeypatch.setattr("polyhop.flows.evaluate.run_evaluation", evaluate_and_publish)
    request = TuningRequest(root.parent / "questions.jsonl", "towns", "bm25:b=0,.75", is_stored=False)
    with pytest.raises(StoreConflictError, match=r"Version 2 of 'towns' was published while version 1 was tuned"):
        tune_index(settings, request)
