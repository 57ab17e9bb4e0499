"""The assembled encoder as a file: built once per cache folder, shared by all processes and versions of an index.

Does not run it. Invariant: a file under its final name is whole, and its name tells the weights and the assembler
that it came from, so it never has to be refreshed.
"""

import logging
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Literal

from warehouse.files.disk import write_whole, writing
from warehouse.models.assembly import ASSEMBLER_VERSION, assemble_graph
from warehouse.models.weights import TOKENIZER_FILE, WEIGHTS_FILE, WEIGHTS_SHA256, verify_weights

MODEL_NAME = "all-MiniLM-L6-v2"
Precision = Literal["float32", "int8"]

_assembling = Lock()


def model_id(model_folder: Path, precision: Precision) -> str:
    """Name and short hash of all that determines a vector: weights, tokenizer, assembler, precision."""
    tokenizer = sha256((model_folder / TOKENIZER_FILE).read_bytes()).hexdigest()
    parts = [WEIGHTS_SHA256, tokenizer, str(ASSEMBLER_VERSION), precision]
    return f"{MODEL_NAME}-{sha256('|'.join(parts).encode()).hexdigest()[:8]}"


def obtain_graph(model_folder: Path, cache_folder: Path, precision: Precision) -> Path:
    """The graph's file in `cache_folder`, assembled first if it is not there; safe for many processes and threads.

    Raises:
        ModelFileError: If the weights are missing or are not the published ones.
        StoreError: If the cache folder cannot be written.
    Cost: 1-2 s the first time, microseconds afterwards.
    """
    target = cache_folder / f"{model_id(model_folder, precision)}.onnx"
    with writing("the assembled encoder", cache_folder):
        cache_folder.mkdir(parents=True, exist_ok=True)
    with _assembling:
        verify_weights(model_folder / WEIGHTS_FILE, cache_folder)
        if not target.exists():
            graph = _assemble(model_folder / WEIGHTS_FILE)
            content = graph.SerializeToString() if precision == "float32" else _quantised(graph, cache_folder)
            with writing("the assembled encoder", target):
                write_whole(target, content)
    return target


def _assemble(weights: Path) -> Any:
    from safetensors.numpy import load_file

    return assemble_graph(load_file(weights))


def _quantised(graph: Any, cache_folder: Path) -> bytes:
    """The graph with 8-bit weights per channel; 7 bits of range, so that CPUs without VNNI do not saturate."""
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic

    root = logging.getLogger()
    root.addFilter(_is_not_advice)
    try:
        with writing("the quantised encoder", cache_folder), TemporaryDirectory(dir=cache_folder) as folder:
            output = Path(folder) / "int8.onnx"
            quantize_dynamic(
                graph,
                output,
                op_types_to_quantize=["MatMul", "Attention"],
                per_channel=True,
                reduce_range=True,
                weight_type=QuantType.QInt8,
                extra_options={"DefaultTensorType": TensorProto.FLOAT},
            )
            return output.read_bytes()
    finally:
        root.removeFilter(_is_not_advice)


def _is_not_advice(record: logging.LogRecord) -> bool:
    """False for the quantiser's hints about shape inference, which cannot see through fused operators."""
    return record.module not in {"quantize", "quant_utils", "onnx_quantizer", "base_quantizer"}
