"""What the demo promises: see README.md."""

import json
from pathlib import Path
from typing import Any

import pytest

from polyhop.flows.evaluate import run_evaluation
from polyhop.schemas.requests import EvaluationRequest
from polyhop.schemas.settings import Settings

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(scope="module")
def evaluated(demo_root: Path, demo_folder: Path) -> list[dict[str, Any]]:
    request = EvaluationRequest(demo_folder / "questions.jsonl", "demo", ("bridge",))
    return run_evaluation(Settings(root=demo_root), request).rows


def test_fingerprints_are_those_of_the_release_before(demo_root: Path) -> None:
    """Else the first run of a new release derives every index again; a changed `revision` changes them on purpose."""
    golden = json.loads((GOLDEN / "demo_fingerprints.json").read_text(encoding="utf-8"))
    (manifest,) = (demo_root / "indexes" / "demo" / "versions").glob("*/manifest.json")
    stages = json.loads(manifest.read_text(encoding="utf-8"))["stages"]
    assert {name: record["fingerprint"] for name, record in stages.items()} == {name: golden[name] for name in stages}


def test_bridge_finds_all_gold_passages_in_its_first_five(evaluated: list[dict[str, Any]]) -> None:
    missed = sorted(row["id"] for row in evaluated if row["all@5"] != 1)
    assert len(evaluated) >= 20
    assert len(missed) <= 0.1 * len(evaluated), missed


def test_seven_tenths_of_the_short_answers_are_exact_and_no_confident_one_is_wrong(
    evaluated: list[dict[str, Any]],
) -> None:
    exact = [row["id"] for row in evaluated if row["em"] == 1]
    assert len(exact) >= 0.7 * len(evaluated), exact
    confident = {row["id"]: row["em"] for row in evaluated if row["confidence"] > 0.6}
    assert len(confident) >= 3
    assert set(confident.values()) == {1.0}, confident
