"""SPRIG's table A.7: peak memory of every strategy, each asked the same questions in a process of its own.

Beside each other, strategies would share what the first one opened. Megabytes are 10**6 bytes: `ready_mb` before the
first question, `peak_mb` at most. Source: algorithms.md 2.11, 6.4.
Run: uv run python benchmarks/papers/memory.py ROOT INDEX QUESTIONS STRATEGIES
"""

import json
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from polyhop.flows.evaluate import DEPTH
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.query import Question
from polyhop.schemas.requests import parse_variant
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import names_in
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.machine import machine, peak_rss_mb
from polyhop.warehouse.open import open_published
from polyhop.worker.session import IndexSession


def measure(root: str, index: str, questions: str, label: str) -> dict[str, float]:
    """{ready_mb, peak_mb} of this process, in which a strategy answers one question after the other.

    A question that fails costs what it costs, as in an evaluation.
    """
    settings, variant = Settings(root=root), parse_variant(label, {})
    records, _ = read_questions(Path(questions))
    with closing(IndexSession(open_published(Path(root), index), settings)) as session:
        answerer = session.answerer(variant.strategy, variant.parameters)
        ready = peak_rss_mb()
        for record in records:
            with suppress(PolyhopError):
                answerer.answer([Question(record.question, record.id, topic=record.topic)], limit=DEPTH)
    return {"ready_mb": ready, "peak_mb": peak_rss_mb()}


def memory_rows(root: str, index: str, questions: str, labels: list[str]) -> dict[str, dict[str, Any]]:
    """{label: {ready_mb, peak_mb}}; of a process that fails {error}."""
    rows: dict[str, dict[str, Any]] = {}
    for label in labels:
        command = [sys.executable, __file__, root, index, questions, label, "--here"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = (done.stderr if done.returncode else done.stdout).strip().splitlines() or [f"exit {done.returncode}"]
        rows[label] = {"error": lines[-1]} if done.returncode else json.loads(lines[-1])
    return rows


def main() -> None:
    """Measures the strategies that the command line names."""
    root, index, questions, strategies, *here = sys.argv[1:]
    if here:
        print(json.dumps(measure(root, index, questions, strategies)))
        return
    rows = memory_rows(root, index, questions, list(names_in(strategies)))
    print(json.dumps({"machine": machine(), "memory": rows}, indent=1))


if __name__ == "__main__":
    main()
