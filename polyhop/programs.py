"""What programs and notebooks do besides asking: index, plan, submit, evaluate.

Thin: each function is the command of its name, with the same checks; nothing is printed.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from polyhop import notebook
from polyhop.schemas.corpus import SourceKind, source_of
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.queue import JobSpec
from polyhop.schemas.requests import EvaluationRequest, IndexRequest, SubmissionRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.settings_file import load_settings

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from polyhop.flows.plan import IndexPlan
    from polyhop.flows.reports import IndexReport

Questions = str | Path | Iterable[Mapping[str, Any] | str]
"""A question file, or rows of one: {id?, question, answers[]?, supporting[]?}, or questions alone."""
_POLL_SECONDS = 0.2  # chosen: unnoticed by who waits for a job, and five small queries a second for the queue


def index(  # noqa: PLR0913 - those of `polyhop index`
    source: str | Path | None,
    *,
    name: str,
    graph: str | Path | None = None,
    add_strategies: Sequence[str] = (),
    full: bool = False,
    source_name: str = "",
    replace: bool = False,
    allow_deletions: bool = False,
    root: str | Path | None = None,
    settings: Settings | None = None,
) -> "IndexReport":
    """Indexes a corpus, or brings an index up to date with it (`polyhop index`).

    Args:
        source: A file or folder; None: what the index was made from stays as it is.
        name: Of the index.
        graph: A knowledge graph in place of a corpus: a file of triples, or a database's address.
        add_strategies: Also builds what these need.
        full: Derives every stage again.
        source_name: Which of the index's sources it is, or a new one; "": the one that was read from there.
        replace: The source takes the place of the index's only one, or of the one that `source_name` names.
        allow_deletions: More than `corpus.max_deleted_share` of a source's records may be deleted.
        root: Folder of all data; default from settings, ./polyhop-data.
        settings: Default: polyhop.toml and POLYHOP_… variables.

    Raises:
        LossRefusedError: If it would replace a source, or delete many records, and may not; nothing is published.
        SourceError: If the source cannot be used; nothing is published.
        StoreConflictError: If another process is writing this index.
        PolyhopError: As `polyhop index`.
    """
    from polyhop.flows.index import run_index
    from polyhop.flows.pools import batch_pool
    from polyhop.flows.runner import DirectRunner

    if source is not None and graph is not None:
        raise ConfigurationError("Name a source or a graph: an index is made from one of them.")
    chosen = _settings(root, settings)
    corpus = None if source is None else Path(source)
    named = corpus if graph is None else source_of(str(graph))
    kind: SourceKind | None = "graph" if graph is not None else "corpus" if source is not None else None
    request = IndexRequest(
        name,
        named,
        tuple(add_strategies),
        full=full,
        kind=kind,
        source_name=source_name,
        replaces=replace,
        allows_deletions=allow_deletions,
    )
    with batch_pool(chosen) as pool:
        return run_index(chosen, request, DirectRunner(pool=pool))


def plan(
    source: str | Path,
    *,
    add_strategies: Sequence[str] = (),
    root: str | Path | None = None,
    settings: Settings | None = None,
) -> "IndexPlan":
    """What indexing would ask of the configured models, and cost; asks nobody (`polyhop plan`).

    Raises:
        SourceError: If the source cannot be used.
        ConfigurationError: If no model is configured.
    """
    from polyhop.flows.plan import plan_index

    return plan_index(_settings(root, settings), Path(source), add_strategies)


@dataclass(frozen=True, slots=True)
class Job:
    """A job in the question queue; workers answer it, wherever they run.

    Attributes:
        id: Its number.
        count: Questions.
        is_new: False if an earlier submission with the same key made it.
    """

    id: int
    count: int
    is_new: bool
    _settings: Settings

    def is_open(self) -> bool:
        """Whether questions are left to answer."""
        with open_questions(self._settings) as queue:
            queue.sweep()
            return queue.job(self.id).is_open

    def results(self) -> list[dict[str, Any]]:
        """The questions with what became of them, in submitted order (`polyhop results`)."""
        from polyhop.jobs import result_document

        with open_questions(self._settings) as queue:
            return [result_document(row) for row in queue.results(self.id)]

    def wait(self, seconds: float | None = None) -> list[dict[str, Any]]:
        """The results once every question is answered or dead.

        Raises:
            TimeoutError: If that takes longer than so many seconds.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while self.is_open():
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"Job {self.id} is still open after {seconds:g} s; is a worker running?")
            time.sleep(_POLL_SECONDS)
        return self.results()

    def _repr_html_(self) -> str:
        rows = [(row["id"], row["question"], row["state"], row.get("answer")) for row in self.results()]
        return notebook.table(("id", "question", "state", "answer"), rows)


