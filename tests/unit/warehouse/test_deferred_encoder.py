import numpy as np
import pytest

from polyhop.schemas.errors import ModelFileError
from polyhop.warehouse.models.encoder_kinds import DeferredEncoder


class Counted:
    """An encoder that counts how often one was opened."""

    model = "counted"
    dimension = 2
    opened = 0

    def __init__(self) -> None:
        Counted.opened += 1

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.full((len(texts), 2), 0.5, np.float32)


def test_an_encoder_is_opened_by_the_first_text_and_once() -> None:
    Counted.opened = 0
    encoder = DeferredEncoder("counted", 2, 9, Counted)  # type: ignore[arg-type]
    assert (encoder.model, encoder.dimension, Counted.opened) == ("counted", 2, 0)
    for _ in range(2):
        assert encoder.encode(["a", "b"]).shape == (2, 2)
    assert Counted.opened == 1


def test_what_is_wrong_with_its_files_is_said_by_every_text() -> None:
    def refused() -> Counted:
        raise ModelFileError("no weights")

    encoder = DeferredEncoder("counted", 2, 9, refused)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(ModelFileError, match="no weights"):
            encoder.encode(["a"])
