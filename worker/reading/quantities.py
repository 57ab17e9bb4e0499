"""Values that texts state of things: dates of one kind, measures, and the options that a question compares.

A date counts only where a sentence says that kind of it of that thing: the thing is the verb's subject (or object:
`Sony released the Walkman`), the date follows the verb without another event between, or opens the clause. A range in
parentheses after a person's name is birth and death. Source: reader.md 6.4; lists/attributes.toml.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice, pairwise

from polyhop.schemas.graph import Mention
from polyhop.schemas.names import NameFinder, name_tokens
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
from polyhop.worker.reading.pages import Page, PageSentence, is_about, is_named, is_subject
from polyhop.worker.reading.question import ParsedQuestion
from polyhop.worker.reading.word_lists import (
    DateAttribute,
    Measure,
    clause_lists,
    comparison_lists,
    date_attributes,
    event_of,
    places_in,
)

# Source: reader.md 6.4. Decided here: what a question calls `the author of NAME` is followed from NAME's page to the
# author's as `the director of NAME` is, by the text that stands before a person with that role
# (lists/comparisons.toml).

_NEAR_OR = 12  # characters; reader.md 6.4, options.
_OR = re.compile(r"\bor\b", re.IGNORECASE)
# `between … and`, `of … and …,` on one line: from each line's beginning, the first such words are kept (`(?>…)`),
# because no later ones can match where the first do not; otherwise every pair of them would be tried
_PAIRED = re.compile(
    r"^(?>.*?\bbetween\b).+\band\b|^(?>.*?\bof )(?>.+? and ).+,"
    r"|\bof the two\b|\bwhich (?:was|is|came)\b|\bwho (?:is|was) (?:older|younger|first|born)\b",
    re.IGNORECASE | re.MULTILINE,
)
_SEPARATOR = re.compile(r"(?:,|,? (or|and)) (?:the )?")
_AMONG = re.compile(r"\b(?:of|among|between)(?: the)? $", re.IGNORECASE)
_ROLE_OF = re.compile(r"([a-z]+) of (?:the |both )?(?:[a-z]+ ){0,2}$", re.IGNORECASE)
_POSSESSIVE_ROLE = re.compile(r"['’]s? (\w+)")
_BORN_WORDS = re.compile(r"\bborn\b")
_NAME_GAP = 48  # characters; chosen: a role and the article before a name (`the screenwriter of the film`), with room
_RUNS = NameFinder(())


@dataclass(frozen=True, slots=True)
class Option:
    """A thing that a question compares.

    Attributes:
        name: As the question writes it, or of the person whom it describes (`the author of …`).
        page: Its own page; the page of its director, author… if the question asks for that person's value.
        asked: The name in the question.
        via: Its own page, if `page` is another one.
    """

    name: str
    page: Page | None
    asked: str
    via: Page | None = None


def choice(question: ParsedQuestion) -> tuple[Mention, ...] | None:
    """The names that a question lets choose between, two or more; None if it does not."""
    series = _series(question)
    return series or _pair(question)


def _series(question: ParsedQuestion) -> tuple[Mention, ...] | None:
    """Three or more names in a row: `A, B or C`, and `of A, B and C` where the question compares."""
    names, text = question.names, question.text
    first = 0
    while first < len(names):
        last = first
        while last + 1 < len(names) and _SEPARATOR.fullmatch(text, names[last].end, names[last + 1].start):
            last += 1
        if last - first >= 2:
            sign = _SEPARATOR.fullmatch(text, names[last - 1].end, names[last].start)
            is_among = bool(_AMONG.search(text, 0, names[first].start)) and _compares(question)
            if sign and (sign[1] == "or" or (sign[1] == "and" and is_among)):
                return names[first : last + 1]
        first = last + 1
    return None


def _compares(question: ParsedQuestion) -> bool:
    lists = comparison_lists()
    return not (lists.larger | lists.smaller).isdisjoint(plain_words(question))


def _pair(question: ParsedQuestion) -> tuple[Mention, Mention] | None:
    names = question.names
    starts = [name.start for name in names]
    for sign in reversed(list(_OR.finditer(question.text))):
        after = bisect_left(starts, sign.end())
        last = names[after - 1] if after else None
        if last is None or last.end > sign.start() or after == len(names):
            continue
        chosen = _near(question, sign, last, names[after])
        if chosen is not None:
            return chosen
    if len(names) >= 2 and _compares(question) and _PAIRED.search(question.text):
        return names[0], names[1]
    return None


def lets_choose(question: ParsedQuestion) -> bool:
    """Whether a question names its alternatives (`A or B`), so that nothing else can answer it."""
    starts = [name.start for name in question.names]
    for sign in _OR.finditer(question.text):
        before = bisect_right(starts, sign.start())
        if not before or question.names[before - 1].end <= sign.start():
            return True
    return False


def _near(
    question: ParsedQuestion, sign: re.Match[str], before: Mention, behind: Mention
) -> tuple[Mention, Mention] | None:
    """The names beside an `or` if both are near; the one after it may be further away as `the ROLE of NAME`."""
    if sign.start() - before.end > _NEAR_OR:
        return None
    distance = behind.start - sign.end()
    is_choice = distance <= _NEAR_OR or (distance <= _NAME_GAP and role_of(question, behind) != "")
    return (before, behind) if is_choice else None


def plain_words(question: ParsedQuestion) -> frozenset[str]:
    """Words of a question outside its names."""
    ends = [0, *(name.end for name in question.names)]
    starts = [*(name.start for name in question.names), len(question.text)]
    outside = [question.text[end:start] for end, start in zip(ends, starts, strict=True)]
    return frozenset(name_tokens(" ".join(outside)))


def role_of(question: ParsedQuestion, name: Mention) -> str:
    """What the question calls somebody by this name (`the author of NAME`, `NAME's director`), "" if it does not."""
    roles = comparison_lists().roles
    behind = _POSSESSIVE_ROLE.match(question.text, name.end)
    if behind and behind[1].lower() in roles:
        return behind[1].lower()
    before = _ROLE_OF.search(question.text[max(0, name.start - _NAME_GAP) : name.start])
    return before[1].lower() if before and before[1].lower() in roles else ""


def own_page_of(name: str, pages: Sequence[Page]) -> Page | None:
    """The best ranked page with a name as one of its title's keys."""
    key = " ".join(name_tokens(name))
    return next((page for page in pages if key in page.title_keys), None)


