"""Clauses of English sentences, read from left to right: subject, verb group, objects (pure).

The page's subject, its title, is what pronouns, `the project` and noun phrases without a name mean. Source:
algorithms.md 0.8 (F-REL), decision 0040.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from polyhop.schemas import types
from polyhop.schemas.graph import Mention
from polyhop.tasks.extraction.predicates import (
    AUXILIARIES,
    NOT_FINITE,
    Tag,
    TaggedWord,
    content,
    head_words,
    is_adjective,
    is_common,
    is_noun,
    is_only_verb,
    is_passive,
    is_preposition,
    kind_of,
    reduced,
    shortened,
    third_person,
    verb_tags,
)
from polyhop.tasks.extraction.rows import Relation


@dataclass(slots=True)
class PageNames:
    """Names of a page that pronouns and noun phrases may mean: its title first, then the latest subject.

    `types` has the type of each key where one is known; `nouns` are those that mean the title (`project`).
    """

    title_keys: Sequence[str]
    types: Mapping[str, str | None]
    nouns: set[str] = field(default_factory=set)
    topic: str | None = None

    def __post_init__(self) -> None:
        if self.title_keys:
            words = self.title_keys[0].split()
            self.nouns.update(word for word in words if is_noun(word) and len(words) <= _MOST_WORDS_OF_TITLE)
            self.nouns.update(_NOUNS_OF_TYPES.get(self.types.get(self.title_keys[0]), ()))

    @property
    def title(self) -> str | None:
        """The title's first key."""
        return self.title_keys[0] if self.title_keys else None

    @property
    def thing(self) -> str | None:
        """The title's first key if the title is surely no person: `the pumps` may be a part of it."""
        if self.title is None or self.types.get(self.title) == types.PERSON:
            return None
        return self.title if self.title in self.types or any(map(is_noun, self.title.split())) else None

    def meant_by(self, pronoun: str) -> str | None:
        """The key that a pronoun means: the latest subject if its type allows it, else the title."""
        is_person = pronoun in _OF_PERSONS
        for key in (self.topic, self.title):
            kind = self.types.get(key) if key is not None else None
            if pronoun in _OF_MANY:
                if kind == types.ORGANIZATION:
                    return key
            elif key is not None and (kind is None or (kind == types.PERSON) == is_person):
                return key
        return None if pronoun in _OF_MANY else self.title


_MOST_WORDS_OF_TITLE = 4  # that say what it is; chosen: longer titles are sentences
_OF_PERSONS = frozenset(["he", "she", "him", "his", "her"])
_OF_MANY = frozenset(["they", "them", "their"])
_NOUNS_OF_TYPES: Mapping[str | None, Sequence[str]] = {
    types.ORGANIZATION: [
        "company",
        "firm",
        "group",
        "organisation",
        "organization",
        "team",
        "club",
        "party",
        "band",
        "agency",
        "association",
    ],
    types.LOCATION: ["city", "town", "village", "site", "plant", "river", "region", "island", "country", "district"],
    types.WORK: ["film", "movie", "book", "novel", "album", "song", "series", "play", "show", "game"],
    types.EVENT: ["war", "battle", "festival", "tournament", "event"],
    None: ["company", "firm", "project", "programme", "program", "team", "site", "plant"],
}

_TOKEN = re.compile(r"['’]s\b|n['’]t\b|[^\W\d_]+(?:['’-][^\W\d_]+)*|\d[\w.,:-]*\w|\d|--|[,;:()\[\]|—–]")


def tokens_of(text: str, start: int, end: int, names: Sequence[Mention], title_keys: Sequence[str]) -> list[TaggedWord]:
    """Words, signs and names of a sentence; brackets without a name are left out."""
    tokens: list[TaggedWord] = []
    greeting = _GREETING.match(text, start, end)
    at = greeting.end() if greeting else start
    for name in (name for name in names if name.start >= at):
        tokens += _words(text[at : name.start])
        is_first = not any(token.kind is not Tag.COMMA for token in tokens)
        if is_first and name.key not in title_keys and (kind := _kind_at_start(name.key, text[name.end : end])):
            tokens.append(TaggedWord(name.key, kind))
        else:
            tokens.append(TaggedWord(name.key, Tag.NAME))
        at = max(at, name.end)
    tokens += _words(text[at:end])
    return tokens


