"""The readers of hubs: partial answers hub by hub, then one answer, level by level; and short answers of hub facets.

By a model where one is given and the rule says so, else by rules; what a model replies nothing usable to, rules answer.
Source: algorithms.md 4.8 (levels), 4.10.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, Field, field_validator

from polyhop.schemas.chat import ChatModel, ChatOutcome, ChatRequest, ChatTask, Prompt, Usage
from polyhop.schemas.errors import ModelUnavailableError
from polyhop.schemas.evidence import Note
from polyhop.schemas.ports import IndexReader, Reader
from polyhop.schemas.query import (
    Citation,
    ComparedValue,
    ContextPassage,
    ModelUse,
    Question,
    RankedTriple,
    Reading,
    ReadingItem,
    Sentence,
    summed_use,
)
from polyhop.schemas.records import values_of
from polyhop.tasks.hubs.paths import STORED_HUBS, path_text
from polyhop.warehouse.artefacts import METADATA_OF_NODES
from polyhop.worker.ranking.hubs import UsedPath, rank_triples, words_of
from polyhop.worker.reading.models import (
    BYTES_PER_TOKEN,
    AskingReader,
    estimate_tokens,
    lines_within_tokens,
    numbered,
    outage_of,
    use_of,
    within_tokens,
)
from polyhop.worker.reading.reader import MIN_CONFIDENCE, RuleReader

# Source: algorithms.md 0.7, 4.10.

REPLY_TOKENS = 1_024
"""Longest reply of a step."""
_SCHEMA_VERSION = 1  # of the replies' forms: part of the cache's key, raised with every change; algorithms.md 0.3.
_PATHS_SHARE = 0.7  # of the budget; chosen: a hub is judged by its paths, and what is linked gets what these leave
_METADATA_SHARE = 0.5  # of what paths leave; chosen: fields are short, and passages get the rest
_NONE = "(none)"


class _Reply(BaseModel):
    """Null texts are empty, null lists have nothing in them."""

    @field_validator("answer", mode="before", check_fields=False)
    @classmethod
    def _text(cls, value: Any) -> Any:
        return "" if value is None else value

    @field_validator("used", "citations", "ids", mode="before", check_fields=False)
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        return [] if value is None else value


class PartialReply(_Reply):
    """What a model replies to hub.partial."""

    sufficient: bool = Field(description="Whether anything in the evidence is relevant to the question.")
    answer: str = Field(description="What the evidence contributes to the answer.")
    used: list[int] = Field(default_factory=list, description="Numbers of the statements used.")


class FinalReply(_Reply):
    """What a model replies to hub.final."""

    sufficient: bool = Field(description="Whether the partial answers together answer the question.")
    answer: str = Field(description="The answer, as short as the question allows.")
    citations: list[int] = Field(default_factory=list, description="Numbers of the partial answers used.")


class FilterReply(_Reply):
    """What a model replies to hub.filter."""

    ids: list[int] = Field(description="Numbers of the statements that support the answer.")


@dataclass(frozen=True, slots=True)
class HubMetadata:
    """A field of what is linked to a hub: of its node, or of a passage."""

    name: str  # Of the hub, or title of the passage.
    passage_id: str  # "" if it is the node's.
    field: str  # As filters name it, without `metadata.`.
    value: str  # In plain text.

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
    def path_lines(self) -> str:
        """The paths with their triples, numbered from 1."""
        return "\n".join(
            f"[{n}] {' '.join(path['text'].split())}" + (f" {triples}" if triples else "")
            for n, (path, triples) in enumerate(zip(self.row["paths"], self.triples, strict=True), start=1)
        )

    @property
    def metadata_lines(self) -> str:
        """The metadata, with the numbers after those of the paths."""
        return "\n".join(f"[{n}] {one}" for n, one in enumerate(self.metadata, start=len(self.row["paths"]) + 1))


def partial_request(
    task: ChatTask[PartialReply], question: Question, hub: HubInput, budget_tokens: int
) -> ChatRequest[PartialReply]:
    """The question for a hub's partial answer, its evidence within a budget: most of it for paths.

    Metadata have the numbers after those of the paths, so that a reply can name either. A name, or a way from the
    topic, that would take more than a tenth of the budget is cut.
    """
    name = _cut(hub.row["name"] or hub.row["hub_id"], budget_tokens // 10)
    way = _cut(hub.row["path_to_topic"], budget_tokens // 10)
    budget_tokens -= estimate_tokens(name) + estimate_tokens(way)
    is_linked = bool(hub.passages or hub.metadata)
    paths = lines_within_tokens(hub.path_lines, int(budget_tokens * _PATHS_SHARE) if is_linked else budget_tokens)
    budget_tokens -= estimate_tokens(paths)
    metadata = lines_within_tokens(
        hub.metadata_lines, int(budget_tokens * _METADATA_SHARE) if hub.passages else budget_tokens
    )
    passages = within_tokens(hub.passages, budget_tokens - estimate_tokens(metadata))
    inputs = (
        ("question", question.text),
        ("hub", name),
        ("topic_path", way or _NONE),
        ("paths", paths or _NONE),
        ("metadata", metadata or _NONE),
        ("passages", numbered(passages) or _NONE),
    )
    return ChatRequest(task, question.id or question.text, inputs)


def final_request(
    task: ChatTask[FinalReply], question: Question, partials: Sequence[str], budget_tokens: int
) -> ChatRequest[FinalReply]:
    """The question for the answer from partial ones, as many of the first as the budget holds."""
    shown = lines_within_tokens(merged(partials), budget_tokens)
    return ChatRequest(task, question.id or question.text, (("question", question.text), ("partials", shown or _NONE)))


def filter_request(
    task: ChatTask[FilterReply], question: Question, answer: str, triples: Sequence[RankedTriple], budget_tokens: int
) -> ChatRequest[FilterReply]:
    """The question for the triples that support an answer; what exceeds the budget is not shown, and so not kept."""
    lines = "\n".join(f"[{n}] {_stated(triple)}" for n, triple in enumerate(triples, start=1))
    statements = lines_within_tokens(lines, budget_tokens)
    inputs = (("question", question.text), ("answer", _cut(answer, REPLY_TOKENS)), ("statements", statements or _NONE))
    return ChatRequest(task, question.id or question.text, inputs)


def merged(partials: Sequence[str]) -> str:
    """Partial answers with their numbers, one a line."""
    return "\n".join(f"[{n}] {' '.join(text.split())}" for n, text in enumerate(partials, start=1))


def valid(numbers: Sequence[int], count: int) -> list[int]:
    """Numbers from 1 to `count`, each once, in the order given."""
    return [number for number in dict.fromkeys(numbers) if 1 <= number <= count]


def _cut(text: str, budget_tokens: int) -> str:
    """The text, or its beginning if it is longer than the budget."""
    if estimate_tokens(text) <= budget_tokens:
        return text
    kept = text.encode("utf-8", "replace")[: max(0, budget_tokens - 1) * BYTES_PER_TOKEN].decode("utf-8", "ignore")
    return f"{kept.rstrip()}…"


def _stated(triple: RankedTriple) -> str:
    return " ".join(f"({triple.subject}, {triple.predicate}, {triple.object})".split())


# Source: algorithms.md 4.1, 4.10.


@dataclass(frozen=True, slots=True)
class Partial:
    """What one hub contributes, with the paths (rows of the hub; by rules all kept ones) and metadata it rests on."""

    hub: HubInput
    text: str
    used: Sequence[Mapping[str, Any]]
    by_model: bool
    metadata: Sequence[HubMetadata] = ()


@dataclass(frozen=True, slots=True)
class Final:
    """The answer from the partial answers of a level, "" if rules found no short one in them.

    `cited` are numbers of the partial answers used, from 1; so many further numbers were `dropped`.
    """

    answer: str
    kind: str
    cited: Sequence[int]
    dropped: int = 0
    sentences: Sequence[Sentence] = ()
    confidence: float = 0.0
    guess: str = ""


@dataclass(slots=True)
class QuestionState:
    """A question between its levels."""

    item: ReadingItem  # The question with its retrieval.
    inputs: list[HubInput] = field(default_factory=list)  # Hubs of the level that is read.
    partials: list[Partial] = field(default_factory=list)  # Their partial answers, by rank of the hub.
    final: Final | None = None  # The answer, None as long as no level gave one.
    triples: list[RankedTriple] = field(default_factory=list)  # Those that the answer rests on.
    outage: ModelUnavailableError | None = None  # Why the model could not be asked.
    uses: list[ModelUse] = field(default_factory=list)  # Questions to the model, in the order asked.
    _place: int = 0
    _hubs: list[dict[str, Any]] = field(default_factory=list)
    _levels: list[dict[str, Any]] = field(default_factory=list)
    _notes: list[Note] = field(default_factory=list)

    @property
    def has_level(self) -> bool:
        """Whether there is a level left to read."""
        return self._place < len(self._rows)

    @property
    def hubs(self) -> Sequence[Mapping[str, Any]]:
        """Rows of the hubs of the level to read."""
        found: Sequence[Mapping[str, Any]] = self._rows[self._place]["hubs"]
        return found

    @property
    def _rows(self) -> Sequence[Mapping[str, Any]]:
        rows: Sequence[Mapping[str, Any]] = self.item.retrieval.evidence.data.get("levels", ())
        return rows

    def begin(self, inputs: list[HubInput]) -> None:
        """Begins the level."""
        self.inputs, self.partials = inputs, []
        row = self._rows[self._place]
        self._levels.append({"level": row["level"], "asked": len(inputs), "sufficient": 0, "uses": []})

    def add(self, partial: Partial | None, use: ModelUse | None = None) -> None:
        """What the next hub of the level contributes, None if nothing, and what a model took for it."""
        if use is not None:
            self.count(use)
        if partial is None:
            return
        self.partials.append(partial)
        level, row = self._levels[-1], partial.hub.row
        level["sufficient"] += 1
        number = len(self.partials)
        self._hubs.append(
            {
                "level": level["level"],
                "number": number,
                "hub_id": row["hub_id"],
                "text": partial.text,
                "used_paths": [path["hash"] for path in partial.used],
                "used_metadata": [dataclasses.asdict(one) for one in partial.metadata],
                "by": "model" if partial.by_model else "rules",
                **_taken([use] if use else []),
            }
        )
        self._notes.append(Note(f"Partial answer {number}", f"{row['name'] or row['hub_id']}: {partial.text}"))
        if partial.metadata:
            self._notes.append(Note(f"Metadata used for {number}", "; ".join(map(str, partial.metadata))))

    def count(self, use: ModelUse) -> None:
        """Counts a question to the model for this level."""
        self.uses.append(use)
        self._levels[-1]["uses"].append(use)

    def next_level(self) -> bool:
        """Goes on to the next level if this one gave no answer; whether there is one to read."""
        self._place += 1
        return self.final is None and self.outage is None and self.has_level

    def keep(self, numbers: Sequence[int]) -> None:
        """Keeps the triples with these numbers, from 1, with new ranks."""
        kept = [self.triples[number - 1] for number in numbers]
        self.triples = [dataclasses.replace(triple, rank=rank) for rank, triple in enumerate(kept, start=1)]

    def reading(self, most_calls: int, *, with_triples: bool) -> Reading:
        """The Reading."""
        use, final = summed_use(self.uses), self.final
        if self.outage is not None:
            return Reading("", use=use, outage=self.outage)
        notes, data = (*self._notes, *self._level_notes()), {"hub_answers": self._data()} if self._levels else {}
        if self.uses:
            notes = (*notes, Note("Model", f"{len(self.uses)} requests; at most {most_calls} for a question"))
        if final is None:
            return Reading("", use=use, notes=notes, data=data)
        return Reading(
            final.answer,
            score=final.confidence,
            sentences=final.sentences,
            kind=final.kind,
            reasoning=merged([partial.text for partial in self.partials]),
            citations=tuple(self._citation(number) for number in final.cited),
            dropped_citations=final.dropped,
            use=use,
            confidence=final.confidence,
            notes=notes,
            data=data,
            triples=tuple(self.triples) if with_triples else None,
            guess=final.guess,
        )

    def _citation(self, number: int) -> Citation:
        row = self.partials[number - 1].hub.row
        return Citation("", hub_id=row["hub_id"], name=row["name"] or row["hub_id"], number=number)

    def _level_notes(self) -> list[Note]:
        notes = []
        for level in self._levels:
            taken = _taken(level["uses"])
            said = f"{level['sufficient']} of {level['asked']} hubs contribute"
            if taken["calls"]:
                tokens = f"{taken['prompt_tokens']:,} + {taken['completion_tokens']:,} tokens"
                said += f"; {taken['calls']} calls, {taken['cached']} cached, {tokens}, {taken['seconds']} s"
            notes.append(Note(f"Level {level['level']} read", said))
        return notes

    def _data(self) -> dict[str, Any]:
        levels = [
            {**{name: value for name, value in level.items() if name != "uses"}, **_taken(level["uses"])}
            for level in self._levels
        ]
        return {"levels_used": len(self._levels), "levels": levels, "partial_answers": self._hubs}


def _taken(uses: Sequence[ModelUse]) -> dict[str, Any]:
    """What some questions to the model took when they were answered, and how many replies were cached."""
    usage = sum((use.usage for use in uses), Usage())
    return {
        "calls": usage.calls,
        "cached": sum(use.is_cached for use in uses),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "seconds": round(usage.seconds, 3),
    }


_BEST_PATHS = 3
"""Paths whose texts are a partial answer by rules. Source: algorithms.md 4.10."""


@dataclass(frozen=True, slots=True)
class HubReadingRule:
    """How hubs are read."""

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
        self._spans = _without_model(configured, index)

    @property
    def batches(self) -> bool:
        """Whether a model is asked."""
        return any(model is not None for model in (self._partial, self._final, self._filter))

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        """One Reading per item, in order; one with an `outage` is not an answer.

        Hubs of all questions are asked about at once, level by level.
        """
        states = [QuestionState(item) for item in items]
        going = [state for state in states if state.has_level]
        while going:
            for state in going:
                state.begin(self._inputs(state))
            self._read_partials(going)
            self._read_finals([state for state in going if state.outage is None and state.partials])
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
        number_of = self._index.number_of_passage
        origins = self._index.origins([number_of[one.passage_id] for one in hub.passages]) if hub.passages else []
        linked = [(one.passage_id, origin.metadata) for one, origin in zip(hub.passages, origins, strict=True)]
        # Titles of passages, without those that a filter leaves out.
        numbers = sorted({number_of[one] for one, _ in (*attached, *linked) if one in number_of})
        titles = {one: title for one, title, _ in (self._index.passages(numbers) if numbers else [])}
        names = {"": hub.row["name"] or hub.row["hub_id"], **titles}
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
        task = self._partial.partial
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
        return Partial(hub, _said_once([path["text"] for path in paths[:_BEST_PATHS]]), paths, by_model=False)

    def _read_finals(self, states: Sequence[QuestionState]) -> None:
        if self._final is None:
            for state in states:
                state.final = self._final_by_rules(state)
            return
        task = self._final.final
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
            if read.guess:
                known = tuple(one for one in read.sentences if one.passage_id in self._index.number_of_passage)
                confidence = read.confidence
                return Final(
                    read.answer, read.kind, everything, sentences=known, confidence=confidence, guess=read.guess
                )
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
        task, budget = self._filter.filter, self._rule.evidence_tokens
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
    if isinstance(configured, AskingReader) and configured.fallback is not None:
        return configured.fallback
    return RuleReader(index) if configured.batches else configured


def _said_once(texts: Sequence[str]) -> str:
    """The texts of paths as one, each triple of theirs once: paths of a hub often share their first hops."""
    said: dict[str, None] = {}
    sentences = []
    for text in texts:
        triples = text.removesuffix(".").split("; ")
        new = [triple for triple in triples if triple not in said]
        said.update(dict.fromkeys(new))
        sentences.append(text if len(new) == len(triples) else f"{'; '.join(new)}." if new else "")
    return " ".join(filter(None, sentences))


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
    short = (state.final.answer or state.final.guess) if state.final else ""
    return short or merged([one.text for one in state.partials])


# Source: algorithms.md 4B, answers.


_LEAST_OF_FACETS = 0.02  # below it the passages are read instead; chosen


class FacetReader:
    """Reads what `hub-facets` retrieved, without a model.

    Args:
        key: Of the short answer among an evidence's data.
        fallback: Reads the passages of questions to which facets give no answer.
    """

    batches = False

    def __init__(self, key: str, fallback: Reader) -> None:
        self._key = key
        self._fallback = fallback
        self._min_confidence = fallback.min_confidence if isinstance(fallback, RuleReader) else MIN_CONFIDENCE

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        """One Reading per item, in order; its `values` and `citations` name hubs."""
        return [self._read(item) for item in items]

    def _read(self, item: ReadingItem) -> Reading:
        found: dict[str, Any] | None = item.retrieval.evidence.data.get(self._key)
        if found is None or found["confidence"] < _LEAST_OF_FACETS:
            (reading,) = self._fallback.read([item])
            return reading
        # all hops of every path, each triple once
        stated = dict.fromkeys(f"({', '.join(hop)})" for one in found["triples"] for hop in one["hops"])
        count = found["hub_count"]
        text = f"{found['kind']}, from {count} {'hub' if count == 1 else 'hubs'}: {'; '.join(stated)}"
        answer = "; ".join(found["texts"])  # names have commas
        return Reading(
            answer if found["confidence"] >= self._min_confidence else "",
            guess=answer,
            score=found["confidence"],
            kind="computed",
            citations=tuple(
                Citation("", hub_id=hub["id"], name=hub["name"], number=number)
                for number, hub in enumerate(found["hubs"], start=1)
            ),
            confidence=found["confidence"],
            rule=f"facets: {found['kind']}",
            values=tuple(dict.fromkeys(ComparedValue(one["hub"], one["object"]) for one in found["triples"])),
            notes=(Note("Answer", text),),
        )
