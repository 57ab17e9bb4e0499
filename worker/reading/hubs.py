"""The reader of hubs: partial answers hub by hub, then one answer; level by level until one is sufficient.

By a model where one is given and the rule says so, else by rules; what a model replies nothing usable to, rules answer.
Searches nothing: all levels are in the evidence of the retrieval. Source: algorithms.md 4.8 (levels), 4.10.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from polyhop.schemas.chat import ChatModel, ChatOutcome
from polyhop.schemas.metadata import values_of
from polyhop.schemas.ports import IndexReader, Reader
from polyhop.schemas.query import ContextPassage, RankedTriple, Reading, ReadingItem
from polyhop.tasks.hubs.artefact import STORED_HUBS
from polyhop.tasks.hubs.text import path_text
from polyhop.warehouse.triples import METADATA_OF_NODES
from polyhop.worker.model_outcomes import outage_of, use_of
from polyhop.worker.ranking.hubs.ranking import UsedPath, rank_triples
from polyhop.worker.ranking.hubs.words import words_of
from polyhop.worker.reading.hub_answer import Final, Partial, QuestionState
from polyhop.worker.reading.hub_steps import (
    HubInput,
    HubMetadata,
    HubTasks,
    PartialReply,
    filter_request,
    final_request,
    merged,
    partial_request,
    valid,
)
from polyhop.worker.reading.model import ModelReader
from polyhop.worker.reading.reader import RuleReader

_BEST_PATHS = 3
"""Paths whose texts are a partial answer by rules. Source: algorithms.md 4.10."""


@dataclass(frozen=True, slots=True)
class HubReadingRule:
    """How hubs are read.

    Attributes:
        partial_by_model: Partial answers by the model, if one is given; otherwise by rules.
        final_by_model: The final answer likewise.
        filters: Whether the model chooses the triples that support the answer; without a model all are kept.
        min_partial_score: By rules, a hub whose best path scores less contributes nothing.
        evidence_tokens: Largest evidence in a prompt.
        links: Whether prompts show the metadata of a hub's node and of the passages linked to it.
    """

    partial_by_model: bool = True
    final_by_model: bool = True
    filters: bool = False
    min_partial_score: float = 0.3
    evidence_tokens: int = 6_000
    links: bool = True


@dataclass(frozen=True, slots=True)
class HubModel:
    """A chat model, what it is asked, and how often at most for one question."""

    chat: ChatModel
    tasks: HubTasks
    most_calls: int


class HubReader:
    """Reads what `hublink` and `hublink-topic` retrieved.

    Args:
        index: The open version.
        rule: How hubs are read.
        model: None: everything is read by rules.
        configured: The reader that the user chose; spans are read by it if it reads by rules, else by its fallback.
    """

    def __init__(self, index: IndexReader, rule: HubReadingRule, model: HubModel | None, configured: Reader) -> None:
        self._index = index
        self._stored = index.artefact(STORED_HUBS)
        self._rule = rule
        self._partial = model if rule.partial_by_model else None
        self._final = model if rule.final_by_model else None
        self._filter = model if rule.filters else None
        self._most_calls = model.most_calls if model else 0
        self._spans = _without_model(configured, index)

    @property
    def batches(self) -> bool:
        """Whether a model is asked."""
        return any(model is not None for model in (self._partial, self._final, self._filter))

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        """One Reading per item, in order; one with an `outage` is not an answer.

        Hubs of all questions are asked about at once, level by level.

        Raises:
            ModelRejectedError: If the model's server accepts no such request (unknown model, wrong key).
            BudgetExceededError: If the next call would exceed the budget.
        """
        states = [QuestionState(item) for item in items]
        going = [state for state in states if state.has_level]
        while going:
            for state in going:
                state.begin(self._inputs(state))
            self._read_partials(going)
            self._read_finals([state for state in going if state.goes_on and state.partials])
            going = [state for state in going if state.next_level()]
        self._read_filters([state for state in states if state.final is not None and state.outage is None])
        with_triples = self._partial is not None or self._filter is not None
        return [state.reading(self._most_calls, with_triples=with_triples) for state in states]

    def _inputs(self, state: QuestionState) -> list[HubInput]:
        """The hubs of a level; only prompts show the triples of their paths, and metadata."""
        inputs = [
            HubInput(
                row,
                [self._triples_of(path) if self._partial else "" for path in row["paths"]],
                self._passages_of(row["passages"]),
            )
            for row in state.hubs
        ]
        if self._partial is None or not self._rule.links:
            return inputs
        said = self._index.artefact(METADATA_OF_NODES)([one.row["hub_id"] for one in inputs])
        return [replace(one, metadata=self._metadata_of(one, said)) for one in inputs]

    def _metadata_of(self, hub: HubInput, said: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[HubMetadata]:
        """Fields of a hub's node, of all texts attached to it, and of its passages' records, each once.

        Source: algorithms.md 4.9.
        """
        attached = [(passage_id, fields) for node, passage_id, fields in said if node == hub.row["hub_id"]]
        linked = self._of_records([passage.passage_id for passage in hub.passages])
        names = {"": hub.row["name"] or hub.row["hub_id"], **self._titles(one for one, _ in (*attached, *linked))}
        found = [
            HubMetadata(names[passage_id], passage_id, field, value.value)
            for passage_id, fields in (*attached, *linked)
            if passage_id in names
            for field, value in values_of(fields)
        ]
        return list(dict.fromkeys(found))

    def _of_records(self, passage_ids: Sequence[str]) -> list[tuple[str, Mapping[str, Any]]]:
        """The metadata of the records that passages come from."""
        numbers = [self._index.number_of_passage[passage_id] for passage_id in passage_ids]
        origins = self._index.origins(numbers) if numbers else []
        return [(passage_id, origin.metadata) for passage_id, origin in zip(passage_ids, origins, strict=True)]

    def _titles(self, passage_ids: Iterable[str]) -> dict[str, str]:
        """Titles of passages by id, without those that a filter leaves out."""
        number_of = self._index.number_of_passage
        numbers = sorted({number_of[passage_id] for passage_id in passage_ids if passage_id in number_of})
        stored = self._index.passages(numbers) if numbers else []
        return {passage_id: title for passage_id, title, _ in stored}

    def _triples_of(self, path: Any) -> str:
        """The triples of a path whose text is not made of them by template."""
        words = words_of(self._stored, self._stored.paths.triples_of(path["path"]).tolist())
        if path_text(words) == path["text"]:
            return ""
        return " ".join(f"({one.subject}, {one.predicate}, {one.object})" for one in words)

    def _passages_of(self, passage_ids: Sequence[str]) -> list[ContextPassage]:
        numbers = [self._index.number_of_passage[passage_id] for passage_id in passage_ids]
        stored = self._index.passages(numbers) if numbers else []
        return [ContextPassage(*row, rank, 0.0) for rank, row in enumerate(stored, start=1)]

    def _read_partials(self, states: Sequence[QuestionState]) -> None:
        asked = [(state, hub) for state in states for hub in state.inputs]
        if self._partial is None:
            for state, hub in asked:
                state.add(self._partial_by_rules(hub))
            return
        task = self._partial.tasks.partial
        requests = [partial_request(task, state.item.question, hub, self._rule.evidence_tokens) for state, hub in asked]
        for (state, hub), outcome in zip(asked, self._partial.chat.ask(requests) if requests else (), strict=True):
            use = use_of(task, outcome)
            if outcome.reply is None:
                state.add(None if _is_out(state, outcome) else self._partial_by_rules(hub), use)
                continue
            state.add(_partial_of(hub, outcome.reply), use)

    def _partial_by_rules(self, hub: HubInput) -> Partial | None:
        """The texts of the best paths, if the best one is similar enough to the question."""
        paths = sorted(hub.row["paths"], key=lambda path: -path["score"])
        if not paths or paths[0]["score"] < self._rule.min_partial_score:
            return None
        return Partial(hub, " ".join(path["text"] for path in paths[:_BEST_PATHS]), paths, by_model=False)

    def _read_finals(self, states: Sequence[QuestionState]) -> None:
        if self._final is None:
            for state in states:
                state.final = self._final_by_rules(state)
            return
        task = self._final.tasks.final
        budget = self._rule.evidence_tokens
        requests = [
            final_request(task, state.item.question, [one.text for one in state.partials], budget) for state in states
        ]
        for state, outcome in zip(states, self._final.chat.ask(requests) if requests else (), strict=True):
            state.count(use_of(task, outcome))
            if outcome.reply is None:
                state.final = None if _is_out(state, outcome) else self._final_by_rules(state)
            elif outcome.reply.sufficient and outcome.reply.answer.strip():
                cited = valid(outcome.reply.citations, len(state.partials))
                dropped = len(outcome.reply.citations) - len(cited)
                state.final = Final(outcome.reply.answer.strip(), "generated", cited, dropped)

    def _final_by_rules(self, state: QuestionState) -> Final:
        """All partial answers; the short one is the span of the first that has one."""
        everything = list(range(1, len(state.partials) + 1))
        for partial in state.partials:
            if partial.by_model:
                return Final(partial.text, "generated", everything)
            read = self._span(state.item, partial)
            if read.answer:
                known = tuple(one for one in read.sentences if one.passage_id in self._index.number_of_passage)
                return Final(read.answer, "extracted", everything, sentences=known, confidence=read.confidence)
        return Final("", "none", everything)

    def _span(self, item: ReadingItem, partial: Partial) -> Reading:
        """F-READ over the texts of a hub's paths and its passages. Source: algorithms.md 4.10."""
        row, count = partial.hub.row, len(partial.used)
        texts = [
            ContextPassage(f"path {path['hash']}", row["name"] or row["hub_id"], path["text"], rank, path["score"])
            for rank, path in enumerate(partial.used, start=1)
        ]
        more = [
            ContextPassage(one.passage_id, one.title, one.text, count + one.rank, 0.0) for one in partial.hub.passages
        ]
        (read,) = self._spans.read([ReadingItem(item.question, item.retrieval, [*texts, *more])])
        return read

    def _read_filters(self, states: Sequence[QuestionState]) -> None:
        if self._partial is None and self._filter is None:
            return
        for state in states:
            state.triples = self._contexts(state)
        asked = [state for state in states if state.triples]
        if self._filter is None or not asked:
            return
        task, budget = self._filter.tasks.filter, self._rule.evidence_tokens
        requests = [filter_request(task, state.item.question, _said(state), state.triples, budget) for state in asked]
        for state, outcome in zip(asked, self._filter.chat.ask(requests), strict=True):
            state.uses.append(use_of(task, outcome))
            if outcome.reply is not None:
                state.keep(sorted(valid(outcome.reply.ids, len(state.triples))))
            else:
                _is_out(state, outcome)

    def _contexts(self, state: QuestionState) -> list[RankedTriple]:
        """The triples of the paths that the partial answers used. Source: algorithms.md 4.10 (contexts)."""
        ranks = {id(hub): rank for rank, hub in enumerate(state.inputs)}
        used = [
            UsedPath(path["path"], path["score"], ranks[id(partial.hub)])
            for partial in state.partials
            for path in partial.used
        ]
        ranked = rank_triples([used], self._stored.paths)
        return [self._stored.ranked_triple(triple, rank, score) for rank, (triple, score) in enumerate(ranked, start=1)]