def submit(  # noqa: PLR0913 - those of `polyhop submit`
    questions: Questions,
    *,
    index: str,
    strategy: str = "",
    parameters: Mapping[str, object] | None = None,
    limit: int = 10,
    where: str | None = None,
    queue: str = "default",
    priority: int = 0,
    key: str | None = None,
    root: str | Path | None = None,
    settings: Settings | None = None,
) -> Job:
    """Submits questions as one job (`polyhop submit`).

    Args:
        questions: A file, or rows.
        index: Name of the index.
        strategy: Default: that of the index.
        parameters: The strategy's own settings.
        limit: Passages per question.
        where: A filter of records.
        queue: Queue to submit to.
        priority: Higher goes first.
        key: The same key again submits nothing new.
        root: Folder of all data.
        settings: Default: polyhop.toml and POLYHOP_… variables.

    Raises:
        SourceError: If a question is bad; nothing is submitted.
        PolyhopError: As `polyhop submit`.
    """
    from polyhop.flows.answer import submit_file

    chosen = _settings(root, settings)
    spec = JobSpec(
        index=index,
        queue=queue,
        strategy=strategy,
        parameters=parameters or {},
        limit=limit,
        priority=priority,
        key=key,
        where=where,
    )
    with _file_of(questions) as path, open_questions(chosen) as opened:
        submitted = submit_file(chosen, opened, SubmissionRequest(path, spec))
    return Job(submitted.job_id, submitted.count, submitted.is_new, chosen)


@dataclass(frozen=True, slots=True)
class Comparison:
    """An evaluation: strategies by their metrics.

    Attributes:
        report: The JSON contract of `polyhop eval`.
        rows: One row per question and strategy.
    """

    report: dict[str, Any]
    rows: list[dict[str, Any]]

    @property
    def metrics(self) -> dict[str, dict[str, float | None]]:
        """Metric by name, by strategy."""
        found = self.report["strategies"]
        return {
            strategy: {name: value for name, value in row.items() if value is None or isinstance(value, int | float)}
            for strategy, row in found.items()
        }

    def to_arrow(self) -> "pa.Table":
        """One row per strategy, one column per metric."""
        import pyarrow as pa

        names = dict.fromkeys(name for row in self.metrics.values() for name in row)
        columns = {name: [row.get(name) for row in self.metrics.values()] for name in names}
        return pa.table({"strategy": list(self.metrics), **columns})

    def to_pandas(self) -> "pd.DataFrame":
        """As `to_arrow`.

        Raises:
            ConfigurationError: If pandas is not installed.
        """
        try:
            return self.to_arrow().to_pandas()
        except ImportError as error:
            raise ConfigurationError("to_pandas() needs pandas: pip install pandas; or use to_arrow().") from error

    def _repr_html_(self) -> str:
        shown = ("recall@2", "recall@5", "recall@10", "mrr", "em", "f1", "containment")
        rows = [(strategy, *(row.get(name) for name in shown)) for strategy, row in self.metrics.items()]
        return notebook.table(("strategy", *shown), rows)

    def __repr__(self) -> str:
        """The strategies with their recall."""
        recall = {strategy: row.get("recall@5") for strategy, row in self.metrics.items()}
        return f"Comparison(recall@5={recall})"


def evaluate(
    questions: Questions,
    *,
    index: str,
    strategies: Sequence[str] | str = (),
    parameters: Mapping[str, object] | None = None,
    where: str | None = None,
    is_stored: bool = False,
    root: str | Path | None = None,
    settings: Settings | None = None,
) -> Comparison:
    """Compares strategies on questions with known answers (`polyhop eval`).

    Args:
        questions: A file, or rows.
        index: Name of the index.
        strategies: Names or variants; "all"; none: that of the index.
        parameters: Given to each.
        where: A filter of records.
        is_stored: Whether a run and a report of it are kept under the root.
        root: Folder of all data.
        settings: Default: polyhop.toml and POLYHOP_… variables.

    Raises:
        SourceError: If there is no usable question.
        PolyhopError: As `polyhop eval`.
    """
    from polyhop.flows.evaluate import evaluate_index

    named = (strategies,) if isinstance(strategies, str) else tuple(strategies)
    with _file_of(questions) as path:
        request = EvaluationRequest(path, index, named, parameters or {}, is_stored=is_stored, where=where)
        done = evaluate_index(_settings(root, settings), request)
    return Comparison(done.report, done.rows)


async def asubmit(questions: Questions, **options: Any) -> Job:
    """As `submit`, in a thread."""
    return await asyncio.to_thread(lambda: submit(questions, **options))


def _settings(root: str | Path | None, settings: Settings | None) -> Settings:
    if settings is None:
        return load_settings({} if root is None else {"root": str(root)})
    return settings if root is None else settings.model_copy(update={"root": Path(root)})


@contextmanager
def _file_of(questions: Questions) -> Iterator[Path]:
    """A question file: the given one, or one of the given rows."""
    if isinstance(questions, str | Path):
        yield Path(questions)
        return
    rows = [{"question": row} if isinstance(row, str) else dict(row) for row in questions]
    with TemporaryDirectory(prefix="polyhop-questions-") as folder:
        path = Path(folder) / "questions.jsonl"
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        yield path
