"""Extraction without a model: names, dates, numbers, relations and propositions of passages.

Source: algorithms.md 0.8 (F-NER, F-REL, F-DESC, F-PROP), 2B.1 (c).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from polyhop.schemas import types
from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import AUTO, ENGLISH, detected
from polyhop.schemas.legal_forms import names_company
from polyhop.schemas.names import NameFinder, name_tokens, split_sentences, title_forms
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.records import Passage
from polyhop.schemas.text import passage_text
from polyhop.schemas.values import find_dates, find_numbers
from polyhop.tasks.extraction.clauses import PageNames
from polyhop.tasks.extraction.relations import consecutive_relations, page_relations, title_relations
from polyhop.tasks.extraction.rows import (
    UNTYPED,
    BatchPages,
    ExtractedEntity,
    ExtractedPassage,
    Proposition,
    merged,
    sentences_of,
    triple_proposition,
)
from polyhop.warehouse.models.local_encoder import Span
from polyhop.warehouse.name_judge import CLASSES, OTHER, JudgedText, NamedText, NameJudge

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


# Source: algorithms.md 2B.1, 0.8. Types: docs/decisions/0039-types-from-token-states.md.

RULES = "rules"
_NO_NAME = 0.9  # share of a mention's votes for no name above which it is related to nothing; as resolution drops names


@dataclass(frozen=True, slots=True)
class FoundNames:
    """Names in the text and in the title of a passage, in order, and votes for `CLASSES` of these mentions.

    Votes of mentions in the text are known by their spans, those of names in the title by their keys.
    """

    in_text: Sequence[Mention]
    in_title: Sequence[Mention]
    votes: Mapping[tuple[int, int], Sequence[int]] = field(default_factory=dict)
    title_votes: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def is_name(self, mention: Mention) -> bool:
        """Returns whether a mention may be one of a name."""
        votes = self.votes.get((mention.start, mention.end))
        return votes is None or votes[-1] < _NO_NAME * sum(votes)


def find_names(passage: Passage, finder: NameFinding) -> FoundNames:
    """Names of a passage; the finder is called on title and text separately, so that no name reaches across."""
    return FoundNames(finder.find(passage.text), finder.find(passage.title))


def rules_page(
    passage: Passage, finder: NameFinding, extractor: str = RULES, language: str = ENGLISH
) -> ExtractedPassage:
    """As `page_of_names`, of the names that a finder finds, without types but for the title's."""
    return page_of_names(passage, find_names(passage, finder), extractor, language)


def page_of_names(
    passage: Passage, names: FoundNames, extractor: str = RULES, language: str = ENGLISH
) -> ExtractedPassage:
    """Extracts names, dates and relations of one passage (its title and its text) by rules.

    The keys of its title are always mentioned, whatever was found. Dates and numbers have separate rows; dates occur in
    propositions, neither occurs in relations. Source: algorithms.md 0.8. Cost: O(characters).
    """
    dates = find_dates(passage.text)
    sentences = split_sentences(passage.text, is_english=language == ENGLISH)
    homes = sentences_of(names.in_text, sentences)
    title_keys = [key for key, _ in title_forms(passage.title)]

    rows = title_rows(passage, extractor)
    _add_names(rows, names, homes, extractor)
    _type_companies(rows.values())
    known = list(rows)
    _add_values(rows, dates, "DATE", sentences, extractor)
    _add_values(rows, find_numbers(passage.text, dates), "NUMBER", sentences, extractor)

    own = set(title_keys)
    placed = [pair for pair in zip(names.in_text, homes, strict=True) if pair[0].key in own or names.is_name(pair[0])]
    related, related_homes = [name for name, _ in placed], [home for _, home in placed]
    if language == ENGLISH:
        page = PageNames(title_keys, sure_types(rows))
        stated = page_relations(passage.text, sentences, related, related_homes, page)
    else:
        stated = consecutive_relations(passage.text, related, related_homes)
    stated += title_relations(title_keys, known, stated)
    propositions = sentence_propositions(passage, title_keys, sentences, names.in_text, dates)
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


_SURE = 0.6  # least share of votes, and confidence, of a type; as resolution types entities


