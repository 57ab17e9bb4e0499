"""Types of names by their words and by what their own page says, a confidence with each.

Cues around a name are in type_cues.py, word lists in type_words.py and name_words.py; dates and numbers, whose type is
their form, are in values.py. Source: algorithms.md 0.8 (F-TYPE). Decided here: the order of cues and their confidences;
that a page's own parenthesis and first `is a …` come before every other cue for its title; that a name without a
cue, a demonym, a language or an award has no type (decision 0029).
"""

import re
from functools import lru_cache

from polyhop.schemas.name_words import COMMON_WORDS, GENERIC_WORDS, GIVEN_NAMES, NAME_PARTICLES, UNTYPED, UNTYPED_HEADS
from polyhop.schemas.names import name_tokens
from polyhop.schemas.type_words import (
    EVENT,
    HEADS,
    LOCATION,
    ORGANIZATION,
    PERSON,
    PLACE_STARTS,
    PLACES,
    TITLES_OF_PERSONS,
    WORK,
)

Typed = tuple[str | None, float]
"""Type, None for none of the five, and confidence (0 to 1)."""

DEFAULT = 0.3
"""Largest confidence of a type that no cue shows: it counts only where no mention of the name has a cue."""
UNSHOWN = 0.2
"""Confidence of having no type because nothing shows one."""
CUE = 0.5
"""Least confidence of a type that something near this name shows, rather than the other names of a list."""
DEFINED = 0.9
"""Least confidence of a type that a page's definition gives its title: it comes before the cues of all mentions."""
ALIAS = 0.8
"""Most that a page's definition says of its title without the parenthesis, which may be another thing's name, too."""

_WORD_OR_STOP = re.compile(r"[^\W_]+(?:-[^\W_]+)*|[,.;:]")
_PARENTHESES = re.compile(r"\([^()]*\)")
_LIFE = re.compile(r"[^(]{0,80}\([^()]{0,120}?(?:\b(?:born|died|reigned|née)\b|\b(?:b|d|fl)\.|†)")
_DATES = re.compile(
    r"[^(]{0,80}\([^()]{0,120}?\b(?:[12]?\d|3[01]) [A-Z][a-z]{2,8},? \d{3,4}[^()]{0,40}[-–−]"
    r"|[^(]{0,80}\([^()]{0,120}?\b[A-Z][a-z]{2,8} \d{1,2}, \d{3,4}[^()]{0,40}[-–−]"
)
_DEFINITION = re.compile(r"\b(?:is|was|are|were)\s+(?:one\s+of\s+)?(?:a|an|the)\s+(.{1,200})", re.DOTALL)
_BARE_DEFINITION = re.compile(r"\b(?:is|was|are|were)\s+(?!(?:a|an|the)\s)(.{1,200})", re.DOTALL)
_RANK = re.compile(r"[^,.;]{1,80},\s+(?:the\s+)?([^,.;]{1,60})")
_MAY_REFER = re.compile(r"\bmay\s+(?:also\s+)?refer\s+to\b")
_NUMERAL = re.compile(r"[ivx]+|\d+")
_REGNAL = re.compile(r"[ivx]+")
_STOPS = frozenset(
    (",", ".", ";", ":", "of", "in", "by", "from", "who", "whose", "which", "that", "for", "on", "to", "at", "with")
)
_PARTICIPLES = (
    "starring directed featuring written produced based set played located known called named born as during between "
    "under near over into after through when where while released published owned operated about situated created "
    "following including formed"
)
_STOPS_AFTER_HEAD = frozenset((",", *_PARTICIPLES.split()))
_SURNAMES = (
    "banks bay bishop bush chase church cliff coast court field ford forest hall hill hills house lake lane park parks "
    "pike single stone street temple vale ward west wood woods young"
)
_AMBIGUOUS_HEADS = frozenset(_SURNAMES.split())
_HEADS_OF_HEADS = frozenset(("name", "kind", "type", "sort", "form", "part", "variety", "piece", "term"))
_PERSON_ENDINGS = ("er", "or", "ist", "man", "ician")
_ABSTRACT_ENDINGS = ("tion", "ness", "ism", "ics", "logy", "graphy", "eering")
# chosen: a definition stands in the first sentence; as many as the reader looks at (reader.md 6.3).
_LEAD_CHARACTERS = 400
_NO_TYPE = "no type"


