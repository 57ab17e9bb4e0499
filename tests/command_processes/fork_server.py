"""A process that has imported what the commands of Polyhop need, and forks itself for each command that it is sent.

Owns what makes a forked process like a new one: folder, environment, streams, exit. Which commands come here is decided
in command_processes.py. It never imports Prefect, which reads its variables at import: each command brings its own.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import sys
import threading
import traceback
import warnings
from typing import Any, NoReturn

PACKAGES = (
    "concurrent.futures.thread",
    "duckdb",
    "jinja2",
    "lancedb",
    "lxml.html",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "neo4j",
    "numba",
    "numpy",
    "onnx",
    "psycopg",
    "pyarrow.parquet",
    "rich.console",
    "scipy.sparse",
    "sqlalchemy.dialects.sqlite",
    "tokenizers",
    "typer.rich_utils",
)
"""What commands import when they need it. Not onnxruntime: its thread would not be there after a fork."""

NUMBER_BYTES = 4
"""Of each number on the connection: the length of an order, with which its two streams come; process id; exit code."""


def serve(orders: socket.socket) -> None:
    """Forks for each order until the other side closes the connection.

    An order is a JSON document with `arguments`, `folder`, `environment`, `imports` (packages to import before the
    fork, for this command and all later ones) and `prepare` (file, function and its arguments, called in the forked
    process before the command; or null). The reply is two numbers: the process id, and at
    its end the exit code.
    """
    for name in (*_own_modules(), *PACKAGES):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a forked process would copy every page
    while order := _receive(orders):
        document, streams = order
        for name in document["imports"]:
            importlib.import_module(name)
        process = os.fork()
        if not process:
            orders.close()
            _run(document, streams)
        for stream in streams:
            os.close(stream)
        _send(orders, process)
        _send(orders, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


def _own_modules() -> list[str]:
    import polyhop

    found = pkgutil.walk_packages(polyhop.__path__, "polyhop.")
    return [module.name for module in found if "prefect" not in module.name]


def _receive(orders: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    head, streams, _, _ = socket.recv_fds(orders, NUMBER_BYTES, 2)
    if not head:
        return None
    body = b""
    left = int.from_bytes(head, "big")
    while len(body) < left:
        body += orders.recv(left - len(body))
    return json.loads(body), streams


def _send(orders: socket.socket, number: int) -> None:
    orders.sendall(number.to_bytes(NUMBER_BYTES, "big", signed=True))


def _run(document: dict[str, Any], streams: list[int]) -> NoReturn:
    """Becomes the command; ends the process as the interpreter does, but for the freeing of modules."""
    code = 1
    try:
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
        for number, stream in enumerate(streams, start=1):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(document["folder"])
        os.environ.clear()
        os.environ.update(document["environment"])
        sys.argv = ["polyhop", *document["arguments"]]
        if document["prepare"]:
            file, function, arguments = document["prepare"]
            runpy.run_path(file)[function](**arguments)
        code = _main()
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    finally:
        for output in (sys.stdout, sys.stderr):
            output.flush()
        os._exit(code)


def _main() -> int:
    from polyhop.cli import main

    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
            return 1
        return ended.code or 0
    except BaseException:  # noqa: BLE001 - as the interpreter does at its end
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # as warehouse/models/completion.py has it
    warnings.filterwarnings("ignore", message="lancedb fork support is experimental")  # nothing is under way in here
    warnings.filterwarnings("ignore", message=".*use of fork\\(\\) may lead to deadlocks", category=DeprecationWarning)
    serve(socket.socket(fileno=int(sys.argv[1])))
