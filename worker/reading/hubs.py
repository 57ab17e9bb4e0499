"""The reader of hubs: partial answers hub by hub, then one answer, level by level.

By a model where one is given and the rule says so, else by rules; what a model replies nothing usable to, rules answer.
Source: algorithms.md 4.8 (levels), 4.10.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from polyhop.schemas.chat import ChatModel, ChatOutcome, ChatRequest, ChatTask, Prompt, Usage, WholeItems
from polyhop.schemas.errors import ModelUnavailableError
from polyhop.schemas.evidence import Note
from polyhop.schemas.hub_paths import STORED_HUBS, path_text
from polyhop.schemas.ports import IndexReader, Reader
from polyhop.schemas.query import (
    Citation,
    ContextPassage,
    ModelUse,
    Question,
    RankedTriple,
    ReaderResult,
    ReadingItem,
    summed_use,
)
from polyhop.schemas.records import values_of
from polyhop.warehouse.artefacts import METADATA_OF_NODES
from polyhop.worker.ranking.hubs import UsedPath, rank_triples, words_of
from polyhop.worker.reading.models import (
    BYTES_PER_TOKEN,
    COPIED,
    AskingReader,
    estimate_tokens,
    lines_within_tokens,
    numbered,
    outage_of,
    use_of,
    within_tokens,
)
from polyhop.worker.reading.reader import LocalReader

REPLY_TOKENS = 1_024  # Longest reply of a step.
_SCHEMA_VERSION = 1  # of the replies' forms: part of the cache's key, raised with every change; algorithms.md 0.3.
_PATHS_SHARE = 0.7  # of the budget; chosen: a hub is judged by its paths, and what is linked gets what these leave
_METADATA_SHARE = 0.5  # of what paths leave; chosen: fields are short, and passages get the rest
_NONE = "(none)"


class _Reply(BaseModel):
    """Null texts and gaps copied from the form are empty, null lists have nothing in them."""

    @field_validator("answer", "used", "citations", "ids", mode="before", check_fields=False)
    @classmethod
    def _given(cls, value: Any, info: ValidationInfo) -> Any:
        empty: Any = "" if info.field_name == "answer" else []
        return empty if value in COPIED else value


class PartialReply(_Reply):
    """Reply of a model to hub.partial."""

    sufficient: bool = Field(description="Whether anything in the evidence is relevant to the question.")
    answer: str = Field(description="What the evidence contributes to the answer.")
    used: WholeItems[int] = Field(default_factory=list, description="Numbers of the statements used.")


class FinalReply(_Reply):
    """Reply of a model to hub.final."""

    sufficient: bool = Field(description="Whether the partial answers together answer the question.")
    answer: str = Field(description="The answer, as short as the question allows.")
    citations: WholeItems[int] = Field(default_factory=list, description="Numbers of the partial answers used.")


class FilterReply(_Reply):
    """Reply of a model to hub.filter."""

    ids: WholeItems[int] = Field(description="Numbers of the statements that support the answer.")


@dataclass(frozen=True, slots=True)
class HubMetadata:
    """A field, in plain text, of a hub's node (`passage_id` "") or of a passage that is linked to the hub.

    `name` is the hub's, or the passage's title; `field` is as filters name it, without `metadata.`.
    """

    name: str
    passage_id: str
    field: str
    value: str

    def __str__(self) -> str:
        of = f"passage {self.name}" if self.passage_id else self.name
        return " ".join(f"{of}: {self.field} {self.value}".split())


@dataclass(frozen=True, slots=True)
class HubInput:
    """A hub as it is read: its row in the evidence's data, with linked passages and metadata.

    `triples` are those of each of its paths, as text; "" where the path's text says the same.
    """

    row: Mapping[str, Any]
    triples: Sequence[str]
    passages: Sequence[ContextPassage]
    metadata: Sequence[HubMetadata] = ()

    @property
    def name(self) -> str:
        """Its name, its id if it has none."""
        name: str = self.row["name"] or self.row["hub_id"]
        return name


def _request(task: ChatTask[Any], question: Question, **inputs: str) -> ChatRequest[Any]:
    shown = tuple((name, text or _NONE) for name, text in inputs.items())
    return ChatRequest(task, question.id or question.text, (("question", question.text), *shown))


def _partial_request(
    task: ChatTask[PartialReply], question: Question, hub: HubInput, budget_tokens: int
) -> ChatRequest[PartialReply]:
    """The question for a hub's partial answer, its evidence within a budget: most of it for paths.

    Metadata have the numbers after those of the paths, so that a reply can name either. A name, or a way from the
    topic, that would take more than a tenth of the budget is cut.
    """
    name, way = (_cut(text, budget_tokens // 10) for text in (hub.name, hub.row["path_to_topic"]))
    budget_tokens -= estimate_tokens(name) + estimate_tokens(way)
    stated = (f"{path['text']} {triples}" for path, triples in zip(hub.row["paths"], hub.triples, strict=True))
    is_linked = bool(hub.passages or hub.metadata)
    paths = lines_within_tokens(merged(stated), int(budget_tokens * _PATHS_SHARE) if is_linked else budget_tokens)
    budget_tokens -= estimate_tokens(paths)
    lines = merged(map(str, hub.metadata), len(hub.row["paths"]) + 1)
    metadata = lines_within_tokens(lines, int(budget_tokens * _METADATA_SHARE) if hub.passages else budget_tokens)
    passages = numbered(within_tokens(hub.passages, budget_tokens - estimate_tokens(metadata)))
    return _request(task, question, hub=name, topic_path=way, paths=paths, metadata=metadata, passages=passages)


def merged(texts: Iterable[str], start: int = 1) -> str:
    """Texts with their numbers, one a line."""
    return "\n".join(f"[{n}] {' '.join(text.split())}" for n, text in enumerate(texts, start))


def valid(numbers: Sequence[int], count: int) -> list[int]:
    """Numbers from 1 to `count`, each once, in the order given."""
    return [number for number in dict.fromkeys(numbers) if 1 <= number <= count]


def _cut(text: str, budget_tokens: int) -> str:
    """The text, or its beginning if it is longer than the budget."""
    if estimate_tokens(text) <= budget_tokens:
        return text
    kept = text.encode("utf-8", "replace")[: max(0, budget_tokens - 1) * BYTES_PER_TOKEN].decode("utf-8", "ignore")
    return f"{kept.rstrip()}…"


# Source: algorithms.md 4.1, 4.10.


@dataclass(frozen=True, slots=True)
class Partial:
    """Contribution of one hub, with its paths (rows of the hub; by rules all kept ones) and metadata."""

    hub: HubInput
    text: str
    used: Sequence[Mapping[str, Any]]
    by_model: bool
    metadata: Sequence[HubMetadata] = ()


@dataclass(slots=True)
class _State:
    """A question between its levels: those left to read, and what was found in those that were read.

    `inputs` are the hubs of the level that is read, `partials` their partial answers by rank of the hub; `final` is
    None as long as no level gave an answer, which rests on `triples`.
    """

    item: ReadingItem
    left: list[Mapping[str, Any]]
    inputs: list[HubInput] = field(default_factory=list)
    partials: list[Partial] = field(default_factory=list)
    final: ReaderResult | None = None
    triples: list[RankedTriple] = field(default_factory=list)
    outage: ModelUnavailableError | None = None
    uses: list[ModelUse] = field(default_factory=list)
    hubs: list[dict[str, Any]] = field(default_factory=list)
    levels: list[dict[str, Any]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def add(self, partial: Partial | None, use: ModelUse | None = None) -> None:
        """Adds the contribution of the next hub of the level (None if there is none) and its model use."""
        if use is not None:
            self.count(use)
        if partial is None:
            return
        self.partials.append(partial)
        level, number = self.levels[-1], len(self.partials)
        level["sufficient"] += 1
        self.hubs.append(
            {
                "level": level["level"],
                "number": number,
                "hub_id": partial.hub.row["hub_id"],
                "text": partial.text,
                "used_paths": [path["hash"] for path in partial.used],
                "used_metadata": [asdict(one) for one in partial.metadata],
                "by": "model" if partial.by_model else "rules",
                **_taken([use] if use else []),
            }
        )
        self.notes.append(Note(f"Partial answer {number}", f"{partial.hub.name}: {partial.text}"))
        if partial.metadata:
            self.notes.append(Note(f"Metadata used for {number}", "; ".join(map(str, partial.metadata))))

    def count(self, use: ModelUse) -> None:
        """Counts a question to the model for this level."""
        self.uses.append(use)
        self.levels[-1]["uses"].append(use)

    def answered(self, answer: str, kind: str, numbers: Iterable[int], **more: Any) -> ReaderResult:
        """The answer from the partial ones of the level, which cites those with these numbers, from 1."""
        hubs = [(number, self.partials[number - 1].hub) for number in numbers]
        citations = tuple(Citation("", hub_id=hub.row["hub_id"], name=hub.name, number=number) for number, hub in hubs)
        reasoning = merged(partial.text for partial in self.partials)
        return ReaderResult(answer, kind=kind, citations=citations, reasoning=reasoning, **more)

    def is_out(self, outcome: ChatOutcome[Any]) -> bool:
        """Returns whether the model is unavailable, so that the question has to be retried; notes it."""
        outage = outage_of(outcome)
        self.outage = self.outage or outage
        return outage is not None

    def reading(self, most_calls: int, *, with_triples: bool) -> ReaderResult:
        """Returns the result that readers give."""
        use, final = summed_use(self.uses), self.final
        if self.outage is not None:
            return ReaderResult("", use=use, outage=self.outage)
        notes, levels = list(self.notes), []
        for level in self.levels:
            taken = _taken(level.pop("uses"))
            levels.append({**level, **taken})
            said = f"{level['sufficient']} of {level['asked']} hubs contribute"
            if taken["calls"]:
                tokens = f"{taken['prompt_tokens']:,} + {taken['completion_tokens']:,} tokens"
                said += f"; {taken['calls']} calls, {taken['cached']} cached, {tokens}, {taken['seconds']} s"
            notes.append(Note(f"Level {level['level']} read", said))
        if self.uses:
            notes.append(Note("Model", f"{len(self.uses)} requests; at most {most_calls} for a question"))
        row = {"levels_used": len(levels), "levels": levels, "partial_answers": self.hubs}
        data = {"hub_answers": row} if levels else {}
        if final is None:
            return ReaderResult("", use=use, notes=tuple(notes), data=data)
        triples = tuple(self.triples) if with_triples else None
        return replace(final, use=use, notes=tuple(notes), data=data, triples=triples)


def _taken(uses: Sequence[ModelUse]) -> dict[str, Any]:
    """Cost of some questions to the model when they were answered, and the number of cached replies."""
    usage = sum((use.usage for use in uses), Usage())
    return {
        "calls": usage.calls,
        "cached": sum(use.is_cached for use in uses),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "seconds": round(usage.seconds, 3),
    }


_BEST_PATHS = 3  # Paths whose texts are a partial answer by rules. Source: algorithms.md 4.10.


@dataclass(frozen=True, slots=True)
class HubReadingRule:
    """Parameters of reading hubs."""

    partial_by_model: bool = True  # Partial answers by the model, if one is given; otherwise by rules.
    final_by_model: bool = True  # The final answer likewise.
    # Whether the model chooses the triples that support the answer; without a model all are kept.
    filters: bool = False
    min_partial_score: float = 0.3  # By rules, a hub whose best path scores less contributes nothing.
    evidence_tokens: int = 6_000  # Largest evidence in a prompt.
    links: bool = True  # Whether prompts show the metadata of a hub's node and of the passages linked to it.


class HubModel:
    """A chat model and the tasks hub.partial, hub.final and hub.filter with their prompts.

    Attributes:
        most_calls: How often it is asked at most for one question.
    """

    def __init__(self, chat: ChatModel, prompts: tuple[Prompt, Prompt, Prompt], most_calls: int) -> None:
        partial, final, supporting = prompts
        self.chat = chat
        self.partial = ChatTask("hub.partial", partial, PartialReply, _SCHEMA_VERSION, REPLY_TOKENS)
        self.final = ChatTask("hub.final", final, FinalReply, _SCHEMA_VERSION, REPLY_TOKENS)
        self.filter = ChatTask("hub.filter", supporting, FilterReply, _SCHEMA_VERSION, REPLY_TOKENS)
        self.most_calls = most_calls


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
        # Spans are read by rules: of a reader that asks a model by its own fallback, as that is configured.
        fallback = configured.fallback if isinstance(configured, AskingReader) else None
        self._spans = fallback or (LocalReader(index) if configured.batches else configured)

    @property
    def batches(self) -> bool:
        """Returns whether a model is called."""
        return any(model is not None for model in (self._partial, self._final, self._filter))

    def read(self, items: Sequence[ReadingItem]) -> list[ReaderResult]:
        """One result per item, in order; one with an `outage` is not an answer.

        Hubs of all questions are asked about at once, level by level.
        """
        states = [_State(item, list(item.retrieval.evidence.data.get("levels", ()))) for item in items]
        going = [state for state in states if state.left]
        while going:
            for state in going:
                row = state.left.pop(0)
                state.inputs, state.partials = self._inputs(row["hubs"]), []
                level = {"level": row["level"], "asked": len(state.inputs), "sufficient": 0, "uses": []}
                state.levels.append(level)
            self._read_partials(going)
            self._read_finals([state for state in going if state.outage is None and state.partials])
            going = [state for state in going if state.left and state.final is None and state.outage is None]
        with_triples = self._partial is not None or self._filter is not None
        if with_triples:
            self._read_triples([state for state in states if state.final is not None and state.outage is None])
        return [state.reading(self._most_calls, with_triples=with_triples) for state in states]

    def _inputs(self, rows: Sequence[Mapping[str, Any]]) -> list[HubInput]:
        """The hubs of a level; only prompts show the triples of their paths, and metadata."""
        inputs = []
        for row in rows:
            triples = [self._triples_of(path) if self._partial else "" for path in row["paths"]]
            numbers = [self._index.number_of_passage[passage_id] for passage_id in row["passages"]]
            stored = self._index.passages(numbers) if numbers else []
            passages = [ContextPassage(*one, rank, 0.0) for rank, one in enumerate(stored, start=1)]
            inputs.append(HubInput(row, triples, passages))
        if self._partial is None or not self._rule.links:
            return inputs
        said = self._index.artefact(METADATA_OF_NODES)([one.row["hub_id"] for one in inputs])
        return [replace(one, metadata=self._metadata_of(one, said)) for one in inputs]

    def _metadata_of(self, hub: HubInput, said: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[HubMetadata]:
        """Fields of a hub's node, of all texts attached to it, and of its passages' records, each once.

        Source: algorithms.md 4.9.
        """
        attached = [(passage_id, fields) for node, passage_id, fields in said if node == hub.row["hub_id"]]
        number_of = self._index.number_of_passage
        origins = self._index.origins([number_of[one.passage_id] for one in hub.passages]) if hub.passages else []
        linked = [(one.passage_id, origin.metadata) for one, origin in zip(hub.passages, origins, strict=True)]
        # Titles of passages, without those that a filter leaves out.
        numbers = sorted({number_of[one] for one, _ in (*attached, *linked) if one in number_of})
        titles = {one: title for one, title, _ in (self._index.passages(numbers) if numbers else [])}
        names = {"": hub.name, **titles}
        found = [
            HubMetadata(names[passage_id], passage_id, field, value.value)
            for passage_id, fields in (*attached, *linked)
            if passage_id in names
            for field, value in values_of(fields)
        ]
        return list(dict.fromkeys(found))

    def _triples_of(self, path: Any) -> str:
        """The triples of a path whose text is not made of them by template."""
        words = words_of(self._stored, self._stored.paths.triples_of(path["path"]).tolist())
        if path_text(words) == path["text"]:
            return ""
        return " ".join(f"({one.subject}, {one.predicate}, {one.object})" for one in words)

    def _read_partials(self, states: Sequence[_State]) -> None:
        asked = [(state, hub) for state in states for hub in state.inputs]
        if self._partial is None:
            for state, hub in asked:
                state.add(self._partial_by_rules(hub))
            return
        task, budget = self._partial.partial, self._rule.evidence_tokens
        requests = [_partial_request(task, state.item.question, hub, budget) for state, hub in asked]
        for (state, hub), outcome in zip(asked, self._partial.chat.ask(requests) if requests else (), strict=True):
            if outcome.reply is not None:
                partial = _partial_of(hub, outcome.reply)
            else:
                partial = None if state.is_out(outcome) else self._partial_by_rules(hub)
            state.add(partial, use_of(task, outcome))

    def _partial_by_rules(self, hub: HubInput) -> Partial | None:
        """The texts of the best paths, if the best one is similar enough to the question."""
        paths = sorted(hub.row["paths"], key=lambda path: -path["score"])
        if not paths or paths[0]["score"] < self._rule.min_partial_score:
            return None
        # Each triple of their texts once: paths of a hub often share their first hops.
        said: dict[str, None] = {}
        sentences = []
        for text in [path["text"] for path in paths[:_BEST_PATHS]]:
            triples = text.removesuffix(".").split("; ")
            new = [triple for triple in triples if triple not in said]
            said.update(dict.fromkeys(new))
            sentences.append(text if len(new) == len(triples) else f"{'; '.join(new)}." if new else "")
        return Partial(hub, " ".join(filter(None, sentences)), paths, by_model=False)

    def _read_finals(self, states: Sequence[_State]) -> None:
        if self._final is None:
            for state in states:
                state.final = self._final_by_rules(state)
            return
        task, requests = self._final.final, []
        for state in states:  # as many of the first partial answers as the budget holds
            lines = lines_within_tokens(merged(one.text for one in state.partials), self._rule.evidence_tokens)
            requests.append(_request(task, state.item.question, partials=lines))
        for state, outcome in zip(states, self._final.chat.ask(requests) if requests else (), strict=True):
            state.count(use_of(task, outcome))
            reply = outcome.reply
            if reply is None:
                state.final = None if state.is_out(outcome) else self._final_by_rules(state)
            elif reply.sufficient and reply.answer.strip():
                cited = valid(reply.citations, len(state.partials))
                dropped = len(reply.citations) - len(cited)
                state.final = state.answered(reply.answer.strip(), "generated", cited, dropped_citations=dropped)

    def _final_by_rules(self, state: _State) -> ReaderResult:
        """All partial answers; the short one is the span of the first that has one, "" if none has."""
        everything = range(1, len(state.partials) + 1)
        for partial in state.partials:
            if partial.by_model:
                return state.answered(partial.text, "generated", everything)
            read = self._span(state.item, partial)
            if read.guess:
                known = tuple(one for one in read.sentences if one.passage_id in self._index.number_of_passage)
                found = {"sentences": known, "score": read.confidence, "confidence": read.confidence}
                return state.answered(read.answer, read.kind, everything, guess=read.guess, **found)
        return state.answered("", "none", everything)

    def _span(self, item: ReadingItem, partial: Partial) -> ReaderResult:
        """F-READ over the texts of a hub's paths and its passages. Source: algorithms.md 4.10."""
        hub, count = partial.hub, len(partial.used)
        texts = [
            ContextPassage(f"path {path['hash']}", hub.name, path["text"], rank, path["score"])
            for rank, path in enumerate(partial.used, start=1)
        ]
        more = [ContextPassage(one.passage_id, one.title, one.text, count + one.rank, 0.0) for one in hub.passages]
        (read,) = self._spans.read([ReadingItem(item.question, item.retrieval, [*texts, *more])])
        return read

    def _read_triples(self, states: Sequence[_State]) -> None:
        """The triples of the paths that the partial answers used, or those that a model keeps as support of the answer.

        Source: algorithms.md 4.10 (contexts).
        """
        for state in states:
            ranks = {id(hub): rank for rank, hub in enumerate(state.inputs)}
            used = [
                UsedPath(path["path"], path["score"], ranks[id(partial.hub)])
                for partial in state.partials
                for path in partial.used
            ]
            ranked = enumerate(rank_triples([used], self._stored.paths), start=1)
            state.triples = [self._stored.ranked_triple(triple, rank, score) for rank, (triple, score) in ranked]
        asked = [state for state in states if state.triples]
        if self._filter is None or not asked:
            return
        task, requests = self._filter.filter, []
        for state in asked:  # what exceeds the budget is not shown, and so not kept
            short = (state.final.answer or state.final.guess) if state.final else ""
            answer = _cut(short or merged(one.text for one in state.partials), REPLY_TOKENS)
            lines = merged(f"({one.subject}, {one.predicate}, {one.object})" for one in state.triples)
            statements = lines_within_tokens(lines, self._rule.evidence_tokens)
            requests.append(_request(task, state.item.question, answer=answer, statements=statements))
        for state, outcome in zip(asked, self._filter.chat.ask(requests), strict=True):
            state.uses.append(use_of(task, outcome))
            if outcome.reply is None:
                state.is_out(outcome)
                continue
            kept = [state.triples[number - 1] for number in sorted(valid(outcome.reply.ids, len(state.triples)))]
            state.triples = [replace(triple, rank=rank) for rank, triple in enumerate(kept, start=1)]


def _partial_of(hub: HubInput, reply: PartialReply) -> Partial | None:
    """Contribution of a hub by a model's reply; a reply without known paths rests on all of them."""
    text, paths = reply.answer.strip(), hub.row["paths"]
    if not reply.sufficient or not text:
        return None
    count = len(paths)
    numbers = valid(reply.used, count + len(hub.metadata)) or range(1, count + 1)
    used = [paths[number - 1] for number in numbers if number <= count]
    metadata = [hub.metadata[number - count - 1] for number in numbers if number > count]
    return Partial(hub, text, used, by_model=True, metadata=metadata)
