"""Types of names by cues in the name and around it (F-TYPE), a confidence with each.

Word lists are in type_words.py; dates and numbers, whose type is their form, are in values.py.
Source: algorithms.md 0.8 (F-TYPE). Decided here: the order of cues and their confidences, and that a page's own
parenthesis and first `is a …` come before every other cue for its title.
"""

import re
from functools import lru_cache

from polyhop.schemas.names import name_tokens
from polyhop.schemas.type_words import (
    EVENT,
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

Typed = tuple[str, float]
"""Type and confidence (0 to 1)."""

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_WORD_OR_STOP = re.compile(r"[^\W_]+(?:-[^\W_]+)*|[,.;:]")
_PARENTHESES = re.compile(r"\([^()]*\)")
_LIFE = re.compile(r"[^(]{0,80}\([^()]{0,120}?\b(?:born|died|reigned)\b")
_DEFINITION = re.compile(r"\b(?:is|was|are|were)\s+(?:one\s+of\s+)?(?:a|an|the)\s+(.{1,200})", re.DOTALL)
_QUOTES = frozenset("\"'“”‘’«»")
_STOPS = frozenset(
    (",", ".", ";", ":", "of", "in", "by", "from", "who", "whose", "which", "that", "for", "on", "to", "at", "with")
)
_SURNAMES = (
    "banks bay bishop bush chase church cliff coast court field ford forest hall hill hills house lake lane park parks "
    "pike single stone street temple vale ward west wood woods young"
)
_AMBIGUOUS_HEADS = frozenset(_SURNAMES.split())
_WORKS = "album book film movie musical novel opera series song soundtrack single episode sitcom"
_WORK_AFTER = frozenset(_WORKS.split())
_PERSON_ENDINGS = ("er", "or", "ist", "man", "ician")
_LEAD_CHARACTERS = 400
_AROUND = 32


def mention_type(key: str, text: str, start: int, end: int) -> Typed:
    """Type of a name at one place of a text.

    Args:
        key: The name's key.
        text: The text that holds it.
        start: Offset of its first character.
        end: Offset after its last character.

    Returns:
        One of PERSON, ORGANIZATION, LOCATION, EVENT, WORK, and how sure the cue makes it.
    Source: algorithms.md 0.8 (F-TYPE).
    """
    by_name = name_type(key)
    if by_name[1] >= 0.9:
        return by_name
    before = text[max(0, start - _AROUND) : start]
    after = text[end : end + _AROUND]
    around = _type_after(before, after) or _type_before(before)
    return around if around and around[1] > by_name[1] else by_name


def title_type(title: str, key: str, lead: str) -> Typed:
    """Type of what a page is about.

    Args:
        title: The page's title.
        key: The title's key.
        lead: The page's first sentence; more does no harm.

    Source: algorithms.md 0.8 (F-TYPE); the definition in the first sentence is ours.
    """
    kind = _type_in_parenthesis(title)
    if kind:
        return kind, 0.95
    lead = lead[:_LEAD_CHARACTERS]
    if _LIFE.match(lead):
        return PERSON, 0.9
    defined = _type_of_definition(key, _PARENTHESES.sub(" ", lead))
    if defined and defined[1] >= 0.9:
        return defined
    by_name = name_type(key)
    return max((by_name, defined), key=lambda typed: typed[1]) if defined else by_name


@lru_cache(maxsize=1 << 15)
def name_type(key: str) -> Typed:
    """Type by the words of a name alone. Source: algorithms.md 0.8 (F-TYPE)."""
    if key in PLACES:
        return LOCATION, 0.9
    words = key.split() or [""]
    # an `of` at the very beginning (`OF THE SECURITIES EXCHANGE ACT OF` on a cover page) has no head noun before it
    front = words[: words.index("of", 1)] if "of" in words[1:] else words
    for head in (front[-1], words[-1]):
        kind = HEADS.get(head)
        if kind and kind != PERSON and len(words) > 1:
            return kind, (0.5 if head in _AMBIGUOUS_HEADS else 0.75 if kind == WORK else 0.9)
    if len(words) > 1 and (words[0] in TITLES_OF_PERSONS or front[-1] in TITLES_OF_PERSONS):
        return PERSON, 0.85
    if "university" in words or "olympics" in words:
        return (ORGANIZATION, 0.9) if "university" in words else (EVENT, 0.9)
    if 2 <= len(words) <= 3 and not any(word[0].isdigit() for word in words):
        return PERSON, 0.3
    return ORGANIZATION, 0.2


def _type_after(before: str, after: str) -> Typed | None:
    """By the words after the name, and by quotes around it."""
    if before[-1:] in _QUOTES and after[:1] in _QUOTES and before:
        return WORK, 0.8
    words = _WORD.findall(after)[:2]
    if not words or not after[0].isspace():
        return (PERSON, 0.85) if after[:1] == "(" and words[:1] in (["born"], ["died"]) else None
    if words[0] in _WORK_AFTER and after.lstrip()[0] not in ",.;":
        return WORK, 0.8
    if words[0] in ("born", "died") or words == ["was", "born"]:
        return PERSON, 0.85
    return (PERSON, 0.7) if words[0] in PERSON_VERBS else None


def _type_before(before: str) -> Typed | None:
    """By the words in front of the name."""
    bare = before.rstrip()
    if not bare or bare == before:
        return None
    words = [word.lower() for word in _WORD.findall(bare[:-1] if bare[-1] == "." else bare)[-2:]]
    if not words or (bare[-1] in ",;:!?)" or (bare[-1] == "." and len(words[-1]) > 4)):
        return None
    last = words[-1]
    if last in TITLES_OF_PERSONS:
        return PERSON, 0.85
    if last in PERSON_LINKS or (last in ("by", "of", "to") and words[0] in PERSON_LINKS):
        return PERSON, 0.7
    if last in LOCATIVES or (last == "the" and words[0] in LOCATIVES):
        return LOCATION, 0.55 if last in LOCATIVES else 0.35
    return None


def _type_in_parenthesis(title: str) -> str | None:
    if not title.endswith(")") or "(" not in title:
        return None
    return _last_head(_WORD_OR_STOP.findall(title[title.rindex("(") + 1 : -1].lower()))


def _type_of_definition(key: str, lead: str) -> Typed | None:
    """By the head noun of the first `is a …` about `key`; a head after a preposition counts less."""
    match = _DEFINITION.search(lead)
    if match is None or set(key.split()).isdisjoint(name_tokens(lead[: match.start()])):
        return None
    words = _WORD_OR_STOP.findall(match[1].lower())
    kind = _last_head(words)
    if kind:
        return kind, 0.9
    stop = next((place for place, word in enumerate(words) if word in _STOPS), len(words))
    if stop and words[stop - 1].endswith(_PERSON_ENDINGS):
        return PERSON, 0.6
    later = (HEADS.get(word) for word in words[stop:])
    kind = next((kind for kind in later if kind), None)
    return (kind, 0.4) if kind else None


def _last_head(words: list[str]) -> str | None:
    """Type of the last head noun before a preposition; a comma ends only after a head."""
    kind = None
    for word in words:
        if word in _STOPS:
            if kind or word != ",":
                break
            continue
        kind = HEADS.get(word) or HEADS.get(word.removesuffix("s")) or HEADS.get(word.rpartition("-")[2]) or kind
    return kind
