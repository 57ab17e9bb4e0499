"""One open version with all that answering needs: services, reader, strategies, filters."""

import dataclasses
import gc
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.artefacts import Artefact
from polyhop.schemas.chat import ChatModel, Role
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.evidence import Fallback, Note, as_row
from polyhop.schemas.filters import Filter, allowed_passages, parse_filter
from polyhop.schemas.manifest import VectorRecord
from polyhop.schemas.ports import IndexReader, Reader, Reranker, Services, SpreadingDatabase
from polyhop.schemas.query import UNREAD, Question, Reading, Retrieval, reading_row
from polyhop.schemas.records import Location, PassageOrigin
from polyhop.schemas.settings import ENTITIES, PASSAGES, ModelSettings, Settings, Space
from polyhop.warehouse.artefacts import GRAPH, LANGUAGE, NAMES
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import require_version
from polyhop.warehouse.index_reader import RECORD_FIELD_VALUES, PublishedIndex
from polyhop.warehouse.open import open_graph_store, open_published
from polyhop.warehouse.open_encoders import open_question_encoder, open_version_encoder
from polyhop.warehouse.vectors.kinds import space_of
from polyhop.worker.answer import (
    AnsweredQuestion,
    Answerer,
    ClosedBookAnswerer,
    Turns,
    check_questions,
    passage_rows,
    triple_rows,
)
from polyhop.worker.questions.parts import ModelNaming, QuestionNaming, RuleNaming, entities_task
from polyhop.worker.ranking.traversal import connect
from polyhop.worker.reading.reader import RuleReader
from polyhop.worker.strategies.registry import make_reader, parse_setting, require_artefacts, spec_of


