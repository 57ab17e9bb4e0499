"""hub-facets on a made-up graph: milliseconds of a question besides encoding, seconds to open, peak memory.

Run: uv run python benchmarks/hub_facets_large.py [HUBS] [TRIPLES_PER_HUB]   (default 50,000 hubs of 20 triples each)
Hubs have values of 30 predicates, from pools of 5 to 30,000 values whose words are of Zipf's frequencies; vectors are
random. Questions name two values and ask for a third field; every fifth one names a hub. Nothing is stored or encoded.
"""

import resource
import sys
import time

import numpy as np
from machine import describe_machine

from polyhop.schemas.hubs import HubGraph, HubPaths
from polyhop.worker.ranking.facets.ranking import FacetRanking, FacetRule, best_paths
from polyhop.worker.ranking.facets.units import units_of

PREDICATES, DIMENSION, QUESTIONS = 30, 384, 60
POOLS = (5, 20, 200, 2_000, 30_000, 5_500)


def unit_vectors(numbers: np.random.Generator, count: int) -> np.ndarray:
    """Random directions."""
    vectors = numbers.standard_normal((count, DIMENSION), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def made_up(numbers: np.random.Generator, hubs: int, degree: int) -> tuple[HubGraph, list[str], list[str]]:
    """A graph whose last nodes are the hubs, with its labels and predicates."""
    letters = list("abcdefghijklmnopqrstuvwxyz")
    words = ["".join(numbers.choice(letters, length)) for length in numbers.integers(4, 9, 20_000)]

    def label(length: int) -> str:
        return " ".join(words[place] for place in numbers.zipf(1.3, length) % len(words))

    sizes = [POOLS[predicate % len(POOLS)] for predicate in range(PREDICATES)]
    firsts = np.cumsum([0, *sizes])
    labels = [label(length) for length in numbers.integers(1, 5, firsts[-1])]
    predicates = np.sort(numbers.integers(0, PREDICATES, (hubs, degree)), axis=1).ravel()
    objects = firsts[predicates] + (numbers.random(len(predicates)) * np.array(sizes)[predicates]).astype(int)
    subjects = np.repeat(np.arange(hubs) + firsts[-1], degree)
    rows = np.unique(np.stack((subjects, predicates, objects)), axis=1)
    labels += [label(8) for _ in range(hubs)]
    graph = HubGraph.from_triples(*rows, np.zeros(len(labels), dtype=np.bool_))
    return graph, labels, [f"has {words[number]}" for number in range(PREDICATES)]


def paths_of_one_triple(graph: HubGraph, hubs: np.ndarray) -> HubPaths:
    """Every triple as the path of its hub."""
    count, none = len(graph.subjects), np.zeros(0, dtype=np.int32)
    starts = np.searchsorted(graph.subjects, [*hubs, graph.node_count])
    zeros = np.zeros(len(hubs) + 1, dtype=np.int64)
    return HubPaths(
        hubs.astype(np.int32), starts, np.arange(count + 1), np.arange(count, dtype=np.int32),
        np.zeros(count, dtype=np.uint8), np.zeros((count, 32), dtype=np.uint8), np.zeros(count, dtype=np.int32),
        zeros, none, none.astype(np.uint8), zeros[:1], none,
    )  # fmt: skip


def main(hub_count: int, degree: int) -> None:
    """Prints one line per measure, in wall time: processor time would count the second thread of BLAS, which spins."""
    numbers = np.random.default_rng(1)
    graph, labels, predicates = made_up(numbers, hub_count, degree)
    hubs = np.arange(graph.node_count - hub_count, graph.node_count)
    paths = paths_of_one_triple(graph, hubs)
    _, texts = np.unique(graph.predicates.astype(np.int64) * len(labels) + graph.objects, return_inverse=True)
    vectors = unit_vectors(numbers, int(texts.max()) + 1)
    print(f"{describe_machine()}\n{len(texts):,} triples, {hub_count:,} hubs, {len(vectors):,} texts")
    begun = time.perf_counter()
    units = units_of(graph, paths, texts, predicates, labels)
    ranking = FacetRanking(units, vectors, ["Thing"], FacetRule())
    print(f"opened in {time.perf_counter() - begun:.1f} s")
    last, times = paths.last_triples(), []
    for number in range(QUESTIONS):
        hub = int(numbers.integers(hub_count))
        one, two, three = (int(row) for row in numbers.integers(paths.path_starts[hub], paths.path_starts[hub + 1], 3))
        named = [labels[int(graph.objects[row])] for row in (one, two)]
        fields = [predicates[int(graph.predicates[row])] for row in (two, three)]
        text = f"Which things have {named[0]} and {fields[0]} {named[1]} and what is their {fields[1]}?"
        text = text if number % 5 else f"What is the {fields[1]} of {labels[int(hubs[hub])]}?"
        vector = vectors[int(numbers.integers(len(vectors)))]
        begun = time.perf_counter()
        scores = ranking.score(ranking.read(text), vector, vector)
        best_paths(scores.paths, last, 100)
        times.append(1000 * (time.perf_counter() - begun))
    p50, p95 = np.percentile(times[5:], [50, 95])  # the first ones compile
    print(f"a question takes {p50:.1f} ms at the median, {p95:.1f} ms at p95")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main(*(int(value) for value in (*sys.argv[1:], *("50000", "20")[len(sys.argv) - 1 :])))
