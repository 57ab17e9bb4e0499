"""Types that texts state: of a page's title by its parenthesis or first `is a …`, of dates and numbers by their form.

Types of other names are judged by context (warehouse/name_judge.py). Dates and numbers have keys that do not depend on
how they are written; they are literals, unlike names, never nodes of the passage-entity graph.
Source: algorithms.md 0.8 (F-NER, F-TYPE), 2B.1. Decided here: years are 1000 to 2100; numbers of more than 18 digits,
`one` and ordinals are left out.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from polyhop.schemas.graph import Mention
from polyhop.schemas.names import UNTYPED, UNTYPED_HEADS, name_tokens

# Source: algorithms.md 0.8 (F-TYPE), the lists of reader.md, and the commonest heads of `X is a …` in Wikipedia
# leads.

PERSON, ORGANIZATION, LOCATION, EVENT, WORK = "PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK"

_PERSON_HEADS = """
academic activist actor actress administrator admiral adventurer advocate ambassador anchor animator anthropologist
archaeologist archbishop architect aristocrat artist astronaut astronomer athlete attorney aunt author aviator banker
baron baroness barrister bassist biologist bishop botanist boxer boy broadcaster brother businessman businesswoman
cardinal cartoonist celebrity ceo chairman chancellor character chef chemist chief child choreographer cinematographer
clergyman co-founder coach collector comedian comic commander composer conductor congressman consort contestant
correspondent count countess courtier cousin creator cricketer criminal critic dancer daughter descendant designer
developer diplomat director dj doctor drummer duchess duke earl economist editor educator emperor empress engineer
entertainer entrepreneur essayist executive explorer farmer father father-in-law fighter figure filmmaker footballer
founder friend general geographer geologist girl goalkeeper god goddess governor granddaughter grandfather grandmother
grandson guitarist half-brother half-sister handballer heir heiress historian host hurler husband industrialist
inventor investor jockey journalist judge jurist killer king knight lady landowner lawyer leader lecturer librarian
linguist lord lyricist magnate maker man manager margrave marquess mathematician mayor mayor-elect medalist merchant
minister missionary model monarch monk mother mother-in-law murderer musician musicologist nephew niece noble nobleman
noblewoman novelist nun officer official outlaw owner painter parent partner patriarch peer performer person
personality pharaoh philanthropist philosopher photographer physician physicist pianist pilot pioneer pirate pitcher
planner player playwright poet politician pope prelate premier presenter president priest prince princess principal
producer professor prophet psychiatrist psychologist publisher quarterback queen rapper regent representative
researcher revolutionary rower rugby ruler sailor saint scholar scientist screenwriter sculptor secretary senator
servant sibling singer singer-songwriter sister skater skier socialite sociologist soldier solicitor son songwriter
soprano sorcerer spokesman sportscaster sprinter star statesman stepfather stepmother student sultan surgeon swimmer
teacher tenor theologian theorist trader translator twin uncle violinist viscount vocalist warrior widow wife winner
woman wrestler writer
"""
_ORGANIZATION_HEADS = """
academy administration agency airline airlines airways alliance army association authority band bank battalion board
brand brigade broadcaster bros brothers bureau business cabinet chain charity choir church club clubs co coalition
college command commission committee communications companies company confederation conference conglomerate
congregation congress consortium cooperative corp corporation council court department diocese division duo electric
ensemble enterprise enterprises entertainment factory faculty federation firm foods force forces foundation franchise
fund gang government group guild holdings hotels inc industries initiative institute institution label laboratories
laboratory league legislature library llc ltd manufacturer marines media ministry mission motors movement museum navy
network networks newspaper office operator orchestra order organisation organization parliament partnership party
pictures plc police politburo press productions publisher railroad railway railways records regiment registry resorts
retailer school schools senate service services society squad squadron startup stores studio studios subsidiary
symphony syndicate systems team technologies theatre trio troupe trust union unit universities university workshop
"""
_LOCATION_HEADS = """
abbey aerodrome airfield airport airstrip aqueduct archipelago area arena avenue barony base basin bay beach birthplace
borough boulevard bridge building caliphate canal canton cape capital castle cathedral cave cemetery center centre
chapel citadel cities city coast colony commonwealth commune community continent convent coral counties country county
creek crossing dam desert district duchy electorate empire estate estuary falls farm forest fort fortress garden
gardens glacier gorge gulf hall hamlet harbor harbour headquarters highway hill hills home hometown hospital hotel
house hundred inlet island islands isle isles junction khanate kingdom lagoon lake landmark lighthouse locality
location mall manor mansion margraviate metropolis monastery monument mosque mount mountain mountains municipality
nation neighborhood neighbourhood oasis oblast observatory ocean palace parish park parkway pass peak peninsula place
plain plateau plaza port prefecture principality priory prison province raion ranch range region republic reserve
reservoir resort ridge river road route ruins sea seaport seat settlement shire shrine site skyscraper square stadium
state states station strait street suburb sultanate summit synagogue temple territories territory tomb tower town
township tributary valley venue viaduct village volcano ward waterfall watershed waterway wilderness woods zoo
"""
_EVENT_HEADS = """
accord accords agreement battle bombing campaign ceremony championship championships competition conference conquest
contest convention coronation coup crisis crusade cup derby disaster earthquake election elections epidemic event
exhibition expedition fair famine festival final finals fire flood games holocaust hurricane incident invasion massacre
match meeting murder olympics operation pact pageant pandemic parade plot race raid rally rebellion referendum revolt
revolution riot riots rising season siege storm strike summit super-bowl tour tournament treaty trial uprising war wars
"""
_WORK_HEADS = """
album albums anime anthem ballad ballet biography book books cartoon collection comedy comic comics compilation
composition concerto diaries diary discography documentary drama encyclopedia ep epic episode essay film films game
hymn journal magazine manga manuscript mass memoir miniseries movie musical mystery newspaper novel novella opera
operetta painting play podcast poem program programme publication remake romance sculpture sequel serial series show
single sitcom sonata song songs sonnet soundtrack story symphony telenovela thriller track trilogy video waltz
"""

_TITLES_OF_PERSONS = """
abbess abbot actor actress admiral archbishop archduchess archduke baron baroness bishop brother caliph captain
cardinal chancellor colonel commander composer congressman count countess dame dauphin deacon director doctor dr
duchess duke earl elector electress emperor empress father general governor infanta infante judge justice king lady
landgrave landgravine lieutenant lord madame major margrave margravine marquess mayor minister miss mr mrs ms officer
pope premier president prince princess producer prof professor queen rabbi rapper representative rev reverend saint
secretary senator sergeant sheikh singer sir sultan tsar viscount writer
"""
TITLES_OF_PERSONS = frozenset(_TITLES_OF_PERSONS.split())  # Words before a person's name, or its first word.

HEADS: dict[str, str] = {
    **dict.fromkeys(_EVENT_HEADS.split(), EVENT),
    **dict.fromkeys(_WORK_HEADS.split(), WORK),
    **dict.fromkeys(_ORGANIZATION_HEADS.split(), ORGANIZATION),
    **dict.fromkeys(_LOCATION_HEADS.split(), LOCATION),
    **dict.fromkeys(_PERSON_HEADS.split(), PERSON),
}
"""Type by the head noun of a definition or of a title's parenthesis (`is an American film`, `(band)`).

