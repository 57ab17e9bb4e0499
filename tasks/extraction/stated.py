"""What others (a model, an imported file) state about a document, located in its passages (pure).

Judges nothing: replies.py and imported.py have done so before. Source: algorithms.md 1.3, 2B.2, 0.8 (F-TYPE, F-DESC).
Decided here: a name that no passage of the document holds is mentioned by the first; F-TYPE types a name that came
without a type only where it stands in the text with a capital, because `economic growth` is nobody.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from polyhop.schemas.corpus import Passage
from polyhop.schemas.sentences import split_sentences
from polyhop.tasks.extraction.places import PlacedText, is_value, key_of
from polyhop.tasks.extraction.rows import Page, Proposition, Relation, Row, cut, merged
from polyhop.tasks.extraction.rules import TYPED_MENTIONS, title_rows, type_by_place

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

    Args:
        stated: About the whole document.
        passages: Its passages in order, at least one.

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


def _describe(row: Row, name: StatedName, typed: set[str]) -> None:
    """Adds the first type and the first description that are stated of a name; `typed` are the keys that have one."""
    if name.type and name.key not in typed and not is_value(name.key):
        row.type, row.confidence = name.type, 1.0
        typed.add(name.key)
    row.description = row.description or cut(name.description)


def _holder(holders: dict[str, list[int]], keys: Iterable[str]) -> int:
    common: set[int] | None = None
    for key in keys:
        here = set(holders.get(key, ()))
        common = here if common is None else common & here
    return min(common, default=0) if common else 0


def stated_page(passage: Passage, stated: Stated, extractor: str) -> Page:
    """The page of a passage about which something is stated.

    The keys of its own title are always mentioned; tf counts a name's places in title and text and is at least 1.

    Args:
        passage: The passage.
        stated: What is stated about it; names without a key are skipped.
        extractor: Label of all rows: model or import.

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
        _describe(row, name, given)
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
