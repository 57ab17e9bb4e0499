"""A question taken apart: wh-word, head noun, expected type, words of its main clause, relations, names.

Looks at no passage. Source: reader.md 6.1.
Decided here: `whose` wants any type; words in -ed and -ly are not head nouns either.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from polyhop.schemas.graph import Mention
from polyhop.schemas.names import STOP_WORDS, name_tokens
from polyhop.schemas.stems import stem_tokens
from polyhop.schemas.text import fold
from polyhop.worker.reading.clauses import begins_sentence
from polyhop.worker.reading.main_clause import POSSESSIVE, Token, main_words
from polyhop.worker.reading.word_lists import Relation, clause_lists, question_lists, relations, synonyms

PERSON, PLACE, DATE, YEAR, NUMBER, NATIONALITY, WORK, ANY, YES_NO = (
    "PER", "LOC", "DATE", "YEAR", "NUM", "NAT", "WORK", "ANY", "YES-NO",
)  # fmt: skip
SYNONYM_WEIGHT = 0.8  # reader.md 6.1, M+.

_WH_WORDS = frozenset(("who", "whom", "whose", "what", "which", "when", "where", "how", "why", "among"))
_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_NAME_OF = re.compile(r"(?:name|term|title)s? of (?:the |an? )?", re.IGNORECASE)
_ARTICLES = frozenset(("a", "an", "the"))
_MOST_HEAD_WORDS = 6  # reader.md 6.1, head noun.
_OWN_WORDS_FIRST, _OWN_WORDS_LAST = 3, 2  # reader.md 6.1, relations.


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """What a question says about its answer.

    Attributes:
        text: The question.
        wh: Its wh-word, "" if it has none.
        head: Words of the head noun, lower case, the head last; () if there is none.
        expected: Type of the answer.
        main_words: Content words of its main clause, in order.
        main_stems: M, the stems of its main clause, in order of the clause.
        weights: M+, weight by stem: 1 for M, .8 for synonyms.
        relations: Relations it asks for.
        names: Its names, longest first wherever two overlap, left to right.
        name_keys: Keys of all its names, overlapping ones included.
        words: Its lower-case words.
        verbs: Past participles of its main clause (`commissioned`).
    """

    text: str
    wh: str
    head: tuple[str, ...]
    expected: str
    main_words: tuple[str, ...]
    main_stems: tuple[str, ...]
    weights: dict[str, float]
    relations: tuple[Relation, ...]
    names: tuple[Mention, ...]
    name_keys: frozenset[str]
    words: tuple[str, ...]
    verbs: frozenset[str]

    @property
    def head_stem(self) -> str:
        """Stem of the head noun, "" without one."""
        return stem_of(self.head[-1]) if self.head else ""


@lru_cache(maxsize=1 << 15)
def stem_of(word: str) -> str:
    """Stem of one word, "" for a stop word (ST1)."""
    stems = stem_tokens(word)
    return stems[0] if stems else ""


@lru_cache(maxsize=1 << 15)
def stems_of_key(key: str) -> frozenset[str]:
    """Stems of the words of a name, "" for its stop words."""
    return frozenset(stem_of(word) for word in key.split())


def parse_question(text: str, found: Sequence[Mention]) -> ParsedQuestion:
    """A question taken apart.

    Args:
        text: The question.
        found: Its names, from the finder that found those of the passages.

    Source: reader.md 6.1. Cost: O(characters).
    """
    tokens = [Token(fold(match[0]).lower(), match.start(), match.end()) for match in _TOKEN.finditer(text)]
    names = _apart(found)
    place = wh_place(text, tokens)
    wh = "" if place is None else tokens[place].low
    head = _head(text, tokens, place, names) if place is not None and wh in ("what", "which") else ()
    lows = tuple(name_tokens(text))
    expected = YES_NO if place is None and _begins_yes_no(tokens) else _expected(wh, place, head, tokens)
    words = main_words(text, tokens, place, names)
    stems = tuple(dict.fromkeys(stem for word in words if (stem := stem_of(word))))
    return ParsedQuestion(
        text=text,
        wh=wh,
        head=head,
        expected=expected,
        main_words=tuple(words),
        main_stems=stems,
        weights=_weights(words, stems),
        relations=_relations(words, expected),
        names=tuple(names),
        name_keys=frozenset(mention.key for mention in found),
        words=lows,
        verbs=frozenset(word for word in words if word.endswith("ed") and expected in (PERSON, ANY)),
    )


def _apart(found: Sequence[Mention]) -> list[Mention]:
    """Names that do not overlap: the longest first, left to right. Cost: O(characters of all names)."""
    chosen: list[Mention] = []
    taken = bytearray(max((mention.end for mention in found), default=0))
    for mention in sorted(found, key=lambda m: (m.start - m.end, m.start)):
        if taken.find(1, mention.start, mention.end) < 0:
            taken[mention.start : mention.end] = b"\1" * (mention.end - mention.start)
            chosen.append(mention)
    return sorted(chosen, key=lambda m: m.start)


def _begins_yes_no(tokens: Sequence[Token]) -> bool:
    """Whether a question begins with an auxiliary and asks nothing with `what` or `which` later on."""
    auxiliaries = question_lists().auxiliaries
    if not tokens or tokens[0].low not in auxiliaries:
        return False
    following = [*[token.low for token in tokens[1:]], ""]
    return not any(
        token.low in ("what", "which") and following[place] not in auxiliaries for place, token in enumerate(tokens)
    )


def wh_place(text: str, tokens: Sequence[Token]) -> int | None:
    """Place of the wh-word that asks; None without one and in yes-no questions."""
    places = [place for place, token in enumerate(tokens) if token.low in _WH_WORDS]
    if places and places[0] < 3:
        is_relative = places[0] > 0 and tokens[places[0] - 1].low not in clause_lists().prepositions
        if not (is_relative and begins_sentence(text, [tokens[place].start for place in places[1:]])):
            return places[0]
    if not places or _begins_yes_no(tokens):
        return None
    return _late_wh(text, tokens, places)


def _late_wh(text: str, tokens: Sequence[Token], places: Sequence[int]) -> int:
    """Which of several wh-words asks if the first one does not: one at the end, else one that begins a sentence."""
    for place in places:
        if place >= len(tokens) - 2:
            return place
    for place in places:
        # only the text between two words can end with a full stop, and all before would be read again for each word
        if text[tokens[place - 1].end : tokens[place].start].rstrip()[-1:] in (".", "?", "!"):
            return place
    for word in ("what", "which"):
        last = [place for place in places if tokens[place].low == word]
        if last:
            return last[-1]
    return places[-1]


def _head(text: str, tokens: Sequence[Token], wh: int, names: Sequence[Mention]) -> tuple[str, ...]:
    """Words of the noun after `what` or `which`."""
    place = _head_place(text, tokens, wh)
    words: list[str] = []
    for token, before in zip(tokens[place:], [None, *tokens[place:]], strict=False):
        is_name = any(name.start <= token.start < name.end for name in names)
        is_apart = before is not None and text[before.end : token.start].strip()
        if len(words) == _MOST_HEAD_WORDS or is_name or is_apart or _ends_head(token.low, is_first=not words):
            break
        words.append(POSSESSIVE.sub("", token.low))
    while len(words) > 1 and (words[-1] in question_lists().head_verbs or words[-1].endswith(("ed", "ly"))):
        words.pop()
    return tuple(words)


def _head_place(text: str, tokens: Sequence[Token], wh: int) -> int:
    """Where the noun after a wh-word begins: past auxiliaries, articles, `most recent` and `name of`."""
    lists = question_lists()
    place = wh + 1
    while place < len(tokens) and (tokens[place].low in lists.auxiliaries or tokens[place].low in _ARTICLES):
        place += 1
    if [token.low for token in tokens[place : place + 2]] == ["most", "recent"]:
        place += 1
    if place < len(tokens):
        skipped = _NAME_OF.match(text, tokens[place].start)
        if skipped:
            place = next((n for n, token in enumerate(tokens) if token.start >= skipped.end()), len(tokens))
    return place


def _ends_head(word: str, *, is_first: bool) -> bool:
    """Whether a head noun ends before a word; a verb may only be its first word."""
    lists = question_lists()
    if word in STOP_WORDS or word in lists.auxiliaries or word in clause_lists().prepositions:
        return True
    return not is_first and word in lists.head_verbs


def _expected(wh: str, place: int | None, head: tuple[str, ...], tokens: Sequence[Token]) -> str:
    """Type of the answer by wh-word and head noun."""
    lists = question_lists()
    words = {token.low for token in tokens}
    if wh in ("who", "whom"):
        return PERSON
    if wh == "when":
        return DATE
    if wh == "where":
        return ANY if words & lists.places_of_study and not words & lists.places_of_stay else PLACE
    if wh == "how" and place is not None:
        follower = tokens[place + 1].low if place + 1 < len(tokens) else ""
        return NUMBER if follower in lists.measures else ANY
    return _type_of_head(head) if head else ANY


def _type_of_head(head: tuple[str, ...]) -> str:
    lists = question_lists()
    forms = {head[-1], head[-1].removesuffix("s"), head[-1].removesuffix("ies") + "y"}
    if "year" in forms:
        return YEAR
    if head[-1] == "time" or forms & lists.date_heads:
        return DATE
    if forms & lists.person_heads:
        return PERSON
    if forms & lists.nationality_heads:
        return NATIONALITY
    if head[-2:] == ("area", "code") or lists.number_heads & {*forms, *head[-2:]}:
        return NUMBER
    if forms & lists.place_heads:
        return PLACE
    return WORK if forms & lists.work_heads else ANY


def _weights(words: Sequence[str], stems: Sequence[str]) -> dict[str, float]:
    """M+: the stems of the main clause with weight 1, those of their synonyms with .8."""
    weights = dict.fromkeys(stems, 1.0)
    for word in words:
        for other in synonyms().get(word, ()):
            stem = stem_of(other)
            if stem:
                weights.setdefault(stem, SYNONYM_WEIGHT)
    return weights


def _relations(words: Sequence[str], expected: str) -> tuple[Relation, ...]:
    """Relations whose words are among the first three or last two of the main clause."""
    outer = {*words[:_OWN_WORDS_FIRST], *words[-_OWN_WORDS_LAST:]}
    return tuple(one for one in relations() if expected in one.types and outer & one.question_words)