def _without_model(configured: Reader, index: IndexReader) -> Reader:
    """Who reads where a reader that asks a model would; of such a reader its own fallback, as it is configured."""
    if isinstance(configured, ModelReader):
        return configured.fallback
    return RuleReader(index) if configured.batches else configured


def _partial_of(hub: HubInput, reply: PartialReply) -> Partial | None:
    """What a model's reply says a hub contributes; where it names nothing that was shown, it rests on all paths."""
    text, paths = reply.answer.strip(), hub.row["paths"]
    if not reply.sufficient or not text:
        return None
    count = len(paths)
    numbers = valid(reply.used, count + len(hub.metadata)) or range(1, count + 1)
    used = [paths[number - 1] for number in numbers if number <= count]
    metadata = [hub.metadata[number - count - 1] for number in numbers if number > count]
    return Partial(hub, text, used, by_model=True, metadata=metadata)


def _is_out(state: QuestionState, outcome: ChatOutcome[Any]) -> bool:
    """Whether the model is unavailable, so that the question is to be asked again; notes it."""
    outage = outage_of(outcome)
    state.outage = state.outage or outage
    return outage is not None


def _said(state: QuestionState) -> str:
    """The answer that triples are to support: the short one, else the partial ones."""
    short = state.final.answer if state.final else ""
    return short or merged([one.text for one in state.partials])
