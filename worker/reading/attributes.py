"""The date of one kind (birth, death, founding, opening…) that passages state of one thing, with its sentence.

A date counts only where a sentence says that kind of it of that thing: the thing is the verb's subject (or object:
`Sony released the Walkman`), the date follows the verb without another event between, or opens the clause. A range in
parentheses after a person's name is birth and death. Source: reader.md 6.4; lists/attributes.toml.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from polyhop.schemas.names import name_tokens
from polyhop.schemas.values import find_dates
from polyhop.worker.reading.clauses import (
    PRONOUNS,
    Phrase,
    Word,
    antecedent,
    is_passive,
    leading_subject,
    object_after,
    subject_of,
    words_of,
)
from polyhop.worker.reading.pages import Page, PageSentence
from polyhop.worker.reading.quantities import Dated, dated, in_parenthesis
from polyhop.worker.reading.subjects import is_named, is_subject
from polyhop.worker.reading.word_lists import DateAttribute, clause_lists

IsIt = Callable[[Sequence[Word], Phrase | None], bool]
"""Whether a noun phrase of a sentence (None: it could not be found) is the thing that is asked about."""

_LIFE = ("birth", "death")
_PARENTHESIS = re.compile(r"\(([^()]{0,240})\)")
_LIFE_SIGN = re.compile(r"[([;]")
_BORN = re.compile(r"\b(?:born|b\.)", re.IGNORECASE)
_SAID = re.compile(r"\b(?:is|was|are|were)\b")
_NO_LIFE = re.compile(
    r"\b(?:reign\w*|ruled|r\.|fl\.|active|film|album|song|novel|series|in office|founded|est\.)", re.IGNORECASE
)
_OPEN_LIFE = re.compile(r";\s*born\b(?=[^()]{0,40}\))")
_IS_A_YEAR = re.compile(r"\b(?:is|was|are|were)\s+(?:an?|the)\s+(?:[\w-]+\s+)?(?=[12]\d{3}\b)")
_YEAR_LENGTH = 4  # digits that `_IS_A_YEAR` sees but does not take
_AUXILIARY = re.compile(r"\b(?:was|were|is|are|had|has)\b")
_SUBJECTS = frozenset(("he", "she", "it", "they"))
_RUNNING = frozenset(("published", "ran", "existed"))
_TO = (" and ", "–", "-", " to ", " – ")
_MONTHS = frozenset(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"))
_SHORTEST_MONTH = 3  # letters, as in `_MONTHS`
_FAR = 90  # characters after the verb; reader.md 6.4, dates 2.
_FAR_IN_FRONT = 160  # characters before the verb; chosen: more than `_FAR`, since the subject stands between them
_FRONTED = re.compile(r"[,;]\s{1,3}(?:and |but )?(?:in|on|since)\s{1,3}$", re.IGNORECASE)
_FRONTED_FIRST = re.compile(r"(?:^|[,;]\s{1,3}(?:and |but )?)(?:in|on|since)\s{1,3}$", re.IGNORECASE)
_MOST_PARENTHESES = 6  # chosen: dates of a life stand in the first ones; bounds what a sentence of formulas costs
_LONGEST_NAME = 120  # characters before a parenthesis; chosen: longer than names, which end there


@dataclass(frozen=True, slots=True)
class Stated:
    """A date that a sentence of a page states; `date.start` is an offset within the sentence."""

    date: Dated
    sentence: PageSentence
    page: Page


def stated_date(name: str, own: Page | None, pages: Sequence[Page], kind: DateAttribute) -> Stated | None:
    """The date of a kind that a passage states of a thing: its own page first, then the others in ranked order.

    Args:
        name: The thing.
        own: Its own page, if there is one.
        pages: The context.
        kind: Which date is asked for.

    Cost: O(characters of the context).
    """
    if own is not None:
        found = _on_own_page(own, kind)
        if found is not None:
            return found
    keys = own.title_keys if own is not None else (" ".join(name_tokens(name)),)
    for page in pages:
        if page is not own and page.mentions(keys):
            for sentence in page.sentences:
                date = _elsewhere(sentence, keys, kind)
                if date is not None:
                    return Stated(date, sentence, page)
    return None


def stated_date_of_part(noun: str, page: Page, kind: DateAttribute) -> Stated | None:
    """The date of a kind that a page states of something of its subject's: `the NOUN of NAME`, `its NOUN`.

    Args:
        noun: The word for it, lower case.
        page: The page of NAME.
        kind: Which date is asked for.

    Cost: O(characters of the page).
    """

    def is_it(words: Sequence[Word], phrase: Phrase | None) -> bool:
        return phrase is not None and noun in {word.low for word in words[phrase.first : phrase.last + 1]}

    for sentence in page.sentences:
        date = next(_of_verbs(sentence.text, kind, is_it), None)
        if date is not None:
            return Stated(date, sentence, page)
    return None


def _on_own_page(page: Page, kind: DateAttribute) -> Stated | None:
    defining = next((one for one in page.sentences[:2] if _SAID.search(one.text)), None)
    for sentence in page.sentences:
        date = _of_page_subject(page, sentence, kind, is_defining=sentence is defining)
        if date is not None:
            return Stated(date, sentence, page)
    return None


def _of_page_subject(page: Page, sentence: PageSentence, kind: DateAttribute, *, is_defining: bool) -> Dated | None:
    """A date that a sentence states of the subject of its page."""
    if sentence.number == 0 and kind.name in _LIFE:
        date = _life_date(sentence.text, kind)
        if date is not None:
            return date
    is_it = partial(is_subject, page, sentence)
    date = next(_of_verbs(sentence.text, kind, is_it), None) or _of_nouns(sentence.text, kind, page)
    if date is None and is_defining and kind.name == "release":
        return _is_a_year(sentence.text)
    return date


def _elsewhere(sentence: PageSentence, keys: Sequence[str], kind: DateAttribute) -> Dated | None:
    """A date that a sentence of another page states of a thing by name."""
    if kind.name in _LIFE:
        date = _life_behind_name(sentence.text, keys, kind)
        if date is not None:
            return date

    def is_it(words: Sequence[Word], phrase: Phrase | None) -> bool:
        return phrase is not None and is_named(words, phrase, keys)

    return next(_of_verbs(sentence.text, kind, is_it), None)


def _of_verbs(text: str, kind: DateAttribute, is_it: IsIt) -> Iterator[Dated]:
    """Dates of the verbs of a kind that are said of the thing, left to right."""
    words = words_of(text)
    for number, word in enumerate(words):
        if word.low in kind.verbs or (kind.name == "founding" and word.low in _RUNNING):
            date = _said_of(text, words, number, kind, is_it)
            if date is not None:
                yield date


def _said_of(text: str, words: Sequence[Word], verb: int, kind: DateAttribute, is_it: IsIt) -> Dated | None:
    """The date that goes with one verb, None unless the verb is said of the thing."""
    word = words[verb]
    if word.low not in kind.verbs and not text.startswith((" from ", " since "), word.end):
        return None
    done_to = _object_of(words, verb)
    if done_to is None:
        is_said, limit = _is_said_of_subject(words, verb, kind, is_it), word.end
    else:
        is_said, limit = is_it(words, done_to), words[done_to.last].end
    if not is_said:
        return None
    return _date_behind(text, limit, kind) or _date_in_front(text, words, verb)


def _object_of(words: Sequence[Word], verb: int) -> Phrase | None:
    """The noun phrase right after an active verb, None if there is none or if it is a date."""
    if verb + 1 == len(words) or words[verb + 1].gap != " ":
        return None
    phrase = object_after(words, verb + 1)
    if phrase is None or _is_date_word(words[verb + 1]) or is_passive(words, verb):
        return None
    return phrase


def _is_said_of_subject(words: Sequence[Word], verb: int, kind: DateAttribute, is_it: IsIt) -> bool:
    """Whether the thing is the subject of a verb without an object, or what the subject's clause is about."""
    if _has_object(words, verb, kind):
        return False
    subject = subject_of(words, verb) if words[verb].low in kind.verbs or verb == 0 else leading_subject(words)
    return is_it(words, subject) or _is_antecedent(words, subject, is_it)


