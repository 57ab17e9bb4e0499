"""What a filter of questions finds and costs, against an index of only the documents that it allows.

Run: uv run python benchmarks/question_filters.py build ROOT NAME CORPUS [SHARES]
     uv run python benchmarks/question_filters.py measure ROOT NAME QUESTIONS STRATEGIES [SHARES] [REPEATS]
The first makes the indexes NAME, and NAME-SHARE for each share. Every record gets the metadata `share`, from 0 to 99.99
by the sha256 of its id; the filter is `metadata.share < SHARE` (default 50,10,1). Overlap is the mean share of the
first ten passages that both indexes have in common; recall@5 counts gold passages that the filter allows, over the
questions that have any. p50 is of a retrieval whose vector is at hand, in processor milliseconds, the least of REPEATS
passes (default 3), and so is that of the same questions without the filter, asked in turns. "ready" is what the filter
cost once: matching records and restricting arrays, in seconds.
"""

import gzip
import json
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
from machine import describe_machine

from polyhop.api import open_index
from polyhop.schemas.query import Question
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.open_encoders import open_encoder

ARTEFACTS = ("bridge", "graph-hybrid", "naive-vector", "qasa")
LIMIT = 10
SHARES = "50,10,1"


def share_of(record_id):
    """From 0 to 99.99, the same for an id in every run."""
    return int(sha256(record_id.encode()).hexdigest()[:8], 16) % 10_000 / 100


def build(root, name, corpus, shares=SHARES):
    """Indexes the corpus with its metadata, and each part of it alone."""
    content = Path(corpus).read_bytes()
    lines = (gzip.decompress(content) if corpus.endswith(".gz") else content).decode().splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        record["share"] = share_of(record["id"])
    for share in (None, *map(float, shares.split(","))):
        part = [record for record in records if share is None or record["share"] < share]
        called = name if share is None else f"{name}-{share:g}"
        source = Path(root) / f"{called}.jsonl"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("".join(json.dumps(record) + "\n" for record in part), encoding="utf-8")
        added = [option for strategy in ARTEFACTS for option in ("--add-strategy", strategy)]
        command = ["polyhop", "index", str(source), "--index", called, "--root", root, *added]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(f"{called}: {len(part):,} records", flush=True)


def measure(root, name, questions, strategies, shares=SHARES, repeats="3"):
    """Prints a Markdown table."""
    records, _ = read_questions(Path(questions))
    settings = Settings(root=Path(root))
    with open_index(name, settings=settings) as index:
        session = index.session
        vectors = open_encoder(session.settings).encode_questions([record.question for record in records])
        asked = [Question(r.question, r.id, vector=vector) for r, vector in zip(records, vectors, strict=True)]
        print(
            f"{describe_machine()}; {name}, {len(session.published.passage_ids):,} passages, {len(asked)} questions\n"
        )
        print("| strategy | share | passages | ready s | recall@5 | alone | overlap@10 | p50 ms | without | ratio |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for strategy in strategies.split(","):
            plain = session.answerer(strategy, {})
            for share in shares.split(","):
                filtered = session.where(f"metadata.share < {share}")
                answerer = filtered.answerer(strategy, {})
                with open_index(f"{name}-{share}", settings=settings) as alone:
                    expected = rankings(alone.session.answerer(strategy, {}), asked)
                found = rankings(answerer, asked)
                pair = (answerer.strategy, plain.strategy)
                least = np.min([times(pair, asked) for _ in range(int(repeats))], axis=0)
                p50, without = np.median(least, axis=0)
                gold = [[g for g in record.supporting if share_of(g) < float(share)] for record in records]
                row = filtered.filter_row
                cells = [strategy, f"{share} %", f"{row['passages']:,}", f"{row['seconds']:.2f}"]
                cells += [f"{value:.3f}" for value in (recall(found, gold), recall(expected, gold))]
                cells += [f"{overlap(found, expected):.3f}"]
                cells += [f"{value:.2f}" for value in (p50, without, p50 / without)]
                print(f"| {' | '.join(cells)} |", flush=True)


def rankings(answerer, questions):
    """Ids of the first passages of each question."""
    return [[p.passage_id for p in one.passages] for one in answerer.retrieve(questions, limit=LIMIT)]


def recall(found, gold):
    """Mean recall@5 of the questions that have gold passages left."""
    shares = [len(set(ids[:5]) & set(some)) / len(some) for ids, some in zip(found, gold, strict=True) if some]
    return float(np.mean(shares)) if shares else float("nan")


def overlap(found, expected):
    """Mean share of the expected passages that were found."""
    shares = [len(set(a) & set(b)) / len(b) for a, b in zip(found, expected, strict=True) if b]
    return float(np.mean(shares)) if shares else float("nan")


def times(pair, questions):
    """Shape (questions, 2): milliseconds of the processor with and without the filter."""
    return np.array([[milliseconds(each, question) for each in pair] for question in questions])


def milliseconds(strategy, question):
    """Of one retrieval."""
    begun = time.process_time()
    strategy.retrieve([question], limit=LIMIT)
    return 1000 * (time.process_time() - begun)


if __name__ == "__main__":
    {"build": build, "measure": measure}[sys.argv[1]](*sys.argv[2:])
