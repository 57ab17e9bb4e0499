"""One byte of any file of a version flips: verify finds it, no answer is wrong, nothing crashes, and it can be healed.

POLYHOP_FLIPS=N flips N offsets of every file, and writes what became of each to flips.jsonl in the present folder;
without it a sample with a fixed seed does.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLIPS = int(os.environ.get("POLYHOP_FLIPS", "0"))
SAMPLED = (
    ".duckdb",
    "CURRENT",
    "_indices.idx",
    "_indices.lance",
    "_versions.manifest",
    "data.lance",
    "graph.npy",
    "graph.parquet",
    "manifest.json",
)
"""Kinds of files of the short variant; see `_kind`."""
HEALS = ("index", "full", "add", "repair")


class Attacker:
    """The process that runs cases; started again when a case kills it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "attacker.log").open("a")
        self.files: dict[str, int] = {}
        self._start()

    def _start(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("flipped_bytes.py")), str(self._folder)]
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_"))}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=clean | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )
        self.files = json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        line = self._line()
        if line:
            return dict(json.loads(line))
        code = self._process.wait()
        self._start()
        return {**case, "fault": f"the process ended with {code}"}

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


@pytest.fixture(scope="module")
def attacker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacker]:
    attacker = Attacker(tmp_path_factory.mktemp("flips"))
    yield attacker
    attacker.close()


def _kind(file: str) -> str:
    """What a file is, whatever its name: the telling folder above it, and its suffix."""
    path = Path(file)
    if path.name in {"CURRENT", "manifest.json"}:
        return path.name
    telling = ("_indices", "_versions", "_refs", "data", "graph")
    return next((part for part in telling if part in path.parts), "") + path.suffix


def _cases(files: dict[str, int], flips: int) -> list[dict[str, Any]]:
    """So many flips of every file, or one flip of a file of each kind."""
    rng = random.Random(20)
    chosen = [file for file, size in sorted(files.items()) if size]
    if not flips:
        rng.shuffle(chosen)
        chosen = [file for kind, file in sorted({_kind(file): file for file in chosen}.items()) if kind in SAMPLED]
    return [
        {
            "file": file,
            "offset": rng.randrange(files[file]),
            "bit": rng.randrange(8),
            "heal": HEALS[rng.randrange(len(HEALS))],
        }
        for file in chosen
        for _ in range(flips or 1)
    ]


@pytest.mark.rare
@pytest.mark.timeout(0 if FLIPS else 600)
def test_no_flipped_byte_is_missed_answers_wrongly_crashes_or_stays(attacker: Attacker) -> None:
    results = []
    for case in _cases(attacker.files, FLIPS):
        results.append(attacker.run(case))
        if FLIPS:
            with Path("flips.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(results[-1]) + "\n")
    assert [result for result in results if result["fault"]] == []
    assert any(result["noticed"] for result in results)
