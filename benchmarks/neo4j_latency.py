"""Milliseconds of spreading activation per question, embedded and on Neo4j, and whether both agree.

Same shape as the QASA paper's Table VI: T = 1 to 4, gate on and off. The version must have been exported before
(polyhop export neo4j); the server is that of NEO4J_URI and NEO4J_PASSWORD.
Run: uv run python benchmarks/neo4j_latency.py ROOT INDEX QUESTIONS [REPEATS]
Serial; every configuration runs ten questions first that do not count; of REPEATS passes (1) each question's least.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from machine import describe_machine
from numpy.typing import NDArray

from schemas.query import Question
from schemas.spreading import Activation, SeedName, SpreadQuestion
from warehouse.files.questions import read_questions
from warehouse.graph.neo4j_graph import Neo4jGraph
from warehouse.graph.neo4j_server import Neo4jConnection, find_address
from warehouse.index_reader import PublishedIndex
from warehouse.open import open_encoder, open_published
from warehouse.settings_file import load_settings
from worker.questions.names import RuleNaming
from worker.strategies.lookup import NameLookup
from worker.strategies.qasa import QasaParameters, rules_of
from worker.strategies.spreading import EmbeddedEngine, Engine
from worker.strategies.spreading_neo4j import Neo4jEngine

WARM_UP = 10


def main() -> None:
    """Prints a Markdown table."""
    root, name, file = sys.argv[1:4]
    repeats = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    index = open_published(Path(root), name)
    connection = Neo4jConnection(find_address(None, None, None))
    graph = Neo4jGraph(connection, name, index.graph.keys)
    graph.require(index.version)
    questions = spread_questions(root, index, Path(file))
    print(
        f"{describe_machine()}\n{name}: {index.graph.entity_count:,} names, {len(questions)} questions, "
        f"Neo4j {connection.version}\n\n| gate | T | embedded p50 | p95 | max | Neo4j p50 | p95 | max "
        "| active p50 | p95 | equal |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for gate in ("cosine", "none"):
        for steps in (1, 2, 3, 4):
            rules = rules_of(QasaParameters(steps=steps, gate=gate))
            local, ours = measure(EmbeddedEngine(index, rules), questions, repeats)
            remote, theirs = measure(Neo4jEngine(graph, rules), questions, repeats)
            sizes = np.percentile([len(found.entities) for found in local], [50, 95])
            same = sum(not differences(one, other) for one, other in zip(local, remote, strict=True))
            print(
                f"| {gate} | {steps} | {ours} | {theirs} | {sizes[0]:.0f} | {sizes[1]:.0f} | {same} of {len(local)} |",
                flush=True,
            )
            for number, (one, other) in enumerate(zip(local, remote, strict=True)):
                if found := differences(one, other):
                    print(f"<!-- question {number}: {found} -->")
    connection.close()
    index.close()


def spread_questions(root: str, index: PublishedIndex, file: Path) -> list[SpreadQuestion]:
    """The questions as engines get them, encoded."""
    records, _ = read_questions(file)
    encoder = open_encoder(load_settings({"root": root}))
    lookup = NameLookup(index)
    texts = [Question(record.question, record.id) for record in records]
    asked = []
    for question, naming in zip(texts, RuleNaming(index.names).name(texts), strict=True):
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
            found += engine.activate([question])
            least[number] = min(least[number], 1000 * (time.perf_counter() - begun))
    low, high = np.percentile(least, [50, 95])
    return found, f"{low:.1f} | {high:.1f} | {least.max():.1f}"


def differences(one: Activation, other: Activation) -> str:
    """What two engines do not agree on, "" if nothing."""
    if [seed.entity for seed in one.seeds] != [seed.entity for seed in other.seeds]:
        return f"seeds {[s.entity for s in one.seeds]} and {[s.entity for s in other.seeds]}"
    if one.entities.tolist() != other.entities.tolist():
        return f"entities {len(one.entities)} and {len(other.entities)}"
    if len(one.values) and np.abs(one.values - other.values).max() > 1e-4:
        return f"activations by {np.abs(one.values - other.values).max()}"
    left, right = ([replace(chain, score=0.0) for chain in found.chains] for found in (one, other))
    if left != right:
        place = next((n for n, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), -1)
        return f"chains from place {place}: {[(c.chains[place].entities, c.chains[place].score) for c in (one, other)]}"
    return ""


if __name__ == "__main__":
    main()
