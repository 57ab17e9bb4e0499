"""What each rule and list of the reader without a model is worth: answers that change if it is switched off.

Run: uv run python benchmarks/reader_ablation.py [--root FOLDER] [--only NAME …] [--musique FOLDER] [--wiki CORPUS]
Every question set is retrieved once (`bridge`, 10 passages); then one rule at a time is patched to do nothing, and all
are read again. A rule whose changes are fewer than 3 in 1,000 questions, or that does not help, can go (issue 33).
"""

import argparse
import importlib
import json
import pkgutil
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

from machine import describe_machine
from reader import CorpusIndex, compared_items

from polyhop.api import open_index
from polyhop.flows.evaluation.metrics import exact_match
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.query import Question, Reading, ReadingItem
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.worker import reading
from polyhop.worker.reading import candidates, word_lists
from polyhop.worker.reading.reader import RuleReader

PROJECT = Path(__file__).resolve().parents[1]
SHARED = PROJECT.parent / "shared" / "data"
NEVER = re.compile(r"(?!)")
PASSAGES = 10
UNSEEN = ("archipelago", "handbook", "newspaper", "science", "works")


class QuestionSet(NamedTuple):
    """Questions with what was retrieved for them, their right answers and their reader's arguments."""

    name: str
    items: list[ReadingItem]
    golds: list[list[str]]
    index: Any
    encode: Any


def main() -> None:
    """Prints a Markdown table, a line for each rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--only", nargs="*", help="rules whose names contain one of these")
    parser.add_argument("--musique", type=Path, default=SHARED / "musique100")
    parser.add_argument("--wiki", type=Path, default=SHARED / "wiki2" / "corpus.jsonl")
    arguments = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        sets = list(question_sets(arguments, arguments.root or Path(folder), opened))
        whole = [read(one) for one in sets]
        count = sum(len(one.items) for one in sets)
        cells = [
            f"{sum(map(is_right, readings, one.golds))}/{len(one.items)}"
            for one, readings in zip(sets, whole, strict=True)
        ]
        print(
            f"\n| rule | changed of {count}: guesses, short answers, sentences | better, worse | "
            + " | ".join(one.name for one in sets)
            + " |"
        )
        print("|---" * (len(sets) + 3) + "|")
        print(f"| all rules | | | {' | '.join(cells)} |", flush=True)
        for name, targets in switches().items():
            if arguments.only and not any(part in name for part in arguments.only):
                continue
            with switched_off(targets):
                print_rule(name, sets, whole, [read(one) for one in sets])


def question_sets(arguments: argparse.Namespace, root: Path, opened: ExitStack) -> Iterator[QuestionSet]:
    """All question sets that are there, retrieved."""
    data, golden = PROJECT / "benchmarks" / "data", PROJECT / "tests" / "golden"
    folders = {"documents": data / "reader", "golden": golden / "reader", "demo": PROJECT / "polyhop" / "demo"}
    pairs = {name: (folder / "corpus.jsonl", folder / "questions.jsonl") for name, folder in folders.items()}
    pairs |= {name: (data / "unseen" / f"{name}.jsonl", data / "unseen" / f"{name}_questions.jsonl") for name in UNSEEN}
    pairs["musique"] = (arguments.musique / "corpus.jsonl", arguments.musique / "questions.jsonl")
    for name, (corpus, asked) in pairs.items():
        if not corpus.exists():
            continue
        if not (root / "indexes" / name).exists():
            run_index(Settings(root=root), IndexRequest(name, corpus), DirectRunner())
        index = opened.enter_context(open_index(name, root=root))
        rows = [row for row in rows_of(asked) if row.get("split") != "held"]
        answerer = index.session.answerer("bridge", {})
        found = answerer.answer(
            [Question(row["question"], row["id"]) for row in rows], limit=PASSAGES, read_passages=PASSAGES
        )
        items = [ReadingItem(one.question, one.retrieval, one.context) for one in found]
        golds = [list(row["answers"]) for row in rows]
        yield QuestionSet(name, items, golds, index.session.published, index.session.services.encode)
    if arguments.wiki.exists():
        rows, questions = rows_of(arguments.wiki), rows_of(golden / "comparison_questions.jsonl")
        golds = [[row["answer"]] for row in questions]
        yield QuestionSet("comparisons", compared_items(questions, rows), golds, CorpusIndex(rows), None)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read(one: QuestionSet) -> list[Reading]:
    """Answers of a question set by a new reader, from nothing that an earlier one kept."""
    for module in modules():
        for value in list(vars(module).values()):
            if hasattr(value, "cache_clear") and value.__module__ == module.__name__ != word_lists.__name__:
                value.cache_clear()
    return RuleReader(one.index, one.encode).read(one.items)


def is_right(reading: Reading, golds: Sequence[str]) -> bool:
    """The guess is an exact match; without an answer in the corpus only silence is right."""
    return exact_match(reading.guess, list(golds)) == 1 if golds else not reading.answer


def modules() -> list[ModuleType]:
    """The modules of the reader."""
    names = [module.name for module in pkgutil.iter_modules(reading.__path__)]
    return [
        importlib.import_module(f"polyhop.worker.reading.{name}") for name in names if name not in ("hubs", "models")
    ]


def switches() -> dict[str, list[tuple[str, Any]]]:
    """By rule, the names of the reader's modules that are patched, and what replaces them."""
    found = {f"rule {name}": targets for name, targets in RULES.items()}
    for feature in candidates.WEIGHTS._fields:
        found[f"feature {feature}"] = [("WEIGHTS", candidates.WEIGHTS._replace(**{feature: 0.0}))]
    every = word_lists.words, word_lists.pattern, word_lists.senses, word_lists.geography()
    for name in WORDS:
        found[f"list {name}"] = [("words", lambda asked, name=name: frozenset() if asked == name else every[0](asked))]
    for name in ("relative_clause", "clause_end"):
        found[f"pattern {name}"] = [("pattern", lambda asked, name=name: NEVER if asked == name else every[1](asked))]
    found["list senses"] = [("senses", dict)]
    for group in dict.fromkeys(map(frozenset, every[2]().values())):
        rest = {word: said - group for word, said in every[2]().items()}
        found[f"sense {min(group)}"] = [("senses", lambda rest=rest: rest)]
    for field in ("countries", "states", "demonyms", "parts"):
        emptied = replace(every[3], **{field: type(getattr(every[3], field))()})
        known = sorted({*emptied.countries, *emptied.states, *emptied.demonyms}, key=len, reverse=True)
        emptied = replace(emptied, places=re.compile(rf"(?<!\w)(?=[A-Z])(?i:{'|'.join(known)})(?!\w)"))
        found[f"list {field}"] = [("geography", lambda emptied=emptied: emptied)]
    return found


