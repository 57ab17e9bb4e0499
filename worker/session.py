"""One open version with all that answering needs: services, reader, strategies, filters."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.chat import ChatModel, Role
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.evidence import Fallback, Note, as_row
from polyhop.schemas.languages import ANALYSERS
from polyhop.schemas.manifest import VectorRecord
from polyhop.schemas.ports import (
    IndexReader,
    Reader,
    Reranker,
    RestrictedIndex,
    Services,
    SpanModel,
    SpreadingDatabase,
)
from polyhop.schemas.query import UNREAD, Question, ReaderResult, reading_row
from polyhop.schemas.settings import ENTITIES, PASSAGES, ModelSettings, Settings, Space
from polyhop.warehouse.artefacts import GRAPH, LANGUAGE, NAMES
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import require_version
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.open import open_graph_store, open_published
from polyhop.warehouse.open_models import open_path_encoder, open_version_encoder, require_named_encoder
from polyhop.warehouse.vectors.kinds import space_of
from polyhop.worker.answer import AnsweredQuestion, Answerer, ClosedBookAnswerer, passage_rows, triple_rows
from polyhop.worker.questions.parts import ModelNaming, QuestionNaming, RuleNaming, entities_task
from polyhop.worker.ranking.traversal import connect
from polyhop.worker.reading.reader import LocalReader
from polyhop.worker.strategies.registry import make_reader, require_artefacts, spec_of


def open_services(published: PublishedIndex, settings: Settings, closing: ExitStack) -> Services:
    """The version's encoder, the configured chat model and cross-encoder, and the graph database that holds it."""
    records = published.manifest.vectors

    def vectors(space: Space) -> VectorRecord | None:
        """Record of a space; that of the other space if it is empty."""
        own = [record for name, record in records.items() if space_of(name) == space]
        return next(iter([*own, *records.values()]), None)

    def encode(texts: Sequence[str], space: Space = PASSAGES, *, is_repeated: bool = False) -> NDArray[np.float32]:
        record = vectors(space)
        if record is not None:
            require_named_encoder(settings, published.layout.index(published.name), record.encoder)
        if is_repeated:
            return open_path_encoder(settings, record).encode(texts)
        return open_version_encoder(settings, record).encode_questions(texts)

    def open_read_model() -> ChatModel | None:
        if not settings.models.read:
            return None
        from polyhop.warehouse.open_models import open_chat

        return open_chat(settings, Role.READ)

    def open_database() -> SpreadingDatabase:
        from polyhop.warehouse.open import find_address

        store = open_graph_store(find_address(None, None, None, named_by="NEO4J_URI"), published.name)
        closing.callback(store.close)
        return store.spreading(published.version, published.artefact(GRAPH).keys)

    passages, short = vectors(PASSAGES), vectors(ENTITIES)
    has_two = (
        passages is not None
        and short is not None  # what a question's vector among these depends on:
        and (passages.model, passages.encoder.query_prefix) != (short.model, short.encoder.query_prefix)
    )
    spans = partial(open_spans, settings.cores) if settings.reader.name == "spans" else lambda: None
    cross_encoder = cache(partial(_open_cross_encoder, settings))
    opened = (cache(open_read_model), spans, cross_encoder, cache(open_database))
    return Services(encode, has_two, *opened)


def _open_cross_encoder(settings: Settings) -> Reranker | None:
    if not settings.models.rerank:
        return None
    if settings.models.rerank == "local":
        from polyhop.warehouse.models.span_model import SpanReranker

        return SpanReranker(open_spans(settings.cores))
    from polyhop.warehouse.models.onnx_session import open_reranker

    return open_reranker(settings.models.rerank, Layout(settings.root).model_cache)


def open_spans(cores: int) -> SpanModel:
    """The shipped span model, one per process and number of cores."""
    from polyhop.warehouse.models.span_model import open_span_model

    return open_span_model(cores)


_PROMPTS = Path(__file__).parent / "reading" / "prompts"


def open_reader(models: ModelSettings, services: Services, index: IndexReader, min_confidence: float) -> Reader:
    """The reader of an open version."""
    local = LocalReader(index, services.encode, services.spans(), min_confidence=min_confidence)
    chat = services.chat()
    if chat is None:
        return local
    from polyhop.warehouse.statements import read_prompt
    from polyhop.worker.reading.models import AnswerChecks, ChainReader, ModelReader

    name = "qa.answer.md" if models.read_passages else "qa.chains.md"
    prompt = read_prompt(_PROMPTS / name).in_language_of_question(index.artefact(LANGUAGE))
    if not models.read_passages:
        return ChainReader(chat, prompt, local)
    checks = AnswerChecks(index, services.encode)
    return ModelReader(chat, prompt, local, checks, passages=models.read_passages)


