"""Which row of an imported file belongs to which record or passage (pure).

Looks at ids and texts only; what a row states is imported.py's business.
Decided here: a row that holds its passage is matched by that text (whitespace and case aside), and by its id only
if no passage has the text; of several rows for one passage the first counts.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field

from polyhop.schemas.ids import content_hash
from polyhop.schemas.text import norm_ws, passage_text
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

    Args:
        rows: Rows of a file, in its order.
        known_ids: Ids of all passages and records.
        texts: Gives all records; asked only if some row holds a text.

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