A word in two lists has the type of the later one here.
"""


Typed = tuple[str | None, float]  # Type, None for none of the five, and confidence (0 to 1).

DEFINED = 0.9
"""Least confidence of a type that is stated rather than judged by context; a definition gives its title this one."""

_WORD_OR_STOP = re.compile(r"[^\W_]+(?:-[^\W_]+)*|[,.;:]")
_PARENTHESES = re.compile(r"\([^()]*\)")
_LIFE = re.compile(r"[^(]{0,80}\([^()]{0,120}?(?:\b(?:born|died|reigned|née)\b|\b(?:b|d|fl)\.|†)")
_DEFINITION = re.compile(r"\b(?:is|was|are|were)\s+(?:one\s+of\s+)?(?:a|an|the)\s+(.{1,200})", re.DOTALL)
_BARE_DEFINITION = re.compile(r"\b(?:is|was|are|were)\s+(?!(?:a|an|the)\s)(.{1,200})", re.DOTALL)
_STOPS = frozenset(
    (",", ".", ";", ":", "of", "in", "by", "from", "who", "whose", "which", "that", "for", "on", "to", "at", "with")
)
_PARTICIPLES = (
    "starring directed featuring written produced based set played located known called named born as during between "
    "under near over into after through when where while released published owned operated about situated created "
    "following including formed"
)
_STOPS_AFTER_HEAD = frozenset((",", *_PARTICIPLES.split()))
# chosen: a definition is in the first sentence; as many as the reader looks at (reader.md 6.3).
_LEAD_CHARACTERS = 400
_NO_TYPE = "no type"


def title_type(title: str, key: str, lead: str) -> Typed:
    """Type that a page states of its title, by the title's parenthesis or the first `is a …`; confidence 0 if neither.

    Source: algorithms.md 0.8 (F-TYPE); the definition in the first sentence is ours.
    """
    lead = lead[:_LEAD_CHARACTERS]
    plain = lead  # parentheses are blanked in it; two of them may be nested
    for _ in range(2):
        plain = _PARENTHESES.sub(lambda hit: " " * len(hit[0]), plain)
    said, defined = _type_in_parenthesis(title), _type_of_definition(key, plain, lead)
    if said and not (said[1] and defined):
        return said[0], 0.95
    if _LIFE.match(lead):
        return PERSON, DEFINED
    return defined or (None, 0.0)


def is_people_or_language(key: str) -> bool:
    """Returns whether a name is a demonym, a language, a faith or the like (`English`, `the French language`)."""
    words = key.removeprefix("the ").removesuffix(" language").split()
    return bool(words) and UNTYPED.issuperset(words)


def head_type(words: list[str]) -> Typed | None:
    """Type of the last head noun before a preposition, None if there is none; a comma ends only after a head."""
    kind = None
    for word in words:
        if word in _STOPS_AFTER_HEAD and not kind:
            continue
        if word in _STOPS or word in _STOPS_AFTER_HEAD:
            break
        singular = f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")
        head = HEADS.get(word) or HEADS.get(singular) or HEADS.get(word.rpartition("-")[2])
        kind = head or (_NO_TYPE if word in UNTYPED_HEADS else kind)
    return (None if kind == _NO_TYPE else kind, DEFINED) if kind else None


def _words(phrase: str) -> list[str]:
    """Lower-case words and signs of a phrase."""
    return _WORD_OR_STOP.findall(phrase.lower())


def _type_in_parenthesis(title: str) -> tuple[str | None, bool] | None:
    """Type, and whether its head has a capital: it may be the name of something else (`(Faerie Tale Theatre)`)."""
    if not title.endswith(")") or "(" not in title:
        return None
    inside = title[title.rindex("(") + 1 : -1]
    typed = head_type(_words(inside))
    return (typed[0], inside[:1].isupper()) if typed else None


def _type_of_definition(key: str, plain: str, lead: str) -> Typed | None:
    """By the head noun of the first `is a …` about `key`; without an article only persons are defined."""
    match = _DEFINITION.search(plain)
    if match is not None and _is_about(key, lead[: match.start()]):
        return head_type(_words(match[1]))
    match = _BARE_DEFINITION.search(plain)
    if match is None or not _is_about(key, lead[: match.start()]):
        return None
    typed = head_type(_words(match[1]))
    return typed if typed and typed[0] == PERSON else None


def _is_about(key: str, before: str) -> bool:
    return not set(key.split()).isdisjoint(name_tokens(before))


# Dates and numbers.

_MONTH_STARTS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_MONTH_NAME = re.compile(_MONTH, re.IGNORECASE)
_DAY = r"([0-9]{1,2})(?:st|nd|rd|th)?"
_YEAR = re.compile(r"(?<![\w.,$£€])(?:1[0-9]{3}|20[0-9]{2}|2100)(?!\w|[.,][0-9])")
_DAY_MONTH = re.compile(rf"\b(?:{_DAY} {{1,2}}(?:of )?)?{_MONTH},? {{1,2}}$")
_MONTH_DAY = re.compile(rf"\b{_MONTH} {{1,2}}{_DAY}(?:,| ,)? {{0,2}}$")
_BEFORE_YEAR = 24  # characters: the longest day and month that the patterns take, `22nd  of September.,  `, has 22

_NUMBER = re.compile(r"(?<![\w.,])[0-9][0-9,]*(?:\.[0-9]+)?(?!\w)")
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+")
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALE = re.compile(r"[ -](hundred|thousand|million|billion|trillion)\b", re.IGNORECASE)
_UNITS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen")
_TEENS = ("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {"one": 1}
_VALUES.update({word: value for value, word in enumerate((*_UNITS, *_TEENS), 2)})
_VALUES.update({word: 10 * value for value, word in enumerate(_TENS, 2)})
_NUMBER_WORD = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[- ](one|{'|'.join(_UNITS[:8])}))?|({'|'.join((*_UNITS, *_TEENS))}))\b", re.IGNORECASE
)
_MOST_DIGITS = 18  # characters; chosen: longer ones are identifiers more often than quantities


def find_dates(text: str) -> list[Mention]:
    """Years and dates: `1999`, `May 1999`, `2 May 1999`, `May 2, 1999`; keys `date:1999`, `date:1999-05-02`.

    Source: algorithms.md 0.8 (F-NER). Cost: O(characters).
    """
    found = []
    free = 0
    for match in _YEAR.finditer(text):
        low = max(free, match.start() - _BEFORE_YEAR)
        offset, rest = _month_and_day(text[low : match.start()])
        start = match.start() if offset is None else low + offset
        free = match.end()
        found.append(Mention(f"date:{match[0]}{rest}", text[start:free], start, free))
    return found


def _month_and_day(before: str) -> tuple[int | None, str]:
    """Offset of the month or day in front of a year, and `-MM` or `-MM-DD`."""
    match = _MONTH_DAY.search(before)
    if match and 1 <= int(match[2]) <= 31:
        return match.start(), f"-{month_number(match[1]):02}-{int(match[2]):02}"
    match = _DAY_MONTH.search(before)
    if match is None:
        return None, ""
    month = f"-{month_number(match[2]):02}"
    if match[1] and 1 <= int(match[1]) <= 31:
        return match.start(), f"{month}-{int(match[1]):02}"
    return match.start(2), month


def month_number(name: str) -> int:
    """1 to 12 for a month's name or its short form, else 0."""
    return _MONTH_STARTS.index(name[:3].lower()) + 1 if _MONTH_NAME.fullmatch(name) else 0


