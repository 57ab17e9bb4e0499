"""One strategy asked the questions of an evaluation, in a process of its own: its largest resident memory.

Run by memory.py: `python -m polyhop.flows.evaluation.memory_process`, what to measure as JSON on standard input, the
result as the last line of standard output. Judges no answer.
"""

import json
import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from polyhop.flows.evaluation.depth import DEPTH
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.query import Question
from polyhop.schemas.redaction import redact
from polyhop.schemas.settings import Settings
from polyhop.warehouse.machine import peak_rss_mb
from polyhop.warehouse.open import open_published
from polyhop.worker.session import IndexSession


def measure(order: Mapping[str, Any]) -> dict[str, float]:
    """{ready_mb, peak_mb} of this process, in which a strategy answers one question after the other.

    A question that fails costs what it costs, as in the evaluation.
    """
    settings = Settings.model_validate(order["settings"])
    published = open_published(Path(settings.root), order["index"], order["version"])
    with closing(IndexSession(published, settings)) as whole:
        session = whole.where(order.get("where"))
        strategy = order["strategy"]
        answerer = session.closed_book() if strategy is None else session.answerer(strategy, order["parameters"])
        ready = peak_rss_mb()
        for one in order["questions"]:
            with suppress(PolyhopError):
                answerer.answer([Question(one["text"], one["id"], topic=one["topic"])], limit=DEPTH)
    return {"ready_mb": ready, "peak_mb": peak_rss_mb()}


def main() -> None:
    """Measures what standard input says."""
    try:
        found = measure(json.load(sys.stdin))
    except PolyhopError as error:
        sys.stderr.write(f"{redact(str(error))}\n")
        sys.exit(1)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
