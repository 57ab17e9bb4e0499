"""Checks of a model's answer: its quotes, what they have to do with the question, and its options.

A quote holds if its passage has it word for word and it is about the question. Source: reader.md, Answers of a model.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.languages import analyser_of
from polyhop.schemas.names import split_sentences
from polyhop.schemas.ports import Encode, IndexReader
from polyhop.schemas.query import Citation, ContextPassage, Question, Sentence
from polyhop.schemas.text import norm_answer, passage_text
from polyhop.warehouse.artefacts import LANGUAGE, NAMES
from polyhop.worker.reading.comparisons import is_choice_between, options_of
from polyhop.worker.reading.question import parse_question

NOT_VERIFIED = "[not verified]"  # In a model's sentences, instead of the numbers of sources that do not hold.
RELATED = 1.5
"""Standard deviations that a quote's cosine with the question is above those of unrelated sentences, at least.

Measured by benchmarks/quotes.py: 94 % of the sentences of MuSiQue-100 that hold the answer are above it (bge 100 %), of
sentences of other passages 16 % (30 %). Source: reader.md, Answers of a model."""
_ALIKE = 6.0  # Standard deviations that count as 1; those of a quarter of the sentences that hold the answer.
_QUOTED_WORDS = 2  # Content words of a quote at least; chosen: one word of a page says nothing beyond its title.
_MOST = 0.95  # Confidence of an answer on which all checks agree, that of the surest computed one; chosen.
_VERDICTS = frozenset({"yes", "no", "both", "neither", "either"})
_UNRELATED = (
    "The kettle boiled while the children looked for their shoes.",
    "Snow fell all night and closed the road over the pass.",
    "The bakery sells rye bread on Fridays.",
    "A second coat of paint dries within four hours.",
    "Parliament met in the new building for the first time.",
    "The goalkeeper saved two penalties in the final.",
    "Bees store honey in cells of wax.",
    "The violinist tuned her instrument before the concert.",
    "Copper conducts electricity better than iron.",
    "Passengers must show their tickets at the gate.",
    "The surgeon closed the wound with six stitches.",
    "Wheat prices rose after the dry summer.",
    "The lighthouse stands on a rock south of the harbour.",
    "Her second novel sold a million copies.",
    "The committee approved the budget without debate.",
    "Volcanic ash covered the fields for weeks.",
    "The company moved its head office to the capital.",
    "A prime number has exactly two divisors.",
    "The king gave the town its charter.",
    "Foxes hunt at dusk and sleep during the day.",
    "The film was shot in black and white.",
    "Press the green button to start the pump.",
    "The river floods the meadows every spring.",
    "Students may borrow five books at a time.",
)
"""Sentences on many subjects: their cosines with a question are those of its encoder for what is unrelated."""


@dataclass(frozen=True, slots=True)
class HeldCitation:
    """A citation that holds: its quote below the title, its passage, and how much it is about the question (0 to 1)."""

    citation: Citation
    quote: str
    passage: str
    relevance: float


class AnswerChecks:
    """Checks of a model's answers from passages of an index.

    Args:
        index: The open version: names in questions, the language, and whether it has vectors of passages.
        encode: Encodes quotes as its vectors were; None: words are counted instead.
    """

    def __init__(self, index: IndexReader, encode: Encode | None = None) -> None:
        self._encode = encode if "vectors:passage" in index.artefacts else None
        self._names = index.artefact(NAMES)
        self._content_words = analyser_of("stems", index.artefact(LANGUAGE))

    def other_option(self, question: str, answer: str) -> str:
        """Sentence on the options of a question of which the answer is none; "" if it is one, or there are none."""
        parsed = parse_question(question, self._names.find(question))
        options = [option.surface for option in options_of(parsed)] if is_choice_between(parsed) else []
        if not options or norm_answer(answer) in _VERDICTS or any(_holds(answer, option) for option in options):
            return ""
        listed = " and ".join(f"'{option}'" for option in options)
        return f"The question lets choose between {listed}; the model's answer '{answer[:100]}' is none of them."

    def held(
        self, question: Question, answer: str, sources: Sequence[tuple[int, str]], seen: Sequence[ContextPassage]
    ) -> list[HeldCitation]:
        """The sources that hold, in order.

        Args:
            question: The question; it is encoded if it has no vector.
            answer: The short answer; a source without a quote is the first sentence of its passage with it.
            sources: Number of a passage (from 1) and quote ("": none) of each source.
            seen: The passages that the model was shown.
        """
        found = []
        for number, quote in sources:
            passage = seen[number - 1] if 1 <= number <= len(seen) else None
            if passage is None:
                continue
            sentence = _quoted(passage, quote) if quote.split() else _with_answer(passage, answer)
            if sentence is not None and len(self._content_words(sentence.text)) >= _QUOTED_WORDS:
                found.append((Citation(passage.passage_id, sentence, number=number), passage, sentence))
        texts = [passage_text(passage.title, sentence.text) for _, passage, sentence in found]
        relevances = self._relevances(question, texts) if texts else []
        return [
            HeldCitation(citation, text, passage.text, relevance)
            for (citation, passage, _), text, relevance in zip(found, texts, relevances, strict=True)
            if relevance > 0
        ]

    def _relevances(self, question: Question, texts: Sequence[str]) -> list[float]:
        """How much each text is about the question, 0 to 1; 0 is unrelated.

        By vectors: cosine above those of unrelated sentences. Without: share of the question's content words.
        """
        if self._encode is None:
            asked = set(self._content_words(question.text))
            return [len(asked.intersection(self._content_words(text))) / max(1, len(asked)) for text in texts]
        vector = self._encode([question.text])[0] if question.vector is None else question.vector
        above = deviations(vector, self._encode(texts, is_repeated=True), self._unrelated)
        return [min(1.0, value / _ALIKE) if value >= RELATED else 0.0 for value in above]

    @cached_property
    def _unrelated(self) -> NDArray[np.float32]:
        return unrelated_vectors(self._encode) if self._encode is not None else np.zeros((0, 0), np.float32)


def unrelated_vectors(encode: Encode) -> NDArray[np.float32]:
    """Vectors of the sentences that are about no question in particular."""
    return encode(_UNRELATED, is_repeated=True)


def deviations(
    question: NDArray[np.float32], texts: NDArray[np.float32], unrelated: NDArray[np.float32]
) -> list[float]:
    """Standard deviations that the cosine of each text with a question is above those of unrelated sentences."""
    vector = question.astype(np.float64)
    background = unrelated.astype(np.float64) @ vector
    above = (texts.astype(np.float64) @ vector - background.mean()) / max(float(background.std()), 1e-9)
    return [float(value) for value in above]


def confidence_of(answer: str, held: Sequence[HeldCitation], source_count: int, guess: str) -> float:
    """Confidence of a model's answer, 0 to .95, not calibrated; 0 if no source holds.

    Share of sources that hold, times the mean of: the relevance of the most relevant quote; whether the answer is in a
    quote (1) or only elsewhere in its passage (.5), unless it is yes or no; and whether the local reader's guess
    agrees, if it has one.
    """
    if not held or not answer:
        return 0.0
    parts = [max(one.relevance for one in held)]
    if norm_answer(answer) not in _VERDICTS:
        is_quoted = any(_contains(one.quote, answer) for one in held)
        parts.append(1.0 if is_quoted else 0.5 * any(_contains(one.passage, answer) for one in held))
    if guess:
        parts.append(float(_holds(answer, guess)))
    return round(min(_MOST, len(held) / max(source_count, len(held)) * fsum(parts) / len(parts)), 4)


_NUMBERS = r"\[\s*[0-9]{1,4}(?:\s*,\s*[0-9]{1,4})*\s*\]"


def with_held_numbers(text: str, numbers: Collection[int]) -> str:
    """A text with the numbers in brackets of sources that hold; where none of them holds, `NOT_VERIFIED`."""

    def bracket(match: re.Match[str]) -> str:
        found = [number for number in re.findall(r"[0-9]+", match[0]) if int(number) in numbers]
        return f"{match[1]}[{', '.join(found)}]" if found else ""

    def group(match: re.Match[str]) -> str:
        return re.sub(rf"(\s*){_NUMBERS}", bracket, match[0]) or f" {NOT_VERIFIED}"

    return re.sub(rf"(?:\s*{_NUMBERS})+", group, text)


def _quoted(passage: ContextPassage, quote: str) -> Sentence | None:
    """The quote in a passage, word for word except for whitespace; None if it is not there."""
    match = re.search(r"\s+".join(map(re.escape, quote.split())), passage.text)
    return None if match is None else Sentence(passage.passage_id, match.group(), match.start(), match.end())


def _with_answer(passage: ContextPassage, answer: str) -> Sentence | None:
    """The first sentence of a passage that has the answer; the first of all if its title has it."""
    spans = split_sentences(passage.text)
    holding = [span for span in spans if _contains(passage.text[slice(*span)], answer)]
    if not holding and _contains(passage.title, answer):
        holding = list(spans[:1])
    if not holding:
        return None
    start, end = holding[0]
    return Sentence(passage.passage_id, passage.text[start:end], start, end)


def _contains(text: str, answer: str) -> bool:
    """Returns whether a text has an answer as whole words."""
    return bool(words := norm_answer(answer)) and f" {words} " in f" {norm_answer(text)} "


def _holds(first: str, second: str) -> bool:
    """Returns whether one of two short answers has the other as whole words."""
    return _contains(first, second) or _contains(second, first)
