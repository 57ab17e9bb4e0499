"""Short answers as spans of the passages: windows to read, the scores of the span model, and the best answer.

Source: reader.md.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from polyhop.schemas.names import title_forms
from polyhop.schemas.ports import SpanLogits, SpanModel, Window
from polyhop.schemas.text import either_contains, norm_answer
from polyhop.worker.reading.comparisons import choices_of, options_of
from polyhop.worker.reading.pages import ParsedPassage, PassageSentence, Similarity
from polyhop.worker.reading.question import ParsedQuestion, stems_of

WINDOWS = (750, 600, 450, 300)
"""Characters that are read of the passages that are not reached, the best ranked first. Source: reader.md."""
REACHED_WINDOWS = (750, 750, 500)
"""Characters that are read of the passages that are; more do not fit into the model's input. Source: reader.md."""
_LEAD_WORTH = 0.3  # added to the first sentence of a passage that is reached, which says what it is about; chosen
_BRIDGING_PAGES = 8  # passages whose sentences may lead to another passage; chosen
_LEAST_BRIDGE = 0.1  # share of the question's words, by idf, that a bridging sentence says; as in training
_SHORTEST_TITLE = 3  # characters of a title that a sentence may name; as in training
_ENDS = 15  # first and last tokens that are combined; as in training
_LONGEST = 20  # tokens of an answer; as in training
_OFF_SUBJECT = 2.0  # taken off the logits of passages that say no name of the question; chosen
_REPEATED = 3  # words of the question in a row that no answer has; chosen
_SPANS = 10  # of a window; as in training
_SIGNS = " ,;:\"“”'’()[]"
_LAST_STOP = re.compile(r"(?<![A-Z])(?<!\b[A-Z]r)\.$")


@dataclass(frozen=True, slots=True)
class PassagePart:
    """Consecutive sentences of a passage, and the sentence of another passage that leads to it, if one does."""

    page: ParsedPassage
    sentences: Sequence[PassageSentence]
    bridge: str
    source: tuple[ParsedPassage, PassageSentence] | None  # Where the bridging sentence stands.

    @property
    def start(self) -> int:
        """Offset of its text in the passage."""
        return self.sentences[0].start

    @property
    def text(self) -> str:
        """Its text, as the passage has it."""
        return self.page.content.text[self.start : self.sentences[-1].end]


@dataclass(frozen=True, slots=True)
class Span:
    """A possible answer: `score` is its logit, `margin` how much it exceeds that of "no answer here"."""

    answer: str
    part: PassagePart
    sentence: PassageSentence
    score: float
    margin: float


@dataclass(frozen=True, slots=True)
class SpanAnswer:
    """The best answer, and its share of the probability of all spans."""

    best: Span
    share: float

    @property
    def features(self) -> tuple[float, float]:
        """The features of its confidence: the logarithm of its share, at least -9, and its margin."""
        return max(-9.0, log(max(self.share, 1e-9))), self.best.margin


def read_spans(
    question: ParsedQuestion,
    pages: Sequence[ParsedPassage],
    near: Collection[int],
    similar: Similarity,
    model: SpanModel,
) -> SpanAnswer | None:
    """The best answer in the first passages; None if no passage has a sentence, or all spans repeat the question.

    Args:
        question: The question.
        pages: The passages in ranked order.
        near: Ranks of those on the question's subject.
        similar: Weighs the question's words.
        model: Scores spans.

    Cost: one call of the model for each of at most seven windows.
    """
    parts = parts_of(question, pages, similar)
    windows = [Window(question.text, part.bridge, part.page.content.title, part.text) for part in parts]
    found = model.logits(windows)
    asked = "" if options_of(question) else f" {norm_answer(question.text)} "
    spans = [
        span
        for part, logits in zip(parts, found, strict=True)
        for span in _spans(part, logits, 0.0 if part.page.rank in near else _OFF_SUBJECT)
        if not _repeats(norm_answer(span.answer), asked)
    ]
    if choices := choices_of(question):
        spans = list(_as_options(spans, choices))
    if not spans:
        return None
    highest = max(span.score for span in spans)
    weights: dict[str, float] = {}
    for span in spans:
        key = norm_answer(span.answer)
        weights[key] = weights.get(key, 0.0) + exp(span.score - highest)
    absent = exp(min(50.0, float(np.mean([logits.absent for logits in found])) - highest))
    answer = max(weights, key=lambda key: round(weights[key], 9))
    best = min(
        (span for span in spans if norm_answer(span.answer) == answer),
        key=lambda span: (-round(span.score, 6), span.part.page.rank, span.sentence.start),
    )
    return SpanAnswer(best, weights[answer] / (sum(weights.values()) + absent))


