"""Questions over five kinds of documents (benchmarks/data/reader): what is computed is right, whatever else is read.

All passages of a kind are read at once, in one order for all its questions, which is harder than what a strategy finds.
benchmarks/reader_documents.py measures the same questions through the product.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyhop.schemas.query import Reading
from polyhop.tasks.evaluation.metrics import exact_match

Ask = Callable[..., Reading]
DATA = Path(__file__).resolve().parents[4] / "benchmarks" / "data" / "reader"


def rows_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_computed_answers_are_right_and_confident_ones_in_94_of_100(ask: Ask) -> None:
    passages: dict[str, list[tuple[str, str]]] = {}
    for row in rows_of("corpus"):
        passages.setdefault(row["metadata"]["kind"], []).append((row["title"], row["text"]))
    sure, wrong = 0, []
    for row in rows_of("questions"):
        reading = ask(row["question"], *passages[row["kind"]])
        if reading.answer and (reading.kind == "computed" or reading.confidence > 0.6):
            sure += 1
            if exact_match(reading.answer, list(row["answers"]) or [""]) != 1:
                assert reading.kind != "computed", (row["question"], reading)
                wrong.append((row["question"], reading.answer))
    assert sure >= 60
    assert len(wrong) <= 0.06 * sure, wrong
