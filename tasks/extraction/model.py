"""Extraction by a model: its three questions, replies located in passages, fallbacks, the plan of calls.

The result does not depend on which replies were cached, on the order of passages or on the batch. Source: algorithms.md
0.7, 1.3 (1), (2), 3.3 (1), (2). Decided here: propositions are not asked for while the passage's entities have failed:
a list by rules would be paid for, and be wrong once the model answers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from polyhop.schemas.chat import ChatModel, ChatOutcome, ChatRequest, ChatTask, ItemT, ReplyText, WholeItems
from polyhop.schemas.records import Passage
from polyhop.schemas.text import content_hash, norm_ws, passage_text
from polyhop.tasks.extraction.rows import (
    BatchPages,
    ExtractedPassage,
    KeptItems,
    LedgerRow,
    Proposition,
    count_items,
    count_units,
    row_of_outcome,
    triple_proposition,
    with_items,
)
from polyhop.tasks.extraction.stated import (
    MAX_NAME_CHARACTERS,
    MODEL,
    Contract,
    StandIn,
    Stated,
    StatedName,
    clean,
    distribute,
    named,
    stated_page,
)
from polyhop.warehouse.build import Build
from polyhop.warehouse.statements import read_prompt, read_prompts, statement

if TYPE_CHECKING:
    from polyhop.tasks.planning import PlannedStep, Planner

# Source: algorithms.md 0.7, 1.3 (2), 3.3 (1), (2).

_PROMPTS = Path(__file__).parent / "prompts"
KG_EXTRACT, PROP_ENTITIES, PROP_PROPOSITIONS = "kg.extract", "prop.entities", "prop.propositions"


# Docstrings of these forms are part of the JSON schema that a model is sent. Fields of items have defaults so that an
# incomplete item stays in the reply, and in the cache, where parsing counts it as dropped.


class _Item(BaseModel):
    """An item of a list; what is not an object is an item without fields, which is counted as dropped."""

    @model_validator(mode="before")
    @classmethod
    def _object(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {}


class KgEntity(_Item):
    """An entity of a document."""

    name: ReplyText = ""
    type: ReplyText = ""
    description: ReplyText = ""


class KgRelation(_Item):
    """A relation between two of the entities, by their names."""

    source_name: ReplyText = ""
    relation: ReplyText = ""
    target_name: ReplyText = ""


class KgReply(BaseModel):
    """Entities and relations of one document."""

    entities: list[KgEntity]
    relations: Annotated[list[KgRelation], BeforeValidator(lambda value: [] if value is None else value)] = []

    @field_validator("entities")
    @classmethod
    def _named(cls, entities: list[KgEntity]) -> list[KgEntity]:
        return _some_whole(entities, [entity.name for entity in entities])


class PhrasesReply(BaseModel):
    """Everything that propositions of one passage may speak of."""

    entities: list[ReplyText] = Field(min_length=1)

    @field_validator("entities")
    @classmethod
    def _named(cls, entities: list[str]) -> list[str]:
        return _some_whole(entities, entities)


class PropositionReply(_Item):
    """A statement that stands alone, and the entities in it."""

    text: ReplyText = ""
    entities: Annotated[list[ReplyText], BeforeValidator(lambda value: value if isinstance(value, list) else [])] = []


class PropositionsReply(BaseModel):
    """The propositions of one passage."""

    propositions: list[PropositionReply]

    @field_validator("propositions")
    @classmethod
    def _stated(cls, propositions: list[PropositionReply]) -> list[PropositionReply]:
        return _some_whole(propositions, [proposition.text for proposition in propositions])


def _some_whole(items: list[ItemT], texts: Sequence[str]) -> list[ItemT]:
    """The items, unless there are some and none of them has its text: such a reply is not of the form."""
    if items and not any(text.strip() for text in texts):
        raise ValueError("no item has a name or a text")
    return items


class TypesReply(BaseModel):
    """Types of the things that a collection is about; asked for when prompts are tuned, never by an index run."""

    types: WholeItems[str]


@dataclass(frozen=True, slots=True)
class Questions:
    """Requests of extraction: entities and relations per document, entities and propositions per passage."""

    kg_extract: ChatTask[KgReply]
    prop_entities: ChatTask[PhrasesReply]
    prop_propositions: ChatTask[PropositionsReply]

    @property
    def hash(self) -> str:
        """sha256 of all that is asked: names, prompts, schema versions, lengths of replies."""
        tasks: tuple[ChatTask[Any], ...] = (self.kg_extract, self.prop_entities, self.prop_propositions)
        return content_hash(
            *(f"{task.name} {task.prompt.hash} {task.schema_version} {task.max_output_tokens}" for task in tasks)
        )

    def of_document(self, part: "DocumentPart", contract: "Contract") -> ChatRequest[KgReply]:
        """Asks for entities and relations. Source: algorithms.md 1.3 (2)."""
        inputs = (("document", part.text), ("types", ", ".join(contract.asked_types) + contract.guidance))
        return ChatRequest(self.kg_extract, part.unit_id, inputs)

    def of_passage(self, passage: Passage) -> ChatRequest[PhrasesReply]:
        """Asks for the entities that propositions may speak of. Source: algorithms.md 3.3 (1)."""
        return ChatRequest(self.prop_entities, passage.passage_id, (("passage", _text(passage)),))

    def with_phrases(self, passage: Passage, phrases: "Sequence[StatedName]") -> ChatRequest[PropositionsReply]:
        """Asks for the propositions about these entities. Source: algorithms.md 3.3 (2)."""
        inputs = (("entities", "\n".join(phrase.name for phrase in phrases)), ("passage", _text(passage)))
        return ChatRequest(self.prop_propositions, passage.passage_id, inputs)


def questions(folder: str = "") -> Questions:
    """The three questions, with the prompts of a folder (`extraction.prompts`) instead of built-in ones.

    Ours about propositions show an example. Source: algorithms.md 3.3 (1), (2).
    """
    names = (KG_EXTRACT, PROP_ENTITIES, PROP_PROPOSITIONS)
    kg, entities, propositions = read_prompts([_PROMPTS / f"{name}.md" for name in names], folder)
    return Questions(
        ChatTask(KG_EXTRACT, kg, KgReply, output_per_input=3.0, is_list=True),
        ChatTask(PROP_ENTITIES, entities, PhrasesReply, output_per_input=0.5, is_list=True),
        ChatTask(PROP_PROPOSITIONS, propositions, PropositionsReply, output_per_input=3.0, is_list=True),
    )


def types_task() -> ChatTask[TypesReply]:
    """Asks for the types of the things in some passages."""
    return ChatTask("corpus.types", read_prompt(_PROMPTS / "corpus.types.md"), TypesReply, max_output_tokens=512)


# Source: algorithms.md 1.3 (2), 3.3 (2). Decided here: names are compared by key, which is coarser than `norm_ws`;
# the contract on types (stated.py) decides about types outside the list; an entity given twice counts once; one
# without a description stays, and F-DESC describes it; a
# relation is also a triple, in the reply's words, even where the contract drops its label or both its ends are one
# entity.


def stated_in_document(reply: KgReply, contract: Contract, counts: Counter[str]) -> Stated:
    """Entities, relations and triples of a document's reply. Source: algorithms.md 1.3 (2)."""
    names = _entities(reply, contract, counts)
    stated = Stated(list(names.values()))
    for relation in reply.relations:
        source, target = _name(relation.source_name), _name(relation.target_name)
        if source is None or target is None or source.key not in names or target.key not in names:
            counts["dropped_relations_dangling"] += 1
        elif not norm_ws(said := clean(relation.relation)):
            counts["dropped_relations_without_label"] += 1
        else:
            stated.triples.append(triple_proposition((source.name, said, target.name), source.key, target.key))
            if source.key == target.key:
                counts["dropped_relations_to_themselves"] += 1
            elif (label := contract.relation(said, counts)) is not None:
                stated.relations.append((source.key, label, target.key))
    return stated


