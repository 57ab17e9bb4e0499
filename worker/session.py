"""One open version with everything that answering needs: strategies made ready once, encoder, reader.

Opens what it is given to open and nothing else; the front door and the queue's loop share it.
"""

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyhop.schemas.chat import Role
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.evidence import as_row
from polyhop.schemas.ports import IndexReader, Reader, Services
from polyhop.schemas.query import Retrieval
from polyhop.schemas.reading_row import reading_row
from polyhop.schemas.settings import Settings
from polyhop.warehouse.artefacts import LANGUAGE, NAMES
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.worker.answer import AnsweredQuestion, Answerer, passage_rows, triple_rows
from polyhop.worker.closed_book import ClosedBookAnswerer
from polyhop.worker.configured_reader import open_reader
from polyhop.worker.questions.names import ModelNaming, QuestionNaming, RuleNaming, entities_task
from polyhop.worker.ranking.links import connect
from polyhop.worker.services import SessionServices
from polyhop.worker.strategies.registry import make_reader, require_artefacts, spec_of

if TYPE_CHECKING:
    from polyhop.worker.filtered_sessions import FilteredSessions

_CLOSED_BOOK_PROMPT = Path(__file__).parent / "reading" / "prompts" / "qa.closed_book.md"
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
            self._answerers[key] = self._make_answerer(strategy, parameters, reader)
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
        from polyhop.warehouse.prompt_files import read_prompt
        from polyhop.worker.reading.closed_book import ClosedBookReader, closed_book_task

        chat = self.services.chat() or open_chat(self.settings, Role.READ)
        prompt = read_prompt(_CLOSED_BOOK_PROMPT).in_language_of_question(self.index.artefact(LANGUAGE))
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

    def _make_answerer(self, strategy: str, parameters: Mapping[str, object], reader: Reader | None) -> Answerer:
        return Answerer(self.index, strategy, parameters, self.services, reader, self._naming)

    @cached_property
    def _filtered(self) -> "FilteredSessions":
        from polyhop.worker.filtered_sessions import FilteredSessions

        return FilteredSessions(self)

    @cached_property
    def _reader(self) -> Reader:
        return self._open_reader(self.settings.reader.min_confidence)

    def _reader_for(
        self, strategy: str, parameters: Mapping[str, object], min_confidence: float | None
    ) -> Reader | None:
        """Who reads what a strategy retrieves; None if nobody is to (`--reader none`)."""
        if not self.settings.reader.reads:
            return None
        self._check_context(strategy)
        return make_reader(strategy, self.index, parameters, self.services, self._reader_of(min_confidence))

    def _reader_of(self, min_confidence: float | None) -> Reader:
        return self._reader if min_confidence is None else self._open_reader(min_confidence)

    def _check_context(self, strategy: str) -> None:
        """Refuses to let a model read chains of a strategy that writes none."""
        models, spec = self.settings.models, spec_of(strategy)
        if models.chat_reader and models.read_context == "chains" and not (spec.writes_context or spec.reader):
            raise ConfigurationError(
                f"Strategy '{strategy}' writes nothing that a model could read without passages "
                "(models.read_context = chains); qasa, naive-vector, proprag and triple-ppr do, or set it to passages."
            )

    def _open_reader(self, min_confidence: float) -> Reader:
        return open_reader(self.settings.models, self.services.chat(), self.index, min_confidence)

    @cached_property
    def _naming(self) -> QuestionNaming:
        rules = RuleNaming(self.published.artefact(NAMES))
        chat = self.services.chat()
        if chat is None or not self.settings.models.name_questions:
            return rules
        from polyhop.warehouse.prompt_files import read_prompt

        return ModelNaming(chat, entities_task(read_prompt(_ENTITIES_PROMPT)), rules)

    def _links(self, retrieval: Retrieval) -> list[dict[str, Any]]:
        """How the first passages are linked, through the entities they share."""
        if "graph" not in self.published.artefacts:
            return []
        first = [passage.passage_id for passage in retrieval.passages[:LINKED_PASSAGES]]
        return [dataclasses.asdict(link) for link in connect(self.index, retrieval.evidence.names, first)]
