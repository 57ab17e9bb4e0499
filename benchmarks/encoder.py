"""Speed of the local encoder: passages/s, short sentences/s, ms per question; its precisions side by side.

Run: uv run python benchmarks/encoder.py CORPUS.jsonl [float32|bfloat16|int8] [threads]   (records with a "text")
     uv run python benchmarks/encoder.py CORPUS.jsonl precisions                          (processor time, cosines)
     uv run python benchmarks/encoder.py CORPUS.jsonl encoders local,bge,onnx:FOLDER      (time, bits, size)
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

from polyhop.schemas.settings import EncoderChoice, ModelSettings
from polyhop.warehouse.models.encoder_kinds import BGE_WEIGHTS, EncoderNeeds, open_model
from polyhop.warehouse.models.local_encoder import MINILM, LocalEncoder
from polyhop.warehouse.open_models import open_embeddings

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


def short_sentences(texts, count):
    """Sentences of 5 to 12 words, about as long as questions."""
    parts = (part for text in texts for part in re.split(r"(?<=[.!?]) ", text))
    return list(islice((part for part in parts if 5 <= len(part.split()) <= 12), count))


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


def open_named(name):
    """An encoder by its name in the settings, with one thread."""
    limits = EncoderNeeds(EncoderChoice(name=name), 1, ModelSettings(), Path(), None, None, open_embeddings)
    return open_model(limits).passages


def graph_megabytes(name):
    """Size of an encoder's graph."""
    shipped = {"local": MINILM, "bge": BGE_WEIGHTS}
    folder = shipped[name].folder() if name in shipped else Path(name.partition(":")[2])
    return (folder / "model.onnx").stat().st_size / 1e6


def compare_encoders(passages, questions, names):
    """Prints processor time of each encoder in turns, and how many texts have other bits in another batch."""
    encoders = {name: open_named(name) for name in names}
    times, asked = ({name: [] for name in names} for _ in range(2))
    vectors = {}
    for _ in range(3):
        for name, encoder in encoders.items():
            start = time.process_time()
            vectors[name] = encoder.encode(passages)
            times[name].append(time.process_time() - start)
            start = time.process_time()
            encode_one_by_one(encoder, questions)
            asked[name].append(time.process_time() - start)
    print(f"{describe_machine()}, {len(passages)} passages, one thread, median of 3\n")
    print("| encoder | ms per passage | of the first | ms per question | other bits in another batch | graph, MB |")
    print("|---|---|---|---|---|---|")
    first = statistics.median(times[names[0]])
    for name, encoder in encoders.items():
        taken, question = statistics.median(times[name]), statistics.median(asked[name])
        alone = np.concatenate([encoder.encode([text]) for text in passages])
        changed = int((alone != vectors[name]).any(axis=1).sum())
        cells = (1000 * taken / len(passages), taken / first, 1000 * question / len(questions))
        numbers = " | ".join(f"{cell:.1f}" for cell in cells)
        print(f"| {name} | {numbers} | {changed} of {len(passages)} | {graph_megabytes(name):.1f} |")


def main(corpus, precision="float32", threads=None):
    """Prints a Markdown table."""
    with Path(corpus).open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    passages = list(islice((text for text in texts if 80 <= len(text.split()) <= 120), PASSAGE_COUNT))
    if precision == "precisions":
        compare_precisions(passages)
        return
    if precision == "encoders":
        compare_encoders(passages[:64], short_sentences(texts, QUESTION_COUNT), threads.split(","))
        return
    sentences = short_sentences(texts, SENTENCE_COUNT)
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
