"""Which kinds of dates a question compares: births of persons, releases, openings and other beginnings of things.

Finds no dates; attributes.py does. Source: reader.md 6.4.
"""

from itertools import pairwise

from polyhop.worker.reading.options import plain_words, role_of, shared_role_of
from polyhop.worker.reading.parsing import ParsedQuestion
from polyhop.worker.reading.word_lists import DateAttribute, comparison_lists, date_attributes, event_of

_PERSONS = ("birth", "death")
_OLD_THINGS = ("release", "founding", "opening", "building", "launch")
"""What `older` compares of things, in this order: the first kind of date that is stated of both."""


def date_kinds(question: ParsedQuestion) -> list[DateAttribute]:
    """The kinds of dates that a question may compare: what it names, else what makes one thing older."""
    words, lists = plain_words(question), comparison_lists()
    kinds = date_attributes()
    named = [kind for kind in kinds.values() if words & kind.asked]
    is_of_persons = _is_of_persons(question)
    if words & lists.ages:
        return [kinds["birth"]] if is_of_persons else [kinds["birth"], *(kinds[name] for name in _OLD_THINGS)]
    if is_of_persons:
        return [kind for kind in named if kind.name in _PERSONS][:1]
    if named:
        return sorted(named, key=lambda kind: _first_place(question, kind))[:1]
    return _kinds_of_start(question)


def _is_of_persons(question: ParsedQuestion) -> bool:
    """Whether a question asks for a person, or names its things by a role (`the director of A`)."""
    if question.wh in ("who", "whom") or shared_role_of(question):
        return True
    return any(role_of(question, name) for name in question.names)


def _kinds_of_start(question: ParsedQuestion) -> list[DateAttribute]:
    """The events of the verbs beside `first` and the like, else what makes a thing older; none without such a word."""
    words, starts = plain_words(question), comparison_lists().start_words
    if not words & starts:
        return []
    beside: set[str] = set()
    for left, right in pairwise(question.words):
        if left in starts:
            beside.add(right)
        if right in starts:
            beside.add(left)
    verbs = sorted(word for word in words & beside if word.endswith("ed"))
    return [event_of(verb) for verb in verbs] or [date_attributes()[name] for name in _OLD_THINGS]


def _first_place(question: ParsedQuestion, kind: DateAttribute) -> int:
    return next((place for place, word in enumerate(question.words) if word in kind.asked), len(question.words))
