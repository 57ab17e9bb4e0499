"""The trained reader as ONNX files: float32, float16 and 8-bit weights, and how their answers differ.

Inputs `input_ids` and `segment_ids` (n, s) int64, 0 = padding; output `logits` (n, s, 2) float32: start and end.
"""

import json
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, load, numpy_helper
from weights.encoder_graph import (
    CONTRIB,
    DIMENSION,
    IR_VERSION,
    LAYER_COUNT,
    LAYER_NORM_EPSILON,
    OPSET,
    GraphBuilder,
    add_layer,
)

Tensors = Mapping[str, NDArray[np.float32]]
LARGE = 100_000  # numbers; smaller tensors stay float32 in every file


def reader_graph(tensors: Tensors) -> Any:
    """The reader as a graph: the encoder's layers with the tanh form of GELU, and the span head.

    Args:
        tensors: Published and trained tensors by name; dense weights have shape (out, in).
    """
    builder = GraphBuilder()
    hidden = _add_embeddings(builder, tensors)
    builder.constants.append(numpy_helper.from_array(np.array(0, np.int64), "padding"))
    is_padding = builder.node("Equal", ["input_ids", "padding"], "is_padding")
    is_token = builder.node("Not", [is_padding], "is_token")
    mask = builder.node("Cast", [is_token], "mask", to=TensorProto.INT32)
    for layer in range(LAYER_COUNT):
        hidden = add_layer(builder, tensors, f"encoder.layer.{layer}", hidden, mask=mask, activation="FastGelu")
    weight = builder.constant("head.weight", tensors["head.weight"].T)
    product = builder.node("MatMul", [hidden, weight], "head.product")
    builder.node("Add", [product, builder.constant("head.bias", tensors["head.bias"])], "logits")
    ids = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "s"]) for name in ("input_ids", "segment_ids")]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", "s", 2])
    graph = helper.make_graph(builder.nodes, "reader", ids, [logits], builder.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="polyhop")


def _add_embeddings(builder: GraphBuilder, tensors: Tensors) -> str:
    """Word + position + segment, then layer norm."""
    prefix = "embeddings"
    words = builder.constant("words", tensors[f"{prefix}.word_embeddings.weight"])
    positions = builder.constant("positions", tensors[f"{prefix}.position_embeddings.weight"])
    segments = builder.constant("segments", tensors[f"{prefix}.token_type_embeddings.weight"])
    zero, one, two = (builder.axis(number) for number in range(3))
    shape = builder.node("Shape", ["input_ids"], "shape")
    length = builder.node("Slice", [shape, one, two], "length")
    used = builder.node("Slice", [positions, zero, length, zero], "used_positions")
    summed = builder.node("Add", [builder.node("Gather", [words, "input_ids"], "word_rows"), used], "words_in_order")
    segment_rows = builder.node("Gather", [segments, "segment_ids"], "segment_rows")
    summed = builder.node("Add", [summed, segment_rows], f"{prefix}.sum")
    gamma = builder.constant(f"{prefix}.gamma", tensors[f"{prefix}.LayerNorm.weight"])
    beta = builder.constant(f"{prefix}.beta", tensors[f"{prefix}.LayerNorm.bias"])
    return builder.node("LayerNormalization", [summed, gamma, beta], prefix, epsilon=LAYER_NORM_EPSILON)


def with_float16_weights(model: Any) -> Any:
    """The graph with large weights stored as float16; a session makes float32 of them when it opens."""
    return _stored(model, lambda array: ({"": array.astype(np.float16)}, ("Cast",)))


def with_int8_weights(model: Any) -> Any:
    """The graph with large weights stored as 8-bit integers with a scale per row or column; computed in float32."""

    def quantised(array: NDArray[np.float32]) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
        axis = 1 if array.shape[0] > 2 * DIMENSION * 4 else 0  # rows of words and positions, columns of dense weights
        scale = np.maximum(np.abs(array).max(axis, keepdims=True), 1e-12) / 127
        return {"": np.round(array / scale).astype(np.int8), ".scale": scale.astype(np.float32)}, ("Cast", "Mul")

    return _stored(model, quantised)


def _stored(
    model: Any, convert: Callable[[NDArray[np.float32]], tuple[dict[str, NDArray[Any]], tuple[str, ...]]]
) -> Any:
    """A copy of the graph whose large constants come out of smaller ones by `Cast`, and `Mul` by a scale."""
    copied = type(model)()
    copied.CopyFrom(model)
    graph = copied.graph
    nodes, constants = [], []
    for constant in graph.initializer:
        array = numpy_helper.to_array(constant)
        if array.dtype != np.float32 or array.size < LARGE:
            constants.append(constant)
            continue
        parts, kinds = convert(array)
        name = constant.name
        constants += [numpy_helper.from_array(part, f"{name}.stored{suffix}") for suffix, part in parts.items()]
        cast = f"{name}.cast" if len(kinds) > 1 else name
        nodes.append(helper.make_node("Cast", [f"{name}.stored"], [cast], name=f"{name}.cast", to=TensorProto.FLOAT))
        if len(kinds) > 1:
            nodes.append(helper.make_node("Mul", [cast, f"{name}.stored.scale"], [name], name=f"{name}.scaled"))
    nodes += list(graph.node)
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(constants)
    graph.node.extend(nodes)
    return copied


