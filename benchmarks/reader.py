"""The reader without a model: exact match, F1, and how far its confidence can be believed.

Run: uv run python benchmarks/reader.py INDEX QUESTIONS [--root ROOT] [--strategy bridge] [--passages 10] [--failures]
     uv run python benchmarks/reader.py --comparisons QUESTIONS CORPUS
     uv run python benchmarks/reader.py --odd 10 20
The first form needs an index that is already built; the second reads its own golden questions over a corpus; the third
reads so many endless passages of odd text and fails if a question takes longer than so many milliseconds a passage.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from machine import describe_machine

from polyhop.api import open_index
from polyhop.flows.evaluation.metrics import exact_match, token_f1
from polyhop.schemas.graph import LexicalIndex
from polyhop.schemas.languages import ENGLISH, stem_tokens
from polyhop.schemas.names import NameFinder
from polyhop.schemas.ports import Artefact
from polyhop.schemas.query import ContextPassage, Question, ReaderResult, ReadingItem, Retrieval
from polyhop.warehouse.artefacts import LANGUAGE, NAMES, lexical_of
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.models.span_model import open_span_model
from polyhop.worker.reading.reader import LocalReader

T = TypeVar("T")
GROUPS = 5
CHARACTERS = 1_000_000
ODD_TEXTS = {
    "no full stop": "word Word ",
    "capitals": "Aa Bb Cc Dd ",
    "table": "| 1 | 2 | 3,000 |\n",
    "list": "- Aa\n- Bb (1900 – 1950)\n",
    "code": "x = {'a': [1, 2, 3]};\n",
    "right to left": "שלום עולם ",
    "brackets": "(",
    "quotes": '"',
    "digits": "1",
    "full stops": ".",
    "initials": "A. B. ",
    "commas": "A, ",
    "years": "1999 ",
    "patterns": "born (directed by and born in ",
    "dashes": "a-",
    "blanks": " ",
}
QUESTIONS = (
    "Who directed the film that Aa wrote?",
    "Where was Aa born?",
    "When was Bb born?",
    "How many words has Aa?",
    "What is it?",
    "What nationality is Aa?",
    "Which film is it?",
    "Who is older, Aa or Bb?",
    "Are Aa and Bb from the same country?",
)
DISTRACTORS = 3
"""Passages of so many following questions are read along with a question's own."""


