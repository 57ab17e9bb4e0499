"""Ctrl-C within a command: one sentence and the exit code of shells."""

import sys
from pathlib import Path

import pytest

from polyhop import cli
from polyhop.warehouse.files import questions as predictions


def test_an_interrupted_command_says_that_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(predictions, "read_predictions", interrupted)
    monkeypatch.setattr(sys, "argv", ["polyhop", "score", str(tmp_path / "any.jsonl")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out, printed.err) == (130, "", "polyhop: stopped; what was finished is kept.\n")
