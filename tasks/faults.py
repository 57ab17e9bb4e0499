"""What becomes of a passage that a rule fails on: a reason for the quarantine instead of the end of the run.

Catches nothing itself. A defect stays visible: the reason names the error and where it was raised.
"""

import traceback
from pathlib import Path

import pyarrow as pa

from polyhop.schemas.columns import Column, Table

FAULTS = Table(
    "faults",
    "Passages that a rule failed on, as a part file of a batch.",
    ("passage_id",),
    (
        Column("passage_id", pa.string(), "the passage"),
        Column("reason", pa.string(), "the error and where it was raised"),
    ),
)
_MOST_CHARACTERS = 300  # of an error's message; chosen: some quote the whole text that they failed on


def fault_reason(error: Exception) -> str:
    """An unexpected error of a rule on one line: its type, its message, file and line."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name} line {frames[-1].lineno})" if frames else ""
    message = " ".join(f"{type(error).__name__}: {error}".replace("\0", " ").split())[:_MOST_CHARACTERS]
    storable = message.encode("utf-8", "backslashreplace").decode("utf-8")
    return f"a rule failed on it, which is a defect in Polyhop: {storable}{where}"