def main() -> None:
    """Prints Markdown tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("index")
    parser.add_argument("questions", type=Path)
    parser.add_argument("--root", default="polyhop-data")
    parser.add_argument("--strategy", default="bridge")
    parser.add_argument("--passages", type=int, default=10)
    parser.add_argument("--odd", action="store_true", help="INDEX is passages, QUESTIONS milliseconds for each")
    parser.add_argument("--failures", action="store_true")
    parser.add_argument("--comparisons", action="store_true", help="INDEX is golden questions, QUESTIONS a corpus")
    arguments = parser.parse_args()
    print(describe_machine())
    if arguments.odd:
        report_odd(int(arguments.index), float(str(arguments.questions)))
    elif arguments.comparisons:
        report_comparisons(Path(arguments.index), arguments.questions)
    else:
        report_index(arguments)


def report_index(arguments: argparse.Namespace) -> None:
    """Answers of a question set over an index."""
    records, _ = read_questions(arguments.questions)
    with open_index(arguments.index, root=arguments.root) as index:
        session = index.session
        reader = LocalReader(session.published, session.services.encode, open_span_model())
        answerer = session.answerer(arguments.strategy, {})
        asked = [Question(record.question, record.id) for record in records]
        answered = answerer.answer(asked, limit=arguments.passages, read_passages=arguments.passages)
        items = [ReadingItem(one.question, one.retrieval, one.context) for one in answered]
        reader.read(items[:1])
        readings, milliseconds, processor = [], [], []
        for item in items:
            start = time.perf_counter()
            begun = time.process_time()
            readings += reader.read([item])
            milliseconds.append(1000 * (time.perf_counter() - start))
            processor.append(1000 * (time.process_time() - begun))
        together = reader.read(items)
    if together != readings:
        sys.exit("The answers depend on the size of the batch.")
    golds = [record.answers for record in records]
    rights = [exact_match(reading.guess, gold) for reading, gold in zip(readings, golds, strict=True)]
    f1 = float(np.mean([token_f1(reading.guess, gold) for reading, gold in zip(readings, golds, strict=True)]))
    print_overall(readings, rights, f1, milliseconds)
    print(f"Of the processor: mean {np.mean(processor):.1f} ms, p95 {np.percentile(processor, 95):.1f} ms")
    print_quintiles(readings, rights)
    if arguments.failures:
        for record, reading, right in zip(records, readings, rights, strict=True):
            if not right:
                print(
                    f"- {record.id} {record.question} -> {reading.answer!r} {reading.confidence:.2f} {record.answers}"
                )


def print_overall(readings: list[ReaderResult], rights: list[float], f1: float, milliseconds: list[float]) -> None:
    """Exact match over all questions and over the answered ones, and what a question costs."""
    given = [right for reading, right in zip(readings, rights, strict=True) if reading.answer]
    loud = [r for r, right in zip(readings, rights, strict=True) if r.answer and not right and r.confidence > 0.6]
    print("\n| questions | EM | F1 | answered | EM of the answered | right | wrong above .6 | mean ms | p95 ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    print(
        f"| {len(readings)} | {np.mean(rights):.3f} | {f1:.3f} | {len(given) / len(readings):.2f} | "
        f"{np.mean(given) if given else 0:.3f} | {int(sum(rights))} | {len(loud)} | "
        f"{np.mean(milliseconds):.1f} | {np.percentile(milliseconds, 95):.1f} |"
    )
    kinds = Counter(reading.kind for reading in readings)
    print(f"\nKinds: {dict(sorted(kinds.items()))}")


def print_quintiles(readings: list[ReaderResult], rights: list[float]) -> None:
    """Stated against observed correctness of the answered, in five groups by confidence."""
    pairs = [(reading.confidence, right) for reading, right in zip(readings, rights, strict=True) if reading.answer]
    pairs.sort(key=lambda pair: pair[0])
    print("\n| quintile | stated | observed | questions |\n|---|---|---|---|")
    for number, group in enumerate(np.array_split(np.array(pairs), GROUPS), start=1):
        if len(group):
            print(f"| {number} | {group[:, 0].mean():.2f} | {group[:, 1].mean():.2f} | {len(group)} |")


def report_odd(count: int, most_milliseconds: float) -> None:
    """The slowest question over a million characters of each odd text, a passage, of the processor."""
    slowest = 0.0
    print("\n| text | slowest ms a passage | question |\n|---|---|---|")
    for name, piece in ODD_TEXTS.items():
        text = piece * (CHARACTERS // len(piece))
        reader = LocalReader(
            CorpusIndex([{"id": "a", "title": "Aa", "text": piece}, {"id": "b", "title": "Bb", "text": piece}]),
            model=open_span_model(),
        )
        context = [ContextPassage(f"p{n}", "Aa" if n % 2 else "Bb", text, n, 1 / n) for n in range(1, count + 1)]
        reader.read([item_of(QUESTIONS[0], context)])
        times = []
        for question in QUESTIONS:
            begun = time.process_time()
            reader.read([item_of(question, context)])
            times.append((1000 * (time.process_time() - begun) / count, question))
        print(f"| {name} | {max(times)[0]:.1f} | {max(times)[1]} |")
        slowest = max(slowest, max(times)[0])
    if slowest > most_milliseconds:
        sys.exit(f"Odd text takes {slowest:.1f} ms a passage.")


def item_of(question: str, context: list[ContextPassage]) -> ReadingItem:
    """A question over passages that nothing retrieved."""
    return ReadingItem(Question(question), Retrieval(()), context)


class CorpusIndex:
    """A corpus in memory, as much of an index as the reader needs; no vectors."""

    name, version, artefacts = "corpus", 1, frozenset({"lexical:stems"})

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self._rows = sorted(rows, key=lambda row: row["id"])
        self.passage_ids = [row["id"] for row in self._rows]
        self.passage_titles = [row["title"] for row in self._rows]
        self.number_of_passage = {passage_id: number for number, passage_id in enumerate(self.passage_ids)}
        df = Counter(term for row in self._rows for term in set(stem_tokens(f"{row['title']}\n{row['text']}")))
        terms = {term: number for number, term in enumerate(sorted(df))}
        indptr = np.cumsum([0, *(df[term] for term in terms)])
        none = np.zeros(0, dtype=np.int32)
        self._artefacts: dict[Artefact[Any], Any] = {
            NAMES: NameFinder(self.passage_titles),
            LANGUAGE: ENGLISH,
            lexical_of("stems"): LexicalIndex(terms, indptr, none, none, np.zeros(len(self._rows), dtype=np.int32)),
        }

    def artefact(self, handle: Artefact[T]) -> T:
        """Names and term statistics."""
        value: T = self._artefacts[handle]
        return value

    def passages(self, numbers: list[int]) -> list[tuple[str, str, str]]:
        """Passages by number."""
        return [(self._rows[n]["id"], self._rows[n]["title"], self._rows[n]["text"]) for n in numbers]


def compared_items(questions: list[dict[str, Any]], rows: list[dict[str, str]]) -> list[ReadingItem]:
    """Questions over their own passages, those of the next questions among them."""
    by_id = {row["id"]: row for row in rows}
    items = []
    for place, question in enumerate(questions):
        following = [questions[(place + step) % len(questions)] for step in range(DISTRACTORS + 1)]
        ids = list(dict.fromkeys(passage_id for one in following for passage_id in one["passages"]))[:10]
        context = [ContextPassage(i, by_id[i]["title"], by_id[i]["text"], n, 1 / n) for n, i in enumerate(ids, start=1)]
        items.append(item_of(question["question"], context))
    return items


def report_comparisons(golden: Path, corpus: Path) -> None:
    """Answers of comparison and yes-no questions from their own passages, those of the next questions among them."""
    rows = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    questions = [json.loads(line) for line in golden.read_text(encoding="utf-8").splitlines()]
    reader = LocalReader(CorpusIndex(rows), model=open_span_model())
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    items = compared_items(questions, rows)
    for question, reading in zip(questions, reader.read(items), strict=True):
        key = f"{reading.kind} {reading.rule}".strip()
        is_right = bool(exact_match(reading.answer, [question["answer"]]))
        asked[key] += 1
        right[key] += is_right
        if not is_right:
            values = [(value.name, value.value) for value in reading.values]
            print(f"- {question['id']} {question['question']} -> {reading.answer!r} ({key}) {values}")
    computed = [key for key in asked if key.startswith("computed")]
    print("\n| rule | questions | right |\n|---|---|---|")
    for key in sorted(asked):
        print(f"| {key} | {asked[key]} | {right[key]} |")
    print(f"| all | {asked.total()} | {right.total()} |")
    share = sum(right[key] for key in computed) / max(1, sum(asked[key] for key in computed))
    print(f"\ncomputed answers right: {share:.3f}")


if __name__ == "__main__":
    main()
