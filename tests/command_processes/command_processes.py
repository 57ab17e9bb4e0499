"""Commands of Polyhop as a person runs them, each in a process of its own, without paying for its imports each time.

Owns how a command of a test is started: by a fork of a process that has imported everything (fork_server.py), or as a
new interpreter where a variable is one that an interpreter or a package reads at its start.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FORK_SERVER = Path(__file__).with_name("fork_server.py")
TIMEOUT_SECONDS = 300
NUMBER_BYTES = 4
"""Of each number on the connection: length of an order, process id, exit code."""

READ_LATE = ("POLYHOP_", "NEO4J_", "OPENAI_")
"""Variables that are read when a command needs them; others are read at start or import, by Python or a package."""


def clean_environment() -> dict[str, str]:
    """The environment of this process without settings of Polyhop and Prefect."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_"))}


def new_process(
    arguments: Sequence[str | Path], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a new interpreter, with no settings but those of `environment`."""
    return subprocess.run(
        [sys.executable, "-m", "polyhop.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=clean_environment() | environment,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )


@dataclass(frozen=True, slots=True)
class Prepare:
    """What the process of a command calls first: a function of a file, with values that JSON knows."""

    file: Path
    function: str
    arguments: Mapping[str, object]


class Commands:
    """Runs commands, and starts the fork servers when they are first needed: one for each PYTHONPATH."""

    def __init__(self) -> None:
        self._servers: dict[str | None, ForkServer] = {}

    def run(
        self,
        arguments: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str],
        prepare: Prepare | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, with no settings but those of `environment`; see `new_process`.

        `prepare` is called in its process before the command begins.
        """
        if not all(name == "PYTHONPATH" or name.startswith(READ_LATE) for name in environment):
            if prepare is not None:
                raise ValueError("a new interpreter cannot be prepared; leave out variables that it reads at its start")
            return new_process(arguments, folder, environment)
        path = environment.get("PYTHONPATH")
        if path not in self._servers:
            self._servers[path] = ForkServer(path)
        return self._servers[path].run([str(argument) for argument in arguments], folder, environment, prepare)

    def close(self) -> None:
        """Ends the fork servers."""
        for server in self._servers.values():
            server.close()


class ForkServer:
    """A process of fork_server.py; one command at a time.

    Args:
        path: Its PYTHONPATH; None for that of this process.
    """

    def __init__(self, path: str | None) -> None:
        self._orders, other_end = socket.socketpair()
        self._lock = threading.Lock()
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `close` closes it
        with other_end:
            self._process = subprocess.Popen(
                [sys.executable, str(FORK_SERVER), str(other_end.fileno())],
                env=clean_environment() | ({} if path is None else {"PYTHONPATH": path}),
                pass_fds=[other_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
            )

    def run(
        self,
        arguments: list[str],
        folder: Path,
        environment: Mapping[str, str],
        prepare: Prepare | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end.

        Raises:
            TimeoutExpired: After TIMEOUT_SECONDS; the command is killed.
            RuntimeError: If the fork server ended.
        """
        document = {
            "arguments": arguments,
            "folder": str(folder),
            "environment": clean_environment() | environment,
            "imports": ["litellm"] if _asks_a_model(arguments, environment) else [],
            "prepare": None if prepare is None else [str(prepare.file), prepare.function, dict(prepare.arguments)],
        }
        body = json.dumps(document).encode()
        with self._lock, tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            try:
                head = len(body).to_bytes(NUMBER_BYTES, "big")
                socket.send_fds(self._orders, [head], [output.fileno(), errors.fileno()])
                self._orders.sendall(body)
                code = self._exit_code(arguments, process=self._number())
            except ConnectionError as error:
                self._log.seek(0)
                message = f"The fork server ended; it printed: {self._log.read()}"
                raise RuntimeError(message) from error
            output.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(arguments, code, output.read(), errors.read())

    def close(self) -> None:
        """Ends the process."""
        self._orders.close()
        self._process.wait()
        self._log.close()

    def _exit_code(self, arguments: list[str], process: int) -> int:
        self._orders.settimeout(TIMEOUT_SECONDS)
        try:
            return self._number()
        except BaseException as error:  # Ctrl-C and the time limit of a test, too, must leave nothing running or unread
            if isinstance(error, ConnectionError):
                raise
            os.kill(process, signal.SIGKILL)
            self._orders.settimeout(None)
            self._number()
            if isinstance(error, TimeoutError):
                raise subprocess.TimeoutExpired(arguments, TIMEOUT_SECONDS) from None
            raise
        finally:
            self._orders.settimeout(None)

    def _number(self) -> int:
        number = self._orders.recv(NUMBER_BYTES, socket.MSG_WAITALL)
        if len(number) < NUMBER_BYTES:
            raise ConnectionResetError
        return int.from_bytes(number, "big", signed=True)


def _asks_a_model(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether litellm is worth its import, which takes as long as that of everything else."""
    named = any("models." in argument for argument in arguments)
    return named or any(name.startswith("POLYHOP_MODELS__") for name in environment)
