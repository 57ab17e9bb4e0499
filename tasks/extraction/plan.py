"""What extraction by a model would ask: requests, those already answered, tokens; asks nothing (pure).

Propositions are asked for with a list of entities that may not be known yet; its length is then estimated from the
passage. Source: algorithms.md 0.7, 1.3, 3.3.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from schemas.chat import ChatRequest, ChatTask
from schemas.corpus import Passage
from schemas.text import passage_text
from tasks.extraction.contract import Contract
from tasks.extraction.model_batch import document_parts
from tasks.extraction.questions import PhrasesReply, kg_extract, prop_entities, prop_propositions
from tasks.extraction.replies import phrases_in_passage

OUTPUT_PER_INPUT: Mapping[str, float] = {"kg.extract": 3.0, "prop.entities": 0.5, "prop.propositions": 3.0}
"""Tokens of a reply per token of the text it is about, before a project has a history of its own.

Source: gpt-3.5's entities of the MuSiQue passages in ../shared/data take .48, its triples in our form 2.3; PropRAG's
4.6 million tokens of output for 11,656 passages of about 108 tokens leave some 3 for propositions.
"""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One kind of question over a corpus, or a part of it.

    Attributes:
        step: Name of the task.
        units: Documents or passages that it is about.
        cached: Of these, how many have a reply.
        prompt_tokens: Estimated tokens of the prompts still to send.
        text_tokens: Of these, the tokens of texts; how long replies become depends on them.
    """

    step: str
    units: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    text_tokens: int = 0

    @property
    def calls(self) -> int:
        """Calls to make, if none has to be repeated."""
        return self.units - self.cached

    def __add__(self, other: "PlannedStep") -> "PlannedStep":
        return PlannedStep(
            self.step,
            self.units + other.units,
            self.cached + other.cached,
            self.prompt_tokens + other.prompt_tokens,
            self.text_tokens + other.text_tokens,
        )


LookUp = Callable[[Sequence[ChatRequest[Any]]], list[BaseModel | None]]
"""The replies that a cache holds, None where it has none."""


def plan_passages(
    passages: Sequence[Passage],
    contract: Contract,
    look_up: LookUp,
    count_tokens: Callable[[str], int],
    output_per_input: Mapping[str, float],
) -> list[PlannedStep]:
    """The three steps over all passages of some documents.

    Args:
        passages: All passages of some documents.
        contract: Types that the model is asked for.
        look_up: Reads the cache.
        count_tokens: Estimated tokens of a text.
        output_per_input: Tokens of a reply per token of text, by step.
    """
    types = ", ".join(contract.asked_types)
    documents = [
        ChatRequest(kg_extract(), part.unit_id, (("document", part.text), ("types", types)))
        for part in document_parts(passages)
    ]
    phrases = [ChatRequest(prop_entities(), p.passage_id, (("passage", _text(p)),)) for p in passages]
    known = look_up(phrases)
    exact, lengths = [], []
    for passage, reply in zip(passages, known, strict=True):
        if isinstance(reply, PhrasesReply):
            names = "\n".join(phrase.name for phrase in phrases_in_passage(reply, Counter()))
            inputs = (("entities", names), ("passage", _text(passage)))
            exact.append(ChatRequest(prop_propositions(), passage.passage_id, inputs))
        else:
            lengths.append(count_tokens(_text(passage)))
    steps = [
        _step(kg_extract(), documents, look_up(documents), count_tokens),
        _step(prop_entities(), phrases, known, count_tokens),
        _step(prop_propositions(), exact, look_up(exact), count_tokens),
    ]
    template = count_tokens(prop_propositions().prompt.text)
    names_share = output_per_input["prop.entities"]
    unknown = PlannedStep(
        steps[2].step,
        units=len(lengths),
        prompt_tokens=sum(template + round(length * (1 + names_share)) for length in lengths),
        text_tokens=sum(lengths),
    )
    return [*steps[:2], steps[2] + unknown]


def _step(
    task: ChatTask[Any],
    requests: Sequence[ChatRequest[Any]],
    replies: Sequence[BaseModel | None],
    count_tokens: Callable[[str], int],
) -> PlannedStep:
    missing = [request for request, reply in zip(requests, replies, strict=True) if reply is None]
    template = count_tokens(task.prompt.text)
    prompts = [count_tokens(request.text) for request in missing]
    return PlannedStep(
        task.name,
        units=len(requests),
        cached=len(requests) - len(missing),
        prompt_tokens=sum(prompts),
        text_tokens=sum(max(tokens - template, 0) for tokens in prompts),
    )


def _text(passage: Passage) -> str:
    return passage_text(passage.title, passage.text)
