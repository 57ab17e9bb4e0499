"""docs/notebook.ipynb is true: it runs from top to bottom in an empty folder and prints what it shows.

With WRITE_NOTEBOOK=1 the notebook gets the output of its cells instead.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from command_processes import clean_environment
from nbclient import NotebookClient

pytestmark = pytest.mark.rare

PAGE = Path(__file__).resolve().parents[2] / "docs" / "notebook.ipynb"
TIMEOUT_SECONDS = 300
_TIME = re.compile(r" *\d[\d,.]* ?(?:ms|s)\b")


def test_the_notebook_shows_what_its_cells_print(tmp_path: Path) -> None:
    shown, run = nbformat.read(PAGE, as_version=4), nbformat.read(PAGE, as_version=4)
    client = NotebookClient(
        run,
        timeout=TIMEOUT_SECONDS,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute(env=environment(tmp_path))
    if os.environ.get("WRITE_NOTEBOOK"):
        nbformat.write(run, PAGE)
        shown = run
    cells = [cell for cell in shown.cells if cell.cell_type == "code"]
    assert len(cells) > 10
    printed = [texts(cell) for cell in run.cells if cell.cell_type == "code"]
    assert printed == [texts(cell) for cell in cells]


def environment(folder: Path) -> dict[str, str]:
    """Variables with the commands of this Python on the path, and IPython's own files in the folder."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return clean_environment() | {"PATH": path, "IPYTHONDIR": str(folder / "ipython"), "TERM": "dumb"}


def texts(cell: Any) -> list[str]:
    """What a cell printed and returned, without times."""
    said = [
        output.get("text") or output.get("data", {}).get("text/plain", output.output_type) for output in cell.outputs
    ]
    return [line.rstrip() for line in _TIME.sub(" TIME", "".join(said)).splitlines()]