def find_numbers(text: str, dates: list[Mention] | None = None) -> list[Mention]:
    """Numbers in digits or words outside dates: `1,200`, `3.5 million`, `twenty-two`; keys `number:1200`.

    Source: algorithms.md 0.8 (F-NER). Cost: O(characters).
    """
    taken = iter(find_dates(text) if dates is None else dates)
    date = next(taken, None)
    found = []
    for match in _NUMBER.finditer(text):
        while date is not None and date.end <= match.start():
            date = next(taken, None)
        if date is None or match.end() <= date.start:
            surface = match[0].rstrip(",")
            whole, dot, fraction = surface.partition(".")
            if len(surface) <= _MOST_DIGITS and _GROUPED.fullmatch(whole):
                value = Decimal(whole.replace(",", "") + dot + fraction)
                found.append(_scaled(text, match.start(), match.start() + len(surface), value))
    for match in _NUMBER_WORD.finditer(text):
        value = Decimal(sum(_VALUES[word.lower()] for word in match.groups() if word))
        found.append(_scaled(text, *match.span(), value))
    return sorted(found, key=lambda mention: mention.start)


def _scaled(text: str, start: int, end: int, value: Decimal) -> Mention:
    scale = _SCALE.match(text, end)
    if scale:
        value *= _SCALES[scale[1].lower()]
        end = scale.end()
    plain = f"{value:f}"
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return Mention(f"number:{plain}", text[start:end], start, end)


