"""A question taken apart: wh-word, head noun, expected type, main clause, what is asked about which names.

Source: reader.md 6.1. Decided here: `whose` wants any type; words in -ed and -ly are not head nouns either.
"""

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, islice, takewhile
from operator import not_

from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import STOP_WORDS, stem_tokens
from polyhop.schemas.names import name_tokens, split_sentences
from polyhop.schemas.text import fold
from polyhop.schemas.types import HEADS
from polyhop.schemas.types import PERSON as NAMED_PERSON
from polyhop.worker.reading.word_lists import Relation, clause_lists, geography, question_lists, relations

# Source: reader.md 6.1. Decided here: words after a cut relative clause belong to the main clause again; of a
# question of several sentences the one with the wh-word counts.

POSSESSIVE = re.compile(r"['’]s?$")

_LATE = 4  # tokens; reader.md 6.1, wh late.
_REACH = 9  # tokens; reader.md 6.1, wh late.
_CLAUSE_STOP = re.compile(r"[,?;]")
_AND_VERB = re.compile(r" and (?:is|was|has) ")
_NOT_CONTENT = STOP_WORDS | {"name", "called"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a question: folded lower-case form, begin and end in the text."""

    low: str
    start: int
    end: int


def _main_words(text: str, tokens: Sequence[Token], wh: int | None, names: Sequence[Mention]) -> list[str]:
    """Content words of the main clause without the names that only say where to begin, in order."""
    # Where the sentence of the wh-word begins.
    ends = [end for _, end in split_sentences(text[: tokens[wh].start])] if wh else []
    ended = [end for end in ends if text[end - 1] in ".?!"]
    begin = ended[-1] if ended else 0
    if sum(begin <= token.start for token in tokens[:wh]) < _LATE:
        spans = _without_relative_clauses(text, begin)
    else:
        # The clause of a late wh-word.
        low = tokens[max(0, (wh or 0) - _REACH)].start
        before = text[low : tokens[wh or 0].start]
        begins = [before.rfind(",") + 1]
        begins += [match.end() for match in question_lists().relative_clause.finditer(before)]
        begins += [match.start() + 1 for match in _AND_VERB.finditer(before)]
        spans = [(low + max(begins), len(text))]
    dropped = [(name.start, name.end) for name in names if _is_dropped(text, name)]
    words = []
    for number in sorted(_begin_in(spans, tokens) - _begin_in(dropped, tokens)):
        words += name_tokens(POSSESSIVE.sub("", tokens[number].low))
    content = [word for word in words if word not in _NOT_CONTENT]
    return content or [word for word in name_tokens(text) if word not in STOP_WORDS]


def _begin_in(spans: Sequence[tuple[int, int]], tokens: Sequence[Token]) -> set[int]:
    """Numbers of the words that begin inside a span; the spans are in order and do not overlap."""
    found = set()
    span = 0
    for number, token in enumerate(tokens):
        while span < len(spans) and spans[span][1] <= token.start:
            span += 1
        if span < len(spans) and spans[span][0] <= token.start:
            found.add(number)
    return found


def _without_relative_clauses(text: str, begin: int) -> list[tuple[int, int]]:
    """Spans of a question outside its relative clauses. Cost: O(characters), whatever the number of clauses."""
    lists = question_lists()
    spans = []
    free = begin
    sign, verbs = _Ahead(_CLAUSE_STOP, text), _Ahead(lists.clause_end, text)
    while True:
        clause = lists.relative_clause.search(text, free)
        if clause is None:
            spans.append((free, len(text)))
            return spans
        spans.append((free, clause.start()))
        stop, finished = sign.find(clause.end()), verbs.find(clause.end())
        free = min(stop.start() if stop else len(text), finished.end() if finished else len(text))


class _Ahead:
    """The next match of a pattern after ascending offsets: no character is searched twice."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self._pattern, self._text = pattern, text
        self._found = pattern.search(text)

    def find(self, start: int) -> re.Match[str] | None:
        """The first match that begins at `start` or later; each call's `start` is at least the last one's."""
        if self._found is not None and self._found.start() < start:
            self._found = self._pattern.search(self._text, start)
        return self._found


def _is_dropped(text: str, name: Mention) -> bool:
    if text[name.end : name.end + 2] in ("'s", "’s"):
        return True
    before = name_tokens(text[max(0, name.start - 24) : name.start])
    if before and before[-1] == "the":
        before.pop()
    return bool(before) and before[-1] in question_lists().name_links


PERSON, PLACE, DATE, YEAR, NUMBER, NATIONALITY = "PER", "LOC", "DATE", "YEAR", "NUM", "NAT"
ANY, YES_NO = "ANY", "YES-NO"

_WH = frozenset(("who", "whom", "whose", "what", "which", "when", "where", "how", "why"))
_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_NAME_OF = re.compile(r"(?:name|term|title)s? of (?:the |an? )?", re.IGNORECASE)
_ARTICLES = frozenset(("a", "an", "the"))
_MOST_HEAD_WORDS = 6  # reader.md 6.1, head noun.
_OWN_WORDS_FIRST, _OWN_WORDS_LAST = 3, 2  # reader.md 6.1, relations.


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """What a question says about its answer."""

    text: str  # The question.
    wh: str  # Its wh-word, "" if it has none.
    head: tuple[str, ...]  # Words of the head noun, lower case, the head last; () if there is none.
    expected: str  # Type of the answer.
    main_words: tuple[str, ...]  # Content words of its main clause, in order.
    main_stems: tuple[str, ...]  # M, the stems of its main clause, in order of the clause.
    relations: tuple[Relation, ...]  # Relations it asks for.
    names: tuple[Mention, ...]  # Its names, longest first wherever two overlap, left to right.
    name_keys: frozenset[str]  # Keys of all its names, overlapping ones included.
    words: tuple[str, ...]  # Its lower-case words.
    verbs: frozenset[str]  # Past participles of its main clause (`commissioned`).


@lru_cache(maxsize=1 << 15)
def stem_of(word: str) -> str:
    """Stem of one word, "" for a stop word (ST1)."""
    stems = stem_tokens(word)
    return stems[0] if stems else ""


@lru_cache(maxsize=1 << 13)
def stems_of(text: str) -> frozenset[str]:
    """The stems of a text's content words."""
    return frozenset(stem for word in name_tokens(text) if (stem := stem_of(word)))


def parse_question(text: str, found: Sequence[Mention]) -> ParsedQuestion:
    """A question taken apart.

    Source: reader.md 6.1. Cost: O(characters).
    """
    tokens = [Token(fold(match[0]).lower(), match.start(), match.end()) for match in _TOKEN.finditer(text)]
    # Names that do not overlap: the longest first, left to right. Cost: O(characters of all names).
    chosen: list[Mention] = []
    taken = bytearray(max((mention.end for mention in found), default=0))
    for mention in sorted(found, key=lambda m: (m.start - m.end, m.start)):
        if taken.find(1, mention.start, mention.end) < 0:
            taken[mention.start : mention.end] = b"\1" * (mention.end - mention.start)
            chosen.append(mention)
    names = sorted(chosen, key=lambda m: m.start)
    place = _wh_place(text, tokens)
    wh = "" if place is None else tokens[place].low
    head = _head(text, tokens, place, names) if place is not None and wh in ("what", "which") else ()
    expected = YES_NO if place is None and _begins_yes_no(tokens) else _expected(wh, place, head, tokens)
    words = _main_words(text, tokens, place, names)
    stems = tuple(dict.fromkeys(stem for word in words if (stem := stem_of(word))))
    # Relations whose words are among the first three or last two of the main clause.
    outer = {*words[:_OWN_WORDS_FIRST], *words[-_OWN_WORDS_LAST:]}
    return ParsedQuestion(
        text=text,
        wh=wh,
        head=head,
        expected=expected,
        main_words=tuple(words),
        main_stems=stems,
        relations=tuple(one for one in relations() if expected in one.types and outer & one.question_words),
        names=tuple(names),
        name_keys=frozenset(mention.key for mention in found),
        words=tuple(name_tokens(text)),
        verbs=frozenset(word for word in words if word.endswith("ed") and expected in (PERSON, ANY)),
    )


def _begins_yes_no(tokens: Sequence[Token]) -> bool:
    """Whether a question begins with an auxiliary and asks nothing with `what` or `which` later on."""
    auxiliaries = question_lists().auxiliaries
    if not tokens or tokens[0].low not in auxiliaries:
        return False
    pairs = zip(tokens, [*[token.low for token in tokens[1:]], ""], strict=True)
    return not any(token.low in ("what", "which") and following not in auxiliaries for token, following in pairs)


def _wh_place(text: str, tokens: Sequence[Token]) -> int | None:
    """Place of the wh-word that asks; None without one and in yes-no questions."""
    places = [place for place, token in enumerate(tokens) if token.low in _WH or token.low == "among"]
    if places and places[0] < 3:
        return places[0]
    if not places or _begins_yes_no(tokens):
        return None
    # If the first one does not ask: one at the end, else one that begins a sentence, else the last `what` or `which`.
    for place in places:
        if place >= len(tokens) - 2:
            return place
    for place in places:
        # only the text between two words can end with a full stop, and all before would be read again for each word
        if text[tokens[place - 1].end : tokens[place].start].rstrip()[-1:] in (".", "?", "!"):
            return place
    return max(places, key=lambda place: (tokens[place].low == "what", tokens[place].low == "which", place))


def _head(text: str, tokens: Sequence[Token], wh: int, names: Sequence[Mention]) -> tuple[str, ...]:
    # Where the noun after a wh-word begins: past auxiliaries, articles, `most recent` and `name of`.
    lists, prepositions = question_lists(), clause_lists().prepositions
    place = wh + 1
    while place < len(tokens) and (tokens[place].low in lists.auxiliaries or tokens[place].low in _ARTICLES):
        place += 1
    if [token.low for token in tokens[place : place + 2]] == ["most", "recent"]:
        place += 1
    if place < len(tokens):
        skipped = _NAME_OF.match(text, tokens[place].start)
        if skipped:
            place = next((n for n, token in enumerate(tokens) if token.start >= skipped.end()), len(tokens))
    words: list[str] = []
    for token, before in zip(tokens[place:], [None, *tokens[place:]], strict=False):
        is_name = any(name.start <= token.start < name.end for name in names)
        is_apart = before is not None and text[before.end : token.start].strip()
        # It ends before a verb, too, which may only be its first word.
        verbs = lists.head_verbs if words else ()
        is_end = any(token.low in group for group in (STOP_WORDS, lists.auxiliaries, prepositions, verbs))
        if len(words) == _MOST_HEAD_WORDS or is_name or is_apart or is_end:
            break
        words.append(POSSESSIVE.sub("", token.low))
    while len(words) > 1 and (words[-1] in lists.head_verbs or words[-1].endswith(("ed", "ly"))):
        words.pop()
    return tuple(words)


def _expected(wh: str, place: int | None, head: tuple[str, ...], tokens: Sequence[Token]) -> str:
    lists = question_lists()
    by_word = {"who": PERSON, "whom": PERSON, "when": DATE, "where": PLACE}
    if wh in by_word:
        return by_word[wh]
    if wh == "how" and place is not None:
        follower = tokens[place + 1].low if place + 1 < len(tokens) else ""
        return NUMBER if follower in lists.measures else ANY
    if not head:
        return ANY
    forms = {head[-1], head[-1].removesuffix("s"), head[-1].removesuffix("ies") + "y"}
    types = {
        YEAR: "year" in forms,
        DATE: head[-1] == "time" or forms & lists.date_heads,
        PERSON: any(HEADS.get(form) == NAMED_PERSON for form in forms),
        NATIONALITY: forms & lists.nationality_heads,
        NUMBER: head[-2:] == ("area", "code") or lists.number_heads & {*forms, *head[-2:]},
        PLACE: forms & lists.place_heads,
    }
    return next((name for name, is_of_type in types.items() if is_of_type), ANY)


# Source: reader.md 6.6.

_BE = frozenset(("is", "was", "are", "were", "been", "be"))
_DO = frozenset(("did", "does", "do", "has", "have", "had", "can", "could", "will", "would", "should"))
_DESCRIBED = re.compile(
    r"\b(?:the|an?)\s+((?:[a-z][\w-]*\s+){1,3}?)"
    r"(?:(?:in|on|at|by|from|to|for|of) )?(?:where|that|which|who|whose|whom)\b"
)
_LINKS = frozenset(("of", "behind", "by", "from", "for", "about", "on", "in", "at", "under", "with", "to"))
_SENTENCE_END = re.compile(r"[.?!][\"'”’)]*\s+")
_NOUN_BEFORE = re.compile(r"\b(?:the|an?)\s+((?:[a-z][\w-]*\s+){1,2})$")
_MOST_NOUNS = 4  # chosen: noun phrases of questions are shorter; bounds the look to the left
_FAR = 80  # characters beside a name; chosen: about the clause that it stands in


@dataclass(frozen=True, slots=True)
class Asked:
    """A question's parts."""

    verb: str  # What the answer did or what was done to it, "" if the question is not about its subject.
    is_passive: bool  # Whether it was done to the answer (`who was born`).
    predicate: tuple[str, ...]  # Words that the answer's sentence says.
    direct: tuple[Mention, ...]  # Names that the answer's sentence is about.
    leading: tuple[Mention, ...]  # Names that lead to it over something else.
    inner: tuple[str, ...]  # Words that describe what leads to it (`birthplace`).


def asked_of(question: ParsedQuestion) -> Asked:
    """A question's parts. Cost: O(characters)."""
    named = {word for name in question.names for word in name_tokens(name.surface)}
    described = _described(question)
    content = _without(question.words, STOP_WORDS | named | _WH, question_lists().auxiliaries)
    main = _without(question.main_words, named, question.head)
    predicate = _without(main, described)
    names = [name for name in question.names if name.start or name.key not in clause_lists().prepositions]
    # Where the last sentence of a question begins.
    ends = [match.end() for match in _SENTENCE_END.finditer(question.text)]
    begin = ends[-1] if ends and ends[-1] < len(question.text) else 0
    clause = _DESCRIBED.search(question.text)
    if not predicate and not begin and clause is None:
        predicate, leads = main, [False] * len(names)
    else:
        clause_end = clause.end() if clause else len(question.text)
        leads = [_leads(question, name, begin=begin, clause_end=clause_end) for name in names]
    if not predicate:
        said = filter(frozenset(content).__contains__, name_tokens(question.text[begin:]))
        predicate = _without(said, described, question.head)
    outer = {*predicate, *question.head}
    verb, is_passive = _verb(question, named)
    return Asked(
        verb=verb,
        is_passive=is_passive,
        predicate=tuple(dict.fromkeys(predicate)),
        direct=tuple(compress(names, map(not_, leads))),
        leading=tuple(compress(names, leads)),
        inner=tuple(dict.fromkeys(_without(content, outer))),
    )


def _without(words: Iterable[str], *excluded: Container[str]) -> list[str]:
    """The words that none of some groups has, in their order."""
    return [word for word in words if not any(word in group for group in excluded)]


def _described(question: ParsedQuestion) -> frozenset[str]:
    """Nouns that stand for what leads to the answer: `the birthplace of NAME`, `the city where`, `NAME's father`."""
    nouns: set[str] = set()
    for match in _DESCRIBED.finditer(question.text):
        nouns.update(word for word in name_tokens(match[1]) if _is_noun(word) and not word.endswith("ed"))
    for name in question.names:
        nouns.update(_nouns_before(name_tokens(question.text[max(0, name.start - _FAR) : name.start])))
        nouns.update(_nouns_of_clause(question, name))
        after = question.text[name.end :]
        if after.startswith(("'s ", "’s ")):
            nouns.update(_nouns_after(name_tokens(after[3:_FAR])))
    return frozenset(nouns)


def _nouns_before(words: Sequence[str]) -> list[str]:
    """Nouns that a name belongs to by `of`, `by` and the like, through several of them."""
    nouns: list[str] = []
    at = len(words) - 1
    while at >= 0:
        while at >= 0 and words[at] in _ARTICLES:
            at -= 1
        if at < 0 or words[at] not in _LINKS:
            break
        found = list(islice(takewhile(_is_noun, reversed(words[:at])), _MOST_NOUNS))
        at -= 1 + len(found)
        if not found or at < 0 or words[at] not in _ARTICLES:
            break
        nouns += found
    return nouns


def _nouns_after(words: Sequence[str]) -> list[str]:
    return list(takewhile(lambda word: _is_noun(word) and not word.endswith("ed"), words[:2]))


def _is_noun(word: str) -> bool:
    lists = clause_lists()
    groups = (_ARTICLES, _WH, STOP_WORDS, lists.prepositions, lists.auxiliaries, lists.verbs)
    return not any(word in group for group in groups)


def _leads(question: ParsedQuestion, name: Mention, *, begin: int, clause_end: int) -> bool:
    """Whether a name only leads to the answer: after a described noun, before `'s`, or in a relative clause."""
    text = question.text
    if text[name.end : name.end + 2] in ("'s", "’s") or name.key in geography().demonyms or name.end <= begin:
        return True
    said = set(name_tokens(name.surface)) - STOP_WORDS
    if _nouns_of_clause(question, name) or (clause_end <= name.start and not said.issubset(question.main_words)):
        return True
    return bool(_nouns_before(name_tokens(text[max(0, name.start - _FAR) : name.start])))


def _nouns_of_clause(question: ParsedQuestion, name: Mention) -> tuple[str, ...]:
    """Nouns that a clause without a pronoun describes: `city` in `the city NAME played for`."""
    noun = _NOUN_BEFORE.search(question.text[max(0, name.start - _FAR) : name.start])
    following = name_tokens(question.text[name.end : name.end + _FAR])
    if noun is None or not following or not (following[0].endswith("ed") or following[0] in clause_lists().verbs):
        return ()
    return tuple(word for word in name_tokens(noun[1]) if _is_noun(word) and not word.endswith("ed"))


def _verb(question: ParsedQuestion, named: Container[str]) -> tuple[str, bool]:
    """The verb whose subject is asked for, and whether it is passive; "" if something else is asked for."""
    words, lists = question.words, clause_lists()
    if question.wh not in ("who", "which", "what") or question.wh not in words:
        return "", False
    # The words after `who` or after the noun of `which` and `what`; no subject is asked for by `in which`.
    at = words.index(question.wh) + 1
    if at > 1 and words[at - 2] in lists.prepositions:
        return "", False
    if question.wh != "who" and question.head:
        while at < len(words) and words[at] != question.head[-1]:
            at += 1
        at += 1
    first, second = [*words[at : at + 2], "", ""][:2]
    is_passive = first in _BE
    verb = second if is_passive else first
    # It is one of the question's main words, of no name, and a participle in the passive.
    is_said = verb in question.main_words and verb not in STOP_WORDS | _ARTICLES | _DO and verb not in named
    if is_passive and not (verb.endswith("ed") or verb in lists.verbs):
        is_said = is_said and any(verb in forms for forms in lists.irregular.values())
    return (verb, is_passive) if is_said else ("", False)