def title_type(title: str, key: str, lead: str) -> Typed:
    """Type of what a page is about.

    Args:
        title: The page's title.
        key: The title's key.
        lead: The page's first sentence; more does no harm.

    Source: algorithms.md 0.8 (F-TYPE); the definition in the first sentence is ours.
    """
    lead = lead[:_LEAD_CHARACTERS]
    plain = _without_parentheses(lead)
    said = _type_in_parenthesis(title)
    if said and not (said[1] and (_type_of_definition(key, plain, lead) or (None, 0.0))[1] >= DEFINED):
        return said[0], 0.95
    if _LIFE.match(lead):
        return PERSON, 0.9
    defined = _type_of_definition(key, plain, lead)
    if defined and defined[1] >= DEFINED:
        return defined
    by_name = name_type(key)
    if _MAY_REFER.search(plain):
        return by_name if by_name[1] > 0.5 else (None, DEFAULT)
    found = [defined, by_name, (PERSON, 0.85) if _DATES.match(lead) else None, _type_of_rank(key, plain)]
    return max((typed for typed in found if typed), key=lambda typed: typed[1])


@lru_cache(maxsize=1 << 15)
def name_type(key: str) -> Typed:
    """Type by the words of a name alone. Source: algorithms.md 0.8 (F-TYPE)."""
    if key in PLACES:
        return LOCATION, 0.9
    words = key.split() or [""]
    if UNTYPED.issuperset(words):
        return None, 0.9
    numbered = len(words)
    while numbered > 1 and _NUMERAL.fullmatch(words[numbered - 1]):
        numbered -= 1
    core = words[:numbered]
    # an `of` at the very beginning (`OF THE SECURITIES EXCHANGE ACT OF` on a cover page) has no head noun before it
    front = core[: core.index("of", 1)] if "of" in core[1:] else core
    is_king = any(_REGNAL.fullmatch(part[-1]) for part in (words, front) if len(part) > 1)
    return _type_of_words(words, core, front) or _type_of_bearer(words, core, front, is_king=is_king)


def _type_of_words(words: list[str], core: list[str], front: list[str]) -> Typed | None:
    """By head nouns, ranks and first words."""
    if len(words) > 1:
        typed = _type_of_phrase(words, core, front) or _type_of_heads(core, front) or _type_of_first_word(words, front)
        if typed:
            return typed
    if "university" in words or "olympics" in words:
        return (ORGANIZATION, 0.9) if "university" in words else (EVENT, 0.9)
    return (None, 0.8) if len(words) > 1 and core[-1] in UNTYPED_HEADS else None


def _type_of_phrase(words: list[str], core: list[str], front: list[str]) -> Typed | None:
    if front == ["house"] and len(core) > 2:
        return ORGANIZATION, 0.6  # House of Lords, House of Habsburg
    if words[0] == "best":
        return None, 0.6  # Best Director
    if len(front) < len(core) and HEADS.get(front[-1]) == PERSON:
        return PERSON, 0.85 if front[-1] in TITLES_OF_PERSONS else 0.5  # Duke of Legnica, Leader of the Opposition
    return None


def _type_of_heads(core: list[str], front: list[str]) -> Typed | None:
    head = next((head for head in (front[-1], core[-1]) if HEADS.get(head, PERSON) != PERSON), "")
    if not head:
        return None
    if head in _AMBIGUOUS_HEADS:
        return (PERSON, 0.6) if front[0] in GIVEN_NAMES else (HEADS[head], 0.5)
    return HEADS[head], (0.75 if HEADS[head] == WORK else 0.9)


def _type_of_first_word(words: list[str], front: list[str]) -> Typed | None:
    if words[0] in PLACE_STARTS:
        return LOCATION, 0.85
    return (PERSON, 0.85) if words[0] in TITLES_OF_PERSONS or front[-1] in TITLES_OF_PERSONS else None


def _type_of_bearer(words: list[str], core: list[str], front: list[str], *, is_king: bool) -> Typed:
    """By what names of persons look like; the defaults where they do not."""
    if len(words) == 1:
        return (PERSON, 0.4) if words[0] in GIVEN_NAMES else (None, UNSHOWN)
    is_plain = COMMON_WORDS.isdisjoint({*words} - {"of"})
    has_given_name = core[0] in GIVEN_NAMES and "and" not in words and len(front) <= 4
    if has_given_name and (is_plain or len(core) == 2 or len(front) < len(core)):
        return PERSON, 0.65
    if not is_plain:
        return None, 0.2
    return _type_of_plain_bearer(words, core, front, is_king=is_king and not has_given_name)


def _type_of_plain_bearer(words: list[str], core: list[str], front: list[str], *, is_king: bool) -> Typed:
    """By regnal number, initials, particles and length; of names without common words."""
    if is_king and len(front) <= 2 and core[0] not in PLACES:
        return PERSON, 0.6
    if len(core) <= 4 and any(_is_initial(word) for word in core[:-1]):
        return PERSON, 0.6
    if len(front) <= 5 and not NAME_PARTICLES.isdisjoint(core[1:-1]):
        return PERSON, 0.5
    is_short = len(core) <= 3 and len(front) == len(core)
    return (PERSON, DEFAULT) if is_short and not _is_of_a_thing(words) else (None, UNSHOWN)


def _is_initial(word: str) -> bool:
    return len(word) == 1 and word.isalpha() and word != "s"


