"""A question taken apart: wh-word, head noun, expected type, main clause, what is asked about which names.

Source: reader.md 6.1, 6.6. Decided here: `whose` wants any type; words in -ed and -ly are not head nouns either; words
after a cut relative clause belong to the main clause again; of a question of several sentences the one with the wh-word
counts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import STOP_WORDS, stem_tokens
from polyhop.schemas.names import name_tokens, split_sentences
from polyhop.schemas.text import fold
from polyhop.schemas.types import HEADS
from polyhop.schemas.types import LOCATION as NAMED_LOCATION
from polyhop.schemas.types import PERSON as NAMED_PERSON
from polyhop.worker.reading.word_lists import geography, pattern, senses, words

PERSON, LOCATION, DATE, YEAR, NUMBER, NATIONALITY = "PER", "LOC", "DATE", "YEAR", "NUM", "NAT"
ANY, YES_NO = "ANY", "YES-NO"

_WH = frozenset(("who", "whom", "whose", "what", "which", "when", "where", "how", "why"))
_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_POSSESSIVE = re.compile(r"['’]s?$")
_NAME_OF = re.compile(r"(?:name|term|title)s? of (?:the |an? )?", re.IGNORECASE)
_ARTICLES = frozenset(("a", "an", "the"))
_MOST_HEAD_WORDS = 6  # reader.md 6.1, head noun.
_LATE = 4  # tokens; reader.md 6.1, wh late.
_REACH = 9  # tokens; reader.md 6.1, wh late.
_AND_VERB = re.compile(r" and (?:is|was|has) ")
_NOT_CONTENT = STOP_WORDS | {"name", "called"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a question: folded lower-case form, begin and end in the text."""

    low: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question with the constraints that it puts on its answer."""

    text: str  # The question.
    wh: str  # Its wh-word, "" if it has none.
    head: tuple[str, ...]  # Words of the head noun, lower case, the head last; () if there is none.
    expected: str  # Type of the answer.
    main_words: tuple[str, ...]  # Content words of its main clause, in order.
    main_stems: tuple[str, ...]  # M, the stems of its main clause, in order of the clause.
    names: tuple[Mention, ...]  # Its names, longest first wherever two overlap, left to right.
    name_keys: frozenset[str]  # Keys of all its names, overlapping ones included.
    words: tuple[str, ...]  # Its lower-case words.


@lru_cache(maxsize=1 << 15)
def stem_of(word: str) -> str:
    """Stem of one word, "" for a stop word (ST1)."""
    stems = stem_tokens(word)
    return stems[0] if stems else ""


@lru_cache(maxsize=1 << 13)
def stems_of(text: str) -> frozenset[str]:
    """The stems of a text's content words."""
    return frozenset(stem for word in name_tokens(text) if (stem := stem_of(word)))


@lru_cache(maxsize=1 << 13)
def forms_of(word: str) -> frozenset[str]:
    """Stems of a word and of those that say the same."""
    forms = {word, f"{word}ed", f"{word}d", *senses().get(word, ())}
    return frozenset(stem for form in forms if (stem := stem_of(form)))


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
    wh_index = _wh_index(text, tokens)
    wh = "" if wh_index is None else tokens[wh_index].low
    head = _head(text, tokens, wh_index, names) if wh_index is not None and wh in ("what", "which") else ()
    main = _main_words(text, tokens, wh_index, names)
    return ParsedQuestion(
        text=text,
        wh=wh,
        head=head,
        expected=YES_NO if wh_index is None and _begins_yes_no(tokens) else _expected(wh, wh_index, head, tokens),
        main_words=tuple(main),
        main_stems=tuple(dict.fromkeys(stem for word in main if (stem := stem_of(word)))),
        names=tuple(names),
        name_keys=frozenset(mention.key for mention in found),
        words=tuple(name_tokens(text)),
    )


def _main_words(text: str, tokens: Sequence[Token], wh: int | None, names: Sequence[Mention]) -> list[str]:
    """Content words of the main clause without the names that only say where to begin, in order."""
    # Where the sentence of the wh-word begins.
    ends = [end for _, end in split_sentences(text[: tokens[wh].start])] if wh else []
    begin = max((end for end in ends if text[end - 1] in ".?!"), default=0)
    if sum(begin <= token.start for token in tokens[:wh]) < _LATE:
        is_main = _without_relative_clauses(text, begin)
    else:  # the clause of a late wh-word
        low = tokens[max(0, (wh or 0) - _REACH)].start
        before = text[low : tokens[wh or 0].start]
        begins = [before.rfind(",") + 1]
        begins += [match.end() for match in pattern("relative_clause").finditer(before)]
        begins += [match.start() + 1 for match in _AND_VERB.finditer(before)]
        is_main = bytearray(low + max(begins)).ljust(len(text), b"\1")
    for name in names:
        if _is_dropped(text, name):
            is_main[name.start : name.end] = bytes(name.end - name.start)
    said = " ".join(_POSSESSIVE.sub("", token.low) for token in tokens if is_main[token.start])
    content = [word for word in name_tokens(said) if word not in _NOT_CONTENT]
    return content or [word for word in name_tokens(text) if word not in STOP_WORDS]


