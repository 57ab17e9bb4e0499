"""Parts of questions: components by rules or by a model with rules as the fallback, and each question's vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polyhop.schemas.chat import ChatOutcome, ChatRequest, Prompt, Rung, Usage
from polyhop.schemas.errors import ModelUnavailableError
from polyhop.schemas.names import NameFinder
from polyhop.schemas.ports import Services
from polyhop.schemas.query import Question
from polyhop.schemas.settings import PASSAGES, Space
from polyhop.worker.questions.parts import (
    MOST_COMPONENTS,
    ComponentsReply,
    ModelComponents,
    RuleComponents,
    components_task,
    distinct,
    with_vectors,
)

TASK = components_task(Prompt("hub.components", "{{question}}"))
QUESTION = Question("Which papers of Georg Buchgeher use interview studies, and in what year?", "q1")


class Chat:
    model = "openai/scripted"

    def __init__(self, reply: ComponentsReply | None, error_class: str = "") -> None:
        self._outcome = reply, error_class

    def ask(self, requests: Sequence[ChatRequest[Any]]) -> list[ChatOutcome[Any]]:
        reply, error_class = self._outcome
        rung = Rung.AS_IS if reply else None
        why = error_class and "Why."
        return [ChatOutcome(reply, self.model, False, rung, 1, error_class, why, Usage(calls=1)) for _ in requests]


def test_by_rules_they_are_names_and_runs_of_other_words_without_function_words() -> None:
    found = RuleComponents(NameFinder([])).of(QUESTION)[0]
    assert found == ("Georg Buchgeher", "papers", "use interview studies", "year")


def test_equal_ones_count_once_and_there_are_not_too_many() -> None:
    assert distinct(["Open  Data", "open data", " ", "x"]) == ("Open Data", "x")
    assert len(distinct([f"term {n}" for n in range(50)])) == MOST_COMPONENTS


def test_a_model_lists_them() -> None:
    reply = ComponentsReply(components=["interview studies", "Interview  studies", ""])
    components, use = ModelComponents(Chat(reply), TASK, RuleComponents(NameFinder([]))).of(QUESTION)
    assert components == ("interview studies",)
    assert use is not None
    assert (use.prompt, use.spent.calls) == ("hub.components", 1)


def test_without_a_usable_reply_rules_take_the_question_apart() -> None:
    chat = Chat(None, "MalformedReplyError")
    components, use = ModelComponents(chat, TASK, RuleComponents(NameFinder([]))).of(QUESTION)
    assert "Georg Buchgeher" in components
    assert use is not None
    assert use.error_class == "MalformedReplyError"


def test_an_unavailable_model_is_an_outage() -> None:
    with pytest.raises(ModelUnavailableError):
        ModelComponents(Chat(None, "ModelTimeoutError"), TASK, RuleComponents(NameFinder([]))).of(QUESTION)


@pytest.mark.parametrize("has_two", [False, True])
def test_every_question_gets_its_vectors_in_one_call_of_each_encoder(has_two: bool) -> None:
    calls: list[tuple[str, list[str]]] = []

    def encode(texts: Sequence[str], space: Space = PASSAGES, *, is_repeated: bool = False) -> NDArray[np.float32]:
        assert not is_repeated
        calls.append((space, list(texts)))
        sign = 1 if space == PASSAGES else -1
        return np.array([[sign * len(text)] for text in texts], np.float32)

    questions = [Question("a", "1"), Question("bbb", "2"), Question("a", "3")]
    found = with_vectors(questions, Services(encode, has_two))
    assert [question.id for question in found] == ["1", "2", "3"]
    assert [one.vector.tolist() for one in found if one.vector is not None] == [[1], [3], [1]]
    short = [None if one.entity_vector is None else one.entity_vector.tolist() for one in found]
    assert short == ([[-1], [-3], [-1]] if has_two else [None] * 3)
    assert [texts for _, texts in calls] == [["a", "bbb", "a"]] * (2 if has_two else 1)
    assert [(one.vector, one.entity_vector) for one in questions] == [(None, None)] * 3
