"""Sessions of onnxruntime that run well beside other busy processes; knows no model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ModelFileError

_ERRORS_ONLY = 3  # onnxruntime's levels: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal


def open_session(
    model: Path | bytes, advice: str, threads: int = 0, weights: Mapping[str, NDArray[np.float32]] | None = None
) -> Any:
    """A session on the processor.

    Args:
        model: An ONNX file, or its content.
        advice: What to do if it cannot be loaded, for the error's sentence.
        threads: Threads of one call; 0 means as many as cores.
        weights: The constants by name that the model declares as external data.

    Raises:
        ModelFileError: If onnxruntime cannot load the model.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Spinning saves 0.5 ms per question on an idle machine and halves the speed beside another busy process.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = False  # would remember a memory plan for each of some thousand shapes
    try:
        if weights:
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in weights.values()]
            options.add_external_initializers(list(weights), values)
        source = model if isinstance(model, bytes) else str(model)
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the errors of onnxruntime have no common base class
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        name = "the assembled encoder" if isinstance(model, bytes) else model
        raise ModelFileError(f"onnxruntime cannot load {name} ({reason}); {advice}.") from error