def _is_antecedent(words: Sequence[Word], subject: Phrase | None, is_it: IsIt) -> bool:
    """Whether the thing is what the relative clause of a subject is about (`a film that Ann released`)."""
    outer = None if subject is None else antecedent(words, subject)
    return outer is not None and is_it(words, outer)


def _has_object(words: Sequence[Word], verb: int, kind: DateAttribute) -> bool:
    """Whether an active verb is about something that follows without a determiner (`she published notes`)."""
    if verb + 1 == len(words) or verb == 0 or words[verb - 1].low not in _SUBJECTS or is_passive(words, verb):
        return False
    following = words[verb + 1]
    lists = clause_lists()
    is_free = following.low in lists.prepositions or following.low in lists.adverbs or following.low[0].isdigit()
    return following.gap == " " and not is_free and words[verb].low not in kind.intransitive


def _is_date_word(word: Word) -> bool:
    return word.low[:3] in _MONTHS and len(word.low) >= _SHORTEST_MONTH


def _date_behind(text: str, end: int, kind: DateAttribute) -> Dated | None:
    """The first date after a verb in its clause; of `between 1887 and 1889` the last where a thing was built."""
    reach = text[end : end + _FAR]
    found = find_dates(reach)
    if not found:
        return None
    between = reach[: found[0].start]
    if ";" in between or clause_lists().other_events.search(between):
        return None
    if between.strip() and not clause_lists().date_links.search(between):
        return None
    chosen = found[0]
    if kind.name == "building" and len(found) > 1 and reach[chosen.end : found[1].start] in _TO:
        chosen = found[1]
    return dated(chosen, end)


