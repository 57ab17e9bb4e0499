"""Index and query cost against corpus size (SPRIG's Figure 1): generated corpora, one process per measurement.

Measures nothing itself (sweep_process.py does) and draws nothing (tasks/evaluation/sweep_plots.py does). Every result
is a file in the sweep's folder, so that a sweep which is started again measures only what is missing.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from polyhop.generation import write_generated
from polyhop.schemas.errors import MeasurementError
from polyhop.schemas.printable import plural
from polyhop.schemas.settings import Settings
from polyhop.schemas.variants import Variant, parse_variant
from polyhop.schemas.version import VERSION
from polyhop.sweep_process import ROOT
from polyhop.warehouse.files.disk import require_foreign, write_whole, writing
from polyhop.worker.strategies.registry import needed_artefacts

SWEEP_FILE = "sweep.json"
PAGE_FILE = "sweep.html"
# passages; chosen: about fourfold steps for a logarithmic axis, of which the largest takes a minute or so to index
# (benchmarks/README.md).
DEFAULT_SIZES = (1000, 5000, 20_000, 80_000)
DEFAULT_STRATEGIES = ("bm25", "bridge-lexical", "graph", "graph-hybrid")
"""Those that encode no passage; one that does pays for the encoder at every size."""

OnProgress = Callable[[str, int, int], None] | None


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """What to measure.

    Attributes:
        folder: Where corpora, indexes and results go; made if need be.
        sizes: Passages of the generated corpora, ascending.
        strategies: Names, or variants of them (variants.py).
        questions: Questions asked per size and strategy; fewer where a corpus has fewer passages.
        seed: Of the corpora.
    """

    folder: Path
    sizes: tuple[int, ...] = DEFAULT_SIZES
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES
    questions: int = 200
    seed: int = 13


def run_sweep(settings: Settings, request: SweepRequest, on_progress: OnProgress = None) -> dict[str, Any]:
    """Measures what is missing, writes sweep.json, plots and page, and returns the content of sweep.json.

    Raises:
        UnknownStrategyError: For a strategy that does not exist, before anything runs.
        ConfigurationError: For a parameter or a size out of its range, before anything runs.
        MeasurementError: If a process fails; what was measured before is kept.
        StoreError: If the disk refuses.
    """
    from polyhop.worker.strategies.registry import parse_parameters, spec_of

    require_foreign(request.folder)
    variants = [parse_variant(label, {}) for label in request.strategies]
    for variant in variants:
        parse_parameters(spec_of(variant.strategy), variant.parameters)
    sweep = _Sweep(settings, request, variants, on_progress).run()
    with writing("the sweep", request.folder):
        write_whole(request.folder / SWEEP_FILE, (json.dumps(sweep, indent=1, ensure_ascii=False) + "\n").encode())
    _write_page(request.folder, sweep)
    return sweep


class _Sweep:
    """The measurements of one request, in order of size."""

    def __init__(
        self, settings: Settings, request: SweepRequest, variants: Sequence[Variant], on_progress: OnProgress
    ) -> None:
        names = tuple(dict.fromkeys(variant.strategy for variant in variants))
        self._settings = settings.model_copy(update={"strategies": names})
        self._artefacts = sorted(needed_artefacts(names))
        self._request = request
        self._variants = variants
        self._on_progress = on_progress
        self._total = len(request.sizes) * (1 + len(variants))
        self._done = 0

    def run(self) -> dict[str, Any]:
        """The document of the sweep."""
        index: list[dict[str, Any]] = []
        query: dict[str, list[dict[str, Any]]] = {variant.label: [] for variant in self._variants}
        for passages in self._request.sizes:
            folder = self._request.folder / str(passages)
            index.append(self._index(folder, passages))
            for variant in self._variants:
                query[variant.label].append(self._query(folder, passages, variant))
        return {
            "sizes": list(self._request.sizes),
            "questions": self._request.questions,
            "seed": self._request.seed,
            "artefacts": self._artefacts,
            "index": index,
            "query": query,
        }

    def _index(self, folder: Path, passages: int) -> dict[str, Any]:
        """Always from nothing: what an earlier measurement left there is removed, caches included."""
        task = self._task("index", passages)
        path = folder / "index.json"
        known = _known(path, task)
        if known is None:
            with writing("a sweep", folder):
                shutil.rmtree(folder / ROOT, ignore_errors=True)
                for old in (path, *folder.glob("query-*.json")):
                    old.unlink(missing_ok=True)
            write_generated(folder, passages, min(passages, self._request.questions), self._request.seed)
        return self._measured(path, task, known)

    def _query(self, folder: Path, passages: int, variant: Variant) -> dict[str, Any]:
        task = {**self._task("query", passages), "strategy": variant.label}
        path = folder / f"query-{quote(variant.label, safe='')}.json"
        return self._measured(path, task, _known(path, task))

    def _task(self, measure: str, passages: int) -> dict[str, Any]:
        """All that a result depends on; one with another task is measured again."""
        settings = self._settings.model_dump_json(exclude={"root", "strategies", "queue", "worker", "keep_versions"})
        return {
            "measure": measure,
            "passages": passages,
            "questions": self._request.questions,
            "seed": self._request.seed,
            "artefacts": self._artefacts,
            "settings": hashlib.sha256(settings.encode()).hexdigest(),
            "polyhop": VERSION,
        }

    def _measured(self, path: Path, task: dict[str, Any], known: dict[str, Any] | None) -> dict[str, Any]:
        result = self._run(path, task) if known is None else known
        self._done += 1
        if self._on_progress is not None:
            self._on_progress("measurements", self._done, self._total)
        return result

    def _run(self, path: Path, task: dict[str, Any]) -> dict[str, Any]:
        order = {"task": task, "settings": self._settings.model_dump(mode="json"), "file": path.name}
        done = subprocess.run(
            [sys.executable, "-m", "polyhop.sweep_process"],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            cwd=path.parent,
            check=False,
        )
        result = _known(path, task)
        if done.returncode or result is None:
            raise MeasurementError(_what(task), done.returncode, done.stderr)
        return result


def _what(task: dict[str, Any]) -> str:
    asked = f"{task['strategy']} on " if "strategy" in task else "the index of "
    return f"{asked}{plural(task['passages'], 'passage')}"


def _known(path: Path, task: dict[str, Any]) -> dict[str, Any] | None:
    """The result of this very task if it was measured before, can be read, and its index is still there."""
    if not path.exists() or not (path.parent / ROOT).exists():
        return None
    try:
        document = json.loads(path.read_bytes())
    except ValueError:
        return None
    result: dict[str, Any] | None = document["result"] if document["task"] == task else None
    return result


def _write_page(folder: Path, sweep: dict[str, Any]) -> None:
    from polyhop.tasks.evaluation.sweep_plots import sweep_page, sweep_plots

    plots = sweep_plots(sweep)
    with writing("the page of the sweep", folder):
        for name, image in plots.items():
            write_whole(folder / name, image)
        write_whole(folder / PAGE_FILE, sweep_page(sweep, plots).encode())
