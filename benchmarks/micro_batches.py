"""What the parts of a question cost one by one and in micro-batches: encoding, retrieval, texts, reading by rules.

Run: uv run python benchmarks/micro_batches.py ROOT INDEX QUESTIONS [STRATEGY] [REPEATS]   (an index already built)
Processor milliseconds per question, the smallest of REPEATS passes (default 5); "first" is the pass that finds nothing
kept. Rankings of both ways are compared bit by bit.
"""

import sys
import time
from pathlib import Path

from machine import describe_machine

from polyhop.api import open_index
from polyhop.schemas.query import ContextPassage, Question, ReadingItem
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.open_models import open_encoder
from polyhop.worker.reading.reader import RuleReader

BATCH = 32
LIMIT = 10


def measured(work, batches, repeats):
    """(milliseconds per question of the first pass, smallest of all passes, what the last pass gave)."""
    passes, given = [], []
    for _ in range(repeats):
        given = []
        begun = time.process_time()
        for batch in batches:
            given.extend(work(batch))
        passes.append(1000 * (time.process_time() - begun) / len(given))
    return passes[0], min(passes), given


def main(root, name, questions, strategy="bridge", repeats="5"):
    """Prints a Markdown table."""
    records, _ = read_questions(Path(questions))
    with open_index(name, settings=Settings(root=Path(root))) as index:
        session, count = index.session, int(repeats)
        answerer, encoder = session.answerer(strategy, {}), open_encoder(session.settings)
        texts = [record.question for record in records]
        answerer.answer([Question(texts[0])], limit=LIMIT)
        print(f"{describe_machine()}; {name}, {len(session.published.passage_ids):,} passages, {strategy}\n")
        print(f"| processor ms per question | one by one: first | least | {BATCH} at once: first | least |")
        print("|---|---|---|---|---|")
        vectors = row("encoding", encoder.encode_questions, texts, count)
        asked = [Question(text, vector=vector) for text, vector in zip(texts, vectors, strict=True)]
        found = row("retrieval", lambda some: answerer.strategy.retrieve(some, limit=LIMIT), asked, count)
        contexts = row("texts", lambda some: contexts_of(session.published, some), found, count)
        items = [ReadingItem(*each) for each in zip(asked, found, contexts, strict=True)]
        row("reading", RuleReader(session.published).read, items, count)


def contexts_of(published, retrievals):
    """What the reader gets of each retrieval; all texts are fetched at once."""
    numbers = [[published.number_of_passage[one.passage_id] for one in found.passages] for found in retrievals]
    distinct = sorted({number for some in numbers for number in some})
    stored = dict(zip(distinct, published.passages(distinct), strict=True))
    return [
        tuple(
            ContextPassage(one.passage_id, *stored[number][1:], one.rank, one.score)
            for one, number in zip(found.passages[:LIMIT], some, strict=False)
        )
        for found, some in zip(retrievals, numbers, strict=True)
    ]


def row(part, work, items, repeats):
    """Prints one line; returns what the batches gave.

    Raises:
        SystemExit: If rankings depend on the batch.
    """
    single = measured(work, [[item] for item in items], repeats)
    batches = [items[begin : begin + BATCH] for begin in range(0, len(items), BATCH)]
    together = measured(work, batches, repeats)
    if part == "retrieval" and [one.passages for one in single[2]] != [one.passages for one in together[2]]:
        raise SystemExit("a question's ranking depends on its batch")
    print(f"| {part} | {single[0]:.2f} | {single[1]:.2f} | {together[0]:.2f} | {together[1]:.2f} |", flush=True)
    return together[2]


if __name__ == "__main__":
    main(*sys.argv[1:])
