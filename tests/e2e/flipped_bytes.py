"""Flips one byte of a published root and looks what becomes of it; run as a process, because damage may kill it.

    python flipped_bytes.py FOLDER      cases as JSON lines on standard input, a result each on standard output

A case is {"file", "offset", "bit", "heal"}; a result is the case with "noticed" (what verify or doctor said, "" if
nothing), "asked" (each strategy's outcome), "healed" (the commands it took) and "fault" ("" if all was as promised).
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.maintain import repair, run_verify
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import point_to, published_versions, read_manifest, require_version
from polyhop.warehouse.index_reader import open_vector_store
from polyhop.warehouse.open_models import close_encoders

INDEX = "towns"
STRATEGIES = ("bridge", "qasa", "dense-ann")
QUESTIONS = ("Which river does Town 3 lie on?", "Which towns lie in Country 1?")
IRRELEVANT = {"latest_version_hint.json", "WRITER"}
"""LanceDB finds the latest version whatever its hint says; the lock of a writer holds by the system, not by content."""
NO_VERSION = {"runs.jsonl", "checksums.json"}
"""Beside the versions: the history of runs, and what is known of LanceDB's files."""


class Roots:
    """The whole root and copies of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.whole = folder / "whole"
        self.corpus = folder / "corpus.jsonl"

    def build(self) -> None:
        """Publishes a small corpus twice, the second time with an edit."""
        for edition in (1, 2):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.corpus.write_text("".join(json.dumps(row) + "\n" for row in town_rows(edition)), encoding="utf-8")
            run_index(settings_of(self.whole), IndexRequest(INDEX, self.corpus), DirectRunner())
        close_encoders()

    def copy(self, name: str) -> Path:
        """A copy to damage."""
        target = self.folder / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.whole, target, copy_function=shutil.copyfile)
        return target


def town_rows(edition: int) -> list[dict[str, str]]:
    texts = (f"Town {n} lies on the River {n % 4} in Country {n % 3}." for n in range(12))
    return [
        {"id": f"p{n:02d}", "title": f"Town {n}", "text": text + (" It is old." if edition == 2 and n < 2 else "")}
        for n, text in enumerate(texts)
    ]


def settings_of(root: Path) -> Settings:
    return Settings(root=root, strategies=STRATEGIES)


def answers_of(root: Path) -> dict[str, Any]:
    """What each strategy answers, or the sentence with which it refuses."""
    found: dict[str, Any] = {}
    for strategy in STRATEGIES:
        try:
            with open_index(INDEX, settings=settings_of(root)) as index:
                documents = [answer.to_json() for answer in index.ask_batch(QUESTIONS, strategy=strategy, limit=5)]
            found[strategy] = [{k: v for k, v in d.items() if k not in {"seconds", "version"}} for d in documents]
        except PolyhopError as error:
            found[strategy] = str(error)
    given: dict[str, Any] = json.loads(json.dumps(found))
    return given


def noticed(root: Path) -> str:
    """What verify says of the root; "" if it is content."""
    try:
        report = run_verify(settings_of(root), INDEX)
        return "; ".join(sentence for some in report.differences.values() for sentence in some)
    except PolyhopError as error:
        return str(error)


def content_of(root: Path) -> dict[str, Any]:
    """All that the current version promises, however it is laid out on disk."""
    layout = Layout(root)
    _, folder = require_version(layout, INDEX)
    manifest = read_manifest(folder)
    vectors = {}
    for kind, record in manifest.vectors.items():
        pinned = open_vector_store(layout.index(INDEX)).open(record.table, record.table_version)
        table = pinned.read().sort_by("id")
        values = np.array(table.column("vector").to_pylist(), dtype=np.float32)
        vectors[kind] = [table.column("id").to_pylist(), values.tolist()]
    tables = {name: record.checksum for name, record in manifest.tables.items() if name != "version_stages"}
    return {"tables": tables, "arrays": dict(manifest.arrays), "counts": dict(manifest.counts), "vectors": vectors}


def is_same_content(whole: Path, damaged: Path) -> bool:
    """Whether a file says the same although a byte of it differs."""
    if damaged.name in IRRELEVANT:
        return True
    if damaged.suffix == ".json":
        return bool(json.loads(whole.read_bytes()) == json.loads(damaged.read_bytes()))
    return damaged.name == "CURRENT" and int(whole.read_text()) == int(damaged.read_text())


class Attack:
    """Cases against copies of one root."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._number = 0
        self._answers = answers_of(roots.whole)
        self._content = content_of(roots.whole)
        close_encoders()

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        root = self._roots.copy(f"case-{self._number}")  # a path of its own: LanceDB keeps what it has read of a path
        result: dict[str, Any] = {**case, "noticed": "", "asked": {}, "healed": [], "fault": ""}
        try:
            self._flip(root, case)
            self._look(root, case, result)
            self._heal(root, case, result)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            result["fault"] = f"{type(error).__name__}: {str(error)[:300]}"
        finally:
            close_encoders()
            shutil.rmtree(root)
        return result

    def _flip(self, root: Path, case: dict[str, Any]) -> None:
        path = root / case["file"]
        content = bytearray(path.read_bytes())
        content[case["offset"]] ^= 1 << case["bit"]
        path.unlink()
        path.write_bytes(content)

    def _look(self, root: Path, case: dict[str, Any], result: dict[str, Any]) -> None:
        damaged, whole = root / case["file"], self._roots.whole / case["file"]
        is_same = damaged.suffix != ".duckdb" and _or_false(lambda: is_same_content(whole, damaged))
        result["noticed"] = noticed(root)[:300]
        asked = answers_of(root)
        for strategy, answer in asked.items():
            is_right = answer == self._answers[strategy]
            result["asked"][strategy] = "right" if is_right else str(answer)[:200]
            if not is_right and not (isinstance(answer, str) and "polyhop " in answer):
                raise AssertionError(f"{strategy} answered wrongly: {str(answer)[:200]}")
        if not result["noticed"] and not is_same:
            raise AssertionError("nothing noticed it")

    def _heal(self, root: Path, case: dict[str, Any], result: dict[str, Any]) -> None:
        commands: dict[str, Callable[[], Any]] = {
            "index": lambda: self._index(root, full=False, source=self._roots.corpus),
            "full": lambda: self._index(root, full=True, source=self._roots.corpus),
            "add": lambda: self._index(root, full=False, source=None),
            "repair": lambda: repair(settings_of(root), run_verify(settings_of(root), INDEX)),
        }
        named = {
            "polyhop versions": lambda: _use_newest(root),
            "polyhop index": commands["full"],
            "polyhop verify": commands["repair"],
        }
        for name in (case["heal"], "repair"):
            for _ in range(3):
                try:
                    result["healed"].append(name)
                    commands[name]()
                    break
                except PolyhopError as error:
                    said = next((command for command in named if command in str(error)), None)
                    if said is None:
                        raise AssertionError(f"{name} names no command: {error}") from error
                    result["healed"].append(said)
                    named[said]()
        rest = noticed(root)
        if rest:
            raise AssertionError(f"not healed: {rest[:300]}")
        if content_of(root) != self._content:
            raise AssertionError("healed to something else")
        if answers_of(root) != self._answers:
            raise AssertionError("answers differ after healing")

    def _index(self, root: Path, *, full: bool, source: Path | None) -> None:
        run_index(settings_of(root), IndexRequest(INDEX, source, full=full), DirectRunner())


def _or_false(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except ValueError:
        return False


def _use_newest(root: Path) -> None:
    folder = Layout(root).index(INDEX)
    point_to(folder, published_versions(folder)[-1])


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Builds the root if it is not there, then runs the cases."""
    roots = Roots(Path(sys.argv[1]))
    if not roots.whole.exists():
        roots.build()
    attack = Attack(roots)
    index = roots.whole / "indexes" / INDEX
    paths = [path for path in index.rglob("*") if path.is_file() and path.name not in NO_VERSION]
    files = sorted(path.relative_to(roots.whole).as_posix() for path in paths)
    _say({f: (roots.whole / f).stat().st_size for f in files})
    for line in sys.stdin:
        _say(attack.run(json.loads(line)))


if __name__ == "__main__":
    main()
