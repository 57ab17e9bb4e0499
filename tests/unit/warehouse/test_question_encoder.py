"""Questions beside texts that come again: one call of the encoder, the latter from the cache, and never in the way."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from polyhop.schemas.errors import StoreUnavailableError
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.models.cached_encoder import QuestionEncoder
from polyhop.warehouse.models.local_encoder import LocalEncoder


class Lengths:
    """A vector that tells the text's length; remembers what it was asked."""

    model = "lengths"
    dimension = 2
    max_tokens = 0

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        return np.array([[len(text), 1] for text in texts], dtype=np.float32).reshape(-1, self.dimension)


def opened(model: Lengths, path: Path, prefix: str = "") -> QuestionEncoder:
    return QuestionEncoder(model, lambda: VectorCache(path, most_rows=100), prefix)


def test_all_that_is_not_cached_is_encoded_in_one_call(tmp_path: Path) -> None:
    model = Lengths()
    encoder = opened(model, tmp_path / "paths.sqlite")
    questions, others = encoder.encode_beside(["aaaa", "b"], ["cc", "ddd"])
    assert (questions.tolist(), others.tolist()) == ([[4, 1], [1, 1]], [[2, 1], [3, 1]])
    questions, others = encoder.encode_beside(["aaaa"], ["ddd", "eeeee", "cc"])
    assert (questions.tolist(), others.tolist()) == ([[4, 1]], [[3, 1], [5, 1], [2, 1]])
    assert model.calls == [["aaaa", "b", "cc", "ddd"], ["aaaa", "eeeee"]]
    encoder.close()


def test_other_processes_find_what_was_cached_and_other_prefixes_do_not(tmp_path: Path) -> None:
    path = tmp_path / "paths.sqlite"
    first = opened(Lengths(), path, "q: ")
    first.encode_beside([], ["cc"])
    first.close()
    for prefix, calls in (("q: ", [["q: a"]]), ("", [["a", "cc"]])):
        model = Lengths()
        encoder = opened(model, path, prefix)
        assert encoder.encode_beside(["a"], ["cc"])[1].tolist() == [[len(prefix) + 2, 1]]
        assert model.calls == calls
        encoder.close()


def test_without_a_cache_everything_is_encoded() -> None:
    model = Lengths()
    encoder = QuestionEncoder(model, None)
    for _ in range(2):
        assert encoder.encode_beside(["a"], ["cc"])[1].tolist() == [[2, 1]]
    assert model.calls == [["a", "cc"]] * 2


@pytest.mark.parametrize("method", ["get_many", "put_many"])
def test_a_cache_that_fails_is_given_up(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise StoreUnavailableError("The cache is locked.")

    monkeypatch.setattr(VectorCache, method, fail)
    model = Lengths()
    encoder = opened(model, tmp_path / "paths.sqlite")
    for _ in range(2):
        assert encoder.encode_beside(["a"], ["cc"])[1].tolist() == [[2, 1]]
    assert model.calls == [["a", "cc"]] * 2
    assert [record.message for record in caplog.records] == [
        "Vectors of texts that come again are not cached until this process ends: The cache is locked."
    ]
    encoder.close()


def test_vectors_are_the_same_bits_alone_together_and_cached(tmp_path: Path) -> None:
    """The union of questions and masks makes other batches of equal length than either alone."""
    model = LocalEncoder()
    questions = [f"Where was the {n * 'very '}old author of book {n} born?" for n in range(7)]
    masks = ["Where was born", "Who wrote", "Where was the old born", "Where was the very old born", "When did it end"]
    encoder = QuestionEncoder(model, lambda: VectorCache(tmp_path / "paths.sqlite"))
    alone = [np.concatenate([model.encode([text]) for text in some]) for some in (questions, masks)]
    for _ in range(2):
        for found, expected in zip(encoder.encode_beside(questions, masks), alone, strict=True):
            assert found.tobytes() == expected.tobytes()
    encoder.close()
