"""A question taken apart: wh-word, head noun, expected type and names.

Source: reader.md. Decided here: `whose` wants any type; words in -ed and -ly are not head nouns either; of a question
of several sentences the one with the wh-word counts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import STOP_WORDS, stem_tokens
from polyhop.schemas.names import name_tokens
from polyhop.schemas.text import fold
from polyhop.worker.reading.word_lists import words

DATE, YEAR, NUMBER, YES_NO, ANY = "DATE", "YEAR", "NUM", "YES-NO", "ANY"

_WH = frozenset(("who", "whom", "whose", "what", "which", "when", "where", "how", "why"))
_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_POSSESSIVE = re.compile(r"['’]s?$")
_NAME_OF = re.compile(r"(?:name|term|title)s? of (?:the |an? )?", re.IGNORECASE)
_ARTICLES = frozenset(("a", "an", "the"))
_MOST_HEAD_WORDS = 6  # reader.md, Parsing a question.


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a question: folded lower-case form, begin and end in the text."""

    low: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question with the constraints that it puts on its answer."""

    text: str  # The question.
    wh: str  # Its wh-word, "" if it has none.
    head: tuple[str, ...]  # Words of the head noun, lower case, the head last; () if there is none.
    expected: str  # Type of the answer.
    names: tuple[Mention, ...]  # Its names, longest first wherever two overlap, left to right.
    words: tuple[str, ...]  # Its lower-case words.


@lru_cache(maxsize=1 << 15)
def stem_of(word: str) -> str:
    """Stem of one word, "" for a stop word (ST1)."""
    stems = stem_tokens(word)
    return stems[0] if stems else ""


@lru_cache(maxsize=1 << 13)
def stems_of(text: str) -> frozenset[str]:
    """The stems of a text's content words."""
    return frozenset(stem for word in name_tokens(text) if (stem := stem_of(word)))


def parse_question(text: str, found: Sequence[Mention]) -> ParsedQuestion:
    """A question taken apart.

    Source: reader.md, Parsing a question. Cost: O(characters).
    """
    tokens = [Token(fold(match[0]).lower(), match.start(), match.end()) for match in _TOKEN.finditer(text)]
    # Names that do not overlap: the longest first, left to right. Cost: O(characters of all names).
    chosen: list[Mention] = []
    taken = bytearray(max((mention.end for mention in found), default=0))
    for mention in sorted(found, key=lambda m: (m.start - m.end, m.start)):
        if taken.find(1, mention.start, mention.end) < 0:
            taken[mention.start : mention.end] = b"\1" * (mention.end - mention.start)
            chosen.append(mention)
    names = sorted((_closed(text, mention) for mention in chosen), key=lambda m: m.start)
    wh_index = _wh_index(text, tokens)
    wh = "" if wh_index is None else tokens[wh_index].low
    head = _head(text, tokens, wh_index, names) if wh_index is not None and wh in ("what", "which") else ()
    return ParsedQuestion(
        text=text,
        wh=wh,
        head=head,
        expected=YES_NO if wh_index is None and _begins_yes_no(tokens) else _expected(wh, wh_index, head, tokens),
        names=tuple(names),
        words=tuple(name_tokens(text)),
    )


def _closed(text: str, mention: Mention) -> Mention:
    """A mention with the bracket that closes its last word."""
    if mention.surface.count("(") > mention.surface.count(")") and text.startswith(")", mention.end):
        return replace(mention, surface=text[mention.start : mention.end + 1], end=mention.end + 1)
    return mention


def _begins_yes_no(tokens: Sequence[Token]) -> bool:
    """Returns whether a question begins with an auxiliary and has no asking `what` or `which` later on."""
    auxiliaries = words("auxiliaries")
    if not tokens or tokens[0].low not in auxiliaries:
        return False
    pairs = zip(tokens, [*[token.low for token in tokens[1:]], ""], strict=True)
    return not any(token.low in ("what", "which") and following not in auxiliaries for token, following in pairs)


def _wh_index(text: str, tokens: Sequence[Token]) -> int | None:
    """Index of the wh-word that asks; None without one and in yes-no questions."""
    indices = [index for index, token in enumerate(tokens) if token.low in _WH or token.low == "among"]
    if indices and indices[0] < 3:
        return indices[0]
    if not indices or _begins_yes_no(tokens):
        return None
    # If the first one does not ask: one at the end, else one that begins a sentence, else the last `what` or `which`.
    for index in indices:
        if index >= len(tokens) - 2:
            return index
    for index in indices:
        # only the text between two words can end with a full stop, and all before would be read again for each word
        if text[tokens[index - 1].end : tokens[index].start].rstrip()[-1:] in (".", "?", "!"):
            return index
    return max(indices, key=lambda index: (tokens[index].low == "what", tokens[index].low == "which", index))


def _head(text: str, tokens: Sequence[Token], wh: int, names: Sequence[Mention]) -> tuple[str, ...]:
    # Where the noun after a wh-word begins: past auxiliaries, articles, `most recent` and `name of`.
    start = wh + 1
    while start < len(tokens) and (tokens[start].low in words("auxiliaries") or tokens[start].low in _ARTICLES):
        start += 1
    if [token.low for token in tokens[start : start + 2]] == ["most", "recent"]:
        start += 1
    skipped = _NAME_OF.match(text, tokens[start].start) if start < len(tokens) else None
    if skipped:
        start = next((n for n, token in enumerate(tokens) if token.start >= skipped.end()), len(tokens))
    head: list[str] = []
    for token, before in zip(tokens[start:], [None, *tokens[start:]], strict=False):
        is_name = any(name.start <= token.start < name.end for name in names)
        is_apart = before is not None and text[before.end : token.start].strip()
        # It ends before a verb, too, which may only be its first word.
        verbs = words("head_verbs") if head else ()
        groups = (STOP_WORDS, words("auxiliaries"), words("prepositions"), verbs)
        if len(head) == _MOST_HEAD_WORDS or is_name or is_apart or any(token.low in group for group in groups):
            break
        head.append(_POSSESSIVE.sub("", token.low))
    while len(head) > 1 and (head[-1] in words("head_verbs") or head[-1].endswith(("ed", "ly"))):
        head.pop()
    return tuple(head)


def _expected(wh: str, wh_index: int | None, head: tuple[str, ...], tokens: Sequence[Token]) -> str:
    if wh == "when":
        return DATE
    if wh == "how" and wh_index is not None:
        follower = tokens[wh_index + 1].low if wh_index + 1 < len(tokens) else ""
        return NUMBER if follower in words("measures") else ANY
    if not head:
        return ANY
    forms = {head[-1], head[-1].removesuffix("s"), head[-1].removesuffix("ies") + "y"}
    types = {
        YEAR: "year" in forms,
        DATE: head[-1] == "time" or forms & words("date_heads"),
        NUMBER: head[-2:] == ("area", "code") or words("number_heads") & {*forms, *head[-2:]},
    }
    return next((name for name, is_of_type in types.items() if is_of_type), ANY)
