"""A question file to a job in the queue, the workers that answer it, and its answers judged against gold."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any

from polyhop.schemas.errors import PolyhopError, SourceError
from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.queue import NewQuestion, QuestionState, ResultRow, WorkerRow
from polyhop.schemas.records import BadRecord, TripleIds
from polyhop.schemas.requests import SubmissionRequest
from polyhop.schemas.settings import Settings, as_environment, default_strategy
from polyhop.schemas.text import plural
from polyhop.tasks.evaluation.metrics import TRIPLE_METRICS, find_golden
from polyhop.tasks.evaluation.report import RETRIEVAL_METRICS, GoldQuestion, Outcome, evaluate
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import golden_triples, usable_questions
from polyhop.warehouse.files.records import FaultError
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.open import open_published
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.worker.strategies.registry import parse_parameters, require_artefacts, spec_of

UNSERVED_SECONDS = 30.0
"""Seconds without any worker before that is logged; chosen: a worker that starts needs a few."""

_ALIVE_SECONDS = 30.0
"""A worker not seen for so long is taken for gone: its lease (30 s by default) has ended then, too."""
_MOST_CRASHES = 3
"""Attempts of a question by default: a question that kills workers is given up after so many."""
_DRAIN_SECONDS = 10.0
"""Seconds to finish the batch at work; chosen well below the 30 s after which Prefect kills a run that it cancels."""

_LAST_WORDS_SECONDS = 5.0
"""For the last lines of a worker that has ended; chosen: they are in the pipe already."""

Process = subprocess.Popen[bytes]


def start_worker(queues: str, settings: Mapping[str, Any]) -> Process:
    """Starts `polyhop worker --until-empty`; settings go by its environment, for they may hold passwords.

    What it prints must be read (`follow`), or it stops when the pipe is full.
    """
    command = [sys.executable, "-m", "polyhop.cli", "worker", "--queues", queues, "--until-empty"]
    environment = {**os.environ, **as_environment(settings)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # noqa: S603 - our own command


def follow(process: Process, say: Callable[[str], None]) -> Thread | None:
    """Hands on what a worker prints, line by line, until it ends; the thread that does so."""
    if process.stdout is None:
        return None
    lines = process.stdout

    def read() -> None:
        with lines:
            for line in lines:
                said = line.decode("utf-8", "replace").strip()
                if said:
                    say(f"worker {process.pid}: {said}")

    thread = Thread(target=read, name=f"output of worker {process.pid}", daemon=True)
    thread.start()
    return thread


def end_worker(process: Process) -> None:
    """Ends a worker: it may finish the batch at work, then gives it back."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_DRAIN_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()  # the second signal gives the batch back at once
        process.wait()


class Outages:
    """Which outages of models, seen by workers, are new since the last look."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, float | None]] = set()

    def new(self, workers: Sequence[WorkerRow], queues: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The payload of an event for each outage of a worker of these queues that was not there before."""
        for worker in workers:
            if worker.outage is None or not set(queues) & set(worker.queues):
                continue
            if (worker.worker_id, worker.outage_since) not in self._seen:
                self._seen.add((worker.worker_id, worker.outage_since))
                yield {
                    "worker": worker.worker_id,
                    "host": worker.host,
                    "queues": list(worker.queues),
                    "reason": worker.outage,
                    "since": worker.outage_since,
                }


