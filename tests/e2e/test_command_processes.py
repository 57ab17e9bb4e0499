"""Commands that are forked from a warm process behave like those of a new interpreter: tests/command_processes/."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import command_processes
import pytest
from command_processes import Commands, ForkServer

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("--version",), {}),
        (("index", "--help"), {}),
        (("ask", "Who?", "--nope"), {}),
        (("ask", "", "--index", "tiny"), {}),
        (("ask", "Who?", "--index", "nowhere", "--json"), {}),
        (("jobs", "--json"), {"POLYHOP_ROOT": "elsewhere"}),
        (("versions", "--index", "tiny"), {"POLYHOP_NOPE": "1"}),
        (("versions", "--index", "ünknown"), {"POLYHOP_DEBUG": "1"}),
    ],
)
def test_exit_code_and_both_streams_are_those_of_a_new_interpreter(
    polyhop: Run, new_polyhop: Run, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    forked, new = (run(*arguments, env=environment) for run in (polyhop, new_polyhop))
    assert forked.returncode == new.returncode
    assert _words(forked.stdout) == _words(new.stdout)
    assert _words(forked.stderr) == _words(new.stderr)


def _words(printed: str) -> list[str]:
    """What was printed, but for the name of the program in its usage and the frames of a traceback."""
    lines = printed.replace("python -m polyhop.cli", "polyhop").splitlines()
    return " ".join(line for line in lines if not line.startswith(("  File ", "    "))).split()


def test_nothing_of_one_command_is_left_for_the_next(polyhop: Run, tmp_path: Path) -> None:
    (tmp_path / "polyhop.toml").write_text("root = 'of-the-file'\n")
    assert polyhop("jobs").returncode == 0
    assert polyhop("jobs", env={"POLYHOP_ROOT": "of-the-environment"}).returncode == 0
    (tmp_path / "polyhop.toml").unlink()
    assert polyhop("jobs").returncode == 0
    roots = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert roots == {"of-the-file", "of-the-environment", "polyhop-data"}
    assert Path.cwd() != tmp_path
    assert "POLYHOP_ROOT" not in os.environ


def test_a_variable_that_is_read_at_the_start_gets_a_new_interpreter(
    polyhop: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        pytest.fail("it was forked")

    monkeypatch.setattr(ForkServer, "start", refuse)
    assert polyhop("--version", env={"PYTHONUTF8": "1", "POLYHOP_DEBUG": "1"}).returncode == 0


def test_a_command_that_takes_too_long_is_killed_and_the_next_one_runs(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_processes, "TIMEOUT_SECONDS", 0.01)
    with pytest.raises(subprocess.TimeoutExpired):
        commands.run(["demo"], tmp_path, {})
    monkeypatch.setattr(command_processes, "TIMEOUT_SECONDS", 60)
    assert commands.run(["--version"], tmp_path, {}).stdout.startswith("polyhop ")


def test_a_fork_server_that_ended_says_what_it_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no such package')\n")
    monkeypatch.setattr(command_processes, "FORK_SERVER", broken)
    server = ForkServer({})
    with pytest.raises(RuntimeError, match="no such package"):
        server.run(["--version"], tmp_path, {})
    server.close()


def test_started_commands_run_at_the_same_time_and_end_by_themselves_or_by_a_signal(
    commands: Commands, tmp_path: Path
) -> None:
    with (tmp_path / "log").open("w") as log:
        worker, killed, short = (
            commands.start(arguments, tmp_path, {}, log) for arguments in (("worker",), ("worker",), ("--version",))
        )
    assert short.wait(60) == short.poll() == 0
    assert (worker.poll(), killed.poll()) == (None, None)
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(0.01)
    killed.kill()
    assert killed.wait(60) == -signal.SIGKILL
    while not (tmp_path / "polyhop-data").exists():
        assert worker.poll() is None
    assert commands.run(("jobs",), tmp_path, {}).returncode == 0
    worker.terminate()
    assert worker.wait(60) in {0, -signal.SIGTERM}
    worker.kill()
    assert "polyhop 0." in (tmp_path / "log").read_text()


def test_a_started_command_takes_no_variable_of_the_interpreter(commands: Commands, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log, pytest.raises(ValueError, match="use subprocess"):
        commands.start(("--version",), tmp_path, {"PYTHONUTF8": "1"}, log)
