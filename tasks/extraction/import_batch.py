"""One batch of passages with their rows of an imported file: pages, ledger and counts (pure).

Opens nothing; matching.py has found the rows.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from polyhop.schemas.corpus import Passage
from polyhop.tasks.extraction.contract import Contract
from polyhop.tasks.extraction.imported import stated_in_row
from polyhop.tasks.extraction.ledger import LedgerRow
from polyhop.tasks.extraction.matching import Matches
from polyhop.tasks.extraction.results import BatchPages
from polyhop.tasks.extraction.rows import Page
from polyhop.tasks.extraction.stated import IMPORT, Stated, distribute, stated_page

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
    """What the file states about passages; those without a row go to the fallback, or keep their titles only.

    Args:
        passages: The batch.
        siblings: All pieces, in order, of every record that was split.
        matches: The file's rows.
        contract: What to do with unknown types.
        stand_in: Extracts a passage that has no row.
    """
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
