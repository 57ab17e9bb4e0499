"""Questions with their vectors: how often the encoder is called, and which vector goes where."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from polyhop.schemas.ports import Services
from polyhop.schemas.query import Question
from polyhop.schemas.settings import PASSAGES, Space
from polyhop.worker.questions.parts import with_vectors


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
