"""Spans of a sentence that can answer a question of some type.

Scores nothing. Source: reader.md 6.2.
Decided here: at most `MOST_CANDIDATES` of a sentence, the first ones, so that a list of names stays cheap;
the full name that a page begins with (`Rory Elizabeth Katherine Kennedy`) is the question's `Rory Kennedy` again.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from polyhop.schemas.names import FUNCTION_WORDS, name_tokens
from polyhop.schemas.text import norm_answer
from polyhop.schemas.values import find_dates
from polyhop.worker.reading.clauses import PRONOUNS, leading_subject, words_of
from polyhop.worker.reading.countries import places_in
from polyhop.worker.reading.pages import Page, PageContent, PageSentence
from polyhop.worker.reading.parsing import ANY, DATE, NATIONALITY, NUMBER, PERSON, PLACE, WORK, YEAR, ParsedQuestion
from polyhop.worker.reading.subjects import is_subject
from polyhop.worker.reading.surroundings import Surroundings
from polyhop.worker.reading.word_lists import clause_lists, name_lists

DATED, YEARS, COUNTED, NAMED, JOINED, QUOTED, PEOPLE, PHRASE, SUBJECT = "D", "Y", "#", "N", "C", "Q", "A", "P", "S"
"""Kinds of candidates: dates, bare years, numbers, names, `City, State`, quotes, demonyms, lower-case phrases, and what
the page is about where a sentence begins with `he`, `the company` or a part of its name."""

MOST_CANDIDATES = 60  # see above; chosen: sentences other than lists have far fewer
_KEPT_SENTENCES = 10_000
"""Sentences whose spans are kept, once per type of answer: some 2,000 passages, as many as pages.py keeps."""
_COUNTRY_HEADS = frozenset(("country", "nation", "citizenship"))
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Aug|Sept?|Oct|Nov|Dec)\b\.?"
)
_DAY_AND_MONTH = re.compile(rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b)(?!,? \d)")
_QUOTE = re.compile(r"[\"“«]([^\"“”«»\n]{2,60})[\"”»]")
_OTHER_NAMES = frozenset(("name", "full", "real", "nickname", "known", "called"))
_LONGEST_PHRASE = 4  # words; reader.md 6.2, P.
_MOST_SUBJECTS = 30  # sentences of a page; chosen: half of those that are read (`MOST_SENTENCES` of pages.py)
_PARENTHESES = re.compile(r"\([^()]*\)")


class Candidate(NamedTuple):
    """A possible answer; `start` and `end` are offsets within its sentence.

    `key` holds its folded lower-case words, `norm` its `norm_answer`, `around` the text beside it.
    """

    kind: str
    answer: str
    key: str
    norm: str
    start: int
    end: int
    sentence: PageSentence
    page: Page
    around: Surroundings


Span = tuple[str, str, int, int]
"""Kind, answer, start and end within the sentence."""


class PreparedSpan(NamedTuple):
    """A span with what of its answer does not depend on the question: its words, folded and in lower case, and norm."""

    kind: str
    answer: str
    start: int
    end: int
    tokens: tuple[str, ...]
    key: str
    norm: str
    around: Surroundings


def find_candidates(question: ParsedQuestion, page: Page) -> list[Candidate]:
    """Candidates of a passage, sentence by sentence, without those that the question names itself.

    Source: reader.md 6.2. Cost: O(characters of the page).
    """
    asked = f" {norm_answer(question.text)} "
    words = frozenset(question.words)
    subject = _named_subject(question, page)
    found = []
    for sentence in page.sentences:
        kept = 0
        for kind, answer, start, end, tokens, key, norm, around in _spans_of(question, page, sentence):
            if kept == MOST_CANDIDATES:
                break
            repeats = kind in (NAMED, JOINED, QUOTED) and words.issuperset(tokens)
            repeats = repeats or (start == 0 and subject.issubset(tokens) and sentence.number == 0)
            if norm and tokens and f" {norm} " not in asked and not repeats:
                found.append(Candidate(kind, answer, key, norm, start, end, sentence, page, around))
                kept += 1
    return found


def _named_subject(question: ParsedQuestion, page: Page) -> frozenset[str]:
    """Words of the page's title if the question names it and asks for no other name of it; else one that is nowhere."""
    key = page.title_keys[-1] if page.title_keys else ""
    if " " not in key or key not in question.name_keys or _OTHER_NAMES.intersection(question.words):
        return frozenset(("",))
    return frozenset(key.split())


def _spans_of(question: ParsedQuestion, page: Page, sentence: PageSentence) -> Sequence[PreparedSpan]:
    """Candidates of a sentence; what it is about takes the place of a part of its name."""
    own = page_subject(question, page, sentence)
    asks_country = question.expected == PLACE and bool(_COUNTRY_HEADS.intersection(question.head))
    spans = _prepared_spans(sentence, question.expected, asks_country=asks_country)
    if own is None:
        return spans
    rest = (
        span
        for span in spans
        if span.kind != NAMED or span.start >= own.end or span.end <= own.start or not own.words.issuperset(span.tokens)
    )
    return [own.span, *rest]


