"""Commands of Polyhop as a person runs them, by a fork of a process that has imported everything, or a new one."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

Words = Sequence[str | Path]
Variables = Mapping[str, str]
Done = subprocess.CompletedProcess[str]
FORK_SERVER = Path(__file__).with_name("fork_server.py")
TIMEOUT_SECONDS = 300
NUMBER_BYTES = 4
"""Of each number on a connection: length of an order, process id, exit code."""

READ_LATE = ("POLYHOP_", "NEO4J_", "OPENAI_")
"""Variables that are read when a command needs them; others are read at start or import, by Python or a package."""

READ_AT_IMPORT = ("PYTHONPATH", "PREFECT_", "DO_NOT_TRACK")
"""Variables that a package, or the search for packages, reads once: each set of them has a fork server of its own."""


def clean_environment() -> dict[str, str]:
    """The environment of this process without settings of Polyhop and Prefect."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_"))}


def new_process(arguments: Words, folder: Path, environment: Variables) -> Done:
    """Runs a command in a new interpreter, with no settings but those of `environment`."""
    return subprocess.run(
        [sys.executable, "-m", "polyhop.cli", *map(str, arguments)],
        cwd=folder, env=clean_environment() | {**environment}, capture_output=True, text=True, check=False,
        timeout=TIMEOUT_SECONDS,
    )  # fmt: skip


def install(package: Path, site: Path) -> None:
    """As `uv pip install` does, into a folder of its own and without what is installed already."""
    options = ["--quiet", "--no-deps", "--target", str(site), "--python", sys.executable]
    subprocess.run(["uv", "pip", "install", *options, str(package)], check=True)


def line_of(process: "subprocess.Popen[str]") -> str:
    """The next line of a process whose output is a pipe."""
    assert process.stdout is not None
    return process.stdout.readline()


