"""What spreading activation costs by steps, with and without the gate: the shape of the paper's Table VI.

Run: uv run python benchmarks/activation_latency.py ROOT INDEX QUESTIONS [ENGINE…]   (an index built for qasa)
ENGINE is a value of qasa's parameter `engine`, default embedded. Serial, one warm-up pass over ten questions left out
(algorithms.md 6.4); encoding the question and its names is left out, in milliseconds per question.
"""

import sys
import time
from pathlib import Path

import numpy as np
from machine import describe_machine

from polyhop.api import Index, open_index
from polyhop.schemas.query import Question
from polyhop.warehouse.artefacts import NAMES, RELATIONS
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.open_encoders import open_encoder
from polyhop.worker.questions.parts import RuleNaming
from polyhop.worker.strategies.qasa import QasaStrategy

STEPS = (1, 2, 3, 4)
GATES = ("cosine", "none")


def main() -> None:
    """Prints a Markdown table."""
    root, name, questions = sys.argv[1:4]
    engines = sys.argv[4:] or ["embedded"]
    records, _ = read_questions(Path(questions))
    with open_index(name, root=root) as index:
        asked = _prepared(index, [Question(record.question, record.id) for record in records])
        relations = index.session.published.artefact(RELATIONS)
        print(
            f"{describe_machine()}\n{name}: {relations.entity_count:,} entities, {len(relations.labels):,} relations, "
            f"{len(asked)} questions\n"
        )
        print("| engine | gate | T | p50 ms | p95 ms | max ms | entities activated | chains |")
        print("|---|---|---|---|---|---|---|---|")
        for engine in engines:
            for gate in GATES:
                for steps in STEPS:
                    print(_row(index, asked, engine, gate, steps), flush=True)


def _prepared(index: Index, questions: list[Question]) -> list[Question]:
    """With vectors, names and vectors of their hints, as a strategy gets them."""
    session = index.session
    encode = open_encoder(session.settings).encode_questions
    naming = RuleNaming(session.published.artefact(NAMES))
    prepared = []
    for question, named in zip(questions, naming.name(questions), strict=True):
        hints = [name.search_hint for name in named.names]
        vectors = encode([question.text, *hints])
        prepared.append(
            Question(
                question.text,
                question.id,
                vectors[0],
                names=named.names,
                hint_vectors=dict(zip(hints, vectors[1:], strict=True)),
            )
        )
    return prepared


def _row(index: Index, asked: list[Question], engine: str, gate: str, steps: int) -> str:
    parameters = {"engine": engine, "gate": gate, "steps": steps}
    strategy = index.session.answerer("qasa", parameters).strategy
    assert isinstance(strategy, QasaStrategy)
    strategy.retrieve(asked[:10], limit=100)
    times, activated, chains = [], [], []
    for question in asked:
        start = time.perf_counter()
        (retrieval,) = strategy.retrieve([question], limit=100)
        times.append(1000 * (time.perf_counter() - start))
        activated.append(retrieval.evidence["activated"])
        chains.append(len(retrieval.evidence["chains"]))
    p50, p95, most = np.percentile(times, [50, 95, 100])
    return (
        f"| {engine} | {gate} | {steps} | {p50:.2f} | {p95:.2f} | {most:.2f} "
        f"| {np.mean(activated):.0f} | {np.mean(chains):.1f} |"
    )


if __name__ == "__main__":
    main()
