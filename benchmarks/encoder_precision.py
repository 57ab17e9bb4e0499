"""What another precision of the local encoder costs and changes: stages of indexing, rankings of bridge, recall.

Run: uv run python benchmarks/encoder_precision.py CORPUS QUESTIONS [bfloat16|int8]
Indexes the corpus twice from nothing, in a folder of its own, and asks bridge every question on both versions.
"""

import sys
import tempfile
import time
from pathlib import Path

from machine import describe_machine

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import EncoderSettings, Settings
from polyhop.warehouse.files.questions import read_questions

DEPTH = 10


def indexed(settings, corpus):
    """Builds an index; (seconds of its embedding stages, seconds of all, processor seconds of all)."""
    begun, processor = time.perf_counter(), time.process_time()
    report = run_index(settings, IndexRequest("one", Path(corpus)), DirectRunner())
    embedding = sum(seconds for stage, seconds in report.seconds.items() if stage.startswith("embed-"))
    return embedding, time.perf_counter() - begun, time.process_time() - processor


def ranked(settings, questions):
    """The first ten passages of every question, and the mean recall@5 of those with gold passages."""
    with open_index("one", settings=settings) as index:
        answers = [index.ask_batch([record.question], strategy="bridge", limit=DEPTH)[0] for record in questions]
        record_of = index.session.published.record_of
    rankings = [[row["id"] for row in answer.passages] for answer in answers]
    recalls = [
        len({record_of(passage) for passage in ranking[:5]} & set(record.supporting)) / len(set(record.supporting))
        for ranking, record in zip(rankings, questions, strict=True)
        if record.supporting
    ]
    return rankings, sum(recalls) / len(recalls)


def main(corpus, questions, precision="bfloat16"):
    """Prints a Markdown table, and how many of the first ten places differ."""
    records, _ = read_questions(Path(questions))
    found = {}
    print(f"{describe_machine()}, {corpus}\n")
    print("| precision | embedding s | indexing s | processor s | recall@5 of bridge |\n|---|---|---|---|---|")
    for one in ("float32", precision):
        with tempfile.TemporaryDirectory() as root:
            encoder = EncoderSettings(precision=one)
            settings = Settings(root=Path(root), strategies=("bridge",), encoder=encoder)
            embedding, whole, processor = indexed(settings, corpus)
            rankings, recall = ranked(settings, records)
        found[one] = rankings
        print(f"| {one} | {embedding:.1f} | {whole:.1f} | {processor:.1f} | {recall:.4f} |", flush=True)
    pairs = [
        (a, b)
        for before, after in zip(found["float32"], found[precision], strict=True)
        for a, b in zip(before, after, strict=True)
    ]
    differing = sum(a != b for a, b in pairs)
    print(f"\n{differing} of the {len(pairs)} first ten places differ ({100 * differing / len(pairs):.2f} %)")
    others = sum(len(set(a) - set(b)) for a, b in zip(found["float32"], found[precision], strict=True))
    print(f"{others} passages of the first ten are others ({100 * others / len(pairs):.2f} %)")


if __name__ == "__main__":
    main(*sys.argv[1:])