def _is_of_a_thing(words: list[str]) -> bool:
    """Whether a name has what names of persons do not have: an abstract noun, a possessive, a number."""
    if words[-1].endswith(_ABSTRACT_ENDINGS) or "s" in words[1:-1] or not UNTYPED.isdisjoint(words):
        return True
    return any(word[0].isdigit() for word in words)


def is_of_common_words(key: str) -> bool:
    """Whether a name has common words only (`The Time`): then `in` or `by` before it show nothing."""
    return COMMON_WORDS.issuperset(key.split())


def may_be_person(surface: str, key: str, confidence: float) -> bool:
    """Whether a name that cues took for a person's may be one.

    Dates and numbers never are; a generic word alone only where a page defines it; a name in capitals alone (`BIT
    STRING`), which may be any term, only with a cue of its own.
    """
    words = key.split()
    if all(word.isdigit() or word in UNTYPED for word in words):
        return False
    if len(words) == 1 and key in GENERIC_WORDS and key not in GIVEN_NAMES:
        return confidence >= DEFINED
    return confidence >= CUE or not surface.isupper()


def is_people_or_language(key: str) -> bool:
    """Whether a name is a demonym, a language, a faith or the like (`English`, `the French language`)."""
    words = key.removeprefix("the ").removesuffix(" language").split()
    return bool(words) and UNTYPED.issuperset(words)


def head_type(words: list[str]) -> Typed | None:
    """Type of the last head noun before a preposition, None if there is none; a comma ends only after a head.

    Args:
        words: Lower-case words and signs of a noun phrase without its article.
    """
    kind = None
    for word in words:
        if word in _STOPS_AFTER_HEAD and not kind:
            continue
        if word in _STOPS or word in _STOPS_AFTER_HEAD:
            break
        kind = _head(word) or kind
    return (None if kind == _NO_TYPE else kind, DEFINED) if kind else None


def _head(word: str) -> str | None:
    singular = f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")
    kind = HEADS.get(word) or HEADS.get(singular) or HEADS.get(word.rpartition("-")[2])
    return kind or (_NO_TYPE if word in UNTYPED_HEADS else None)


def phrase_words(phrase: str) -> list[str]:
    """Lower-case words and signs of a phrase."""
    return _WORD_OR_STOP.findall(phrase.lower())


def _without_parentheses(lead: str) -> str:
    """The same length, what stands in parentheses blank; two of them may be nested."""
    for _ in range(2):
        lead = _PARENTHESES.sub(lambda hit: " " * len(hit[0]), lead)
    return lead


def _type_in_parenthesis(title: str) -> tuple[str | None, bool] | None:
    """Type, and whether its head has a capital: it may be the name of something else (`(Faerie Tale Theatre)`)."""
    if not title.endswith(")") or "(" not in title:
        return None
    inside = title[title.rindex("(") + 1 : -1]
    typed = head_type(phrase_words(inside))
    return (typed[0], inside[:1].isupper()) if typed else None


def _type_of_definition(key: str, plain: str, lead: str) -> Typed | None:
    """By the head noun of the first `is a …` about `key`; a head after a preposition counts less."""
    match = _DEFINITION.search(plain)
    if match is None or not _is_about(key, lead[: match.start()]):
        return _type_of_bare_definition(key, plain, lead)
    words = phrase_words(match[1])
    return head_type(words) or _type_around_preposition(words)


def _type_of_bare_definition(key: str, plain: str, lead: str) -> Typed | None:
    """By the head noun of a definition without an article; only persons are defined so."""
    match = _BARE_DEFINITION.search(plain)
    if match is None or not _is_about(key, lead[: match.start()]):
        return None
    typed = head_type(phrase_words(match[1]))
    return (PERSON, DEFINED) if typed and typed[0] == PERSON else None


def _type_around_preposition(words: list[str]) -> Typed | None:
    """By the ending of an unknown head noun, or by the noun that `name of a`, `kind of a` and the like lead to."""
    stop = next((place for place, word in enumerate(words) if word in _STOPS), len(words))
    if stop and words[stop - 1].endswith(_PERSON_ENDINGS):
        return PERSON, 0.6
    if not stop or words[stop - 1] not in _HEADS_OF_HEADS:
        return None
    kind = next((HEADS[word] for word in words[stop:] if word in HEADS), None)
    return (kind, 0.4) if kind else None


def _is_about(key: str, before: str) -> bool:
    return not set(key.split()).isdisjoint(name_tokens(before))


def _type_of_rank(key: str, plain: str) -> Typed | None:
    """By a rank behind the name at the very beginning: `Mugain, daughter of …`, `Dietrich, count of …`."""
    match = _RANK.match(plain)
    if match is None or not _is_about(key, plain[: match.start(1)]):
        return None
    typed = head_type(phrase_words(match[1]))
    return (PERSON, 0.8) if typed and typed[0] == PERSON else None
