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

from polyhop.flows.evaluation.metrics import TRIPLE_METRICS, find_golden
from polyhop.flows.evaluation.report import RETRIEVAL_METRICS, GoldQuestion, Outcome, evaluate
from polyhop.schemas.errors import PolyhopError, SourceError, WaitingError
from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.queue import NewQuestion, QuestionState, ResultRow, WorkerRow
from polyhop.schemas.records import BadRecord
from polyhop.schemas.requests import SubmissionRequest
from polyhop.schemas.settings import Settings, as_environment
from polyhop.schemas.text import plural
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import golden_triples, usable_questions
from polyhop.warehouse.files.records import FaultError
from polyhop.warehouse.files.versions import default_strategy, read_manifest, require_version
from polyhop.warehouse.open import open_published
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.worker.strategies.registry import parse_parameters, require_artefacts, spec_of

UNSERVED_SECONDS = 30.0  # seconds without any worker before that is logged; chosen: a worker that starts needs a few
_ALIVE_SECONDS = 30.0
"""A worker that misses heartbeats for this long is considered dead; its leases (30 s by default) have ended, too."""
_MOST_CRASHES = 3  # attempts of a question by default: a question that kills workers is given up after so many
_BATCH_PAUSE_SECONDS = (
    60.0  # chosen: negligible compared with a wait of minutes to hours, and a worker takes 3 s to start
)
_DRAIN_SECONDS = 10.0
"""Seconds to finish the batch at work; chosen well below the 30 s after which Prefect kills a run that it cancels."""
_LAST_WORDS_SECONDS = 5.0  # for the last lines of a worker that has ended; chosen: they are in the pipe already