_ENTITIES_PROMPT = Path(__file__).parent / "questions" / "prompts" / "query.entities.md"
LINKED_PASSAGES = 10  # as many as a question asks for by default
KEPT_ANSWERERS = 32
"""So many strategies with their parameters stay ready; the oldest go first, so that memory stays flat."""


# Source: decisions/0027-filters-of-questions.md.
FILTER_NOTE = "filter"
NOTHING_ALLOWED = "filtered_out"
KEPT_FILTERS = 16  # Filters that stay ready at most, and together they hold no more passages than the index; chosen.
ALWAYS_KEPT = 2
"""Filters that stay ready however many passages they hold: jobs that take turns must not make each other's ready again
with every batch."""


class IndexSession:
    """A version of an index, ready for batches of questions until closed.

    With a model for reading (`models.read`), that model reads; with `models.name_questions`, it also finds the names
    in questions for the strategies that start from them. A strategy that declares its own reader is read by it.
    With `reader.name` none, passages are ranked and there are no answers.

    Attributes:
        index: What is ranked and read: the whole version, or what a filter leaves of it.
        settings: Of the process.
        services: What strategies may ask of models and databases.
    """

    def __init__(
        self, published: PublishedIndex, settings: Settings, services: Services | None = None, asked: str | None = None
    ) -> None:
        """For the passages that a filter allows, if one is `asked`; else for all of a version."""
        begun = time.perf_counter()
        self.published = published
        self.index: PublishedIndex | RestrictedIndex = published
        self.settings = settings
        self._closing = ExitStack()
        self.services = services or open_services(published, settings, self._closing)
        self._answerers: dict[str, Answerer] = {}
        self._filtered: dict[str, IndexSession] = {}
        self._asked = asked
        if asked is not None:
            self.index = RestrictedIndex(published, published.allowed_passages(asked))
        self._matching_seconds = time.perf_counter() - begun

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
        self,
        strategy: str,
        parameters: Mapping[str, object],
        min_confidence: float | None = None,
        *,
        reads: bool = True,
    ) -> Answerer:
        """The strategy, made ready once per set of parameters; without `reads` it ranks passages only."""
        reads = reads and self.settings.reader.reads
        key = repr((strategy, sorted(parameters.items()), min_confidence, reads))
        if key not in self._answerers:
            if len(self._answerers) >= KEPT_ANSWERERS:
                self._answerers.pop(next(iter(self._answerers)))
            require_artefacts(strategy, self.index.artefacts, self.name)  # else its reader misses them, by another name
            # Choose the reader; None if reading is disabled (`--reader none`).
            reader, nothing, models, spec = None, None, self.settings.models, spec_of(strategy)
            if self._asked is not None and not self.index.passage_ids:
                nothing = ReaderResult("") if reads else ReaderResult("", kind=UNREAD)
            elif reads:
                if models.read and not (models.read_passages or spec.writes_context or spec.reader):
                    raise ConfigurationError(
                        f"Strategy '{strategy}' produces no text for a model; set models.read_passages above 0, "
                        "or use qasa, naive-vector, proprag or triple-ppr."
                    )
                reader = self._reader
                if min_confidence is not None:
                    reader = open_reader(models, self.services, self.index, min_confidence)
                reader = make_reader(strategy, self.index, parameters, self.services, reader)
            self._answerers[key] = Answerer(
                self.index, strategy, parameters, self.services, reader, self._naming, nothing=nothing
            )
        return self._answerers[key]

    def where(self, text: str | None) -> "IndexSession":
        """This session for the passages that a filter allows, made ready once per filter; None: for all passages."""
        if text is None:
            return self
        if self._asked is not None:
            raise ConfigurationError("This session already has a filter; join the two filters by AND.")
        asked = " ".join(text.split())
        session = self._filtered.pop(asked, None)
        if session is None:
            services = dataclasses.replace(self.services, graph_database=_no_filtered_graph)
            session = IndexSession(self.published, self.settings, services, asked)
        self._filtered[asked] = session
        # Those that were used longest ago go first.
        while len(self._filtered) > ALWAYS_KEPT:
            passages = sum(len(one.index.passage_ids) for one in self._filtered.values())
            if len(self._filtered) <= KEPT_FILTERS and passages <= len(self.published.passage_ids):
                break
            self._filtered.pop(next(iter(self._filtered))).forget()
        return session

    @property
    def filter_row(self) -> dict[str, Any] | None:
        """Filter of the session for answers: {where, passages, of, seconds}; None without one.

        It leaves `passages` of so many; `seconds` are what making it ready took, once for all questions.
        """
        if self._asked is None or not isinstance(self.index, RestrictedIndex):
            return None
        return {
            "where": self._asked,
            "passages": len(self.index.allowed),
            "of": len(self.published.passage_ids),
            "seconds": round(self._matching_seconds + self.index.seconds, 6),
        }

    def closed_book(self) -> ClosedBookAnswerer:
        """Answers by the model for reading (models.read) without passages."""
        from polyhop.warehouse.open_models import open_chat
        from polyhop.warehouse.statements import read_prompt
        from polyhop.worker.reading.models import ClosedBookReader

        chat = self.services.chat() or open_chat(self.settings, Role.READ)
        prompt = read_prompt(_PROMPTS / "qa.closed_book.md").in_language_of_question(self.index.artefact(LANGUAGE))
        return ClosedBookAnswerer(ClosedBookReader(chat, prompt))

    def passages_with(self, words: str, limit: int) -> list[str]:
        """Ids of at most so many passages that share words with these, in descending order of BM25.

        Raises:
            MissingArtefactError: If the version has no postings of words.
        """
        from polyhop.worker.strategies.baselines import LexicalStrategy

        analyser = next((name for name in ANALYSERS if f"lexical:{name}" in self.index.artefacts), "plain")
        numbers, _ = LexicalStrategy(self.index, analyser=analyser).rank(Question(words), limit)
        return [self.index.passage_ids[number] for number in numbers.tolist()]

    def document(self, strategy: str, answered: AnsweredQuestion) -> dict[str, Any]:
        """An answer in the JSON contract of `polyhop ask` (architecture.md section 9).

        It has `triples` if the strategy ranks any, also where it found none, and `filter` if one was asked.
        """
        found, row = answered.retrieval.evidence, self.filter_row
        notes, data = (*found.notes, *answered.reading.notes), {**found.data, **answered.reading.data}
        if row is not None:
            notes = (Note(FILTER_NOTE, f"{row['where']}: {row['passages']:,} of {row['of']:,} passages"), *notes)
            if not row["passages"]:
                nothing = Fallback(NOTHING_ALLOWED, f"no passage matches the filter {row['where']}")
                found = dataclasses.replace(found, fallback=nothing)
        evidence = as_row(dataclasses.replace(found, notes=notes, data=data))
        sentences = [dataclasses.asdict(sentence) for sentence in answered.reading.sentences]
        evidence["sentences"] = sentences
        # How the first passages are linked, through the entities they share.
        first = [passage.passage_id for passage in answered.retrieval.passages[:LINKED_PASSAGES]]
        has_graph = "graph" in self.published.artefacts
        linked = connect(self.index, answered.retrieval.evidence.names, first) if has_graph else ()
        evidence["links"] = [dataclasses.asdict(link) for link in linked]
        ranks_triples = spec_of(strategy).ranks_triples or answered.retrieval.triples
        return {
            "question": answered.question.text,
            "answer": answered.reading.answer,
            "guess": answered.reading.guess,
            "sentences": sentences,
            "strategy": strategy,
            "version": self.version,
            "passages": passage_rows(self.index, answered.retrieval),
            **({"triples": triple_rows(answered.retrieval)} if ranks_triples else {}),
            "evidence": evidence,
            "reading": reading_row(answered.reading, answered.naming),
            "seconds": {name: round(seconds, 6) for name, seconds in answered.seconds.items()},
            **({"filter": row} if row is not None else {}),
        }

    def close(self) -> None:
        """Forgets what was made ready, and releases the version, unless this session shares it with a whole one."""
        self.forget()
        self._closing.close()
        if self._asked is None:
            self.published.close()

    def forget(self) -> None:
        """Forgets strategies, readers and filters, which keep arrays of the version."""
        self._answerers.clear()
        self._filtered.clear()
        for name in ("_reader", "_naming"):
            self.__dict__.pop(name, None)

    @cached_property
    def _reader(self) -> Reader:
        return open_reader(self.settings.models, self.services, self.index, self.settings.reader.min_confidence)

    @cached_property
    def _naming(self) -> QuestionNaming:
        rules = RuleNaming(self.published.artefact(NAMES))
        chat = self.services.chat()
        if chat is None or not self.settings.models.name_questions:
            return rules
        from polyhop.warehouse.statements import read_prompt

        return ModelNaming(chat, entities_task(read_prompt(_ENTITIES_PROMPT)), rules)


def _no_filtered_graph() -> SpreadingDatabase:
    raise ConfigurationError("The exported graph in Neo4j cannot be filtered; leave out engine=neo4j or the filter.")


class IndexPool:
    """Sessions by index name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._layout = Layout(settings.root)
        self._sessions: dict[str, IndexSession] = {}

    def session(self, name: str) -> IndexSession:
        """The current version of an index; a version published since the last call replaces the one held.

        Call it between batches only: a session returned earlier for the same index may be closed by it.
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
        """Closes an index, to be opened from scratch: an interruption may have left it half done."""
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
