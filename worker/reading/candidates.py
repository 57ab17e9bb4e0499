"""Spans of a sentence that can answer a question of some type.

Scores nothing. Source: design/reader.md 6.2.
Decided here: at most `MOST_CANDIDATES` of a sentence, the first ones, so that a list of names stays cheap;
the full name that a page begins with (`Rory Elizabeth Katherine Kennedy`) is the question's `Rory Kennedy` again.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from schemas.names import FUNCTION_WORDS, name_tokens
from schemas.text import norm_answer
from schemas.values import find_dates
from worker.reading.countries import places_in
from worker.reading.pages import Page, PageSentence
from worker.reading.parsing import ANY, DATE, NATIONALITY, NUMBER, PERSON, PLACE, WORK, YEAR, ParsedQuestion
from worker.reading.word_lists import name_lists

DATED, YEARS, COUNTED, NAMED, JOINED, QUOTED, PEOPLE, PHRASE = "D", "Y", "#", "N", "C", "Q", "A", "P"
"""Kinds of candidates: dates, bare years, numbers, names, `City, State`, quotes, demonyms, lower-case phrases."""

MOST_CANDIDATES = 60
_COUNTRY_HEADS = frozenset(("country", "nation", "citizenship"))
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Aug|Sept?|Oct|Nov|Dec)\b\.?"
)
_DAY_AND_MONTH = re.compile(rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b)(?!,? \d)")
_QUOTE = re.compile(r"[\"“«]([^\"“”«»\n]{2,60})[\"”»]")
_OTHER_NAMES = frozenset(("name", "full", "real", "nickname", "known", "called"))
_LONGEST_PHRASE = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible answer; `start` and `end` are offsets within its sentence.

    `key` holds its folded lower-case words, `norm` its `norm_answer`.
    """

    kind: str
    answer: str
    key: str
    norm: str
    start: int
    end: int
    sentence: PageSentence
    page: Page

    @property
    def before(self) -> str:
        """The sentence up to the candidate."""
        return self.sentence.text[: self.start]


Span = tuple[str, str, int, int]
"""Kind, answer, start and end within the sentence."""


def find_candidates(question: ParsedQuestion, page: Page) -> list[Candidate]:
    """Candidates of a passage, sentence by sentence, without those that the question names itself.

    Source: design/reader.md 6.2. Cost: O(characters of the page).
    """
    asked = f" {norm_answer(question.text)} "
    words = frozenset(question.words)
    subject = _named_subject(question, page)
    found = []
    for sentence in page.sentences:
        kept = 0
        for kind, answer, start, end in _spans(question, sentence):
            if kept == MOST_CANDIDATES:
                break
            norm = norm_answer(answer)
            tokens = name_tokens(answer)
            repeats = kind in (NAMED, JOINED, QUOTED) and words.issuperset(tokens)
            repeats = repeats or (start == 0 and subject.issubset(tokens) and sentence.number == 0)
            if norm and tokens and f" {norm} " not in asked and not repeats:
                found.append(Candidate(kind, answer, " ".join(tokens), norm, start, end, sentence, page))
                kept += 1
    return found


def _named_subject(question: ParsedQuestion, page: Page) -> frozenset[str]:
    """Words of the page's title if the question names it and asks for no other name of it; else one that is nowhere."""
    key = page.title_keys[-1] if page.title_keys else ""
    if " " not in key or key not in question.name_keys or _OTHER_NAMES.intersection(question.words):
        return frozenset(("",))
    return frozenset(key.split())


def _spans(question: ParsedQuestion, sentence: PageSentence) -> Iterator[Span]:
    if question.expected in _BY_TYPE:
        yield from _BY_TYPE[question.expected](sentence)
        return
    yield from names(question, sentence)
    if question.expected in (PLACE, ANY):
        yield from joined_names(sentence)
    if question.expected in (ANY, WORK):
        yield from quotes(sentence)
    if question.expected == NATIONALITY or (question.expected == PLACE and _COUNTRY_HEADS.intersection(question.head)):
        yield from people(sentence, is_country=question.expected == PLACE)
    if question.expected == ANY:
        yield from phrases(sentence)


