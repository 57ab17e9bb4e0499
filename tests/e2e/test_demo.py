"""What the demo promises: see README.md."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, demo_folder: Path) -> Path:
    """A root with the demo's index."""
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest
    from polyhop.schemas.settings import Settings

    folder = tmp_path_factory.mktemp("demo")
    run_index(Settings(root=folder), IndexRequest("demo", demo_folder / "corpus.jsonl"), DirectRunner())
    return folder


@pytest.fixture(scope="module")
def evaluated(indexed: Path, demo_folder: Path) -> list[dict[str, object]]:
    from polyhop.flows.evaluate import run_evaluation
    from polyhop.schemas.requests import EvaluationRequest
    from polyhop.schemas.settings import Settings

    out = indexed / "rows.jsonl"
    request = EvaluationRequest(demo_folder / "questions.jsonl", "demo", ("bridge",), {}, out)
    run_evaluation(Settings(root=indexed), request)
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_fingerprints_are_those_of_the_release_before(indexed: Path) -> None:
    """Else the first run of a new release derives every index again; a changed `revision` changes them on purpose."""
    golden = json.loads((GOLDEN / "demo_fingerprints.json").read_text(encoding="utf-8"))
    (manifest,) = (indexed / "indexes" / "demo" / "versions").glob("*/manifest.json")
    stages = json.loads(manifest.read_text(encoding="utf-8"))["stages"]
    assert {name: record["fingerprint"] for name, record in stages.items()} == {name: golden[name] for name in stages}


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
