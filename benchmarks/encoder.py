"""Speed of the local encoder: passages/s, short sentences/s, ms per question; its precisions side by side.

Run: uv run python benchmarks/encoder.py CORPUS.jsonl [float32|bfloat16|int8] [threads]   (records with a "text")
     uv run python benchmarks/encoder.py CORPUS.jsonl precisions                          (processor time, cosines)
Median of three rounds after a warm-up; other work on the machine shows in the numbers, least in processor time.
"""

import json
import re
import statistics
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
from machine import describe_machine

from polyhop.warehouse.models.local_encoder import LocalEncoder

PASSAGE_COUNT = 256
SENTENCE_COUNT = 1024
QUESTION_COUNT = 100


def seconds(action, *arguments):
    """Median duration of an action over three rounds."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        action(*arguments)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def encode_one_by_one(encoder, texts):
    """As a worker does with questions that come in singly."""
    for text in texts:
        encoder.encode([text])


def compare_precisions(passages):
    """Prints, of each precision, processor seconds of the same passages in turns, and cosines with float32."""
    encoders = {precision: LocalEncoder(precision=precision) for precision in ("float32", "bfloat16", "int8")}
    vectors = {precision: encoder.encode(passages) for precision, encoder in encoders.items()}
    times = {precision: [] for precision in encoders}
    for _ in range(5):
        for precision, encoder in encoders.items():
            start = time.process_time()
            encoder.encode(passages)
            times[precision].append(time.process_time() - start)
    exact = statistics.median(times["float32"])
    print(f"{describe_machine()}, {len(passages)} passages, median of 5\n")
    print("| precision | processor s | of float32 | cosine, mean | least |\n|---|---|---|---|---|")
    for precision, found in vectors.items():
        cosines = np.sum(found * vectors["float32"], axis=1)
        taken = statistics.median(times[precision])
        print(f"| {precision} | {taken:.2f} | {taken / exact:.2f} | {cosines.mean():.6f} | {cosines.min():.6f} |")


def main(corpus, precision="float32", threads=None):
    """Prints a Markdown table."""
    with Path(corpus).open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    passages = list(islice((text for text in texts if 80 <= len(text.split()) <= 120), PASSAGE_COUNT))
    if precision == "precisions":
        compare_precisions(passages)
        return
    parts = (part for text in texts for part in re.split(r"(?<=[.!?]) ", text))
    sentences = list(islice((part for part in parts if 5 <= len(part.split()) <= 12), SENTENCE_COUNT))
    questions = sentences[:QUESTION_COUNT]
    print(f"{describe_machine()}, {precision}, threads {threads or 'all'}\n")
    print("| batch size | passages/s | short sentences/s | ms per question |\n|---|---|---|---|")
    for batch_size in (1, 8, 32):
        encoder = LocalEncoder(batch_size=batch_size, precision=precision, threads=int(threads) if threads else None)
        encoder.encode(passages[:8])
        passage_rate = len(passages) / seconds(encoder.encode, passages)
        sentence_rate = len(sentences) / seconds(encoder.encode, sentences)
        question_ms = 1000 * seconds(encode_one_by_one, encoder, questions) / len(questions)
        print(f"| {batch_size} | {passage_rate:.0f} | {sentence_rate:.0f} | {question_ms:.1f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