def _without_relative_clauses(text: str, begin: int) -> bytearray:
    """1 for each character of a question outside its relative clauses. Cost: O(characters)."""
    is_main = bytearray(begin).ljust(len(text), b"\1")
    clause = pattern("relative_clause").search(text, begin)
    while clause is not None:
        over = pattern("clause_end").search(text, clause.end())
        end = len(text) if over is None else over.start() if over[0] in ",?;" else over.end()
        is_main[clause.start() : end] = bytes(end - clause.start())
        clause = pattern("relative_clause").search(text, end)
    return is_main


def _is_dropped(text: str, name: Mention) -> bool:
    if text.startswith(("'s", "’s"), name.end):
        return True
    before = name_tokens(text[max(0, name.start - 24) : name.start])
    if before and before[-1] == "the":
        before.pop()
    return bool(before) and before[-1] in words("name_links")


def _begins_yes_no(tokens: Sequence[Token]) -> bool:
    """Returns whether a question begins with an auxiliary and has no asking `what` or `which` later on."""
    auxiliaries = words("auxiliaries")
    if not tokens or tokens[0].low not in auxiliaries:
        return False
    pairs = zip(tokens, [*[token.low for token in tokens[1:]], ""], strict=True)
    return not any(token.low in ("what", "which") and following not in auxiliaries for token, following in pairs)


def _wh_index(text: str, tokens: Sequence[Token]) -> int | None:
    """Index of the wh-word that asks; None without one and in yes-no questions."""
    indices = [index for index, token in enumerate(tokens) if token.low in _WH or token.low == "among"]
    if indices and indices[0] < 3:
        return indices[0]
    if not indices or _begins_yes_no(tokens):
        return None
    # If the first one does not ask: one at the end, else one that begins a sentence, else the last `what` or `which`.
    for index in indices:
        if index >= len(tokens) - 2:
            return index
    for index in indices:
        # only the text between two words can end with a full stop, and all before would be read again for each word
        if text[tokens[index - 1].end : tokens[index].start].rstrip()[-1:] in (".", "?", "!"):
            return index
    return max(indices, key=lambda index: (tokens[index].low == "what", tokens[index].low == "which", index))


def _head(text: str, tokens: Sequence[Token], wh: int, names: Sequence[Mention]) -> tuple[str, ...]:
    # Where the noun after a wh-word begins: past auxiliaries, articles, `most recent` and `name of`.
    start = wh + 1
    while start < len(tokens) and (tokens[start].low in words("auxiliaries") or tokens[start].low in _ARTICLES):
        start += 1
    if [token.low for token in tokens[start : start + 2]] == ["most", "recent"]:
        start += 1
    skipped = _NAME_OF.match(text, tokens[start].start) if start < len(tokens) else None
    if skipped:
        start = next((n for n, token in enumerate(tokens) if token.start >= skipped.end()), len(tokens))
    head: list[str] = []
    for token, before in zip(tokens[start:], [None, *tokens[start:]], strict=False):
        is_name = any(name.start <= token.start < name.end for name in names)
        is_apart = before is not None and text[before.end : token.start].strip()
        # It ends before a verb, too, which may only be its first word.
        verbs = words("head_verbs") if head else ()
        groups = (STOP_WORDS, words("auxiliaries"), words("prepositions"), verbs)
        if len(head) == _MOST_HEAD_WORDS or is_name or is_apart or any(token.low in group for group in groups):
            break
        head.append(_POSSESSIVE.sub("", token.low))
    while len(head) > 1 and (head[-1] in words("head_verbs") or head[-1].endswith(("ed", "ly"))):
        head.pop()
    return tuple(head)


