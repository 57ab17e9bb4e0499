"""Sessions of onnxruntime that run well beside other busy processes; knows no model."""

from pathlib import Path
from typing import Any

from polyhop.schemas.errors import ModelFileError

_ERRORS_ONLY = 3


def open_session(path: Path, advice: str, threads: int = 0) -> Any:
    """A session on the processor.

    Args:
        path: An ONNX file.
        advice: What to do if it cannot be loaded, for the error's sentence.
        threads: Threads of one call; 0 means as many as cores.

    Raises:
        ModelFileError: If onnxruntime cannot load the file.
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
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the errors of onnxruntime have no common base class
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelFileError(f"onnxruntime cannot load {path} ({reason}); {advice}.") from error
