"""The three questions that extraction asks a model: prompts and the forms of their replies.

Asks nobody and checks no content (replies.py does). Source: algorithms.md 0.7, 1.3 (2), 3.3 (1), (2).

Tokens of replies per token of text: gpt-3.5's entities of the MuSiQue passages in ../shared/data take .48, its triples
in our form 2.3; PropRAG's 4.6 million tokens of output for 11,656 passages of about 108 tokens leave some 3 for
propositions.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from polyhop.schemas.chat import ChatTask
from polyhop.schemas.ids import content_hash
from polyhop.schemas.model_settings import ReplySettings
from polyhop.schemas.prompts import Prompt
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


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked, by step.

    Attributes:
        kg_extract: Entities and relations per document.
        prop_entities: Inclusive entities per passage.
        prop_propositions: Propositions per passage, given its entities.
    """

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


@cache
def questions(*, demonstration: bool) -> Questions:
    """The three questions.

    Args:
        demonstration: Whether the two about propositions show an example, as the paper's do.

    Source: algorithms.md 3.3 (1), (2).
    """
    return Questions(
        ChatTask(KG_EXTRACT, read_prompt(_PROMPTS / "kg.extract.md"), KgReply, output_per_input=3.0),
        ChatTask(PROP_ENTITIES, _prompt(PROP_ENTITIES, has_example=demonstration), PhrasesReply, output_per_input=0.5),
        ChatTask(
            PROP_PROPOSITIONS,
            _prompt(PROP_PROPOSITIONS, has_example=demonstration),
            PropositionsReply,
            output_per_input=3.0,
        ),
    )


def _prompt(name: str, *, has_example: bool) -> Prompt:
    whole = read_prompt(_PROMPTS / f"{name}.md")
    return whole if has_example else whole.without_example()


def changed_lengths(lengths: ReplySettings) -> dict[str, object]:
    """The longest replies that are not the defaults: a reply cut by one is another reply under a higher one."""
    usual = ReplySettings()
    names = ("kg_extract", "prop_entities", "prop_propositions")
    chosen = {name: getattr(lengths, name) for name in names}
    return {f"longest_{name}": tokens for name, tokens in chosen.items() if tokens != getattr(usual, name)}
