"""One byte of any file of a version flips: verify finds it, no answer is wrong, nothing crashes, and it can be healed.

POLYHOP_FLIPS=N flips N offsets of every file, and writes what became of each to flips.jsonl in the present folder;
without it a sample with a fixed seed does. The cases run in a process of their own (this file as a program), because
damage may kill it:

    python test_flipped_bytes.py FOLDER FLIPS      a result on standard output, as a JSON line, after each case
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_processes import clean_environment
from real_index import flip
from small_indexes import indexed, write_rows

from polyhop.api import open_index
from polyhop.flows.maintain import repair, run_verify
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import point_to, published_versions, read_manifest, require_version
from polyhop.warehouse.index_reader import open_vector_store
from polyhop.warehouse.open_models import close_encoders

FLIPS = int(os.environ.get("POLYHOP_FLIPS", "0"))
SAMPLED = {
    *(".duckdb", "CURRENT", "_indices.idx", "_versions.manifest", "data.lance", "graph.npy"),
    *("graph.parquet", "manifest.json"),
}
"""Kinds of files of the short variant; see `kind_of`."""
INDEX = "towns"
STRATEGIES = ("bridge", "qasa", "dense-ann")
QUESTIONS = ("Which river does Town 3 lie on?", "Which towns lie in Country 1?")
IRRELEVANT = {"latest_version_hint.json", "WRITER"}
"""LanceDB finds the latest version whatever its hint says; the lock of a writer holds by the system, not by content."""
NO_VERSION = {"runs.jsonl", "checksums.json"}
"""Beside the versions: the history of runs, and what is known of LanceDB's files."""


