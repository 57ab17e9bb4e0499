"""What a batch of extraction yields, whoever extracted (pure).

Rows.py turns its pages into tables, ledger.py the rest.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from polyhop.schemas.corpus import Passage
from polyhop.schemas.errors import PolyhopError
from polyhop.tasks.extraction.ledger import LedgerRow
from polyhop.tasks.extraction.rows import Page
from polyhop.tasks.faults import fault_reason


@dataclass(slots=True)
class BatchPages:
    """Pages, ledger rows and counts of a batch.

    Attributes:
        pages: One per passage that no rule failed on.
        ledger: Rows of the ledger.
        counts: What was counted, by name.
        computed: Units that no cache could answer.
        faults: Passages that a rule failed on, with the reason.
    """

    pages: list[Page] = field(default_factory=list)
    ledger: list[LedgerRow] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    computed: int = 0
    faults: list[tuple[str, str]] = field(default_factory=list)

    def add_page(self, passage: Passage, extract: Callable[[Passage], Page]) -> Page | None:
        """Adds what is found on a passage; if a rule fails on its text, its fault, and returns None.

        Raises:
            PolyhopError: From `extract`: a setting or a store, not the text, is the reason.
        """
        try:
            page = extract(passage)
        except (PolyhopError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, one odd text must not end the run
            self.faults.append((passage.passage_id, fault_reason(error)))
            return None
        self.pages.append(page)
        return page

    @property
    def has_failed(self) -> bool:
        """Whether the next run shall try something of it again."""
        return self.counts["failed_units"] > 0
