"""Answers of the demo and of tests/golden/reader, whose questions were written before any reader read them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from small_indexes import indexed

from polyhop.api import Answer, open_index
from polyhop.commands.ask import print_answer
from polyhop.flows.evaluate import run_evaluation
from polyhop.flows.evaluation.metrics import exact_match
from polyhop.schemas.requests import EvaluationRequest
from polyhop.schemas.settings import Settings

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "reader"


Asked = dict[str, tuple[dict[str, Any], Answer]]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """The golden questions, each with its row and what was read."""
    folder = tmp_path_factory.mktemp("golden")
    indexed(Settings(root=folder), GOLDEN / "corpus.jsonl", "own")
    rows = map(json.loads, (GOLDEN / "questions.jsonl").read_text(encoding="utf-8").splitlines())
    with open_index("own", root=folder) as index:
        return {row["question"]: (row, index.ask(row["question"])) for row in rows}


def is_right(row: dict[str, Any], found: Answer) -> bool:
    return exact_match(found.guess, row["answers"]) == 1 if row["answers"] else not found.answer


@pytest.mark.parametrize("half", ["tune", "held"])
def test_what_is_answered_is_right_and_what_cannot_be_answered_is_not(asked: Asked, half: str) -> None:
    part = [(row, found) for row, found in asked.values() if row["half"] == half]
    for count, most, some in (
        (1, 0.15, [one for one in part if one[0]["answers"]]),
        (1, 0.45, [one for one in part if not one[0]["answers"]]),
        (5, 0.25, [one for one in part if one[1].reading["confidence"] > 0.6]),
        (7, 0.0, [one for one in part if one[1].reading["kind"] == "computed"]),
    ):
        assert len(some) >= count
        wrong = [f"{row} -> {found.answer!r}" for row, found in some if not is_right(row, found)]
        assert len(wrong) <= most * len(some), wrong


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who founded Penguin Books?", "Allen Lane"),
        ("Where was the architect of the Sydney Opera House born?", "Copenhagen"),
        ("Was Ada Lovelace born before Charles Babbage?", ""),
    ],
)
def test_the_kin_of_the_examples_of_the_page_are_answered(asked: Asked, question: str, answer: str) -> None:
    assert asked[question][1].answer == answer


def test_the_page_on_asking_shows_what_is_printed(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    page = (GOLDEN.parents[2] / "docs" / "how-to" / "asking.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- reader output: begin -->\n```console\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    blocks = shown[1].strip().split("\n\n")
    assert len(blocks) >= 3
    for block in blocks:
        print_answer(asked[block.partition("\n")[0].removeprefix("Question  ")][1], {}, explain=False)
        assert capsys.readouterr().out.partition("\nPassages")[0] == block


@pytest.fixture(scope="module")
def demo_rows(demo_root: Path, demo_folder: Path) -> list[dict[str, Any]]:
    request = EvaluationRequest(demo_folder / "questions.jsonl", "demo", ("bridge",))
    return run_evaluation(Settings(root=demo_root), request).rows


def test_fingerprints_are_those_of_the_release_before(demo_root: Path) -> None:
    """Else the first run of a new release derives every index again; a changed `revision` changes them on purpose."""
    golden = json.loads((GOLDEN.parent / "demo_fingerprints.json").read_text(encoding="utf-8"))
    (manifest,) = (demo_root / "indexes" / "demo" / "versions").glob("*/manifest.json")
    stages = json.loads(manifest.read_text(encoding="utf-8"))["stages"]
    assert {name: record["fingerprint"] for name, record in stages.items()} == {name: golden[name] for name in stages}


def test_bridge_finds_all_gold_passages_in_its_first_five(demo_rows: list[dict[str, Any]]) -> None:
    missed = sorted(row["id"] for row in demo_rows if row["all@5"] != 1)
    assert len(demo_rows) >= 20
    assert len(missed) <= 0.1 * len(demo_rows), missed


def test_half_of_the_guesses_are_exact_and_few_confident_ones_wrong(demo_rows: list[dict[str, Any]]) -> None:
    exact = [row["id"] for row in demo_rows if row["em"] == 1]
    assert len(exact) >= 0.55 * len(demo_rows), exact
    confident = {row["id"]: row["em"] for row in demo_rows if row["confidence"] > 0.6}
    assert len(confident) >= 3
    assert sum(confident.values()) >= 0.75 * len(confident), confident
