"""Questions of the published sets and of the corpora, with negatives, and the passages that each is read with."""

import gzip
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bm25s
import numpy as np

from polyhop.schemas.names import NameFinder, split_sentences
from polyhop.schemas.text import norm_simple
from polyhop.worker.reading.comparisons import options_of
from polyhop.worker.reading.question import YES_NO, parse_question
from weights.training.reader_chains import TWO_HOPS, GeneratedQuestion, generate_questions, pages_of
from weights.training.reader_text import (
    Featurizer,
    TrainingPassage,
    TrainingQuestion,
    TrainingRow,
    WordWeights,
    bridging_sentence,
    content_words,
    grown_window,
    holds_any,
)

HOTPOTQA, NATURAL_QUESTIONS = "hotpotqa", "nq-open-oracle"
UNANSWERABLE, WINDOWED, MISLED = 0.10, 0.5, 0.15
"""Shares of groups: without an answer; in windows of sentences; of one hop, with a sentence that leads nowhere."""
DEV_CHAINS = 150  # chosen: an F1 within .08
CHAIN_SEED, DEV_SEED = 3, 17  # chosen: any


@dataclass(frozen=True, slots=True)
class Sources:
    """Files that the questions come from."""

    reader_training: Path
    corpora: tuple[Path, ...]
    held_out: tuple[Path, ...]  # question files of benchmarks, none of whose questions may be trained on


def sources_in(data: Path, project: Path) -> Sources:
    """The files in the folder of shared data and in the project."""
    held_out = [data / "wiki2" / "questions.jsonl", data / "musique100" / "questions.jsonl"]
    held_out += sorted((project / "benchmarks" / "data").rglob("*questions.jsonl"))
    return Sources(
        data / "reader_training" / "train.jsonl.gz",
        (data / "wiki2" / "corpus.jsonl", data / "wiki20k" / "corpus.jsonl.gz"),
        tuple(held_out),
    )


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Records of a JSON Lines file, compressed or not."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


class HeldOut:
    """Questions of benchmarks, to keep generated ones from asking the same."""

    def __init__(self, paths: Iterable[Path]) -> None:
        rows = [row for path in paths for row in read_lines(path)]
        self.folded = frozenset(norm_simple(row["question"]) for row in rows)
        self._by_answer = defaultdict[str, list[str]](list)
        for row in rows:
            for answer in (*row.get("answers", ()), *([row["answer"]] if isinstance(row.get("answer"), str) else ())):
                self._by_answer[norm_simple(answer)].append(f" {norm_simple(row['question'])} ")

    def asks_the_same(self, question: str, subject: str, answers: Sequence[str]) -> bool:
        """Returns whether a held-out question is equal, or names the subject and has one of the answers."""
        if norm_simple(question) in self.folded:
            return True
        named = f" {norm_simple(subject)} "
        return any(named in text for answer in answers for text in self._by_answer.get(norm_simple(answer), ()))


