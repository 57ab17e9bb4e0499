"""What an HNSW graph finds and costs against exact search: recall@10 of the index, milliseconds, by ef_search.

Run: uv run python benchmarks/approximate_search.py ROOT INDEX QUESTIONS   (built with --add-strategy dense-ann)
What it means for rankings: polyhop eval … --strategies "dense,dense-ann,graph-dense,graph-dense:search=ann".
"""

import sys
import time
from pathlib import Path

import numpy as np
from machine import describe_machine

from polyhop.api import open_index
from polyhop.warehouse.artefacts import NEAREST_PASSAGES, vectors_of
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.open_models import open_encoder

DEPTH = 10


def main() -> None:
    """Prints a Markdown table."""
    root, name, questions = sys.argv[1:4]
    records, _ = read_questions(Path(questions))
    with open_index(name, root=root) as index:
        published = index.session.published
        queries = open_encoder(index.session.settings).encode_questions([record.question for record in records])
        matrix = np.ascontiguousarray(published.artefact(vectors_of("passage")))
        exact, times = [], []
        for query in queries:
            start = time.perf_counter()
            exact.append(set(np.argpartition(-(matrix @ query), DEPTH - 1)[:DEPTH].tolist()))
            times.append(1000 * (time.perf_counter() - start))
        nearest = published.artefact(NEAREST_PASSAGES)
        built = published.manifest.vectors["passage"].hnsw
        print(f"{describe_machine()}\n{name}: {len(matrix):,} passages, {len(queries)} questions; manifest: {built}\n")
        print("| search | recall@10 | p50 ms | p95 ms |\n|---|---|---|---|")
        print(f"| exact | 1 | {np.percentile(times, 50):.2f} | {np.percentile(times, 95):.2f} |")
        for ef in (16, 32, 64, 128, 256):
            nearest(queries[0], DEPTH, ef)
            found, times = 0, []
            for query, wanted in zip(queries, exact, strict=True):
                start = time.perf_counter()
                near = nearest(query, DEPTH, ef)
                times.append(1000 * (time.perf_counter() - start))
                found += len(wanted.intersection(near))
            p50, p95 = np.percentile(times, [50, 95])
            print(f"| ef_search {ef} | {found / (DEPTH * len(queries)):.3f} | {p50:.2f} | {p95:.2f} |")


if __name__ == "__main__":
    main()
