"""Documents by a call: records are checked, kept in the inbox of an index and indexed as a separate source.

`add` does it from Python; who serves callers keeps records with `add_records`, and starts runs with `InboxRuns`.
"""

import json
import math
import os
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
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
    if not wait:
        return InboxRuns(chosen).start(index)
    report = run_inbox(chosen, index)
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
    others = _sources(folder)
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
    for name, path in others.items():
        taken = pq.read_table(path, columns=["record_id"], filters=[("record_id", "in", list(kept))])
        for id_ in taken.column("record_id").to_pylist()[:1]:
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


def _sources(folder: IndexFolder) -> dict[str, Path]:
    """The files that hold the records of the index's other sources, by name; refuses an index that takes no records."""
    number = latest_version(folder)
    if number is None:
        return {}
    version = folder.version(number)
    manifest = read_manifest(version)
    read_from = manifest.sources[INBOX].location if INBOX in manifest.sources else ""
    why = ""
    if source_kind(manifest.stages) == "graph":
        why = "was made from a knowledge graph, to which no records can be added; add them to another index."
    elif not manifest.sources:
        why = (
            "was published by an older Polyhop, which stored no records; index the whole source once, then add records."
        )
    elif read_from:
        rename = f"polyhop index {read_from} --source-name NAME --replace --index {folder.name}"
        why = f"reads its source '{INBOX}' from {read_from}; add the records there, or rename that source: {rename}"
    if why:
        raise SourceError(f"Index '{folder.name}' {why}")
    files = {name: version.arrays / kept_files(name)[0] for name in manifest.sources if name != INBOX}
    return {name: path for name, path in files.items() if path.is_file()}


def run_inbox(settings: Settings, index: str) -> IndexReport:
    """Indexes what waits in the inbox of an index, after another run of the inbox has ended; also if it was killed.

    Raises:
        UnknownIndexError: If nothing waits and there is no such index.
        PolyhopError: If the run fails; what waited waits for the next one.
    """
    layout = Layout(settings.root)
    folder = layout.index(index)
    if folder.inbox.is_dir():
        with taken_files(folder) as files:
            if files:
                request = IndexRequest(index, folder.inbox, kind="corpus", source_name=INBOX, is_partial=True)
                return _index(settings, replace(request, wait_seconds=math.inf))
    number = latest_version(folder)
    if number is None:
        raise UnknownIndexError(index, layout.index_names(), str(layout.root))
    manifest = read_manifest(folder.version(number))
    pinned = pinned_version(folder)
    return IndexReport(index, number, counts=manifest.counts, ratios=manifest.ratios, pinned=pinned)


def _index(settings: Settings, request: IndexRequest) -> IndexReport:
    if os.environ.get("PREFECT_API_URL"):  # as `polyhop index` decides
        from polyhop.flows.prefect_index import run_on_prefect

        return run_on_prefect(settings, request)
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner, batch_pool

    with batch_pool(settings) as pool:
        return run_index(settings, request, DirectRunner(pool=pool))


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
        ended: Set once it has ended.
    """

    run: str
    index: str
    state: Literal["running", "done", "failed"] = "running"
    version: int | None = None
    error: str | None = None
    report: IndexReport | None = field(default=None, repr=False)
    ended: Event = field(default_factory=Event, repr=False)

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end of the run, at most `seconds` (None: without limit); returns whether it has ended."""
        return self.ended.wait(seconds)

    def to_json(self) -> dict[str, Any]:
        """The run as a JSON document."""
        return {name: getattr(self, name) for name in ("run", "state", "index", "version", "error")}


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
        try:
            # In a separate session: Ctrl-C in the terminal of a server does not stop what its close() waits for.
            done = subprocess.run(  # noqa: PLW1510, S603 - our own module, by this very interpreter
                command, input=json.dumps(given), stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            said = json.loads(done.stdout.splitlines()[-1])
        except (OSError, IndexError, ValueError):
            why = "the process of the run ended early (killed, or out of memory), or could not start"
            said = {"error": f"Index '{run.index}': {why}; start another run: the records are kept."}
        run.version, run.error = said.get("version"), said.get("error")
        run.state = "failed" if run.error else "done"
        run.ended.set()


def main() -> None:
    """One run: the index and settings as JSON on standard input, {version} or {error} as the last line of output."""
    given = json.load(sys.stdin)
    configure_logs_as_parent()
    settings = Settings.model_validate_json(given["settings"])
    remember_secrets(
        value for value in flatten(settings.model_dump()).values() if isinstance(value, str) and "://" in value
    )
    try:
        said: dict[str, Any] = {"version": run_inbox(settings, given["index"]).version}
    except PolyhopError as error:
        said = {"error": redact(str(error))}
    sys.stdout.write(f"{json.dumps(said)}\n")