def sure_types(rows: Mapping[str, ExtractedEntity]) -> dict[str, str | None]:
    """Types of names by what this page states, else by the votes of its mentions; None for a name of another type."""
    found: dict[str, str | None] = {}
    for key, row in rows.items():
        if (row.confidence or 0) >= _SURE:
            found[key] = row.type
        elif row.votes and max(row.votes[:-1]) >= _SURE * sum(row.votes):
            kind = CLASSES[row.votes.index(max(row.votes))]
            found[key] = None if kind == OTHER else kind
    return found


def title_rows(passage: Passage, extractor: str) -> dict[str, ExtractedEntity]:
    """Rows of the keys of a passage's own title, which it always mentions. Source: algorithms.md 2B.1 (c).

    A page states the type of its whole title only: `Paris (1999 film)` does not make Paris a film.
    """
    forms = title_forms(passage.title)
    rows = {key: ExtractedEntity(surface, None, UNTYPED, extractor, is_title=True) for key, surface in forms}
    if forms:
        row = rows[forms[0][0]]
        row.type, row.confidence = types.title_type(passage.title, forms[0][0], passage.text)
    return rows


def _add_names(rows: dict[str, ExtractedEntity], names: FoundNames, homes: Sequence[int], extractor: str) -> None:
    """Adds all names: those in the title, then in order of first mention."""
    for mention in names.in_title:
        if mention.key not in rows:
            rows[mention.key] = ExtractedEntity(mention.surface, None, UNTYPED, extractor)
        rows[mention.key].tf += 1
    for mention, home in zip(names.in_text, homes, strict=True):
        row = rows.get(mention.key)
        if row is None:
            row = rows[mention.key] = ExtractedEntity(mention.surface, None, UNTYPED, extractor)
        row.add_span(mention.start, mention.end, home)
        row.add_votes(names.votes.get((mention.start, mention.end)))
    for key, votes in names.title_votes.items():
        rows[key].add_votes(votes)


_FIRST_KEPT, _OTHER = CLASSES.index("LOCATION"), CLASSES.index(OTHER)  # classes that a legal form does not change


def _type_companies(rows: Iterable[ExtractedEntity]) -> None:
    """Types names that end with a company's legal form, unless most votes are for a location, a work or an event."""
    for row in rows:
        is_judged = row.votes and row.confidence == UNTYPED
        if is_judged and names_company(row.surface) and max(row.votes[_FIRST_KEPT:_OTHER]) < _SURE * sum(row.votes):
            row.type, row.confidence = types.ORGANIZATION, types.DEFINED


def _add_values(
    rows: dict[str, ExtractedEntity], values: Found, kind: str, sentences: Sequence[tuple[int, int]], extractor: str
) -> None:
    """Adds dates or numbers, whose form is their type."""
    for value, home in zip(values, sentences_of(values, sentences), strict=True):
        row = rows.get(value.key)
        if row is None:
            row = rows[value.key] = ExtractedEntity(value.surface, kind, 1.0, extractor)
        row.add_span(value.start, value.end, home)


# The rules of one corpus. Source: decisions/0039-types-from-token-states.md.

T = TypeVar("T")
_AT_ONCE = 64  # passages whose token states are in memory at once; chosen: 25 MB at most


