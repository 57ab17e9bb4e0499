"""Text of the reader's inputs: passages, bridging sentences, windows and token features."""

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from polyhop.schemas.names import split_sentences
from polyhop.schemas.ports import Window
from polyhop.schemas.text import fold, without_last_parenthesis
from polyhop.warehouse.models.span_model import input_row

LEAST_BRIDGE = 0.1  # share of the question's idf that a bridging sentence holds; chosen
_WORD = re.compile(r"\w+")
_FUNCTION_WORDS = frozenset(
    (
        "a", "an", "the", "of", "in", "on", "at", "to", "for", "by", "with", "from", "and", "or", "is", "are", "was",
        "were", "be", "been", "has", "have", "had", "do", "does", "did", "who", "whom", "whose", "what", "which",
        "when", "where", "how", "why", "that", "this", "it", "its", "as", "his", "her", "their", "he", "she", "they",
    )
)  # fmt: skip

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TrainingPassage:
    """A passage of a question; `spans` are the [start, end) characters of answers in its text."""

    title: str
    text: str
    spans: tuple[Span, ...] = ()
    is_supporting: bool = False


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """A question with the passages that it is read with; the retrieved negatives hold no answer string."""

    text: str
    answers: tuple[str, ...]
    source: str
    passages: tuple[TrainingPassage, ...]
    negatives: tuple[TrainingPassage, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """Token features of one passage: its ids, the ends of segment 0 and of the passage's pieces, gold pieces."""

    ids: tuple[int, ...]
    segment: int  # tokens of segment 0
    first: int  # first piece of the passage's text
    last: int  # one behind its last piece
    offsets: tuple[Span, ...] = field(repr=False)
    gold: tuple[Span, ...] = ()  # first and last token of each answer, inclusive


def content_words(text: str) -> list[str]:
    """Lower-case words without function words."""
    return [word for word in _WORD.findall(text.lower()) if word not in _FUNCTION_WORDS]


def bare_title(title: str) -> str:
    """A title without its last parenthesis and without a trailing dash."""
    return without_last_parenthesis(title.strip(" -")).strip()


def holds_any(text: str, answers: Iterable[str]) -> bool:
    """Returns whether a text contains one of the answers as whole words, whatever their case and accents."""
    padded = " ".join(["", *_WORD.findall(fold(text).lower()), ""])
    keys = (" ".join(_WORD.findall(fold(answer).lower())) for answer in answers)
    return any(f" {key} " in padded for key in keys if key)


class WordWeights:
    """Inverse document frequencies of content words."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = Counter(word for text in texts for word in set(content_words(text)))
        self._top = math.log(len(texts) + 1)
        self._weights = {word: math.log((len(texts) + 1) / (count + 0.5)) for word, count in counts.items()}

    def __call__(self, word: str) -> float:
        """The weight of a word; a word of no text has the largest."""
        return self._weights.get(word, self._top)

    def total(self, words: Iterable[str]) -> float:
        """Sum over distinct words, in an order that does not depend on hashes."""
        return math.fsum(self(word) for word in set(words))


def bridging_sentence(
    question: str, passages: Sequence[TrainingPassage], passage: TrainingPassage, weights: WordWeights
) -> str:
    """`Title: sentence` of another passage that names this passage and says most of the question, "" if none does."""
    key = bare_title(passage.title)
    if len(key) < 3 or key.lower() in question.lower():
        return ""
    named = re.compile(rf"(?<!\w){re.escape(key)}(?!\w)")
    words = set(content_words(question))
    total = weights.total(words) or 1.0
    best, chosen = LEAST_BRIDGE, ""
    for other in passages:
        if other.text == passage.text or not named.search(other.text):
            continue
        for start, end in split_sentences(other.text):
            sentence = other.text[start:end]
            if named.search(sentence):
                share = weights.total(words.intersection(content_words(f"{other.title} {sentence}"))) / total
                if share > best:
                    best, chosen = share, f"{other.title}: {sentence}"
    return chosen


class Featurizer:
    """Turns a question and a passage into an input row; equal arguments give equal rows."""

    def __init__(self, tokenizer_file: Path) -> None:
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
        tokenizer.no_truncation()
        tokenizer.no_padding()

        @lru_cache(maxsize=1 << 16)
        def encode(text: str) -> tuple[tuple[int, ...], tuple[Span, ...]]:
            encoding = tokenizer.encode(text, add_special_tokens=False)
            return tuple(encoding.ids), tuple(encoding.offsets)

        self._encode = encode

    def count(self, text: str) -> int:
        """Word pieces of a text."""
        return len(self._encode(text)[0])

    def row(
        self, question: str, bridge: str, passage: TrainingPassage, length: int, rng: random.Random | None = None
    ) -> TrainingRow:
        """The input row of a passage, at most `length` tokens.

        Args:
            question: The question.
            bridge: Its bridging sentence, or "".
            passage: The passage, with its answers.
            length: Most tokens of the row.
            rng: Places the window in a longer passage, around an answer if there is one; None means its beginning.
        """
        gold = [
            pieces
            for pieces in (_pieces_of(self._encode(passage.text)[1], span) for span in passage.spans)
            if pieces is not None
        ]
        start = 0

        def begin(pieces: int, room: int) -> int:
            nonlocal start
            start = _window_start(pieces, room, gold, rng)
            return start

        row = input_row(self._encode, Window(question, bridge, passage.title, passage.text), length, begin)
        last = len(row.ids) - 1
        shift = row.first - start
        return TrainingRow(
            ids=row.ids,
            segment=row.segment,
            first=row.first,
            last=last,
            offsets=tuple(row.offsets),
            gold=tuple((a + shift, b + shift) for a, b in gold if a >= start and b + shift < last),
        )


def _pieces_of(offsets: Sequence[Span], span: Span) -> Span | None:
    """First and last piece of a span of characters."""
    first = next((number for number, piece in enumerate(offsets) if piece[1] > span[0]), None)
    last = next((number for number in range(len(offsets) - 1, -1, -1) if offsets[number][0] < span[1]), None)
    return (first, last) if first is not None and last is not None and first <= last else None


def _window_start(pieces: int, room: int, gold: Sequence[Span], rng: random.Random | None) -> int:
    if pieces <= room or rng is None:
        return 0
    if not gold:
        return rng.choice((0, rng.randint(0, pieces - room)))
    first, last = rng.choice(gold)
    lowest, highest = max(0, last - room + 1), min(first, pieces - room)
    return rng.randint(lowest, highest) if lowest <= highest else max(0, min(first, pieces - room))


def sentence_window(passage: TrainingPassage, start: int, end: int) -> TrainingPassage:
    """The part of a passage between two offsets, with the answers in it."""
    spans = tuple((a - start, b - start) for a, b in passage.spans if a >= start and b <= end)
    return replace(passage, text=passage.text[start:end], spans=spans)


def grown_window(
    passage: TrainingPassage, sentences: Sequence[Span], number: int, characters: int, rng: random.Random
) -> TrainingPassage:
    """A sentence with random neighbours before and after it, as far as they fit into so many characters."""
    low = high = number
    while True:
        sides = [
            side
            for side in ((low - 1, high), (low, high + 1))
            if side[0] >= 0 and side[1] < len(sentences) and sentences[side[1]][1] - sentences[side[0]][0] <= characters
        ]
        if not sides:
            return sentence_window(passage, sentences[low][0], sentences[high][1])
        low, high = rng.choice(sides)
