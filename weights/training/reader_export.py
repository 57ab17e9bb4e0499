"""The trained reader as ONNX files: float32, float16 and 8-bit weights, and how their answers differ.

Inputs `input_ids` and `segment_ids` (n, s) int64, 0 = padding; output `logits` (n, s, 2) float32: start and end.
"""

import resource
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

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
from weights.training.reader_scores import best_answer, scores_of

Tensors = Mapping[str, NDArray[np.float32]]
_READ_SHAPES = ((5, 64), (4, 80), (2, 160))  # passages and tokens of a question at reading time
DYNAMIC = "shared-dynamic-int8"
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
        if constant.data_location == TensorProto.EXTERNAL or constant.data_type != TensorProto.FLOAT:
            constants.append(constant)
            continue
        array = numpy_helper.to_array(constant)
        if array.size < LARGE:
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


def shared_with_encoder(model: Any, encoder: Path) -> Any:
    """The graph, which reads the constants that it shares with the encoder out of the encoder's file in its folder.

    Args:
        model: A graph whose frozen layers are those of the encoder.
        encoder: The encoder's model.onnx, by whose sha256 the offsets are fixed.
    """
    content = encoder.read_bytes()
    copied = type(model)()
    copied.CopyFrom(model)
    for constant in copied.graph.initializer:
        start = content.find(constant.raw_data) if len(constant.raw_data) > 4 * LARGE else -1
        if start >= 0:
            size = len(constant.raw_data)
            constant.ClearField("raw_data")
            constant.data_location = TensorProto.EXTERNAL
            for key, value in (("location", encoder.name), ("offset", start), ("length", size)):
                constant.external_data.add(key=key, value=str(value))
    return copied


def write_dynamic_int8(source: Path, target: Path, encoder: Path) -> None:
    """Writes the graph with 8-bit weights per channel, products of integers; scales of activations are taken per call.

    Weights have 7 bits of range, so that CPUs without VNNI do not saturate. The vectors of words and positions are read
    out of the encoder's file.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        source, target, op_types_to_quantize=["MatMul", "Attention"], per_channel=True, reduce_range=True,
        weight_type=QuantType.QInt8, extra_options={"DefaultTensorType": TensorProto.FLOAT},
    )  # fmt: skip
    shared = shared_with_encoder(onnx.load(target), encoder)
    target.write_bytes(shared.SerializeToString(deterministic=True))


def write_candidates(tensors: Tensors, folder: Path, encoder: Path) -> dict[str, Path]:
    """Writes every candidate file and the encoder's to one folder; returns their paths by kind, float32 first."""
    shutil.copyfile(encoder, folder / encoder.name)
    model = reader_graph(tensors)
    shared = shared_with_encoder(model, encoder)
    made = {
        "float32": model,
        "float16": with_float16_weights(model),
        "int8": with_int8_weights(model),
        "shared-float32": shared,
        "shared-float16": with_float16_weights(shared),
        "shared-int8": with_int8_weights(shared),
    }
    paths = {kind: folder / f"reader.{kind}.onnx" for kind in (*made, DYNAMIC)}
    for kind, graph in made.items():
        paths[kind].write_bytes(graph.SerializeToString(deterministic=True))
    write_dynamic_int8(paths["float32"], paths[DYNAMIC], encoder)
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


def compare(paths: Mapping[str, Path], records: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Answers of each file on dev, against those of the first; size, and milliseconds of one core for 320 tokens.

    Args:
        paths: Files by kind.
        records: Dev questions with their rows.

    Yields:
        Kind and figures. `difference_by_batch` is the largest one between logits of a passage alone and in its batch.
    """
    reference = list[tuple[str, float]]()
    for kind, path in paths.items():
        session = open_reader(path)
        answers, by_batch = list[tuple[str, float]](), 0.0
        for record in records:
            rows = record["rows"]
            for row, logits in zip(rows, session.run(None, question_inputs(rows))[0], strict=True):
                row["logits"] = logits[: len(row["ids"])]
            alone = session.run(None, question_inputs(rows[:1]))[0][0]
            by_batch = max(by_batch, float(np.abs(alone - rows[0]["logits"]).max()))
            answers.append(best_answer(rows))
        reference = reference or answers
        pairs = list(zip(answers, reference, strict=True))
        yield (
            kind,
            {
                "megabytes": round(path.stat().st_size / 1e6, 1),
                "equal_answers": round(float(np.mean([own[0] == other[0] for own, other in pairs])), 4),
                "largest_lead_difference": round(max(abs(own[1] - other[1]) for own, other in pairs), 4),
                "difference_by_batch": by_batch,
                "milliseconds": {f"{n} x {length}": _milliseconds(session, n, length) for n, length in _READ_SHAPES},
                "scores": scores_of(records),
            },
        )


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
