"""Sessions of OpenVINO that calculate in bfloat16, and whether this machine can; knows no model.

OpenVINO is an optional dependency (extra openvino).
"""

import importlib.util
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError

_CPU = Path("/proc/cpuinfo")
_FLAGS = ("amx_bf16", "avx512_bf16")
"""What Linux calls the instructions that multiply bfloat16."""


class BFloat16Session:
    """Runs a graph as `onnxruntime.InferenceSession.run` does, in bfloat16 where it multiplies; safe for many threads.

    Args:
        graph: An ONNX file's content, its constants inside.
        threads: Of one call.

    Raises:
        ConfigurationError: If OpenVINO is not installed, or the processor has no bfloat16.
    """

    def __init__(self, graph: bytes, threads: int) -> None:
        try:
            import openvino
        except ImportError as error:
            raise ConfigurationError(
                "encoder.precision = bfloat16 needs the package openvino. Install it with: pip install "
                "'polyhop[openvino]', or in a checkout: uv sync --extra openvino (or set encoder.precision to float32)"
            ) from error
        core = openvino.Core()
        if "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            raise ConfigurationError(
                "This processor does not multiply bfloat16 numbers, which would be slower than float32 here; set "
                "encoder.precision to float32."
            )
        options = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": threads}
        self._model = core.compile_model(core.read_model(graph), "CPU", options)
        self._own = threading.local()  # a request serves one call at a time

    def run(self, outputs: Sequence[str], inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        """The named outputs, float32."""
        if not hasattr(self._own, "request"):
            self._own.request = self._model.create_infer_request()
        found = self._own.request.infer(inputs)
        return [np.array(found[name], np.float32) for name in outputs]


def faster_precision() -> str:
    """What a user could set to encode faster on this machine, in a sentence; "" if there is nothing to say."""
    flags = _CPU.read_text(encoding="utf-8", errors="replace") if _CPU.is_file() else ""
    if not any(flag in flags for flag in _FLAGS):
        return ""
    install = "" if importlib.util.find_spec("openvino") else " (after pip install 'polyhop[openvino]')"
    return (
        f"encoder.precision = bfloat16{install} would take about half of the encoder's time, at cosine .9999 to float32"
    )
