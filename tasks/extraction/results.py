"""What a batch of extraction yields, whoever extracted (pure).

Rows.py turns its pages into tables, ledger.py the rest.
"""

from collections import Counter
from dataclasses import dataclass, field

from tasks.extraction.ledger import LedgerRow
from tasks.extraction.rows import Page


@dataclass(slots=True)
class BatchPages:
    """Pages, ledger rows and counts of a batch.

    Attributes:
        pages: One per passage.
        ledger: Rows of the ledger.
        counts: What was counted, by name.
        computed: Units that no cache could answer.
    """

    pages: list[Page] = field(default_factory=list)
    ledger: list[LedgerRow] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    computed: int = 0

    @property
    def has_failed(self) -> bool:
        """Whether the next run shall try something of it again."""
        return self.counts["failed_units"] > 0
