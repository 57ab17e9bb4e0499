"""The run history of an index (`runs.jsonl`), which also says what the stages of a version took.

It lies beside the versions: they never change, and hold no clock. Readers skip a line that a kill cut short.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from polyhop.schemas.errors import redacted_tree
from polyhop.schemas.manifest import RunRecord, StageTiming, Starter
from polyhop.warehouse.files.disk import locked_file, replacing, sync_folder, writing
from polyhop.warehouse.files.layout import IndexFolder
from polyhop.warehouse.machine import is_running, user_name

KEPT_RUNS = 10_000
"""Chosen: a hundred days of a run every quarter of an hour, in some 10 MB."""
_SPARE_RUNS = 1_000
"""Runs beyond `KEPT_RUNS` before the file is written again, so that this is seldom."""
_TAIL_BYTES = 65_536
"""Longer than the longest line: the number of the last run is looked for in so much of the file's end."""
_FLOW_RUN = "PREFECT__FLOW_RUN_ID"
"""Prefect sets it in the processes that it starts for flow runs."""


def starter(flow_run_id: str = "", flow_run_url: str = "") -> Starter:
    """Who runs this process; without an id, the flow run that Prefect started it for."""
    return Starter(
        user=user_name(),
        host=socket.gethostname(),
        process=os.getpid(),
        flow_run_id=flow_run_id or os.environ.get(_FLOW_RUN, ""),
        flow_run_url=flow_run_url,
    )


def begin_run(folder: IndexFolder, record: Callable[[int], RunRecord], *, kept: int = KEPT_RUNS) -> RunRecord:
    """Writes that a run has begun, as `record` makes it of its number; only the last `kept` runs are remembered."""
    with _appending(folder) as file:
        for left in folder.path.glob(f".{folder.runs.name}.*.tmp"):  # by a kill: only who holds the lock writes one
            left.unlink()
        begun = record(_last_run(file) + 1)
        _append(file, begun)
        if begun.run > kept:
            file.seek(0)
            first = next((run for run in map(_record, file) if run is not None), None)
            if first is not None and _last_run(file) - first.run >= kept + min(_SPARE_RUNS, kept):
                newest = [run for run in _merged(_records(folder)) if run.run > begun.run - kept]
                with replacing(folder.runs) as temporary:
                    temporary.write_bytes(b"".join(map(_line, newest)))
                sync_folder(folder.path)
    return begun


def end_run(folder: IndexFolder, record: RunRecord) -> None:
    """Writes how a run ended."""
    with _appending(folder) as file:
        _append(file, record)


def read_runs(folder: IndexFolder) -> list[RunRecord]:
    """All runs that can be read, ascending.

    One that did not end was killed if its process is gone, or if a later one has worked since: an index has one writer.
    """
    runs = _merged(_records(folder))
    last_worked = max((run.run for run in runs if run.stages), default=0)
    return [
        run.model_copy(update={"outcome": "killed"})
        if run.outcome == "running"
        and (run.run < last_worked or is_running(run.started_by.host, run.started_by.process) is False)
        else run
        for run in runs
    ]


def stage_timings(folder: IndexFolder, version: int) -> dict[str, StageTiming]:
    """What the stages took that built a version: each in the last run up to it that did not take its result over.

    A stage whose run is not in the history is not among them.
    """
    runs = [run for run in read_runs(folder) if 0 < run.published <= version]
    computed = {stage: use for run in runs for stage, use in run.stages.items() if not use.is_taken_over}
    return {stage: StageTiming.model_validate(use.model_dump()) for stage, use in computed.items()}


@contextmanager
def _appending(folder: IndexFolder) -> Iterator[IO[bytes]]:
    """The file, locked: no other process adds to it or replaces it."""
    with writing("the run history", folder.runs):
        folder.path.mkdir(parents=True, exist_ok=True)
        with locked_file(folder.runs) as file:
            yield file


def _append(file: IO[bytes], record: RunRecord) -> None:
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _TAIL_BYTES))
    tail = file.read()
    if tail and not tail.endswith(b"\n"):  # a kill cut the last line short
        file.truncate(end - len(tail) + tail.rfind(b"\n") + 1)
    file.write(_line(record))
    file.flush()
    os.fsync(file.fileno())


def _line(record: RunRecord) -> bytes:
    """The line of a run, without secrets: sources and addresses of servers may hold them."""
    document = redacted_tree(record.model_dump(mode="json"))
    return (json.dumps(document, separators=(",", ":")) + "\n").encode()


def _record(line: bytes) -> RunRecord | None:
    """The run of a line, None if the line cannot be read."""
    try:
        return RunRecord.model_validate_json(line)
    except ValueError:  # a ValidationError is one
        return None


def _records(folder: IndexFolder) -> list[RunRecord]:
    """Records of the lines that can be read, in order."""
    try:
        lines = folder.runs.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    return [record for record in map(_record, lines) if record is not None]


def _merged(records: list[RunRecord]) -> list[RunRecord]:
    """One record per run: its last."""
    return [run for _, run in sorted({record.run: record for record in records}.items())]


def _last_run(file: IO[bytes]) -> int:
    """The greatest number at the end of the file; lines of two runs at once may be in either order."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
    return max((run.run for run in map(_record, file.read().split(b"\n")) if run is not None), default=0)
