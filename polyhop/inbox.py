"""Documents by a call: records are checked, kept in the inbox of an index and indexed as a separate source.

`add` does it from Python; who serves callers keeps records with `add_records`, and starts runs with `InboxRuns`. A run
also reads the uploaded files of the index, if they have changed.
"""

import json
import math
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock
from typing import Any, Literal

import pyarrow.parquet as pq

from polyhop.flows.reports import IndexReport
from polyhop.schemas.errors import PolyhopError, SourceError, UnknownIndexError, redact, remember_secrets
from polyhop.schemas.logs import configure_logs_as_parent
from polyhop.schemas.records import BadRecord, SourceRecord, Tombstone, sections_json
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, flatten
from polyhop.schemas.text import record_id
from polyhop.tasks.passages.records import metadata_json, refused_words
from polyhop.tasks.registry import source_kind
from polyhop.warehouse.build import kept_files
from polyhop.warehouse.documents.converter import ConversionLimits, Converter
from polyhop.warehouse.files import records as rules
from polyhop.warehouse.files.corpora import read_corpus
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.versions import latest_version, pinned_version, read_manifest
from polyhop.warehouse.inbox import INBOX, keep_records, taken_files
from polyhop.warehouse.uploads import UPLOADS, is_read, taken_changes, uploads
from polyhop.warehouse.user_files import load_settings

Records = Iterable[Mapping[str, Any] | str | Path]
"""Records {id?, title?, text, metadata?}, and paths of files: texts, documents, or rows of records."""


def add(
    records: Records,
    *,
    index: str,
    root: str | Path | None = None,
    settings: Settings | None = None,
    wait: bool = True,
) -> "InboxRun":
    """Adds records to an index, in a separate source named inbox, and indexes them; a new index is made of them.

    A record whose id was added before replaces that one. No other source of the index is read again. The run is a
    Prefect flow run where PREFECT_API_URL is set.

    Args:
        records: Records, and paths of files; kept before the run begins, all of them or none.
        index: Name of the index.
        root: Folder of all data; default from settings, ./polyhop-data.
        settings: Default: polyhop.toml and POLYHOP_… variables.
        wait: Whether to return once the records are indexed; False: while they are being indexed.

    Raises:
        SourceError: If a record cannot be used, or the index takes none; nothing is kept.
        PolyhopError: If the run fails; its records are kept, and the next run of the inbox indexes them.
    """
    chosen = load_settings({} if root is None else {"root": str(root)}) if settings is None else settings
    if root is not None:
        chosen = chosen.model_copy(update={"root": Path(root)})
    add_records(chosen, index, records)
    return start_run(chosen, index, wait=wait)


def start_run(settings: Settings, index: str, *, wait: bool) -> "InboxRun":
    """The run that indexes what waits: ended, or with `wait` False going on in another process."""
    if not wait:
        return InboxRuns(settings).start(index)
    report = run_inbox(settings, index)
    run = InboxRun(uuid.uuid4().hex, index, "done", report.version, report=report)
    run.ended.set()
    return run


def add_records(settings: Settings, index: str, records: Records) -> None:
    """Checks records and keeps them for the next run of the inbox; a second record of an id replaces the first.

    Raises:
        SourceError: If one of them cannot be used, or the index takes none; nothing is kept.
        StoreError: If the disk refuses them.
    """
    layout = Layout(settings.root)
    folder = layout.index(index)
    kept: dict[str, SourceRecord] = {}
    origins: dict[str, str] = {}
    others = other_sources(folder, INBOX)
    for origin, item in _items(settings, layout, records):
        if isinstance(item, BadRecord):
            raise _refused(origin, item.reason)
        if isinstance(item, Tombstone):
            command = f"polyhop index FILE --partial --source-name {INBOX} --index {index}"
            raise _refused(origin, f"it deletes '{item.id}'; put deletions into a file: {command}")
        id_ = item.id or record_id(item.title, item.text)
        if id_ in kept and (kept[id_].title, kept[id_].text) != (item.title, item.text):
            raise _refused(origin, f"{origins[id_]} has the same id '{id_}' and another text; change one of the ids")
        kept[id_], origins[id_] = item, origin
    if not kept:
        raise SourceError("There is no record to add; give at least one.")
    for id_, name in taken_ids(others, list(kept)):
        raise _refused(origins[id_], f"source '{name}' has a record with its id '{id_}'; edit that source instead")
    rows = [
        {"record_id": id_, "title": record.title, "text": record.text, "source": record.source, "origin": INBOX}
        | {"metadata_json": metadata_json(record.metadata), "sections_json": sections_json(record.sections)}
        for id_, record in kept.items()
    ]
    keep_records(folder, rows)