def published_questions(path: Path) -> tuple[list[TrainingQuestion], list[TrainingQuestion]]:
    """Training and dev questions of the published sets, without comparisons, yes and no."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in read_lines(path):
        groups.setdefault(row["group"], []).append(row)
    train, dev = list[TrainingQuestion](), list[TrainingQuestion]()
    for rows in groups.values():
        first = rows[0]
        passages = tuple(
            TrainingPassage(row["title"], row["text"], tuple((a, b) for a, b in row["spans"]), row.get("gold") is True)
            for row in rows
            if not row.get("skip")
        )
        if first["source"] == HOTPOTQA and is_computed(first["question"], [passage.title for passage in passages]):
            continue
        question = TrainingQuestion(first["question"], tuple(first["answers"]), first["source"], passages)
        (dev if first["split"] == "dev" else train).append(question)
    return train, dev


def is_computed(question: str, titles: Sequence[str]) -> bool:
    """Returns whether the product computes the answer: a choice between names, yes or no."""
    parsed = parse_question(question, NameFinder(titles).find(question))
    return parsed.expected == YES_NO or bool(options_of(parsed))


class PassageSearch:
    """BM25 over passages; finds those that share words with a question and hold no answer string."""

    def __init__(self, passages: Iterable[TrainingPassage]) -> None:
        self._passages = list({passage.text: replace(passage, spans=()) for passage in passages}.values())
        self._index = bm25s.BM25()
        words = [content_words(f"{passage.title} {passage.text}") or ["-"] for passage in self._passages]
        self._index.index(words, show_progress=False)

    def search(self, questions: Sequence[str], limit: int = 24) -> list[list[TrainingPassage]]:
        """The best passages of each question, equal scores in the order of the passages."""
        found = []
        for question in questions:
            scores = self._index.get_scores(content_words(question) or ["-"])
            best = np.argsort(-scores, kind="stable")[: min(limit, len(scores))]
            found.append([self._passages[number] for number in best])
        return found

    def with_negatives(self, questions: Sequence[TrainingQuestion], count: int = 8) -> list[TrainingQuestion]:
        """The questions, each with retrieved passages without its answer strings."""
        chosen = []
        for question, found in zip(questions, self.search([one.text for one in questions]), strict=True):
            known = {passage.text for passage in question.passages}
            negatives = [
                passage
                for passage in found
                if passage.text not in known and not holds_any(f"{passage.title} {passage.text}", question.answers)
            ]
            chosen.append(replace(question, negatives=tuple(negatives[:count])))
        return chosen


def with_retrieved_negatives(
    train: Sequence[TrainingQuestion], dev: Sequence[TrainingQuestion]
) -> tuple[list[TrainingQuestion], list[TrainingQuestion]]:
    """The questions, in the same order, with negatives from the passages of their own source."""
    questions = [*train, *dev]
    by_source = defaultdict[str, list[int]](list)
    for number, question in enumerate(questions):
        by_source[question.source].append(number)
    for numbers in by_source.values():
        own = [questions[number] for number in numbers]
        search = PassageSearch(passage for question in own for passage in question.passages)
        for number, question in zip(numbers, search.with_negatives(own), strict=True):
            questions[number] = question
    return questions[: len(train)], questions[len(train) :]


def corpus_questions(
    corpora: Sequence[Path], held_out: HeldOut, seed: int = CHAIN_SEED
) -> tuple[list[GeneratedQuestion], list[str]]:
    """Generated questions over the passages of corpora, and the texts of these passages."""
    passages = {row["text"]: row["title"] for path in corpora for row in read_lines(path)}
    search = PassageSearch(TrainingPassage(title, text) for text, title in passages.items())
    pages = pages_of((title, text) for text, title in passages.items())
    return generate_questions(pages, search.search, held_out.asks_the_same, seed=seed), list(passages)


def split_chains(
    generated: Sequence[GeneratedQuestion], count: int = DEV_CHAINS, seed: int = DEV_SEED
) -> tuple[list[TrainingQuestion], list[TrainingQuestion]]:
    """Training and dev questions whose pages differ: dev takes chains whose pages few others lead through."""
    uses = Counter(title for one in generated for title in one.titles)
    order = list(generated)
    random.Random(seed).shuffle(order)
    dev, titles = list[TrainingQuestion](), set[str]()
    for one in order:
        if len(dev) < count and len(one.relations) > 1 and all(uses[title] <= 12 for title in one.titles):
            if not titles & one.titles:
                dev.append(one.question)
            titles |= one.titles
    return [one.question for one in generated if not titles & one.titles], dev


class GroupBuilder:
    """Draws the passages that a question is read with, and turns them into input rows."""

    def __init__(self, featurizer: Featurizer, weights: WordWeights) -> None:
        self._features = featurizer
        self.weights = weights

    def rows(self, question: TrainingQuestion, rng: random.Random) -> tuple[TrainingRow, ...]:
        """Input rows of one group: two or three passages, or four windows of sentences."""
        is_windowed = rng.random() < WINDOWED
        is_answerable = rng.random() >= UNANSWERABLE
        count = 4 if is_windowed else 3 if question.source in (HOTPOTQA, TWO_HOPS) else 2
        if question.source in (HOTPOTQA, TWO_HOPS):
            chosen = self._several(question, rng, count, is_answerable=is_answerable)
        else:
            chosen = self._single(question, rng, count, is_answerable=is_answerable, is_windowed=is_windowed)
        if is_windowed:
            chosen = [(self._window(question, passage, rng), bridge) for passage, bridge in chosen]
        length = 128 if count != 3 else 160
        rng.shuffle(chosen)
        return tuple(
            self._features.row(question.text, bridge, self._titled(question, passage, rng), length, rng)
            for passage, bridge in chosen
        )

    def _several(
        self, question: TrainingQuestion, rng: random.Random, count: int, *, is_answerable: bool
    ) -> list[tuple[TrainingPassage, str]]:
        """Passages of a question over several, each with the bridging sentence that leads to it."""
        pool = list(question.passages)
        pool += [passage for passage in question.negatives if len(pool) < 10][: max(0, 10 - len(pool))]
        golds = [passage for passage in pool if passage.spans]
        rng.shuffle(golds)
        supports = [passage for passage in pool if not passage.spans and passage.is_supporting]
        words = set(content_words(question.text))

        def hardness(passage: TrainingPassage) -> float:
            shared = words.intersection(content_words(f"{passage.title} {passage.text}"))
            return -self.weights.total(shared) + rng.random() * 3

        rest = sorted((one for one in pool if not one.spans and not one.is_supporting), key=hardness)
        if is_answerable or not (supports or rest):
            kept = golds[: 1 if rng.random() < 0.8 else 2]
        else:
            kept = []
            pool = [passage for passage in pool if not passage.spans]
        rows = (kept + supports[: 1 if rng.random() < 0.8 else 2] + rest)[:count]
        return [(passage, bridging_sentence(question.text, pool, passage, self.weights)) for passage in rows]

    def _single(
        self, question: TrainingQuestion, rng: random.Random, count: int, *, is_answerable: bool, is_windowed: bool
    ) -> list[tuple[TrainingPassage, str]]:
        """The passage with the answer and retrieved ones without, or retrieved ones alone."""
        gold = rng.choice([passage for passage in question.passages if passage.spans])
        negatives = list(question.negatives)
        if len(negatives) > count:  # the best ones more often
            negatives = sorted(negatives, key=lambda passage: negatives.index(passage) + rng.random() * 4)
        if is_windowed and (rest := _without_answer(gold, question.answers)) is not None:
            negatives.insert(rng.choice((0, 0, 1)), rest)
        kept = [gold] if is_answerable or not negatives else []
        chosen = [(passage, "") for passage in (kept + negatives)[:count]]
        if rng.random() < MISLED and negatives:
            number = rng.randrange(len(chosen))
            other = rng.choice(negatives)
            start, end = rng.choice(split_sentences(other.text))
            sentence = other.text[start:end]
            if not holds_any(sentence, question.answers):
                chosen[number] = chosen[number][0], f"{other.title}: {sentence}" if other.title else sentence
        return chosen

    def _window(self, question: TrainingQuestion, passage: TrainingPassage, rng: random.Random) -> TrainingPassage:
        """Some sentences of a passage: around an answer, else around the one that says most of the question."""
        sentences = split_sentences(passage.text)
        if len(sentences) < 2:
            return passage
        characters = rng.randint(120, 380)
        if passage.spans:
            start, end = rng.choice(passage.spans)
            number = next((n for n, one in enumerate(sentences) if one[0] <= start and end <= one[1]), None)
            return passage if number is None else grown_window(passage, sentences, number, characters, rng)
        words = set(content_words(question.text))
        said = [self.weights.total(words.intersection(content_words(passage.text[a:b]))) for a, b in sentences]
        number = max(range(len(sentences)), key=lambda n: (said[n] + rng.random(), -n))
        return grown_window(passage, sentences, number, characters, rng)

    @staticmethod
    def _titled(question: TrainingQuestion, passage: TrainingPassage, rng: random.Random) -> TrainingPassage:
        """Without its title in three of ten cases of Natural Questions, whose titles say the answer too often."""
        if question.source == NATURAL_QUESTIONS and rng.random() < 0.3:
            return replace(passage, title="")
        return passage


def _without_answer(passage: TrainingPassage, answers: Sequence[str]) -> TrainingPassage | None:
    """The longest part of a passage whose sentences hold no answer string, None if none is long enough."""
    best, start, end = (0, 0), -1, -1
    for a, b in split_sentences(passage.text):
        if holds_any(passage.text[a:b], answers) or any(s < b and e > a for s, e in passage.spans):
            start = -1
            continue
        start, end = (a if start < 0 else start), b
        if end - start > best[1] - best[0]:
            best = start, end
    part = passage.text[best[0] : best[1]]
    return TrainingPassage(passage.title, part) if len(part) >= 60 else None
