"""Things among which a question picks one by a superlative without naming them: `the latest film directed by NAME`.

They are the passages of the context whose own definition calls them that, and that say of the names in the question
what the question says. Compares nothing (comparisons.py does). Source: reader.md 6.4.
"""

import re
from collections.abc import Sequence

from polyhop.schemas.names import STOP_WORDS
from polyhop.schemas.type_words import HEADS, PERSON
from polyhop.schemas.types import title_type
from polyhop.worker.reading.options import Option, plain_words
from polyhop.worker.reading.pages import Page
from polyhop.worker.reading.parsing import ParsedQuestion, stem_of
from polyhop.worker.reading.word_lists import comparison_lists, date_attributes

_ASKING = ("what", "which")
_FIRST = r"(?:most recent|latest|newest|last|earliest|oldest|first)"
_BEFORE_NOUN = rf"\b{_FIRST} (?:[a-z-]+ ){{0,2}}"
_AT_END = re.compile(r"\b(?:first|last|earliest|latest|most recently)\s*\??\s*$", re.IGNORECASE)


def candidates_of(question: ParsedQuestion, pages: Sequence[Page]) -> list[Option]:
    """What a superlative may mean, in ranked order; none if the question has no superlative, no noun or no name.

    Args:
        question: The question.
        pages: The context.

    Cost: O(characters of the context).
    """
    if question.wh not in _ASKING or not question.names or not _has_superlative(question):
        return []
    kind, are_persons = question.head_stem, HEADS.get(question.head[-1]) == PERSON
    said = _stems_said(question)
    keys = [mention.key for mention in question.names]
    return [
        Option(page.passage.title, page, page.passage.title)
        for page in pages
        if kind in map(stem_of, page.kinds)
        and said <= page.stems
        and all(page.mentions((key,)) for key in keys)
        and question.name_keys.isdisjoint(page.title_keys)
        and _is_person(page) == are_persons
    ]


def _has_superlative(question: ParsedQuestion) -> bool:
    if not question.head:
        return False
    before = re.compile(rf"{_BEFORE_NOUN}{re.escape(question.head[-1])}\b", re.IGNORECASE)
    return bool(before.search(question.text) or _AT_END.search(question.text))


def _is_person(page: Page) -> bool:
    """A film director is no film, whatever the words of the definition."""
    return bool(page.title_keys) and title_type(page.passage.title, page.title_keys[0], page.lead)[0] == PERSON


def _stems_said(question: ParsedQuestion) -> frozenset[str]:
    """Stems of what the question says of the thing (`directed`), besides its kind, its names and when it was."""
    lists = comparison_lists()
    left_out = lists.larger | lists.smaller | lists.start_words | {question.head[-1], "most", "out"}
    left_out = left_out.union(*(kind.asked for kind in date_attributes().values()))
    words = plain_words(question) - left_out - STOP_WORDS
    return frozenset(stem for word in words if (stem := stem_of(word)))
