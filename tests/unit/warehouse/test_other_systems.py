"""What a Mac has not (/proc, a limit of the address space, names that differ in case only) and Windows not at all."""

import os
import subprocess
import sys
from pathlib import Path

import document_files as made
import psutil  # noqa: F401 - before it is told that this is a Mac, where it would look for its own library
import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.warehouse import machine
from polyhop.warehouse.documents.converter import ConversionLimits, Converter
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.records import FaultError

HIDDEN = """
import builtins, io, os, resource
real_open, real_stat, real_limit = io.open, os.stat, resource.setrlimit

def hidden(real):
    def call(path, *given, **named):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
        return real(path, *given, **named)
    return call

def refused(which, limits):
    if which == resource.RLIMIT_AS:
        raise ValueError("current limit exceeds maximum limit")
    real_limit(which, limits)

io.open = builtins.open = hidden(real_open)
os.stat = hidden(real_stat)
resource.setrlimit = refused
del os.sched_getaffinity
"""
"""As a module `sitecustomize`, which Python imports when it starts: no /proc, and what macOS refuses."""


@pytest.fixture
def like_a_mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts find what they would on a Mac; so does this one."""
    folder = tmp_path / "mac"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDDEN, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(machine, "_STATUS", tmp_path / "missing")
    monkeypatch.setattr(machine, "_CPU", tmp_path / "missing")
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["tmp_path", "like_a_mac"])
def test_a_file_that_takes_too_much_memory_is_named_and_the_next_is_read_also_where_the_system_sets_no_limit(
    tmp_path: Path, request: pytest.FixtureRequest, fixture: str
) -> None:
    request.getfixturevalue(fixture)
    text = f"<w:document xmlns:w='{made.W}'><w:body>{'<w:p/>' * 3_000_000}</w:body></w:document>"
    path = made.with_member(made.word(tmp_path / "a.docx"), "word/document.xml", text.encode())
    with Converter(ConversionLimits(memory_mb=256, seconds=60)) as converter:
        with pytest.raises(FaultError, match="more than 256 MB of memory"):
            converter.convert(path)
        assert converter.convert(made.mail(tmp_path / "m.eml")).title == "Café 中"


@pytest.mark.usefixtures("like_a_mac")
def test_the_machine_is_described_without_proc() -> None:
    assert machine.usable_cores() >= 1
    assert machine.peak_rss_mb() > 0
    assert machine.machine().keys() == {"system", "python", "cores", "processor"}


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.usefixtures("like_a_mac")
def test_the_demo_runs_where_nothing_but_linux_knows_is_there(tmp_path: Path) -> None:
    """Third parties have been imported before: they have parts for a Mac that are not installed here."""
    code = (
        "import duckdb, lancedb, lxml.html, numba, onnxruntime, platform, scipy.sparse, sqlalchemy, sys\n"
        "import threadpoolctl, urllib.request\n"
        "platform.platform(); threadpoolctl.threadpool_info()\n"
        "from polyhop.cli import main\n"
        "sys.platform = 'darwin'\n"
        "main()"
    )
    command = [sys.executable, "-c", code, "demo", "--root", str(tmp_path / "root")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "was an English architect born in East Knoyle" in done.stdout


def test_indexes_that_the_file_system_confuses_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Layout(tmp_path).index("Demo").path.mkdir(parents=True)
    assert Layout(tmp_path).index("demo").name == "demo"
    is_dir = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", lambda path: is_dir(path) or is_dir(path.with_name("Demo")))
    with pytest.raises(ConfigurationError, match="There is an index 'Demo', and this file system does not tell 'demo'"):
        Layout(tmp_path).index("demo")
    assert Layout(tmp_path).index("Demo").name == "Demo"


def test_importing_it_on_windows_names_wsl() -> None:
    code = "import sys; sys.platform = 'win32'; import polyhop"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: Polyhop runs on Linux and macOS; on Windows, install and run it within WSL (docs/install.md)."
    )
