"""Quotes that a model's answer may cite: how often a check takes a sentence for related to the question.

Run: uv run python benchmarks/quotes.py [--encoder local] [--data ../shared/data/musique100]
"""

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine
from numpy.typing import NDArray

from polyhop.schemas.names import split_sentences
from polyhop.schemas.ports import Encode
from polyhop.schemas.settings import Space, parse_settings
from polyhop.schemas.text import norm_answer, passage_text
from polyhop.warehouse.open_models import open_encoder
from polyhop.worker.reading.models import RELATED, deviations, unrelated_vectors

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "musique100"
LEVELS = (1.0, RELATED, 2.0, 2.5)


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="local")
    parser.add_argument("--data", type=Path, default=SHARED)
    arguments = parser.parse_args()
    corpus = {row["id"]: row for row in rows_of(arguments.data / "corpus.jsonl")}
    with tempfile.TemporaryDirectory() as root:
        encoder = open_encoder(parse_settings({"quotes": {"root": root, "encoder.name": arguments.encoder}}))

        def encode(texts: Any, space: Space | None = None, *, is_repeated: bool = False) -> NDArray[np.float32]:
            del space, is_repeated
            return np.asarray(encoder.encode(list(texts), "passage"))

        found = measure(rows_of(arguments.data / "questions.jsonl"), corpus, encode, encoder)
    print(describe_machine())
    print("\n| sentences | number |", *(f"{level} |" for level in LEVELS))
    print("|---|---|" + "---|" * len(LEVELS))
    for kind, values in found.items():
        shares = " | ".join(f"{np.mean(np.array(values) >= level):.2f}" for level in LEVELS)
        print(f"| {kind} | {len(values)} | {shares} |")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def measure(
    questions: list[dict[str, Any]], corpus: dict[str, dict[str, Any]], encode: Encode, encoder: Any
) -> dict[str, list[float]]:
    """Deviations of sentences with the answer, others of supporting passages, and others of the corpus."""
    dice = random.Random(1)
    ids, unrelated = sorted(corpus), unrelated_vectors(encode)
    found: dict[str, list[float]] = {"with the answer": [], "of supporting passages": [], "of other passages": []}
    for row in questions:
        texts: dict[str, list[str]] = {kind: [] for kind in found}
        for passage in (corpus[each] for each in row["supporting"]):
            sentences = [passage["text"][start:end] for start, end in split_sentences(passage["text"])]
            holding = [one for one in sentences if any(norm_answer(a) in norm_answer(one) for a in row["answers"])]
            rest = [one for one in sentences if one not in holding]
            texts["with the answer"] += [passage_text(passage["title"], one) for one in holding[:1]]
            texts["of supporting passages"] += [passage_text(passage["title"], dice.choice(rest))] if rest else []
        for passage in (corpus[each] for each in dice.sample(ids, 5) if each not in row["supporting"]):
            start, end = dice.choice(split_sentences(passage["text"]))
            texts["of other passages"].append(passage_text(passage["title"], passage["text"][start:end]))
        vector = np.asarray(encoder.encode([row["question"]], "query"))[0]
        for kind, several in texts.items():
            found[kind] += deviations(vector, encode(several), unrelated) if several else []
    return found


if __name__ == "__main__":
    main()