def _refused(origin: str, reason: str) -> SourceError:
    return SourceError(f"{origin} cannot be added, so no record of this call was added: {reason.rstrip('.')}.")


def _items(
    settings: Settings, layout: Layout, given: Records
) -> Iterator[tuple[str, SourceRecord | BadRecord | Tombstone]]:
    """Yields the given records, each with the words that name it in messages."""
    limits = ConversionLimits(passage_characters=settings.corpus.max_passage_characters)
    with Converter(limits, layout.document_cache) as converter:
        for number, one in enumerate([given] if isinstance(given, str | Path | Mapping) else given, start=1):
            if isinstance(one, str | Path):
                if Path(one).is_dir():
                    raise _refused(str(one), "it is a folder; index it as a separate source, or pass its files")
                for item in read_corpus(Path(one), convert=converter.convert):
                    yield refused_words(one, item.line, "").rstrip(": "), item
                continue
            if not isinstance(one, Mapping):
                raise _refused(f"Record {number}", f"it is not an object or a path but {rules.kind_of(one)}")
            row = rules.Row(number, one)
            id_ = next((one[name] for name in rules.ID_FIELDS if one.get(name) is not None), "")
            origin = f"Record {number} ({id_})" if id_ else f"Record {number}"
            yield origin, rules.to_tombstone(row, INBOX) or rules.to_record(row, INBOX)


def other_sources(folder: IndexFolder, source: str) -> dict[str, Path]:
    """Files that hold the records of the index's sources but one of ours, by name; refuses an index that has no such.

    Args:
        folder: Of the index.
        source: INBOX, or UPLOADS.

    Raises:
        SourceError: If the index was made from a graph, or by an older Polyhop, or has a source of that name.
    """
    number = latest_version(folder)
    if number is None:
        return {}
    version = folder.version(number)
    manifest = read_manifest(version)
    read_from = manifest.sources[source].location if source in manifest.sources else ""
    # the folder of uploads is known by its last names: a root may have been moved
    is_ours = source == UPLOADS and Path(read_from).parts[-3:] == folder.files.absolute().parts[-3:]
    why = ""
    if source_kind(manifest.stages) == "graph":
        why = "was made from a knowledge graph, to which no records can be added; add them to another index."
    elif not manifest.sources:
        why = (
            "was published by an older Polyhop, which stored no records; index the whole source once, then add records."
        )
    elif read_from and not is_ours:
        rename = f"polyhop index {read_from} --source-name NAME --replace --index {folder.name}"
        why = f"reads its source '{source}' from {read_from}; add the records there, or rename that source: {rename}"
    if why:
        raise SourceError(f"Index '{folder.name}' {why}")
    files = {name: version.arrays / kept_files(name)[0] for name in manifest.sources if name != source}
    return {name: path for name, path in files.items() if path.is_file()}


def taken_ids(sources: Mapping[str, Path], ids: list[str]) -> Iterator[tuple[str, str]]:
    """Yields those of the ids that records of these sources have, each with the name of the source."""
    for name, path in sources.items():
        taken = pq.read_table(path, columns=["record_id"], filters=[("record_id", "in", ids)])
        yield from ((id_, name) for id_ in taken.column("record_id").to_pylist())


OnProgress = Callable[[str, int, int], None]
"""Called with a stage, units done, and units of all batches at most."""


