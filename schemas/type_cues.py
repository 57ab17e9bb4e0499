"""Type of a name by the words around it in a text (pure).

What its own words say is in types.py; what the other names of a page say is in extraction/page_types.py.
Source: algorithms.md 0.8 (F-TYPE). Decided here: how far a cue may be from the name, and the confidence of each.
"""

import re

from polyhop.schemas.names import name_tokens
from polyhop.schemas.type_words import (
    HEADS,
    LOCATION,
    LOCATIVES,
    ORGANIZATION,
    PERSON,
    PERSON_LINKS,
    PERSON_VERBS,
    PLACES,
    TITLES_OF_PERSONS,
    WORK,
)
from polyhop.schemas.types import Typed, head_type, is_of_common_words, name_type, phrase_words

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_QUOTES = frozenset("\"'“”‘’«»")
_WORKS = "album book film movie musical novel opera series song soundtrack single episode sitcom"
_WORK_AFTER = frozenset(_WORKS.split())
_WORK_BEFORE = _WORK_AFTER | frozenset(("play", "poem", "novella", "miniseries", "documentary", "show", "serial"))
_GROUP_BEFORE = frozenset(("band", "company", "club", "label", "group", "party", "newspaper", "publisher", "airline"))
_PERSON_SIGNS = frozenset(("née", "nee", "starring", "featuring"))
_PLACE_LINKS = frozenset(("located", "based", "situated", "born", "died", "buried", "lives", "lived", "raised"))
_OPENINGS = frozenset(" ('’")
_FOR_NAMES = frozenset((PERSON, LOCATION))
_AROUND, _BEYOND = 32, 72  # characters before and after a name that are looked at; chosen: a few words, an apposition
_POSSESSED = re.compile(
    r"['’]\s?s\s+(?:\w+\s+){0,2}?(?:novels?|novella|play|film|book|wife|husband|son|daughter|mother|father)\b"
)
_LIFE = re.compile(r"\s?\(\s?(?:née|b\.|d\.|fl\.|[^()]{0,20}\d{3,4}\s?[-–−]\s?[^()]{0,24}\d{2,4}\s?\))")
_APPOSITION = re.compile(r",\s+(?:(?:a|an|the)\s+|(?=[^\W\d_A-Z]))([^,.;()]{1,60})")
_BEFORE_NICKNAME = re.compile(r"\b[A-Z]\w*\.?\s?[\"“]\s?$")
_AFTER_NICKNAME = re.compile(r"[\"”]\s[A-Z]")
_IS_A = re.compile(r"\s+(?:is|was|are|were)\s+(?:a|an|the)\s+([^,.;()]{1,60})")
_NEXT_NAME = re.compile(r",\s+([A-Z][^\W\d_]+(?:\s[A-Z][^\W\d_]+)?)")


def mention_type(key: str, text: str, start: int, end: int) -> Typed:
    """Type of a name at one place of a text.

    Args:
        key: The name's key.
        text: The text that holds it.
        start: Offset of its first character.
        end: Offset after its last character.

    Returns:
        One of PERSON, ORGANIZATION, LOCATION, EVENT, WORK, or None for none of them, and how sure the cue makes it.
    Source: algorithms.md 0.8 (F-TYPE).
    """
    by_name = name_type(key)
    if by_name[1] >= 0.9:
        return by_name
    before = text[max(0, start - _AROUND) : start]
    after = text[end : end + _BEYOND]
    around = _surest(_type_after(before, after), _type_before(before), _type_beyond(after))
    if around is None or around[1] <= by_name[1] or (around[0] in _FOR_NAMES and is_of_common_words(key)):
        return by_name
    return around


def _surest(*found: Typed | None) -> Typed | None:
    return max((typed for typed in found if typed), key=lambda typed: typed[1], default=None)


def _type_after(before: str, after: str) -> Typed | None:
    """By the words after the name, and by quotes around it."""
    quoted = _type_in_quotes(before, after)
    if quoted:
        return quoted
    words = _WORD.findall(after[:_AROUND])[:2]
    if after[:1] in _OPENINGS and (_LIFE.match(after) or _POSSESSED.match(after)):
        return PERSON, 0.7
    if not words or not after[0].isspace():
        return (PERSON, 0.85) if after[:1] == "(" and words[:1] in (["born"], ["died"]) else None
    return _type_by_next_words(words, after)


def _type_in_quotes(before: str, after: str) -> Typed | None:
    if not (after[:1] in _QUOTES and before.rstrip()[-1:] in _QUOTES and before.strip()):
        return None
    is_nickname = _BEFORE_NICKNAME.search(before) and _AFTER_NICKNAME.match(after)
    return (PERSON if is_nickname else WORK), 0.8


def _type_by_next_words(words: list[str], after: str) -> Typed | None:
    if words[0] in _WORK_AFTER and after.lstrip()[0] not in ",.;":
        return WORK, 0.5
    if words[0] in ("born", "died") or words == ["was", "born"]:
        return PERSON, 0.85
    return (PERSON, 0.7) if words[0] in PERSON_VERBS or words[0] in ("who", "whose") else None


def _type_beyond(after: str) -> Typed | None:
    """By `X is a …`, `X, a Polish city,`, `X, daughter of …`, and `X, Hungary`."""
    if after[:1] == ",":
        return _type_after_comma(after)
    match = _IS_A.match(after) if after[:1].isspace() else None
    typed = head_type(phrase_words(match[1])) if match else None
    return (typed[0], 0.8) if typed else None


def _type_after_comma(after: str) -> Typed | None:
    match = _NEXT_NAME.match(after)
    if match:
        words = name_tokens(match[1])
        if " ".join(words) in PLACES or words[0] in PLACES:
            return LOCATION, 0.65
        return (PERSON, 0.7) if words[0] in TITLES_OF_PERSONS else None
    match = _APPOSITION.match(after)
    typed = head_type(phrase_words(match[1])) if match else None
    return (typed[0], 0.7) if typed and typed[0] else None


def _type_before(before: str) -> Typed | None:
    """By the words in front of the name."""
    bare = before.rstrip()
    if not bare or bare == before:
        return None
    words = [word.lower() for word in _WORD.findall(bare[:-1] if bare[-1] == "." else bare)[-3:]]
    if not words or (bare[-1] in ",;:!?)" or (bare[-1] == "." and len(words[-1]) > 4)):
        return None
    last, front = words[-1], words[-2] if len(words) > 1 else ""
    return _surest(_person_before(last, front), _place_before(last, front), _kind_before(last))


def _person_before(last: str, front: str) -> Typed | None:
    if last in TITLES_OF_PERSONS or last in _PERSON_SIGNS:
        return PERSON, 0.85
    is_linked = last in PERSON_LINKS or (last in ("by", "of", "to") and front in PERSON_LINKS)
    return (PERSON, 0.7) if is_linked or HEADS.get(last) == PERSON else None


def _place_before(last: str, front: str) -> Typed | None:
    if last == "of" and HEADS.get(front) == LOCATION:
        return LOCATION, 0.7
    if last in LOCATIVES or last == "from":
        return LOCATION, 0.75 if front in _PLACE_LINKS else 0.55 if last != "from" else 0.5
    return (LOCATION, 0.35) if last == "the" and front in LOCATIVES else None


def _kind_before(last: str) -> Typed | None:
    if last in _WORK_BEFORE:
        return WORK, 0.7
    return (ORGANIZATION, 0.7) if last in _GROUP_BEFORE else None
