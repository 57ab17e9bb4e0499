"""What a walk costs at a size without an index: all masses against the ten best passages by bounds.

Run: uv run python benchmarks/walks.py [PASSAGES [QUESTIONS]]
A passage mentions four to nine entities, its own title among them, the others by Zipf's law with exponent 1 among as
many entities as passages. A question starts at a random entity (.4) and five random passages (.12 each), which reaches
more than questions about a generated corpus do (papers/cost_against_size.py). Ends with an error if a ranking differs.
"""

import sys
import time

import numpy as np
from machine import describe_machine

from polyhop.schemas.graph import BipartiteGraph
from polyhop.warehouse.machine import peak_rss_mb
from polyhop.worker.ranking.fusion import best
from polyhop.worker.ranking.pagerank import TouchedWalk, WalkSeeds, bipartite_transition


def main(passages="1000000", questions="60"):
    """Prints a Markdown table: milliseconds of the processor per walk."""
    count, random = int(passages), np.random.default_rng(1)
    graph = zipf_graph(count, random)
    seeds = []
    for _ in range(int(questions)):
        entity, start = random.integers(0, count, 1), random.choice(count, 5, replace=False)
        seeds.append(WalkSeeds(entity, np.array([0.4]), start, np.full(5, 0.12)))
    print(f"{describe_machine()}\n{count:,} passages, {len(graph.indices):,} edges, {len(seeds)} walks")
    print("\n| walk | all masses, p50 / p95 ms | ten best by bounds |\n|---|---|---|")
    for name, boost, penalty, restart, dangling in (
        ("bridge-lexical", 5.0, 0.0, 0.1, False),
        ("graph-hybrid", 1.0, 0.5, 0.15, True),
    ):
        transition = bipartite_transition(graph, title_boost=boost, hub_penalty=penalty)
        walk = TouchedWalk(transition, restart, 5, return_dangling=dangling)
        for seed in seeds:  # computes the columns of frequent entities
            masses, (numbers, found) = walk.passages(seed), walk.masses(seed).best(10)
            if numbers.tolist() != best(masses, 10).tolist() or found.tolist() != masses[numbers].tolist():
                sys.exit(f"{name}: the ten best by bounds are not those of all masses")
        whole = measured(lambda seed, walk=walk: best(walk.passages(seed), 10), seeds)
        bounded = measured(lambda seed, walk=walk: walk.masses(seed).best(10), seeds)
        print(f"| {name} | {whole} | {bounded} |", flush=True)
    print(f"\npeak memory {peak_rss_mb():,.0f} MB")


def zipf_graph(count, random):
    """As many entities as passages; entity i is the title of passage i."""
    degrees = random.integers(4, 10, count)
    rows = np.repeat(np.arange(count), degrees)
    named = np.minimum((count ** random.random(len(rows))).astype(np.int64), count - 1)
    named = random.permutation(count)[named]
    named[np.cumsum(degrees) - degrees] = np.arange(count)
    edges = np.unique(rows * count + named)
    rows, indices = edges // count, (edges % count).astype(np.int32)
    starts = np.searchsorted(rows, np.arange(count + 1)).astype(np.int64)
    keys = tuple(map(str, range(count)))
    return BipartiteGraph(indptr=starts, indices=indices, tf=np.ones(len(indices)), is_title=indices == rows, keys=keys)


def measured(walk, seeds):
    """Each walk with the faster of two passes."""
    passes = []
    for _ in range(2):
        taken = []
        for seed in seeds:
            start = time.process_time()
            walk(seed)
            taken.append(1000 * (time.process_time() - start))
        passes.append(taken)
    p50, p95 = np.percentile(np.min(passes, axis=0), [50, 95])
    return f"{p50:.1f} / {p95:.1f}"


if __name__ == "__main__":
    main(*sys.argv[1:])
