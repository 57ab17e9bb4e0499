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


def test_computed_and_confident_answers_are_right(ask: Ask) -> None:
    passages: dict[str, list[tuple[str, str]]] = {}
    for row in rows_of("corpus"):
        passages.setdefault(row["metadata"]["kind"], []).append((row["title"], row["text"]))
    sure = 0
    for row in rows_of("questions"):
        reading = ask(row["question"], *passages[row["kind"]])
        if reading.answer and (reading.kind == "computed" or reading.confidence > 0.6):
            sure += 1
            assert exact_match(reading.answer, list(row["answers"])) == 1, (row["question"], reading)
    assert sure >= 20
