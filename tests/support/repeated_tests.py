"""Tests that depend on real seconds are tried again before they count as failed, and the report names them."""

import time

import pytest
from _pytest.runner import runtestprotocol

TRIES = 3
PAUSE_SECONDS = 1.0
"""Before another try, and twice that before the last: what else the machine did may be over by then."""

SERVERS = frozenset({"browser", "neo4j_server", "prefect_server"})
"""Programs of others with time limits of their own, which an overloaded machine exceeds."""


def depends_on_time(item: pytest.Item) -> bool:
    """Whether a test is marked `real_time`, or asks a server that is another's program."""
    return bool(item.get_closest_marker("real_time")) or not SERVERS.isdisjoint(getattr(item, "fixturenames", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Runs such a test until it passes or was tried often enough, each time with new fixtures; the last try counts."""
    if not depends_on_time(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    failures: list[str] = []
    for number in range(TRIES):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        failed = [report for report in reports if report.failed]
        if not failed or number == TRIES - 1:
            break
        failures += [f"{report.when} {report.longreprtext}" for report in failed]
        time.sleep(PAUSE_SECONDS * (number + 1))
        item._initrequest()  # type: ignore[attr-defined] # new values of fixtures
    for report in reports:
        report.failed_tries = failures if report.when == "call" else []  # type: ignore[attr-defined]
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names the tests that were tried again, whatever the last try gave, with what failed before."""
    for outcome in ("passed", "failed"):
        again = [report for report in terminalreporter.getreports(outcome) if getattr(report, "failed_tries", None)]
        if again:
            terminalreporter.section(f"{outcome} when tried again: {len(again)}")
        for report in again:
            for words in report.failed_tries:
                terminalreporter.write_line(f"{report.nodeid}: failed before: {words}")