def _entities(reply: KgReply, contract: Contract, counts: Counter[str]) -> dict[str, StatedName]:
    """The named entities of types that the contract lets stay, by key; of two with one key the first."""
    names: dict[str, StatedName] = {}
    for entity in reply.entities:
        name, description = _name(entity.name), clean(entity.description)
        if name is None:
            counts["dropped_entities_incomplete"] += 1
            continue
        stays, kind = contract.entity_type(clean(entity.type), counts)
        if stays and name.key in names:
            counts["dropped_entities_twice"] += 1
        elif stays:
            counts["entities_without_description"] += not description
            names[name.key] = StatedName(name.name, name.key, kind, description)
    return names


def kept_of_document(reply: KgReply, counts: Counter[str]) -> list[KeptItems]:
    """Kept entities and relations of a reply, by what parsing it counted as dropped; one given twice is kept."""
    lost = counts["dropped_entities_incomplete"] + counts["dropped_entity_types"]
    unusable = counts["dropped_relations_dangling"] + counts["dropped_relations_without_label"]
    return [
        KeptItems("entities", len(reply.entities) - lost, len(reply.entities)),
        KeptItems("relations", len(reply.relations) - unusable, len(reply.relations)),
    ]


def phrases_in_passage(reply: PhrasesReply, counts: Counter[str]) -> list[StatedName]:
    """The distinct entities of a passage's reply, in order. Source: algorithms.md 3.3 (1)."""
    found: dict[str, StatedName] = {}
    for entity in reply.entities:
        name = _name(entity)
        if name is None:
            counts["dropped_phrases"] += 1
        else:
            found.setdefault(name.key, name)
    return list(found.values())


