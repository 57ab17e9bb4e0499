"""Trains the network that tells whether two names with `and` between them are one (warehouse/name_judge.py).

Run after entity_types.py: uv run python weights/training/joined_names.py DATA WIKI [--states FILE] [--out FILE]
DATA: the folder of train.jsonl.gz. WIKI: corpus.jsonl.gz of 20,000 Wikipedia passages (weights/training/README.md).
--states: keeps the states of the word `and` of all examples (ten minutes on two cores) for the next run.
Adds its weights to FILE, prints its sha256, and measures it on benchmarks/data/joined_names.jsonl, whose names are left
out of training.

One name: marked names with `and`, names with `&` that is replaced by `and`, titles with `and` where their page repeats
them. Two names: marked names with `and` between them, and pairs of WIKI whose parts stand alone in two other passages
each, end longer names of their own page (`Parker and Stone`), or are persons in a list of a film's cast or of a family.
Source: decisions/0042-joined-names-and-types-by-examples.md.
"""

import argparse
import gzip
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))  # the product need not be installed

from polyhop.schemas.graph import Mention  # noqa: E402 - found by the line above
from polyhop.schemas.names import NameFinder  # noqa: E402
from polyhop.schemas.text import passage_text  # noqa: E402
from polyhop.warehouse.models.local_encoder import LocalEncoder, Span  # noqa: E402
from polyhop.warehouse.name_judge import HEADS_FILE, JOINED, joining_word  # noqa: E402
from weights.training.entity_types import SEED, SKIP, Floats, Text, read_texts, train  # noqa: E402

LABELS = PROJECT / "benchmarks" / "data" / "joined_names.jsonl"
HIDDEN = 64  # hidden units; none, 32 and 128 measured worse or no better on the labelled names
EPOCHS = 12  # chosen
MOST_TWO = 3000  # pairs of marked names; chosen, some three times as many as marked names with `and`
MOST_WIKI = 9000  # passages of WIKI that pairs are drawn from; chosen
MOST_PASSAGES = 1300  # passages of WIKI with such pairs; chosen, as many as there are names with `and`
AROUND = 250  # characters kept around an example of WIKI; chosen
NOT_MARKED = "btc"  # tweets, whose names are marked in part

_WORD = r"[A-Z][\w.'-]*"
_ONE = re.compile(rf"(?:The )?({_WORD}(?: {_WORD})*) and ({_WORD}(?: {_WORD})*)")
_AMPERSAND = re.compile(r"(?<!\w)[A-Z][\w.'-]+(?: [A-Z][\w'-]+){0,2} & [A-Z][\w'-]+(?: [A-Z][\w'-]+){0,2}(?!\w)")
_LISTS = re.compile(
    r"(?:starring|directed by|written by|produced by|stars|starred|sons?|daughters?|married|with) [^.]{0,120}\Z"
)
_OF_ONE = re.compile(r"\b(?:of|for|Department|Institute|School|College|Academy)\b")
_PARENTHESIS = re.compile(r" \(.*")


class Example(NamedTuple):
    """A text with the span of an `and` in it."""

    text: str
    word: Span
    is_one_name: bool


@dataclass(frozen=True)
class LabelledName:
    """Two names with `and` between them, in a sentence, as a person labelled them."""

    text: str
    name: str
    is_one_name: bool

    def example(self) -> Example:
        """The first occurrence of the name."""
        return _example(self.text, self.text.index(self.name), self.name, is_one_name=self.is_one_name)


def _example(text: str, start: int, name: str, *, is_one_name: bool) -> Example:
    word = text.index(" and ", start, start + len(name)) + 1
    return Example(text, (word, word + len("and")), is_one_name)


def labelled_names() -> list[LabelledName]:
    """The names to measure on."""
    rows = map(json.loads, LABELS.read_text(encoding="utf-8").splitlines())
    return [LabelledName(row["text"], row["name"], row["is_one_name"]) for row in rows]


def marked_examples(texts: Sequence[Text], left_out: set[str]) -> Iterator[Example]:
    """Examples of the training data for types."""
    for row in texts:
        spans = sorted(row.spans) if row.source != NOT_MARKED else []
        for start, end, kind in spans:
            name = row.text[start:end]
            joined = name.replace(" & ", " and ")
            match = _ONE.fullmatch(joined)
            if match and joined not in left_out and (kind != SKIP or joined != name):
                text = row.text[:start] + joined + row.text[end:]
                yield _example(text, start + match.start(1), match[0][match.start(1) :], is_one_name=True)
        for (start, end, _), (following, last, _) in pairwise(spans):
            name = row.text[start:last]
            is_pair = row.text[end:following] == " and " and name not in left_out
            if is_pair and row.text[start].isupper() and row.text[following].isupper():
                yield Example(row.text, (end + 1, end + 4), is_one_name=False)


def wiki_names(passages: Sequence[tuple[str, str]], left_out: set[str]) -> Iterator[Example]:
    """Names of WIKI that are one: with `&`, and titles."""
    for title, text in passages:
        for match in _AMPERSAND.finditer(text):
            joined = match[0].replace("&", "and")
            if joined not in left_out:
                changed = text[: match.start()] + joined + text[match.end() :]
                yield around(changed, match.start(), joined)
        name = _PARENTHESIS.sub("", title)
        if _ONE.fullmatch(name) and name not in left_out:
            for match in [*re.finditer(rf"{re.escape(name)}(?!\w)", text)][:2]:
                yield around(text, match.start(), name)