def remaining_output(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """What a killed process wrote after the lines read so far."""
    assert process.stdout is not None
    assert process.stderr is not None
    with process, process.stdout, process.stderr:
        return process.stdout.read(), process.stderr.read()


@dataclass(frozen=True, slots=True)
class Prepare:
    """What the process of a command calls first: a function of a file, with values that JSON knows."""

    file: Path
    function: str
    arguments: Mapping[str, object]


SHORT_LEASE = Prepare(Path(__file__), "shorten_leases", {"seconds": 2.0})
"""For a worker whose death is noticed within two seconds."""


def shorten_leases(seconds: float) -> None:
    """Workers of this process hold their claims for so long, in place of half a minute."""
    from polyhop.worker import loop

    loop.WorkerOptions = partial(loop.WorkerOptions, lease_seconds=seconds)  # type: ignore[assignment,misc]


def limit_files(files: int) -> None:
    """This process may have no more files open than so many."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def run_and_end(code: str) -> NoReturn:
    """Runs the code as a main module and ends with 0; what it raises ends the process as it does an interpreter."""
    exec(compile(code, "<program of a test>", "exec"), {"__name__": "__main__"})
    sys.exit(0)


class Started:
    """A command that may still run: what tests use of `subprocess.Popen`, for a process that is not a child of theirs.

    Its exit code comes on the connection `status`.
    """

    def __init__(self, arguments: Sequence[str], status: socket.socket, process: int) -> None:
        self.args, self.pid, self._status = arguments, process, status
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code if it ended, negative for a signal; else None."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it ended."""
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                self.returncode = receive_number(self._status)
            except (BlockingIOError, TimeoutError):
                return None
            except ConnectionError as error:
                raise RuntimeError("The fork server ended before the command.") from error
            self._status.close()
        return self.returncode


class Commands:
    """Runs commands, and starts the fork servers when they are first needed: one for each set of early variables."""

    def __init__(self) -> None:
        self._servers: dict[tuple[tuple[str, str], ...], ForkServer] = {}

    def run(self, arguments: Words, folder: Path, environment: Variables, prepare: Prepare | None = None) -> Done:
        """Runs a command to its end, with no settings but those of `environment`; see `new_process`."""
        if not all(name.startswith((*READ_LATE, *READ_AT_IMPORT)) for name in environment):
            if prepare is not None:
                raise ValueError("a new interpreter cannot be prepared; leave out variables that it reads at its start")
            return new_process(arguments, folder, environment)
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            started = self._server(environment).start(arguments, folder, environment, (output, errors), prepare)
            try:
                code = started.wait(TIMEOUT_SECONDS)
            except RuntimeError:
                raise
            except BaseException:  # Ctrl-C and the time limit of a test, too, must leave nothing running
                started.kill()
                started.wait()
                raise
            output.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(started.args, code, output.read(), errors.read())

    def python(self, code: str, arguments: Words, folder: Path, environment: Variables) -> Done:
        """Runs a program of Polyhop's Python interface to its end, as `run` does a command; `sys.argv[1:]` is given."""
        return self.run(arguments, folder, environment, Prepare(Path(__file__), "run_and_end", {"code": code}))

    def start(
        self, arguments: Words, folder: Path, environment: Variables, log: IO[str], prepare: Prepare | None = None
    ) -> Started:
        """Starts a command as `run` does, both streams to `log`; no variable may be one that an interpreter reads."""
        if not all(name.startswith((*READ_LATE, *READ_AT_IMPORT)) for name in environment):
            raise ValueError("a forked process does not read variables of the interpreter; use subprocess.Popen")
        return self._server(environment).start(arguments, folder, environment, (log, log), prepare)

    def _server(self, environment: Mapping[str, str]) -> "ForkServer":
        early = {name: value for name, value in environment.items() if name.startswith(READ_AT_IMPORT)}
        key = tuple(sorted(early.items()))
        if key not in self._servers:
            self._servers[key] = ForkServer(early)
        return self._servers[key]

    def close(self) -> None:
        """Ends the fork servers."""
        for server in self._servers.values():
            server.close()


class ForkServer:
    """A process of fork_server.py, with `early` variables that packages read when they are imported."""

    def __init__(self, early: Mapping[str, str]) -> None:
        self._orders, other_end = socket.socketpair()
        self._lock = threading.Lock()
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `close` closes it
        with other_end:
            self._process = subprocess.Popen(
                [sys.executable, str(FORK_SERVER), str(other_end.fileno())],
                env={**clean_environment(), **early},
                pass_fds=[other_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
            )

    def start(
        self, given: Words, folder: Path, environment: Variables, streams: Sequence[IO[str]], prepare: Prepare | None
    ) -> Started:
        """Starts a command, with its output and errors to two files."""
        arguments = [str(each) for each in given]
        document = {
            "arguments": arguments,
            "folder": str(folder),
            "environment": {**clean_environment(), **environment},
            "imports": ["litellm"] if _asks_a_model(arguments, environment) else [],
            "prepare": None if prepare is None else [str(prepare.file), prepare.function, dict(prepare.arguments)],
        }
        body = json.dumps(document).encode()
        status, other_end = socket.socketpair()
        try:
            with self._lock, other_end:
                head = len(body).to_bytes(NUMBER_BYTES, "big")
                socket.send_fds(self._orders, [head], [*(each.fileno() for each in streams), other_end.fileno()])
                self._orders.sendall(body)
            return Started(arguments, status, receive_number(status))
        except ConnectionError as error:
            status.close()
            self._log.seek(0)
            raise RuntimeError(f"The fork server ended; it printed: {self._log.read()}") from error

    def close(self) -> None:
        """Ends the process."""
        self._orders.close()
        self._process.wait()
        self._log.close()


def receive_number(connection: socket.socket) -> int:
    """A number of a fork server."""
    number = connection.recv(NUMBER_BYTES, socket.MSG_WAITALL)
    if len(number) < NUMBER_BYTES:
        raise ConnectionResetError
    return int.from_bytes(number, "big", signed=True)


def _asks_a_model(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether litellm is worth its import, which takes as long as that of everything else."""
    named = any("models." in argument for argument in arguments)
    return named or any(name.startswith("POLYHOP_MODELS__") for name in environment)
