"""English words as predicates need them: closed classes, verb forms, and normalised labels of relations (pure).

No tagger: function words are listed, and a dictionary (lemminflect) says which forms a verb has and whether a word can
be anything else. Source: algorithms.md 0.8 (F-REL), decision 0040.
"""

from collections.abc import Sequence
from enum import IntEnum, auto
from functools import lru_cache
from typing import NamedTuple

import lemminflect


class Tag(IntEnum):
    """Word class, or sign, of a token."""

    NAME = auto()
    WORD = auto()  # noun, adjective or verb
    NUMBER = auto()  # numbers and months
    DETERMINER = auto()
    POSSESSIVE = auto()  # its, his
    PRONOUN = auto()  # it, she
    OTHER_PERSON = auto()  # I, you: pronouns that never mean the page's subject
    PREPOSITION = auto()
    RELATIVE = auto()  # who, which, that
    SUBORDINATOR = auto()  # because, while
    ADVERB = auto()
    NEGATION = auto()
    MODAL = auto()
    BE = auto()
    HAVE = auto()
    DO = auto()
    OWNER = auto()  # the ending 's
    COMMA = auto()
    OPEN = auto()  # bracket
    CLOSE = auto()
    AND = auto()
    STOP = auto()  # semicolon, colon, dash


class TaggedWord(NamedTuple):
    """A word in lower case, or a name by its key."""

    text: str
    kind: Tag


_LISTS = {
    Tag.DETERMINER: "a an the this these those some any each every all both another such most many several few",
    Tag.POSSESSIVE: "its his her their",
    Tag.PRONOUN: "he she it they him them",
    Tag.OTHER_PERSON: "i you we me us my your our there who's what how why whom",
    Tag.PREPOSITION: (
        "of in at on for from to with by as into onto over under near about against among between through during "
        "within without across along around behind below above beyond towards toward upon off out up down than after "
        "before since until per via like outside inside alongside despite following including throughout"
    ),
    Tag.RELATIVE: "who which that whose where",
    Tag.SUBORDINATOR: "because while when although though if unless whereas whether so once",
    Tag.ADVERB: (
        "also now then still already again soon later first once twice often always sometimes both just even almost "
        "currently formerly together too very only well there here yet ago back away instead thus hence however "
        "therefore meanwhile perhaps rather quite more later earlier thereafter afterwards therein jointly"
    ),
    Tag.NEGATION: "not never nor neither cannot no",
    Tag.MODAL: "will would can could may might shall should must",
    Tag.BE: "is are was were am be been being",
    Tag.HAVE: "has have had having",
    Tag.DO: "does do did",
    Tag.AND: "and or but & plus",
    Tag.NUMBER: (
        "january february march april june july august september october november december two three four five six "
        "seven eight nine ten hundred"
    ),
}
_KINDS = {word: kind for kind, words in _LISTS.items() for word in words.split()}
_SIGNS = {
    ",": Tag.COMMA,
    **dict.fromkeys("([", Tag.OPEN),
    **dict.fromkeys(")]", Tag.CLOSE),
    **dict.fromkeys((";", ":", "—", "–", "--", "|"), Tag.STOP),
}
NOT_FINITE = frozenset(("be", "been", "being", "having"))
AUXILIARIES = frozenset((Tag.MODAL, Tag.BE, Tag.HAVE, Tag.DO))
_PASSIVE = frozenset(
    [
        "based",
        "located",
        "situated",
        "headquartered",
        "born",
        "known",
        "called",
        "named",
        "held",
        "set",
        "founded",
        "established",
        "formed",
        "released",
        "published",
        "produced",
        "directed",
        "written",
        "created",
        "owned",
        "built",
        "used",
        "made",
        "given",
        "considered",
        "designed",
        "developed",
        "played",
        "recorded",
        "buried",
        "married",
        "elected",
        "appointed",
        "raised",
        "educated",
        "assembled",
        "printed",
        "shipped",
        "divided",
        "composed",
    ]
)
"""Participles that a preposition follows in the passive without an auxiliary (`a firm based in`)."""
_PARTICLES = frozenset(("up", "out", "off", "down"))  # of verbs, more often than prepositions
_MOST_WORDS = 8  # of a label; algorithms.md 0.8 (F-REL)


@lru_cache(maxsize=1 << 15)
def kind_of(word: str) -> Tag:
    """Class of a word in lower case, or of a sign."""
    if kind := _KINDS.get(word) or _SIGNS.get(word):
        return kind
    if word in ("'s", "’s"):
        return Tag.OWNER
    if word[0].isdigit():
        return Tag.NUMBER
    if word.endswith(("n't", "n’t")):
        return Tag.MODAL
    if word.endswith("ly") and "NOUN" not in _classes(word) and "VERB" not in _classes(word):
        return Tag.ADVERB
    return Tag.WORD


