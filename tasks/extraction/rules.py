"""Extraction without a model: names, types, dates, numbers, relations and propositions of passages (pure).

Source: algorithms.md 0.8 (F-NER, F-TYPE, F-REL, F-DESC, F-PROP), 2B.1 (c).
"""

import re
from collections.abc import Mapping, Sequence

from polyhop.schemas import types
from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import ENGLISH
from polyhop.schemas.names import split_sentences, title_forms
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.records import Passage
from polyhop.schemas.values import find_dates, find_numbers
from polyhop.tasks.extraction.clauses import PageNames
from polyhop.tasks.extraction.relations import consecutive_relations, page_relations, title_relations
from polyhop.tasks.extraction.rows import (
    ExtractedEntity,
    ExtractedPassage,
    Proposition,
    merged,
    sentences_of,
    triple_proposition,
)

Found = Sequence[Mention]  # in order

# Source: algorithms.md 0.8 (F-PROP), 3.3 (dates are keys too). Decided here: a sentence whose only keys are dates
# counts as one without an entity.

_FIRST_WORD = re.compile(r"\W*(\w+)")
_PRONOUNS = frozenset(("he", "she", "it", "they", "this", "these", "his", "her", "its", "their"))


def sentence_propositions(
    passage: Passage, title_keys: Sequence[str], sentences: Sequence[tuple[int, int]], names: Found, dates: Found
) -> list[Proposition]:
    """Each sentence of a passage as a proposition. Source: algorithms.md 0.8 (F-PROP)."""
    found = []
    mentions = sorted([*names, *dates], key=lambda mention: mention.start)
    own = set(title_keys)
    number = 0
    limits = [*(begin for begin, _ in sentences[1:]), len(passage.text)]
    for (start, end), limit in zip(sentences, limits, strict=False):  # a text without sentences has one limit
        keys: dict[str, None] = {}
        while number < len(mentions) and mentions[number].start < limit:
            keys[mentions[number].key] = None
            number += 1
        sentence = " ".join(passage.text[start:end].split())
        first = _FIRST_WORD.match(sentence)
        refers = own.isdisjoint(keys) and first is not None and first[1].lower() in _PRONOUNS
        if refers:
            sentence = f"{passage.title}: {sentence}"
        is_about_title = refers or all(key.startswith("date:") for key in keys)
        found.append((sentence, list(dict.fromkeys([*title_keys[:1], *keys]) if is_about_title else keys)))
    return found


# Source: algorithms.md 0.8 (F-TYPE). Decided here: what counts as a list, and the confidences.

_LIST = re.compile(r"\s?,\s?(?:and\s|or\s|&\s)?|\s(?:and|or|&)\s")
_ALSO = re.compile(r"(?:\bknown as|\bcalled|\bborn|\bnamed|\bor|\bknown by|\btitled|\bas|^)[\s\"“'(]*$")
_SPREADS = frozenset((types.PERSON, types.LOCATION))
# confidences; chosen: a list proves less than a part of a name, and that less than `or X`
_LISTED, _PART, _SAME = 0.45, 0.5, 0.7
# least confidence at which a person's first and last names count as the person; chosen: twice that of a guess
_SURE = 0.6


def _drop_persons(rows: Mapping[str, ExtractedEntity]) -> None:
    """Takes the type from dates, numbers, headers and terms that look like persons."""
    for key, row in rows.items():
        if row.type == types.PERSON and not types.may_be_person(row.surface, key, row.confidence or 0):
            row.type, row.confidence = None, types.UNSHOWN


def _type_other_names(
    rows: Mapping[str, ExtractedEntity], text: str, title: ExtractedEntity, names: Found, first_end: int
) -> None:
    """Gives the title's type to what the first sentence begins with or says it is also called."""
    if title.type is None or (title.confidence or 0) < types.DEFINED:
        return
    for mention in names:
        if mention.start >= first_end:
            break
        if _ALSO.search(text[max(0, mention.start - 16) : mention.start]) and mention.key not in types.LOCATIONS:
            _raise(rows[mention.key], title.type, _SAME)


def _type_parts(rows: Mapping[str, ExtractedEntity]) -> None:
    """Takes a single word for the person whose first or last name it is on this page."""
    parts: set[str] = set()
    for key, row in rows.items():
        words = key.split()
        if 1 < len(words) <= 4 and row.type == types.PERSON and (row.confidence or 0) >= _SURE:
            parts.update((words[0], words[-1]))
    for part in parts & rows.keys():
        _raise(rows[part], types.PERSON, _PART)
    # Gives a name with an article the type of that without: The Hermes is what Hermes is.
    for key, row in rows.items():
        bare = rows.get(key.removeprefix("the ")) if key.startswith("the ") else None
        if bare is not None and bare.confidence is not None:
            _raise(row, bare.type, bare.confidence)


def _raise(row: ExtractedEntity, kind: str | None, confidence: float) -> None:
    if not row.is_title and (row.confidence or 0) < confidence:
        row.type, row.confidence = kind, confidence


RULES = "rules"
# of a name on a page; chosen: texts introduce a name where it comes first, and looking at all costs time
TYPED_MENTIONS = 2