def propositions_in_passage(
    reply: PropositionsReply, phrases: Sequence[StatedName], counts: Counter[str]
) -> list[Proposition]:
    """Propositions with the keys of their entities, which must be among `phrases`.

    One without any stays: it is found by its text. Source: algorithms.md 3.3 (2).
    """
    listed = {phrase.key for phrase in phrases}
    found = []
    for proposition in reply.propositions:
        text = clean(proposition.text)
        if not text:
            counts["dropped_propositions_empty"] += 1
            continue
        names = [_name(entity) for entity in proposition.entities]
        keys = [name.key for name in names if name is not None and name.key in listed]
        counts["dropped_proposition_entities"] += len(names) - len(keys)
        found.append((text, list(dict.fromkeys(keys))))
    return found


def _name(text: str) -> StatedName | None:
    """The cleaned name, None if it is none."""
    if len(text) > MAX_NAME_CHARACTERS:
        return None
    name = named(text)
    return name if name.key else None


DOCUMENT_CHARACTERS = 12_000
"""Most characters of passages in one request, unless one passage has more: some 3,000 tokens, whose entities and
relations fit into a reply of 4,096."""


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A document, or as many of its passages in a row as fit into one request."""

    unit_id: str
    passages: tuple[Passage, ...]

    @property
    def text(self) -> str:
        """Text for the model: the title and each text once. Source: algorithms.md 1.3 (1)."""
        texts = dict.fromkeys(passage.text for passage in self.passages)
        return "\n".join([f"**{self.passages[0].title}**", *texts])


def document_parts(passages: Sequence[Passage], most: int = DOCUMENT_CHARACTERS) -> Iterator[DocumentPart]:
    """The documents of a batch by id, long ones cut between passages."""
    ordered = sorted(passages, key=lambda passage: (passage.document_id, passage.ordinal, passage.passage_id))
    for document_id, group in groupby(ordered, key=lambda passage: passage.document_id):
        parts: list[list[Passage]] = []
        size = most + 1
        for passage in group:
            size += len(passage.text)
            if size > most:
                parts.append([])
                size = len(passage.text)
            parts[-1].append(passage)
        for number, part in enumerate(parts):
            yield DocumentPart(document_id if len(parts) == 1 else f"{document_id}#{number}", tuple(part))


@dataclass(slots=True)
class ModelBatch:
    """Statements of a model about documents; collects the results for each passage."""

    passages: Sequence[Passage]
    chat: ChatModel
    contract: Contract
    stand_in: StandIn
    stand_in_name: str
    questions: Questions
    _stated: defaultdict[str, Stated] = field(default_factory=lambda: defaultdict(Stated))
    _phrases: dict[str, list[StatedName]] = field(default_factory=dict)
    _without_names: set[str] = field(default_factory=set)
    _without_propositions: set[str] = field(default_factory=set)
    _result: BatchPages = field(default_factory=BatchPages)

    def run(self) -> BatchPages:
        """Documents and phrases, then propositions, then pages."""
        self.passages = sorted(self.passages, key=lambda passage: passage.passage_id)
        parts = list(document_parts(self.passages))
        of_documents: list[ChatRequest[Any]] = [self.questions.of_document(part, self.contract) for part in parts]
        # together, so that one wait for a batch answers both
        outcomes = self.chat.ask([*of_documents, *map(self.questions.of_passage, self.passages)])
        self._read_documents(parts, outcomes[: len(parts)])
        self._read_phrases(outcomes[len(parts) :])
        self._ask_propositions()
        result = self._result
        for passage in self.passages:
            result.add_page(passage, self._page)
        result.counts += count_units(result.ledger)
        return result

    def _read_documents(self, parts: Sequence[DocumentPart], outcomes: Sequence[ChatOutcome[Any]]) -> None:
        for part, outcome in zip(parts, outcomes, strict=True):
            reply, counts = outcome.reply, Counter[str]()
            if not isinstance(reply, KgReply):
                self._note(KG_EXTRACT, part.unit_id, outcome)
                self._without_names.update(passage.passage_id for passage in part.passages)
                continue
            stated = stated_in_document(reply, self.contract, counts)
            self._note(KG_EXTRACT, part.unit_id, outcome, counts, kept_of_document(reply, counts))
            for passage, share in zip(part.passages, distribute(stated, part.passages), strict=True):
                self._stated[passage.passage_id].extend(share)

    def _read_phrases(self, outcomes: Sequence[ChatOutcome[Any]]) -> None:
        for passage, outcome in zip(self.passages, outcomes, strict=True):
            reply, counts = outcome.reply, Counter[str]()
            if isinstance(reply, PhrasesReply):
                phrases = phrases_in_passage(reply, counts)
                self._phrases[passage.passage_id] = phrases
                self._stated[passage.passage_id].names += phrases
                listed = len(reply.entities)
                kept = [KeptItems("phrases", listed - counts["dropped_phrases"], listed)]
                self._note(PROP_ENTITIES, passage.passage_id, outcome, counts, kept)
            else:
                self._note(PROP_ENTITIES, passage.passage_id, outcome)
                self._without_propositions.add(passage.passage_id)
                error = "the passage's entities are not there yet"
                row = LedgerRow(PROP_PROPOSITIONS, passage.passage_id, "failed", self.stand_in_name, outcome.model)
                self._result.ledger.append(replace(row, error_class="NotAsked", error=error))

    def _ask_propositions(self) -> None:
        asked = [passage for passage in self.passages if passage.passage_id in self._phrases]
        requests = [self.questions.with_phrases(passage, self._phrases[passage.passage_id]) for passage in asked]
        for passage, outcome in zip(asked, self.chat.ask(requests), strict=True):
            reply, counts = outcome.reply, Counter[str]()
            if isinstance(reply, PropositionsReply):
                found = propositions_in_passage(reply, self._phrases[passage.passage_id], counts)
                self._stated[passage.passage_id].propositions += found
                kept = [KeptItems("propositions", len(found), len(reply.propositions))]
                self._note(PROP_PROPOSITIONS, passage.passage_id, outcome, counts, kept)
            else:
                self._note(PROP_PROPOSITIONS, passage.passage_id, outcome)
                self._without_propositions.add(passage.passage_id)

    def _note(
        self,
        step: str,
        unit_id: str,
        outcome: ChatOutcome[Any],
        counts: Mapping[str, int] | None = None,
        items: Sequence[KeptItems] = (),
    ) -> None:
        """Adds a unit to the ledger, with what its reply listed and what of it was kept."""
        row = row_of_outcome(step, unit_id, outcome, self.stand_in_name)
        self._result.ledger.append(with_items(row, items))
        self._result.counts.update(counts or {})
        self._result.counts.update(count_items(items))
        self._result.computed += not outcome.is_cached

    def _page(self, passage: Passage) -> ExtractedPassage:
        passage_id = passage.passage_id
        page = stated_page(passage, self._stated[passage_id], MODEL)
        lacks_names, lacks_propositions = passage_id in self._without_names, passage_id in self._without_propositions
        if lacks_names or lacks_propositions:
            # Adds the fallback's work where the model's is missing; a key that both have keeps the model's row.
            other = self.stand_in(passage)
            if lacks_names:
                page.relations += other.relations
                page.triples += other.triples
            if lacks_propositions:
                page.propositions += other.propositions
            wanted = set(other.rows) if lacks_names else {key for (_, keys), _ in other.propositions for key in keys}
            for key, row in other.rows.items():
                known = page.rows.get(key)  # that of the title alone says nothing
                if key in wanted and (known is None or (lacks_names and known.is_title and not known.description)):
                    page.rows[key] = row
        return page


def _text(passage: Passage) -> str:
    return passage_text(passage.title, passage.text)


def plan_passages(
    passages: Sequence[Passage], contract: Contract, asked: Questions, planner: "Planner"
) -> "list[PlannedStep]":
    """The three steps over all passages of some documents."""
    from polyhop.tasks.planning import PlannedStep, planned_step

    documents = [asked.of_document(part, contract) for part in document_parts(passages)]
    phrases = list(map(asked.of_passage, passages))
    known = planner.replies(phrases)
    exact, unknown = [], []
    for passage, request, reply in zip(passages, phrases, known, strict=True):
        if isinstance(reply, PhrasesReply):
            exact.append(asked.with_phrases(passage, phrases_in_passage(reply, Counter())))
        else:
            unknown.append((passage, request))
    template = planner.count_tokens(asked.prop_propositions.prompt.text)
    alone, both = planner.text_per_call(asked.prop_entities), planner.text_per_call(asked.prop_propositions)
    if alone and both:  # the text with its phrases, by this project's calls of both steps
        of_phrases = planned_step(asked.prop_entities, [request for _, request in unknown], planner)
        text = with_phrases = round(of_phrases.text_tokens * both / alone)
    else:
        text = sum(planner.count_tokens(_text(passage)) for passage, _ in unknown)
        with_phrases = round(text * (1 + planner.output_per_input(asked.prop_entities)))
    tokens = template * len(unknown) + with_phrases
    of_unknown = PlannedStep(asked.prop_propositions, len(unknown), 0, tokens, text)
    return [
        planned_step(asked.kg_extract, documents, planner),
        planned_step(asked.prop_entities, phrases, planner, replies=known),
        planned_step(asked.prop_propositions, exact, planner) + of_unknown,
    ]


def documents_of(build: Build) -> Iterator[list[Passage]]:
    """All passages of some documents at a time."""
    size, offset = build.settings.batch_size, 0
    while True:
        with build.tables(read_only=True) as connection:
            query = statement("ingest", "document_range")
            rows = connection.execute(query, {"limit": size, "offset": offset}).fetchall()
        if not rows:
            return
        yield [Passage(*row) for row in rows]
        offset += size
