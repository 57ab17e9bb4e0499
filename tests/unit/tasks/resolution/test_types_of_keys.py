"""The type of an entity: what its page says before cues, cues before defaults, no type where a cue says so."""

import duckdb
import pytest

from polyhop.schemas.types import DEFAULT, DEFINED
from polyhop.warehouse.statements import statement

Vote = tuple[str | None, float | None, int, bool]
"""Type, confidence, mentions, whether it is of the name's own page."""


def type_of(*votes: Vote) -> tuple[str | None, float] | None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE resolved_mentions (key VARCHAR, type VARCHAR, type_confidence DOUBLE, tf INTEGER, "
            "is_title BOOLEAN)"
        )
        connection.executemany(
            "INSERT INTO resolved_mentions VALUES ('roe', ?, ?, ?, ?)", [list(vote) for vote in votes]
        )
        connection.execute(statement("resolve", "types_of_keys"))
        return connection.execute("SELECT type, confidence FROM types_of_keys").fetchone()


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([("PERSON", DEFAULT, 50, False), ("WORK", 0.5, 1, False)], ("WORK", 1.0)),
        ([("PERSON", 0.85, 50, False), ("LOCATION", DEFINED, 1, True)], ("LOCATION", 1.0)),
        ([("PERSON", 0.85, 50, False), ("LOCATION", DEFINED, 1, False)], ("PERSON", 0.979263)),
        ([("PERSON", 0.85, 50, False), ("LOCATION", 0.8, 1, True)], ("PERSON", 0.981524)),
        ([("PERSON", 0.85, 50, False), (None, DEFINED, 1, True)], (None, 1.0)),
        ([("PERSON", 0.5, 2, False), (None, 0.9, 1, False)], ("PERSON", 0.526316)),
        ([("PERSON", DEFAULT, 2, False), (None, 0.2, 1, False)], ("PERSON", 0.75)),
        ([("PERSON", 0.5, 1, False), (None, 0.5, 1, False)], ("PERSON", 0.5)),
        ([("PERSON", None, 1, False), ("WORK", DEFAULT, 1, False)], ("WORK", 1.0)),
        ([(None, None, 1, False)], None),
    ],
)
def test_surer_ways_to_know_come_first(votes: list[Vote], expected: tuple[str | None, float] | None) -> None:
    assert type_of(*votes) == expected