@lru_cache(maxsize=_KEPT_SENTENCES)
def _prepared_spans(sentence: PageSentence, expected: str, *, asks_country: bool) -> Sequence[PreparedSpan]:
    """The spans of a sentence, which are the same for all questions that expect an answer of this type."""
    return [_prepared(sentence, span) for span in _spans(expected, sentence, asks_country=asks_country)]


def _prepared(sentence: PageSentence, span: Span) -> PreparedSpan:
    _, answer, start, end = span
    tokens = tuple(name_tokens(answer))
    around = Surroundings(sentence.text, start, end)
    return PreparedSpan(*span, tokens, " ".join(tokens), norm_answer(answer), around)


class PageSubject(NamedTuple):
    """The title of a page where a sentence begins with what the page is about: `said` is how the sentence puts it."""

    span: PreparedSpan
    words: frozenset[str]
    said: str

    @property
    def start(self) -> int:
        """Where the sentence's words for it begin."""
        return self.span.start

    @property
    def end(self) -> int:
        """Where they end."""
        return self.span.end


def page_subject(question: ParsedQuestion, page: Page, sentence: PageSentence) -> PageSubject | None:
    """The page's title where a sentence that says some of the question begins with what the page is about."""
    if question.expected in _BY_TYPE or question.expected == NATIONALITY or sentence.number >= _MOST_SUBJECTS:
        return None
    if question.weights.keys().isdisjoint(sentence.places):
        return None
    subject = _subject(page.content, sentence)
    return None if subject is None or subject.said in question.name_keys else subject


@lru_cache(maxsize=_KEPT_SENTENCES)
def _subject(page: PageContent, sentence: PageSentence) -> PageSubject | None:
    if sentence.number and not _may_begin(page, sentence):
        return None
    words = words_of(sentence.text)
    phrase = leading_subject(words)
    title = _PARENTHESES.sub(" ", page.title).strip()
    if phrase is None or not title or not is_subject(page, sentence, words, phrase):
        return None
    start, end = words[phrase.first].start, words[phrase.last].end
    span = _prepared(sentence, (SUBJECT, title, start, end))
    return PageSubject(span, frozenset(span.tokens), " ".join(name_tokens(sentence.text[start:end])))


def _may_begin(page: PageContent, sentence: PageSentence) -> bool:
    """Whether the first word can be one of what the page is about: no other name begins the sentence."""
    start, end = sentence.words[0] if sentence.words else (0, 0)
    low = sentence.text[start:end].lower()
    lists = clause_lists()
    if low in PRONOUNS or low in ("the", "this") or low in lists.prepositions or low in lists.adverbs:
        return True
    return any(low in key for key in page.title_keys)


def _spans(expected: str, sentence: PageSentence, *, asks_country: bool) -> Iterator[Span]:
    if expected in _BY_TYPE:
        yield from _BY_TYPE[expected](sentence)
        return
    yield from names(expected, sentence)
    if expected in (PLACE, ANY):
        yield from joined_names(sentence)
    if expected in (ANY, WORK):
        yield from quotes(sentence)
    if expected == NATIONALITY or asks_country:
        yield from people(sentence, is_country=expected == PLACE)
    if expected == ANY:
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


def names(expected: str, sentence: PageSentence) -> Iterator[Span]:
    """Capitalised runs outside dates; a person's without the role in front."""
    taken = find_dates(sentence.text)
    for mention in sentence.names:
        if any(mention.start < one.end and one.start < mention.end for one in taken):
            continue
        cut = name_lists().role_prefix.match(mention.surface) if expected == PERSON else None
        start = mention.start + (cut.end() if cut else 0)
        yield NAMED, sentence.text[start : mention.end], start, mention.end


def joined_names(sentence: PageSentence) -> Iterator[Span]:
    """Two runs joined by a comma: `Salem, Massachusetts`."""
    found = sentence.names
    for first, second in pairwise(found):
        if sentence.text[first.end : second.start] == ", ":
            yield JOINED, sentence.text[first.start : second.end], first.start, second.end


def quotes(sentence: PageSentence) -> Iterator[Span]:
    """What is in quotation marks."""
    for match in _QUOTE.finditer(sentence.text):
        answer = match[1].strip(" ,.;")
        if answer:
            yield QUOTED, answer, match.start(1), match.end(1)


def people(sentence: PageSentence, *, is_country: bool) -> Iterator[Span]:
    """Demonyms, as they stand or as their country."""
    for place in places_in(sentence.text):
        if is_country and not place.is_demonym and not place.state:
            yield NAMED, sentence.text[place.start : place.end], place.start, place.end
        if place.is_demonym:
            answer = place.country.title() if is_country else sentence.text[place.start : place.end]
            yield PEOPLE, answer, place.start, place.end


def phrases(sentence: PageSentence) -> Iterator[Span]:
    """Up to four lower-case words after a link word (`is`, `a`, `of`…), until a function word."""
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
