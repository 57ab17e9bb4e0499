"""What a question asks about its answer, in parts: its verb, the names it is about, and what only leads to it.

`Which river flows through the birthplace of Ada Lovelace?` says `flows` of the answer; `birthplace` and `Ada Lovelace`
only lead there. Looks at no passage. Source: reader.md 6.6.
"""

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, islice, takewhile
from operator import not_

from polyhop.schemas.graph import Mention
from polyhop.schemas.names import STOP_WORDS, name_tokens
from polyhop.worker.reading.parsing import ParsedQuestion
from polyhop.worker.reading.word_lists import clause_lists, geography, question_lists

_BE = frozenset(("is", "was", "are", "were", "been", "be"))
_DO = frozenset(("did", "does", "do", "has", "have", "had", "can", "could", "will", "would", "should"))
_WH = frozenset(("who", "whom", "whose", "what", "which", "when", "where", "how", "why"))
_ARTICLES = frozenset(("the", "a", "an"))
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
    """A question's parts.

    Attributes:
        verb: What the answer did or what was done to it, "" if the question is not about its subject.
        is_passive: Whether it was done to the answer (`who was born`).
        predicate: Words that the answer's sentence says.
        direct: Names that the answer's sentence is about.
        leading: Names that lead to it over something else.
        inner: Words that describe what leads to it (`birthplace`).
    """

    verb: str
    is_passive: bool
    predicate: tuple[str, ...]
    direct: tuple[Mention, ...]
    leading: tuple[Mention, ...]
    inner: tuple[str, ...]


@lru_cache(maxsize=256)
def _words(text: str) -> tuple[str, ...]:
    return tuple(name_tokens(text))


def asked_of(question: ParsedQuestion) -> Asked:
    """A question's parts. Cost: O(characters)."""
    named = _words_of_names(question)
    described = _described(question)
    content = _without(question.words, STOP_WORDS | named | _WH, question_lists().auxiliaries)
    main = _without(question.main_words, named, question.head)
    predicate = _without(main, described)
    names = _proper_names(question)
    begin = _asking(question)
    clause = _DESCRIBED.search(question.text)
    if not predicate and not begin and clause is None:
        predicate, leads = main, [False] * len(names)
    else:
        clause_end = clause.end() if clause else len(question.text)
        leads = [_leads(question, name, begin=begin, clause_end=clause_end) for name in names]
    if not predicate:
        said = filter(frozenset(content).__contains__, _words(question.text[begin:]))
        predicate = _without(said, described, question.head)
    outer = {*predicate, *question.head}
    verb, is_passive = _verb(question)
    return Asked(
        verb=verb,
        is_passive=is_passive,
        predicate=tuple(dict.fromkeys(predicate)),
        direct=tuple(compress(names, map(not_, leads))),
        leading=tuple(compress(names, leads)),
        inner=tuple(dict.fromkeys(_without(content, outer))),
    )


def _words_of_names(question: ParsedQuestion) -> set[str]:
    return {word for name in question.names for word in name_tokens(name.surface)}


def _proper_names(question: ParsedQuestion) -> list[Mention]:
    """The question's names, but not a preposition that has its capital from the beginning of the sentence."""
    return [name for name in question.names if name.start or name.key not in clause_lists().prepositions]


def _without(words: Iterable[str], *excluded: Container[str]) -> list[str]:
    """The words that none of some groups has, in their order."""
    return [word for word in words if not any(word in group for group in excluded)]


def _asking(question: ParsedQuestion) -> int:
    """Where the last sentence of a question begins."""
    ends = [match.end() for match in _SENTENCE_END.finditer(question.text)]
    return ends[-1] if ends and ends[-1] < len(question.text) else 0


