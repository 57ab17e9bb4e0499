"""The Python API: an open index that answers questions and SQL.

Thin: parses nothing, ranks nothing; the worker does the answering.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from schemas.errors import MissingArtefactError
from schemas.query import Question, Retrieval
from schemas.settings import Settings
from schemas.strategies import DEFAULT_STRATEGY
from warehouse.index_reader import PublishedIndex
from warehouse.open import open_encoder, open_published
from warehouse.settings_file import load_settings
from warehouse.tables.query import query_rows
from warehouse.vectors.lance import search_text
from worker.answer import AnsweredQuestion, Answerer, passage_rows
from worker.ranking.links import connect
from worker.reading.extractive import ExtractiveReader


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with everything it stands on.

    Attributes:
        question: As asked.
        answer: A short answer, "" if none was found.
        strategy: Strategy that ranked the passages.
        version: Version of the index.
        passages: {id, title, score, rank}, best first.
        evidence: What led there: question entities, seeds, links between passages, cited sentences.
        seconds: Cost by part.
    """

    question: str
    answer: str
    strategy: str
    version: int
    passages: list[dict[str, Any]]
    evidence: dict[str, Any]
    seconds: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop ask` (architecture.md section 9)."""
        return dataclasses.asdict(self)


class Index:
    """An open version of an index. Close it, or use it in a `with` block."""

    def __init__(self, published: PublishedIndex, settings: Settings) -> None:
        self._published = published
        self._settings = settings
        self._answerers: dict[str, Answerer] = {}

    @property
    def name(self) -> str:
        """Name of the index."""
        return self._published.name

    @property
    def version(self) -> int:
        """The version that was current when it was opened."""
        return self._published.version

    def ask(
        self,
        question: str,
        *,
        strategy: str = DEFAULT_STRATEGY,
        limit: int = 10,
        parameters: Mapping[str, object] | None = None,
    ) -> Answer:
        """Answers one question.

        Args:
            question: Any text with at least one word.
            strategy: One of `schemas.strategies.NEEDS`.
            limit: Passages to return, at least 1.
            parameters: The strategy's own settings.

        Raises:
            EmptyQuestionError: If the question has no word in it.
            UnknownStrategyError: If there is no such strategy.
            MissingArtefactError: If the index was not built for it.
            ConfigurationError: If a parameter does not exist or is out of its range.
        """
        return self.ask_batch([question], strategy=strategy, limit=limit, parameters=parameters)[0]

    def ask_batch(
        self,
        questions: Sequence[str],
        *,
        strategy: str = DEFAULT_STRATEGY,
        limit: int = 10,
        parameters: Mapping[str, object] | None = None,
    ) -> list[Answer]:
        """Answers several questions; each result is the same as if it had been asked alone."""
        answerer = self.answerer(strategy, parameters or {})
        answered = answerer.answer([Question(text) for text in questions], limit=limit)
        return [self._answer(strategy, one) for one in answered]

    def sql(self, query: str) -> pa.Table:
        """Runs read-only SQL on the version's tables; vectors are in the views passage_vectors and entity_vectors.

        Raises:
            StatementRejectedError: If DuckDB refuses the query.
        """
        return query_rows(self._published.layout, self.name, query, self.version)

    def search_text(self, words: str, *, limit: int = 10) -> list[str]:
        """Ids of passages by LanceDB's full-text search, best first: a plain look-up, not a strategy.

        Raises:
            MissingArtefactError: If the index has no vectors (the text lies beside them).
        """
        record = self._published.manifest.vectors.get("passage")
        if record is None:
            raise MissingArtefactError("vectors:passage", self.name, "dense")
        database = self._published.layout.index(self.name).vectors
        return search_text(database, record.table, words, limit, record.lance_version)

    def answerer(self, strategy: str, parameters: Mapping[str, object]) -> Answerer:
        """The strategy, made ready once per set of parameters."""
        key = repr((strategy, sorted(parameters.items())))
        if key not in self._answerers:
            self._answerers[key] = Answerer(self._published, strategy, parameters, self._encode, self._reader)
        return self._answerers[key]

    @property
    def settings(self) -> Settings:
        """The settings it was opened with."""
        return self._settings

    @property
    def published(self) -> PublishedIndex:
        """The open version itself."""
        return self._published

    @cached_property
    def _reader(self) -> ExtractiveReader:
        return ExtractiveReader(self._published.names)

    def _encode(self, texts: Sequence[str]) -> Any:
        return open_encoder(self._settings).encode_questions(texts)

    def _answer(self, strategy: str, answered: AnsweredQuestion) -> Answer:
        evidence = dict(answered.retrieval.evidence)
        evidence["sentences"] = [dataclasses.asdict(sentence) for sentence in answered.reading.sentences]
        evidence["links"] = self._links(answered.retrieval)
        return Answer(
            question=answered.question.text,
            answer=answered.reading.answer,
            strategy=strategy,
            version=self.version,
            passages=passage_rows(answered),
            evidence=evidence,
            seconds={name: round(seconds, 6) for name, seconds in answered.seconds.items()},
        )

    def _links(self, retrieval: Retrieval) -> list[dict[str, Any]]:
        """How the first passages hang together, through the entities they share."""
        if "graph" not in self._published.artefacts:
            return []
        first = [passage.passage_id for passage in retrieval.passages[:10]]
        return [dataclasses.asdict(link) for link in connect(self._published, retrieval.evidence, first)]

    def close(self) -> None:
        """Gives the version free."""
        self._published.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
    flags = {} if root is None else {"root": str(root)}
    chosen = settings or load_settings(flags)
    return Index(open_published(chosen.root, name, version), chosen)