def dates(sentence: PageSentence) -> Iterator[Span]:
    """Full dates, months with a year, days with a month; years by themselves only without any of these."""
    found = find_dates(sentence.text)
    spans = [(one.start, one.end) for one in found if "-" in one.key]
    spans += [
        match.span()
        for match in _DAY_AND_MONTH.finditer(sentence.text)
        if all(match.end() <= one.start or match.start() >= one.end for one in found)
    ]
    for start, end in sorted(spans):
        yield DATED, sentence.text[start:end], start, end
    for one in found:
        if "-" not in one.key:
            yield DATED, one.surface, one.start, one.end


def years(sentence: PageSentence) -> Iterator[Span]:
    """Years, within dates too."""
    for one in find_dates(sentence.text):
        yield YEARS, sentence.text[one.end - 4 : one.end], one.end - 4, one.end


def numbers(sentence: PageSentence) -> Iterator[Span]:
    """Numbers in digits or words with their unit, outside dates; bare years are marked."""
    found = find_dates(sentence.text)
    for match in _number().finditer(sentence.text):
        date = next((one for one in found if match.start() < one.end and one.start < match.end()), None)
        if date is None:
            yield COUNTED, match[0], match.start(), match.end()
        elif "-" not in date.key and (date.start, date.end) == match.span():
            yield YEARS, match[0], match.start(), match.end()


_BY_TYPE: Mapping[str, Callable[[PageSentence], Iterator[Span]]] = {DATE: dates, YEAR: years, NUMBER: numbers}


@cache
def _number() -> re.Pattern[str]:
    lists = name_lists()
    digits = r"(?<![\w.,])[$£€]?\d+(?:,\d{3})*(?:\.\d+)?(?:st|nd|rd|th)?(?![\w])(?: ?%)?"
    words = rf"\b(?:{'|'.join(lists.number_words)})\b"
    scale = rf"(?:[ -](?:hundred|thousand|{'|'.join(lists.scales)})\b)?"
    unit = rf"(?: (?:{'|'.join(map(re.escape, lists.units))})\b)?"
    return re.compile(rf"(?:{digits}|{words}){scale}{unit}", re.IGNORECASE)


def names(question: ParsedQuestion, sentence: PageSentence) -> Iterator[Span]:
    """Capitalised runs outside dates; a person's without the role in front."""
    taken = find_dates(sentence.text)
    for mention in sentence.names:
        if any(mention.start < one.end and one.start < mention.end for one in taken):
            continue
        cut = name_lists().role_prefix.match(mention.surface) if question.expected == PERSON else None
        start = mention.start + (cut.end() if cut else 0)
        yield NAMED, sentence.text[start : mention.end], start, mention.end


def joined_names(sentence: PageSentence) -> Iterator[Span]:
    """Two runs joined by a comma: `Salem, Massachusetts`."""
    found = sentence.names
    for first, second in pairwise(found):
        if sentence.text[first.end : second.start] == ", ":
            yield JOINED, sentence.text[first.start : second.end], first.start, second.end


def quotes(sentence: PageSentence) -> Iterator[Span]:
    """What stands in quotation marks."""
    for match in _QUOTE.finditer(sentence.text):
        answer = match[1].strip(" ,.;")
        if answer:
            yield QUOTED, answer, match.start(1), match.end(1)


def people(sentence: PageSentence, *, is_country: bool) -> Iterator[Span]:
    """Demonyms, as they stand or as their country."""
    for place in places_in(sentence.text):
        if place.is_demonym:
            answer = place.country.title() if is_country else sentence.text[place.start : place.end]
            yield PEOPLE, answer, place.start, place.end


def phrases(sentence: PageSentence) -> Iterator[Span]:
    """Up to four lower-case words behind a link word (`is`, `a`, `of`…), until a function word."""
    links = name_lists().phrase_links
    words = sentence.words
    text = sentence.text
    for place, (start, end) in enumerate(words[:-1]):
        if text[start:end].lower() not in links:
            continue
        last = place
        for following in range(place + 1, min(len(words), place + 1 + _LONGEST_PHRASE)):
            first, stop = words[following]
            joined = text[words[following - 1][1] : first] in (" ", "-")
            if not joined or not text[first].islower() or text[first:stop] in FUNCTION_WORDS:
                break
            last = following
        if last > place:
            begin = words[place + 1][0]
            yield PHRASE, text[begin : words[last][1]], begin, words[last][1]