_YEAR_DAYS = 365.25  # of the Julian calendar: a leap day every fourth year
SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0,
           "month": _YEAR_DAYS / 12 * 86400, "year": _YEAR_DAYS * 86400}  # fmt: skip
_FACTORS = {
    "length": {"mm": 0.001, "millimetre": 0.001, "cm": 0.01, "centimetre": 0.01, "m": 1.0, "metre": 1.0, "km": 1000.0,
               "kilometre": 1000.0, "inch": 0.0254, "foot": 0.3048, "ft": 0.3048, "yard": 0.9144, "mile": 1609.344,
               "mi": 1609.344},
    "area": {"km²": 1e6, "km2": 1e6, "sq km": 1e6, "square kilometre": 1e6, "m²": 1.0, "square metre": 1.0,
             "hectare": 1e4, "ha": 1e4, "acre": 4046.86, "square mile": 2.59e6, "sq mi": 2.59e6},
    "mass": {"mg": 1e-6, "milligram": 1e-6, "g": 0.001, "gram": 0.001, "kg": 1.0, "kilogram": 1.0, "tonne": 1000.0},
    "time": SECONDS,
    "temperature": {"°c": 1.0},
    "share": {"%": 1.0, "percent": 1.0},
    "money": {"euro": 1.0, "pound": 1.0, "dollar": 1.0},
}  # fmt: skip
"""Units by dimension, in one base unit each; a pound is money, and money is not converted."""
DIMENSIONS = frozenset(("", *_FACTORS))  # Of numbers: "" has no unit. Dates have the dimension "date".
_DIMENSION_OF = {unit: (name, factor) for name, units in _FACTORS.items() for unit, factor in units.items()}
_UNIT = re.compile(
    rf"[ \u00a0-]?({'|'.join(sorted(map(re.escape, _DIMENSION_OF), key=len, reverse=True))})(?:e?s)?(?![\w²])",
    re.IGNORECASE,
)
_ONE = re.compile(r"\ban? (?=(?:metre|kilometre|mile|hour|minute|day|week|month|year|tonne)\b)")


