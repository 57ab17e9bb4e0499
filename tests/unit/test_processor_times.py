"""How the processor time of tests is measured, and which of them count as slow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processor_times import seconds_of_files, seconds_of_tree

BURN = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_a_child_counts_while_it_runs_and_after_it_was_waited_for() -> None:
    before = seconds_of_tree(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert seconds_of_tree(os.getpid()) - before >= 0.45


def test_files_are_summed_up_the_longest_first(tmp_path: Path) -> None:
    path = tmp_path / "times.txt"
    path.write_text("0.25\ttests/a.py::one\n1.50\ttests/b.py::two[x::y]\n0.50\ttests/a.py::three\n", encoding="utf-8")
    assert list(seconds_of_files(path).items()) == [("tests/b.py", 1.5), ("tests/a.py", 0.75)]
