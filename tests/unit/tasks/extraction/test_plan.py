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


@pytest.mark.parametrize("known", [(), ("p1",)])
def test_every_prompt_to_send_is_priced_with_its_demonstration(known: tuple[str, ...]) -> None:
    steps = plan_passages(PASSAGES, CONTRACT, questions(), WordPlanner(*known))  # type: ignore[arg-type]
    assert [step.calls for step in steps] == [3, 3 - len(known), 3]
    for step in steps[1:]:
        text = step.task.prompt.text
        shown = len(text[text.index("<example>") : text.index("</example>")].split())
        assert shown > 80
        assert step.prompt_tokens - step.text_tokens > shown * step.calls
