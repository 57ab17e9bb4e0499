"""Encoding of path texts in `proprag` against the encoder alone on the same texts, in one process, in turn.

Run: uv run python benchmarks/path_texts.py ROOT INDEX QUESTIONS [batch size, default 1] [questions, default all]
Each micro-batch is searched once for its texts, then timed: what the strategy calls (with a cache of paths that is new
for each micro-batch, so that it knows no text; then once more, when it knows all), and the encoder alone, a call per
depth, all texts in the order of the strategy. Which of the two comes first changes from batch to batch. Beside the
clock stands the processor time of all threads, which other work on the machine disturbs less. The interval is a
bootstrap of the ratio of the sums over batches. Peak memory is the process's.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

from polyhop.api import open_index
from polyhop.schemas.ports import Services
from polyhop.schemas.query import Question
from polyhop.schemas.settings import Settings
from polyhop.warehouse.cache.vectors import QuestionEncoder, VectorCache
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.open_models import open_encoder
from polyhop.worker.strategies.registry import make

RESAMPLES, SEED = 2_000, 13


def taken(encode: Any, calls: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Seconds by the clock and of the processor that a way of encoding takes for the calls of a batch."""
    start, worked = time.perf_counter(), time.process_time()
    for texts in calls:
        encode(texts)
    return time.perf_counter() - start, time.process_time() - worked


def main() -> None:
    """Prints a Markdown table and a sentence."""
    root, name, file = sys.argv[1:4]
    size = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    records = read_questions(Path(file))[0][: int(sys.argv[5]) if len(sys.argv) > 5 else None]
    settings = Settings(root=Path(root))
    bare = open_encoder(settings).encoder
    rows, retrieving, counts = [], [], []
    with open_index(name, settings=settings) as index, tempfile.TemporaryDirectory(dir=root) as folder:
        calls: list[list[str]] = []

        def encode(texts: Sequence[str], *_: Any, **__: Any) -> Any:
            """As the services do without a cache."""
            calls.append(list(texts))
            return bare.encode(texts)

        strategy = make("proprag", index.session.published, {}, Services(encode))
        vectors = bare.encode([record.question for record in records])
        asked = [Question(r.question, r.id, v) for r, v in zip(records, vectors, strict=True)]
        strategy.retrieve(asked[:3], limit=100)
        for number, start in enumerate(range(0, len(asked), size)):
            calls.clear()
            batch = asked[start : start + size]
            found = strategy.retrieve(batch, limit=100)
            parts = found[0].seconds
            retrieving += [1000 * (parts["seed"] + parts["traversal"])] * len(batch)
            calls = [*calls]
            counts.append(sum(map(len, calls)))
            path = Path(folder) / f"{number}.sqlite"
            cached = QuestionEncoder(bare, lambda path=path: VectorCache(path, most_rows=100_000))
            cached.encode_paths(["opens the file"])
            ways = [("strategy", cached.encode_paths), ("alone", bare.encode)]
            took = {way: taken(encode, calls) for way, encode in (ways if number % 2 else ways[::-1])}
            rows.append((took["strategy"], took["alone"], taken(cached.encode_paths, calls)))
            cached.close()
    report(np.array(rows), retrieving, counts, size)


def report(rows: Any, retrieving: Sequence[float], counts: Sequence[int], size: int) -> None:
    """Prints what was measured; `rows` has shape (batches, 3 ways, 2 clocks)."""
    total = 1000 * rows.sum(axis=0) / sum(counts)
    print(f"{describe_machine()}; {len(retrieving)} questions in micro-batches of {size}, {sum(counts):,} path texts\n")
    print("| way | ms per text | of the processor | p50 ms per batch |\n|---|---|---|---|")
    for number, way in enumerate(("strategy, all texts new", "encoder alone", "strategy, all texts cached")):
        per_batch = 1000 * np.median(rows[:, number, 0])
        print(f"| {way} | {total[number, 0]:.3f} | {total[number, 1]:.3f} | {per_batch:.1f} |")
    drawn = np.random.default_rng(SEED).integers(0, len(rows), (RESAMPLES, len(rows)))
    sums = rows[drawn].sum(axis=1)
    print()
    for clock, name in enumerate(("clock", "processor")):
        low, high = np.percentile(sums[:, 0, clock] / sums[:, 1, clock], [2.5, 97.5])
        ratio = total[0, clock] / total[1, clock]
        print(f"strategy / encoder alone, {name}: {ratio:.3f} ({low:.3f} to {high:.3f}, 95 %, bootstrap)")
    print(f"retrieval without encoding: p50 {np.median(retrieving):.1f} ms per question")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
