"""What a filter of questions finds and costs, against an index of only the documents that it allows.

Run: uv run python benchmarks/question_filters.py build ROOT NAME CORPUS [SHARES] [STRATEGIES] [DRAWS]
     uv run python benchmarks/question_filters.py measure ROOT NAME QUESTIONS STRATEGIES [SHARES] [REPEATS] [DRAWS]
The first makes the indexes NAME, and NAME-SHARE-DRAW for each share and draw. Every record gets the metadata `draw_N`,
from 0 to 99.99 by the sha256 of its id and N; the filter is `metadata.draw_N < SHARE` (default 50,10,1; one draw).
Overlap is the mean share of the first ten passages that both indexes have in common; recall@5 counts gold passages of
the corpus that the filter allows, over the questions that have any, all draws together ("gold" of them). p50 is of a
retrieval whose vector is at hand, in processor milliseconds, the least of REPEATS passes (default 3), and so is that of
the same questions without the filter, asked in turns. "ready" is what the filter cost once: matching records and
restricting arrays, in seconds.
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
from polyhop.warehouse.open_models import open_encoder

ARTEFACTS = "bridge,graph-hybrid,naive-vector,qasa"
LIMIT = 10
SHARES = "50,10,1"


def share_of(record_id, draw):
    """From 0 to 99.99, the same for an id and a draw in every run."""
    salted = record_id if draw == 0 else f"{draw} {record_id}"
    return int(sha256(salted.encode()).hexdigest()[:8], 16) % 10_000 / 100


def build(root, name, corpus, shares=SHARES, strategies=ARTEFACTS, draws="1"):
    """Indexes the corpus with its metadata, and each part of it alone, for these strategies besides the defaults."""
    content = Path(corpus).read_bytes()
    lines = (gzip.decompress(content) if corpus.endswith(".gz") else content).decode().splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        record.update({f"draw_{draw}": share_of(record["id"], draw) for draw in range(int(draws))})
    parts = [(float(share), draw) for share in shares.split(",") for draw in range(int(draws))]
    index(root, name, records, strategies)
    for share, draw in parts:
        index(root, f"{name}-{share:g}-{draw}", [r for r in records if r[f"draw_{draw}"] < share], strategies)


def index(root, name, records, strategies):
    """Makes an index of some records."""
    source = Path(root) / f"{name}.jsonl"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    added = [option for strategy in strategies.split(",") for option in ("--add-strategy", strategy)]
    command = ["polyhop", "index", str(source), "--index", name, "--root", root, *added]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"{name}: {len(records):,} records", flush=True)


def measure(root, name, questions, strategies, shares=SHARES, repeats="3", draws="1"):
    """Prints a Markdown table."""
    records, _ = read_questions(Path(questions))
    settings = Settings(root=Path(root))
    with open_index(name, settings=settings) as whole:
        session = whole.session
        known = set(session.published.passage_ids)
        vectors = open_encoder(session.settings).encode_questions([record.question for record in records])
        asked = [Question(r.question, r.id, vector=vector) for r, vector in zip(records, vectors, strict=True)]
        print(f"{describe_machine()}; {name}, {len(known):,} passages, {len(asked)} questions, {draws} draws\n")
        header = (
            "strategy | share | passages | ready s | gold | recall@5 | alone | overlap@10 | p50 ms | without | ratio"
        )
        print(f"| {header} |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for strategy in strategies.split(","):
            plain = session.answerer(strategy, {})
            for share in shares.split(","):
                found, expected, gold, rows, least = [], [], [], [], []
                for draw in range(int(draws)):
                    filtered = session.where(f"metadata.draw_{draw} < {share}")
                    answerer = filtered.answerer(strategy, {})
                    with open_index(f"{name}-{float(share):g}-{draw}", settings=settings) as alone:
                        expected += rankings(alone.session.answerer(strategy, {}), asked)
                    found += rankings(answerer, asked)
                    pair = (answerer.strategy, plain.strategy)
                    least.append(np.min([times(pair, asked) for _ in range(int(repeats))], axis=0))
                    gold += [
                        [g for g in record.supporting if g in known and share_of(g, draw) < float(share)]
                        for record in records
                    ]
                    rows.append(filtered.filter_row)
                p50, without = np.median(np.concatenate(least), axis=0)
                count, ready = (np.mean([row[key] for row in rows]) for key in ("passages", "seconds"))
                cells = [strategy, f"{share} %", f"{count:,.0f}", f"{ready:.2f}", str(sum(map(len, gold)))]
                cells += [recall(found, gold), recall(expected, gold), f"{overlap(found, expected):.3f}"]
                cells += [f"{value:.2f}" for value in (p50, without, p50 / without)]
                print(f"| {' | '.join(cells)} |", flush=True)


def rankings(answerer, questions):
    """Ids of the first passages of each question."""
    return [[p.passage_id for p in one.passages] for one in answerer.retrieve(questions, limit=LIMIT)]


def recall(found, gold):
    """Mean recall@5 of the questions that have gold passages left."""
    shares = [len(set(ids[:5]) & set(some)) / len(some) for ids, some in zip(found, gold, strict=True) if some]
    return f"{np.mean(shares):.3f}" if shares else "–"


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
