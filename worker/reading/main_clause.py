"""The main clause of a question: its words without relative clauses, and without names that only say where to begin.

Knows no types and no passages. Source: reader.md 6.1.
Decided here: words after a cut relative clause belong to the main clause again; of a question of several sentences the
one with the wh-word counts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.schemas.graph import Mention
from polyhop.schemas.names import STOP_WORDS, name_tokens
from polyhop.schemas.sentences import split_sentences
from polyhop.worker.reading.word_lists import question_lists

POSSESSIVE = re.compile(r"['’]s?$")

_LATE = 4  # tokens; reader.md 6.1, wh late.
_REACH = 9  # tokens; reader.md 6.1, wh late.
_CLAUSE_STOP = re.compile(r"[,?;]")
_AND_VERB = re.compile(r" and (?:is|was|has) ")
_NOT_CONTENT = frozenset(("name", "called"))


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a question: folded lower-case form, begin and end in the text."""

    low: str
    start: int
    end: int


def main_words(text: str, tokens: Sequence[Token], wh: int | None, names: Sequence[Mention]) -> list[str]:
    """Content words of the main clause without the names that only say where to begin, in order.

    Args:
        text: The question.
        tokens: Its words.
        wh: Index of the word that asks, None without one.
        names: Its names, none overlapping another.

    Source: reader.md 6.1. Cost: O(characters).
    """
    begin = _sentence_of(text, tokens, wh)
    early = sum(begin <= token.start for token in tokens[:wh]) < _LATE
    spans = _without_relative_clauses(text, begin) if early else [(_late_clause(text, tokens, wh or 0), len(text))]
    dropped = [(name.start, name.end) for name in names if _is_dropped(text, name)]
    words = []
    for number in sorted(_begin_in(spans, tokens) - _begin_in(dropped, tokens)):
        words += [part for part in name_tokens(POSSESSIVE.sub("", tokens[number].low)) if part not in STOP_WORDS]
    content = [word for word in words if word not in _NOT_CONTENT]
    if content:
        return content
    return [word for word in name_tokens(text) if word not in STOP_WORDS]


def _begin_in(spans: Sequence[tuple[int, int]], tokens: Sequence[Token]) -> set[int]:
    """Numbers of the words that begin inside a span; the spans are in order and do not overlap."""
    found = set()
    span = 0
    for number, token in enumerate(tokens):
        while span < len(spans) and spans[span][1] <= token.start:
            span += 1
        if span < len(spans) and spans[span][0] <= token.start:
            found.add(number)
    return found


def _sentence_of(text: str, tokens: Sequence[Token], wh: int | None) -> int:
    """Where the sentence of the wh-word begins."""
    ends = [end for _, end in split_sentences(text[: tokens[wh].start])] if wh else []
    ended = [end for end in ends if text[end - 1] in ".?!"]
    return ended[-1] if ended else 0


def _late_clause(text: str, tokens: Sequence[Token], wh: int) -> int:
    """Where the clause of a late wh-word begins."""
    low = tokens[max(0, wh - _REACH)].start
    before = text[low : tokens[wh].start]
    begins = [before.rfind(",") + 1]
    begins += [match.end() for match in question_lists().relative_clause.finditer(before)]
    begins += [match.start() + 1 for match in _AND_VERB.finditer(before)]
    return low + max(begins)


def _without_relative_clauses(text: str, begin: int) -> list[tuple[int, int]]:
    """Spans of a question outside its relative clauses. Cost: O(characters), whatever the number of clauses."""
    lists = question_lists()
    spans = []
    free = begin
    sign, verbs = _Ahead(_CLAUSE_STOP, text), _Ahead(lists.clause_end, text)
    while True:
        clause = lists.relative_clause.search(text, free)
        if clause is None:
            spans.append((free, len(text)))
            return spans
        spans.append((free, clause.start()))
        stop, finished = sign.find(clause.end()), verbs.find(clause.end())
        free = min(stop.start() if stop else len(text), finished.end() if finished else len(text))


class _Ahead:
    """The next match of a pattern after ascending offsets: no character is searched twice."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self._pattern, self._text = pattern, text
        self._found = pattern.search(text)

    def find(self, start: int) -> re.Match[str] | None:
        """The first match that begins at `start` or later; each call's `start` is at least the last one's."""
        if self._found is not None and self._found.start() < start:
            self._found = self._pattern.search(self._text, start)
        return self._found


def _is_dropped(text: str, name: Mention) -> bool:
    if text[name.end : name.end + 2] in ("'s", "’s"):
        return True
    before = name_tokens(text[max(0, name.start - 24) : name.start])
    if before and before[-1] == "the":
        before.pop()
    return bool(before) and before[-1] in question_lists().name_links
