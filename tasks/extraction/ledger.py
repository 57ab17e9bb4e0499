"""The extraction ledger: what became of every unit that a model or a file was asked for (pure).

Asks nobody. Whether a reply came from a cache is not in it: the same replies give the same ledger.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

import pyarrow as pa

from polyhop.schemas.chat import ChatOutcome, ReplyT
from polyhop.schemas.columns import Column, Table
from polyhop.schemas.tables import EXTRACTION_LEDGER
from polyhop.tasks.extraction.rows import arrow_table

COUNTS = Table(
    "counts",
    "What a batch counted.",
    ("name",),
    (Column("name", pa.string(), "what"), Column("number", pa.int64(), "how many")),
)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A row of the table extraction_ledger, whose comments say what its fields mean."""

    step: str
    unit_id: str
    state: Literal["done", "failed"]
    stand_in: str = ""
    model: str = ""
    attempts: int = 0
    rung: str = ""
    error_class: str = ""
    error: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0


def row_of_outcome(step: str, unit_id: str, outcome: ChatOutcome[ReplyT], stand_in: str) -> LedgerRow:
    """The row of a request; `stand_in` counts only if it failed."""
    failed = outcome.reply is None
    return LedgerRow(
        step,
        unit_id,
        "failed" if failed else "done",
        stand_in if failed else "",
        outcome.model,
        outcome.attempts,
        outcome.rung.value if outcome.rung else "",
        outcome.error_class,
        outcome.error,
        outcome.usage.prompt_tokens,
        outcome.usage.completion_tokens,
        outcome.usage.cost_usd,
    )


def ledger_table(rows: Iterable[LedgerRow]) -> pa.Table:
    """The rows as a part of the table, in the order of its key."""
    return arrow_table(EXTRACTION_LEDGER, sorted(map(astuple, rows)))


def counts_table(counts: Counter[str]) -> pa.Table:
    """Counts above 0 as a part."""
    return arrow_table(COUNTS, sorted((name, number) for name, number in counts.items() if number))


def count_units(rows: Sequence[LedgerRow]) -> Counter[str]:
    """How many units a model did and how many failed."""
    counts = Counter("failed_units" if row.state == "failed" else "extracted_units" for row in rows)
    return Counter(dict(sorted(counts.items())))
