"""Processor time of each test with all that it starts: servers, commands, browsers.

Registered if TEST_TIMES names a file; it gets a line per test: seconds, a tab, the test's id. Wall times say
little where several test processes share two cores. `slow_files` makes of it the list that `just quick` leaves out.
Linux only.
"""

import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "TEST_TIMES"  # not POLYHOP_…: commands would refuse it as a setting they do not know
SLOW_FILES = Path(__file__).with_name("slow_files.txt")
SLOW_SECONDS = 3.0
"""Chosen: 50 of 450 files of unit and contract tests take longer, and four fifths of the time of all of them."""
_PARENT, _TIMES = 1, slice(11, 15)  # fields of /proc/PID/stat behind the name: parent; own and waited-for ticks


class ProcessorTimes:
    """The plugin of a test process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measures a test with its fixtures."""
        before = seconds_of_tree(os.getpid())
        result = yield
        with self._path.open("a", encoding="utf-8") as file:  # short lines of several processes do not mix
            file.write(f"{seconds_of_tree(os.getpid()) - before:.2f}\t{item.nodeid}\n")
        return result


def seconds_of_tree(root: int) -> float:
    """Processor seconds of a process and all below it, of those that ended and were waited for, too."""
    ticks: dict[int, int] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="latin-1").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        process = int(path.parent.name)
        ticks[process] = sum(map(int, fields[_TIMES]))
        children[int(fields[_PARENT])].append(process)
    total, left = 0, [root]
    while left:
        process = left.pop()
        total += ticks.get(process, 0)
        left += children[process]
    return total / os.sysconf("SC_CLK_TCK")


def seconds_of_files(path: Path) -> dict[str, float]:
    """Sum of a file's tests, by file, the longest first."""
    found: defaultdict[str, float] = defaultdict(float)
    for line in path.read_text(encoding="utf-8").splitlines():
        seconds, _, test = line.partition("\t")
        found[test.partition("::")[0]] += float(seconds)
    return dict(sorted(found.items(), key=lambda row: -row[1]))


def slow_files() -> frozenset[str]:
    """Files of unit and contract tests that take long, relative to the project."""
    lines = SLOW_FILES.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not re.match(r"\s*#", line))


if __name__ == "__main__":  # uv run python tests/processor_times/processor_times.py FILE
    for name, total in seconds_of_files(Path(sys.argv[1])).items():
        sys.stdout.write(f"{total:8.1f}  {name}\n")
