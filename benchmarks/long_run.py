"""Two workers over many questions while people read results with SQL and an index run publishes again and again.

Run: uv run python benchmarks/long_run.py CORPUS QUESTIONS [QUESTION_COUNT] [STRATEGY]
CORPUS is a .jsonl corpus, QUESTIONS a question file, repeated up to QUESTION_COUNT (default 100000) in jobs of 10,000.
Every run of the index gets another last passage, so that each publishes a version. Everything lies in a throwaway
folder. Exits with 1 if a process failed, a question has no result, or a log mentions a lock.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

from machine import describe_machine

from polyhop.schemas.queue import JobSpec, NewQuestion
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.queue.queue import open_queue
from polyhop.warehouse.queue.schema import sqlite_url

JOB_SIZE = 10_000
WORKER_COUNT = 2
INDEX = "long"


class Line:
    """The commands of one root, with one log."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.root = self.folder / "data"
        self.log = (self.folder / "log").open("w+", encoding="utf-8")

    def start(self, *arguments):
        """Starts a command."""
        command = [sys.executable, "-m", "polyhop.cli", *map(str, arguments), "--root", str(self.root), "--json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def run(self, *arguments):
        """What a command printed, once it ended well."""
        process = self.start(*arguments)
        out, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"{arguments} failed: {self.complaints()[-2000:]}")
        return json.loads(out)

    def complaints(self):
        """What commands wrote to standard error."""
        self.log.flush()
        return (self.folder / "log").read_text(encoding="utf-8")


def write_corpus(source, target, number):
    """The corpus with one more passage, different each time."""
    record = {"id": "the-last", "title": f"Edition {number}", "text": f"This is edition {number} of the corpus."}
    target.write_text(Path(source).read_text(encoding="utf-8") + json.dumps(record) + "\n", encoding="utf-8")


def resident_megabytes(process):
    """Memory of a process, MB (10**6 bytes)."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def submit(queue, texts, count, strategy):
    """The ids of the jobs, submitted at once."""
    jobs = []
    for start in range(0, count, JOB_SIZE):
        questions = [NewQuestion(f"q{n}", texts[n]) for n in range(start, min(start + JOB_SIZE, count))]
        jobs.append(queue.submit(JobSpec(INDEX, strategy=strategy), questions))
    return jobs


def disturb(line, corpus, queue, jobs, workers, count):
    """Reads and publishes until every job has ended; returns (publications, reads, memory samples)."""
    edition, reads, samples, publisher = 1, 0, [], None
    while any(queue.job(job).is_open for job in jobs):
        if any(worker.poll() is not None for worker in workers):
            raise SystemExit(f"a worker ended: {line.complaints()[-2000:]}")
        if publisher is None or publisher.poll() is not None:
            if publisher is not None and publisher.returncode:
                raise SystemExit(f"an index run failed: {line.complaints()[-2000:]}")
            edition += 1
            write_corpus(corpus, line.folder / "corpus.jsonl", edition)
            publisher = line.start("index", line.folder / "corpus.jsonl", "--index", INDEX)
        rows = line.run("sql", "SELECT count(*) AS n FROM results WHERE state = 'done'", "--index", INDEX)
        reads += 1
        samples.append((rows[0]["n"] / count, max(map(resident_megabytes, workers))))
        time.sleep(2)
    publisher.communicate()
    return edition, reads, samples


def memory_at(samples, share):
    """MB at the first sample with at least this share of the questions done."""
    return next((megabytes for done, megabytes in samples if done >= share), samples[-1][1])


def main(corpus, questions, count="100000", strategy="bridge-lexical"):
    """Prints a Markdown list."""
    count = int(count)
    records, _ = read_questions(Path(questions))
    texts = [record.question for record in islice(cycle(records), count)]
    with tempfile.TemporaryDirectory() as folder:
        line = Line(folder)
        write_corpus(corpus, line.folder / "corpus.jsonl", 1)
        line.run("index", line.folder / "corpus.jsonl", "--index", INDEX)
        with open_queue(sqlite_url(line.root / "queue.sqlite")) as queue:
            start = time.perf_counter()
            jobs = submit(queue, texts, count, strategy)
            workers = [line.start("worker") for _ in range(WORKER_COUNT)]
            editions, reads, samples = disturb(line, corpus, queue, jobs, workers, count)
            seconds = time.perf_counter() - start
            results = Counter(row.state.value for job in jobs for row in queue.results(job))
            versions = {row.version for job in jobs for row in queue.results(job)}
        for worker in workers:
            worker.terminate()
        codes = [worker.wait() for worker in workers]
        lock_lines = [text for text in line.complaints().splitlines() if "lock" in text.lower()]
    print(f"{describe_machine()}; `{strategy}`, {WORKER_COUNT} workers, SQLite\n")
    print(f"* {count:,} questions in {seconds:.0f} s: {dict(results)}; workers ended with {codes}")
    print(f"* beside them {editions - 1} index runs and {reads} SQL reads; results name {len(versions)} versions")
    at = ", ".join(f"{memory_at(samples, share):.0f} MB at {share:.0%}" for share in (0.05, 0.25, 0.5, 0.75, 1.0))
    print(f"* resident memory of the larger worker: {at}")
    print(f"* lines about locks in the logs: {len(lock_lines)}")
    if lock_lines or results != {"done": count} or any(codes):
        raise SystemExit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