def no(*_arguments: object, **_named: object) -> bool:
    """A test that nothing passes."""
    return False


def constant(value: Any) -> Any:
    """A function that returns the same whatever it is given."""
    return lambda *_arguments, **_named: value


WORDS = (
    *("auxiliaries", "prepositions", "links", "number_heads", "date_heads", "nationality_heads", "measures"),
    *("head_verbs", "name_links", "place_kinds", "place_links", "phrase_links"),
)
RULES: dict[str, list[tuple[str, Any]]] = {
    "type fits": [("fitness", constant(1.0))],
    "fit of the head noun": [("_of_head", constant(candidates.OPEN))],
    "mismatch of types": [("_is_mismatch", no)],
    "wider place": [("WIDER", 1.0)],
    "predicate said": [("_said_factor", constant(1.0))],
    "names said": [("_has_name", lambda *_: True)],
    "head noun said": [("UNHEADED", 1.0)],
    "spread evidence": [("SPREAD", 1.0)],
    "the page's title as candidate": [("subject_span", constant(None))],
    "phrases": [("phrases", constant(()))],
    "peoples": [("people", constant(()))],
    "relative clauses cut": [
        ("_without_relative_clauses", lambda text, begin: bytearray(begin).ljust(len(text), b"\1"))
    ],
    "names dropped": [("_is_dropped", no)],
    "described nouns": [("_described", constant(frozenset()))],
    "nouns before a name": [("_nouns_before", constant([]))],
    "one value of one thing": [("_one_value", constant(None))],
}


@contextmanager
def switched_off(targets: Sequence[tuple[str, Any]]) -> Iterator[None]:
    """Patches a name in every module of the reader that has it."""
    with ExitStack() as patches:
        for name, value in targets:
            for module in modules():
                if name in vars(module):
                    patches.enter_context(patch.object(module, name, value))
        yield


def print_rule(
    name: str, sets: Sequence[QuestionSet], before: Sequence[list[Reading]], after: Sequence[list[Reading]]
) -> None:
    """A line of the table: what changes without a rule, in all and in each set (better, worse)."""
    total: Counter[str] = Counter()
    cells = []
    for one, old, new in zip(sets, before, after, strict=True):
        own: Counter[str] = Counter()
        for a, b, golds in zip(old, new, one.golds, strict=True):
            own.update(guesses=a.guess != b.guess, answers=a.answer != b.answer, sentences=a.sentences != b.sentences)
            own.update(better=is_right(b, golds) > is_right(a, golds), worse=is_right(b, golds) < is_right(a, golds))
        total.update(own)
        cells.append(f"+{own['better']} -{own['worse']}" if own["better"] or own["worse"] else "")
    changed = f"{total['guesses']}, {total['answers']}, {total['sentences']}"
    print(f"| {name} | {changed} | +{total['better']} -{total['worse']} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
