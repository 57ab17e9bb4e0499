"""The encoder's ONNX graph: assembled in memory from the published tensors of all-MiniLM-L6-v2.

Does not run it, and writes no file. The graph has no attention mask: a batch holds texts of equal token count
only, so there is nothing to mask, and a text's vector cannot depend on the texts beside it.
Source: Devlin et al. 2019 (BERT, post-layer-norm); pooling as in the model's own sentence-transformers settings.
"""

import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ModelFileError
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.models.weights import INSTALL, TOKENIZER_FILE, WEIGHTS_SHA256, load_weights

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
