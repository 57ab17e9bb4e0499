"""Extraction without a model: names, types, dates, numbers, relations and propositions of passages (pure).

Reads no passage from anywhere and resolves no name; the finder decides what a name is.
Source: algorithms.md 0.8 (F-NER, F-TYPE, F-REL, F-DESC, F-PROP), 2B.1 (c).
"""

from collections.abc import Sequence

from polyhop.schemas.bundle import Bundle
from polyhop.schemas.corpus import Passage
from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import ENGLISH
from polyhop.schemas.names import title_forms
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.sentences import split_sentences
from polyhop.schemas.type_cues import mention_type
from polyhop.schemas.types import ALIAS, name_type, title_type
from polyhop.schemas.values import find_dates, find_numbers
from polyhop.tasks.extraction.page_types import type_page
from polyhop.tasks.extraction.propositions import sentence_propositions
from polyhop.tasks.extraction.relations import sentence_relations, title_relations
from polyhop.tasks.extraction.rows import Page, Proposition, Relation, Row, bundle_of, merged, sentences_of
from polyhop.tasks.extraction.triples import triple_proposition

RULES = "rules"
# of a name on a page; chosen: texts introduce a name where it comes first, and looking at all costs time
TYPED_MENTIONS = 2


def extract(passages: Sequence[Passage], finder: NameFinding, extractor: str = RULES) -> Bundle:
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
    return bundle_of(rules_page(passage, finder, extractor) for passage in passages)


def rules_page(passage: Passage, finder: NameFinding, extractor: str = RULES, language: str = ENGLISH) -> Page:
    """What the rules find on one passage. Source: algorithms.md 0.8."""
    names = finder.find(passage.text)
    dates = find_dates(passage.text)
    sentences = split_sentences(passage.text, is_english=language == ENGLISH)
    homes = sentences_of(names, sentences)
    title_keys = [key for key, _ in title_forms(passage.title)]

    rows = title_rows(passage, extractor)
    _add_names(rows, passage, finder.find(passage.title), names, homes, extractor)
    type_page(rows, passage.text, title_keys[:1], names, sentences)
    known = list(rows)
    _add_values(rows, dates, "DATE", sentences, extractor)
    _add_values(rows, find_numbers(passage.text, dates), "NUMBER", sentences, extractor)

    stated = sentence_relations(passage.text, names, homes)
    stated += title_relations(title_keys, known, stated)
    propositions = sentence_propositions(passage, title_keys, sentences, names, dates)
    return Page(
        passage,
        sentences,
        rows,
        [(relation, RULES) for relation in stated],
        [(proposition, RULES) for proposition in propositions],
        [(triple, RULES) for triple in merged(_triples(stated, rows))],
    )


def _triples(relations: Sequence[Relation], rows: dict[str, Row]) -> list[Proposition]:
    """Relations as propositions, the names as the passage first spells them."""
    return [
        triple_proposition((rows[source].surface, label, rows[target].surface), source, target)
        for source, label, target in relations
    ]


def title_rows(passage: Passage, extractor: str) -> dict[str, Row]:
    """Rows of the keys of a passage's own title, which it always mentions. Source: algorithms.md 2B.1 (c)."""
    forms = title_forms(passage.title)
    if not forms:
        return {}
    kind, confidence = title_type(passage.title, forms[0][0], passage.text)
    rows = {key: Row(surface, kind, min(confidence, ALIAS), extractor, is_title=True) for key, surface in forms}
    rows[forms[0][0]].confidence = confidence
    return rows


def _add_names(
    rows: dict[str, Row],
    passage: Passage,
    in_title: Sequence[Mention],
    in_text: Sequence[Mention],
    homes: Sequence[int],
    extractor: str,
) -> None:
    """Adds all names: those in the title, then in order of first mention."""
    for mention in in_title:
        if mention.key not in rows:
            rows[mention.key] = Row(mention.surface, *name_type(mention.key), extractor)
        rows[mention.key].tf += 1
    for mention, home in zip(in_text, homes, strict=True):
        row = rows.get(mention.key)
        if row is None:
            row = rows[mention.key] = Row(mention.surface, *name_type(mention.key), extractor)
        if not row.is_title and len(row.spans) < TYPED_MENTIONS:
            type_by_place(row, mention.key, passage.text, mention.start, mention.end)
        row.add_place(mention.start, mention.end, home)


def type_by_place(row: Row, key: str, text: str, start: int, end: int) -> None:
    """Types a name by this place if that is surer than what is known. Source: algorithms.md 0.8 (F-TYPE)."""
    kind, confidence = mention_type(key, text, start, end)
    if row.confidence is None or confidence > row.confidence:
        row.type, row.confidence = kind, confidence


def _add_values(
    rows: dict[str, Row], values: Sequence[Mention], kind: str, sentences: Sequence[tuple[int, int]], extractor: str
) -> None:
    """Adds dates or numbers, whose form is their type."""
    for value, home in zip(values, sentences_of(values, sentences), strict=True):
        row = rows.get(value.key)
        if row is None:
            row = rows[value.key] = Row(value.surface, kind, 1.0, extractor)
        row.add_place(value.start, value.end, home)
