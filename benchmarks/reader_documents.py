"""The reader without a model on 200 questions over 64 passages of five kinds of documents, all of our own writing.

Run: uv run python benchmarks/reader_documents.py [--failures]
Builds its own index from benchmarks/data/reader. "tune" questions may be read to improve the rules, "held" ones are
only measured; --failures shows those of "tune" alone. A quarter has no answer in the corpus, and silence is right.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from machine import describe_machine

from polyhop.api import Answer, open_index
from polyhop.flows.evaluation.metrics import exact_match
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings

DATA = Path(__file__).resolve().parent / "data" / "reader"
SURE = 0.6
EDGES = (0.02, 0.1, 0.2, 0.4, 0.6, 1.0)


@dataclass(frozen=True)
class Asked:
    """A question with what was read; `is_known` says whether the corpus answers it."""

    row: dict[str, Any]
    answer: str
    confidence: float
    how: str
    is_known: bool
    is_right: bool


def main() -> None:
    """Prints Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--failures", action="store_true")
    arguments = parser.parse_args()
    print(describe_machine())
    asked = ask_all()
    print_table(asked)
    print_calibration(asked)
    if arguments.failures:
        for one in asked:
            if one.row["half"] == "tune" and not one.is_right and (one.is_known or one.answer):
                print(f"- {one.row['id']} {one.row['question']} -> {one.answer!r} {one.confidence:.2f} {one.how}")


def ask_all() -> list[Asked]:
    """Every question, asked through the product."""
    lines = (DATA / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        run_index(Settings(root=Path(folder)), IndexRequest("documents", DATA / "corpus.jsonl"), DirectRunner())
        with open_index("documents", root=folder) as index:
            return [asked_of(index.ask(row["question"]), row) for row in map(json.loads, lines)]


def asked_of(answer: Answer, row: dict[str, Any]) -> Asked:
    """One question judged; without an answer in the corpus only silence is right."""
    reading, golds = answer.reading, row["answers"]
    is_right = exact_match(answer.guess, golds) == 1 if golds else not answer.answer
    how = f"{reading['kind']} {reading.get('rule', '')}".strip()
    return Asked(
        row, answer.guess if golds else answer.answer, float(reading["confidence"]), how, bool(golds), is_right
    )


def share(ones: Sequence[Asked]) -> str:
    """How many are right, as `right/all`."""
    return f"{sum(one.is_right for one in ones)}/{len(ones)}"


def print_table(asked: Sequence[Asked]) -> None:
    """By half, then by kind of document."""
    print(
        "\n| questions | answered right | computed right | above .6 right | extracted right | silent without answer |"
    )
    print("|---|---|---|---|---|---|")
    groups = [(f"half {half}", [one for one in asked if one.row["half"] == half]) for half in ("tune", "held")]
    kinds = dict.fromkeys(str(one.row["kind"]) for one in asked)
    groups += [(kind, [one for one in asked if one.row["kind"] == kind]) for kind in kinds]
    for name, ones in [*groups, ("all", list(asked))]:
        given = [one for one in ones if one.answer]
        cells = (
            share([one for one in ones if one.is_known]),
            share([one for one in given if one.how.startswith("computed")]),
            share([one for one in given if one.confidence > SURE]),
            share([one for one in given if one.how.startswith("extracted")]),
            share([one for one in ones if not one.is_known]),
        )
        print(f"| {name} ({len(ones)}) | {' | '.join(cells)} |")


def print_calibration(asked: Sequence[Asked]) -> None:
    """Stated against observed correctness of what was answered."""
    print("\n| confidence | stated | observed | answers |\n|---|---|---|---|")
    for low, high in pairwise(EDGES):
        ones = [one for one in asked if one.answer and low <= one.confidence < high]
        if ones:
            stated = sum(one.confidence for one in ones) / len(ones)
            observed = sum(one.is_right for one in ones) / len(ones)
            print(f"| {low} to {high} | {stated:.2f} | {observed:.2f} | {len(ones)} |")


if __name__ == "__main__":
    main()
