"""A graph read into the tables of a build."""

from collections.abc import Callable

import pytest

from polyhop.tasks.graph_source.stage import INGEST_GRAPH
from polyhop.tasks.publish.publish import check_invariants
from polyhop.tasks.stage import tables_of
from polyhop.warehouse.build import Build, start_build


@pytest.fixture
def ingested() -> Callable[[Build], Build]:
    """Runs the stage on a build; its tables keep what publishing checks."""

    def run(build: Build) -> Build:
        start_build(build, tables_of([INGEST_GRAPH]))
        INGEST_GRAPH.run(build, 0)
        build = build.with_counts(INGEST_GRAPH.name, INGEST_GRAPH.finish(build))
        with build.tables() as connection:
            check_invariants(connection, [INGEST_GRAPH], tables_of([INGEST_GRAPH]))
        return build

    return run
