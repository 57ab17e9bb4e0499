"""The reader by rules on questions of our own, asked through the product: what it must answer and where it is silent.

The corpus and the questions (tests/golden/reader) were written before the rules; "tune" was used to choose their
constants, "held" was only measured. Examples of docs/how-to/asking.md are among them.
"""

import contextlib
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest

from polyhop.tasks.evaluation.metrics import exact_match

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "reader"


@dataclass(frozen=True)
class Asked:
    """A golden question with what was read."""

    id: str
    half: str
    question: str
    golds: list[str]
    answer: str
    guess: str
    reading: dict[str, object]
    printed: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        return exact_match(self.guess, self.golds) == 1 if self.golds else not self.answer


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Asked]]:
    from polyhop.api import open_index
    from polyhop.commands.ask import print_answer
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest
    from polyhop.schemas.settings import Settings

    folder = tmp_path_factory.mktemp("golden")
    run_index(Settings(root=folder), IndexRequest("own", GOLDEN / "corpus.jsonl"), DirectRunner())
    rows = [json.loads(line) for line in (GOLDEN / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    with open_index("own", root=folder) as index:
        found = {}
        for row in rows:
            answer = index.ask(row["question"])
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                print_answer(answer, {}, explain=False)
            printed = takewhile(lambda line: not line.startswith("Passages"), out.getvalue().splitlines())
            found[row["id"]] = Asked(
                row["id"],
                row["half"],
                row["question"],
                row["answers"],
                answer.answer,
                answer.guess,
                answer.reading,
                tuple(printed),
            )
        yield found


def wrong(questions: list[Asked]) -> list[str]:
    return [f"{one.id} {one.question} -> {one.answer!r} {one.golds}" for one in questions if not one.is_right]


@pytest.mark.parametrize("half", ["tune", "held"])
def test_what_is_answered_is_right_and_what_cannot_be_answered_is_not(asked: dict[str, Asked], half: str) -> None:
    part = [one for one in asked.values() if one.half == half]
    answerable, silent = [one for one in part if one.golds], [one for one in part if not one.golds]
    assert len(wrong(answerable)) <= 0.15 * len(answerable), wrong(answerable)
    assert len(wrong(silent)) <= 0.2 * len(silent), wrong(silent)
    confident = [one for one in part if float(str(one.reading["confidence"])) > 0.6]
    assert len(confident) >= 5
    assert len(wrong(confident)) <= 0.1 * len(confident), wrong(confident)
    computed = [one for one in part if one.reading["kind"] == "computed"]
    assert len(computed) >= 7
    assert not wrong(computed)


def test_every_computed_answer_shows_a_value_with_its_sentence_for_each_thing(asked: dict[str, Asked]) -> None:
    for one in asked.values():
        values = one.reading["values"]
        assert isinstance(values, list)
        if one.reading["kind"] == "computed":
            assert values, one.question
            assert all(value["sentence"] for value in values), one.question


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("Which river flows through the birthplace of Ada Lovelace?", {"River Thames"}),
        ("Who designed the Analytical Engine?", {"Charles Babbage"}),
        ("Who was born in Reus?", {"Antoni Gaudí"}),
        ("Was Lord Byron born before Ada Lovelace?", {""}),
        ("Was Ada Lovelace born before Charles Babbage?", {""}),
        ("Is the Eiffel Tower older than the Golden Gate Bridge?", {"yes"}),
    ],
)
def test_the_examples_of_the_page_and_their_kin_are_answered(
    asked: dict[str, Asked], question: str, answers: set[str]
) -> None:
    found = next(one for one in asked.values() if one.question == question)
    assert found.answer in answers, found


def test_the_page_on_asking_shows_what_is_printed(asked: dict[str, Asked]) -> None:
    page = (GOLDEN.parents[2] / "docs" / "how-to" / "asking.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- reader output: begin -->\n```console\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    printed = {one.printed[0]: one.printed for one in asked.values()}
    blocks = [tuple(block.splitlines()) for block in shown.group(1).strip().split("\n\n")]
    assert len(blocks) >= 3
    for block in blocks:
        assert block == printed[block[0]]
