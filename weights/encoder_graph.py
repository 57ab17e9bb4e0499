"""The encoder's graph: all-MiniLM-L6-v2 as an ONNX file, assembled from its published tensors.

Runs where polyhop-weights is built; whoever installs the package needs neither this module nor the package onnx.
Source: Devlin et al. 2019 (BERT, post-layer-norm); pooling as in the model's own sentence-transformers settings.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

DIMENSION = 384  # MiniLM-L6-v2
LAYER_COUNT = 6  # MiniLM-L6-v2
HEAD_COUNT = 12  # MiniLM-L6-v2
LAYER_NORM_EPSILON = 1e-12  # BERT's
OPSET = 18  # the first in which ReduceL2 takes its axes as an input
IR_VERSION = 10  # pinned, because the package onnx would write its newest, which older onnxruntimes refuse
CONTRIB = "com.microsoft"
STATES = "encoder.layer.3.output"
"""Output with the token states after four of the six layers, by which names get their types: the last layer's tell
less (docs/decisions/0039-types-from-token-states.md)."""

Tensors = Mapping[str, NDArray[np.float32]]


def graph_file(safetensors: bytes) -> bytes:
    """The content of model.onnx: input `input_ids` (b, s) int64, output `vectors` (b, 384) float32, rows of length 1.

    The second output, `STATES`, has the token states of one layer, shape (b, s, 384).

    Args:
        safetensors: The published file, whose dense weights have shape (out, in).
    """
    return bytes(assemble_graph(read_tensors(safetensors)).SerializeToString(deterministic=True))


def read_tensors(content: bytes) -> dict[str, NDArray[np.float32]]:
    """The float32 tensors of a safetensors file: length of a JSON header in eight bytes, that header, the data."""
    start = 8 + int.from_bytes(content[:8], "little")
    tensors = {}
    for name, about in json.loads(content[8:start]).items():
        if about.get("dtype") == "F32":  # not its metadata, nor the numbers of positions
            first, last = about["data_offsets"]
            tensors[name] = np.frombuffer(content[start + first : start + last], "<f4").reshape(about["shape"])
    return tensors


class GraphBuilder:
    """Nodes and constants in the order they were added; every value is named after its node."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def axis(self, number: int) -> str:
        """Adds the number of an axis; returns the constant's name."""
        self.constants.append(numpy_helper.from_array(np.array([number], dtype=np.int64), f"axis{number}"))
        return f"axis{number}"

    def constant(self, name: str, value: NDArray[np.float32]) -> str:
        """Adds a tensor; returns its name."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], name: str, *, domain: str = "", **attributes: Any) -> str:
        """Adds an operator with one output, which has its name; returns it."""
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, domain=domain, **attributes))
        return name


def assemble_graph(tensors: Tensors) -> Any:
    """The whole encoder: token ids in, L2-normalised mean over the last layer's tokens out.

    Uses onnxruntime's fused operators Attention, BiasGelu (the exact erf form) and SkipLayerNormalization.

    Args:
        tensors: The published tensors by name; dense weights have shape (out, in).
    """
    builder = GraphBuilder()
    hidden = _add_embeddings(builder, tensors)
    for layer in range(LAYER_COUNT):
        hidden = add_layer(builder, tensors, f"encoder.layer.{layer}", hidden)
    _add_pooling(builder, hidden)
    graph = helper.make_graph(
        builder.nodes,
        "all-MiniLM-L6-v2",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "s"])],
        [
            helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["b", DIMENSION]),
            helper.make_tensor_value_info(STATES, TensorProto.FLOAT, ["b", "s", DIMENSION]),
        ],
        builder.constants,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="polyhop")


def _add_embeddings(builder: GraphBuilder, tensors: Tensors) -> str:
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


def add_layer(
    builder: GraphBuilder, tensors: Tensors, prefix: str, hidden: str, *, mask: str = "", activation: str = "BiasGelu"
) -> str:
    """Self-attention and feed-forward, each followed by residual and layer norm.

    Args:
        builder: Takes the nodes.
        tensors: The published tensors by name.
        prefix: Begin of the names of this layer's tensors.
        hidden: Value of shape (b, s, 384) that goes in.
        mask: Value of shape (b, s), int32, 1 where a token may be attended to; "" means everywhere.
        activation: Fused operator: BiasGelu is the exact form, FastGelu the tanh form.
    """
    parts = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
    weight = np.concatenate([tensors[f"{part}.weight"].T for part in parts], axis=1)
    bias = np.concatenate([tensors[f"{part}.bias"] for part in parts])
    inputs = [
        hidden,
        builder.constant(f"{prefix}.qkv.weight", weight),
        builder.constant(f"{prefix}.qkv.bias", bias),
        *([mask] if mask else []),
    ]
    attended = builder.node("Attention", inputs, f"{prefix}.attended", domain=CONTRIB, num_heads=HEAD_COUNT)
    attended = _add_dense_and_norm(builder, tensors, f"{prefix}.attention.output", attended, hidden)
    widened = _add_product(builder, tensors, f"{prefix}.intermediate.dense", attended)
    wide_bias = builder.constant(f"{prefix}.intermediate.bias", tensors[f"{prefix}.intermediate.dense.bias"])
    activated = builder.node(activation, [widened, wide_bias], f"{prefix}.activated", domain=CONTRIB)
    return _add_dense_and_norm(builder, tensors, f"{prefix}.output", activated, attended)


def _add_product(builder: GraphBuilder, tensors: Tensors, prefix: str, value: str) -> str:
    weight = builder.constant(f"{prefix}.transposed", tensors[f"{prefix}.weight"].T)
    return builder.node("MatMul", [value, weight], f"{prefix}.product")


def _add_dense_and_norm(builder: GraphBuilder, tensors: Tensors, prefix: str, value: str, residual: str) -> str:
    inputs = [
        _add_product(builder, tensors, f"{prefix}.dense", value),
        residual,
        builder.constant(f"{prefix}.gamma", tensors[f"{prefix}.LayerNorm.weight"]),
        builder.constant(f"{prefix}.beta", tensors[f"{prefix}.LayerNorm.bias"]),
        builder.constant(f"{prefix}.bias", tensors[f"{prefix}.dense.bias"]),
    ]
    return builder.node("SkipLayerNormalization", inputs, prefix, domain=CONTRIB, epsilon=LAYER_NORM_EPSILON)


def _add_pooling(builder: GraphBuilder, hidden: str) -> str:
    """Sum over the tokens, scaled to length 1: the direction of their mean.

    A product with ones, because ReduceMean and ReduceSum add in another order when the batch has one text.
    """
    ones = builder.node("ConstantOfShape", ["row_shape"], "ones", value=numpy_helper.from_array(np.ones(1, np.float32)))
    row = builder.node("MatMul", [ones, hidden], "token_sums")
    total = builder.node("Squeeze", [row, "axis1"], "token_sum")
    norm = builder.node("ReduceL2", [total, "axis1"], "norm", keepdims=1)
    return builder.node("Div", [total, norm], "vectors")
