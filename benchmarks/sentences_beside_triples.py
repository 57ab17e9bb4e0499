"""Gives the rows of an imported extraction the propositions of another one, so that one index holds both.

Run: uv run python benchmarks/sentences_beside_triples.py OPENIE EXTRACTION TARGET
OPENIE has the triples; EXTRACTION is what `polyhop export extraction` wrote of an index of the same corpus (by rules or
a model). Then index it with extraction.extractor=import:TARGET: `proprag` searches sentences, `triple-ppr` triples.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path


def rows(path: Path) -> Iterator[dict[str, object]]:
    """Objects of a .jsonl file."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def main(openie: Path, extraction: Path, target: Path) -> None:
    """Writes the rows of `openie`, each with the propositions of its passage; none where there are none."""
    propositions = {row["id"]: row["propositions"] for row in rows(extraction)}
    with target.open("w", encoding="utf-8") as file:
        for row in rows(openie):
            file.write(json.dumps({**row, "propositions": propositions.get(row["id"], [])}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
