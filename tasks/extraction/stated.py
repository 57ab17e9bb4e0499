"""Statements of a model or of an imported file about a document, located in its passages (pure).

A row of a file is any JSON value: what is malformed is counted by reason, never raised. Source: algorithms.md 1.3,
2B.2, 0.8 (F-TYPE, F-DESC). Decided here: a name that no passage of the document holds is mentioned by the first; F-TYPE
types a name that came without a type only where it occurs in the text with a capital, because `economic growth` is
no name. Ends of triples are names too; triples are a row's propositions unless it has its own; a part of more than
`MAX_NAME_CHARACTERS` is not a name; a triple with an end of signs only (`π` is a word, `±` is none) is well formed, but
nothing can be named by it; a triple from a name to itself stays a proposition but is not a relation.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from polyhop.schemas.extraction_schema import NO_SCHEMA, ExtractionSchema
from polyhop.schemas.names import NAME_WORD, name_tokens, split_sentences
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import ExtractionSettings
from polyhop.schemas.text import content_hash, fold, norm_ws, passage_text
from polyhop.schemas.values import find_dates, find_numbers
from polyhop.tasks.extraction.relations import RELATED
from polyhop.tasks.extraction.rows import (
    UNTYPED,
    BatchPages,
    ExtractedEntity,
    ExtractedPassage,
    LedgerRow,
    Proposition,
    Relation,
    cut,
    merged,
    triple_proposition,
)
from polyhop.tasks.extraction.rules import title_rows

if TYPE_CHECKING:
    from polyhop.warehouse.files.rows import ExtractionRow

# Source: algorithms.md 1.3 (2).

ENTITY_TYPES = ("PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK")  # the paper's types, in its order

VALUE_TYPES = ("DATE", "NUMBER")
_TYPE_CHARACTERS = 60  # chosen: longer than names of types are; a model's sentence does not become one
_LABEL_CHARACTERS = 200  # chosen: longer than labels of relations are; a model's paragraph does not become one


@dataclass(frozen=True, slots=True)
class Contract:
    """Types that a prompt asks for, types and labels that are known, and what to do with other ones.

    That is to evolve, to freeze or to discard; without relation types any label is known.
    """

    asked_types: tuple[str, ...]
    entity_types: frozenset[str]
    relation_types: frozenset[str]
    on_other: str
    guidance: str = ""  # relations that the prompt lists behind the types

    @staticmethod
    def of(settings: ExtractionSettings, schema: ExtractionSchema = NO_SCHEMA) -> "Contract":
        """The contract that the settings and a user's schema describe."""
        own = tuple(kind.name for kind in schema.types)
        is_qasa = settings.type_contract == "qasa"  # the closed set of its paper, any label
        listed = ENTITY_TYPES if is_qasa else tuple(_known_type(name) for name in settings.entity_types.split())
        asked = tuple(dict.fromkeys((*(listed or ENTITY_TYPES), *own)))
        known = asked if listed else (*asked, *VALUE_TYPES)
        labels = (norm_ws(label) for label in settings.relation_types.split(","))
        on_other = "discard" if is_qasa else settings.type_contract
        return Contract(asked, frozenset(known), frozenset(filter(None, labels)), on_other, schema.guidance())

    def entity_type(self, name: str, counts: Counter[str]) -> tuple[bool, str | None]:
        """Returns whether an entity of this type stays, and with which type; counts unknown types."""
        kind = _known_type(name)
        if kind in self.entity_types:
            return True, kind
        if self.on_other == "discard":
            counts["dropped_entity_types"] += 1
            return False, None
        if self.on_other == "freeze" or not kind:
            counts["mapped_entity_types"] += 1
            return True, None
        counts["new_entity_types"] += 1
        return True, kind

    def relation(self, label: str, counts: Counter[str]) -> str | None:
        """The label under which a relation stays, None if it is dropped; unknown types are counted."""
        bare = norm_ws(label)[:_LABEL_CHARACTERS].strip()
        if not self.relation_types or bare in self.relation_types:
            return bare
        if self.on_other == "discard":
            counts["dropped_relation_types"] += 1
            return None
        if self.on_other == "freeze":
            counts["mapped_relation_types"] += 1
            return RELATED
        counts["new_relation_types"] += 1
        return bare


def contract_settings(settings: ExtractionSettings) -> Mapping[str, str]:
    """Settings that determine the contract, for fingerprints."""
    return {
        "entity_types": " ".join(settings.entity_types.split()),
        "entity_type_contract": settings.type_contract,
        "relation_types": settings.relation_types,
        "relation_type_contract": settings.type_contract,
    }


def _known_type(name: str) -> str:
    return "_".join(name.upper().split())[:_TYPE_CHARACTERS]


Span = tuple[int, int]  # offsets of the first character and after the last one


