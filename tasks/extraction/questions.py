"""The three questions that extraction asks a model: prompts and the forms of their replies.

Asks nobody and checks no content (replies.py does). Source: algorithms.md 0.7, 1.3 (2), 3.3 (1), (2).

Tokens of replies per token of text: gpt-3.5's entities of the MuSiQue passages in ../shared/data take .48, its triples
in our form 2.3; PropRAG's 4.6 million tokens of output for 11,656 passages of about 108 tokens leave some 3 for
propositions.
"""

from functools import cache
from pathlib import Path

from pydantic import BaseModel, Field

from polyhop.schemas.chat import ChatTask
from polyhop.schemas.ids import content_hash
from polyhop.schemas.settings import ReplySettings
from polyhop.warehouse.prompt_files import read_prompt

_PROMPTS = Path(__file__).parent / "prompts"
KG_EXTRACT, PROP_ENTITIES, PROP_PROPOSITIONS = "kg.extract", "prop.entities", "prop.propositions"


class KgEntity(BaseModel):
    """An entity of a document."""

    name: str
    type: str
    description: str


class KgRelation(BaseModel):
    """A relation between two of the entities, by their names."""

    source_name: str
    relation: str
    target_name: str


class KgReply(BaseModel):
    """Entities and relations of one document."""

    entities: list[KgEntity]
    relations: list[KgRelation]


class PhrasesReply(BaseModel):
    """Everything that propositions of one passage may speak of."""

    entities: list[str] = Field(min_length=1)


class PropositionReply(BaseModel):
    """A statement that stands alone, and the entities in it."""

    text: str
    entities: list[str]


class PropositionsReply(BaseModel):
    """The propositions of one passage."""

    propositions: list[PropositionReply]


@cache
def kg_extract() -> ChatTask[KgReply]:
    """Entities and relations per document."""
    return ChatTask(KG_EXTRACT, read_prompt(_PROMPTS / "kg.extract.md"), KgReply, output_per_input=3.0)


@cache
def prop_entities() -> ChatTask[PhrasesReply]:
    """Inclusive entities per passage."""
    return ChatTask(PROP_ENTITIES, read_prompt(_PROMPTS / "prop.entities.md"), PhrasesReply, output_per_input=0.5)


@cache
def prop_propositions() -> ChatTask[PropositionsReply]:
    """Propositions per passage, given its entities."""
    prompt = read_prompt(_PROMPTS / "prop.propositions.md")
    return ChatTask(PROP_PROPOSITIONS, prompt, PropositionsReply, output_per_input=3.0)


def changed_lengths(lengths: ReplySettings) -> dict[str, object]:
    """The longest replies that are not the defaults: a reply cut by one is another reply under a higher one."""
    usual = ReplySettings()
    names = ("kg_extract", "prop_entities", "prop_propositions")
    chosen = {name: getattr(lengths, name) for name in names}
    return {f"longest_{name}": tokens for name, tokens in chosen.items() if tokens != getattr(usual, name)}


def questions_hash() -> str:
    """sha256 of all that is asked: names, prompts, schema versions, lengths of replies."""
    tasks = (kg_extract(), prop_entities(), prop_propositions())
    return content_hash(
        *(f"{task.name} {task.prompt.hash} {task.schema_version} {task.max_output_tokens}" for task in tasks)
    )
