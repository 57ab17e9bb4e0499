"""What a question costs: p50, p95, p99 per strategy, the encoding of the question apart.

Run: uv run python benchmarks/query_latency.py ROOT INDEX QUESTIONS   (an index that is already built)
Serial, one warm-up pass over ten questions left out (algorithms.md 6.4). Path texts are encoded each time.
"""

import sys
import time
from pathlib import Path

import numpy as np
from machine import describe_machine

from polyhop.api import open_index
from polyhop.schemas.query import Question
from polyhop.schemas.serving_settings import EncoderSettings
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.open import open_encoder
from polyhop.worker.strategies.registry import STRATEGIES


def main() -> None:
    """Prints a Markdown table."""
    root, name, questions = sys.argv[1:4]
    records, _ = read_questions(Path(questions))
    asking = Settings(root=Path(root), encoder=EncoderSettings(path_vectors=0))
    with open_index(name, settings=asking) as index:
        settings = index.session.settings
        encoder = open_encoder(settings)
        start = time.perf_counter()
        vectors = [encoder.encode_questions([record.question])[0] for record in records]
        encoding = 1000 * (time.perf_counter() - start) / len(records)
        asked = [Question(r.question, r.id, v) for r, v in zip(records, vectors, strict=True)]
        print(
            f"{describe_machine()}\n{name}: {len(index.session.published.passage_ids):,} passages, "
            f"{len(asked)} questions, encoding a question {encoding:.1f} ms\n"
        )
        print("| strategy | p50 ms | p95 ms | p99 ms |\n|---|---|---|---|")
        for strategy, spec in STRATEGIES.items():
            if not spec.needs <= index.session.published.artefacts:
                continue
            ranker = index.session.answerer(strategy, {}).strategy
            ranker.retrieve(asked[:10], limit=100)
            times = []
            for question in asked:
                start = time.perf_counter()
                ranker.retrieve([question], limit=100)
                times.append(1000 * (time.perf_counter() - start))
            p50, p95, p99 = np.percentile(times, [50, 95, 99])
            print(f"| {strategy} | {p50:.2f} | {p95:.2f} | {p99:.2f} |")


if __name__ == "__main__":
    main()
