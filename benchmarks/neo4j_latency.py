"""Milliseconds of spreading activation per question, embedded and on Neo4j, and whether both agree.

Same shape as the QASA paper's Table VI: T = 1 to 4, gate on and off, a block per index. Both engines answer the same
questions in one run, serially; ten questions first do not count; of REPEATS passes (1) each question's least counts.
Encoding is left out. Run: uv run python benchmarks/neo4j_latency.py ROOT INDEX=QUESTIONS… [--repeats N]
Exports first whatever the server lacks. The server is that of NEO4J_URI and NEO4J_PASSWORD; without NEO4J_URI one of
its own, with a throwaway folder (tests/support/neo4j_process.py).
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from machine import describe_machine
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from graph_fixture import address_of, disagreement
from neo4j_process import Neo4jServer

from polyhop.flows.export import run_export
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.graph import Activation, SeedName, SpreadQuestion
from polyhop.schemas.query import Question
from polyhop.schemas.records import Address
from polyhop.warehouse.artefacts import GRAPH, NAMES
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.graph.neo4j_store import Neo4jStore
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.open import find_address, open_published
from polyhop.warehouse.open_models import open_encoder
from polyhop.warehouse.user_files import load_settings
from polyhop.worker.questions.parts import RuleNaming
from polyhop.worker.strategies.entities import NameLookup
from polyhop.worker.strategies.qasa import EmbeddedEngine, Engine, Neo4jEngine, QasaParameters, rules_of

WARM_UP = 10
GATES = ("cosine", "none")
STEPS = (1, 2, 3, 4)


def main() -> None:
    """Prints a Markdown table per index."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("indexes", nargs="+", help="INDEX=QUESTIONS")
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    print(describe_machine())
    with server() as address:
        for pair in given.indexes:
            name, _, file = pair.partition("=")
            _measure_index(given.root, name, Path(file), address, given.repeats)


@contextmanager
def server() -> Iterator[Address]:
    """The server of the environment, or one of its own for the block."""
    if os.environ.get("NEO4J_URI"):
        yield find_address(None, None, None)
        return
    own = Neo4jServer(heap="1g")
    try:
        yield address_of(own.start())
    finally:
        own.throw_away()


def _measure_index(root: str, name: str, file: Path, address: Address, repeats: int) -> None:
    begun = time.perf_counter()
    exported = run_export(load_settings({"root": root}), name, address, DirectRunner())
    seconds = time.perf_counter() - begun
    index = open_published(Path(root), name)
    connection = Neo4jConnection(address)
    keys = index.artefact(GRAPH).keys
    graph = Neo4jStore(connection, name).spreading(index.version, keys)
    questions = spread_questions(root, index, file)
    searched = sum(any(seed.match == "vector" for seed in question.names) for question in questions)
    print(
        f"\n{name}: {len(keys):,} names, {exported.counts['relations']:,} relations, {len(questions)} "
        f"questions, {searched} of them with a name that only a vector search finds; Neo4j {connection.version}; "
        f"{exported.created:,} rows exported in {seconds:.1f} s\n\n| gate | T | embedded p50 | p95 | max | Neo4j p50 "
        "| p95 | max | active p50 | p95 | chains p50 | equal |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for gate in GATES:
        for steps in STEPS:
            rules = rules_of(QasaParameters(steps=steps, gate=gate))
            local, ours = measure(EmbeddedEngine(index, rules), questions, repeats)
            remote, theirs = measure(Neo4jEngine(graph, rules), questions, repeats)
            _print_row(f"| {gate} | {steps} | {ours} | {theirs} |", local, remote)
    connection.close()
    index.close()


def _print_row(cells: str, local: Sequence[Activation], remote: Sequence[Activation]) -> None:
    sizes = np.percentile([len(found.entities) for found in local], [50, 95])
    chains = np.median([len(found.chains) for found in local])
    words = [disagreement(one, other) for one, other in zip(local, remote, strict=True)]
    print(f"{cells} {sizes[0]:.0f} | {sizes[1]:.0f} | {chains:.0f} | {words.count('')} of {len(words)} |", flush=True)
    for number, found in enumerate(words):
        if found:
            print(f"<!-- question {number}: {found} -->")


def spread_questions(root: str, index: PublishedIndex, file: Path) -> list[SpreadQuestion]:
    """The questions as engines get them, encoded."""
    records, _ = read_questions(file)
    encoder = open_encoder(load_settings({"root": root}))
    lookup = NameLookup(index)
    texts = [Question(record.question, record.id) for record in records]
    asked = []
    for question, naming in zip(texts, RuleNaming(index.artefact(NAMES)).name(texts), strict=True):
        vector = encoder.encode_questions([question.text])[0]
        found = [(name, *lookup.find(name)) for name in naming.names]
        names = [
            SeedName(name.key, match, entities, None if entities else encoder.encode_questions([name.search_hint])[0])
            for name, match, entities in found
        ]
        asked.append(SpreadQuestion(vector, tuple(names) or (SeedName("", "vector", vector=vector),)))
    return asked


def measure(engine: Engine, questions: Sequence[SpreadQuestion], repeats: int) -> tuple[list[Activation], str]:
    """What the engine finds, and p50, p95 and maximum in milliseconds as cells of a table."""
    engine.activate(questions[:WARM_UP])
    least: NDArray[np.float64] = np.full(len(questions), np.inf)
    found: list[Activation] = []
    for _ in range(repeats):
        found = []
        for number, question in enumerate(questions):
            begun = time.perf_counter()
            found.append(engine.activate(question))
            least[number] = min(least[number], 1000 * (time.perf_counter() - begun))
    low, high = np.percentile(least, [50, 95])
    return found, f"{low:.1f} | {high:.1f} | {least.max():.1f}"


if __name__ == "__main__":
    main()
