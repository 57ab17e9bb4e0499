"""What choosing hubs costs on a generated graph: 1,000,000 triples, 50,000 hubs, 200,000 distinct path texts.

Run: uv run python benchmarks/hublink_latency.py
Processor time, so that other work on the machine does not count. Nothing is encoded: vectors are random, of the
encoder's 384 dimensions. The first topic is a value that some 20 hubs share, the second a node that leads to all 50,000
hubs. Serial, one BLAS thread, the first question left out.
"""

import os
import resource
import time
from collections.abc import Callable

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from machine import describe_machine
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubGraph, HubPaths, HubRows
from polyhop.worker.ranking.hubs import ChoiceRule, HubChoice, PathSearch, TopicWalk

HUBS, PER_HUB, TEXTS, DIMENSIONS, QUESTIONS = 50_000, 20, 200_000, 384, 20
RULE = ChoiceRule(5, 10, 5.0)


def vectors(random: np.random.Generator, count: int) -> NDArray[np.float32]:
    made = random.standard_normal((count, DIMENSIONS), dtype=np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def generated(random: np.random.Generator) -> tuple[HubGraph, HubPaths, HubRows]:
    """Hubs are the first nodes, then values; the last node leads to all hubs."""
    values = HUBS
    root = HUBS + values
    subjects = np.concatenate([np.repeat(np.arange(HUBS), PER_HUB), np.full(HUBS, root)])
    predicates = np.concatenate([np.tile(np.arange(PER_HUB), HUBS), np.full(HUBS, PER_HUB)])
    objects = np.concatenate([random.integers(HUBS, root, HUBS * PER_HUB), np.arange(HUBS)])
    graph = HubGraph.from_triples(subjects, predicates, objects, np.zeros(root + 1, dtype=bool))
    count, none = HUBS * PER_HUB, np.empty(0, dtype=np.int32)
    paths = HubPaths(
        np.arange(HUBS, dtype=np.int32),
        np.arange(0, count + 1, PER_HUB, dtype=np.int64),
        np.arange(count + 1, dtype=np.int64),
        np.arange(count, dtype=np.int32),
        np.zeros(count, dtype=np.uint8),
        random.integers(0, 256, (count, 32), dtype=np.uint8),
        random.integers(0, TEXTS, count, dtype=np.int32),
        np.zeros(HUBS + 1, dtype=np.int64),
        none,
        none.astype(np.uint8),
        np.zeros(1, dtype=np.int64),
        none,
    )
    rows = np.arange(count, dtype=np.int32)
    levels = np.zeros(count, dtype=np.uint8)
    return graph, paths, HubRows(rows, paths.path_texts, levels, np.full(count, -1, dtype=np.int32))


def timed(work: Callable[[int], object]) -> str:
    work(0)
    times = []
    for number in range(QUESTIONS):
        start = time.process_time()
        work(number)
        times.append(1000 * (time.process_time() - start))
    return f"{np.median(times):.1f} | {max(times):.1f}"


def main() -> None:
    """Prints a Markdown table."""
    random = np.random.default_rng(13)
    graph, paths, rows = generated(random)
    texts, questions = vectors(random, TEXTS), vectors(random, QUESTIONS)
    start = time.process_time()
    search, choice = PathSearch(paths, rows, texts), HubChoice(paths)
    walk = TopicWalk(graph, paths, np.empty(0, dtype=np.int32))
    opening = time.process_time() - start
    scores = [search.scores(question[np.newaxis]).paths for question in questions]

    def walked(topic: int) -> Callable[[int], object]:
        return lambda number: list(walk.levels(topic, scores[number], RULE, most_levels=5))

    steps: dict[str, Callable[[int], object]] = {
        "scores of 1,000,000 paths": lambda number: search.scores(questions[number][np.newaxis]),
        "hublink: choice of hubs": lambda number: choice.by_candidates(scores[number], RULE),
        "hublink-topic: 20 hubs": walked(HUBS),
        "hublink-topic: 50,000 hubs": walked(graph.node_count - 1),
    }
    print(f"{describe_machine()}\nopening {opening:.2f} s\n\n| step | p50 ms | max ms |\n|---|---|---|")
    for name, step in steps.items():
        print(f"| {name} | {timed(step)} |")
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB, with the generator's")


if __name__ == "__main__":
    main()