def _expected(wh: str, wh_index: int | None, head: tuple[str, ...], tokens: Sequence[Token]) -> str:
    by_word = {"who": PERSON, "whom": PERSON, "when": DATE, "where": LOCATION}
    if wh in by_word:
        return by_word[wh]
    if wh == "how" and wh_index is not None:
        follower = tokens[wh_index + 1].low if wh_index + 1 < len(tokens) else ""
        return NUMBER if follower in words("measures") else ANY
    if not head:
        return ANY
    forms = {head[-1], head[-1].removesuffix("s"), head[-1].removesuffix("ies") + "y"}
    kinds = {HEADS.get(form) for form in forms}
    types = {
        YEAR: "year" in forms,
        DATE: head[-1] == "time" or forms & words("date_heads"),
        PERSON: NAMED_PERSON in kinds,
        NATIONALITY: forms & words("nationality_heads"),
        NUMBER: head[-2:] == ("area", "code") or words("number_heads") & {*forms, *head[-2:]},
        LOCATION: NAMED_LOCATION in kinds,
    }
    return next((name for name, is_of_type in types.items() if is_of_type), ANY)


# Source: reader.md 6.6.

_DESCRIBED = re.compile(
    r"\b(?:the|an?)\s+((?:[a-z][\w-]*\s+){1,3}?)"
    r"(?:(?:in|on|at|by|from|to|for|of) )?(?:where|that|which|who|whose|whom)\b"
)
_SENTENCE_END = re.compile(r"[.?!][\"'”’)]*\s+")
_MOST_NOUNS = 4  # chosen: noun phrases of questions are shorter; bounds the look to the left
_FAR = 80  # characters before a name; chosen: about the length of its clause


@dataclass(frozen=True, slots=True)
class QuestionParts:
    """A question's parts."""

    predicate: tuple[str, ...]  # Words that the answer's sentence says.
    direct: tuple[Mention, ...]  # Names that the answer's sentence is about; others lead to it over something else.
    is_one_step: bool  # Whether nothing else is described that leads to it (`the birthplace of NAME`).


def asked_of(question: ParsedQuestion) -> QuestionParts:
    """A question's parts. Cost: O(characters)."""
    named = {word for name in question.names for word in name_tokens(name.surface)}
    described = _described(question)
    main = [word for word in question.main_words if word not in named and word not in question.head]
    predicate = [word for word in main if word not in described]
    # Where the last sentence of a question begins.
    ends = [match.end() for match in _SENTENCE_END.finditer(question.text)]
    begin = ends[-1] if ends and ends[-1] < len(question.text) else 0
    clause = _DESCRIBED.search(question.text)
    names = [name for name in question.names if name.start or name.key not in words("prepositions")]
    if predicate or begin or clause:
        end = clause.end() if clause else len(question.text)
        direct = [name for name in names if not _leads(question, name, begin=begin, clause_end=end)]
    else:
        predicate, direct = main, names
    groups = (STOP_WORDS, _WH, words("auxiliaries"), named)
    content = {word for word in question.words if not any(word in group for group in groups)}
    if not predicate:
        said = name_tokens(question.text[begin:])
        predicate = [word for word in said if word in content - described and word not in question.head]
    is_one_step = len(direct) == len(names) and content.issubset({*predicate, *question.head})
    return QuestionParts(tuple(dict.fromkeys(predicate)), tuple(direct), is_one_step)


def _described(question: ParsedQuestion) -> frozenset[str]:
    """Nouns that stand for what leads to the answer: `the birthplace of NAME`, `the city where`."""
    nouns: set[str] = set()
    for match in _DESCRIBED.finditer(question.text):
        nouns.update(word for word in name_tokens(match[1]) if _is_noun(word) and not word.endswith("ed"))
    for name in question.names:
        nouns.update(_nouns_before(question, name))
    return frozenset(nouns)


def _nouns_before(question: ParsedQuestion, name: Mention) -> list[str]:
    """Nouns that a name belongs to by `of`, `by` and the like, through several of them."""
    before = name_tokens(question.text[max(0, name.start - _FAR) : name.start])
    nouns: list[str] = []
    while before:
        while before and before[-1] in _ARTICLES:
            before.pop()
        if not before or before.pop() not in words("links"):
            break
        found = list(takewhile(_is_noun, reversed(before[-_MOST_NOUNS:])))
        del before[len(before) - len(found) :]
        if not found or not before or before[-1] not in _ARTICLES:
            break
        nouns += found
    return nouns


def _is_noun(word: str) -> bool:
    groups = (_ARTICLES, _WH, STOP_WORDS, words("prepositions"), words("auxiliaries"))
    return not any(word in group for group in groups)


def _leads(question: ParsedQuestion, name: Mention, *, begin: int, clause_end: int) -> bool:
    """Returns whether a name only leads to the answer: after a described noun, before `'s`, or in a relative clause."""
    text = question.text
    if text.startswith(("'s", "’s"), name.end) or name.key in geography().demonyms or name.end <= begin:
        return True
    said = set(name_tokens(name.surface)) - STOP_WORDS
    in_clause = clause_end <= name.start and not said.issubset(question.main_words)
    return in_clause or bool(_nouns_before(question, name))
