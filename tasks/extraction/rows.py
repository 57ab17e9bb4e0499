"""What extraction found on a page, and the raw tables made of it (pure).

Finds nothing itself: rules.py and stated.py fill pages. A page has one row per key, whoever found it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from polyhop.schemas.bundle import RAW_MENTIONS, RAW_PROPOSITIONS, RAW_RELATIONS, RAW_TRIPLES, Bundle
from polyhop.schemas.columns import Table
from polyhop.schemas.corpus import Passage
from polyhop.schemas.graph import Mention

DESCRIPTION_CHARACTERS = 240  # algorithms.md 0.8 (F-DESC).

Relation = tuple[str, str, str]
"""Source key, label, target key."""

Proposition = tuple[str, list[str]]
"""Text, and the keys in it in order, each once."""


@dataclass(slots=True)
class Row:
    """What a passage says about one key; `sentence` is the number of the first that mentions it, -1 if none does."""

    surface: str
    type: str | None
    confidence: float | None
    extractor: str
    tf: int = 0
    is_title: bool = False
    sentence: int = -1
    spans: list[tuple[int, int]] = field(default_factory=list)
    description: str = ""

    def add_place(self, start: int, end: int, sentence: int) -> None:
        """Counts one mention in the text."""
        if self.sentence < 0:
            self.sentence = sentence
        self.tf += 1
        self.spans.append((start, end))


@dataclass(slots=True)
class Page:
    """All that was found on one passage; what it states comes with the label of who stated it.

    Triples are relations as propositions, with the words of whoever stated them.
    """

    passage: Passage
    sentences: list[tuple[int, int]]
    rows: dict[str, Row] = field(default_factory=dict)
    relations: list[tuple[Relation, str]] = field(default_factory=list)
    propositions: list[tuple[Proposition, str]] = field(default_factory=list)
    triples: list[tuple[Proposition, str]] = field(default_factory=list)


def bundle_of(pages: Iterable[Page]) -> Bundle:
    """The raw tables of pages with distinct passages, in the order of their keys. Cost: O(rows)."""
    mentions = _Columns(RAW_MENTIONS)
    relations = _Columns(RAW_RELATIONS)
    propositions = _Columns(RAW_PROPOSITIONS)
    triples = _Columns(RAW_TRIPLES)
    for page in sorted(pages, key=lambda page: page.passage.passage_id):
        passage_id = page.passage.passage_id
        _write_mentions(mentions, page)
        for ordinal, ((source, label, target), extractor) in enumerate(page.relations):
            relations.add(passage_id, ordinal, source, label, target, extractor)
        for columns, stated in ((propositions, page.propositions), (triples, page.triples)):
            for ordinal, ((text, keys), extractor) in enumerate(stated):
                columns.add(passage_id, ordinal, text, keys, extractor)
    return Bundle(mentions.table(), relations.table(), propositions.table(), triples.table())


def merged(propositions: Iterable[Proposition]) -> list[Proposition]:
    """Each text once, with the keys of all its occurrences in order."""
    found: dict[str, dict[str, None]] = {}
    for text, keys in propositions:
        found.setdefault(text, {}).update(dict.fromkeys(keys))
    return [(text, list(keys)) for text, keys in found.items()]


def arrow_table(table: Table, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Rows, each with a value per column, as an Arrow table."""
    schema = table.arrow
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


class _Columns:
    """Rows of a table until they are columns."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._rows: list[tuple[object, ...]] = []

    def add(self, *values: object) -> None:
        self._rows.append(values)

    def table(self) -> pa.Table:
        return arrow_table(self._table, self._rows)


def _write_mentions(columns: _Columns, page: Page) -> None:
    """One row per key; who is not in the text is described by its first sentence."""
    descriptions: dict[int, str] = {}
    for key in sorted(page.rows):
        row = page.rows[key]
        home = max(row.sentence, 0)
        if home not in descriptions:
            piece = slice(*page.sentences[home]) if page.sentences else slice(0)
            descriptions[home] = cut(page.passage.text[piece] or page.passage.title)
        columns.add(
            page.passage.passage_id,
            key,
            row.extractor,
            row.surface,
            max(row.tf, 1),
            row.is_title,
            f"[{','.join(f'[{start},{end}]' for start, end in row.spans)}]",
            row.type,
            row.confidence,
            row.description or descriptions[home],
        )


def sentences_of(mentions: Sequence[Mention], sentences: Sequence[tuple[int, int]]) -> list[int]:
    """Number of the sentence in which each mention begins; both are in order."""
    homes = []
    home = 0
    last = len(sentences) - 1
    for mention in mentions:
        while home < last and sentences[home + 1][0] <= mention.start:
            home += 1
        homes.append(home)
    return homes


def cut(text: str, most: int = DESCRIPTION_CHARACTERS) -> str:
    """`text` on one line, cut after its last whole word within `most` characters. Source: algorithms.md 0.8."""
    line = " ".join(text[: 4 * most].split())
    if len(line) <= most:
        return line
    head, blank, _ = line[: most + 1].rpartition(" ")
    return head if blank else line[:most]