@dataclass(frozen=True, slots=True)
class Value:
    """A date or a number of a text: `size` is (year, month, day) with 0 for what is not said, or (number,)."""

    dimension: str
    size: tuple[float, ...]
    start: int
    end: int


@lru_cache(maxsize=10_000)
def values_in(text: str) -> tuple[Value, ...]:
    """Dates, then numbers with their unit converted, each left to right. Cost: O(characters)."""
    american = text.replace("meter", "metre").replace("feet", "foot")
    dates = [one for one in find_dates(text) if "-" in one.key or not _UNIT.match(american, one.end)]
    found = []
    for one in dates:
        year, month, day = [*(float(part) for part in one.key.removeprefix("date:").split("-")), 0.0, 0.0][:3]
        found.append(Value("date", (year, month, day), one.start, one.end))
    numbers = [(float(one.key.removeprefix("number:")), one.start, one.end) for one in find_numbers(text, dates)]
    numbers += [(1.0, match.start(), match.end() - 1) for match in _ONE.finditer(american)]
    for number, start, end in sorted(numbers, key=lambda one: one[1]):
        unit = _UNIT.match(american, end)
        if unit is not None:
            dimension, factor = _DIMENSION_OF[unit[1].lower()]
            found.append(Value(dimension, (number * factor,), start, unit.end()))
        elif text[max(0, start - 1) : start] in ("$", "£", "€"):
            found.append(Value("money", (number,), start - 1, end))
        else:
            found.append(Value("", (number,), start, end))
    return tuple(found)


def order(first: tuple[float, ...], second: tuple[float, ...]) -> int:
    """-1 if the first size is less, 1 if it is more, 0 if what both say does not tell (dates: up to what one lacks)."""
    for one, other in zip(first, second, strict=True):
        if len(first) > 1 and not (one and other):
            return 0
        if one != other:
            return -1 if one < other else 1
    return 0
