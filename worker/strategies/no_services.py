"""Services for strategies that need none, where nothing can be encoded, read or searched."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError, ConfigurationError
from polyhop.schemas.ports import SpreadingDatabase


class NoServices:
    """Services for strategies that need none: no encoder, no model, no database."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Always fails.

        Raises:
            AlgorithmError: Always.
        """
        raise AlgorithmError(f"No encoder was given to this strategy, which has to encode {len(texts)} texts.")

    def encode_beside(
        self, questions: Sequence[str], repeated: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """As `encode`, in one call."""
        vectors = self.encode([*questions, *repeated])
        return vectors[: len(questions)], vectors[len(questions) :]

    @property
    def has_two_encoders(self) -> bool:
        """Never."""
        return False

    def encode_entities(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `encode`."""
        return self.encode(texts)

    def encode_paths(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `encode`."""
        return self.encode(texts)

    def chat(self) -> None:
        """No chat model."""

    def reranker(self) -> None:
        """No cross-encoder."""

    def graph_database(self) -> SpreadingDatabase:
        """Always fails.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError("No graph database was given to this strategy.")