def option_of(question: ParsedQuestion, name: Mention, pages: Sequence[Page], shared_role: str = "") -> Option:
    """A name of the question with the page to compare by."""
    own = own_page_of(name.surface, pages)
    role = role_of(question, name)
    if own is None or not (role or shared_role) or _BORN_WORDS.search(own.lead):
        return Option(name.surface, own, name.surface)
    person, page = follow(own, role or shared_role, pages)
    if page is None:
        return Option(name.surface, own, name.surface)
    return Option(person if role and not shared_role else name.surface, page, name.surface, own)


def shared_role_of(question: ParsedQuestion) -> str:
    """The role whose persons a question compares for all its options, "" if it compares the options themselves."""
    words = plain_words(question)
    described = {role_of(question, name) for name in question.names}
    if "director" in words and "director" not in described:
        return "director"
    plural = sorted(role for role in words & comparison_lists().roles.keys() if role.endswith("s"))
    return plural[0] if plural else ""


def follow(own: Page, role: str, pages: Sequence[Page]) -> tuple[str, Page | None]:
    """The person with a role for a page (`directed by NAME`), and that person's own page."""
    before = comparison_lists().roles[role]
    for match in before.finditer(own.text):
        reach = own.text[match.end() : match.end() + _NAME_GAP]
        for mention in _RUNS.find(reach + own.text[match.end() + _NAME_GAP : match.end() + 2 * _NAME_GAP]):
            if mention.start >= _NAME_GAP:
                break
            page = own_page_of(mention.surface, pages)
            if page is not None and page is not own:
                return mention.surface, page
            if not _is_demonym(mention.surface):
                break
    return "", None


def _is_demonym(name: str) -> bool:
    found = places_in(name)
    return bool(found) and (found[0].end - found[0].start) == len(name)


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


# Source: reader.md 6.4 and its golden cases; lists/attributes.toml. Decided here: years of three digits count inside
# a person's parenthesis only.

Day = tuple[int, int, int]