class Crew:
    """The workers of a run: started while nobody else serves the queue, ended with the run.

    `warn` gets what somebody should look at, `say` what the workers print.
    """

    def __init__(
        self,
        queue: QuestionQueue,
        name: str,
        count: int,
        settings: Mapping[str, Any],
        warn: Callable[[str], None],
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._queue, self._name, self._count = queue, name, count
        self._settings = settings
        self._warn = warn
        self._say = say or warn
        self._readers: list[Thread] = []
        self._running: list[Process] = []
        self._crashes = 0
        self._served_at: float | None = time.monotonic()

    def look_after(self) -> None:
        """Starts workers if nobody serves the queue, or says so if this run is to start none."""
        self._count_crashes()
        if self._running or any(self._name in w.queues for w in self._queue.workers(_ALIVE_SECONDS)):
            self._served_at = time.monotonic()
        elif self._count:
            self._start()
        elif self._served_at is not None and time.monotonic() - self._served_at >= UNSERVED_SECONDS:
            self._served_at = None  # said once
            self._warn(
                f"No worker has served queue '{self._name}' for {UNSERVED_SECONDS:.0f} s, and this run starts none "
                f"(workers=0); start one with: polyhop worker --queues {self._name}"
            )

    def end(self) -> None:
        """Ends the workers that this run started."""
        for process in self._running:
            end_worker(process)
        for reader in self._readers:
            reader.join(_LAST_WORDS_SECONDS)

    def _start(self) -> None:
        self._running = [start_worker(self._name, self._settings) for _ in range(self._count)]
        readers = [follow(process, self._say) for process in self._running]
        self._readers += [reader for reader in readers if reader is not None]

    def _count_crashes(self) -> None:
        ended = [process for process in self._running if process.poll() is not None]
        self._running = [process for process in self._running if process not in ended]
        codes = [process.returncode for process in ended if process.returncode]
        self._crashes += len(codes)
        if self._crashes >= _MOST_CRASHES:
            raise PolyhopError(
                f"Workers of this run ended with an error {self._crashes} times, the last with code {codes[-1]}; "
                "what they printed is in the log of this run."
            )


def job_metrics(rows: Iterator[ResultRow]) -> dict[str, Any] | None:
    """Metrics of a job whose file had answers, supporting passages or golden triples; None if it had none of them.

    Depths beyond the job's limit were not looked at and are None, like whatever has no gold. Golden triples are looked
    for among those that the question's answer ranks: the index may be gone.
    """
    gold, outcomes = [], []
    limits: set[int] = set()
    records: dict[str, str] = {}
    for row in rows:
        records |= {p["id"]: p["record"] for p in _passages(row) if "record" in p}
        limits |= {value for value in (row.result.get("limit"),) if isinstance(value, int)}
        gold.append(_gold(row))
        outcomes.append(_outcome(row))
    if not any(map(_has_gold, gold)):
        return None
    outcomes = _without_unranked_triples(outcomes)
    report = evaluate(gold, {"job": outcomes}, lambda passage_id: records.get(passage_id, passage_id))
    metrics: dict[str, Any] = report["strategies"]["job"]
    beyond = _beyond(metrics, min(limits)) if limits else set()
    long_answers = {name: report[name] for name in ("long_answers",) if name in report}
    return {"n": report["n"], **metrics, **dict.fromkeys(beyond), **long_answers}


def _has_gold(question: GoldQuestion) -> bool:
    return bool(question.answers or question.supporting or question.triples)


def _without_unranked_triples(outcomes: list[Outcome]) -> list[Outcome]:
    """The outcomes, without triples if no answer ranks any: the job's strategy ranks none."""
    if any(outcome.triples is not None and outcome.error is None for outcome in outcomes):
        return outcomes
    return [replace(outcome, triples=None) for outcome in outcomes]


def _beyond(metrics: Mapping[str, Any], limit: int) -> set[str]:
    """The metrics that look deeper than a limit (recall@10 of five passages)."""
    ranked = [name for name in (*RETRIEVAL_METRICS, *TRIPLE_METRICS) if name in metrics]
    return {name for name in ranked if int(name.partition("@")[2] or 0) > limit}


def _gold(row: ResultRow) -> GoldQuestion:
    try:
        golden = golden_triples(row.metadata)
    except FaultError:  # a field of that name with something else in it: metadata, like any other
        golden = ()
    ids = find_golden(golden, _triples(row))
    triples = frozenset(ids.get(triple, triple) for triple in golden)
    return GoldQuestion(row.question_id, tuple(row.answers), frozenset(row.supporting), triples=triples)


def _triples(row: ResultRow) -> list[NamedTriple]:
    """The triples that an answer ranks."""
    found: Any = row.result.get("triples", [])
    return [
        NamedTriple(t["subject"]["id"], t["subject"]["name"], t["predicate"], t["object"]["id"], t["object"]["name"])
        for t in found
    ]


def _ranked_triples(row: ResultRow) -> tuple[TripleIds, ...] | None:
    return tuple(triple.ids for triple in _triples(row)) if "triples" in row.result else None


def _outcome(row: ResultRow) -> Outcome:
    if row.state is not QuestionState.DONE:
        return Outcome(error=row.error or row.state.value, triples=())
    reading: Any = row.result.get("reading") or {}
    usage, parts = reading.get("usage") or {}, row.result.get("seconds")
    return Outcome(
        ranking=tuple(passage["id"] for passage in _passages(row)),
        answer=row.answer,
        seconds=row.seconds,
        confidence=None if reading.get("kind") == "generated" else reading.get("confidence"),
        kind=reading.get("kind", ""),
        parts=parts if isinstance(parts, dict) else {},
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
        cost_usd=usage.get("cost_usd", 0.0),
        triples=_ranked_triples(row),
    )


def _passages(row: ResultRow) -> list[dict[str, str]]:
    passages: Any = row.result.get("passages", [])
    return list(passages)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job for a question file; `is_new` is False if an earlier submission with the same key made it.

    `bad` are the records that were left out.
    """

    job_id: int
    count: int
    is_new: bool
    bad: list[BadRecord]


def submit_file(settings: Settings, queue: QuestionQueue, request: SubmissionRequest) -> Submitted:
    """Submits a file as one job.

    The strategy's parameters are checked here, for the command line, the flow and Python alike: a misspelt one would
    become a job whose questions all die. A job without a strategy ("") gets that of the index. The queue checks the
    rest of the job (schemas/queue.py).

    Raises:
        ConfigurationError: If a parameter does not exist or is out of its range.
        FilterError: If the filter does not parse, or does not fit the metadata of the current version.
        SourceError: If a record is bad and `skip_bad` is not set, or no question is usable; nothing is submitted.
        SubmissionError: If the job could never be answered.
        UnknownStrategyError: If there is no such strategy.
        UnknownIndexError: If there is no such index.
        MissingArtefactError: If the index was not built for the strategy.
    """
    _, folder = require_version(Layout(settings.root), request.job.index)
    manifest = read_manifest(folder)
    strategy = request.job.strategy or default_strategy(manifest.stages, manifest.artefacts)
    job = replace(request.job, name=request.job.name or request.questions.name, strategy=strategy)
    parse_parameters(spec_of(job.strategy), job.parameters)
    require_artefacts(job.strategy, manifest.artefacts, job.index)
    if job.where is not None:
        with closing(open_published(settings.root, job.index)) as published:
            published.allowed_passages(job.where)  # raises where the filter is wrong
    records, bad = usable_questions(request.questions)
    if bad and not request.skip_bad:
        first = bad[0]
        raise SourceError(
            f"Nothing was submitted: {plural(len(bad), 'question')} of {request.questions} cannot be used; first "
            f"line {first.line}: {first.reason}. Fix them, or leave them out with --skip-bad."
        )
    questions = [NewQuestion(r.id, r.question, r.topic, r.answers, r.supporting, r.metadata) for r in records]
    job_id, is_new = queue.submit_or_find(job, questions)
    return Submitted(job_id, len(questions), is_new, bad)
