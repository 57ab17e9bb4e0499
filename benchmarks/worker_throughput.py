"""Questions per second of two worker processes, from submission to the last stored answer, per strategy.

Run: uv run python benchmarks/worker_throughput.py ROOT INDEX QUESTIONS [STRATEGIES] [QUESTION_COUNT]
The questions of the file are repeated up to QUESTION_COUNT (default 2000). The end-to-end time includes the start of
the workers; the time between first and last answer does not. Processor time is that of both workers, their start
included, per question. The queue is a throwaway SQLite file.
"""

import resource
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from machine import describe_machine

from polyhop.schemas.queue import JobSpec, NewQuestion, QuestionState
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.queue.queue import open_queue
from polyhop.warehouse.queue.schema import sqlite_url

STRATEGIES = "bridge,bridge-lexical,bm25,dense,rrf,graph,graph-hybrid,graph-dense,graph-rrf"
WORKER_COUNT = 2


def measure(root, index, texts, strategy):
    """(end-to-end seconds, seconds between first and last answer, processor seconds, unanswered questions)."""
    before = processor_seconds()
    with tempfile.TemporaryDirectory() as folder:
        url = sqlite_url(Path(folder) / "queue.sqlite")
        settings = ("--root", root, "--set", f"queue.url={url}")
        with open_queue(url) as queue:
            start = time.perf_counter()
            spec = JobSpec(index, strategy=strategy)
            job = queue.submit(spec, [NewQuestion(f"q{n}", text) for n, text in enumerate(texts)])
            command = [sys.executable, "-m", "polyhop.cli", "worker", "--until-empty", *settings]
            workers = [
                subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for _ in range(WORKER_COUNT)
            ]
            while queue.job(job).is_open:
                if all(worker.poll() is not None for worker in workers):
                    raise SystemExit("the workers ended before the questions")
                time.sleep(0.05)
            total = time.perf_counter() - start
            for worker in workers:
                worker.wait()
            rows = [(row.state, row.finished_at) for row in queue.results(job)]
    times = sorted(finished for _, finished in rows if finished is not None)
    unanswered = sum(state is not QuestionState.DONE for state, _ in rows)
    return total, times[-1] - times[0], processor_seconds() - before, unanswered


def processor_seconds():
    """Of all processes that this one started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(root, index, questions, strategies=STRATEGIES, count="2000"):
    """Prints a Markdown table."""
    records, _ = read_questions(Path(questions))
    texts = [record.question for record in islice(cycle(records), int(count))]
    print(f"{describe_machine()}; index {index}, {count} questions, {WORKER_COUNT} workers, SQLite\n")
    print("| strategy | questions/s end to end | questions/s at work | processor ms per question | unanswered |")
    print("|---|---|---|---|---|")
    for strategy in strategies.split(","):
        total, working, processor, failed = measure(root, index, texts, strategy)
        speeds = f"{len(texts) / total:.0f} | {len(texts) / working:.0f} | {1000 * processor / len(texts):.1f}"
        print(f"| `{strategy}` | {speeds} | {failed} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