def run_inbox(settings: Settings, index: str, on_progress: OnProgress | None = None) -> IndexReport:
    """Indexes what waits in the inbox of an index, and its uploaded files if they have changed.

    It begins after another run of the inbox has ended, also if that was killed.

    Raises:
        UnknownIndexError: If nothing waits and there is no such index.
        PolyhopError: If the run fails; what waited waits for the next one.
    """
    layout = Layout(settings.root)
    folder = layout.index(index)
    report: IndexReport | None = None
    if folder.inbox.is_dir():
        with taken_files(folder) as files:
            if files:
                request = IndexRequest(index, folder.inbox, kind="corpus", source_name=INBOX, is_partial=True)
                report = _index(settings, replace(request, wait_seconds=math.inf), on_progress)
    if folder.files.is_dir():
        with taken_changes(folder) as has_changed:
            uploads_request = _uploads_request(folder)
            if has_changed and uploads_request is not None:
                corpus = settings.corpus.model_copy(update={"max_quarantine_share": _MOST_UNUSABLE})
                own = settings.model_copy(update={"corpus": corpus})
                report = _index(own, uploads_request, on_progress)
    if report is not None:
        return report
    number = latest_version(folder)
    if number is None:
        raise UnknownIndexError(index, layout.index_names(), str(layout.root))
    manifest = read_manifest(folder.version(number))
    pinned = pinned_version(folder)
    return IndexReport(index, number, counts=manifest.counts, ratios=manifest.ratios, pinned=pinned)


_MOST_UNUSABLE = 0.9999
"""Share of uploaded files that may be of no use: their page says why, and only a run that can use none fails."""


def _uploads_request(folder: IndexFolder) -> IndexRequest | None:
    """The request that reads the uploaded files as a whole; without any, the one that removes their source."""
    number = latest_version(folder)
    known = read_manifest(folder.version(number)).sources if number is not None else {}
    if any(one.is_on and is_read(one.id) for one in uploads(folder)):
        request = IndexRequest(folder.name, folder.files, kind="corpus", source_name=UPLOADS, allows_deletions=True)
        return replace(request, wait_seconds=math.inf)
    if UPLOADS in known:
        return IndexRequest(folder.name, None, removed_source=UPLOADS, wait_seconds=math.inf)
    return None


def _index(settings: Settings, request: IndexRequest, on_progress: OnProgress | None) -> IndexReport:
    if os.environ.get("PREFECT_API_URL"):  # as `polyhop index` decides
        from polyhop.flows.prefect_index import run_on_prefect

        return run_on_prefect(settings, request)
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner, batch_pool

    with batch_pool(settings) as pool:
        return run_index(settings, request, DirectRunner(on_progress, pool=pool))


