"""What a model or an imported file states about a document, located in its passages (pure).

Source: algorithms.md 1.3, 2B.2, 0.8 (F-TYPE, F-DESC). Decided here: a name that no passage of the document holds is
mentioned by the first; F-TYPE types a name that came without a type only where it stands in the text with a capital,
because `economic growth` is nobody.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from polyhop.schemas.names import name_tokens, split_sentences
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import ExtractionSettings
from polyhop.schemas.text import fold, norm_ws
from polyhop.schemas.values import find_dates, find_numbers
from polyhop.tasks.extraction.rows import Page, Proposition, Relation, Row, cut, merged
from polyhop.tasks.extraction.rules import RELATED, TYPED_MENTIONS, title_rows, type_by_place

# Source: algorithms.md 1.3 (2).

ENTITY_TYPES = ("PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK")
"""The paper's types, in its order."""

_VALUE_TYPES = ("DATE", "NUMBER")
_TYPE_CHARACTERS = 60  # chosen: longer than names of types are; a model's sentence in their place does not become one
_LABEL_CHARACTERS = 200  # chosen: longer than labels of relations are; a model's paragraph does not become one


@dataclass(frozen=True, slots=True)
class Contract:
    """Known types, and how to handle unknown ones: evolve, freeze or discard.

    Attributes:
        asked_types: Entity types that a prompt asks for.
        entity_types: Entity types that are known.
        relation_types: Relation labels that are known; empty: any.
    """

    asked_types: tuple[str, ...]
    entity_types: frozenset[str]
    on_entity_type: str
    relation_types: frozenset[str]
    on_relation_type: str

    @staticmethod
    def of(settings: ExtractionSettings) -> "Contract":
        """The contract that the settings describe."""
        asked = tuple(_known_type(name) for name in settings.entity_types.split()) or ENTITY_TYPES
        known = asked if settings.entity_types.strip() else (*ENTITY_TYPES, *_VALUE_TYPES)
        labels = (norm_ws(label) for label in settings.relation_types.split(","))
        return Contract(
            asked,
            frozenset(known),
            settings.entity_type_contract,
            frozenset(label for label in labels if label),
            settings.relation_type_contract,
        )

    def entity_type(self, name: str, counts: Counter[str]) -> tuple[bool, str | None]:
        """Whether an entity of this type stays, and with which type; unknown types are counted."""
        kind = _known_type(name)
        if kind in self.entity_types:
            return True, kind
        if self.on_entity_type == "discard":
            counts["dropped_entity_types"] += 1
            return False, None
        if self.on_entity_type == "freeze" or not kind:
            counts["mapped_entity_types"] += 1
            return True, None
        counts["new_entity_types"] += 1
        return True, kind

    def relation(self, label: str, counts: Counter[str]) -> str | None:
        """The label under which a relation stays, None if it is dropped; unknown types are counted."""
        bare = norm_ws(label)[:_LABEL_CHARACTERS].strip()
        if not self.relation_types or bare in self.relation_types:
            return bare
        if self.on_relation_type == "discard":
            counts["dropped_relation_types"] += 1
            return None
        if self.on_relation_type == "freeze":
            counts["mapped_relation_types"] += 1
            return RELATED
        counts["new_relation_types"] += 1
        return bare


def contract_settings(settings: ExtractionSettings) -> Mapping[str, str]:
    """What of the settings the contract depends on, for fingerprints."""
    return {
        "entity_types": " ".join(settings.entity_types.split()),
        "entity_type_contract": settings.entity_type_contract,
        "relation_types": settings.relation_types,
        "relation_type_contract": settings.relation_type_contract,
    }


def _known_type(name: str) -> str:
    return "_".join(name.upper().split())[:_TYPE_CHARACTERS]


# Source: algorithms.md 1.3, 2B.2.

_TOKEN = re.compile(r"[^\W_]+")

Span = tuple[int, int]
"""Offsets of the first character and after the last one."""


@lru_cache(maxsize=1 << 16)
def key_of(name: str) -> str:
    """The key of a name: `date:…` or `number:…` if it is one as a whole, else its words; "" if it has none.

    Source: algorithms.md 2B.2 (keys by the same normalisation).
    """
    bare = name.strip()
    dates = find_dates(bare)
    if dates:
        return dates[0].key if _is_whole(bare, dates[0].start, dates[0].end) else _words_key(bare)
    numbers = find_numbers(bare, dates)
    if numbers and _is_whole(bare, numbers[0].start, numbers[0].end):
        return numbers[0].key
    return _words_key(bare)


def is_value(key: str) -> bool:
    """Whether a key is a date or a number."""
    return key.startswith(("date:", "number:"))


def _is_whole(text: str, start: int, end: int) -> bool:
    return (start, end) == (0, len(text))


def _words_key(name: str) -> str:
    return " ".join(name_tokens(name))


