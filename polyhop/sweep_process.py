"""One measurement of a sweep in a process of its own, so that peak memory is that of this measurement alone.

Run by polyhop/sweep.py: `python -m polyhop.sweep_process`, a task as JSON on standard input, in the folder of its size.
Decides nothing. Source: algorithms.md 6.4.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from polyhop.generation import CORPUS_FILE, QUESTIONS_FILE
from polyhop.output import print_error
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.disk import write_whole
from polyhop.warehouse.machine import peak_rss_mb

INDEX_NAME = "sweep"
ROOT = Path("root")
LIMIT = 10
"""Passages asked for, as `polyhop ask` does."""

Result = dict[str, Any]


def measure_index(settings: Settings, task: Mapping[str, Any]) -> Result:
    """Indexes the corpus of this folder; {passages, seconds, ms_per_passage, cpu_seconds, stages, peak_rss_mb, …}."""
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest

    start, cpu_start = time.perf_counter(), time.process_time()
    report = run_index(settings, IndexRequest(INDEX_NAME, Path(CORPUS_FILE)), DirectRunner())
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return {
        "passages": task["passages"],
        "seconds": round(seconds, 3),
        "ms_per_passage": round(1000 * seconds / task["passages"], 4),
        "cpu_seconds": round(cpu_seconds, 3),
        "stages": {stage: round(taken, 3) for stage, taken in report.seconds.items()},
        "peak_rss_mb": peak_rss_mb(),
        "disk_mb": _disk_mb(ROOT / "indexes" / INDEX_NAME),
    }


def measure_query(settings: Settings, task: Mapping[str, Any]) -> Result:
    """Asks the questions of this folder one by one, the first one twice; {p50_ms, p95_ms, p99_ms, …, peak_rss_mb}.

    Measured is what finds passages, the encoding of the question included; nothing is read.
    """
    from polyhop.api import open_index
    from polyhop.schemas.query import Question
    from polyhop.schemas.variants import parse_variant
    from polyhop.tasks.evaluation.metrics import latency_milliseconds
    from polyhop.warehouse.files.questions import read_questions

    variant = parse_variant(task["strategy"], {})
    records, _ = read_questions(Path(QUESTIONS_FILE))
    with open_index(INDEX_NAME, settings=settings) as index:
        answerer = index.session.answerer(variant.strategy, variant.parameters)
        answerer.retrieve([Question(records[0].question)], limit=LIMIT)
        times = []
        for record in records:
            start = time.perf_counter()
            answerer.retrieve([Question(record.question, record.id)], limit=LIMIT)
            times.append(time.perf_counter() - start)
    latency = latency_milliseconds(times)
    return {
        "passages": task["passages"],
        **{f"{name}_ms": round(value, 4) for name, value in latency.items() if value is not None},
        "total_seconds": round(sum(times), 4),
        "peak_rss_mb": peak_rss_mb(),
    }


def _disk_mb(folder: Path) -> float:
    """Bytes of all files below a folder, in megabytes (10**6 bytes)."""
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 2)


_MEASURES: Mapping[str, Callable[[Settings, Mapping[str, Any]], Result]] = {
    "index": measure_index,
    "query": measure_query,
}


def main() -> None:
    """Measures what standard input says, and writes {task, result} to the file that it names."""
    order = json.load(sys.stdin)
    task = order["task"]
    settings = Settings.model_validate({**order["settings"], "root": str(ROOT)})
    try:
        result = _MEASURES[task["measure"]](settings, task)
    except PolyhopError as error:
        print_error(str(error))
        sys.exit(1)
    document = {"task": task, "result": result}
    write_whole(Path(order["file"]), json.dumps(document, indent=1, ensure_ascii=False).encode())


if __name__ == "__main__":
    main()
