"""The run history of an index as tables for SQL: `index_runs` and `index_stages`.

Reads the file that run_history.py writes; says nothing about versions.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa

from polyhop.schemas.runs import INDEX_RUNS, INDEX_STAGES, RunRecord, reused_units
from polyhop.warehouse.files.layout import IndexFolder
from polyhop.warehouse.files.run_history import read_runs
from polyhop.warehouse.tables.lazy import LazyTable, Wanted

_SUMS = ("computed", "calls", "prompt_tokens", "completion_tokens", "cost_usd")


def history_tables(index: IndexFolder) -> list[LazyTable]:
    """The two tables of an index."""

    def runs(_: Wanted) -> pa.Table:
        return pa.Table.from_pylist([_run_row(run) for run in read_runs(index)], schema=INDEX_RUNS.arrow)

    def stages(_: Wanted) -> pa.Table:
        rows = [row for run in read_runs(index) for row in _stage_rows(run)]
        return pa.Table.from_pylist(rows, schema=INDEX_STAGES.arrow)

    return [LazyTable(INDEX_RUNS, runs), LazyTable(INDEX_STAGES, stages)]


def _run_row(run: RunRecord) -> dict[str, Any]:
    by = run.started_by
    return {
        **run.model_dump(include={"run", "seconds", "outcome", "sentence", "version", "cached", "source", "polyhop"}),
        **{name: run.total(name) for name in _SUMS},
        "reused": reused_units(run.stages),
        "started": datetime.fromisoformat(run.started),
        "seconds_json": json.dumps({name: stage.seconds for name, stage in run.stages.items()}),
        "counts_json": json.dumps(run.counts),
        "peak_memory_mb": run.peak_memory_mb,
        "started_by": f"{by.user}@{by.host}",
        "process": by.process,
        "flow_run_id": by.flow_run_id,
        "flow_run_url": by.flow_run_url,
    }


def _stage_rows(run: RunRecord) -> Iterator[dict[str, Any]]:
    for name, stage in run.stages.items():
        row = {**stage.model_dump(), "run": run.run, "stage": name, "reused": stage.units - stage.computed}
        yield {column: row[column] for column in INDEX_STAGES.column_names}
