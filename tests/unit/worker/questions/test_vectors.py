"""Questions with their vectors: how often the encoder is called, and which vector goes where."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.query import Question
from polyhop.worker.questions.parts import with_vectors
from polyhop.worker.strategies.base import NoServices

Vectors = NDArray[np.float32]


class Counting(NoServices):
    """A vector is the text's length; remembers the texts of every call."""

    def __init__(self, *, has_two: bool = False) -> None:
        self.calls: list[tuple[str, list[str]]] = []
        self._has_two = has_two

    @property
    def has_two_encoders(self) -> bool:
        return self._has_two

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(("passages", list(texts)))
        return np.array([[len(text)] for text in texts], np.float32)

    def encode_entities(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(("entities", list(texts)))
        return np.array([[-len(text)] for text in texts], np.float32)


QUESTIONS = [Question("a", "1"), Question("bbb", "2"), Question("a", "3")]


def lengths(vectors: Sequence[Vectors | None]) -> list[float | None]:
    return [None if vector is None else float(vector[0]) for vector in vectors]


def test_every_question_gets_its_vector_in_one_call() -> None:
    services = Counting()
    found = with_vectors(QUESTIONS, services)
    assert [question.id for question in found] == ["1", "2", "3"]
    assert lengths([question.vector for question in found]) == [1, 3, 1]
    assert lengths([question.entity_vector for question in found]) == [None] * 3
    assert services.calls == [("passages", ["a", "bbb", "a"])]


def test_further_texts_are_encoded_once_and_beside_the_questions() -> None:
    services = Counting()
    found = with_vectors(QUESTIONS, services, [["xx", "yyyy"], [], ["yyyy"]])
    assert [{text: float(v[0]) for text, v in one.further_vectors.items()} for one in found] == [
        {"xx": 2, "yyyy": 4},
        {},
        {"yyyy": 4},
    ]
    assert services.calls == [("passages", ["a", "bbb", "a", "xx", "yyyy"])]


def test_a_second_encoder_gives_a_second_vector() -> None:
    services = Counting(has_two=True)
    found = with_vectors(QUESTIONS[:2], services, [["xx"], ["xx"]])
    assert lengths([question.entity_vector for question in found]) == [-1, -3]
    assert [call for call, _ in services.calls] == ["passages", "entities"]


def test_the_questions_given_are_not_changed() -> None:
    with_vectors(QUESTIONS, Counting(has_two=True), [["x"], [], []])
    assert [(one.vector, one.entity_vector, one.further_vectors) for one in QUESTIONS] == [(None, None, {})] * 3
