"""The reader without a model: one span of the wanted type, and the sentences it was read from (F-READ).

Encodes nothing and ranks no passages. Source: algorithms.md 0.8 (F-READ).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum, log

from schemas.graph import Mention
from schemas.names import name_tokens, title_keys
from schemas.ports import NameFinding
from schemas.query import ContextPassage, Question, Reading, Sentence
from schemas.sentences import split_sentences
from schemas.stems import stem_tokens
from schemas.type_words import LOCATION, ORGANIZATION, PERSON
from schemas.types import mention_type, title_type
from schemas.values import find_dates, find_numbers

ANY, DATE, YEAR, NUMBER, PERSONAL, PLACE, YES_NO = "any", "date", "year", "number", "personal", "place", "yes-no"
_TYPES = {PERSONAL: frozenset({PERSON, ORGANIZATION}), PLACE: frozenset({LOCATION})}
_BY_WH_WORD = {"who": PERSONAL, "whom": PERSONAL, "where": PLACE, "when": DATE, "whose": ANY, "why": ANY}
_AUXILIARIES = frozenset({"is", "are", "was", "were", "did", "do", "does", "has"})
_ARTICLES = frozenset({"a", "an", "the"})

_ENTITY_BONUS = 0.1
_RANK_BONUS = 0.05
_K1, _B = 1.5, 0.75
_MOST_CITED = 3
_MOST_CHAINED = 64


def wanted_kind(question: str) -> str:
    """What a question asks for, by its first word if that is an auxiliary, else by its first wh-word.

    Source: algorithms.md 0.8 (F-READ). `what year` wants the year alone.
    """
    words = name_tokens(question)
    if words and words[0] in _AUXILIARIES:
        return YES_NO
    for word, following in zip(words, [*words, ""][1:], strict=True):
        if word in ("what", "which"):
            return YEAR if following == "year" else ANY
        if word == "how":
            return NUMBER if following in ("many", "much") else ANY
        if word in _BY_WH_WORD:
            return _BY_WH_WORD[word]
    return ANY


@dataclass(frozen=True, slots=True)
class _Line:
    """A sentence of the context: `place` is its passage's, `relevance` its BM25 share, `score` that with bonuses."""

    sentence: Sentence
    place: int
    mentions: tuple[Mention, ...]
    relevance: float
    score: float

    @property
    def order(self) -> tuple[float, int, int]:
        """Best first: by score, then earlier passage, then earlier offset."""
        return -self.score, self.place, self.sentence.start


class ExtractiveReader:
    """Reads a span of the wanted type from the sentence that resembles the question most.

    A sentence's score is its BM25 over stems, with the context's sentences as collection, divided by the context's
    largest; the specification allows this instead of a cosine, so nothing is encoded. A question with no content
    word, a context without a span of the wanted type, and a yes-no question without a name get the answer "".
    Each question is read by itself: the others in the batch change nothing.

    Source: algorithms.md 0.8 (F-READ). Cost: O(characters of the context) per question.
    """

    def __init__(self, finder: NameFinding) -> None:
        self._finder = finder

    def read(self, questions: Sequence[Question], contexts: Sequence[Sequence[ContextPassage]]) -> list[Reading]:
        """One Reading per question, in order."""
        return [self._read(question.text, context) for question, context in zip(questions, contexts, strict=True)]

    def _read(self, question: str, context: Sequence[ContextPassage]) -> Reading:
        stems = frozenset(stem_tokens(question))
        if not stems:
            return Reading("")
        entities = self._finder.find(question)
        lines = sorted(self._lines(stems, frozenset(entity.key for entity in entities), context), key=_in_order)
        kind = wanted_kind(question)
        if kind == YES_NO:
            return _yes_or_no(entities, lines, context)
        return _first_span(kind, question, lines, context)

    def _lines(
        self, stems: frozenset[str], entity_keys: frozenset[str], context: Sequence[ContextPassage]
    ) -> Iterator[_Line]:
        """Every sentence of the context with its score."""
        parts = [
            (place, passage, start, end, inside)
            for place, passage in enumerate(context)
            for start, end, inside in _sentences_with_mentions(passage.text, self._finder.find(passage.text))
        ]
        relevances = _relevances(stems, [stem_tokens(passage.text[start:end]) for _, passage, start, end, _ in parts])
        for (place, passage, start, end, mentions), relevance in zip(parts, relevances, strict=True):
            score = relevance + _RANK_BONUS / max(1, passage.rank)
            if any(mention.key in entity_keys for mention in mentions):
                score += _ENTITY_BONUS
            sentence = Sentence(passage.passage_id, passage.text[start:end], start, end)
            yield _Line(sentence, place, mentions, relevance, round(score, 12))


def _sentences_with_mentions(text: str, mentions: Sequence[Mention]) -> Iterator[tuple[int, int, tuple[Mention, ...]]]:
    """(start, end, mentions inside) of each sentence; a mention across an end belongs to none."""
    starts = [mention.start for mention in mentions]
    for start, end in split_sentences(text):
        begun = mentions[bisect_left(starts, start) : bisect_left(starts, end)]
        yield start, end, tuple(mention for mention in begun if mention.end <= end)


def _in_order(line: _Line) -> tuple[float, int, int]:
    return line.order


