"""What a question costs: p50, p95, p99 per strategy, and p50 of the processor; the encoding of the question apart.

Run: uv run python benchmarks/query_latency.py ROOT INDEX QUESTIONS [STRATEGIES] [LIMIT] [REPEATS]
Serial, one warm-up pass over ten questions left out (algorithms.md 6.4). Path texts are encoded each time. LIMIT
passages are asked for (default 100). Each question counts with the fastest of REPEATS passes (default 1).
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from machine import describe_machine

from polyhop.api import open_index
from polyhop.schemas.query import Question
from polyhop.schemas.settings import Settings
from polyhop.warehouse import open_models
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.open_models import open_encoder
from polyhop.worker.strategies.registry import STRATEGIES


def main(root, name, questions, strategies="", limit="100", repeats="1"):
    """Prints a Markdown table."""
    records, _ = read_questions(Path(questions))
    asking = Settings(root=Path(root))
    open_models.PATH_VECTORS = 0
    with open_index(name, settings=asking) as index:
        artefacts = index.session.published.artefacts
        named = strategies.split(",") if strategies else list(STRATEGIES)
        chosen = [strategy for strategy in named if STRATEGIES[strategy].needs <= artefacts]
        asked = [Question(record.question, record.id) for record in records]
        passages = len(index.session.published.passage_ids)
        print(f"{describe_machine()}\n{name}: {passages:,} passages, {len(asked)} questions")
        if any(STRATEGIES[strategy].needs_question_vector for strategy in chosen):
            asked = encoded(asked, open_encoder(index.session.settings))
        print("\n| strategy | p50 ms | p95 ms | p99 ms | processor p50 ms |\n|---|---|---|---|---|")
        for strategy in chosen:
            ranker = index.session.answerer(strategy, {}).strategy
            ranker.retrieve(asked[:10], limit=int(limit))
            passes = [measured(ranker, asked, int(limit)) for _ in range(int(repeats))]
            wall, processor = np.min(passes, axis=0)
            p50, p95, p99 = np.percentile(wall, [50, 95, 99])
            print(f"| {strategy} | {p50:.2f} | {p95:.2f} | {p99:.2f} | {np.median(processor):.2f} |", flush=True)


def encoded(questions, encoder):
    """The questions with their vectors; prints what encoding one takes."""
    start = time.perf_counter()
    vectors = [encoder.encode_questions([question.text])[0] for question in questions]
    print(f"encoding a question {1000 * (time.perf_counter() - start) / len(questions):.1f} ms")
    return [replace(question, vector=vector) for question, vector in zip(questions, vectors, strict=True)]


def measured(ranker, questions, limit):
    """Milliseconds of the clock and of the processor, by question."""
    times = []
    for question in questions:
        start, processor = time.perf_counter(), time.process_time()
        ranker.retrieve([question], limit=limit)
        times.append((1000 * (time.perf_counter() - start), 1000 * (time.process_time() - processor)))
    return np.array(times).T


if __name__ == "__main__":
    main(*sys.argv[1:])