@dataclass(frozen=True, slots=True)
class PassageRules:
    """Extracts passages of a corpus by rules; without a judge names have the types that pages say of their titles."""

    finder: NameFinding
    extractor: str
    language: str
    judge: NameJudge | None = None

    def __call__(self, passage: Passage) -> ExtractedPassage:
        """Extracts one passage."""
        ((_, names),) = self.judged([(passage, find_names(passage, self.finder))])
        return self._page(passage, names)

    def add_pages(self, pages: BatchPages, passages: Sequence[Passage]) -> None:
        """Extracts passages, whatever a rule fails on apart."""
        for some in _parts(passages):
            found = [(one, names) for one in some if (names := pages.attempt(one, self._find)) is not None]
            for passage, names in self.judged(found):
                pages.add_page(passage, partial(self._page, names=names))

    def judged(self, found: Sequence[tuple[Passage, FoundNames]]) -> list[tuple[Passage, FoundNames]]:
        """Names with their votes, those that are no titles without words at their ends that belong to no name."""
        if self.judge is None:
            return [*found]
        texts = [self._named(passage, names) for passage, names in found]
        answers = zip(texts, self.judge.judge(texts), strict=True)
        return [(one, _judged(one, names, *answer)) for (one, names), answer in zip(found, answers, strict=True)]

    def type_pages(self, pages: Sequence[ExtractedPassage]) -> None:
        """Adds votes for the names that a model or a file stated without a type."""
        if self.judge is None:
            return
        untyped = [page for page in pages if any(not row.votes and row.confidence == 0 for row in page.rows.values())]
        for some in _parts(untyped):
            names = [FoundNames(_stated_mentions(page), ()) for page in some]
            texts = [self._named(page.passage, found, is_stated=True) for page, found in zip(some, names, strict=True)]
            for page, found, text, answer in zip(some, names, texts, self.judge.judge(texts), strict=True):
                judged = _judged(page.passage, found, text, answer)
                for mention in found.in_text:
                    page.rows[mention.key].add_votes(judged.votes.get((mention.start, mention.end)))
                _type_companies(page.rows.values())

    def _find(self, passage: Passage) -> FoundNames:
        return find_names(passage, self.finder)

    def _page(self, passage: Passage, names: FoundNames) -> ExtractedPassage:
        return page_of_names(passage, names, self.extractor, self.language)

    def _named(self, passage: Passage, names: FoundNames, *, is_stated: bool = False) -> NamedText:
        """The text that the encoder sees, with the names of its title and its text."""
        shift = _shift(passage)
        language = detected(passage.text) if self.language == AUTO else self.language
        fixed = {*_title_spans(passage).values(), *((name.start, name.end) for name in names.in_title)}
        loose: set[Span] = set()
        for name in names.in_text:
            is_loose = isinstance(self.finder, NameFinder) and not is_stated and not self.finder.is_title(name.key)
            (loose if is_loose else fixed).add((shift + name.start, shift + name.end))
        text = passage_text(passage.title, passage.text)
        return NamedText(text, sorted(fixed), sorted(loose), is_english=language == ENGLISH and not is_stated)


def _shift(passage: Passage) -> int:
    return len(passage_text(passage.title, passage.text)) - len(passage.text)


def _title_spans(passage: Passage) -> Mapping[str, Span]:
    """Spans of the forms of a title in it, by key."""
    starts = {key: (passage.title.find(form), len(form)) for key, form in title_forms(passage.title)}
    return {key: (start, start + length) for key, (start, length) in starts.items() if start >= 0}


def _judged(passage: Passage, names: FoundNames, named: NamedText, answer: JudgedText) -> FoundNames:
    """Names with the ends and votes of an answer, whose offsets are those of the text that the encoder saw."""
    shift, fixed = _shift(passage), {*named.fixed}
    by_span = {(one.start, one.end): one for one in names.in_text if (shift + one.start, shift + one.end) in fixed}
    for start, end in answer.loose:
        mention = _mention(passage, start - shift, end - shift)
        if len(mention.key) > 1:
            by_span.setdefault((mention.start, mention.end), mention)
    votes = {(start - shift, end - shift): said for (start, end), said in answer.votes.items() if start >= shift}
    in_title = {**{one.key: (one.start, one.end) for one in names.in_title}, **_title_spans(passage)}
    of_title = {key: answer.votes[span] for key, span in in_title.items() if span in answer.votes}
    return replace(names, in_text=[by_span[span] for span in sorted(by_span)], votes=votes, title_votes=of_title)


def _mention(passage: Passage, start: int, end: int) -> Mention:
    surface = passage.text[start:end]
    return Mention(" ".join(name_tokens(surface)), surface, start, end)


def _stated_mentions(page: ExtractedPassage) -> list[Mention]:
    """Mentions in the text of names without a stated type."""
    rows = ((key, row) for key, row in page.rows.items() if row.confidence == 0 and not row.is_title)
    found = (Mention(key, page.passage.text[a:b], a, b) for key, row in rows for a, b in row.spans)
    return sorted(found, key=lambda mention: (mention.start, mention.end))


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))
