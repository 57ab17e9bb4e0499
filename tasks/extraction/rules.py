"""Extraction without a model: names, types, dates, numbers, relations and propositions of passages (pure).

Reads no passage from anywhere and resolves no name; the finder decides what a name is.
Source: algorithms.md 0.8 (F-NER, F-TYPE, F-REL, F-DESC, F-PROP), 2B.1 (c).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from schemas.bundle import RAW_MENTIONS, RAW_PROPOSITIONS, RAW_RELATIONS, Bundle
from schemas.corpus import Passage
from schemas.graph import Mention
from schemas.names import title_forms
from schemas.ports import NameFinding
from schemas.sentences import split_sentences
from schemas.tables import Table
from schemas.types import Typed, mention_type, name_type, title_type
from schemas.values import find_dates, find_numbers
from tasks.extraction.propositions import sentence_propositions
from tasks.extraction.relations import sentence_relations, title_relations

DESCRIPTION_CHARACTERS = 240
_TYPED_MENTIONS = 2
_RULES = "rules"


@dataclass(slots=True)
class _Row:
    """What a passage says about one key."""

    surface: str
    typed: Typed
    tf: int = 0
    is_title: bool = False
    sentence: int = -1
    spans: list[str] = field(default_factory=list)


def extract(passages: Sequence[Passage], finder: NameFinding, extractor: str = _RULES) -> Bundle:
    """Names of passages, and what is said about them.

    The text of a passage is its title and its text; the keys of its own title are always mentioned, whatever the
    finder. Dates and numbers have rows of their own; dates stand in propositions, neither stands in relations.

    Args:
        passages: Passages with distinct ids, in any order.
        finder: Finds names; called on title and text separately, so that no name reaches across.
        extractor: Label of the mentions: rules, regex or spacy.

    Returns:
        The three raw tables, in the order of their keys; the same for the same passages in another order.
    Source: algorithms.md 0.8.
    Cost: O(characters).
    """
    mentions = _Columns(RAW_MENTIONS)
    relations = _Columns(RAW_RELATIONS)
    propositions = _Columns(RAW_PROPOSITIONS)
    for passage in sorted(passages, key=lambda passage: passage.passage_id):
        names = finder.find(passage.text)
        dates = find_dates(passage.text)
        sentences = split_sentences(passage.text)
        homes = _sentence_of(names, sentences)
        title_keys = [key for key, _ in title_forms(passage.title)]

        rows = _rows(passage, finder.find(passage.title), names, homes)
        known = list(rows)
        _add_values(rows, dates, "DATE", sentences)
        _add_values(rows, find_numbers(passage.text, dates), "NUMBER", sentences)
        _write_mentions(mentions, passage, rows, sentences, extractor)

        stated = sentence_relations(passage.text, names, homes)
        stated += title_relations(title_keys, known, stated)
        for ordinal, (source, label, target) in enumerate(stated):
            relations.add(passage.passage_id, ordinal, source, label, target, _RULES)
        for ordinal, (text, keys) in enumerate(sentence_propositions(passage, title_keys, sentences, names, dates)):
            propositions.add(passage.passage_id, ordinal, text, keys, _RULES)
    return Bundle(mentions.table(), relations.table(), propositions.table())


class _Columns:
    """Rows of a table, kept by column."""

    def __init__(self, table: Table) -> None:
        self._schema = table.arrow
        self._rows: list[tuple[object, ...]] = []

    def add(self, *values: object) -> None:
        self._rows.append(values)

    def table(self) -> pa.Table:
        columns = list(zip(*self._rows, strict=True)) or [()] * len(self._schema)
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, self._schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self._schema)


def _sentence_of(mentions: Sequence[Mention], sentences: Sequence[tuple[int, int]]) -> list[int]:
    """Number of the sentence in which each mention begins; both are in order."""
    homes = []
    home = 0
    last = len(sentences) - 1
    for mention in mentions:
        while home < last and sentences[home + 1][0] <= mention.start:
            home += 1
        homes.append(home)
    return homes


def _rows(
    passage: Passage, in_title: Sequence[Mention], in_text: Sequence[Mention], homes: Sequence[int]
) -> dict[str, _Row]:
    """Rows of all names by key: the title's, then in order of first mention."""
    rows: dict[str, _Row] = {}
    forms = title_forms(passage.title)
    if forms:
        typed = title_type(passage.title, forms[0][0], passage.text)
        rows = {key: _Row(surface, typed, is_title=True) for key, surface in forms}
    for mention in in_title:
        if mention.key not in rows:
            rows[mention.key] = _Row(mention.surface, name_type(mention.key))
        rows[mention.key].tf += 1
    for mention, home in zip(in_text, homes, strict=True):
        row = rows.get(mention.key)
        if row is None:
            row = rows[mention.key] = _Row(mention.surface, name_type(mention.key))
        if not row.is_title and len(row.spans) < _TYPED_MENTIONS:
            typed = mention_type(mention.key, passage.text, mention.start, mention.end)
            row.typed = typed if typed[1] > row.typed[1] else row.typed
        _add_place(row, mention, home)
    return rows


def _add_place(row: _Row, mention: Mention, home: int) -> None:
    if row.sentence < 0:
        row.sentence = home
    row.tf += 1
    row.spans.append(f"[{mention.start},{mention.end}]")


def _add_values(
    rows: dict[str, _Row], values: Sequence[Mention], kind: str, sentences: Sequence[tuple[int, int]]
) -> None:
    """Adds dates or numbers, whose form is their type."""
    for value, home in zip(values, _sentence_of(values, sentences), strict=True):
        row = rows.get(value.key)
        if row is None:
            row = rows[value.key] = _Row(value.surface, (kind, 1.0))
        _add_place(row, value, home)


def _write_mentions(
    columns: _Columns, passage: Passage, rows: dict[str, _Row], sentences: Sequence[tuple[int, int]], extractor: str
) -> None:
    """One row per key; who stands in the title alone is described by the first sentence."""
    descriptions: dict[int, str] = {}
    for key in sorted(rows):
        row = rows[key]
        home = max(row.sentence, 0)
        if home not in descriptions:
            piece = slice(*sentences[home]) if sentences else slice(0)
            descriptions[home] = cut(passage.text[piece] or passage.title)
        columns.add(
            passage.passage_id,
            key,
            extractor,
            row.surface,
            max(row.tf, 1),
            row.is_title,
            f"[{','.join(row.spans)}]",
            row.typed[0],
            row.typed[1],
            descriptions[home],
        )


def cut(text: str, most: int = DESCRIPTION_CHARACTERS) -> str:
    """`text` on one line, cut behind its last whole word within `most` characters. Source: algorithms.md 0.8."""
    line = " ".join(text[: 4 * most].split())
    if len(line) <= most:
        return line
    head, blank, _ = line[: most + 1].rpartition(" ")
    return head if blank else line[:most]