_BORN = re.compile(r"\b(?:born|b\.)", re.IGNORECASE)
_DIED = re.compile(r"\b(?:died|d\.|killed)", re.IGNORECASE)
_RANGE = re.compile(r"\s*[–—-]\s*")
_OLD_YEAR = re.compile(r"(?<![\w.,])[1-9]\d{2}(?![\w,]|\.\d)")
_NUMBER = r"(?<![\w.,])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?: (hundred|thousand|million|billion))?"
_SCALES = {"": 1.0, "hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_NEARLY = frozenset(("about", "around", "some", "nearly", "over", "approximately", "roughly", "almost", "up", "to"))
_REACH = 60  # characters before a number; chosen: the words of its measure stand in its clause
_VERBS = frozenset(("rises", "stands", "reaches", "covers", "measures", "employs", "employed", "has", "had"))
_OWN_PARTS = frozenset(("summit", "peak", "height", "length", "depth", "area", "population", "elevation", "altitude"))


@dataclass(frozen=True, slots=True)
class Dated:
    """A date of a text with the place it stands at."""

    day: Day
    start: int
    end: int


def dated(mention: Mention, offset: int = 0) -> Dated:
    """A date as `find_dates` found it, moved by `offset`."""
    parts = [int(part) for part in mention.key.removeprefix("date:").split("-")]
    year, month, day = [*parts, 0, 0][:3]
    return Dated((year, month, day), offset + mention.start, offset + mention.end)


def in_parenthesis(text: str, offset: int) -> tuple[Dated | None, Dated | None]:
    """Birth and death inside one parenthesis; a single date is a birth unless it says died or begins with a dash."""
    dates = [dated(mention, offset) for mention in find_dates(text)]
    if not dates:
        dates = [Dated((int(m[0]), 0, 0), offset + m.start(), offset + m.end()) for m in _OLD_YEAR.finditer(text)]
    if not dates:
        return None, None
    death = _DIED.search(text)
    if death and not _BORN.search(text):
        return (None, dates[-1]) if len(dates) == 1 else (dates[0], dates[-1])
    for first, second in pairwise(dates):
        between = text[first.end - offset : second.start - offset]
        if not between.strip() or _RANGE.search(between) or _DIED.search(between):
            return first, second
    return (None, dates[0]) if _RANGE.match(text) else (dates[0], None)


def order(first: Day, second: Day) -> int | None:
    """-1 if the first is earlier, 1 if it is later, None if what both say does not tell."""
    for one, other in zip(first, second, strict=True):
        if not one or not other:
            return None
        if one != other:
            return -1 if one < other else 1
    return None


def years_of(born: Day, died: Day) -> float:
    """How long somebody lived, in years; months and days count where both are known."""
    (y1, m1, d1), (y2, m2, d2) = born, died
    if not (m1 and m2):
        return float(y2 - y1)
    return y2 - y1 + (m2 - m1) / 12 + ((d2 - d1) / 372 if d1 and d2 else 0.0)


def written(day: Day) -> str:
    """A date as evidence shows it: `1946-01-20`, `1980-07`, `1981`."""
    year, month, number = day
    return f"{year}" + (f"-{month:02}" if month else "") + (f"-{number:02}" if number else "")


@dataclass(frozen=True, slots=True)
class Measured:
    """A measure in its base unit, as the sentence writes it."""

    value: float
    text: str
    sentence: PageSentence


def stated_measure(page: Page | None, kind: Measure) -> Measured | None:
    """The first measure of a kind that a page states of its subject. Cost: O(characters of the page)."""
    for sentence in page.sentences if page is not None else ():
        for match in _pattern(tuple(kind.units)).finditer(sentence.text):
            if page is not None and _is_said(page, sentence, match, kind):
                scale = _SCALES[(match[2] or "").lower()] * (kind.units[match[3]] if kind.units else 1.0)
                return Measured(float(match[1].replace(",", "")) * scale, match[0].strip(), sentence)
    return None


@cache
def _pattern(units: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(unit) for unit in sorted(units, key=len, reverse=True))
    return re.compile(_NUMBER + (rf"[ \u00a0-]?({names})\b" if units else ""))


def _is_said(page: Page, sentence: PageSentence, match: re.Match[str], kind: Measure) -> bool:
    before = sentence.text[max(0, match.start() - _REACH) : match.start()]
    if not kind.behind.match(sentence.text, match.end()) and not kind.before.search(before):
        return False
    words = words_of(sentence.text)
    number = next((n for n, word in enumerate(words) if word.end > match.start()), 0)
    while number > 0 and words[number - 1].low in _NEARLY:
        number -= 1
    if number > 0 and words[number - 1].low in ("of", "with"):
        return is_about(page, sentence)
    if number > 0 and words[number - 1].low in _VERBS:
        number -= 1
    # Whether the clause of a number is about the page's subject, or about its summit and the like.
    subject = subject_of(words, number)
    if subject is not None and words[subject.first].low in ("its", "the") and words[subject.last].low in _OWN_PARTS:
        return subject.last == subject.first + 1
    return is_subject(page, sentence, words, subject)


IsIt = Callable[[Sequence[Word], Phrase | None], bool]
"""Whether a noun phrase of a sentence (None: it could not be found) is the thing that is asked about."""

_LIFE = ("birth", "death")
_PARENTHESIS = re.compile(r"\(([^()]{0,240})\)")
_LIFE_SIGN = re.compile(r"[([;]")

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
        # The date of `is a 1988 film`.
        match = _IS_A_YEAR.search(sentence.text)
        if match is None:
            return None
        return next((dated(one) for one in find_dates(sentence.text) if one.end == match.end() + _YEAR_LENGTH), None)
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