class SessionServices:
    """The version's encoder, the configured chat model and cross-encoder, and the graph database that holds it."""

    def __init__(self, published: PublishedIndex, settings: Settings) -> None:
        self._published = published
        self._settings = settings
        self._closing = ExitStack()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension), float32, length 1."""
        return open_version_encoder(self._settings, self._vectors(PASSAGES)).encode_questions(texts)

    def encode_beside(
        self, questions: Sequence[str], repeated: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Vectors of questions, and of texts that come again with others: cached (encoder.path_vectors)."""
        return open_question_encoder(self._settings, self._vectors(PASSAGES)).encode_beside(questions, repeated)

    @property
    def has_two_encoders(self) -> bool:
        """Whether entities and other short texts have vectors by another encoder than passages."""
        passages, short = self._vectors(PASSAGES), self._vectors(ENTITIES)
        if passages is None or short is None:
            return False
        # What a question's vector among these depends on.
        return (passages.model, passages.encoder.query_prefix) != (short.model, short.encoder.query_prefix)

    def encode_entities(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `encode`, by the encoder of entities, propositions and other short texts."""
        return open_version_encoder(self._settings, self._vectors(ENTITIES)).encode_questions(texts)

    def encode_paths(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `encode_entities`, for texts of paths, which questions bring up again: cached (encoder.path_vectors)."""
        return open_question_encoder(self._settings, self._vectors(ENTITIES)).encode_paths(texts)

    def chat(self) -> ChatModel | None:
        """The chat model for reading (models.read); None if none is configured."""
        return self._chat if self._settings.models.chat_reader else None

    def reranker(self) -> Reranker | None:
        """The configured cross-encoder (models.rerank), opened once per process; None if none is configured."""
        if not self._settings.models.rerank:
            return None
        from polyhop.warehouse.models.rerank_and_spans import open_reranker

        return open_reranker(self._settings.models.rerank, Layout(self._settings.root).model_cache)

    def graph_database(self) -> SpreadingDatabase:
        """The Neo4j database that this version was exported to, opened once."""
        return self._graph_database

    def close(self) -> None:
        """Closes the connection to the graph database, if one was opened."""
        self.__dict__.pop("_graph_database", None)
        self._closing.close()

    def _vectors(self, space: Space) -> VectorRecord | None:
        """Of a space; where nothing lies in it, of the other."""
        records = self._published.manifest.vectors
        own = [record for name, record in records.items() if space_of(name) == space]
        return next(iter([*own, *records.values()]), None)

    @cached_property
    def _chat(self) -> ChatModel:
        from polyhop.warehouse.open_models import open_chat

        return open_chat(self._settings, Role.READ)

    @cached_property
    def _graph_database(self) -> SpreadingDatabase:
        from polyhop.warehouse.graph.address import find_address

        store = open_graph_store(find_address(None, None, None, named_by="NEO4J_URI"), self._published.name)
        self._closing.callback(store.close)
        return store.spreading(self._published.version, self._published.artefact(GRAPH).keys)


_PROMPTS = Path(__file__).parent / "reading" / "prompts"


def open_reader(models: ModelSettings, chat: ChatModel | None, index: IndexReader, min_confidence: float) -> Reader:
    """The reader of an open version."""
    if models.spans_folder:
        from polyhop.warehouse.models.rerank_and_spans import open_span_model
        from polyhop.worker.reading.models import SpanReader

        spans = open_span_model(models.spans_folder)
        return SpanReader(spans, passages=models.read_passages, min_confidence=min_confidence)
    rules = RuleReader(index, min_confidence=min_confidence)
    if chat is None:
        return rules
    from polyhop.warehouse.statements import read_prompt

    language = index.artefact(LANGUAGE)
    if models.read_context == "chains":
        from polyhop.worker.reading.models import ChainReader, chains_task

        task = chains_task(read_prompt(_PROMPTS / "qa.chains.md").in_language_of_question(language))
        return ChainReader(chat, task, rules, budget_tokens=models.read_tokens)
    from polyhop.worker.reading.models import ModelReader, answer_task

    answers = answer_task(read_prompt(_PROMPTS / "qa.answer.md").in_language_of_question(language))
    return ModelReader(chat, answers, rules, passages=models.read_passages, budget_tokens=models.read_tokens)


T = TypeVar("T")


class RestrictedIndex:
    """An IndexReader of the allowed passages of another one, numbered from 0 in the same order.

    Attributes:
        allowed: Shape (n,), int64, ascending: their numbers in the whole version.
        seconds: What restricting took so far.
    """

    def __init__(self, whole: IndexReader, allowed: NDArray[np.int64]) -> None:
        self._whole = whole
        self._opened: dict[Artefact[Any], object] = {}
        self._depth = 0
        self.allowed = allowed
        self.seconds = 0.0
        self.name, self.version, self.artefacts = whole.name, whole.version, whole.artefacts
        self.passage_ids: Sequence[str] = [whole.passage_ids[number] for number in allowed.tolist()]
        self.passage_titles: Sequence[str] = [whole.passage_titles[number] for number in allowed.tolist()]

    @cached_property
    def is_allowed(self) -> NDArray[np.bool_]:
        """Shape (all passages,): which are allowed."""
        flags = np.zeros(len(self._whole.passage_ids), dtype=np.bool_)
        flags[self.allowed] = True
        return flags

    @cached_property
    def number_of_passage(self) -> Mapping[str, int]:
        """Passage number by id."""
        return {passage_id: number for number, passage_id in enumerate(self.passage_ids)}

    def passages(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """(passage id, title, text) by number, in the order asked."""
        return self._whole.passages(self.allowed[list(numbers)].tolist())

    def origins(self, numbers: Sequence[int]) -> list[PassageOrigin]:
        """Where passages come from, by number, in the order asked."""
        return self._whole.origins(self.allowed[list(numbers)].tolist())

    def record_of(self, passage_id: str) -> str:
        """Id of the source record that a passage is, or is a piece of."""
        return self._whole.record_of(passage_id)

    def locations(self, passage_ids: Collection[str]) -> Mapping[str, Location]:
        """Where passages stand in their files, by id, of those of which anything is known."""
        return self._whole.locations(passage_ids)

    def whole(self, handle: Artefact[T]) -> T:
        """What a handle opens for all passages."""
        return self._whole.artefact(handle)

    def artefact(self, handle: Artefact[T]) -> T:
        """What is left of it, made when first asked for, then kept."""
        handle.require_in(self.artefacts, self.name)
        if handle not in self._opened:
            if handle.restrict is None:
                raise ConfigurationError(
                    f"Strategies that read the artefact '{handle.name}' cannot be filtered: its handle does not say "
                    "what is left of it (Artefact.restrict); leave out the filter, or name another strategy."
                )
            begun, self._depth = time.perf_counter(), self._depth + 1
            try:
                self._opened.setdefault(handle, handle.restrict(handle, self))
            finally:
                self._depth -= 1
                self.seconds += 0 if self._depth else time.perf_counter() - begun
        return cast("T", self._opened[handle])


_ENTITIES_PROMPT = Path(__file__).parent / "questions" / "prompts" / "query.entities.md"
LINKED_PASSAGES = 10  # as many as a question asks for by default
KEPT_ANSWERERS = 32
"""So many strategies with their parameters stay ready; the oldest go first, so that memory stays flat."""


class IndexSession:
    """A version of an index, ready for batches of questions until closed.

    With a model for reading (`models.read`), that model reads; with `models.name_questions`, it also finds the names
    in questions for the strategies that start from them. A strategy that declares a reader of its own is read by it.
    Without `reader.reads` nobody reads: passages are ranked and there are no answers.

    Attributes:
        published: The whole version.
        index: What is ranked and read: the whole version, or what a filter leaves of it.
        settings: Of the process.
        services: What strategies may ask of models and databases.
    """

    def __init__(self, published: PublishedIndex, settings: Settings, services: Services | None = None) -> None:
        self.published = published
        self.index: IndexReader = published
        self.settings = settings
        self.services: Services = services or SessionServices(published, settings)
        self._answerers: dict[str, Answerer] = {}

    @property
    def name(self) -> str:
        """Name of the index."""
        return self.published.name

    @property
    def version(self) -> int:
        """The version that is open."""
        return self.published.version

    @property
    def encoder_model(self) -> str | None:
        """The encoder whose vectors the version holds, None if it holds none."""
        record = self.published.manifest.vectors.get("passage")
        return record.model if record else None

    def answerer(
        self, strategy: str, parameters: Mapping[str, object], min_confidence: float | None = None
    ) -> Answerer:
        """The strategy, made ready once per set of parameters.

        Args:
            strategy: Its name.
            parameters: Those that differ from their defaults.
            min_confidence: Answers by rules below it are left empty; None: as the settings say.

        Raises:
            UnknownStrategyError: If there is no such strategy.
            MissingArtefactError: If the index was not built for it.
            ConfigurationError: If a parameter does not exist or is out of its range.
        """
        key = repr((strategy, sorted(parameters.items()), min_confidence))
        if key not in self._answerers:
            if len(self._answerers) >= KEPT_ANSWERERS:
                self._answerers.pop(next(iter(self._answerers)))
            require_artefacts(strategy, self.index.artefacts, self.name)  # else its reader misses them, by another name
            reader = self._reader_for(strategy, parameters, min_confidence)
            self._answerers[key] = Answerer(self.index, strategy, parameters, self.services, reader, self._naming)
        return self._answerers[key]

    def where(self, text: str | None) -> "IndexSession":
        """This session for the passages that a filter allows, made ready once per filter; None: for all passages.

        Args:
            text: The filter, as users write it (decision 0027).

        Raises:
            FilterError: If it does not parse, or does not fit the version's metadata.
            ContractError: If the version was built before questions could be filtered.
        """
        return self if text is None else self._filtered.of(text)

    @property
    def filter_row(self) -> dict[str, Any] | None:
        """What answers say of the filter; None without one."""
        return None

    def closed_book(self) -> ClosedBookAnswerer:
        """Answers by the model for reading (models.read) without passages.

        Raises:
            ConfigurationError: If no model is configured.
        """
        from polyhop.warehouse.open_models import open_chat
        from polyhop.warehouse.statements import read_prompt
        from polyhop.worker.reading.models import ClosedBookReader, closed_book_task

        chat = self.services.chat() or open_chat(self.settings, Role.READ)
        prompt = read_prompt(_PROMPTS / "qa.closed_book.md").in_language_of_question(self.index.artefact(LANGUAGE))
        return ClosedBookAnswerer(ClosedBookReader(chat, closed_book_task(prompt)))

    def document(self, strategy: str, answered: AnsweredQuestion) -> dict[str, Any]:
        """An answer in the JSON contract of `polyhop ask` (architecture.md section 9).

        It has `triples` if the strategy ranks any, also where it found none.
        """
        found = answered.retrieval.evidence
        notes, data = (*found.notes, *answered.reading.notes), {**found.data, **answered.reading.data}
        evidence = as_row(dataclasses.replace(found, notes=notes, data=data))
        evidence["sentences"] = [dataclasses.asdict(sentence) for sentence in answered.reading.sentences]
        evidence["links"] = self._links(answered.retrieval)
        ranks_triples = spec_of(strategy).ranks_triples or answered.retrieval.triples
        return {
            "question": answered.question.text,
            "answer": answered.reading.answer,
            "strategy": strategy,
            "version": self.version,
            "passages": passage_rows(self.index, answered.retrieval),
            **({"triples": triple_rows(answered.retrieval)} if ranks_triples else {}),
            "evidence": evidence,
            "reading": reading_row(answered.reading, answered.naming),
            "seconds": {name: round(seconds, 6) for name, seconds in answered.seconds.items()},
        }

    def close(self) -> None:
        """Releases the version; strategies and readers, which keep its arrays, are forgotten."""
        if isinstance(self.services, SessionServices):
            self.services.close()
        self.forget()
        self.published.close()

    def forget(self) -> None:
        """Forgets strategies, readers and filters, which keep arrays of the version."""
        self._answerers.clear()
        for name in ("_reader", "_naming", "_filtered"):
            self.__dict__.pop(name, None)

    @cached_property
    def _filtered(self) -> "FilteredSessions":
        return FilteredSessions(self)

    @cached_property
    def _reader(self) -> Reader:
        chat, confidence = self.services.chat(), self.settings.reader.min_confidence
        return open_reader(self.settings.models, chat, self.index, confidence)

    def _reader_for(
        self, strategy: str, parameters: Mapping[str, object], min_confidence: float | None
    ) -> Reader | None:
        """Who reads what a strategy retrieves; None if nobody is to (`--reader none`)."""
        if not self.settings.reader.reads:
            return None
        # Refuses to let a model read chains of a strategy that writes none.
        models, spec = self.settings.models, spec_of(strategy)
        if models.chat_reader and models.read_context == "chains" and not (spec.writes_context or spec.reader):
            raise ConfigurationError(
                f"Strategy '{strategy}' writes nothing that a model could read without passages "
                "(models.read_context = chains); qasa, naive-vector, proprag and triple-ppr do, or set it to passages."
            )
        reader = self._reader
        if min_confidence is not None:
            reader = open_reader(models, self.services.chat(), self.index, min_confidence)
        return make_reader(strategy, self.index, parameters, self.services, reader)

    @cached_property
    def _naming(self) -> QuestionNaming:
        rules = RuleNaming(self.published.artefact(NAMES))
        chat = self.services.chat()
        if chat is None or not self.settings.models.name_questions:
            return rules
        from polyhop.warehouse.statements import read_prompt

        return ModelNaming(chat, entities_task(read_prompt(_ENTITIES_PROMPT)), rules)

    def _links(self, retrieval: Retrieval) -> list[dict[str, Any]]:
        """How the first passages are linked, through the entities they share."""
        if "graph" not in self.published.artefacts:
            return []
        first = [passage.passage_id for passage in retrieval.passages[:LINKED_PASSAGES]]
        return [dataclasses.asdict(link) for link in connect(self.index, retrieval.evidence.names, first)]


# Source: decisions/0027-filters-of-questions.md.

FILTER_NOTE = "filter"
NOTHING_ALLOWED = "filtered_out"
KEPT_FILTERS = 16
"""Filters that stay ready at most, and together they hold no more passages than the index; chosen."""
ALWAYS_KEPT = 2
"""Filters that stay ready however many passages they hold: jobs that take turns must not make each other's ready again
with every batch."""


class FilteredSession(IndexSession):
    """A session for the passages that a filter allows; shares the version and the services of the whole one."""

    def __init__(self, whole: IndexSession, asked: Filter) -> None:
        super().__init__(whole.published, whole.settings, cast("Services", _FilteredServices(whole.services)))
        begun = time.perf_counter()
        allowed = allowed_passages(asked, whole.published.artefact(RECORD_FIELD_VALUES))
        self._asked = asked
        self._restricted = self.index = RestrictedIndex(whole.published, allowed)
        self._matching_seconds = time.perf_counter() - begun

    @property
    def passage_count(self) -> int:
        """Passages that the filter leaves."""
        return len(self._restricted.allowed)

    @property
    def filter_row(self) -> dict[str, Any]:
        """{where, passages, of, seconds}: how many passages the filter leaves of how many.

        Its `seconds` are what making it ready took, once for all questions that are asked with it.
        """
        return {
            "where": self._asked.text,
            "passages": self.passage_count,
            "of": len(self.published.passage_ids),
            "seconds": round(self._matching_seconds + self._restricted.seconds, 6),
        }

    def where(self, text: str | None) -> IndexSession:
        """Refuses a filter of what is filtered."""
        if text is None:
            return self
        raise ConfigurationError("This session is filtered already; join the two filters by AND.")

    def document(self, strategy: str, answered: AnsweredQuestion) -> dict[str, Any]:
        """As of the whole session, with `filter` and a note of it in the evidence."""
        row, found = self.filter_row, answered.retrieval
        note = Note(FILTER_NOTE, f"{row['where']}: {row['passages']:,} of {row['of']:,} passages")
        evidence = dataclasses.replace(found.evidence, notes=(note, *found.evidence.notes))
        if not self.passage_count:
            nothing = Fallback(NOTHING_ALLOWED, f"no passage matches the filter {self._asked.text}")
            evidence = dataclasses.replace(evidence, fallback=nothing)
        noted = dataclasses.replace(answered, retrieval=dataclasses.replace(found, evidence=evidence))
        return {**super().document(strategy, noted), "filter": row}

    def close(self) -> None:
        """Forgets what was made ready; the version and the services are the whole session's."""
        self.forget()

    def answerer(
        self, strategy: str, parameters: Mapping[str, object], min_confidence: float | None = None
    ) -> Answerer:
        """As of the whole session; where nothing is left to rank or read, one that finds nothing."""
        if self.passage_count:
            return super().answerer(strategy, parameters, min_confidence)
        return _NothingAllowed(self.index, strategy, parameters, reads=self.settings.reader.reads)


class FilteredSessions:
    """The filters that stay ready on an open version, by what they say."""

    def __init__(self, whole: IndexSession) -> None:
        self._whole = whole
        self._ready: dict[Filter, FilteredSession] = {}

    def of(self, text: str) -> FilteredSession:
        """The session of a filter; the ones that were used longest ago go first."""
        asked = parse_filter(text)
        session = self._ready.pop(asked, None) or FilteredSession(self._whole, asked)
        self._ready[asked] = session
        most = len(self._whole.published.passage_ids)
        while len(self._ready) > ALWAYS_KEPT:
            if len(self._ready) <= KEPT_FILTERS and sum(one.passage_count for one in self._ready.values()) <= most:
                break
            self._ready.pop(next(iter(self._ready))).forget()
        return session


class _NothingAllowed(Answerer):
    """Finds nothing, for a filter that no passage matches; refuses what another answerer would refuse."""

    def __init__(self, index: IndexReader, strategy: str, parameters: Mapping[str, object], *, reads: bool) -> None:
        spec = spec_of(strategy)
        require_artefacts(strategy, index.artefacts, index.name)
        parse_setting(spec, parameters)
        self.ranks_triples, self.reads = spec.ranks_triples, reads

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """Empty rankings."""
        del limit
        check_questions(questions)
        return [Retrieval(()) for _ in questions]

    def answer(
        self, questions: Sequence[Question], *, limit: int, read_passages: int = 10, turns: Turns | None = None
    ) -> list[AnsweredQuestion]:
        """No answers."""
        del read_passages, turns
        reading = Reading("") if self.reads else Reading("", kind=UNREAD)
        found = self.retrieve(questions, limit=limit)
        return [AnsweredQuestion(q, one, (), reading, {}) for q, one in zip(questions, found, strict=True)]


class _FilteredServices:
    """The whole session's services, without a graph database, which would search what the filter left out."""

    def __init__(self, whole: Services) -> None:
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def graph_database(self) -> SpreadingDatabase:
        """Always fails."""
        raise ConfigurationError(
            "The exported graph in Neo4j cannot be filtered, it holds all passages; leave out engine=neo4j, or the "
            "filter."
        )


class IndexPool:
    """Sessions by index name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._layout = Layout(settings.root)
        self._sessions: dict[str, IndexSession] = {}

    def session(self, name: str) -> IndexSession:
        """The current version of an index; a version published since the last call replaces the one held.

        Call it between batches only: a session returned earlier for the same index may be closed by it.

        Raises:
            UnknownIndexError: If nothing was published under that name.
        """
        current, _ = require_version(self._layout, name)
        held = self._sessions.get(name)
        if held is not None and held.version == current:
            return held
        opened = IndexSession(open_published(self._settings.root, name), self._settings)
        if held is not None:
            held.close()
        self._sessions[name] = opened
        return opened

    def forget(self, name: str) -> None:
        """Closes an index, to be opened from scratch: nobody knows what an interruption left half done in it."""
        held = self._sessions.pop(name, None)
        if held is not None:
            held.close()

    def versions(self) -> Mapping[str, int]:
        """The version held of each open index."""
        return {name: session.version for name, session in sorted(self._sessions.copy().items())}

    def close(self) -> None:
        """Releases all versions."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()


SECONDS_BETWEEN = 60.0
"""Chosen: a search takes some .15 s, and cycles (errors, closed versions) are few and small."""
_YOUNG = 20_000
"""New objects after which the young ones are searched, which is cheap; Python's own 700 is for small programs."""
_NEVER = 1 << 30  # a threshold that no process reaches: Python searches old objects only when asked


@contextmanager
def searched_by_the_clock() -> Iterator[Callable[[], None]]:
    """Within the block all objects are searched when what it gives is called, at most once in SECONDS_BETWEEN.

    Young objects are searched by Python, as ever. Afterwards all is as it was before. For the whole process, so blocks
    of several threads must not overlap.
    """
    before = gc.get_threshold()
    last = time.monotonic()

    def search() -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN:
            gc.collect()
            last = time.monotonic()

    gc.set_threshold(_YOUNG, before[1], _NEVER)
    try:
        yield search
    finally:
        gc.set_threshold(*before)