def around(text: str, start: int, name: str) -> Example:
    """A name with the text around it."""
    first = max(0, start - AROUND)
    return _example(text[first : start + len(name) + AROUND], start - first, name, is_one_name=True)


def wiki_pairs(passages: Sequence[tuple[str, str]], left_out: set[str]) -> Iterator[Example]:
    """Pairs of WIKI that are two names, at most those of `MOST_PASSAGES` passages."""
    finder, alone = NameFinder([]), Counter[str]()
    titles = {_PARENTHESIS.sub("", title).lower() for title, _ in passages}
    found = []
    for title, text in passages:
        mentions = finder.find(text)
        neighbours = pairwise(mentions)
        pairs = [(a, b) for a, b in neighbours if text[a.end : b.start] == " and "]
        paired = {mention for pair in pairs for mention in pair}
        alone.update({mention.key for mention in mentions if mention not in paired})
        ends = {mention.key.rpartition(" ")[2] for mention in mentions if " " in mention.key}
        found.append((title, text, pairs, ends))
    kept = []
    for title, text, pairs, ends in found:
        two = [(a, b) for a, b in pairs if {a.key, b.key} <= ends or are_two(text, a, b, alone)]
        two = [(a, b) for a, b in two if f"{a.key} and {b.key}" not in titles]
        two = [(a, b) for a, b in two if text[a.start : b.end] not in left_out]
        if two:
            kept.append((passage_text(title, text), len(passage_text(title, text)) - len(text), two))
    for text, shift, two in kept[:MOST_PASSAGES]:
        for a, _ in two:
            yield Example(text, (shift + a.end + 1, shift + a.end + 4), is_one_name=False)


def are_two(text: str, a: Mention, b: Mention, alone: Counter[str]) -> bool:
    """Returns whether the parts of a pair are names of their own."""
    if min(alone[a.key], alone[b.key]) > 1:
        return True
    is_list = _LISTS.search(text[max(0, a.start - 160) : a.start]) and not _OF_ONE.search(text[a.start : b.end])
    return " " in a.key and " " in b.key and is_list is not None


def features_of(examples: Sequence[Example]) -> tuple[Floats, np.ndarray]:
    """States of `and`, and classes, of the examples within the encoder's limit."""
    states = {}
    for encoded in LocalEncoder().encode_states([example.text for example in examples]):
        state = joining_word(encoded.tokens, [examples[encoded.number].word])
        if len(state):
            states[encoded.number] = state[0]
    numbers = sorted(states)
    classes = np.array([int(examples[number].is_one_name) for number in numbers])
    return np.array([states[number] for number in numbers], np.float32), classes


def read_passages(wiki: Path) -> list[tuple[str, str]]:
    """Titles and texts of a corpus, in an order drawn by lot."""
    with gzip.open(wiki, "rt", encoding="utf-8") as file:
        passages = [(row["title"], row["text"]) for row in map(json.loads, file)]
    random.Random(SEED).shuffle(passages)
    return passages


def training_rows(data: Path, wiki: Path, left_out: set[str]) -> tuple[Floats, np.ndarray]:
    """Features and classes of all examples."""
    marked, passages = [*marked_examples(read_texts(data), left_out)], read_passages(wiki)
    one = [example for example in marked if example.is_one_name]
    two = [example for example in marked if not example.is_one_name]
    random.Random(SEED).shuffle(two)
    examples = [*one, *wiki_names(passages, left_out), *two[:MOST_TWO], *wiki_pairs(passages[:MOST_WIKI], left_out)]
    print(f"{sum(e.is_one_name for e in examples)} names, {sum(not e.is_one_name for e in examples)} pairs", flush=True)
    return features_of(examples)


def main() -> None:
    """Trains, writes and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("wiki", type=Path)
    parser.add_argument("--states", type=Path, default=Path(tempfile.gettempdir()) / "polyhop-joined.npz")
    parser.add_argument("--out", type=Path, default=HEADS_FILE)
    options = parser.parse_args()
    labels = labelled_names()
    if not options.states.exists():
        features, classes = training_rows(options.data, options.wiki, {label.name for label in labels})
        np.savez(options.states, features=features.astype(np.float16), classes=classes)
    with np.load(options.states, allow_pickle=False) as arrays:
        features, classes = arrays["features"].astype(np.float32), arrays["classes"]
    model = train(
        features, classes, np.ones(len(classes), np.float32), count=2, hidden=HIDDEN, epochs=EPOCHS, rate=1e-3
    )
    with np.load(options.out, allow_pickle=False) as known:
        heads = {name: known[name] for name in known.files}
    heads |= dict(zip(("join_hidden", "join_hidden_bias", "join_out", "join_out_bias"), model.weights, strict=True))
    np.savez(options.out, **heads)
    print(f"{options.out}: sha256 {sha256(options.out.read_bytes()).hexdigest()}")
    test, are_one = features_of([label.example() for label in labels])
    joined = model.probabilities(test)[:, 1] >= JOINED
    for is_one, what in ((1, "one name"), (0, "two names")):
        print(f"{what}: {joined[are_one == is_one].sum()} of {(are_one == is_one).sum()} joined")


if __name__ == "__main__":
    main()