def _described(question: ParsedQuestion) -> frozenset[str]:
    """Nouns that stand for what leads to the answer: `the birthplace of NAME`, `the city where`, `NAME's father`."""
    nouns: set[str] = set()
    for match in _DESCRIBED.finditer(question.text):
        nouns.update(word for word in _words(match[1]) if _is_noun(word) and not word.endswith("ed"))
    for name in question.names:
        nouns.update(_nouns_before(_words(question.text[max(0, name.start - _FAR) : name.start])))
        nouns.update(_nouns_of_clause(question, name))
        behind = question.text[name.end :]
        if behind.startswith(("'s ", "’s ")):
            nouns.update(_nouns_after(_words(behind[3:_FAR])))
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
        found = _nouns_ending(words[:at])
        at -= 1 + len(found)
        if not found or at < 0 or words[at] not in _ARTICLES:
            break
        nouns += found
    return nouns


def _nouns_ending(words: Sequence[str]) -> list[str]:
    """Nouns that some words end with, from right to left."""
    return list(islice(takewhile(_is_noun, reversed(words)), _MOST_NOUNS))


def _nouns_after(words: Sequence[str]) -> list[str]:
    nouns = []
    for word in words[:2]:
        if not _is_noun(word) or word.endswith("ed"):
            break
        nouns.append(word)
    return nouns


def _is_noun(word: str) -> bool:
    lists = clause_lists()
    return word not in _ARTICLES | _WH | STOP_WORDS and word not in lists.prepositions | lists.auxiliaries | lists.verbs


def _leads(question: ParsedQuestion, name: Mention, *, begin: int, clause_end: int) -> bool:
    """Whether a name only leads to the answer: after a described noun, before `'s`, or in a relative clause."""
    text = question.text
    if text[name.end : name.end + 2] in ("'s", "’s") or name.key in geography().demonyms:
        return True
    if name.end <= begin:
        return True
    if _is_described_by(question, name):
        return True
    said = set(name_tokens(name.surface)) - STOP_WORDS
    is_outside = not said.issubset(question.main_words)
    if is_outside and clause_end <= name.start:
        return True
    return bool(_nouns_before(_words(text[max(0, name.start - _FAR) : name.start])))


def _is_described_by(question: ParsedQuestion, name: Mention) -> bool:
    """Whether a name begins a clause without a relative word: `the city Ann Roe played for`."""
    return bool(_nouns_of_clause(question, name))


def _nouns_of_clause(question: ParsedQuestion, name: Mention) -> tuple[str, ...]:
    noun = _NOUN_BEFORE.search(question.text[max(0, name.start - _FAR) : name.start])
    behind = _words(question.text[name.end : name.end + _FAR])
    if noun is None or not behind or not (behind[0].endswith("ed") or behind[0] in clause_lists().verbs):
        return ()
    return tuple(word for word in _words(noun[1]) if _is_noun(word) and not word.endswith("ed"))


def _verb(question: ParsedQuestion) -> tuple[str, bool]:
    """The verb whose subject is asked for, and whether it is passive; "" if something else is asked for."""
    following = _after_subject(question)
    if not following or following[0] in _DO:
        return "", False
    is_passive = following[0] in _BE
    verb = next(iter(following[1:]), "") if is_passive else following[0]
    is_said = _is_verb(question, verb) and (not is_passive or _is_participle(verb))
    return (verb, is_passive) if is_said else ("", False)


def _after_subject(question: ParsedQuestion) -> Sequence[str]:
    """The words after `who` or after the noun of `which` and `what`; none where these are no subject (`in which`)."""
    words = question.words
    if question.wh not in ("who", "which", "what") or question.wh not in words:
        return ()
    at = words.index(question.wh) + 1
    if at > 1 and words[at - 2] in clause_lists().prepositions:
        return ()
    if question.wh != "who" and question.head:
        while at < len(words) and words[at] != question.head[-1]:
            at += 1
        at += 1
    return words[at:]


def _is_verb(question: ParsedQuestion, word: str) -> bool:
    """Whether a word where a verb is expected is one of the question's main words, and of no name."""
    if word in STOP_WORDS | _ARTICLES or word not in question.main_words:
        return False
    return word not in _words_of_names(question)


def _is_participle(word: str) -> bool:
    lists = clause_lists()
    return word.endswith("ed") or word in lists.verbs or any(word in forms for forms in lists.irregular.values())
