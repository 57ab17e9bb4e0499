"""Questions for one date or measure of one thing: `When did the author of NAME die?`, `How deep is NAME?`.

The value must be stated of that very thing, and each word of the question must be accounted for: the thing's name or
what its page calls it, a role that leads to it, or the word for the value. Otherwise nothing is computed, because the
question says more than was looked up. Source: reader.md 6.4.
"""

import re
from collections.abc import Iterator, Sequence

from polyhop.schemas.names import STOP_WORDS
from polyhop.schemas.query import ComparedValue
from polyhop.worker.reading.attributes import Stated, stated_date, stated_date_of_part
from polyhop.worker.reading.computed import Computed
from polyhop.worker.reading.options import Option, option_of, plain_words, role_of
from polyhop.worker.reading.pages import Page
from polyhop.worker.reading.parsing import DATE, YEAR, ParsedQuestion
from polyhop.worker.reading.quantities import stated_measure
from polyhop.worker.reading.word_lists import DateAttribute, date_attributes, event_of, measures

_PART_OF = re.compile(r"\bthe ([a-z]+) of (?:the )?$", re.IGNORECASE)
_FREE = frozenset(("year", "date", "day", "month", "exact", "did", "does", "was", "were", "is", "are", "has", "have"))
_LONGEST_TIME = frozenset(("take", "takes", "last", "lasts"))


def answer_directly(question: ParsedQuestion, pages: Sequence[Page]) -> Computed | None:
    """The one value that a question asks for, None unless it asks for nothing else and a sentence states it.

    Args:
        question: The question.
        pages: The context.

    Cost: O(characters of the context).
    """
    if len(question.names) != 1:
        return None
    name = question.names[0]
    option = option_of(question, name, pages)
    role = role_of(question, name)
    if role and option.via is None:
        return None
    words = plain_words(question) - STOP_WORDS - _FREE - {role, question.wh}
    if question.expected in (DATE, YEAR):
        return _date(question, option, words, pages)
    return _measure(option, words) if question.wh == "how" else None


def _date(question: ParsedQuestion, option: Option, words: frozenset[str], pages: Sequence[Page]) -> Computed | None:
    part = _part_of(question)
    own = option.page.kinds if option.page is not None else frozenset()
    for kind, rest in _kinds(words - {part}):
        if rest <= own:
            if part and part not in own:
                stated = None if option.page is None else stated_date_of_part(part, option.page, kind)
            else:
                stated = stated_date(option.name, option.page, pages, kind)
            if stated is not None:
                return Computed(_written(stated, question), kind.name, (_shown(option, stated),))
    return None


def _kinds(words: frozenset[str]) -> Iterator[tuple[DateAttribute, frozenset[str]]]:
    """The kinds of dates that words may ask for, with the words that are left; any verb is one of its own."""
    known = [kind for kind in date_attributes().values() if words & kind.asked]
    for kind in known:
        yield kind, words - kind.asked
    for word in () if known else sorted(words):
        yield event_of(word), words - {word}


def _part_of(question: ParsedQuestion) -> str:
    """The noun in `the NOUN of NAME`, "" without one."""
    before = _PART_OF.search(question.text[: question.names[0].start])
    return before[1].lower() if before and not role_of(question, question.names[0]) else ""


def _written(stated: Stated, question: ParsedQuestion) -> str:
    text = stated.sentence.text[stated.date.start : stated.date.end]
    return f"{stated.date.day[0]}" if question.expected == YEAR else text


def _shown(option: Option, stated: Stated) -> ComparedValue:
    text = stated.sentence.text[stated.date.start : stated.date.end]
    return ComparedValue(option.name, text, stated.page.cite(stated.sentence))


def _measure(option: Option, words: frozenset[str]) -> Computed | None:
    page = option.page
    if page is None or words & _LONGEST_TIME:
        return None
    for kind in measures().values():
        if words & kind.asked and words - kind.asked <= page.kinds | {"many", "much"}:
            found = stated_measure(page, kind)
            if found is not None:
                shown = ComparedValue(option.name, found.text, page.cite(found.sentence))
                return Computed(found.text, "measure", (shown,))
    return None
