"""Which processes run, and whose they are."""

import os
import re
import socket

import pytest

from polyhop.warehouse.machine import is_running, machine, now, peak_rss_mb, user_name


def test_this_process_runs() -> None:
    assert is_running(socket.gethostname(), os.getpid()) is True


@pytest.mark.parametrize(("error", "runs"), [(ProcessLookupError, False), (PermissionError, True)])
def test_a_process_that_may_not_be_asked_runs_and_one_that_is_not_there_does_not(
    monkeypatch: pytest.MonkeyPatch, error: type[OSError], runs: bool
) -> None:
    def refuse(process: int, signal: int) -> None:
        assert (process, signal) == (4321, 0)
        raise error

    monkeypatch.setattr(os, "kill", refuse)
    assert is_running(socket.gethostname(), 4321) is runs


def test_nobody_knows_of_another_host() -> None:
    assert is_running(f"not {socket.gethostname()}", os.getpid()) is None


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_name()

    def unknown() -> str:
        raise KeyError

    monkeypatch.setattr("getpass.getuser", unknown)
    assert user_name() == f"user {os.getuid()}"


def test_memory_and_machine_are_stated() -> None:
    assert 10 < peak_rss_mb() < 1_000_000
    assert machine()["cores"] == os.cpu_count()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", now())