def _relevances(stems: frozenset[str], texts: Sequence[Sequence[str]]) -> list[float]:
    """BM25 of each text (k1 1.5, b .75), divided by the largest; all 0 if no text shares a stem with the question."""
    counts = [Counter(token for token in tokens if token in stems) for tokens in texts]
    held = Counter(stem for count in counts for stem in count)
    if not held:
        return [0.0] * len(texts)
    idf = {stem: log(1 + (len(texts) - held[stem] + 0.5) / (held[stem] + 0.5)) for stem in held}
    mean_length = sum(map(len, texts)) / len(texts)
    scores = []
    for tokens, count in zip(texts, counts, strict=True):
        damping = _K1 * (1 - _B + _B * len(tokens) / mean_length)
        scores.append(fsum(idf[stem] * tf * (_K1 + 1) / (tf + damping) for stem, tf in count.items()))
    largest = max(scores)
    return [score / largest for score in scores]


def _first_span(kind: str, question: str, lines: Sequence[_Line], context: Sequence[ContextPassage]) -> Reading:
    """The first span of the wanted kind in the best line that has one."""
    asked = _plain(question)
    own_types = _own_types(context) if kind in _TYPES else {}
    for line in lines:
        text = context[line.place].text
        for start, end in _spans(kind, line, text, own_types):
            plain = _plain(text[start:end])
            if plain.strip() and plain not in asked:
                return Reading(text[start:end], line.score, _cited([line], lines), "extracted")
    return Reading("")


def _plain(text: str) -> str:
    """Folded lower-case words without articles between blanks, so that `Confederation's` holds `Confederation`."""
    return f" {' '.join(word for word in name_tokens(text) if word not in _ARTICLES)} "


def _spans(kind: str, line: _Line, text: str, own_types: dict[str, str]) -> Iterable[tuple[int, int]]:
    """(start, end) in the passage's text by offset, the longer first; for `any` names come before dates and numbers."""
    if kind in _TYPES:
        found = [m for m in line.mentions if _type_of(m, text, own_types) in _TYPES[kind]]
        return sorted(((m.start, m.end) for m in found), key=_longer_first)
    offset, sentence = line.sentence.start, line.sentence.text
    dates = find_dates(sentence)
    if kind == YEAR:
        return [(offset + date.end - 4, offset + date.end) for date in dates]
    if kind == DATE:
        return [(offset + date.start, offset + date.end) for date in dates]
    numbers = find_numbers(sentence, dates)
    if kind == NUMBER:
        return [(offset + number.start, offset + number.end) for number in numbers]
    values = [(offset + value.start, offset + value.end) for value in (*dates, *numbers)]
    names = sorted(((m.start, m.end) for m in line.mentions), key=_longer_first)
    return [*names, *sorted(values)]


def _longer_first(span: tuple[int, int]) -> tuple[int, int]:
    return span[0], -span[1]


def _own_types(context: Sequence[ContextPassage]) -> dict[str, str]:
    """Type by key of what the context's passages are about; the better ranked passage decides."""
    types: dict[str, str] = {}
    for passage in context:
        for key in title_keys(passage.title):
            types.setdefault(key, title_type(passage.title, key, passage.text)[0])
    return types


def _type_of(mention: Mention, text: str, own_types: dict[str, str]) -> str:
    return own_types.get(mention.key) or mention_type(mention.key, text, mention.start, mention.end)[0]


def _yes_or_no(entities: Sequence[Mention], lines: Sequence[_Line], context: Sequence[ContextPassage]) -> Reading:
    """`yes` if one sentence, or two that share an entity, hold every entity of the question, else `no`.

    A passage's title counts as an entity of each of its sentences (algorithms.md 2B.1 c).
    """
    groups = _alternatives(entities)
    if not groups or not lines:
        return Reading("")
    titles = [frozenset(title_keys(passage.title)) for passage in context]
    known = [titles[line.place].union(mention.key for mention in line.mentions) for line in lines]
    chain = _chain(groups, known)
    found = [lines[number] for number in chain] or [lines[0]]
    return Reading("yes" if chain else "no", found[0].score, _cited(found, lines), "extracted")


def _alternatives(entities: Sequence[Mention]) -> list[set[str]]:
    """Keys of the names in a question; those that overlap (`beatles`, `the beatles`) are one name."""
    groups: list[set[str]] = []
    reach = -1
    for entity in sorted(entities, key=lambda mention: (mention.start, mention.end)):
        if entity.start >= reach:
            groups.append(set())
        groups[-1].add(entity.key)
        reach = max(reach, entity.end)
    return groups


def _chain(groups: Sequence[set[str]], known: Sequence[frozenset[str]]) -> list[int]:
    """Numbers of the one or two best lines that hold a key of every group; empty if there are none."""
    holds = [frozenset(n for n, group in enumerate(groups) if not group.isdisjoint(keys)) for keys in known]
    for number, held in enumerate(holds):
        if len(held) == len(groups):
            return [number]
    partial = [number for number, held in enumerate(holds) if held][:_MOST_CHAINED]
    for place, first in enumerate(partial):
        for second in partial[place + 1 :]:
            if len(holds[first] | holds[second]) == len(groups) and not known[first].isdisjoint(known[second]):
                return [first, second]
    return []


def _cited(found: Sequence[_Line], lines: Sequence[_Line]) -> tuple[Sentence, ...]:
    """The answer's sentences, then the best related sentence of each other first passage; three at most."""
    best: dict[int, _Line] = {}
    for line in lines:
        if line.relevance > 0:
            best.setdefault(line.place, line)
    cited = {line.place for line in found}
    others = [best[place].sentence for place in sorted(best) if place not in cited]
    return (*(line.sentence for line in found), *others)[:_MOST_CITED]
