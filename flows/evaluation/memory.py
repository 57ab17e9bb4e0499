"""Peak memory of every strategy of an evaluation: the same questions again, in a process of its own each.

Measures nothing itself (memory_process.py does). Beside each other strategies would share what the first one opened.
Source: algorithms.md 2.11 (SPRIG, table A.7), 6.4.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyhop.schemas.questions import QuestionRecord
from polyhop.schemas.settings import Settings
from polyhop.schemas.variants import Variant

STEP = "memory"
"""Its name where progress is shown."""

OnProgress = Callable[[str, int, int], None] | None


@dataclass(frozen=True, slots=True)
class MemoryOrder:
    """What is measured.

    Attributes:
        settings: As the questions were answered with.
        index: Its name.
        version: The version that was evaluated.
        records: The questions that were asked.
        variants: Strategies by label; a label that is none of them is the closed-book row.
        where: A filter of the passages; None: all.
    """

    settings: Settings
    index: str
    version: int
    records: Sequence[QuestionRecord]
    variants: Mapping[str, Variant]
    where: str | None = None


def memory_rows(order: MemoryOrder, labels: Sequence[str], on_progress: OnProgress = None) -> dict[str, dict[str, Any]]:
    """{label: {ready_mb, peak_mb}}: megabytes of 10**6 bytes, ready for the first question and at most.

    A process that fails costs no evaluation: its numbers are None, and `error` says why. Replies of a model were
    cached when the questions were evaluated, so that nothing is paid again.
    """
    rows = {}
    for done, label in enumerate(labels, start=1):
        rows[label] = _measured(order, label)
        if on_progress is not None:
            on_progress(STEP, done, len(labels))
    return rows


def memory_sentences(costs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Which strategies' memory could not be measured, and why."""
    failed = {name: cost["memory"]["error"] for name, cost in costs.items() if "error" in cost.get("memory", {})}
    return [f"The memory of {name} was not measured: {reason}" for name, reason in failed.items()]


def _measured(order: MemoryOrder, label: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "polyhop.flows.evaluation.memory_process"],
        input=json.dumps(_document(order, label), default=str),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"ready_mb": None, "peak_mb": None, "error": _reason(done)}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def _document(order: MemoryOrder, label: str) -> dict[str, Any]:
    """What the process reads on its standard input."""
    variant = order.variants.get(label)
    return {
        "settings": order.settings.model_dump(mode="json"),
        "index": order.index,
        "version": order.version,
        "questions": [{"id": one.id, "text": one.question, "topic": one.topic} for one in order.records],
        "strategy": None if variant is None else variant.strategy,
        "where": order.where,
        "parameters": {} if variant is None else dict(variant.parameters),
    }


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        return f"signal {-done.returncode} ended its process (9: often for lack of memory)."
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"its process ended with exit code {done.returncode} and said nothing."
