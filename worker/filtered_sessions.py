"""An open version under filters of questions: a session for each, made ready once, the oldest dropped first.

Ranks nothing: what a filter leaves is an index of its own (restricted_index.py).
Source: decisions/0027-filters-of-questions.md.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.chat import ChatModel
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.evidence import Fallback, Note
from polyhop.schemas.filter_matching import allowed_passages
from polyhop.schemas.filter_parser import parse_filter
from polyhop.schemas.filters import Filter
from polyhop.schemas.ports import IndexReader, Reranker, Services, SpreadingDatabase
from polyhop.schemas.query import UNREAD, Question, Reading, Retrieval
from polyhop.warehouse.record_fields import RECORD_FIELD_VALUES
from polyhop.worker.answer import AnsweredQuestion, Answerer, check_questions
from polyhop.worker.restricted_index import RestrictedIndex
from polyhop.worker.session import IndexSession
from polyhop.worker.strategies.registry import parse_setting, require_artefacts, spec_of
from polyhop.worker.turns import Turns

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
        super().__init__(whole.published, whole.settings, _FilteredServices(whole.services))
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
        """Refuses a filter of what is filtered.

        Raises:
            ConfigurationError: If there is one; join the two by AND.
        """
        if text is None:
            return self
        raise ConfigurationError("This session is filtered already; join the two filters by AND.")

    def document(self, strategy: str, answered: AnsweredQuestion) -> dict[str, Any]:
        """As of the whole session, with `filter` and a note of it in the evidence."""
        row, found = self.filter_row, answered.retrieval
        note = Note(FILTER_NOTE, f"{row['where']}: {row['passages']:,} of {row['of']:,} passages")
        evidence = dataclasses.replace(found.evidence, notes=(note, *found.evidence.notes))
        if not self.passage_count:
            evidence = dataclasses.replace(evidence, fallback=self._nothing)
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

    @property
    def _nothing(self) -> Fallback:
        return Fallback(NOTHING_ALLOWED, f"no passage matches the filter {self._asked.text}")


class FilteredSessions:
    """The filters that stay ready on an open version, by what they say."""

    def __init__(self, whole: IndexSession) -> None:
        self._whole = whole
        self._ready: dict[Filter, FilteredSession] = {}

    def of(self, text: str) -> FilteredSession:
        """The session of a filter; the ones that were used longest ago go first.

        Raises:
            FilterError: If it does not parse, or does not fit the version's metadata.
            ContractError: If the version was built before questions could be filtered.
        """
        asked = parse_filter(text)
        session = self._ready.pop(asked, None) or FilteredSession(self._whole, asked)
        self._ready[asked] = session
        while len(self._ready) > ALWAYS_KEPT and self._is_too_much():
            self._ready.pop(next(iter(self._ready))).forget()
        return session

    def _is_too_much(self) -> bool:
        held = sum(session.passage_count for session in self._ready.values())
        return len(self._ready) > KEPT_FILTERS or held > len(self._whole.published.passage_ids)


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

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the whole session."""
        return self._whole.encode(texts)

    @property
    def has_two_encoders(self) -> bool:
        """As the whole session."""
        return self._whole.has_two_encoders

    def encode_entities(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the whole session."""
        return self._whole.encode_entities(texts)

    def encode_paths(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the whole session."""
        return self._whole.encode_paths(texts)

    def encode_beside(
        self, questions: Sequence[str], repeated: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """As the whole session."""
        return self._whole.encode_beside(questions, repeated)

    def chat(self) -> ChatModel | None:
        """As the whole session."""
        return self._whole.chat()

    def reranker(self) -> Reranker | None:
        """As the whole session."""
        return self._whole.reranker()

    def graph_database(self) -> SpreadingDatabase:
        """Always fails.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            "The exported graph in Neo4j cannot be filtered, it holds all passages; leave out engine=neo4j, or the "
            "filter."
        )
