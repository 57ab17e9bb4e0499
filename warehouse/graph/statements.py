"""The Cypher statements of the files beside this module, by file and name, and the query that is put together of them.

Runs nothing; values reach a statement as parameters only. The one identifier that Neo4j takes as text is made of
hexadecimal digits (neo4j_layout.py).
"""

import re
from functools import cache
from pathlib import Path

CYPHER_FOLDER = Path(__file__).parent / "cypher"
_NAME = re.compile(r"^// name: (\w+)$", re.MULTILINE)


@cache
def cypher_statements(file: str) -> dict[str, str]:
    """{name: Cypher} of `cypher/<file>.cypher`, in its order."""
    parts = _NAME.split((CYPHER_FOLDER / f"{file}.cypher").read_text(encoding="utf-8"))
    return {name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def cypher(file: str, name: str) -> str:
    """One statement by file and name."""
    return cypher_statements(file)[name]


@cache
def activation_query(steps: int, max_length: int) -> str:
    """The whole retrieval as one query: the same step T times, the same extension of chains L_max times.

    Args:
        steps: T, at least 0.
        max_length: Relations in a chain, at least 1.
    """
    bounds = ["bound"] * (max_length - 1)
    pieces = ["seeds", *["step"] * steps, "rank", "prefixes", *bounds, *["extend"] * max_length, "chains"]
    return "\n".join(cypher("activation", piece) for piece in pieces)
