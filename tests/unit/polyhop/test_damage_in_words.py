"""What commands say about damage: what it was, what became of it, and the command to run."""

import pytest

from polyhop.commands.index import print_report
from polyhop.commands.operate import _print
from polyhop.flows.maintain import VerifyReport
from polyhop.flows.reports import IndexReport


def test_an_index_run_says_what_it_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(IndexReport("towns", 2, changed=True, damaged=["table 'mentions' cannot be read", "3 cached vectors"]))
    said = capsys.readouterr().out
    assert "  damaged, made again: table 'mentions' cannot be read\n  damaged, made again: 3 cached vectors\n" in said


def test_verify_names_the_command_that_fixes_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    report = VerifyReport("towns", 2, {"tables": [], "older_versions": ["version 1: file 'x' is missing"]})
    _print(report, "version 2")
    assert capsys.readouterr().out.splitlines()[1:] == [
        "ok    tables",
        "FAIL  older versions",
        "      version 1: file 'x' is missing",
        "Fix it with: polyhop verify --index towns --repair",
    ]
