"""What extraction by a model would take: prompts with their demonstration, known replies; words count as tokens."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask, Role
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import ExtractionSettings
from polyhop.tasks.extraction.model import PhrasesReply, plan_passages, questions
from polyhop.tasks.extraction.stated import Contract
from polyhop.tasks.planning import PlannedStep

CONTRACT = Contract.of(ExtractionSettings())
PASSAGES = [Passage(f"p{n}", f"p{n}", f"d{n}", 0, "Rome", "Rome is old.", 0, 12) for n in range(3)]


class WordPlanner:
    """Counts words; knows the entities of the passages named, and no other reply."""

    def __init__(self, *known: str) -> None:
        self._known = known

    def replies(self, requests: Sequence[ChatRequest[Any]], role: Role = Role.EXTRACT) -> list[BaseModel | None]:
        return [
            PhrasesReply(entities=["Rome"]) if r.task.reply is PhrasesReply and r.unit_id in self._known else None
            for r in requests
        ]

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def output_per_input(self, task: ChatTask[Any]) -> float:
        return 0.5


def planned(*known: str, demonstration: bool) -> list[PlannedStep]:
    return plan_passages(PASSAGES, CONTRACT, questions(demonstration=demonstration), WordPlanner(*known))  # type: ignore[arg-type]


@pytest.mark.parametrize("known", [(), ("p1",)])
def test_every_prompt_to_send_is_priced_with_its_demonstration(known: tuple[str, ...]) -> None:
    long, short = planned(*known, demonstration=True), planned(*known, demonstration=False)
    assert [step.calls for step in long] == [step.calls for step in short] == [3, 3 - len(known), 3]
    assert [step.text_tokens for step in long] == [step.text_tokens for step in short]
    words = [
        len(with_it.task.prompt.text.split()) - len(without.task.prompt.text.split())
        for with_it, without in zip(long, short, strict=True)
    ]
    assert words[0] == 0
    assert min(words[1:]) > 80
    more = [with_it.prompt_tokens - without.prompt_tokens for with_it, without in zip(long, short, strict=True)]
    assert more == [each * step.calls for each, step in zip(words, long, strict=True)]