class PlacedText:
    """A text in which names are looked up by key.

    Attributes:
        text: The text as given; all offsets refer to it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        folded, origins = _folded(text)
        self._words: list[str] = []
        self._spans: list[Span] = []
        self._starts: dict[str, list[int]] = {}
        for match in _TOKEN.finditer(folded):
            word = match[0].lower()
            self._starts.setdefault(word, []).append(len(self._words))
            self._words.append(word)
            start, last = match.start(), match.end() - 1
            self._spans.append((start, last + 1) if origins is None else (origins[start], origins[last] + 1))
        self._values: dict[str, list[Span]] | None = None

    def find(self, key: str) -> list[Span]:
        """Every place of a key, left to right, none overlapping another.

        Cost: O(places of its first word * its words).
        """
        if is_value(key):
            return self._value_places().get(key, [])
        words = key.split()
        found: list[Span] = []
        free = 0
        for place in self._starts.get(words[0], ()) if words else ():
            if place >= free and self._has(words, place):
                free = place + len(words)
                found.append((self._spans[place][0], self._spans[free - 1][1]))
        return found

    def _has(self, words: Sequence[str], place: int) -> bool:
        return self._words[place : place + len(words)] == words

    def _value_places(self) -> dict[str, list[Span]]:
        if self._values is None:
            self._values = {}
            dates = find_dates(self.text)
            for mention in [*dates, *find_numbers(self.text, dates)]:
                self._values.setdefault(mention.key, []).append((mention.start, mention.end))
        return self._values


def _folded(text: str) -> tuple[str, list[int] | None]:
    """The folded text, and which character of the original each of its own comes from (None: the same)."""
    if text.isascii():
        return text, None
    pieces = [fold(character) for character in text]
    origins = [place for place, piece in enumerate(pieces) for _ in piece]
    return "".join(pieces), origins


MODEL = "model"
IMPORT = "import"


@dataclass(frozen=True, slots=True)
class StatedName:
    """A name with its key; type and description only where the source gave them."""

    name: str
    key: str
    type: str | None = None
    description: str = ""


@dataclass(slots=True)
class Stated:
    """Names, relations (by key), propositions and triples (with keys), cleaned and in the source's order."""

    names: list[StatedName] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    propositions: list[Proposition] = field(default_factory=list)
    triples: list[Proposition] = field(default_factory=list)

    def extend(self, other: "Stated") -> None:
        """Adds what another source states about the same text."""
        self.names += other.names
        self.relations += other.relations
        self.propositions += other.propositions
        self.triples += other.triples


def clean(text: str) -> str:
    """`text` on one line without what no file can hold (NUL, halves of characters)."""
    storable = text.encode("utf-8", "ignore").decode("utf-8")
    return " ".join(storable.replace("\0", " ").split())


def named(name: str, kind: str | None = None, description: str = "") -> StatedName:
    """A cleaned name; its key is empty if it has no word."""
    bare = clean(name)
    return StatedName(bare, key_of(bare), kind, description)


def distribute(stated: Stated, passages: Sequence[Passage]) -> list[Stated]:
    """Gives each passage of a document what it holds of the document's statements.

    Returns:
        One Stated per passage: a name goes to every passage in which it stands, else to the first; a relation,
        proposition or triple to the first passage that holds all its names, else to the first.
    Source: algorithms.md 1.3 (2).
    """
    if len(passages) == 1:
        return [stated]
    texts = [PlacedText(passage.text) for passage in passages]
    parts = [Stated() for _ in passages]
    holders = _holders(stated.names, texts)
    for name in stated.names:
        for number in holders[name.key] or [0]:
            parts[number].names.append(name)
    for relation in stated.relations:
        parts[_holder(holders, (relation[0], relation[2]))].relations.append(relation)
    for proposition in stated.propositions:
        parts[_holder(holders, proposition[1])].propositions.append(proposition)
    for triple in stated.triples:
        parts[_holder(holders, triple[1])].triples.append(triple)
    return parts


def _holders(names: Iterable[StatedName], texts: Sequence[PlacedText]) -> dict[str, list[int]]:
    """Numbers of the texts in which the names stand, by key."""
    keys = dict.fromkeys(name.key for name in names)
    return {key: [number for number, text in enumerate(texts) if text.find(key)] for key in keys}


def _holder(holders: dict[str, list[int]], keys: Iterable[str]) -> int:
    common: set[int] | None = None
    for key in keys:
        here = set(holders.get(key, ()))
        common = here if common is None else common & here
    return min(common, default=0) if common else 0


def stated_page(passage: Passage, stated: Stated, extractor: str) -> Page:
    """The page of a passage about which something is stated.

    The keys of its own title are always mentioned; tf counts a name's places in title and text and is at least 1.

    Source: algorithms.md 2B.2. Cost: O(characters + places).
    """
    text, title = PlacedText(passage.text), PlacedText(passage.title)
    page = Page(passage, split_sentences(passage.text), title_rows(passage, extractor))
    for key, title_row in page.rows.items():
        _place(page, key, title_row, text, title)
    given: set[str] = set()
    for name in stated.names:
        if not name.key:
            continue
        row = page.rows.get(name.key)
        if row is None:
            row = page.rows[name.key] = Row(name.name, None, None, extractor)
            _place(page, name.key, row, text, title)
            if row.spans:
                row.surface = passage.text[slice(*row.spans[0])]
            _type(row, name.key, passage.text)
        # Adds the first type and the first description that are stated of a name; `typed` are the keys that have one.
        if name.type and name.key not in given and not is_value(name.key):
            row.type, row.confidence = name.type, 1.0
            given.add(name.key)
        row.description = row.description or cut(name.description)
    page.relations = [(relation, extractor) for relation in dict.fromkeys(stated.relations)]
    page.propositions = [(proposition, extractor) for proposition in merged(stated.propositions)]
    page.triples = [(triple, extractor) for triple in merged(stated.triples)]
    return page


def _place(page: Page, key: str, row: Row, text: PlacedText, title: PlacedText) -> None:
    starts = [start for start, _ in page.sentences]
    row.tf += len(title.find(key))
    for start, end in text.find(key):
        row.add_place(start, end, max(0, bisect_right(starts, start) - 1))


def _type(row: Row, key: str, text: str) -> None:
    """F-TYPE for a name that stands in the text with a capital; dates and numbers have the type of their form."""
    if is_value(key):
        row.type, row.confidence = ("DATE" if key.startswith("date:") else "NUMBER"), 1.0
        return
    if row.surface != row.surface.lower():
        for start, end in row.spans[:TYPED_MENTIONS]:
            type_by_place(row, key, text, start, end)
