"""Cosines of several vectors with all passages: one product of matrices, one per vector, and in blocks of rows.

Run: uv run python benchmarks/products.py [PASSAGES] [REPEATS]   (default 20,748 and 15; 384 dimensions, random rows)
Processor milliseconds, the least of REPEATS; caches are emptied before each. Say OPENBLAS_NUM_THREADS=1 for one thread.
"""

import sys
import time

import numpy as np
from machine import describe_machine

from polyhop.worker.ranking.similarity import rough_cosines

DIMENSION = 384
COUNTS = (1, 2, 3, 4, 8, 16, 32, 64)
OTHER = np.random.default_rng(1).random(6_000_000)
"""48 MB that push the matrix out of the caches."""


def main(passages="20748", repeats="15"):
    """Prints a Markdown table."""
    matrix = np.random.default_rng(0).standard_normal((int(passages), DIMENSION), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    print(f"{describe_machine()}; {len(matrix):,} passages\n")
    print("| vectors | one product | one per vector | as rough_cosines does |\n|---|---|---|---|")
    for count in COUNTS:
        vectors = list(matrix[:count].copy())
        ways = (
            lambda vectors=vectors: [row.astype(np.float64) for row in np.stack(vectors) @ matrix.T],
            lambda vectors=vectors: [(matrix @ vector).astype(np.float64) for vector in vectors],
            lambda vectors=vectors: list(rough_cosines(matrix, vectors)),
        )
        print(f"| {count} | {' | '.join(f'{least(way, int(repeats)):.2f}' for way in ways)} |", flush=True)


def least(work, repeats):
    """Processor milliseconds."""
    taken = []
    for _ in range(repeats):
        OTHER.sum()
        begun = time.process_time()
        work()
        taken.append(1000 * (time.process_time() - begun))
    return min(taken)


if __name__ == "__main__":
    main(*sys.argv[1:])