def _date_in_front(text: str, words: Sequence[Word], verb: int) -> Dated | None:
    """The date that a clause begins with: `In 1889 the tower opened`."""
    low = max(0, words[verb].start - _FAR_IN_FRONT)
    before = text[low : words[verb].start]
    found = find_dates(before)
    if not found or not (_FRONTED if low else _FRONTED_FIRST).search(before[: found[-1].start]):
        return None
    between = before[found[-1].end :]
    is_other = ";" in between or clause_lists().other_events.search(_AUXILIARY.sub(" ", between))
    return None if is_other else dated(found[-1], low)


def _of_nouns(text: str, kind: DateAttribute, page: Page) -> Dated | None:
    """The date of `its opening in 1889`, `dates its foundation to 1088`."""
    words = words_of(text)
    for number, word in enumerate(words):
        if word.low not in kind.nouns or number == 0 or words[number - 1].low not in PRONOUNS:
            continue
        if PRONOUNS[words[number - 1].low] == page.pronoun:
            date = _date_behind(text, word.end, kind)
            if date is not None:
                return date
    return None


def _life_date(text: str, kind: DateAttribute) -> Dated | None:
    """Birth or death from the parentheses of a person's first sentence, before anything else is said."""
    if not _LIFE_SIGN.search(text):
        return None
    for match in islice(_PARENTHESIS.finditer(text), _MOST_PARENTHESES):
        born, died = _life_in_parenthesis(text, match)
        if born or died:
            return born if kind.name == "birth" else died
    loose = _OPEN_LIFE.search(text)
    return _date_behind(text, loose.end(), kind) if loose and kind.name == "birth" else None


def _life_in_parenthesis(text: str, match: re.Match[str]) -> tuple[Dated | None, Dated | None]:
    """Birth and death from a parenthesis of a person's first sentence; a year alone is a birth only after `born`."""
    if _NO_LIFE.search(match[1]) or _SAID.search(_PARENTHESIS.sub(" ", text[: match.start()])):
        return None, None
    born, died = in_parenthesis(match[1], match.start(1))
    if born is not None and died is None and not _BORN.search(match[1]):
        return None, None
    return born, died


def _life_behind_name(text: str, keys: Sequence[str], kind: DateAttribute) -> Dated | None:
    """Birth or death from a parenthesis right after a person's name: `Ann Roe (1516 to 1560)` with a dash."""
    for match in _PARENTHESIS.finditer(text):
        if _NO_LIFE.search(match[1]) or not _ends_with_name(text, match.start(), keys):
            continue
        born, died = in_parenthesis(match[1], match.start(1))
        if (born and died) or _BORN.search(match[1]) or (died and not born):
            return born if kind.name == "birth" else died
    return None


def _ends_with_name(text: str, end: int, keys: Sequence[str]) -> bool:
    """Whether a text ends with one of some names at an offset."""
    before = " ".join(name_tokens(text[max(0, end - _LONGEST_NAME) : end]))
    return any(before == key or before.endswith(f" {key}") for key in keys)


def _is_a_year(text: str) -> Dated | None:
    """The date of `is a 1988 film`."""
    match = _IS_A_YEAR.search(text)
    if match is None:
        return None
    return next((dated(one) for one in find_dates(text) if one.end == match.end() + _YEAR_LENGTH), None)
