"""Types of names by the other names of their page: lists, other names of its title, parts of a name of a person.

Changes rows that no surer cue has typed. Types by the words around a name are in schemas/type_cues.py.
Source: algorithms.md 0.8 (F-TYPE). Decided here: what counts as a list, and the confidences.
"""

import re
from collections.abc import Mapping, Sequence

from polyhop.schemas.graph import Mention
from polyhop.schemas.type_words import LOCATION, PERSON, PLACES
from polyhop.schemas.types import CUE, DEFINED, UNSHOWN, may_be_person
from polyhop.tasks.extraction.rows import Row

_LIST = re.compile(r"\s?,\s?(?:and\s|or\s|&\s)?|\s(?:and|or|&)\s")
_ALSO = re.compile(r"(?:\bknown as|\bcalled|\bborn|\bnamed|\bor|\bknown by|\btitled|\bas|^)[\s\"“'(]*$")
_SPREADS = frozenset((PERSON, LOCATION))
# confidences; chosen: a list proves less than a part of a name, and that less than `or X`
_LISTED, _PART, _SAME = 0.45, 0.5, 0.7
# least confidence at which a person's first and last names count as the person; chosen: twice that of a guess
_SURE = 0.6


def type_page(
    rows: Mapping[str, Row],
    text: str,
    title: Sequence[str],
    names: Sequence[Mention],
    sentences: Sequence[tuple[int, int]],
) -> None:
    """Types names of a page by its other names; changes `rows`.

    Args:
        rows: Rows of the page by key, typed by all other cues.
        text: The page's text.
        title: Key of its whole title; none if it has no key.
        names: Names in the text, in order.
        sentences: Ranges of its sentences.

    Cost: O(names + words of names).
    """
    outer = _outermost(names)
    if title and sentences:
        _type_other_names(rows, text, rows[title[0]], outer, sentences[0][1])
    _drop_persons(rows)  # before lists, which would spread them
    _type_lists(rows, text, outer)
    _drop_persons(rows)
    _type_parts(rows)


def _drop_persons(rows: Mapping[str, Row]) -> None:
    """Takes the type from dates, numbers, headers and terms that look like persons."""
    for key, row in rows.items():
        if row.type == PERSON and not may_be_person(row.surface, key, row.confidence or 0):
            row.type, row.confidence = None, UNSHOWN


def _outermost(names: Sequence[Mention]) -> list[Mention]:
    """Names that are no part of a longer one, in order."""
    outer: list[Mention] = []
    for mention in names:
        if outer and mention.start < outer[-1].end:
            if mention.end - mention.start > outer[-1].end - outer[-1].start:
                outer[-1] = mention
            continue
        outer.append(mention)
    return outer


def _type_other_names(rows: Mapping[str, Row], text: str, title: Row, names: Sequence[Mention], first_end: int) -> None:
    """Gives the title's type to what the first sentence begins with or says it is also called."""
    if title.type is None or (title.confidence or 0) < DEFINED:
        return
    for mention in names:
        if mention.start >= first_end:
            break
        if _ALSO.search(text[max(0, mention.start - 16) : mention.start]) and mention.key not in PLACES:
            _raise(rows[mention.key], title.type, _SAME)


def _type_lists(rows: Mapping[str, Row], text: str, names: Sequence[Mention]) -> None:
    """Gives names of a list the type of the surest among them."""
    begin = 0
    for place in range(1, len(names) + 1):
        if place < len(names) and _is_coordinated(text[names[place - 1].end : names[place].start]):
            continue
        if place - begin > 1:
            _spread_type([rows[mention.key] for mention in names[begin:place]])
        begin = place


def _spread_type(rows: Sequence[Row]) -> None:
    surest = max(rows, key=lambda row: row.confidence or 0)
    if surest.type in _SPREADS and (surest.confidence or 0) >= CUE:
        for row in rows:
            _raise(row, surest.type, _LISTED)


def _is_coordinated(gap: str) -> bool:
    return len(gap) <= 8 and _LIST.fullmatch(gap) is not None


def _type_parts(rows: Mapping[str, Row]) -> None:
    """Takes a single word for the person whose first or last name it is on this page."""
    parts: set[str] = set()
    for key, row in rows.items():
        words = key.split()
        if 1 < len(words) <= 4 and row.type == PERSON and (row.confidence or 0) >= _SURE:
            parts.update((words[0], words[-1]))
    for part in parts & rows.keys():
        _raise(rows[part], PERSON, _PART)
    _type_articles(rows)


def _type_articles(rows: Mapping[str, Row]) -> None:
    """Gives a name with an article the type of that without: The Hermes is what Hermes is."""
    for key, row in rows.items():
        bare = rows.get(key.removeprefix("the ")) if key.startswith("the ") else None
        if bare is not None and bare.confidence is not None:
            _raise(row, bare.type, bare.confidence)


def _raise(row: Row, kind: str | None, confidence: float) -> None:
    if not row.is_title and (row.confidence or 0) < confidence:
        row.type, row.confidence = kind, confidence