class WorkerProcess:
    """`polyhop worker --until-empty`, started at once; settings go by its environment, for they may hold passwords.

    `say` gets what it prints, line by line.
    """

    def __init__(self, queues: str, settings: Mapping[str, Any], say: Callable[[str], None]) -> None:
        command = [sys.executable, "-m", "polyhop.cli", "worker", "--queues", queues, "--until-empty"]
        environment = {**os.environ, **as_environment(settings)}
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # noqa: S603 - our own command
        self.pid = self._process.pid
        self._reader = Thread(target=self._read, args=(say,), name=f"output of worker {self.pid}", daemon=True)
        self._reader.start()

    @property
    def code(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.poll()

    def end(self) -> None:
        """Ends it: it may finish the batch at work, then gives it back."""
        if self.code is None:
            self._process.terminate()
            try:
                self._process.wait(_DRAIN_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.terminate()  # the second signal gives the batch back at once
                self._process.wait()
        self._reader.join(_LAST_WORDS_SECONDS)

    def _read(self, say: Callable[[str], None]) -> None:
        if self._process.stdout is not None:
            with self._process.stdout as lines:
                for line in lines:
                    said = line.decode("utf-8", "replace").strip()
                    if said:
                        say(f"worker {self.pid}: {said}")


SeenOutages = set[tuple[str, float | None]]  # Of models, by worker and when each began.


def new_outages(seen: SeenOutages, workers: Sequence[WorkerRow], queues: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The payload of an event for each outage of a worker of these queues that is not among those seen; it is then."""
    for worker in workers:
        outage = worker.worker_id, worker.outage_since
        if worker.outage is not None and set(queues) & set(worker.queues) and outage not in seen:
            seen.add(outage)
            where = {"worker": worker.worker_id, "host": worker.host, "queues": list(worker.queues)}
            yield {**where, "reason": worker.outage, "since": worker.outage_since}


class Crew:
    """The workers of a run: started while no other worker serves the queue, ended with the run.

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
        self._warn, self._say = warn, say or warn
        self._started: list[WorkerProcess] = []
        self._running: list[WorkerProcess] = []
        self._crashes = 0
        self._idle_until = 0.0
        self._served_at: float | None = time.monotonic()

    def look_after(self) -> None:
        """Starts workers if no worker serves the queue, or says so if this run is to start none."""
        ended = {worker: worker.code for worker in self._running if worker.code is not None}
        self._running = [worker for worker in self._running if worker not in ended]
        if WaitingError.exit_code in ended.values():  # for a batch: a worker that starts looks at it again
            self._idle_until = time.monotonic() + _BATCH_PAUSE_SECONDS
        codes = [code for code in ended.values() if code not in {0, WaitingError.exit_code}]
        self._crashes += len(codes)
        if self._crashes >= _MOST_CRASHES:
            raise PolyhopError(
                f"Workers of this run ended with an error {self._crashes} times, the last with code {codes[-1]}; "
                "see their output in the log of this run."
            )
        if self._running or any(self._name in w.queues for w in self._queue.workers(_ALIVE_SECONDS)):
            self._served_at = time.monotonic()
        elif self._count:
            if time.monotonic() >= self._idle_until:
                self._running = [WorkerProcess(self._name, self._settings, self._say) for _ in range(self._count)]
                self._started += self._running
        elif self._served_at is not None and time.monotonic() - self._served_at >= UNSERVED_SECONDS:
            self._served_at = None  # said once
            self._warn(
                f"No worker has served queue '{self._name}' for {UNSERVED_SECONDS:.0f} s, and this run starts none "
                f"(workers=0); start one with: polyhop worker --queues {self._name}"
            )

    def end(self) -> None:
        """Ends the workers that this run started."""
        for worker in self._started:
            worker.end()


def job_metrics(rows: Iterator[ResultRow]) -> dict[str, Any] | None:
    """Metrics of a job whose file had answers, supporting passages or golden triples; None if it had none of them.

    Depths beyond the job's limit were not looked at and are None, like whatever has no gold. Golden triples are looked
    for among those that the question's answer ranks: the index may be gone.
    """
    gold, outcomes = [], []
    limits: set[int] = set()
    records: dict[str, str] = {}
    for row in rows:
        passages: Any = row.result.get("passages", [])
        records |= {passage["id"]: passage["record"] for passage in passages if "record" in passage}
        limits |= {value for value in (row.result.get("limit"),) if isinstance(value, int)}
        stated: Any = row.result.get("triples", [])
        ends = [(t["subject"], t["predicate"], t["object"]) for t in stated]
        ranked = [NamedTriple(s["id"], s["name"], predicate, o["id"], o["name"]) for s, predicate, o in ends]
        try:
            golden = golden_triples(row.metadata)
        except FaultError:  # a field of that name with something else in it: metadata, like any other
            golden = ()
        ids = find_golden(golden, ranked)
        triples = frozenset(ids.get(triple, triple) for triple in golden)
        gold.append(GoldQuestion(row.question_id, tuple(row.answers), frozenset(row.supporting), triples=triples))
        if row.state is not QuestionState.DONE:
            outcomes.append(Outcome(error=row.error or row.state.value, triples=()))
            continue
        reading: Any = row.result.get("reading") or {}
        guess: Any = row.result.get("guess", row.answer)
        sentences: Any = row.result.get("sentences", [])
        usage, parts = reading.get("usage") or {}, row.result.get("seconds")
        outcome = Outcome(
            ranking=tuple(passage["id"] for passage in passages),
            guess=guess,
            answer=row.answer,
            sentences=sentences,
            seconds=row.seconds,
            confidence=None if reading.get("kind") == "generated" else reading.get("confidence"),
            kind=reading.get("kind", ""),
            parts=parts if isinstance(parts, dict) else {},
            prompt_tokens=usage.get("prompt_tokens", 0),
            completion_tokens=usage.get("completion_tokens", 0),
            cost_usd=usage.get("cost_usd", 0.0),
            triples=tuple(triple.ids for triple in ranked) if "triples" in row.result else None,
        )
        outcomes.append(outcome)
    if not any(question.answers or question.supporting or question.triples for question in gold):
        return None
    if not any(outcome.triples is not None and outcome.error is None for outcome in outcomes):
        outcomes = [replace(outcome, triples=None) for outcome in outcomes]  # the job's strategy ranks none
    report = evaluate(gold, {"job": outcomes}, lambda passage_id: records.get(passage_id, passage_id))
    metrics: dict[str, Any] = report["strategies"]["job"]
    ranking_metrics = [name for name in (*RETRIEVAL_METRICS, *TRIPLE_METRICS) if name in metrics and limits]
    beyond = {name for name in ranking_metrics if int(name.partition("@")[2] or 0) > min(limits)}
    long_answers = {name: report[name] for name in ("long_answers",) if name in report}
    return {"n": report["n"], **metrics, **dict.fromkeys(beyond), **long_answers}


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job for a question file; `is_new` is False if an earlier submission with the same key made it."""

    job_id: int
    count: int
    is_new: bool
    bad: list[BadRecord]  # those that were left out


def submit_file(settings: Settings, queue: QuestionQueue, request: SubmissionRequest) -> Submitted:
    """Submits a file as one job.

    The strategy's parameters are checked here, for the command line, the flow and Python alike: a misspelt one would
    become a job whose questions all die. A job without a strategy ("") gets that of the index. The queue checks the
    rest of the job (schemas/queue.py). Whatever is wrong with it is raised before anything is submitted.
    """
    _, folder = require_version(Layout(settings.root), request.job.index)
    manifest = read_manifest(folder)
    strategy = request.job.strategy or default_strategy(manifest)
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
