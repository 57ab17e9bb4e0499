"""A process that has imported what commands need, and forks itself for each one that it is sent."""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import re
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import warnings
from typing import Any, NoReturn

PACKAGES = (
    *("concurrent.futures.thread", "duckdb", "jinja2", "lancedb", "lxml.html", "matplotlib.backends.backend_agg"),
    *("matplotlib.figure", "neo4j", "numba", "numpy", "psycopg", "pyarrow.parquet", "rich.console", "scipy.sparse"),
    *("sqlalchemy.dialects.sqlite", "tokenizers", "typer.rich_utils"),
)
"""What commands import when they need it. Not onnxruntime: its thread would not be there after a fork."""

NUMBER_BYTES = 4
"""Of each number on a connection: the length of an order, with which three descriptors come; process id; exit code."""


def serve(orders: socket.socket) -> None:
    """Forks for each order until the other side closes the connection; commands may run at the same time.

    An order is a JSON document with `arguments`, `folder`, `environment`, `imports` (packages to import before the
    fork, for this command and all later ones) and `prepare` (file, function and its arguments, called in the forked
    process before the command; or null). With it come the command's two streams and a connection for its status: two
    numbers, the process id, and at its end the exit code.
    """
    for name in (*_own_modules(), *PACKAGES):
        importlib.import_module(name)
    ended, told = socket.socketpair()
    told.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(told.fileno())
    gc.collect()
    gc.freeze()  # a collection in a forked process would copy every page
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([orders, ended], [], [])
        if ended in ready:
            ended.recv(4096)
            _tell_ends(running)
        if orders in ready:
            order = _receive(orders)
            if order is None:
                return
            document, (output, errors, connection) = order
            status = socket.socket(fileno=connection)
            for name in document["imports"]:
                importlib.import_module(name)
            process = os.fork()
            if not process:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (orders, ended, told, status, *running.values()):
                    each.close()
                _run(document, [output, errors])
            running[process] = status
            os.close(output)
            os.close(errors)
            _send(status, process)


def _tell_ends(running: dict[int, socket.socket]) -> None:
    """Sends the exit codes of the commands that ended to who waits for them."""
    while running:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        with running.pop(process) as connection:
            _send(connection, os.waitstatus_to_exitcode(status))


def _own_modules() -> list[str]:
    """All but those of Prefect without its server, and those of frameworks, which no command imports (2.4 s)."""
    import polyhop

    found = [module.name for module in pkgutil.walk_packages(polyhop.__path__, "polyhop.")]
    left_out = "integrations" if "PREFECT_API_URL" in os.environ else "integrations|prefect"
    return [name for name in found if not re.search(left_out, name)]


def _receive(orders: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    head, streams, _, _ = socket.recv_fds(orders, NUMBER_BYTES, 3)
    if not head:
        return None
    body = b""
    left = int.from_bytes(head, "big")
    while len(body) < left:
        body += orders.recv(left - len(body))
    return json.loads(body), streams


def _send(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(ConnectionError):  # whoever started the command does not wait for it any more
        connection.sendall(number.to_bytes(NUMBER_BYTES, "big", signed=True))


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
        code = _main(document["prepare"])
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    finally:
        for output in (sys.stdout, sys.stderr):
            output.flush()
        os._exit(code)


def _main(prepare: tuple[str, str, dict[str, Any]] | None) -> int:
    from polyhop.cli import main

    try:
        if prepare:
            file, function, arguments = prepare
            runpy.run_path(file)[function](**arguments)
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
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # as warehouse/models/litellm_client.py has it
    warnings.filterwarnings("ignore", message="lancedb fork support is experimental")  # nothing is under way in here
    warnings.filterwarnings("ignore", message=".*use of fork\\(\\) may lead to deadlocks", category=DeprecationWarning)
    serve(socket.socket(fileno=int(sys.argv[1])))