def rules_page(
    passage: Passage, finder: NameFinding, extractor: str = RULES, language: str = ENGLISH
) -> ExtractedPassage:
    """Extracts names, dates and relations of one passage (its title and its text) by rules.

    The keys of its title are always mentioned, whatever the finder, which is called on title and text separately,
    so that no name reaches across. Dates and numbers have separate rows; dates occur in propositions, neither
    occurs in relations. Source: algorithms.md 0.8. Cost: O(characters).
    """
    names = finder.find(passage.text)
    dates = find_dates(passage.text)
    sentences = split_sentences(passage.text, is_english=language == ENGLISH)
    homes = sentences_of(names, sentences)
    title_keys = [key for key, _ in title_forms(passage.title)]

    rows = title_rows(passage, extractor)
    _add_names(rows, passage, finder.find(passage.title), names, homes, extractor)
    # Types names of a page by its other names; changes `rows`.
    title = title_keys[:1]
    # Names that are no part of a longer one, in order.
    outer: list[Mention] = []
    for mention in names:
        if outer and mention.start < outer[-1].end:
            if mention.end - mention.start > outer[-1].end - outer[-1].start:
                outer[-1] = mention
            continue
        outer.append(mention)
    if title and sentences:
        _type_other_names(rows, passage.text, rows[title[0]], outer, sentences[0][1])
    _drop_persons(rows)  # before lists, which would spread them
    # Gives names of a list the type of the surest among them.
    begin = 0
    for number in range(1, len(outer) + 1):
        gap = passage.text[outer[number - 1].end : outer[number].start] if number < len(outer) else ""
        if 0 < len(gap) <= 8 and _LIST.fullmatch(gap):
            continue
        listed = [rows[mention.key] for mention in outer[begin:number]]
        surest = max(listed, key=lambda row: row.confidence or 0)
        if len(listed) > 1 and surest.type in _SPREADS and (surest.confidence or 0) >= types.CUE:
            for row in listed:
                _raise(row, surest.type, _LISTED)
        begin = number
    _drop_persons(rows)
    _type_parts(rows)
    known = list(rows)
    _add_values(rows, dates, "DATE", sentences, extractor)
    _add_values(rows, find_numbers(passage.text, dates), "NUMBER", sentences, extractor)

    if language == ENGLISH:
        sure = {key: row.type for key, row in rows.items() if (row.confidence or 0) >= _SURE}
        page = PageNames(title_keys, sure)
        stated = page_relations(passage.text, sentences, names, homes, page)
    else:
        stated = consecutive_relations(passage.text, names, homes)
    stated += title_relations(title_keys, known, stated)
    propositions = sentence_propositions(passage, title_keys, sentences, names, dates)
    # Relations as propositions, the names as the passage first spells them.
    triples = (triple_proposition((rows[a].surface, label, rows[b].surface), a, b) for a, label, b in stated)
    return ExtractedPassage(
        passage,
        sentences,
        rows,
        [(relation, RULES) for relation in stated],
        [(proposition, RULES) for proposition in propositions],
        [(triple, RULES) for triple in merged(triples)],
    )


def title_rows(passage: Passage, extractor: str) -> dict[str, ExtractedEntity]:
    """Rows of the keys of a passage's own title, which it always mentions. Source: algorithms.md 2B.1 (c)."""
    forms = title_forms(passage.title)
    if not forms:
        return {}
    kind, confidence = types.title_type(passage.title, forms[0][0], passage.text)
    rows = {
        key: ExtractedEntity(surface, kind, min(confidence, types.ALIAS), extractor, is_title=True)
        for key, surface in forms
    }
    rows[forms[0][0]].confidence = confidence
    return rows


def _add_names(
    rows: dict[str, ExtractedEntity],
    passage: Passage,
    in_title: Found,
    in_text: Found,
    homes: Sequence[int],
    extractor: str,
) -> None:
    """Adds all names: those in the title, then in order of first mention."""
    for mention in in_title:
        if mention.key not in rows:
            rows[mention.key] = ExtractedEntity(mention.surface, *types.name_type(mention.key), extractor)
        rows[mention.key].tf += 1
    for mention, home in zip(in_text, homes, strict=True):
        row = rows.get(mention.key)
        if row is None:
            row = rows[mention.key] = ExtractedEntity(mention.surface, *types.name_type(mention.key), extractor)
        if not row.is_title and len(row.spans) < TYPED_MENTIONS:
            type_by_mention(row, mention.key, passage.text, mention.start, mention.end)
        row.add_span(mention.start, mention.end, home)


def type_by_mention(row: ExtractedEntity, key: str, text: str, start: int, end: int) -> None:
    """Types a name by this mention if that is surer than the known type. Source: algorithms.md 0.8 (F-TYPE)."""
    kind, confidence = types.mention_type(key, text, start, end)
    if row.confidence is None or confidence > row.confidence:
        row.type, row.confidence = kind, confidence


def _add_values(
    rows: dict[str, ExtractedEntity], values: Found, kind: str, sentences: Sequence[tuple[int, int]], extractor: str
) -> None:
    """Adds dates or numbers, whose form is their type."""
    for value, home in zip(values, sentences_of(values, sentences), strict=True):
        row = rows.get(value.key)
        if row is None:
            row = rows[value.key] = ExtractedEntity(value.surface, kind, 1.0, extractor)
        row.add_span(value.start, value.end, home)