_GREETING = re.compile(
    r"\s*(?:(?:Dear|Hi|Hello|Hey)\b[^,!\n]*[,!\n]"
    r"|(?:(?:Kind|Best|Warm) )?(?:Regards|regards|wishes|Thanks|Cheers)\b.*)",
    re.DOTALL,
)
"""The greeting before a letter's first sentence, and all from its last words on."""


def _kind_at_start(word: str, behind: str) -> Tag | None:
    """Class of a word that is capitalised only because it begins a sentence (`Sensors are`, `Based in`); else None."""
    if " " in word:
        return None
    if (kind := kind_of(word)) is not Tag.WORD:
        return kind
    following = _NEXT_WORD.match(behind)
    is_joined = following is not None and (
        (is_adjective(word) and is_noun(following[1])) or ("VBN" in verb_tags(word) and is_preposition(following[1]))
    )
    return Tag.WORD if is_common(word) or is_joined else None


_NEXT_WORD = re.compile(r" ([a-z]+)")
_BRACKETS = re.compile(r"[(\[][^()\[\]]*[)\]]")


def _words(gap: str) -> list[TaggedWord]:
    if "(" in gap or "[" in gap:
        gap = _BRACKETS.sub(" ", gap)
    return [*map(_tagged, _TOKEN.findall(gap))]


@lru_cache(maxsize=1 << 15)
def _tagged(word: str) -> TaggedWord:
    low = word.lower()
    is_month = low in ("may", "march", "august") and word[0].isupper()
    return TaggedWord(low, Tag.NUMBER if is_month else kind_of(low))


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """The names that a phrase means, and the nouns that say what of them: `pumps` of the project."""

    keys: tuple[str, ...]
    noun: str = ""


_BEGINS_OBJECT = frozenset((Tag.DETERMINER, Tag.POSSESSIVE, Tag.NAME))
_FINITE = frozenset(("VBZ", "VBD"))
_FINITE_OR_BASE = frozenset(("VBZ", "VBD", "VB"))
_BREAKS = frozenset((Tag.COMMA, Tag.AND))
_CLOSES = frozenset((Tag.STOP, Tag.SUBORDINATOR))
_BEFORE_NOUNS = frozenset((Tag.DETERMINER, Tag.POSSESSIVE, Tag.PREPOSITION, Tag.OWNER, Tag.NEGATION))
_PERSONS = frozenset((Tag.PRONOUN, Tag.OTHER_PERSON))
_IN_PHRASE = frozenset(
    (
        *(
            Tag.DETERMINER,
            Tag.POSSESSIVE,
            Tag.WORD,
            Tag.NAME,
            Tag.OWNER,
            Tag.ADVERB,
            Tag.NUMBER,
            Tag.PRONOUN,
        ),
        Tag.OTHER_PERSON,
    )
)
_GIVES_OFFICE = frozenset(
    ["appoints", "chooses", "names", "elects", "selects", "hires", "nominates", "crowns", "installs", "proclaims"]
)
_LONGEST_PHRASE = 8  # tokens that are looked at for the verb of a clause; chosen
_LONGEST_SUBJECT = 24  # tokens before a verb; chosen, so that time stays linear
_LONGEST_BRACKET = 60  # tokens; chosen, likewise
_LONGEST_GROUP = 12  # tokens of a verb group; chosen, likewise


