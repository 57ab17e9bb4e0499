"""What the demo promises: see README.md and issue 3."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, demo_folder: Path) -> list[dict[str, object]]:
    from flows.index import DirectRunner, run_index
    from flows.reports import IndexRequest
    from polyhop.evaluation import EvaluationRequest, evaluate_index
    from schemas.settings import Settings

    folder = tmp_path_factory.mktemp("demo")
    settings = Settings(root=folder)
    run_index(settings, IndexRequest("demo", demo_folder / "corpus.jsonl"), DirectRunner())
    out = folder / "rows.jsonl"
    evaluate_index(settings, EvaluationRequest(demo_folder / "questions.jsonl", "demo", ("bridge",), {}, out))
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_bridge_finds_all_gold_passages_in_its_first_five(evaluated: list[dict[str, object]]) -> None:
    complete = [row["id"] for row in evaluated if row["all@5"] == 1]
    assert len(evaluated) >= 20
    assert len(complete) >= 0.9 * len(evaluated), sorted(
        {str(row["id"]) for row in evaluated} - set(map(str, complete))
    )


def test_seven_tenths_of_the_short_answers_are_exact_and_no_confident_one_is_wrong(
    evaluated: list[dict[str, object]],
) -> None:
    exact = [row["id"] for row in evaluated if row["em"] == 1]
    assert len(exact) >= 0.7 * len(evaluated), exact
    confident = {str(row["id"]): row["em"] for row in evaluated if float(str(row["confidence"])) > 0.6}
    assert len(confident) >= 3
    assert set(confident.values()) == {1.0}, confident


def test_the_demo_answers_a_question_and_says_what_to_try_next(polyhop: Run) -> None:
    done = polyhop("demo")
    assert done.returncode == 0, done.stderr
    for part in ("version 1 published", "Question", "Passages", "How the evidence connects", "Try next"):
        assert part in done.stdout
    again = polyhop("demo", "--json")
    assert json.loads(again.stdout)["index"]["changed"] is False
