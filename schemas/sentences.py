"""Sentences of a text as offsets (F-SENT).

Repairs no text and joins no lines. Source: algorithms.md 0.8 (F-SENT), abbreviations of reader.md.
Decided here: after an initial or an abbreviation that may stand last (`World War I.`, `the U.S.`, `Inc.`) a
function word shows that a new sentence begins.
"""

import re

from polyhop.schemas.names import STOP_WORDS

_ABBREVIATIONS = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "st", "no", "vs", "jr", "sr", "inc", "ltd", "co", "e.g", "i.e", "u.s", "col", "gen"),
        *("lt", "capt", "maj", "sgt", "gov", "sen", "rep", "prof", "rev", "hon", "ft", "mt", "c", "ca", "approx", "op"),
        *("vol", "ed", "etc", "cf", "al", "bros", "corp", "dept", "est", "fig"),
    )
)
_MAY_STAND_LAST = frozenset(("jr", "sr", "inc", "ltd", "co", "corp", "bros", "etc", "al", "est", "u.s", "c"))
_WORD = re.compile(r"[^\W_]{2,10}\b")
_BEFORE_WORD = re.compile(r"[\s(\[\"'“‘«,/–—-]")
# characters before a stop: above the six of `approx`, the longest of the list, and its border
_LONGEST_ABBREVIATION = 8
_STOP = re.compile(r"[.!?。！？؟]+[\"'”’»)\]]*\s*|\n[ \t\r\f\v]*\n\s*")
_OTHER_STOP = re.compile(r"[.!?。！？｡؟۔।]+[\"'”’»)\]」』》]*\s*|\n[ \t\r\f\v]*\n\s*")
"""Of other languages: the stops of Urdu and Hindi too, and the closing quotes of Chinese and Japanese."""
_ORDINAL = re.compile(r"(?<![\d.,])\d{1,2}\Z")
_FULL_WIDTH = frozenset("。！？｡")
_OPENING = frozenset("\"'“‘«(")


def split_sentences(text: str, *, is_english: bool = True) -> list[tuple[int, int]]:
    """(start, end) of each sentence of `text`, trimmed, never empty, in order.

    A sentence ends after `.`, `!` or `?` (closing quotes and brackets included) if whitespace and a capital, digit,
    quote or `(` follow and the word before is not an abbreviation; and at an empty line. Letters of scripts without
    case count as capitals, and the full-width stops of Chinese and Japanese need no whitespace.

    Args:
        text: Any text.
        is_english: Otherwise a number of one or two digits before a full stop is an ordinal (`am 3. Mai`), which ends
            no sentence, and more signs are stops.

    Source: algorithms.md 0.8 (F-SENT).
    Cost: O(characters), with or without full stops.
    """
    found = []
    start = 0
    for match in (_STOP if is_english else _OTHER_STOP).finditer(text):
        if not _ends(text, match) or (not is_english and _is_ordinal(text, match)):
            continue
        found.append(_trimmed(text, start, match.end()))
        start = match.end()
    found.append(_trimmed(text, start, len(text)))
    return [(first, last) for first, last in found if first < last]


def _ends(text: str, match: re.Match[str]) -> bool:
    stop = match[0]
    if stop[0] == "\n" or _has_empty_line(stop):
        return True
    if match.end() == len(text) or stop[0] in _FULL_WIDTH:
        return True
    if not stop[-1].isspace() or not _opens(text[match.end()]):
        return False
    return stop.rstrip() != "." or not _is_abbreviation(text, match.start(), match.end())


def _is_ordinal(text: str, match: re.Match[str]) -> bool:
    place = match.start()
    return (
        match[0].strip() == "." and match.end() < len(text) and bool(_ORDINAL.search(text[max(0, place - 4) : place]))
    )


def _has_empty_line(stop: str) -> bool:
    return stop.count("\n") > 1


def _opens(char: str) -> bool:
    return char in _OPENING or char.isdigit() or (char.isalpha() and not char.islower())


def _is_abbreviation(text: str, dot: int, after: int) -> bool:
    """Whether the word before `dot` is an abbreviation or single letters (`J`, `U.S`), so the sentence continues."""
    before = text[max(0, dot - _LONGEST_ABBREVIATION) : dot]
    word = _BEFORE_WORD.split(before)[-1].lower()
    initials = word not in _ABBREVIATIONS and all(len(part) == 1 and part.isalpha() for part in word.split("."))
    if initials or word in _MAY_STAND_LAST:
        follower = _WORD.match(text, after)
        return follower is None or follower[0].lower() not in STOP_WORDS
    return word in _ABBREVIATIONS


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    return start + left, start + max(left, len(piece.rstrip()))
