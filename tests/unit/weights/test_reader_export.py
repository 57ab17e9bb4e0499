"""ONNX files of the reader: equal logits alone and in a batch, and in every way of storing its weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from weights.training import reader_export

WORDS = 500  # word pieces of a small vocabulary: its rows are still stored as large constants
PASSAGES = [list(range(3, 40)), list(range(60, 75)), list(range(9, 99, 3))]


@pytest.fixture(scope="module")
def tensors() -> dict[str, NDArray[np.float32]]:
    """Random tensors of the reader's shapes."""
    rng = np.random.default_rng(3)
    shapes = {
        "embeddings.word_embeddings": (WORDS, 384),
        "embeddings.position_embeddings": (512, 384),
        "embeddings.token_type_embeddings": (2, 384),
        "head": (2, 384),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(6):
        prefix = f"encoder.layer.{layer}"
        shapes |= {f"{prefix}.attention.self.{part}": (384, 384) for part in ("query", "key", "value")}
        shapes |= {f"{prefix}.attention.output.dense": (384, 384), f"{prefix}.intermediate.dense": (1536, 384)}
        shapes |= {f"{prefix}.output.dense": (384, 1536)}
        norms += [f"{prefix}.attention.output.LayerNorm", f"{prefix}.output.LayerNorm"]
    made = {f"{name}.weight": rng.normal(0, 0.05, shape) for name, shape in shapes.items()}
    made |= {f"{name}.bias": rng.normal(0, 0.05, shape[0]) for name, shape in shapes.items()}
    made |= {f"{name}.weight": np.ones(384) for name in norms} | {f"{name}.bias": np.zeros(384) for name in norms}
    return {name: tensor.astype(np.float32) for name, tensor in made.items()}


def logits_of(path: Path, passages: list[list[int]]) -> list[NDArray[np.float32]]:
    rows = [{"ids": ids, "segment": 4} for ids in passages]
    logits = reader_export.open_reader(path).run(None, reader_export.question_inputs(rows))[0]
    return [own[: len(ids)] for own, ids in zip(logits, passages, strict=True)]


def written(graph: Any, path: Path) -> Path:
    path.write_bytes(graph.SerializeToString(deterministic=True))
    return path


def largest_difference(one: list[NDArray[np.float32]], other: list[NDArray[np.float32]]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


def test_logits_of_a_passage_are_the_same_alone_and_in_a_batch(
    tensors: dict[str, NDArray[np.float32]], tmp_path: Path
) -> None:
    path = written(reader_export.reader_graph(tensors), tmp_path / "reader.onnx")
    alone = [logits_of(path, [passage])[0] for passage in PASSAGES]
    assert largest_difference(alone, logits_of(path, PASSAGES)) < 1e-5


@pytest.mark.parametrize(("store", "tolerance"), [("float16", 0.01), ("int8", 0.2)])
def test_stored_weights_give_nearly_the_same_logits_in_a_smaller_file(
    tensors: dict[str, NDArray[np.float32]], tmp_path: Path, store: str, tolerance: float
) -> None:
    model = reader_export.reader_graph(tensors)
    smaller = getattr(reader_export, f"with_{store}_weights")(model)
    paths = written(model, tmp_path / "float32.onnx"), written(smaller, tmp_path / "smaller.onnx")
    assert paths[1].stat().st_size < 0.6 * paths[0].stat().st_size
    assert largest_difference(*(logits_of(path, PASSAGES) for path in paths)) < tolerance


def test_constants_of_the_encoder_are_read_out_of_its_file(
    tensors: dict[str, NDArray[np.float32]], tmp_path: Path
) -> None:
    model = reader_export.reader_graph(tensors)
    whole = written(model, tmp_path / "whole.onnx")
    encoder = written(reader_export.reader_graph(tensors), tmp_path / "model.onnx")
    shared = written(reader_export.shared_with_encoder(model, encoder), tmp_path / "shared.onnx")
    assert shared.stat().st_size < 0.05 * whole.stat().st_size
    assert largest_difference(logits_of(whole, PASSAGES), logits_of(shared, PASSAGES)) == 0