@lru_cache(maxsize=1 << 15)
def verb_tags(word: str) -> frozenset[str]:
    """Forms (VB, VBZ, VBD, VBN, VBG) that a word is of a verb; none if it is not a verb."""
    tags: set[str] = set()
    for lemma in lemminflect.getAllLemmas(word, "VERB").get("VERB", ()):
        forms = lemminflect.getAllInflections(lemma, "VERB")
        forms.setdefault("VBN", forms.get("VBD", ()))  # left out where both are the same
        tags.update(tag for tag, spellings in forms.items() if word in spellings)
    return frozenset(tags)


@lru_cache(maxsize=1 << 15)
def _classes(word: str) -> frozenset[str]:
    return frozenset(lemminflect.getAllLemmas(word))


def is_only_verb(word: str) -> bool:
    """Returns whether a word can be nothing but a verb."""
    return _classes(word) == {"VERB"}


def is_noun(word: str) -> bool:
    """Returns whether a word can be a noun."""
    return "NOUN" in _classes(word)


def is_common(word: str) -> bool:
    """Returns whether a capitalised word that begins a sentence may be a common noun: a plural or an -ing form."""
    if word.endswith("ing"):
        return bool(_classes(word))
    lemmas = lemminflect.getAllLemmas(word, "NOUN").get("NOUN", ())
    return bool(lemmas) and word not in lemmas


def is_adjective(word: str) -> bool:
    """Returns whether a word can be an adjective."""
    return "ADJ" in _classes(word)


def is_passive(word: str, following: str) -> bool:
    """Returns whether a participle without an auxiliary is passive before this word."""
    is_followed = following == "by" or (word in _PASSIVE and is_preposition(following) and following not in _PARTICLES)
    return is_followed and "VBN" in verb_tags(word)


def is_preposition(word: str) -> bool:
    """Returns whether a word is a preposition."""
    return bool(word) and kind_of(word) is Tag.PREPOSITION


@lru_cache(maxsize=1 << 14)
def third_person(word: str) -> str:
    """The present tense of a verb, third person singular: `supplies` of `supplied`."""
    lemmas = lemminflect.getAllLemmas(word, "VERB").get("VERB", ())
    if not lemmas:
        return word
    # `found` is of find and of found: the lemma that it is a past of comes before the one that it is itself.
    lemma = next((lemma for lemma in lemmas if lemma != word), lemmas[0])
    return str((lemminflect.getInflection(lemma, "VBZ") or (word,))[0])


def head_words(group: Sequence[TaggedWord]) -> str:
    """The verb of a label: a participle of a passive, else the present tense; modals and negations stay as written.

    Empty for forms of `to be` alone.
    """
    words = [token for token in group if token.kind is not Tag.ADVERB]
    if any(token.kind in (Tag.MODAL, Tag.NEGATION, Tag.DO) for token in words):
        return " ".join(token.text for token in words)
    lexical = [token.text for token in words if token.kind not in (Tag.BE, Tag.HAVE)]
    kinds = {token.kind for token in words}
    if not lexical:
        return "" if Tag.BE in kinds else "has"
    head, *infinitives = lexical
    if Tag.BE in kinds and "VBN" in verb_tags(head):
        return " ".join(lexical)
    return " ".join((third_person(head), *infinitives))


def content(tokens: Sequence[TaggedWord]) -> list[str]:
    """Words of a label behind its verb: no articles, adverbs, numbers, or prepositions that only a number follows."""
    kept: list[TaggedWord] = []
    for number, token in enumerate(tokens):
        if token.kind is Tag.NUMBER:
            following = tokens[number + 1].kind if number + 1 < len(tokens) else Tag.STOP
            if kept and kept[-1].kind is Tag.PREPOSITION and following not in (Tag.WORD, Tag.NUMBER):
                kept.pop()
        elif token.kind in _CONTENT and token.text not in ("him", "them"):
            kept.append(token)
    return [token.text for token in kept]


_CONTENT = frozenset(
    (
        Tag.WORD,
        Tag.PREPOSITION,
        Tag.AND,
        Tag.RELATIVE,
        Tag.NEGATION,
        Tag.HAVE,
        Tag.BE,
        Tag.MODAL,
        Tag.PRONOUN,
    )
)


def shortened(head: str, words: Sequence[str]) -> str:
    """A label of at most eight words: of a longer one the verb and the last preposition, nothing if that is `of`."""
    if len(words) + len(head.split()) > _MOST_WORDS:
        if not head or not is_preposition(words[-1]) or words[-1] == "of":
            return ""
        words = words[-1:]
    return " ".join(filter(None, (head, *words)))


def reduced(words: Sequence[str]) -> str:
    """The label of the last shortened relative clause in words behind a form of `to be`, else all of them.

    `film directed by` is `directed by`, `company supplying` is `supplies`.
    """
    for index in range(len(words) - 1, 0, -1):
        word, following = words[index], words[index + 1] if index + 1 < len(words) else ""
        if "VBG" in verb_tags(word) and is_only_verb(word) and is_noun(words[index - 1]):
            return shortened(third_person(word), words[index + 1 :])
        if following and "VBN" in verb_tags(word) and is_preposition(following) and is_noun(words[index - 1]):
            return shortened(word, words[index + 1 :])
    return shortened("", words)
