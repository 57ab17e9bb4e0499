"""Which tables a version has: those that some stage fills, and no other."""

from polyhop.schemas.tables import TABLES
from polyhop.tasks.registry import stages_for
from polyhop.tasks.stage import tables_of
from polyhop.worker.strategies.registry import STRATEGIES, needed_artefacts

WRITTEN_BY_PUBLISHING = {"version_stages"}


def test_every_table_is_filled_by_some_stage() -> None:
    stages = stages_for(needed_artefacts(list(STRATEGIES)))
    filled = WRITTEN_BY_PUBLISHING.union(*(stage.table_names for stage in stages))
    assert {table.name for table in tables_of(stages)} == filled
    assert {table.name for table in TABLES} < filled