@dataclass(slots=True)
class InboxRun:
    """A run of the inbox; what it became is known once `state` is not running.

    Attributes:
        run: Its id.
        index: Name of the index.
        state: running (or waiting for the run before it), done or failed.
        version: Newest version of the index, which holds the records; None unless it is done.
        error: Why it failed, in a sentence; None unless it did.
        report: What the run did, of a call that waited for it.
        stages: Its stages so far, {stage, done, total, per_second}; empty while it waits for another run, and of a run
            that Prefect does.
        ended: Set once it has ended.
    """

    run: str
    index: str
    state: Literal["running", "done", "failed"] = "running"
    version: int | None = None
    error: str | None = None
    report: IndexReport | None = field(default=None, repr=False)
    stages: list[dict[str, Any]] = field(default_factory=list, repr=False)
    ended: Event = field(default_factory=Event, repr=False)
    _began: tuple[int, float] = field(default=(0, 0.0), repr=False)

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end of the run, at most `seconds` (None: without limit); returns whether it has ended."""
        return self.ended.wait(seconds)

    def to_json(self) -> dict[str, Any]:
        """The run as a JSON document."""
        document = {name: getattr(self, name) for name in ("run", "state", "index", "version", "error")}
        return {**document, "stages": list(self.stages)}

    def note(self, stage: str, done: int, total: int, seconds: float) -> None:
        """Takes in a report of a stage: units done, units at most, and the time since the start of the run."""
        if not self.stages or self.stages[-1]["stage"] != stage:
            self.stages.append({"stage": stage})
            self._began = done, seconds
        units, took = done - self._began[0], seconds - self._began[1]
        rate = round(units / took, 1) if units and took > 0 else None
        self.stages[-1] = {"stage": stage, "done": done, "total": total, "per_second": rate}


KEPT_RUNS = 100  # that are known by their ids; chosen: clients ask within minutes


class InboxRuns:
    """Runs of the inboxes of one root: of an index one at a time, and one that waits for all that came meanwhile.

    Each is a separate process: a run takes all of an interpreter, and its models share one budget per process.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._runs: dict[str, InboxRun] = {}
        self._waiting: dict[str, InboxRun] = {}
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._lock = Lock()

    def start(self, index: str) -> InboxRun:
        """The run that will index what waits now: a new one, unless one waits for its turn."""
        with self._lock:
            if index in self._waiting:
                return self._waiting[index]
            run = self._waiting[index] = InboxRun(uuid.uuid4().hex, index)
            self._runs[run.run] = run
            ended = [id_ for id_, one in self._runs.items() if one.state != "running"]
            for id_ in ended[: max(0, len(self._runs) - KEPT_RUNS)]:
                del self._runs[id_]
            self._threads.setdefault(index, ThreadPoolExecutor(1)).submit(self._do, run)
            return run

    def latest(self, index: str) -> InboxRun | None:
        """The run of an index that goes on, or else its last one; None if it had none since the process started."""
        own = [one for one in list(self._runs.values()) if one.index == index]
        return next((one for one in own if one.state == "running"), own[-1] if own else None)

    def get(self, run: str) -> InboxRun | None:
        """The run of that id; None if there was none among the last ones."""
        return self._runs.get(run)

    def close(self) -> None:
        """Waits for all runs that were started."""
        for thread in self._threads.values():
            thread.shutdown()

    def _do(self, run: InboxRun) -> None:
        with self._lock:
            del self._waiting[run.index]  # what is kept from now on is another run's
        given = {"index": run.index, "settings": self._settings.model_dump_json(exclude_unset=True)}
        command = [sys.executable, "-P", "-c", "from polyhop.inbox import main; main()"]
        said: dict[str, Any] = {}
        try:
            # In a separate session: Ctrl-C in the terminal of a server does not stop what its close() waits for.
            with subprocess.Popen(  # noqa: S603 - our own module, by this very interpreter
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
            ) as process:
                for line in _lines(process, json.dumps(given)):
                    said = json.loads(line)
                    if "stage" in said:
                        run.note(**said)
        except (OSError, ValueError):
            said = {}
        if "version" not in said and "error" not in said:
            why = "the process of the run ended early (killed, or out of memory), or could not start"
            said = {"error": f"Index '{run.index}': {why}; start another run: the records are kept."}
        run.version, run.error = said.get("version"), said.get("error")
        run.state = "failed" if run.error else "done"
        run.ended.set()


def _lines(process: "subprocess.Popen[str]", given: str) -> Iterator[str]:
    """Gives a process all of its input; yields the lines that it prints."""
    if process.stdin is None or process.stdout is None:  # both were asked for
        raise BrokenPipeError
    with process.stdin as stdin:
        stdin.write(given)
    yield from process.stdout


def main() -> None:
    """One run: the index and settings as JSON on standard input; a line for each report of a stage and for the end."""
    given = json.load(sys.stdin)
    configure_logs_as_parent()
    settings = Settings.model_validate_json(given["settings"])
    remember_secrets(
        value for value in flatten(settings.model_dump()).values() if isinstance(value, str) and "://" in value
    )
    began = time.monotonic()

    def report(stage: str, done: int, total: int) -> None:
        at = {"stage": stage, "done": done, "total": total, "seconds": time.monotonic() - began}
        sys.stdout.write(f"{json.dumps(at)}\n")
        sys.stdout.flush()

    try:
        said: dict[str, Any] = {"version": run_inbox(settings, given["index"], report).version}
    except PolyhopError as error:
        said = {"error": redact(str(error))}
    sys.stdout.write(f"{json.dumps(said)}\n")
