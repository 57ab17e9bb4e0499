"""Files beside the tests as modules: helpers of another test file, and the programs of benchmarks/."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).resolve().parents[1]


@cache
def loaded(path: str) -> ModuleType:
    """A test file as a module of its own, beside the one that pytest has: `unit/warehouse/test_onnx_models.py`."""
    name = f"file_{path.removesuffix('.py').replace('/', '_')}"
    spec = importlib.util.spec_from_file_location(name, TESTS / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    sys.path.insert(0, str((TESTS / path).parent))  # as for a script: modules of its folder can be imported
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module