class Clauses:
    """Reads the clauses of one sentence from left to right: subject, verb, objects."""

    def __init__(self, tokens: Sequence[TaggedWord], page: PageNames) -> None:
        self._tokens = tokens
        self._page = page
        self._found: list[Relation] = []
        self._phrase: list[TaggedWord] = []  # tokens since the clause began, or since its verb or last object
        self._subject: NounPhrase | None = None
        self._main: NounPhrase | None = None  # of the clause that a relative clause interrupts
        self._verb: list[TaggedWord] = []
        self._object: str | None = None
        self._label = ""
        self._direct: Sequence[TaggedWord] = ()  # tokens between the verb and its first object
        self._is_subordinate = False
        self._is_named = False  # by a name, not by a pronoun
        self._topic: str | None = None  # subject of the sentence
        self._learned: set[str] = set()  # nouns that mean the title from the next sentence on

    def read(self) -> list[Relation]:
        """Relations in text order."""
        index = self._read_first_participle()
        while index < len(self._tokens):
            index = self._read_token(index, self._tokens[index])
            if len(self._phrase) > 2 * _LONGEST_SUBJECT:
                del self._phrase[:_LONGEST_SUBJECT]  # of text without a verb, such as lists of names
        self._end()
        self._page.topic = self._topic or self._page.topic
        self._page.nouns |= self._learned
        return self._found

    def _read_token(self, index: int, token: TaggedWord) -> int:
        """Reads a name, a verb group, a bracket or a word; the index behind it."""
        if token.kind is Tag.NAME:
            self._read_name(index)
        elif token.kind in AUXILIARIES or token.kind is Tag.WORD:
            return self._read_word(index, token)
        elif token.kind is Tag.OPEN:
            return self._read_bracket(index)
        elif token.kind in _CLOSES or (token.text in _MAY_SUBORDINATE and self._clause_begins(index + 1)):
            self._close()
            self._is_subordinate = token.kind is not Tag.STOP
        elif (token.kind is Tag.PRONOUN or token.text == "her") and self._verb and self._means_title(index):
            self._read_object(self._page.meant_by(token.text))
        else:
            self._phrase.append(token)
        return index + 1

    def _read_word(self, index: int, token: TaggedWord) -> int:
        tags = verb_tags(token.text)
        if tags or token.kind in AUXILIARIES:
            if self._is_finite(index, in_predicate=bool(self._verb)) and self._begins_predicate(index):
                return self._read_verb(index)
            if "VBN" in tags and self._continues_passive(index):
                return self._read_verb(index, [verb for verb in self._verb if verb.kind is Tag.BE][-1:])
            if "VBG" in tags and self._begins_participle(index):
                return self._read_verb(index)
        if self._verb and token.text in self._page.nouns and self._means_title(index):
            self._phrase.pop()
            self._read_object(self._page.title)
        else:
            self._phrase.append(token)
        return index + 1

    def _close(self) -> None:
        self._end()
        self._phrase, self._verb, self._object, self._label = [], [], None, ""
        self._subject = self._main = None
        self._is_subordinate = False

    def _end(self) -> None:
        """Reads what a clause says of the page's subject at its end: `X is its chair`, `X makes the housings`."""
        if not (self._verb and self._subject) or self._subject.noun or self._object is not None:
            return
        head = head_words(self._verb)
        if head and not self._is_named:
            return
        owners = [number for number, token in enumerate(self._phrase) if token.kind is Tag.POSSESSIVE]
        if head:
            owners = [number for number, token in enumerate(self._phrase[:1]) if token.text == "the"]
        if not owners:
            return
        first = self._phrase[owners[0]]
        nouns = self._phrase[owners[0] + 1 :]
        owner = self._page.thing if first.text == "the" else self._page.meant_by(first.text)
        if owner is not None and 0 < len(nouns) <= 3 and all(token.kind is Tag.WORD for token in nouns):
            self._state(self._subject, " ".join(filter(None, (head, *content(nouns), "of"))), owner)

    def _read_bracket(self, index: int) -> int:
        """Reads `X (born in Y)`, `X (head of Y)`; the index behind the bracket."""
        last = min(len(self._tokens), index + _LONGEST_BRACKET)
        ends = [number for number in range(index, last) if self._tokens[number].kind is Tag.CLOSE]
        if not ends:
            return index + 1
        inside = self._tokens[index + 1 : ends[0]]
        names = [number for number, token in enumerate(inside) if token.kind is Tag.NAME]
        before = self._tokens[index - 1] if index else None
        if names and before is not None and before.kind is Tag.NAME:
            self._state_nouns(before.text, [_COMMA, *inside[: names[0]]], inside[names[0]].text)
        return ends[0] + 1

    def _read_first_participle(self) -> int:
        """Reads `Born in X, she`: what it says of the title; the index behind it."""
        if len(self._tokens) < 2 or self._page.title is None:
            return 0
        first, second = self._tokens[:2]
        if first.kind is not Tag.WORD or "VBN" not in verb_tags(first.text) or second.kind is not Tag.PREPOSITION:
            return 0
        self._subject = NounPhrase((self._page.title,))
        return self._read_verb(0, [TaggedWord("is", Tag.BE)])

    def _begins_participle(self, index: int) -> bool:
        """Returns whether an -ing form goes on with what the subject does: `was directed by X, starring`."""
        token = self._tokens[index]
        if self._subject is None or self._object is None:
            return False
        is_behind = not self._phrase or self._phrase[-1].kind in _BREAKS
        return is_behind and is_only_verb(token.text)

    def _continues_passive(self, index: int) -> bool:
        """Returns whether a participle continues a passive: `was written by X and sent to`."""
        if not (self._verb and self._phrase) or self._phrase[-1].kind not in _BREAKS:
            return False
        after = self._adjacent(index, 1)
        is_passive_group = any(verb.kind is Tag.BE for verb in self._verb) and head_words(self._verb) != ""
        return is_passive_group and after is not None and after.kind is Tag.PREPOSITION

    # Verbs

    def _is_finite(self, index: int, *, in_predicate: bool) -> bool:
        """Returns whether a finite verb begins here."""
        token = self._tokens[index]
        if token.kind in AUXILIARIES:
            return token.text not in NOT_FINITE
        tags = verb_tags(token.text) if token.kind is Tag.WORD else frozenset()
        if not tags:
            return False
        before, after = self._adjacent(index, -1), self._adjacent(index, 1)
        if before is None or before.kind in _BEFORE_NOUNS or is_passive(token.text, after.text if after else ""):
            return False
        if not tags & _FINITE:
            return "VB" in tags and self._is_plural(before, after, in_predicate=in_predicate)
        is_strong = before.kind in (Tag.NAME, Tag.RELATIVE) or before.kind in _PERSONS
        if is_only_verb(token.text):
            return is_strong or not in_predicate or before.kind in _BREAKS or "VBN" not in tags
        if in_predicate and not is_strong:
            is_same_tense = bool(self._verb and tags & verb_tags(self._verb[0].text) & _FINITE)
            begins_object = after is not None and after.kind in _BEGINS_OBJECT and before.kind is Tag.AND
            ends_relative = before.kind is Tag.COMMA and self._main is not None
            return before.kind in _BREAKS and (is_same_tense or begins_object or ends_relative)
        return before.kind not in _BREAKS and before.kind is not Tag.NUMBER and not self._verb_follows(index + 1)

    def _verb_follows(self, index: int) -> bool:
        """Returns whether another word of this phrase is surely its verb, or a noun's ending follows."""
        for token in self._tokens[index : index + _LONGEST_PHRASE]:
            if token.kind in AUXILIARIES or token.kind is Tag.OWNER:
                return token.text not in NOT_FINITE
            if token.kind not in (Tag.WORD, Tag.ADVERB):
                return False
            if is_only_verb(token.text) and verb_tags(token.text) & _FINITE_OR_BASE:
                return True
        return False

    def _is_plural(self, before: TaggedWord, after: TaggedWord | None, *, in_predicate: bool) -> bool:
        """Returns whether a base form is finite here: after a plural, before an object."""
        if in_predicate or after is None or after.kind in AUXILIARIES or after.kind in _BREAKS:
            return False
        if before.kind is Tag.NAME:
            return any(token.kind is Tag.AND for token in self._phrase) and after.kind is not Tag.WORD
        is_plural = before.text in ("they", "who") or (before.kind is Tag.WORD and is_common(before.text))
        return is_plural and after.kind in (
            Tag.DETERMINER,
            Tag.POSSESSIVE,
            Tag.NAME,
            Tag.PREPOSITION,
        )

    def _adjacent(self, index: int, step: int) -> TaggedWord | None:
        """The next token in a direction that is neither an adverb nor `not` or `never`."""
        index += step
        while 0 <= index < len(self._tokens):
            token = self._tokens[index]
            if token.kind is not Tag.ADVERB and (token.kind is not Tag.NEGATION or token.text == "no"):
                return token
            index += step
        return None

    def _begins_predicate(self, index: int) -> bool:
        """Takes up the subject of the verb here; false if the verb is one of the words of a phrase."""
        phrase = [token for token in self._phrase if token.kind not in (Tag.ADVERB, Tag.NEGATION)]
        if not self._verb:
            self._main = None
            if phrase and phrase[-1].text in ("who", "which", "that"):
                self._main = self._subject_of([*phrase[:-1], _COMMA])
            self._subject = self._main or self._subject_of(phrase)
            self._is_named = any(token.kind is Tag.NAME for token in phrase)
            return True
        last = phrase[-1].kind if phrase else None
        if last is None or phrase[0].kind is Tag.OWNER:
            return self._follows_object(phrase)
        if last in _BREAKS:
            self._subject = self._main or self._subject
            return self._subject is not None
        if last is Tag.RELATIVE:
            return self._follows_relative(phrase)
        breaks = [number for number, token in enumerate(phrase) if token.kind in _BREAKS]
        if not breaks and self._tokens[index].kind not in AUXILIARIES:
            return False
        self._subject, self._main = self._subject_of(phrase[breaks[-1] + 1 if breaks else 0 :]), None
        return True

    def _follows_object(self, phrase: Sequence[TaggedWord]) -> bool:
        """The object itself, or what belongs to it, is the subject of what was said: `X said Y left`."""
        if self._object is None:
            return False
        nouns = content([token for token in phrase if token.kind is Tag.WORD])
        self._subject, self._main = NounPhrase((self._object,), " ".join(nouns[-2:])), None
        return True

    def _follows_relative(self, phrase: Sequence[TaggedWord]) -> bool:
        """`X, who left`, `X is a club that plays`; of other nouns the verb is one of their words."""
        words = [token for token in phrase[:-1] if token.kind is not Tag.COMMA]
        relative, is_copula = phrase[-1].text, not head_words(self._verb)
        if relative in ("where", "whose"):
            self._subject = None
            return True
        if self._object is None or words:
            return self._subject is not None and is_copula
        if is_copula and self._subject is not None:
            is_of_subject = relative == "that" or len(phrase) == 1
            if relative == "who":
                is_of_subject = self._page.types.get(self._object) != types.PERSON
            if is_of_subject:
                return True
        if self._main is None:
            self._main = self._subject
        self._subject = NounPhrase((self._object,))
        return True

    def _read_verb(self, index: int, auxiliaries: Sequence[TaggedWord] = ()) -> int:
        """Takes up a verb group, behind auxiliaries that it shares with an earlier one; the index behind it."""
        denied = [token for token in self._tokens[max(0, index - 1) : index] if token.kind is Tag.NEGATION]
        group = [*auxiliaries, *denied, self._tokens[index]]
        index += 1
        is_open = group[-1].kind in AUXILIARIES
        while index < len(self._tokens) and len(group) < _LONGEST_GROUP:
            token = self._tokens[index]
            tags = verb_tags(token.text) if token.kind is Tag.WORD else frozenset()
            if token.kind in (Tag.ADVERB, Tag.NEGATION) or (token.kind in AUXILIARIES and is_open):
                group.append(token)
            elif is_open and tags & self._wanted(group):
                group.append(token)
                is_open = False
            elif token.text == "to" and index + 1 < len(self._tokens) and self._is_base(index + 1):
                group += [token, self._tokens[index + 1]]
                index += 1
            else:
                break
            index += 1
        self._verb, self._phrase, self._object, self._label = group, [], None, ""
        if self._subject is not None and not (self._topic or self._subject.noun or self._is_subordinate):
            self._topic = self._subject.keys[0]
        self._learn_noun(index)
        return index

    def _learn_noun(self, index: int) -> None:
        """Takes the noun of `X is a foundry in` for one that means the title, if X is the title."""
        if self._subject is None or self._subject.noun or head_words(self._verb):
            return
        if self._subject.keys[0] not in self._page.title_keys:
            return
        nouns = []
        for token in self._tokens[index:]:
            if token.kind not in (
                Tag.DETERMINER,
                Tag.WORD,
                Tag.NAME,
                Tag.NUMBER,
                Tag.ADVERB,
            ):
                break
            nouns.append(token)
        if len(nouns) > 1 and nouns[0].kind is Tag.DETERMINER and nouns[-1].kind is Tag.WORD:
            self._learned.add(nouns[-1].text)

    @staticmethod
    def _wanted(group: Sequence[TaggedWord]) -> frozenset[str]:
        """Forms of the verb that may follow auxiliaries."""
        last = [token for token in group if token.kind in AUXILIARIES][-1]
        if last.kind is Tag.BE:
            return frozenset(("VBN", "VBG"))
        return frozenset(("VBN",)) if last.kind is Tag.HAVE else frozenset(("VB",))

    def _is_base(self, index: int) -> bool:
        token = self._tokens[index]
        return token.kind in (Tag.BE, Tag.HAVE, Tag.DO) or (token.kind is Tag.WORD and "VB" in verb_tags(token.text))

    def _clause_begins(self, index: int) -> bool:
        """Returns whether a subject and its verb begin here."""
        for number in range(index, min(len(self._tokens), index + _LONGEST_PHRASE)):
            if number > index and self._is_finite(number, in_predicate=False):
                return True
            token = self._tokens[number]
            if token.kind not in _IN_PHRASE and not (token.text == "of" and number > index):
                return False
        return False

    # Noun phrases

    def _subject_of(self, phrase: Sequence[TaggedWord]) -> NounPhrase | None:
        """The noun phrase before a verb."""
        parts: list[list[TaggedWord]] = [[]]
        for token in phrase:
            if token.kind is Tag.COMMA:
                parts.append([])
            else:
                parts[-1].append(token)
        parts = [part for part in parts if part]
        while parts and (parts[0][0].kind in (Tag.PREPOSITION, Tag.NUMBER) or not _has_head(parts[0])):
            del parts[0]
        if not parts:
            return self._behind_adjunct(phrase)
        if len(parts) > 1 and any(token.kind is Tag.AND for token in parts[-1]) and all(map(_is_list, parts)):
            return NounPhrase(tuple(t.text for part in parts for t in part if t.kind is Tag.NAME))
        return self._phrase_of(parts[0 if phrase[-1].kind is Tag.COMMA else -1])

    def _behind_adjunct(self, phrase: Sequence[TaggedWord]) -> NounPhrase | None:
        """`In 2019 it`, `Since May Jo`: the pronoun or name behind what a preposition begins."""
        if not phrase:
            return None
        last = phrase[-1]
        if last.kind is Tag.PRONOUN:
            return self._phrase_of([last])
        owned = [number for number, token in enumerate(phrase) if token.kind in (Tag.DETERMINER, Tag.POSSESSIVE)]
        if owned and owned[-1] > 1:
            return self._phrase_of(phrase[owned[-1] :])
        if last.kind is Tag.NAME and len(phrase) > 1 and phrase[-2].kind in (Tag.NUMBER, Tag.NAME):
            return NounPhrase((last.text,))
        return None

    def _phrase_of(self, part: Sequence[TaggedWord]) -> NounPhrase | None:
        """The meaning of a noun phrase: a name, a noun of a name, or a noun of the title."""
        ends = [number for number, token in enumerate(part) if token.kind in (Tag.PREPOSITION, Tag.RELATIVE)]
        core = part[: ends[0]] if ends else part
        names = [token.text for token in core if token.kind is Tag.NAME]
        nouns = [token.text for token in core if token.kind is Tag.WORD]
        owners = [number for number, token in enumerate(core) if token.kind is Tag.OWNER]
        if owners and core[-1].kind is not Tag.NAME:
            return NounPhrase((names[-1],), " ".join(nouns[-2:])) if names and nouns else None
        if names:
            is_list = any(token.kind is Tag.AND for token in core)
            if core[-1].kind is not Tag.NAME:
                return NounPhrase((names[-1],), " ".join(nouns[-2:])) if nouns and not is_list else None
            return NounPhrase(tuple(names) if is_list else (names[-1],))
        owned = [token.text for token in part[len(core) :] if token.kind is Tag.NAME]
        if owned and nouns and (part[len(core)].text == "of" or not self._is_title_noun(core[0], nouns)):
            return NounPhrase((owned[0],), " ".join(nouns[-2:]))
        return self._of_page(core, nouns)

    def _of_page(self, core: Sequence[TaggedWord], nouns: Sequence[str]) -> NounPhrase | None:
        """The meaning of a noun phrase without a name: the title, its latest subject, or a noun of the title."""
        if not core or any(token.kind in (Tag.OTHER_PERSON, Tag.AND) for token in core):
            return None
        first = core[0]
        if first.kind is Tag.PRONOUN or (first.kind is Tag.POSSESSIVE and nouns):
            key = self._page.meant_by(first.text)
        else:
            key = self._page.title
        if key is None or not (nouns or first.kind is Tag.PRONOUN):
            return None
        is_title = first.kind is Tag.PRONOUN or self._is_title_noun(first, nouns)
        return NounPhrase((key,), "" if is_title else " ".join(nouns[-2:]))

    def _is_title_noun(self, first: TaggedWord, nouns: Sequence[str]) -> bool:
        return first.kind is Tag.DETERMINER and len(nouns) == 1 and nouns[0] in self._page.nouns

    def _means_title(self, index: int) -> bool:
        """Returns whether a word of a predicate is an object that means the title: `it`, `the project`."""
        token, after = self._tokens[index], self._adjacent(index, 1)
        ends = after is None or after.kind not in (Tag.WORD, Tag.NAME, Tag.OWNER)
        if token.kind in (Tag.PRONOUN, Tag.POSSESSIVE):
            return ends and token.text not in _OF_MANY
        is_definite = bool(self._phrase) and self._phrase[-1].text in ("the", "this")
        return ends and is_definite and token.text in self._page.nouns

    # Names

    def _read_name(self, index: int) -> None:
        name = self._tokens[index].text
        if self._verb and self._is_new_subject(index):
            self._close()
        elif self._verb and self._is_modifier(index):
            if not head_words(self._verb) and not any(token.kind is Tag.PREPOSITION for token in self._phrase):
                self._state(self._subject, "is", name)
            return
        elif self._verb:
            self._read_owner(index) if self._owns(index) else self._read_object(name)
            return
        if not self._is_modifier(index):
            self._read_before_verb(name)
        self._phrase.append(self._tokens[index])

    def _owns(self, index: int) -> bool:
        return index + 1 < len(self._tokens) and self._tokens[index + 1].kind is Tag.OWNER

    def _read_owner(self, index: int) -> None:
        """Reads `V X's film Y` and `V X's films`: Y is the object, else X by its noun (`films of`)."""
        behind = index + 2
        while behind < len(self._tokens) and self._tokens[behind].kind in (
            Tag.WORD,
            Tag.ADVERB,
            Tag.NUMBER,
        ):
            behind += 1
        nouns = self._tokens[index + 2 : behind]
        if behind < len(self._tokens) and self._tokens[behind].kind is Tag.NAME:
            self._state_nouns(self._tokens[index].text, [self._tokens[index + 1], *nouns], self._tokens[behind].text)
        elif nouns and nouns[-1].kind is Tag.WORD and self._object is None:
            self._phrase += [*nouns[-2:], TaggedWord("of", Tag.PREPOSITION)]
            self._read_object(self._tokens[index].text)

    def _is_modifier(self, index: int) -> bool:
        """Returns whether a name is an adjective of the noun behind it: `an American film`, `British author Jo`."""
        after = self._tokens[index + 1] if index + 1 < len(self._tokens) else None
        if after is None or after.kind is not Tag.WORD or self._is_finite(index + 1, in_predicate=False):
            return False
        if not (is_noun(after.text) or is_adjective(after.text)):
            return False
        if self._phrase and self._phrase[-1].text in ("a", "an"):
            return True
        behind = next((token for token in self._tokens[index + 1 : index + 5] if token.kind is not Tag.WORD), None)
        if behind is not None and behind.kind is Tag.NAME:
            return True
        kinds = {token.kind for token in self._phrase}
        is_direct = bool(self._verb) and self._object is None and Tag.PREPOSITION not in kinds
        return is_direct and Tag.DETERMINER in kinds

    def _is_new_subject(self, index: int) -> bool:
        """Returns whether a name behind a verb is the subject of the next clause."""
        if not self._phrase and self._object is None:
            return index + 1 < len(self._tokens) and self._is_finite(index + 1, in_predicate=False)
        words = [token for token in self._phrase if token.kind is not Tag.ADVERB]
        if any(token.kind is Tag.RELATIVE for token in words):
            return words[-1].kind is Tag.RELATIVE or self._clause_begins(index)
        while words and words[-1].kind in (Tag.DETERMINER, Tag.POSSESSIVE):
            words.pop()
        return bool(words) and words[-1].kind in _BREAKS and self._clause_begins(index)

    def _read_before_verb(self, name: str) -> None:
        """Relations of the nouns between two names, or before the first: `its founder X`, `X, head of Y`, `X's son`."""
        names = [number for number, token in enumerate(self._phrase) if token.kind is Tag.NAME]
        between = self._phrase[names[-1] + 1 :] if names else self._phrase
        if names:
            self._state_nouns(self._phrase[names[-1]].text, between, name)
            return
        owners = [number for number, token in enumerate(between) if token.kind is Tag.POSSESSIVE]
        owner = self._page.meant_by(between[owners[-1]].text) if owners else None
        if owner is not None:
            self._state_nouns(owner, [TaggedWord("'s", Tag.OWNER), *between[owners[-1] + 1 :]], name)

    def _state_nouns(self, first: str, between: Sequence[TaggedWord], second: str) -> bool:
        """States `X's son Y` and `X, head of Y`; false if the tokens between the two names are nothing of that kind."""
        words = [token for token in between if token.kind not in (Tag.DETERMINER, Tag.ADVERB, Tag.NUMBER)]
        if len(words) < 2:
            return False
        nouns = words[1:-1] if words[-1].kind is Tag.COMMA else words[1:]
        if words[0].kind is Tag.OWNER:
            if not nouns or any(token.kind is not Tag.WORD for token in nouns):
                return False
        elif words[0].kind is not Tag.COMMA or not _is_apposition(nouns):
            return False
        return self._state(NounPhrase((first,)), reduced([token.text for token in nouns]), second)

    def _read_object(self, name: str | None) -> None:
        """States what a verb says of its subject and this object."""
        between, before = self._phrase, self._object
        self._phrase = []
        if name is None:
            return
        self._object = name
        if before is None:
            self._label, self._direct = self._label_of(between), between
            self._state(self._subject, self._label, name)
            return
        words = [token for token in between if token.kind not in (Tag.DETERMINER, Tag.ADVERB)]
        if not words:
            self._label = ""
        elif all(token.kind in _BREAKS for token in words):
            self._state(self._subject, self._label, name)
        elif self._adds_participle(words):
            self._label = shortened("", content(words[1:]))
            self._state(self._subject, self._label, name)
        elif self._state_nouns(before, between, name):
            self._label = ""  # what a comma adds now belongs to the apposition
        else:
            self._read_further(before, words, name)

    def _adds_participle(self, words: Sequence[TaggedWord]) -> bool:
        """Returns whether a participle behind a comma goes on about the subject: `X is a firm in Y, founded by`."""
        return (
            len(words) > 2
            and words[0].kind is Tag.COMMA
            and words[-1].kind is Tag.PREPOSITION
            and "VBN" in verb_tags(words[1].text)
            and not head_words(self._verb)
        )

    def _read_further(self, before: str, words: Sequence[TaggedWord], name: str) -> None:
        """`V X as head of Y`, `V X from Y`, `V X and the head of Y`."""
        first, self._label = words[0], ""
        if words[-1].kind is not Tag.PREPOSITION or (first.text == "of"):
            return
        if first.text == "as" and third_person(self._verb[-1].text) in _GIVES_OFFICE and len(words) > 1:
            self._state(NounPhrase((before,)), " ".join(content(words[1:])), name)
        elif first.kind is Tag.AND and len(words) > 1:
            self._label = self._label_of(words[1:])
        elif first.kind is Tag.PREPOSITION:
            ends = [number for number, token in enumerate(self._direct) if token.kind is Tag.PREPOSITION]
            self._label = self._label_of([*self._direct[: ends[0] if ends else None], *words])
        self._state(self._subject, self._label, name)

    def _label_of(self, between: Sequence[TaggedWord]) -> str:
        """The label of the verb and the words behind it."""
        if any(token.kind is Tag.RELATIVE for token in between):
            return ""
        head, words = head_words(self._verb), content(between)
        return shortened(head, words) if head else reduced(words) if words else "is"

    def _state(self, subject: NounPhrase | None, label: str, target: str) -> bool:
        """States a relation of each of the subject's names."""
        if subject is None or label in _NO_LABELS or label.rpartition(" ")[2] in _UNFINISHED:
            return False
        said = " ".join(filter(None, (subject.noun, "" if subject.noun and label == "is" else label)))
        self._found += [(key, said, target) for key in subject.keys if key != target]
        return True


_NO_LABELS = frozenset(["", "of", "for", "from", "in", "on", "at", "to", "with"])
_UNFINISHED = frozenset(["and", "or", "born"])  # last words of labels whose rest is elsewhere (`author and playwright`)
_COMMA = TaggedWord(",", Tag.COMMA)
_MAY_SUBORDINATE = frozenset(["after", "before", "since", "until", "as"])


def _has_head(part: Sequence[TaggedWord]) -> bool:
    return any(token.kind in (Tag.NAME, Tag.WORD, Tag.PRONOUN, Tag.OTHER_PERSON) for token in part)


def _is_list(part: Sequence[TaggedWord]) -> bool:
    return all(token.kind in (Tag.NAME, Tag.AND) for token in part)


def _is_apposition(nouns: Sequence[TaggedWord]) -> bool:
    """Returns whether tokens are nouns up to a preposition: `head of`, `founded by`."""
    kinds = [token.kind for token in nouns]
    return (
        len(nouns) > 1
        and kinds[-1] is Tag.PREPOSITION
        and kinds[0] is Tag.WORD
        and all(kind in (Tag.WORD, Tag.PREPOSITION, Tag.POSSESSIVE) for kind in kinds)
    )
