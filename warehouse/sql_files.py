"""Named SQL statements in files: a statement starts at its `-- name:` line and ends where the next begins.

Runs nothing; values reach a statement as parameters only.
"""

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def read_statements(path: Path) -> dict[str, str]:
    """{name: SQL} of a file, in its order."""
    parts = _NAME.split(path.read_text(encoding="utf-8"))
    return {name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}
