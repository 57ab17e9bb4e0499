"""The Python API: an open index, or several, that answer questions and SQL; index, plan, submit and evaluate.

Thin: each function is the command of its name, with the same checks; nothing is printed.
"""

import asyncio
import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from polyhop.schemas.errors import AlgorithmError, ConfigurationError, EmptyQuestionError
from polyhop.schemas.query import Question
from polyhop.schemas.records import SourceKind, source_of
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import plural, printable
from polyhop.warehouse.files.versions import default_strategy
from polyhop.warehouse.index_reader import passage_texts
from polyhop.warehouse.open import open_published, open_questions
from polyhop.warehouse.user_files import load_settings
from polyhop.worker.ranking.fusion import reciprocal_rank_fusion
from polyhop.worker.session import IndexSession

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from polyhop.documents import Content
    from polyhop.flows.plan import IndexPlan
    from polyhop.flows.reports import IndexReport
    from polyhop.graph import Connections, EntityGraph, GraphEntity, ReachedEntity
    from polyhop.inbox import InboxRun, Records

SHOWN_CHARACTERS = 300  # of a passage; chosen: some lines


def table_html(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table; numbers are rounded to three decimals."""
    shown = [
        ["" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else cell for cell in row] for row in rows
    ]
    head = "".join(f"<th>{html_text(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{html_text(cell)}</td>" for cell in row) + "</tr>" for row in shown)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_text(value: object) -> str:
    """Any text as HTML that shows it."""
    return escape(printable(str(value)))


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
        graph: A knowledge graph instead of a corpus: a file of triples, or a database's address.
        add_strategies: Also builds what these need.
        full: Derives every stage again.
        source_name: Which of the index's sources it is, or a new one; "": the one that was read from there.
        replace: The source replaces the index's only one, or the one that `source_name` names.
        allow_deletions: More than 30 % of a source's records may be deleted.
        root: Folder of all data; default from settings, ./polyhop-data.
        settings: Default: polyhop.toml and POLYHOP_… variables.

    Raises:
        LossRefusedError: If it would replace a source, or delete many records, and may not; nothing is published.
        SourceError: If the source cannot be used; nothing is published.
        StoreConflictError: If another process is writing this index.
        PolyhopError: As `polyhop index`.
    """
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner, batch_pool
    from polyhop.schemas.requests import IndexRequest

    if source is not None and graph is not None:
        raise ConfigurationError("Pass a source or a graph.")
    chosen = _settings(root, settings)
    named = source_of(str(graph)) if graph is not None else None if source is None else Path(source)
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
    """Estimates the model calls and the cost of indexing, without a call (`polyhop plan`).

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
        """Returns whether questions are left to answer."""
        with open_questions(self._settings) as queue:
            queue.sweep()
            return queue.job(self.id).is_open

    def results(self) -> list[dict[str, Any]]:
        """The questions with what became of them, in submitted order (`polyhop jobs results`)."""
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
        return table_html(("id", "question", "state", "answer"), rows)


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
    from polyhop.schemas.queue import JobSpec
    from polyhop.schemas.requests import SubmissionRequest

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
        return table_html(("strategy", *shown), rows)

    def __repr__(self) -> str:
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
        SourceError: If no question is usable.
        PolyhopError: As `polyhop eval`.
    """
    from polyhop.flows.evaluate import evaluate_index
    from polyhop.schemas.requests import EvaluationRequest

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


SHOWN_TITLES = 3  # of passages; chosen: a repr stays on a line or two, and `passages` has all
MAX_TOPIC_CHARACTERS = 1_000  # chosen: ids and names of entities are shorter by far


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """An answer with everything it stands on.

    Attributes:
        question: As asked.
        answer: The short answer, "" if none is certain enough: then the sentences are the answer.
        strategy: Strategy that ranked the passages.
        version: Version of the index.
        passages: {id, title, text, score, rank, document, source, start, end, metadata}, in descending order of score;
            of a piece of a split record also `record`.
        evidence: What led there: question entities, seeds, links between passages, cited sentences.
        seconds: Cost by part.
        reading: Who read the answer; of a model also prompt, tokens, cost, reasoning and checked citations.
        triples: {id, subject{id, name}, predicate, object{id, name}, score, rank}, in descending order of score; None
            if the strategy ranks no triples.
        filter: {where, passages, of, seconds} of a filtered question: how many passages the filter leaves of how many,
            and what making it ready took, once; None without a filter.
        guess: The best short answer, whether it is shown or not; `reading["confidence"]` is that of the guess.
        sentences: {passage_id, text, start, end}: what the short answer was read from, or what answers instead of one.
    """

    question: str
    answer: str
    strategy: str
    version: int
    passages: list[dict[str, Any]]
    evidence: dict[str, Any]
    seconds: dict[str, float]
    reading: dict[str, Any] = field(default_factory=dict)
    triples: list[dict[str, Any]] | None = None
    filter: dict[str, Any] | None = None
    guess: str = ""
    sentences: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop ask` (architecture.md section 9), without texts of passages."""
        rows = [{name: value for name, value in row.items() if name != "text"} for row in self.passages]
        own = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)} | {"passages": rows}
        return {name: value for name, value in own.items() if value is not None}  # triples or filter

    def __repr__(self) -> str:
        titles = [row["title"] for row in self.passages[:SHOWN_TITLES]]
        return f"Answer({self.answer!r}, strategy={self.strategy!r}, passages={len(self.passages)}, first={titles})"

    def _repr_html_(self) -> str:
        said = f"<b>{html_text(self.answer)}</b>" if self.answer else "<i>no answer; see the passages</i>"
        rows = [
            (row.get("rank"), row.get("score"), row.get("title"), str(row.get("text", ""))[:SHOWN_CHARACTERS])
            for row in self.passages
        ]
        return f"<p>{html_text(self.question)}<br>{said}</p>" + table_html(("rank", "score", "title", "text"), rows)


def topic_of_each(questions: Sequence[str], topics: Sequence[str | None] | None) -> Sequence[str | None]:
    """The topics of a batch, None for each question where none are given.

    Raises:
        ConfigurationError: If there are more or fewer than questions.
    """
    if topics is not None and len(topics) != len(questions):
        raise ConfigurationError(
            f"There are {len(topics)} topics for {plural(len(questions), 'question')}; give one for each."
        )
    return [None] * len(questions) if topics is None else topics


class Index:
    """An open version of an index. Close it, or use it in a `with` block."""

    def __init__(self, session: IndexSession) -> None:
        self._session = session
        self._turn = asyncio.Lock()
        self._lock = Lock()  # an open version is not made for several threads at once

    def __repr__(self) -> str:
        return f"Index({self.name!r}, version={self.version}, passages={len(self._session.published.passage_ids):,})"

    def _repr_html_(self) -> str:
        manifest = self._session.published.manifest
        rows = [("index", self.name), ("version", self.version), *manifest.counts.items()]
        return table_html(("", ""), [*rows, ("strategy", self.default_strategy)])

    @property
    def name(self) -> str:
        """Name of the index."""
        return self._session.name

    @property
    def version(self) -> int:
        """The version that was current when it was opened."""
        return self._session.version

    @property
    def default_strategy(self) -> str:
        """The strategy that answers where none is named.

        `bridge`, or `hub-facets` on a graph with hubs; the first that the index was built for if that is not one of
        them.
        """
        return default_strategy(self._session.published.manifest)

    @property
    def session(self) -> IndexSession:
        """The session that answers, for batches, evaluation and benchmarks."""
        return self._session

    def ask(
        self,
        question: str,
        *,
        strategy: str | None = None,
        limit: int = 10,
        parameters: Mapping[str, object] | None = None,
        topic: str | None = None,
        where: str | None = None,
    ) -> Answer:
        """Answers one question.

        Args:
            question: Any text with at least one word.
            strategy: One of `polyhop.worker.strategies.registry.STRATEGIES`; default: `default_strategy`.
            limit: Passages to return, at least 1; of a strategy that ranks triples as many triples, too.
            parameters: The strategy's own settings.
            topic: The entity that the question is about, by name or id; a strategy without use for it ignores it.
            where: A filter; only passages of records that it allows are ranked and read, and walked over.

        Raises:
            FilterError: If the filter does not parse, or does not fit the index's metadata.
            EmptyQuestionError: If the question, or the topic, has no word in it.
            UnknownStrategyError: If there is no such strategy.
            MissingArtefactError: If the index was not built for it.
            ConfigurationError: If a parameter does not exist or is out of its range, or the limit is below 1.
            ModelError: If a model is to read (`models.read`) and is unavailable, or does not accept the request.
            BudgetExceededError: If the model's call would exceed the budget.
        """
        return self.ask_batch(
            [question], strategy=strategy, limit=limit, parameters=parameters, topics=[topic], where=where
        )[0]

    def ask_batch(
        self,
        questions: Sequence[str],
        *,
        strategy: str | None = None,
        limit: int = 10,
        parameters: Mapping[str, object] | None = None,
        topics: Sequence[str | None] | None = None,
        where: str | None = None,
        reads: bool = True,
        on_drafts: Sequence[Callable[[str], None] | None] | None = None,
    ) -> list[Answer]:
        """Answers several questions; each result is the same as if it had been asked alone.

        `topics` has one entry per question, None for a question without one. With `reads=False` passages are ranked
        and no answer is read, as by `search`. `on_drafts` has a function per question that gets the text of a model's
        answer while it is written, unchecked and on another thread. Several threads take turns.
        """
        if limit < 1:
            raise ConfigurationError(f"The limit is {limit}; ask for at least 1 passage.")
        given = topic_of_each(questions, topics)
        for topic in given:
            if topic is not None and not any(character.isalnum() for character in topic):
                raise EmptyQuestionError("The topic is empty; give the name or the id of an entity, or leave it out.")
            if topic is not None and len(topic) > MAX_TOPIC_CHARACTERS:
                raise ConfigurationError(
                    f"The topic is {len(topic):,} characters long; the limit is {MAX_TOPIC_CHARACTERS:,}."
                )
        listeners = on_drafts or [None] * len(questions)
        asked = [
            Question(text, topic=topic, on_draft=on_draft)
            for text, topic, on_draft in zip(questions, given, listeners, strict=True)
        ]
        with self._lock:
            session, chosen = self._session.where(where), strategy or self.default_strategy
            answers = []
            for one in session.answerer(chosen, parameters or {}, reads=reads).answer(asked, limit=limit):
                document = session.document(chosen, one)
                texts = {passage.passage_id: passage.text for passage in one.context}  # those that were read
                others = [row for row in document["passages"] if row["id"] not in texts]
                texts |= passage_texts(session.published, others)
                for row in document["passages"]:
                    row["text"] = texts[row["id"]]
                answers.append(Answer(**document))
        return answers

    def search(self, query: str, *, topic: str | None = None, **options: Any) -> Answer:
        """Ranks passages like `ask` but skips reading: returns no answer and makes no model call for one.

        Args:
            query: Any text with at least one word.
            topic: The entity that the query is about, by name or id.
            **options: As of `ask`: strategy, limit, parameters, where.

        Raises:
            PolyhopError: As `ask`, save for what a model that reads may raise.
        """
        return self.ask_batch([query], topics=[topic], reads=False, **options)[0]

    async def aask(self, question: str, **options: Any) -> Answer:
        """As `ask`, in a thread: one question of an index at a time."""
        async with self._turn:
            return await asyncio.to_thread(lambda: self.ask(question, **options))

    def sql(self, query: str, *, allow_files: str | Path | Sequence[str | Path] = ()) -> "pa.Table":
        """Runs read-only SQL on the version's tables; other files, the network and Python's variables are closed to it.

        Vectors are in the views `passage_vectors` and `entity_vectors`, all jobs' questions in the view `results`.

        Args:
            query: One statement that reads: SELECT, DESCRIBE, EXPLAIN…
            allow_files: Folders whose files the query may read, too.

        Raises:
            ConfigurationError: If a folder of `allow_files` does not exist.
            StatementRejectedError: If the query does anything but read, or DuckDB refuses it.
        """
        from polyhop.jobs import result_tables
        from polyhop.warehouse.tables.query import query_rows

        extra = result_tables(self._session.settings, self.name)
        folders = [allow_files] if isinstance(allow_files, str | Path) else list(allow_files)
        layout, memory_mb = self._session.published.layout, self._session.settings.sql_memory_mb
        return query_rows(layout, self.name, query, self.version, extra, folders, memory_mb=memory_mb)

    def search_text(self, words: str, *, limit: int = 10) -> list[str]:
        """Ids of the passages that share words with these, in descending order of BM25: a plain look-up.

        Raises:
            MissingArtefactError: If the index was built for no strategy that reads words.
        """
        return self._session.passages_with(words, limit)

    def find_entities(self, name: str, *, fuzzy: bool = True) -> "list[GraphEntity]":
        """Entities of a name or, with `fuzzy`, of a part of it; see `EntityGraph.find_entities`."""
        with self._lock:
            return self.graph.find_entities(name, fuzzy=fuzzy)

    def neighbours(self, entity_id: str, depth: int = 1) -> "list[ReachedEntity]":
        """Entities within `depth` relations of one, without it, by hops, then key.

        Raises:
            UnknownIdError: If the version has no entity of this id.
            AlgorithmError: If `depth` is below 1.
        """
        if depth < 1:
            raise AlgorithmError(f"The depth is {depth}; follow at least 1 relation.")
        with self._lock:
            self.graph.entity(entity_id)
            return self.graph.traverse(entity_id, depth)

    def connect(self, a: str, b: str, *, max_length: int = 4, paths: int = 5) -> "Connections":
        """The shortest connections between two names, with what states them; see `EntityGraph.connect`."""
        with self._lock:
            return self.graph.connect(a, b, max_length=max_length, paths=paths)

    def add(self, records: "Records", *, wait: bool = True) -> "InboxRun":
        """Adds records to the index, and publishes a version with them; see `polyhop.add`.

        This open version stays as it is; `open_index` opens the new one.
        """
        from polyhop.inbox import add

        return add(records, index=self.name, settings=self._session.settings, wait=wait)

    def put(self, document_id: str, content: "Content", *, wait: bool = True) -> "InboxRun":
        """Adds or replaces one document, and publishes a version with it; see `IndexLike.put`."""
        from polyhop.documents import put_document

        put_document(self._session.settings, self.name, document_id, content)
        return self._run(wait=wait)

    def delete(self, document_id: str, *, wait: bool = True) -> "InboxRun":
        """Deletes one document, and publishes a version without it; see `IndexLike.delete`."""
        from polyhop.documents import delete_document

        delete_document(self._session.settings, self.name, document_id)
        return self._run(wait=wait)

    def switch(self, document_id: str, *, is_on: bool, wait: bool = True) -> "InboxRun":
        """Switches one uploaded file off or on, and publishes a version; see `IndexLike.switch`."""
        from polyhop.documents import switch_document

        switch_document(self._session.settings, self.name, document_id, is_on=is_on)
        return self._run(wait=wait)

    def _run(self, *, wait: bool) -> "InboxRun":
        from polyhop.inbox import start_run

        return start_run(self._session.settings, self.name, wait=wait)

    @cached_property
    def graph(self) -> "EntityGraph":
        """More of the entities and their relations: by embedding, traversal, graph and fusion search.

        Raises:
            MissingArtefactError: If the version was built without relations.
        """
        from polyhop.graph import EntityGraph

        return EntityGraph(self._session)

    def close(self) -> None:
        """Releases the version."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_index(
    name: str, *, root: str | Path | None = None, version: int | None = None, settings: Settings | None = None
) -> Index:
    """Opens the current (or the named) version of an index.

    Args:
        name: Name of the index.
        root: Folder of all data; default from settings, ./polyhop-data.
        version: A published version, default the current one.
        settings: Default: polyhop.toml and POLYHOP_… variables.

    Raises:
        UnknownIndexError: If nothing was published under that name.
    """
    chosen = settings or _settings(root, None)
    return Index(IndexSession(open_published(chosen.root, name, version), chosen))


@dataclass(frozen=True, slots=True)
class SeveralAnswers:
    """The answers of several indexes to one question, and what they make together (algorithms.md 0.5).

    Attributes:
        question: As asked.
        answer: The short answer of the most confident index; of equal ones, or where a model states
            no confidence, of the index that was named first. "" if none has one.
        index: The index that it is from; None without one.
        passages: {index, id, title, score, rank}, fused by rank: `score` is the sum of 1 / (60 + rank) over the
            indexes. A passage that several indexes hold word for word counts once; `also_in` names the others.
        answers: By index, in the order named, each with all that it stands on.
    """

    question: str
    answer: str
    index: str | None
    passages: list[dict[str, Any]]
    answers: dict[str, Answer]

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop ask --index a,b` (architecture.md section 9)."""
        own = {name: getattr(self, name) for name in ("question", "answer", "index", "passages")}
        return own | {"answers": [{"index": name, **answer.to_json()} for name, answer in self.answers.items()]}


class Indexes:
    """Open versions of several indexes. Close them, or use them in a `with` block."""

    def __init__(self, opened: Sequence[Index]) -> None:
        self._opened = tuple(opened)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the indexes, in the order in which they were named."""
        return tuple(index.name for index in self._opened)

    def ask(self, question: str, *, limit: int = 10, **options: Any) -> SeveralAnswers:
        """Asks each index, and fuses their passages by rank.

        Args:
            question: Any text with at least one word.
            limit: Passages to return, at least 1; also of each index.
            **options: The others of `Index.ask`, for each of them; without a strategy, each index has its own.

        Raises:
            PolyhopError: As `Index.ask`, if it fails on one of the indexes.
        """
        answers = {index.name: index.ask(question, limit=limit, **options) for index in self._opened}
        certain = {name: float(one.reading.get("confidence") or 0.0) for name, one in answers.items() if one.answer}
        chosen = max(certain, key=lambda name: certain[name], default=None)
        answer = answers[chosen].answer if chosen is not None else ""
        # Every passage once, by the sum of its reciprocal ranks.
        number_of: dict[tuple[str, str], int] = {}
        holders: list[dict[str, dict[str, Any]]] = []
        lists: list[list[int]] = []
        for index in self._opened:
            ranked = answers[index.name].passages
            texts = passage_texts(index.session.published, ranked)
            numbers = [number_of.setdefault((row["title"], texts[row["id"]]), len(number_of)) for row in ranked]
            holders += [{} for _ in range(len(number_of) - len(holders))]
            for number, row in zip(numbers, ranked, strict=True):
                holders[number].setdefault(index.name, row)
            lists.append(numbers)
        rows = []
        for rank, (number, score) in enumerate(reciprocal_rank_fusion(lists), start=1):
            (first, passage), *others = holders[number].items()
            row = {"index": first, **passage, "score": round(score, 6), "rank": rank}
            rows.append({**row, "also_in": [name for name, _ in others]} if others else row)
        return SeveralAnswers(question, answer, chosen, rows[:limit], answers)

    def texts(self, passages: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
        """Text by (index, passage id) of fused passages."""
        texts: dict[tuple[str, str], str] = {}
        for index in self._opened:
            own = [passage for passage in passages if passage["index"] == index.name]
            found = passage_texts(index.session.published, own)
            texts |= {(index.name, passage_id): text for passage_id, text in found.items()}
        return texts

    def close(self) -> None:
        """Releases all versions."""
        for index in self._opened:
            index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_indexes(names: Sequence[str], *, root: str | Path | None = None, settings: Settings | None = None) -> Indexes:
    """Opens the current versions of several indexes.

    Args:
        names: Names of indexes of one root, each once.
        root: Folder of all data; default from settings, ./polyhop-data.
        settings: Default: polyhop.toml and POLYHOP_… variables.

    Raises:
        ConfigurationError: If no index is named, or one twice.
        UnknownIndexError: If nothing was published under one of the names.
    """
    if not names:
        raise ConfigurationError("Name at least one index.")
    twice = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if twice is not None:
        raise ConfigurationError(f"The index '{twice}' is named twice; name each once.")
    with ExitStack() as opening:
        opened = [opening.enter_context(open_index(name, root=root, settings=settings)) for name in names]
        opening.pop_all()
    return Indexes(opened)
