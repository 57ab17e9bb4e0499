"""An encoder behind `/embeddings`: texts in batches, several at once, each kept as soon as it is there.

Caches no vector (cached.py does) and knows neither budget nor retries (embedding_gateway.py does).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.ports import KeepVectors
from polyhop.warehouse.models.embedding_gateway import EmbeddingGateway
from polyhop.warehouse.models.journal import Stop
from polyhop.warehouse.models.model_files import clean_text
from polyhop.warehouse.models.prices import cut_text
from polyhop.warehouse.models.unit_rows import unit_rows

NO_TEXT = " "
"""In place of an empty text, which OpenAI's servers refuse."""


class _Dimension:
    """How long the vectors of a model are, once somebody knows; safe for threads."""

    def __init__(self, known: int) -> None:
        self.value = known
        self.lock = Lock()

    def first(self, vectors: NDArray[np.float32]) -> None:
        """Takes the length from the first vectors."""
        with self.lock:
            self.value = self.value or vectors.shape[1]


class LitellmEncoder:
    """One side of a model, of questions or of passages; safe for threads.

    Args:
        name: Provider and model, as litellm names them.
        gateway: Opens the gateway, whose budget ends with a run; asked before each call.
        asked_dimension: As the server is asked for; 0: not asked.
        max_tokens: Texts are cut after so many; 0: not cut.
        batch_size: Texts of a call.

    Attributes:
        model: Names all that determines a vector.
        dimension: 0 until it is known.
    """

    def __init__(
        self,
        name: str,
        gateway: Callable[[], EmbeddingGateway],
        *,
        asked_dimension: int = 0,
        max_tokens: int = 0,
        batch_size: int,
    ) -> None:
        dimension = f"@{asked_dimension}" if asked_dimension else ""
        self.model = f"litellm:{name}{dimension}{f'<{max_tokens}' if max_tokens else ''}"
        self.max_tokens = max_tokens
        self.is_question = False
        self._name = name
        self._gateway = gateway
        self._dimension = _Dimension(asked_dimension)
        self._batch_size = batch_size

    @property
    def dimension(self) -> int:
        """Components of a vector, 0 until it is known."""
        return self._dimension.value

    def expect(self, dimension: int) -> None:
        """Every vector from now on must have so many components, unless another number is known."""
        with self._dimension.lock:
            self._dimension.value = self._dimension.value or dimension

    def for_questions(self) -> "LitellmEncoder":
        """The same model, which reads questions."""
        other = LitellmEncoder(self._name, self._gateway, max_tokens=self.max_tokens, batch_size=self._batch_size)
        other.model, other.is_question, other._dimension = self.model, True, self._dimension
        return other

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts; see `encode_kept`."""
        return self.encode_kept(texts, _keep_nothing)

    def encode_kept(self, texts: Sequence[str], keep: KeepVectors) -> NDArray[np.float32]:
        """Vectors of texts, every batch handed over as soon as it is there.

        After the first error, or Ctrl-C, no call begins; what those in flight bring is handed over, too.

        Args:
            texts: Any texts; a lone surrogate is read as "?".
            keep: Called with the places of a batch and its vectors, by several threads.

        Returns:
            Shape (len(texts), dimension), float32, rows of length 1, in input order.

        Raises:
            InvalidVectorError: If the server sends nonsense.
            PolyhopError: As the gateway's `embed`.
        """
        gateway, stop = self._gateway(), Stop()
        clean = [clean_text(cut_text(text, self.max_tokens, self._name)) or NO_TEXT for text in texts]
        size = self._batch_size
        batches = [range(start, min(start + size, len(clean))) for start in range(0, len(clean), size)]

        def embed(places: range) -> tuple[range, NDArray[np.float32]]:
            some = [clean[place] for place in places]
            try:
                vectors = gateway.embed(some, self.dimension, stop, is_question=self.is_question)
                self._dimension.first(vectors)
                vectors = unit_rows(vectors, len(some), self.dimension, self._name)  # the first two may differ
                keep(places, vectors)
            except BaseException as error:
                stop.because(error)
                raise
            return places, vectors

        if not batches:
            return np.empty((0, self.dimension), np.float32)
        found = _each(batches, embed, stop, gateway.concurrency)
        return np.concatenate([vectors for _, vectors in sorted(found, key=lambda one: one[0].start)])


def _each(
    batches: Sequence[range],
    embed: Callable[[range], tuple[range, NDArray[np.float32]]],
    stop: Stop,
    concurrency: int,
) -> list[tuple[range, NDArray[np.float32]]]:
    """The results of all batches; raises the first error, once nothing is in flight any more."""
    if len(batches) == 1:
        return [embed(batches[0])]
    found: list[tuple[range, NDArray[np.float32]]] = []
    with ThreadPoolExecutor(min(concurrency, len(batches)), "polyhop-embed") as pool:
        try:
            futures: list[Future[tuple[range, NDArray[np.float32]]]] = [pool.submit(embed, one) for one in batches]
            found.extend(future.result() for future in as_completed(futures))
        except BaseException as error:  # Ctrl-C, too, must stop the threads
            stop.because(error)
            pool.shutdown(wait=True, cancel_futures=True)
            if stop.reason is not None and stop.reason is not error:
                raise stop.reason from error
            raise
    return found


def _keep_nothing(_places: Sequence[int], _vectors: NDArray[np.float32]) -> None:
    """For vectors that nobody keeps."""