def write_dynamic_int8(source: Path, target: Path) -> None:
    """Writes the graph with 8-bit weights per channel, products of integers; scales of activations are taken per call.

    Weights have 7 bits of range, so that CPUs without VNNI do not saturate.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        source, target, op_types_to_quantize=["MatMul", "Attention", "Gather"], per_channel=True, reduce_range=True,
        weight_type=QuantType.QInt8, extra_options={"DefaultTensorType": TensorProto.FLOAT},
    )  # fmt: skip


def write_candidates(tensors: Tensors, folder: Path) -> dict[str, Path]:
    """Writes every candidate file; returns their paths by kind."""
    model = reader_graph(tensors)
    paths = {kind: folder / f"reader.{kind}.onnx" for kind in ("float32", "float16", "int8", "dynamic-int8")}
    for kind, made in (
        ("float32", model),
        ("float16", with_float16_weights(model)),
        ("int8", with_int8_weights(model)),
    ):
        paths[kind].write_bytes(made.SerializeToString(deterministic=True))
    write_dynamic_int8(paths["float32"], paths["dynamic-int8"])
    load(paths["dynamic-int8"], load_external_data=False)
    return paths


def open_reader(path: Path) -> Any:
    """An onnxruntime session on one core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def question_inputs(rows: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[np.int64]]:
    """The passages of one question as one batch."""
    length = max(len(row["ids"]) for row in rows)
    ids, segments = np.zeros((len(rows), length), np.int64), np.zeros((len(rows), length), np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row["ids"])] = row["ids"]
        segments[number, row["segment"] : len(row["ids"])] = 1
    return {"input_ids": ids, "segment_ids": segments}


def compare(
    paths: Mapping[str, Path],
    records: Sequence[dict[str, Any]],
    best_answer: Callable[[Sequence[Mapping[str, Any]]], tuple[str, float]],
    scores_of: Callable[[Sequence[Mapping[str, Any]]], dict[str, Any]],
) -> dict[str, Any]:
    """Answers of each file on dev, against those of float32; size, and milliseconds of one core for 320 tokens.

    Args:
        paths: Files by kind; float32 first.
        records: Dev questions with their rows.
        best_answer: The answer of rows with logits, and its lead.
        scores_of: EM and F1 of records by source.
    """
    report, reference = {}, list[tuple[str, float]]()
    for kind, path in paths.items():
        session = open_reader(path)
        answers, alone_differs = [], 0.0
        for record in records:
            logits = session.run(None, question_inputs(record["rows"]))[0]
            for row, own in zip(record["rows"], logits, strict=True):
                row["logits"] = own[: len(row["ids"])]
            alone = session.run(None, question_inputs(record["rows"][:1]))[0][0]
            size = len(record["rows"][0]["ids"])
            alone_differs = max(alone_differs, float(np.abs(alone[:size] - logits[0, :size]).max()))
            answers.append(best_answer(record["rows"]))
        reference = reference or answers
        report[kind] = {
            "megabytes": round(path.stat().st_size / 1e6, 1),
            "equal_answers": round(float(np.mean([a[0] == b[0] for a, b in zip(answers, reference, strict=True)])), 4),
            "largest_lead_difference": round(max(abs(a[1] - b[1]) for a, b in zip(answers, reference, strict=True)), 4),
            "largest_difference_by_batch": alone_differs,
            "milliseconds": {shape: _milliseconds(session, *shape) for shape in ((5, 64), (4, 80), (2, 160))},
            "scores": scores_of(records),
        }
        report[kind]["milliseconds"] = {f"{n} x {s}": ms for (n, s), ms in report[kind]["milliseconds"].items()}
    return report


def _milliseconds(session: Any, rows: int, tokens: int, runs: int = 30) -> dict[str, float]:
    """Wall time (the least) and CPU time (the mean) of one question."""
    rng = np.random.default_rng(0)
    inputs = {"input_ids": rng.integers(1000, 20000, (rows, tokens)), "segment_ids": np.ones((rows, tokens), np.int64)}
    session.run(None, inputs)
    walls, cpu = [], _cpu_seconds()
    for _ in range(runs):
        began = time.perf_counter()
        session.run(None, inputs)
        walls.append(time.perf_counter() - began)
    return {"wall": round(min(walls) * 1000, 1), "cpu": round((_cpu_seconds() - cpu) / runs * 1000, 1)}


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def summary(report: Mapping[str, Any]) -> str:
    """The report as JSON, one kind a line."""
    return "\n".join(json.dumps({kind: values}) for kind, values in report.items())
