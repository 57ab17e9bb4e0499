"""The Python API: an open index that answers questions and SQL.

Thin: parses nothing, ranks nothing; the worker does the answering.
"""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from polyhop import notebook
from polyhop.schemas.errors import ConfigurationError, EmptyQuestionError, MissingArtefactError
from polyhop.schemas.printable import plural
from polyhop.schemas.query import Question
from polyhop.schemas.settings import Settings
from polyhop.schemas.strategies import default_strategy
from polyhop.warehouse.open import open_published, open_vector_store
from polyhop.warehouse.settings_file import load_settings
from polyhop.worker.answer import AnsweredQuestion
from polyhop.worker.session import IndexSession

if TYPE_CHECKING:
    import pyarrow as pa

    from polyhop.graph_api import EntityGraph


SHOWN_TITLES = 3  # of passages; chosen: a repr stays on a line or two, and `passages` has all
MAX_TOPIC_CHARACTERS = 1_000
"""Chosen: ids and names of entities are shorter by far."""


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """An answer with everything it stands on.

    Attributes:
        question: As asked.
        answer: A short answer, "" if none was found.
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

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop ask` (architecture.md section 9), without texts of passages."""
        document = dataclasses.asdict(self)
        for name in ("triples", "filter"):
            if document[name] is None:
                del document[name]
        for row in document["passages"]:
            row.pop("text", None)
        return document

    def __repr__(self) -> str:
        """The answer and the titles of the first passages."""
        titles = [row["title"] for row in self.passages[:SHOWN_TITLES]]
        return f"Answer({self.answer!r}, strategy={self.strategy!r}, passages={len(self.passages)}, first={titles})"

    def _repr_html_(self) -> str:
        return notebook.answer(self.question, self.answer, self.passages)


class Index:
    """An open version of an index. Close it, or use it in a `with` block."""

    def __init__(self, session: IndexSession) -> None:
        self._session = session
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        """Its name, version and size."""
        return f"Index({self.name!r}, version={self.version}, passages={len(self._session.published.passage_ids):,})"

    def _repr_html_(self) -> str:
        manifest = self._session.published.manifest
        rows = [("index", self.name), ("version", self.version), *manifest.counts.items()]
        return notebook.table(("", ""), [*rows, ("strategy", self.default_strategy)])

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
        """The strategy that answers where none is named: `bridge`, or `hub-facets` on a graph with hubs."""
        manifest = self._session.published.manifest
        return default_strategy(manifest.stages, manifest.artefacts)

    @property
    def session(self) -> IndexSession:
        """What answers: for batches, evaluation and benchmarks."""
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
        topics = None if topic is None else [topic]
        return self.ask_batch(
            [question], strategy=strategy, limit=limit, parameters=parameters, topics=topics, where=where
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
    ) -> list[Answer]:
        """Answers several questions; each result is the same as if it had been asked alone.

        `topics` has one entry per question, None for a question without one.
        """
        if limit < 1:
            raise ConfigurationError(f"The limit is {limit}; ask for at least 1 passage.")
        asked, chosen = _with_topics(questions, topics), strategy or self.default_strategy
        session = self._session.where(where)
        answered = session.answerer(chosen, parameters or {}).answer(asked, limit=limit)
        return [self._answer(session.document(chosen, one), one) for one in answered]

    async def aask(self, question: str, **options: Any) -> Answer:
        """As `ask`, in a thread: one question of an index at a time."""
        async with self._turn:
            return await asyncio.to_thread(lambda: self.ask(question, **options))

    def _answer(self, document: dict[str, Any], answered: AnsweredQuestion) -> Answer:
        """With the texts of its passages: those that were read are at hand."""
        texts = {passage.passage_id: passage.text for passage in answered.context}
        missing = [row["id"] for row in document["passages"] if row["id"] not in texts]
        published = self._session.published
        if missing:
            numbers = [published.number_of_passage[passage_id] for passage_id in missing]
            texts |= {passage_id: text for passage_id, _, text in published.passages(numbers)}
        for row in document["passages"]:
            row["text"] = texts[row["id"]]
        return Answer(**document)

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
        from polyhop.result_tables import result_tables
        from polyhop.warehouse.tables.query import query_rows

        extra = result_tables(self._session.settings, self.name)
        folders = [allow_files] if isinstance(allow_files, str | Path) else list(allow_files)
        return query_rows(self._session.published.layout, self.name, query, self.version, extra, folders)

    def search_text(self, words: str, *, limit: int = 10) -> list[str]:
        """Ids of passages by LanceDB's full-text search, in descending order of score: a plain look-up, not a strategy.

        Raises:
            MissingArtefactError: If the index has no vectors (the text lies beside them).
        """
        published = self._session.published
        record = published.manifest.vectors.get("passage")
        if record is None:
            raise MissingArtefactError("vectors:passage", self.name, "dense")
        store = open_vector_store(published.layout.index(self.name))
        return store.open(record.table, record.table_version).search_text(words, limit)

    @cached_property
    def graph(self) -> "EntityGraph":
        """The entities and their relations: look-up, traversal, graph and fusion search, connections.

        Raises:
            MissingArtefactError: If the version was built without relations.
        """
        from polyhop.graph_api import EntityGraph

        return EntityGraph(self._session)

    def close(self) -> None:
        """Releases the version."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _with_topics(questions: Sequence[str], topics: Sequence[str | None] | None) -> list[Question]:
    """The questions with their topics, if there are any."""
    given = [None] * len(questions) if topics is None else topics
    if len(given) != len(questions):
        raise ConfigurationError(
            f"There are {len(given)} topics for {plural(len(questions), 'question')}; give one for each."
        )
    for topic in given:
        if topic is not None and not any(character.isalnum() for character in topic):
            raise EmptyQuestionError("The topic is empty; give the name or the id of an entity, or leave it out.")
        if topic is not None and len(topic) > MAX_TOPIC_CHARACTERS:
            raise ConfigurationError(
                f"The topic is {len(topic):,} characters long; the limit is {MAX_TOPIC_CHARACTERS:,}."
            )
    return [Question(text, topic=topic) for text, topic in zip(questions, given, strict=True)]


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
    flags = {} if root is None else {"root": str(root)}
    chosen = settings or load_settings(flags)
    return Index(IndexSession(open_published(chosen.root, name, version), chosen))
