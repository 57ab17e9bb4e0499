"""Rows of existing extractions matched with records and passages, as statements about them (pure).

Takes any JSON value as a row: what is malformed is counted by reason, never raised. Source: algorithms.md 2B.2.
Decided here: ends of triples are names too; triples are a row's propositions unless it has its own; a part of more
than
`MAX_NAME_CHARACTERS` is not a name; a triple with an end of signs only (`π` is a word, `±` is none) is well formed,
but
nothing can be named by it; a triple from a name to itself stays a proposition but is not a relation.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from polyhop.schemas.records import Passage
from polyhop.schemas.text import content_hash, norm_ws, passage_text
from polyhop.tasks.extraction.rows import BatchPages, LedgerRow, Page, Proposition, triple_proposition
from polyhop.tasks.extraction.stated import IMPORT, Contract, Stated, StatedName, clean, distribute, named, stated_page
from polyhop.warehouse.files.extractions import ExtractionRow

RecordText = tuple[str, str, str]
"""Record id, title, text."""


@dataclass(slots=True)
class Matches:
    """Rows by the passage or record they belong to, and the rows that belong to none, with the reason."""

    by_id: dict[str, ExtractionRow] = field(default_factory=dict)
    left_over: list[tuple[ExtractionRow, str]] = field(default_factory=list)

    def row_of(self, passage_id: str, record_id: str) -> tuple[str, ExtractionRow | None]:
        """The id under which a passage has a row (its own, else its record's), and the row if there is one."""
        if passage_id in self.by_id:
            return passage_id, self.by_id[passage_id]
        return record_id, self.by_id.get(record_id)


def match_rows(
    rows: Iterable[ExtractionRow], known_ids: Iterable[str], texts: Callable[[], Iterable[RecordText]]
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
    owners = _owners(texts(), by_text) if by_text else {}
    for key, same in by_text.items():
        for row in same:
            _assign(matches, row, owners.get(key) or ([row.id] if row.id in known else []))
    matches.left_over.sort(key=lambda pair: pair[0].line)
    return matches


def _owners(records: Iterable[RecordText], wanted: Container[str]) -> dict[str, list[str]]:
    """Ids of the records that have a text, with or without their title in front, by the key of the text."""
    owners: dict[str, list[str]] = {}
    for record_id, title, text in records:
        for key in {_text_key(text), _text_key(passage_text(title, text))}:
            if key in wanted:
                owners.setdefault(key, []).append(record_id)
    return owners


def _assign(matches: Matches, row: ExtractionRow, owners: list[str]) -> None:
    if not owners:
        matches.left_over.append((row, "no passage has this id or text"))
        return
    free = [owner for owner in owners if owner not in matches.by_id]
    if not free:
        matches.left_over.append((row, "an earlier row is about the same passage"))
    matches.by_id.update(dict.fromkeys(free, row))


def _text_key(text: str) -> str:
    return content_hash(norm_ws(text))


MAX_NAME_CHARACTERS = 500  # chosen: ten times what long names have; a passage in place of a name is refused
_ENTITY_FIELDS = ("entities", "extracted_entities")
_TRIPLE_FIELDS = ("triples", "extracted_triples")
MALFORMED = "malformed_triples"
WITHOUT_WORDS = "without_words"


def stated_in_row(row: Mapping[str, object], contract: Contract) -> tuple[Stated, Counter[str]]:
    """What a row states, and how much of it was malformed, by reason.

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
        if not dropped.isdisjoint((named(parts[0]).key, named(parts[2]).key)):
            counts["triples_of_dropped_entities"] += 1
            continue
        stated.triples.append(_state_triple(stated, parts, contract, counts))
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
    """Why a value is not a name, "" if it is one."""
    if not isinstance(name, str):
        return "not_strings"
    if len(name) > MAX_NAME_CHARACTERS:
        return "too_long"
    if not clean(name):
        return "empty"
    return "" if named(name).key else WITHOUT_WORDS


def _triple(value: object, counts: Counter[str]) -> tuple[str, str, str] | None:
    reason = _triple_fault(value)
    if reason == WITHOUT_WORDS:
        counts["triples_without_words"] += 1
        return None
    if reason or not isinstance(value, (list, tuple)):
        counts[MALFORMED] += 1
        counts[f"{MALFORMED}_{reason}"] += 1
        return None
    source, label, target = (clean(str(part)) for part in value)
    return source, label, target


def _triple_fault(value: object) -> str:
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        return "not_three_parts"
    source, label, target = value
    if not isinstance(label, str):
        return "not_strings"
    faults = (_name_fault(source), _name_fault(target), "" if clean(label) else "empty")
    return next((fault for fault in faults if fault), "")


def _state_triple(stated: Stated, parts: tuple[str, str, str], contract: Contract, counts: Counter[str]) -> Proposition:
    """Adds names and relation of a triple; returns it as a proposition."""
    source, target = named(parts[0]), named(parts[2])
    stated.names += [source, target]
    if source.key == target.key:
        counts["triples_to_themselves"] += 1
    else:
        label = contract.relation(parts[1], counts)
        if label is not None:
            stated.relations.append((source.key, label, target.key))
    return triple_proposition(parts, source.key, target.key)


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

StandIn = Callable[[Passage], Page]
"""Extracts a passage without a model."""


def import_pages(
    passages: Sequence[Passage],
    siblings: Mapping[str, Sequence[Passage]],
    matches: Matches,
    contract: Contract,
    stand_in: StandIn | None,
) -> BatchPages:
    """What the file states about passages; those without a row go to the fallback, or keep their titles only."""
    batch = BatchPages()
    shares: dict[str, dict[str, Stated]] = {}
    for passage in passages:
        unit_id, row = matches.row_of(passage.passage_id, passage.record_id)
        if row is None:
            page = batch.add_page(passage, stand_in or _title_page)
            batch.counts["without_row"] += 1
            if page is not None:
                batch.ledger.append(_missing(passage, page, is_stood_in=stand_in is not None))
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


def _title_page(passage: Passage) -> Page:
    return stated_page(passage, Stated(), IMPORT)


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


def _missing(passage: Passage, page: Page, *, is_stood_in: bool) -> LedgerRow:
    extractor = next((row.extractor for row in page.rows.values()), "rules") if is_stood_in else ""
    return LedgerRow(
        STEP, passage.passage_id, "failed", extractor, error_class="NoRow", error="the file has no row for this passage"
    )


def _malformed(unit_id: str, counts: Counter[str]) -> list[LedgerRow]:
    """A row for the ledger if anything was malformed."""
    faults = [f"{n} {name.replace('_', ' ')}" for name, n in sorted(counts.items()) if name.startswith(_REPORTED)]
    if not faults:
        return []
    return [LedgerRow(STEP, unit_id, "done", error_class="Malformed", error=", ".join(faults))]
