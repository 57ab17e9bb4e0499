"""What `polyhop ui` costs: concurrent questions over HTTP beside a worker, and pages over many results.

Run: uv run python benchmarks/window.py ROOT INDEX QUESTIONS [STRATEGIES] [QUESTION_COUNT] [PAIRS]
In pairs, the same questions (those of the file, repeated up to QUESTION_COUNT) are answered by one worker, between its
first and last answer, and by a server that 64 callers ask at once, from the first request to the last reply. Then a job
of 100,000 made results is looked at in the same server. The queue is a throwaway SQLite file.
"""

import asyncio
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import httpx
import worker_throughput
from machine import describe_machine

from polyhop.schemas.queue import FinishedQuestion, JobSpec, NewQuestion
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.queue.queue import open_queue
from polyhop.warehouse.queue.schema import sqlite_url

CALLERS = 64
MADE_RESULTS = 100_000
LOOKS = 9  # at each page; the median counts
TEXT = "A passage of some length that a result keeps with its evidence. " * 60  # some 4 kB in two passages
PAGES = (
    "/",
    "/jobs",
    "/jobs/1",
    "/jobs/1?after=50000",
    "/jobs/1?after=99900",
    "/jobs/1?state=dead",
    "/jobs/1?words=99999",
)


@contextmanager
def server(root, url):
    """A client of a running `polyhop ui`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "polyhop.cli", "ui", "--root", root, "--port", str(port)]
    with subprocess.Popen([*command, "--set", f"queue.url={url}"], stdout=subprocess.PIPE) as process:
        process.stdout.readline()  # its address: it listens
        yield f"http://127.0.0.1:{port}"
        process.terminate()


async def ask_all(address, index, texts, strategy):
    """Seconds for all questions, asked by CALLERS at once, each when the one before is answered."""
    waiting = iter(texts)
    async with httpx.AsyncClient(base_url=address, timeout=300) as client:

        async def caller():
            for text in waiting:
                body = {"question": text, "strategy": strategy}
                (await client.post(f"/api/v1/indexes/{index}/ask", json=body)).raise_for_status()

        begun = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        return time.perf_counter() - begun


def make_results(url, index):
    """A job of MADE_RESULTS answered questions, in a queue that had none."""
    with open_queue(url, max_depth=MADE_RESULTS) as queue:
        spec = JobSpec(index, strategy="bm25")
        queue.submit(spec, [NewQuestion(f"q{n}", f"Where was number {n} born?") for n in range(MADE_RESULTS)])
        passages = [{"id": f"p{n}", "title": "Title", "score": 1.0, "rank": n + 1, "text": TEXT} for n in range(2)]
        kept = {"guess": "London", "passages": passages, "evidence": {}, "seconds": {"ranking": 0.001}, "reading": {}}
        while claimed := queue.claim(["default"], "bench", 1_000, 600):
            queue.finish([FinishedQuestion(one.lease_token, "London", 1, "bm25", 0.001, kept) for one in claimed])


def main(root, index, questions, strategies="bridge,bm25", count="2000", pairs="3"):
    """Prints two Markdown tables."""
    records, _ = read_questions(Path(questions))
    texts = [record.question for record in islice(cycle(records), int(count))]
    worker_throughput.WORKER_COUNT = 1
    print(f"{describe_machine()}; index {index}, {count} questions, {CALLERS} callers\n")
    print("| strategy | worker, questions/s | HTTP, questions/s | HTTP / worker, median of pairs |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        url = sqlite_url(Path(folder) / "queue.sqlite")
        with server(root, url) as address:
            for strategy in strategies.split(","):
                asyncio.run(ask_all(address, index, texts[:200], strategy))  # opens the index
                rates = []
                for _ in range(int(pairs)):
                    _, working, _, _ = worker_throughput.measure(root, index, texts, strategy)
                    rates.append(
                        (len(texts) / working, len(texts) / asyncio.run(ask_all(address, index, texts, strategy)))
                    )
                worker, http = (statistics.median(side) for side in zip(*rates, strict=True))
                share = statistics.median(http / worker for worker, http in rates)
                print(f"| `{strategy}` | {worker:.0f} | {http:.0f} | {share:.2f} |", flush=True)
            make_results(url, index)
            print("\n| page | median ms |\n|---|---|")
            for page in (*PAGES, f"/indexes/{index}"):
                seconds = [httpx.get(f"{address}{page}", timeout=60).elapsed.total_seconds() for _ in range(LOOKS)]
                print(f"| `{page}` | {1000 * statistics.median(seconds):.0f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