@lru_cache(maxsize=1 << 16)
def key_of(name: str) -> str:
    """The key of a name: `date:…` or `number:…` if it is one as a whole, else its words; "" if it has none.

    Source: algorithms.md 2B.2 (keys by the same normalisation).
    """
    bare = name.strip()
    dates = find_dates(bare)
    values = dates or find_numbers(bare, dates)
    if values and (values[0].start, values[0].end) == (0, len(bare)):
        return values[0].key
    return " ".join(name_tokens(bare))


def is_value(key: str) -> bool:
    """Returns whether a key is a date or a number."""
    return key.startswith(("date:", "number:"))


class PlacedText:
    """A text in which names are looked up by key; all offsets refer to `text`, as it was given."""

    def __init__(self, text: str) -> None:
        self.text = text
        # The folded text, and the offset in the original of each character (None: the same).
        folded, origins = text, None
        if not text.isascii():
            pieces = [fold(character) for character in text]
            folded, origins = "".join(pieces), [offset for offset, piece in enumerate(pieces) for _ in piece]
        self._words: list[str] = []
        self._spans: list[Span] = []
        self._starts: dict[str, list[int]] = {}
        for match in NAME_WORD.finditer(folded):
            word = match[0].lower()
            self._starts.setdefault(word, []).append(len(self._words))
            self._words.append(word)
            start, last = match.start(), match.end() - 1
            self._spans.append((start, last + 1) if origins is None else (origins[start], origins[last] + 1))
        self._values: dict[str, list[Span]] | None = None

    def find(self, key: str) -> list[Span]:
        """Every occurrence of a key, left to right, none overlapping another.

        Cost: O(occurrences of its first word * its words).
        """
        if is_value(key):
            if self._values is None:
                self._values = {}
                dates = find_dates(self.text)
                for mention in [*dates, *find_numbers(self.text, dates)]:
                    self._values.setdefault(mention.key, []).append((mention.start, mention.end))
            return self._values.get(key, [])
        words = key.split()
        found: list[Span] = []
        free = 0
        for number in self._starts.get(words[0], ()) if words else ():
            if number >= free and self._words[number : number + len(words)] == words:
                free = number + len(words)
                found.append((self._spans[number][0], self._spans[free - 1][1]))
        return found


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

    A name goes to every passage in which it stands, else to the first; a relation, proposition or triple to the first
    passage that holds all its names, else to the first. Source: algorithms.md 1.3 (2).
    """
    if len(passages) == 1:
        return [stated]
    texts = [PlacedText(passage.text) for passage in passages]
    parts = [Stated() for _ in passages]
    # Numbers of the texts in which the names stand, by key.
    keys = dict.fromkeys(name.key for name in stated.names)
    holders = {key: [number for number, text in enumerate(texts) if text.find(key)] for key in keys}
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


def _holder(holders: dict[str, list[int]], keys: Iterable[str]) -> int:
    found = [set(holders.get(key, ())) for key in keys]
    return min(set.intersection(*found), default=0) if found else 0


def stated_page(passage: Passage, stated: Stated, extractor: str) -> ExtractedPassage:
    """The page of a passage about which something is stated.

    The keys of its title are always mentioned; tf counts a name's occurrences in title and text and is at least 1.

    Source: algorithms.md 2B.2. Cost: O(characters + occurrences).
    """
    text, title = PlacedText(passage.text), PlacedText(passage.title)
    page = ExtractedPassage(passage, split_sentences(passage.text), title_rows(passage, extractor))
    for key, title_row in page.rows.items():
        _locate(page, key, title_row, text, title)
    given: set[str] = set()
    for name in stated.names:
        if not name.key:
            continue
        row = page.rows.get(name.key)
        if row is None:
            row = page.rows[name.key] = ExtractedEntity(name.name, None, None, extractor)
            _locate(page, name.key, row, text, title)
            if row.spans:
                row.surface = passage.text[slice(*row.spans[0])]
            # Dates and numbers have the type of their form; what occurs with a capital is a name without one.
            if is_value(name.key):
                row.type, row.confidence = ("DATE" if name.key.startswith("date:") else "NUMBER"), 1.0
            elif row.spans and row.surface != row.surface.lower():
                row.confidence = UNTYPED
        # Adds the first type and the first description that are stated of a name; `given` are the keys that have one.
        if name.type and name.key not in given and not is_value(name.key):
            row.type, row.confidence = name.type, 1.0
            given.add(name.key)
        row.description = row.description or cut(name.description)
    page.relations = [(relation, extractor) for relation in dict.fromkeys(stated.relations)]
    page.propositions = [(proposition, extractor) for proposition in merged(stated.propositions)]
    page.triples = [(triple, extractor) for triple in merged(stated.triples)]
    return page


def _locate(page: ExtractedPassage, key: str, row: ExtractedEntity, text: PlacedText, title: PlacedText) -> None:
    starts = [start for start, _ in page.sentences]
    row.tf += len(title.find(key))
    for start, end in text.find(key):
        row.add_span(start, end, max(0, bisect_right(starts, start) - 1))


RecordText = tuple[str, str, str]  # record id, title, text


@dataclass(slots=True)
class Matches:
    """Rows by the passage or record they belong to, and the rows that belong to none, with the reason."""

    by_id: "dict[str, ExtractionRow]" = field(default_factory=dict)
    left_over: "list[tuple[ExtractionRow, str]]" = field(default_factory=list)

    def row_of(self, passage_id: str, record_id: str) -> "tuple[str, ExtractionRow | None]":
        """The id under which a passage has a row (its own, else its record's), and the row if there is one."""
        if passage_id in self.by_id:
            return passage_id, self.by_id[passage_id]
        return record_id, self.by_id.get(record_id)


def match_rows(
    rows: "Iterable[ExtractionRow]", known_ids: Iterable[str], texts: Callable[[], Iterable[RecordText]]
) -> Matches:
    """Finds the passage or record of every row.

    Cost: O(rows + ids + characters, if texts are needed).
    """
    known = frozenset(known_ids)
    matches = Matches()
    by_text: dict[str, list[ExtractionRow]] = {}
    for row in rows:
        if row.fault:
            matches.left_over.append((row, row.fault))
        elif row.text:
            by_text.setdefault(_text_key(row.text), []).append(row)
        else:
            _assign(matches, row, [row.id] if row.id in known else [])
    # Ids of the records that have a text, with or without their title in front, by the key of the text.
    owners: dict[str, list[str]] = {}
    for record_id, title, text in texts() if by_text else ():
        for key in {_text_key(text), _text_key(passage_text(title, text))} & by_text.keys():
            owners.setdefault(key, []).append(record_id)
    for key, same in by_text.items():
        for row in same:
            _assign(matches, row, owners.get(key) or ([row.id] if row.id in known else []))
    matches.left_over.sort(key=lambda pair: pair[0].line)
    return matches


def _assign(matches: Matches, row: "ExtractionRow", owners: list[str]) -> None:
    if not owners:
        matches.left_over.append((row, "no passage has this id or text"))
        return
    free = [owner for owner in owners if owner not in matches.by_id]
    if not free:
        matches.left_over.append((row, "an earlier row is about the same passage"))
    matches.by_id.update(dict.fromkeys(free, row))


def _text_key(text: str) -> str:
    return content_hash(norm_ws(text))


MAX_NAME_CHARACTERS = 500  # chosen: ten times what long names have; a passage instead of a name is refused
_ENTITY_FIELDS = ("entities", "extracted_entities")
_TRIPLE_FIELDS = ("triples", "extracted_triples")
MALFORMED = "malformed_triples"
WITHOUT_WORDS = "without_words"


def stated_in_row(row: Mapping[str, object], contract: Contract) -> tuple[Stated, Counter[str]]:
    """Parses the statements of a row; counts malformed parts by reason.

    Source: algorithms.md 2B.2. Cost: O(characters).
    """
    counts: Counter[str] = Counter()
    stated = Stated()
    dropped: set[str] = set()
    for value in _list(row, _ENTITY_FIELDS, counts):
        name = _entity(value, contract, counts, dropped)
        if name is not None:
            stated.names.append(name)
    for value in _list(row, _TRIPLE_FIELDS, counts):
        parts = _triple(value, counts)
        if parts is None:
            continue
        # A triple's names and its relation, and the triple as a proposition.
        source, target = named(parts[0]), named(parts[2])
        if not dropped.isdisjoint((source.key, target.key)):
            counts["triples_of_dropped_entities"] += 1
            continue
        stated.names += [source, target]
        if source.key == target.key:
            counts["triples_to_themselves"] += 1
        elif (label := contract.relation(parts[1], counts)) is not None:
            stated.relations.append((source.key, label, target.key))
        stated.triples.append(triple_proposition(parts, source.key, target.key))
    if isinstance(row.get("propositions"), list):
        stated.propositions = _propositions(stated, row, counts)
    else:
        stated.propositions = [*stated.triples]
    return stated, counts


def _list(row: Mapping[str, object], names: tuple[str, ...], counts: Counter[str]) -> list[object]:
    value = next((row[name] for name in names if row.get(name) is not None), None)
    if value is None:
        return []
    if not isinstance(value, list):
        counts[f"{names[0]}_not_a_list"] += 1
        return []
    return value


def _entity(value: object, contract: Contract, counts: Counter[str], dropped: set[str]) -> StatedName | None:
    fields = value if isinstance(value, Mapping) else {"name": value}
    name, kind, description = fields.get("name"), fields.get("type"), fields.get("description")
    reason = _name_fault(name)
    if reason or not isinstance(name, str):
        counts[f"entities_{reason}"] += 1
        return None
    if not isinstance(kind, str):
        return named(name)
    stays, known = contract.entity_type(clean(kind), counts)
    if not stays:
        dropped.add(named(name).key)
        return None
    return named(name, known, clean(description) if isinstance(description, str) else "")


def _name_fault(name: object) -> str:
    """Fault of a value that is not a name; "" if it is one."""
    if not isinstance(name, str):
        return "not_strings"
    if len(name) > MAX_NAME_CHARACTERS:
        return "too_long"
    if not clean(name):
        return "empty"
    return "" if named(name).key else WITHOUT_WORDS


def _triple(value: object, counts: Counter[str]) -> tuple[str, str, str] | None:
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        reason = "not_three_parts"
    elif not isinstance(value[1], str):
        reason = "not_strings"
    else:
        source, label, target = (clean(str(part)) for part in value)
        reason = _name_fault(value[0]) or _name_fault(value[2]) or ("" if label else "empty")
        if not reason:
            return source, label, target
    if reason == WITHOUT_WORDS:
        counts["triples_without_words"] += 1
    else:
        counts[MALFORMED] += 1
        counts[f"{MALFORMED}_{reason}"] += 1
    return None


def _propositions(stated: Stated, row: Mapping[str, object], counts: Counter[str]) -> list[Proposition]:
    """The propositions of our own export; names in them that the row does not list are names too."""
    found = []
    for value in _list(row, ("propositions",), counts):
        fields = value if isinstance(value, Mapping) else {}
        text, entities = fields.get("text"), fields.get("entities")
        if not isinstance(text, str) or not clean(text) or not isinstance(entities, list):
            counts["malformed_propositions"] += 1
            continue
        names = [named(name) for name in entities if isinstance(name, str) and not _name_fault(name)]
        counts["entities_of_propositions_dropped"] += len(entities) - len(names)
        stated.names += names
        found.append((clean(text), list(dict.fromkeys(name.key for name in names))))
    return found


STEP = "import"
ROW_STEP = "import.row"
_REPORTED = ("malformed", "entities_", "triples_without")

StandIn = Callable[[Passage], ExtractedPassage]  # extracts a passage without a model


def import_pages(
    passages: Sequence[Passage],
    siblings: Mapping[str, Sequence[Passage]],
    matches: Matches,
    contract: Contract,
    stand_in: StandIn,
) -> BatchPages:
    """Collects the file's statements about passages; those without a row go to the fallback."""
    batch = BatchPages()
    shares: dict[str, dict[str, Stated]] = {}
    for passage in passages:
        unit_id, row = matches.row_of(passage.passage_id, passage.record_id)
        if row is None:
            page = batch.add_page(passage, stand_in)
            batch.counts["without_row"] += 1
            if page is not None:
                extractor = next((row.extractor for row in page.rows.values()), "rules")
                error = "the file has no row for this passage"
                batch.ledger.append(
                    LedgerRow(STEP, passage.passage_id, "failed", extractor, error_class="NoRow", error=error)
                )
            continue
        pieces = siblings.get(passage.record_id, [passage]) if unit_id == passage.record_id else [passage]
        if unit_id not in shares:
            stated, counts = stated_in_row(row.fields, contract)
            parts = distribute(stated, pieces)
            shares[unit_id] = {piece.passage_id: part for piece, part in zip(pieces, parts, strict=True)}
            if pieces[0].passage_id == passage.passage_id:
                batch.counts.update(counts)
                batch.counts["extracted_units"] += 1
                batch.ledger += _malformed(unit_id, counts)
        share = shares[unit_id][passage.passage_id]
        batch.add_page(passage, partial(stated_page, stated=share, extractor=IMPORT))
    return batch


def left_over(matches: Matches) -> BatchPages:
    """Ledger and counts of the rows that belong to no passage."""
    ledger = [
        LedgerRow(ROW_STEP, f"line {row.line}", "failed", error_class="UnusableRow", error=f"{reason}: {row.id!r}")
        for row, reason in matches.left_over
    ]
    counts = Counter(
        "malformed_rows" if row.fault else "unknown_ids" if reason.startswith("no passage") else "rows_given_twice"
        for row, reason in matches.left_over
    )
    return BatchPages([], ledger, counts)


def _malformed(unit_id: str, counts: Counter[str]) -> list[LedgerRow]:
    """A row for the ledger if anything was malformed."""
    faults = [f"{n} {name.replace('_', ' ')}" for name, n in sorted(counts.items()) if name.startswith(_REPORTED)]
    if not faults:
        return []
    return [LedgerRow(STEP, unit_id, "done", error_class="Malformed", error=", ".join(faults))]