@pytest.mark.rare
@pytest.mark.timeout(0 if FLIPS else 600)
def test_no_flipped_byte_is_missed_answers_wrongly_crashes_or_stays(tmp_path: Path) -> None:
    project = Path(__file__).resolve().parents[2]
    environment = clean_environment() | {"PYTHONPATH": f"{project}:{project / 'tests' / 'support'}"}
    command = [sys.executable, __file__, str(tmp_path), str(FLIPS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    if FLIPS:
        Path("flips.jsonl").write_text(done.stdout, encoding="utf-8")
    results = list(map(json.loads, done.stdout.splitlines()))
    assert done.returncode == 0, (done.returncode, results[-1:])
    assert [result for result in results if result["fault"]] == []
    assert (len(results) >= len(SAMPLED), any(result["noticed"] for result in results)) == (True, True)


def kind_of(file: str) -> str:
    """What a file is, whatever its name: the telling folder above it, and its suffix."""
    path = Path(file)
    if path.name in {"CURRENT", "manifest.json"}:
        return path.name
    telling = (part for part in ("_indices", "_versions", "_refs", "data", "graph") if part in path.parts)
    return next(telling, "") + path.suffix


def settings_of(root: Path) -> Settings:
    return Settings(root=root, strategies=STRATEGIES)


def build(corpus: Path, root: Path) -> None:
    """Publishes a small corpus twice, the second time with an edit."""
    for more in ("", " It is old."):
        texts = (f"Town {n} lies on the River {n % 4} in Country {n % 3}.{more if n < 2 else ''}" for n in range(12))
        rows = ({"id": f"p{n:02d}", "title": f"Town {n}", "text": text} for n, text in enumerate(texts))
        indexed(settings_of(root), write_rows(corpus, rows))


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
    manifest = read_manifest(require_version(layout, INDEX)[1])
    vectors = {}
    for kind, record in manifest.vectors.items():
        pinned = open_vector_store(layout.index(INDEX)).open(record.table, record.table_version)
        vectors[kind] = pinned.read().sort_by("id").select(["id", "vector"]).to_pylist()
    tables = {name: record.checksum for name, record in manifest.tables.items() if name != "version_stages"}
    return {"tables": tables, "arrays": dict(manifest.arrays), "counts": dict(manifest.counts), "vectors": vectors}


def is_same_content(whole: Path, damaged: Path) -> bool:
    """Whether a file says the same although a byte of it differs."""
    try:
        if damaged.suffix == ".json" and damaged.name not in IRRELEVANT:
            return bool(json.loads(whole.read_bytes()) == json.loads(damaged.read_bytes()))
        is_same = damaged.name == "CURRENT" and int(whole.read_text()) == int(damaged.read_text())
        return is_same or damaged.name in IRRELEVANT
    except ValueError:
        return False


class Attack:
    """Cases against copies of one root."""

    def __init__(self, folder: Path) -> None:
        self.whole, self.corpus = folder / "whole", folder / "corpus.jsonl"
        build(self.corpus, self.whole)
        self.answers, self.content = answers_of(self.whole), content_of(self.whole)
        paths = [p for p in (self.whole / "indexes" / INDEX).rglob("*") if p.is_file() and p.name not in NO_VERSION]
        sizes = {path.relative_to(self.whole).as_posix(): path.stat().st_size for path in sorted(paths)}
        self.sizes = {file: size for file, size in sizes.items() if size}

    def files(self, flips: int) -> list[str]:
        """Each file so many times, or one file of each kind that is sampled."""
        if flips:
            return [file for file in self.sizes for _ in range(flips)]
        files = random.Random(20).sample([*self.sizes], len(self.sizes))
        return [file for kind, file in sorted({kind_of(file): file for file in files}.items()) if kind in SAMPLED]

    def run(self, folder: Path, file: str, rng: random.Random) -> dict[str, Any]:
        """What became of a flipped bit, and of the commands that heal; `fault`: "" if all was as promised."""
        result: dict[str, Any] = {"file": file, "offset": rng.randrange(self.sizes[file]), "bit": rng.randrange(8)}
        heal = rng.choice(("index", "full", "add", "repair"))
        result |= {"noticed": "", "asked": {}, "healed": [heal], "fault": ""}
        shutil.copytree(self.whole, folder, copy_function=shutil.copyfile)
        try:
            flip(folder / file, result["offset"], 1 << result["bit"])
            self._look(folder, file, result)
            self._heal(folder, heal, result["healed"])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            result["fault"] = f"{type(error).__name__}: {str(error)[:300]}"
        finally:
            close_encoders()
            shutil.rmtree(folder)
        return result

    def _look(self, root: Path, file: str, result: dict[str, Any]) -> None:
        result["noticed"] = noticed(root)[:300]
        for strategy, answer in answers_of(root).items():
            is_right = answer == self.answers[strategy]
            result["asked"][strategy] = "right" if is_right else str(answer)[:200]
            is_refused = isinstance(answer, str) and "polyhop " in answer
            assert is_right or is_refused, f"{strategy} answered wrongly: {str(answer)[:200]}"
        assert result["noticed"] or is_same_content(self.whole / file, root / file), "nothing noticed it"

    def _heal(self, root: Path, heal: str, healed: list[str]) -> None:
        """By this command and by a repair, each after the commands that its refusal names."""

        settings, folder = settings_of(root), Layout(root).index(INDEX)
        commands: dict[str, Callable[[], Any]] = {
            "index": lambda: indexed(settings, self.corpus),
            "full": lambda: indexed(settings, self.corpus, full=True),
            "add": lambda: indexed(settings, None),
            "repair": lambda: repair(settings, run_verify(settings, INDEX)),
            "newest": lambda: point_to(folder, published_versions(folder)[-1]),
        }
        named = {"polyhop versions": "newest", "polyhop index": "full", "polyhop verify": "repair"}
        for name in (heal, "repair"):
            for _ in range(3):
                try:
                    commands[name]()
                    break
                except PolyhopError as error:
                    told = next((command for command in named if command in str(error)), None)
                    if told is None:
                        raise AssertionError(f"{name} names no command: {error}") from error
                    healed.append(told)
                    commands[named[told]]()
        assert noticed(root) == "", "not healed"
        assert content_of(root) == self.content, "healed to something else"
        assert answers_of(root) == self.answers, "answers differ after healing"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    attack, source = Attack(place), random.Random(20)
    for number, chosen in enumerate(attack.files(int(sys.argv[2]))):
        # a path of its own for each: LanceDB keeps what it has read of a path
        sys.stdout.write(json.dumps(attack.run(place / f"case-{number}", chosen, source)) + "\n")
        sys.stdout.flush()
