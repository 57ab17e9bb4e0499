"""The reader without a model on questions that its rules were not written for: what it guesses, and what it shows.

Run: uv run python benchmarks/reader_unseen.py [--split dev] [--root FOLDER] [--failures] [--set CORPUS QUESTIONS …]
Without --set the corpora are those of benchmarks/data/unseen; "held" questions are for figures alone: --failures never
lists them. With --root, indexes stay in FOLDER and are used again.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

from polyhop.api import Answer, open_index
from polyhop.flows.evaluation.metrics import exact_match, sentence_hit, token_f1
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings

DATA = Path(__file__).resolve().parent / "data" / "unseen"
RIGHT = 0.5
"""F1 from which a short answer counts as right, as in papers that judge short answers by overlap."""


@dataclass(frozen=True)
class Judged:
    """A question with its answer and what that is worth; `f1` and `hit` are None if the corpus has no answer."""

    row: dict[str, Any]
    answer: Answer
    milliseconds: float
    em: float | None
    f1: float | None
    hit: float | None


def main() -> None:
    """Prints Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", default="dev", help="dev, held, or all")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--failures", action="store_true")
    parser.add_argument("--set", nargs=2, action="append", type=Path, metavar=("CORPUS", "QUESTIONS"))
    arguments = parser.parse_args()
    own = [(path, DATA / f"{path.stem}_questions.jsonl") for path in sorted(DATA.glob("*.jsonl"))]
    sets = arguments.set or [(corpus, questions) for corpus, questions in own if questions.exists()]
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        root = arguments.root or Path(folder)
        judged = [one for corpus, questions in sets for one in ask(root, corpus, questions, arguments.split)]
    print_table(judged)
    if arguments.failures:
        for one in judged:
            if one.row.get("split") != "held" and (one.f1 if one.f1 is not None else float(not one.answer.answer)) < 1:
                print(f"- {one.row['id']} {one.row['question']}\n  {shown(one)}, gold {one.row['answers']}")


def ask(root: Path, corpus: Path, questions: Path, split: str) -> Iterator[Judged]:
    """Every question of a split, asked through the product."""
    name = corpus.stem if corpus.stem != "corpus" else corpus.parent.name
    if not (root / "indexes" / name).exists():
        run_index(Settings(root=root), IndexRequest(name, corpus), DirectRunner())
    with open_index(name, root=root) as index:
        for row in map(json.loads, questions.read_text(encoding="utf-8").splitlines()):
            if split != "all" and row.get("split", split) != split:
                continue
            answer = index.ask(row["question"])
            golds, spent = row["answers"], 1000 * answer.seconds["reading"]
            if not golds:
                yield Judged(row, answer, spent, None, None, None)
                continue
            texts = [str(sentence["text"]) for sentence in answer.sentences]
            guess = answer.guess
            yield Judged(
                row, answer, spent, exact_match(guess, golds), token_f1(guess, golds), sentence_hit(texts, golds)
            )


def print_table(judged: Sequence[Judged]) -> None:
    """By number of hops, then by kind of question."""
    print("\n| questions | EM/F1 of guesses | short answers shown | of these right | sentence hit | silent | p50 ms |")
    print("|---|---|---|---|---|---|---|")
    groups = [("one hop", [one for one in judged if one.row["hops"] == 1])]
    groups += [("several hops", [one for one in judged if one.row["hops"] != 1])]
    for kind in dict.fromkeys(str(one.row.get("kind", "")) for one in judged):
        groups.append((kind or "all", [one for one in judged if str(one.row.get("kind", "")) == kind]))
    for name, ones in [*groups, ("all", list(judged))]:
        if not ones:
            continue
        given = [one for one in ones if one.answer.answer]
        right = sum((one.f1 or 0.0) >= RIGHT for one in given)
        hits = [one.hit for one in ones if one.hit is not None and not is_yes_no(one)]
        silent = sum(not one.answer.answer and not one.answer.sentences for one in ones)
        cells = (
            f"{mean([one.em for one in ones]):.3f}/{mean([one.f1 for one in ones]):.3f}",
            f"{len(given)}/{len(ones)}",
            f"{right}/{len(given)}",
            f"{mean(hits):.2f}",
            f"{silent}",
            f"{np.percentile([one.milliseconds for one in ones], 50):.0f}",
        )
        print(f"| {name} ({len(ones)}) | {' | '.join(cells)} |")


def is_yes_no(one: Judged) -> bool:
    """Whether no sentence that is shown holds the right answer."""
    return one.row["answers"] in (["yes"], ["no"])


def mean(values: Sequence[float | None]) -> float:
    """Of those that are known; 0 of none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


def shown(one: Judged) -> str:
    """What a question's answer shows, in a line."""
    reading = one.answer.reading
    first = next((str(sentence["text"])[:140] for sentence in one.answer.sentences), "")
    return (
        f"{one.answer.answer or '-'!r} (guess {one.answer.guess!r} {reading['confidence']:.2f} {reading['kind']} "
        f"{reading['rule']}) {first!r} {one.milliseconds:.0f} ms"
    )


if __name__ == "__main__":
    main()