def parts_of(question: ParsedQuestion, pages: Sequence[ParsedPassage], similar: Similarity) -> list[PassagePart]:
    """The parts of the first passages that say most of the question, with what leads to them.

    A passage is reached if the sentence that leads to it says more of the question than the passage itself.
    """
    stems = stems_of(question.text)
    plain, reached = iter(WINDOWS), iter(REACHED_WINDOWS)
    parts = []
    for page in pages[:_BRIDGING_PAGES]:
        if not page.sentences:
            continue
        source = _bridge(page, pages[:_BRIDGING_PAGES], question, stems, similar)
        bridge, rest, is_reached = "", stems, False
        if source is not None:
            other, sentence = source
            bridge = f"{other.content.title}: {sentence.text}"
            said = other.title_stems.union(sentence.word_indices)
            rest = stems - said
            own = page.title_stems.union(*(one.word_indices for one in page.sentences))
            is_reached = similar.share(stems, said) > similar.share(stems, own)
        characters = next(reached if is_reached else plain, 0)
        if not characters:
            continue
        worth = [
            similar.share(stems, frozenset(one.word_indices)) + similar.share(rest, frozenset(one.word_indices))
            for one in page.sentences
        ]
        worth[0] += _LEAD_WORTH if is_reached else 0.0
        begin, end = _best_run([len(one.text) + 1 for one in page.sentences], worth, characters)
        parts.append(PassagePart(page, page.sentences[begin:end], bridge, source))
    return parts


def _as_options(spans: Sequence[Span], options: Sequence[str]) -> Iterator[Span]:
    """The spans that name one of the options, in the question's words."""
    for span in spans:
        named = [option for option in options if either_contains(option, span.answer)]
        if len(named) == 1:
            yield replace(span, answer=named[0])


def _repeats(answer: str, asked: str) -> bool:
    """Returns whether an answer is a part of the question, or has three consecutive words of it."""
    words = answer.split()
    runs = [words, *(words[first : first + _REPEATED] for first in range(len(words) - _REPEATED + 1))]
    return any(f" {' '.join(run)} " in asked for run in runs)


def _bridge(
    page: ParsedPassage,
    pages: Sequence[ParsedPassage],
    question: ParsedQuestion,
    stems: Collection[str],
    similar: Similarity,
) -> tuple[ParsedPassage, PassageSentence] | None:
    """The sentence of another passage that names this one's title and says most of the question."""
    forms = title_forms(page.content.title)
    title = forms[0][1] if forms else ""
    if len(title) < _SHORTEST_TITLE or title.lower() in question.text.lower():
        return None
    pattern = re.compile(rf"(?<!\w){re.escape(title)}(?!\w)")
    best, found = _LEAST_BRIDGE, None
    for other in pages:
        if other is page or title not in other.content.text or other.content.text == page.content.text:
            continue
        for sentence in other.sentences:
            if title in sentence.text and pattern.search(sentence.text):
                share = similar.share(stems, other.title_stems.union(sentence.word_indices))
                if share > best:
                    best, found = share, (other, sentence)
    return found


def _best_run(lengths: Sequence[int], worth: Sequence[float], most: int) -> tuple[int, int]:
    """Begin and end of consecutive sentences of at most so many characters that are worth most, the longest of them."""
    best, found = -1.0, (0, 1)
    for begin in range(len(lengths)):
        length, value = 0, 0.0
        for end in range(begin, len(lengths)):
            length += lengths[end]
            if length > most and end > begin:
                break
            value += worth[end]
            if round(value, 9) > best or (round(value, 9) == best and end + 1 - begin > found[1] - found[0]):
                best, found = round(value, 9), (begin, end + 1)
    return found


def _spans(part: PassagePart, logits: SpanLogits, penalty: float) -> Iterator[Span]:
    """The best spans of a window, whole words without the signs around them; `penalty` lowers their logits."""
    text = part.text
    firsts, lasts = (_best_positions(scores) for scores in (logits.starts, logits.ends))
    pairs = sorted(
        (
            (-round(float(logits.starts[first] + logits.ends[last]), 6), first, last)
            for first in firsts
            for last in lasts
            if first <= last < first + _LONGEST
        ),
    )[:_SPANS]
    for negative, first, last in pairs:
        begin, end = logits.offsets[first][0], logits.offsets[last][1]
        while begin > 0 and text[begin - 1].isalnum() and text[begin].isalnum():
            begin -= 1
        while end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
            end += 1
        answer = _LAST_STOP.sub("", text[begin:end].strip(_SIGNS))
        start = part.start + begin
        sentence = next((one for one in part.sentences if start < one.end), part.sentences[-1])
        if norm_answer(answer):
            score = -negative - penalty
            yield Span(answer, part, sentence, score, score - logits.absent)


def _best_positions(scores: np.ndarray) -> list[int]:
    order = np.lexsort((np.arange(len(scores)), -scores))[:_ENDS]
    return [int(position) for position in order]
