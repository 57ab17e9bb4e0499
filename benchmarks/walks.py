"""What a walk costs at a size without an index: in whole steps, and along thick mass.

Run: uv run python benchmarks/walks.py [PASSAGES [QUESTIONS]]
A passage mentions four to nine entities, its own title among them, the others by Zipf's law with exponent 1 among as
many entities as passages. A question starts at a random entity (.4) and five random passages (.12 each), which reaches
more than questions about a generated corpus do (papers/cost_against_size.py). Of the
ten passages that hold most after whole steps, the share is given that a walk along thick mass finds.
"""

import sys
import time

import numpy as np
from machine import describe_machine

from polyhop.schemas.graph import BipartiteGraph
from polyhop.warehouse.machine import peak_rss_mb
from polyhop.worker.ranking.fusion import best
from polyhop.worker.ranking.pagerank import THINNEST, ThinWalk, WalkRule, WalkSeeds, bipartite_transition, walk_passages


def main(passages="1000000", questions="60"):
    """Prints a Markdown table: milliseconds of the processor per walk."""
    count, random = int(passages), np.random.default_rng(1)
    graph = zipf_graph(count, random)
    seeds = []
    for _ in range(int(questions)):
        entity, start = random.integers(0, count, 1), random.choice(count, 5, replace=False)
        seeds.append(WalkSeeds(entity, np.array([0.4]), start, np.full(5, 0.12)))
    print(f"{describe_machine()}\n{count:,} passages, {len(graph.indices):,} edges, {len(seeds)} walks")
    print("\n| walk | whole steps, p50 / p95 ms | along thick mass | of the ten best |\n|---|---|---|---|")
    for name, rule in (
        ("bridge-lexical", WalkRule(0.1, 5, return_dangling=False, title_boost=5.0, thinnest=THINNEST)),
        ("graph-hybrid", WalkRule(0.15, 5, return_dangling=True, hub_penalty=0.5, thinnest=THINNEST)),
    ):
        transition = bipartite_transition(graph, title_boost=rule.title_boost, hub_penalty=rule.hub_penalty)

        def whole(seed, parts=transition, rule=rule):
            return best(walk_passages(parts, seed, rule.restart, rule.steps, return_dangling=rule.return_dangling), 10)

        def thin(seed, walk=ThinWalk(graph, rule)):  # noqa: B008 - built once
            return walk.masses(seed).best(10)[0]

        shares = [len(np.intersect1d(whole(seed), thin(seed))) / 10 for seed in seeds]
        print(f"| {name} | {measured(whole, seeds)} | {measured(thin, seeds)} | {np.mean(shares):.3f} |", flush=True)
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
