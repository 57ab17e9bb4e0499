"""What a database lacks, holds in another form or holds too much of (pure).

Source: architecture.md section 7. Cost: O(rows).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from polyhop.tasks.export.rows import ExportRow


@dataclass(frozen=True, slots=True)
class Difference:
    """Ids that differ between tables and database, ascending.

    Attributes:
        missing: Not in the database.
        changed: In the database with another content.
        surplus: In the database only; one that stands there twice is surplus and missing.
    """

    missing: tuple[str, ...]
    changed: tuple[str, ...]
    surplus: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many differ."""
        return len({*self.missing, *self.changed, *self.surplus})


def compare(expected: Mapping[str, str], stored: Iterable[tuple[str, str]]) -> Difference:
    """The difference between what should be there and what is.

    Args:
        expected: Hash by id.
        stored: (id, hash) of everything there, each as often as it is there.
    """
    pairs = list(stored)
    repeated = {key for key, times in Counter(key for key, _ in pairs).items() if times > 1}
    held = {key: digest for key, digest in pairs if key not in repeated}
    return Difference(
        missing=tuple(sorted(expected.keys() - held.keys())),
        changed=tuple(sorted(key for key in expected.keys() & held.keys() if expected[key] != held[key])),
        surplus=tuple(sorted((held.keys() - expected.keys()) | repeated)),
    )


def wanted_rows(rows: Iterable[ExportRow], difference: Difference) -> Iterable[ExportRow]:
    """The rows that have to be written."""
    wanted = {*difference.missing, *difference.changed}
    return (row for row in rows if row.id in wanted)
