"""What `bridge-masked` costs beside `bridge`: retrieval, both encodings, and whole questions in batches.

Run: uv run python benchmarks/masked_questions.py ROOT INDEX QUESTIONS [REPEATS]   (an index built for both strategies)
Processor milliseconds per question. Each question, or batch of 32, counts with the least of REPEATS passes (default 5);
passes of the strategies alternate. No vector is cached (PATH_VECTORS=0) but in the last line, and nobody reads.
"""

import sys
import time
from pathlib import Path

import numpy as np
from machine import describe_machine

from polyhop.api import open_index
from polyhop.schemas.query import Question
from polyhop.schemas.settings import Settings
from polyhop.warehouse import open_models
from polyhop.warehouse.files.questions import read_questions
from polyhop.worker.questions.parts import with_vectors
from polyhop.worker.strategies.bridge_masked import MaskedQuestions

STRATEGIES = ("bridge", "bridge-masked")
BATCH = 32
LIMIT = 10


def main(root, name, questions, repeats="5"):
    """Prints a Markdown table."""
    records, _ = read_questions(Path(questions))
    asked = [Question(record.question, record.id) for record in records]
    batches = [asked[begin : begin + BATCH] for begin in range(0, len(asked), BATCH)]
    asking = Settings(root=Path(root))
    open_models.PATH_VECTORS = 0
    with open_index(name, settings=asking) as index:
        session = index.session
        answerers = {strategy: session.answerer(strategy, {}) for strategy in STRATEGIES}
        questions_of = MaskedQuestions(session.published)
        mask_of = {question.text: questions_of.read(question.text).masked for question in asked}
        masked = [mask for mask in mask_of.values() if mask]
        print(
            f"{describe_machine()}; {name}, {len(session.published.passage_ids):,} passages, {len(asked)} questions, "
        )
        print(f"{len(masked)} of them with a mask, {len(set(masked))} different masks\n")
        print(f"| processor ms per question | {' | '.join(STRATEGIES)} | ratio |\n|---|---|---|---|")
        encoded = {name: encoding(session.services, mask_of if "masked" in name else {}) for name in answerers}
        vectors = {name: encode(asked) for name, encode in encoded.items()}
        retrieve = {name: searching(answerer) for name, answerer in answerers.items()}
        ones = {name: [[question] for question in some] for name, some in vectors.items()}
        blocks = {name: [some[i : i + BATCH] for i in range(0, len(some), BATCH)] for name, some in vectors.items()}
        row("retrieval, one by one, p50", retrieve, ones, repeats, np.median)
        row(f"retrieval, {BATCH} at once", retrieve, blocks, repeats, np.mean)
        single, grouped = (dict.fromkeys(STRATEGIES, some) for some in ([[one] for one in asked], batches))
        row("encoding, one by one", encoded, single, repeats, np.mean)
        row(f"encoding, {BATCH} at once", encoded, grouped, repeats, np.mean)
        whole = {name: asking_all(answerer) for name, answerer in answerers.items()}
        row("both, one by one", whole, single, repeats, np.mean)
        row(f"both, {BATCH} at once", whole, grouped, repeats, np.mean)
    with open_index(name, settings=Settings(root=Path(root))) as index:
        whole = {strategy: asking_all(index.session.answerer(strategy, {})) for strategy in STRATEGIES}
        row(f"both, {BATCH} at once, masks cached", whole, grouped, repeats, np.mean)


def encoding(services, mask_of):
    """Questions to questions with their vectors; masks are encoded, too."""

    def encode(some):
        if masks := [mask for one in some if (mask := mask_of.get(one.text))]:
            services.encode(masks, is_repeated=True)
        return with_vectors(some, services)

    return encode


def searching(answerer):
    """Questions with vectors to rankings."""
    return lambda some: answerer.strategy.retrieve(some, limit=LIMIT)


def asking_all(answerer):
    """Questions to rankings, encoded on the way."""
    return lambda some: answerer.retrieve(some, limit=LIMIT)


def row(label, work_of, batches_of, repeats, middle):
    """Prints one line: what a question takes with each strategy, and the ratio of the second to the first."""
    for name, work in work_of.items():
        work(batches_of[name][0])
    passes = {name: [] for name in work_of}
    for _ in range(int(repeats)):
        for name, work in work_of.items():
            passes[name].append([measured(work, batch) for batch in batches_of[name]])
    taken = {name: np.min(found, axis=0) for name, found in passes.items()}
    sizes = [len(batch) for batch in batches_of[STRATEGIES[0]]]
    values = [middle(np.repeat(taken[name] / sizes, sizes)) for name in STRATEGIES]
    print(f"| {label} | {values[0]:.2f} | {values[1]:.2f} | {values[1] / values[0]:.2f} |", flush=True)


def measured(work, batch):
    """Processor milliseconds of a batch."""
    begun = time.process_time()
    work(batch)
    return 1000 * (time.process_time() - begun)


if __name__ == "__main__":
    main(*sys.argv[1:])
