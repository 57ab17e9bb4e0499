"""SPRIG's Figure 1: index cost, question cost and memory against corpus size, on generated corpora.

Every measurement runs in a process of its own, so that its peak memory is its own, and is a file in the folder of its
size: a run that is started again measures only what is missing. Source: algorithms.md 2.11, 6.4.
Run: uv run python benchmarks/papers/cost_against_size.py FOLDER [--sizes 1000,5000] [--strategies bm25,graph]
     [--questions 200] [--seed 13] [--vectors] [--exact-below 200000] [--edit 1000]
     [--memory-mb 1000]  (the setting, of the index run)
With --vectors texts are embedded without a model (mixture.py), and what an approximate search loses is measured. With
--edit so many passages get one more sentence afterwards, and the whole source is read again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from drawing import at, curves, drawing, figure, legend, logarithmic_ticks, looks, number, png, rows
from generated_corpus import CORPUS_FILE, QUESTIONS_FILE, write_generated
from mixture import NAME, install

from polyhop.flows.evaluation.page import GREY, Document
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.requests import Variant, parse_variant
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import names_in
from polyhop.schemas.version import VERSION
from polyhop.warehouse.files.disk import write_whole, writing
from polyhop.warehouse.machine import peak_rss_mb
from polyhop.worker.strategies.registry import needed_artefacts, parse_parameters, spec_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SWEEP_FILE = "sweep.json"
DEFAULT_SIZES = (1000, 5000, 20_000, 80_000)
"""About fourfold steps for a logarithmic axis; the largest takes a minute or so to index."""
DEFAULT_STRATEGIES = ("bm25", "bridge-lexical", "graph", "graph-hybrid")
"""Those that encode no passage; one that does pays for the encoder at every size."""
INDEX_NAME = "sweep"
ROOT = Path("root")
LIMIT = 10
"""Passages asked for, as `polyhop ask` does."""

Result = dict[str, Any]
STAGES_DRAWN = 5  # curves; chosen: with that of all stages six of the seven colours
Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """What to measure.

    Attributes:
        folder: Where corpora, indexes and results go; made if need be.
        sizes: Passages of the generated corpora, ascending.
        strategies: Names, or variants of them.
        questions: Questions asked per size and strategy; fewer where a corpus has fewer passages.
        seed: Of the corpora.
        edited: Passages that are edited at the end; 0: none.
    """

    folder: Path
    sizes: tuple[int, ...] = DEFAULT_SIZES
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES
    questions: int = 200
    seed: int = 13
    edited: int = 0


def run_sweep(settings: Settings, request: SweepRequest) -> dict[str, Any]:
    """Measures what is missing, writes sweep.json and the plots, and returns the content of sweep.json.

    Raises:
        UnknownStrategyError: For a strategy that does not exist, before anything runs.
        ConfigurationError: For a parameter or a size out of its range, before anything runs.
        SystemExit: If a process fails; what was measured before is kept.
        StoreError: If the disk refuses.
    """
    variants = [parse_variant(label, {}) for label in request.strategies]
    for variant in variants:
        parse_parameters(spec_of(variant.strategy), variant.parameters)
    sweep = _Sweep(settings, request, variants).run()
    with writing("the sweep", request.folder):
        write_whole(request.folder / SWEEP_FILE, (json.dumps(sweep, indent=1, ensure_ascii=False) + "\n").encode())
        for name, image in sweep_plots(sweep).items():
            write_whole(request.folder / name, image)
    return sweep


class _Sweep:
    """The measurements of one request, in order of size."""

    def __init__(self, settings: Settings, request: SweepRequest, variants: Sequence[Variant]) -> None:
        names = tuple(dict.fromkeys(variant.strategy for variant in variants))
        self._settings = settings.model_copy(update={"strategies": names})
        self._artefacts = sorted(needed_artefacts(names))
        self._request = request
        self._variants = variants

    def run(self) -> dict[str, Any]:
        """The document of the sweep."""
        index: list[dict[str, Any]] = []
        edit: list[dict[str, Any]] = []
        query: dict[str, list[dict[str, Any]]] = {variant.label: [] for variant in self._variants}
        for passages in self._request.sizes:
            folder = self._request.folder / str(passages)
            index.append(self._index(folder, passages))
            for variant in self._variants:
                query[variant.label].append(self._query(folder, passages, variant))
            if self._request.edited:
                edit.append(self._edit(folder, passages))
        return {
            "sizes": list(self._request.sizes),
            "questions": self._request.questions,
            "seed": self._request.seed,
            "artefacts": self._artefacts,
            "index": index,
            "query": query,
            "edit": edit,
        }

    def _index(self, folder: Path, passages: int) -> dict[str, Any]:
        """Always from nothing: what an earlier measurement left there is removed, caches included."""
        task = self._task("index", passages)
        path = folder / "index.json"
        known = _known(path, task)
        if known is None:
            with writing("a sweep", folder):
                shutil.rmtree(folder / ROOT, ignore_errors=True)
                for old in (path, folder / "edit.json", *folder.glob("query-*.json")):
                    old.unlink(missing_ok=True)
            write_generated(folder, passages, min(passages, self._request.questions), self._request.seed)
        return self._measured(path, task, known)

    def _query(self, folder: Path, passages: int, variant: Variant) -> dict[str, Any]:
        task = {**self._task("query", passages), "strategy": variant.label}
        path = folder / f"query-{quote(variant.label, safe='')}.json"
        return self._measured(path, task, _known(path, task))

    def _edit(self, folder: Path, passages: int) -> dict[str, Any]:
        task = {**self._task("edit", passages), "edited": self._request.edited}
        return self._measured(folder / "edit.json", task, _known(folder / "edit.json", task))

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
        print(json.dumps(result), file=sys.stderr)
        return result

    def _run(self, path: Path, task: dict[str, Any]) -> dict[str, Any]:
        order = {"task": task, "settings": self._settings.model_dump(mode="json"), "file": path.name}
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--here"],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            cwd=path.parent,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},  # else each process compiles what opening imports
            check=False,
        )
        result = _known(path, task)
        if done.returncode or result is None:
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            sys.exit(f"Measuring {_what(task)} failed (exit code {done.returncode}): {said}")
        return result


def _what(task: dict[str, Any]) -> str:
    asked = f"{task['strategy']} on " if "strategy" in task else "the index of "
    return f"{asked}{task['passages']:,} passages"


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


def measure_index(settings: Settings, task: Mapping[str, Any]) -> Result:
    """Indexes the corpus of this folder; {passages, seconds, ms_per_passage, cpu_seconds, stages, peak_rss_mb, …}."""
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest

    start, cpu_start = time.perf_counter(), time.process_time()
    report = run_index(settings, IndexRequest(INDEX_NAME, Path(CORPUS_FILE)), DirectRunner())
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return {
        "passages": task["passages"],
        "seconds": round(seconds, 3),
        "ms_per_passage": round(1000 * seconds / task["passages"], 4),
        "cpu_seconds": round(cpu_seconds, 3),
        "stages": {stage: round(taken, 3) for stage, taken in report.seconds.items()},
        "peak_rss_mb": peak_rss_mb(),
        "disk_mb": _disk_mb(ROOT / "indexes" / INDEX_NAME),
    }


def measure_edit(settings: Settings, task: Mapping[str, Any]) -> Result:
    """Adds a sentence to passages spread over the corpus and indexes it again; as `measure_index`."""
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest

    path, every = ROOT / "edited" / CORPUS_FILE, max(1, task["passages"] // task["edited"])
    path.parent.mkdir(exist_ok=True)
    with Path(CORPUS_FILE).open(encoding="utf-8") as before, path.open("w", encoding="utf-8") as after:
        for number, line in enumerate(before):
            row = json.loads(line) if number % every == 0 else {}
            after.write(json.dumps({**row, "text": f"{row['text']} It was read again."}) + "\n" if row else line)
    start, cpu_start = time.perf_counter(), time.process_time()
    report = run_index(settings, IndexRequest(INDEX_NAME, path, source_name="corpus"), DirectRunner())
    return {
        "passages": task["passages"],
        "changes": report.changes,
        "seconds": round(time.perf_counter() - start, 3),
        "cpu_seconds": round(time.process_time() - cpu_start, 3),
        "stages": {stage: round(taken, 3) for stage, taken in report.seconds.items()},
        "peak_rss_mb": peak_rss_mb(),
    }


def measure_query(settings: Settings, task: Mapping[str, Any]) -> Result:
    """Asks the questions of this folder one by one, the first one twice; {p50_ms, …, peak_rss_mb}.

    Measured is what finds passages, the encoding of the question included; nothing is read. Opening reads files from
    the disk, and ends with the first question's passages.
    """
    from polyhop.api import open_index
    from polyhop.flows.evaluation.metrics import latency_milliseconds
    from polyhop.schemas.query import Question
    from polyhop.schemas.requests import parse_variant
    from polyhop.warehouse.files.questions import read_questions

    variant = parse_variant(task["strategy"], {})
    records, _ = read_questions(Path(QUESTIONS_FILE))
    os.sync()  # pages that are not written yet stay in memory, and writing them slows reading down
    for path in ROOT.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    opened = time.perf_counter()
    with open_index(INDEX_NAME, settings=settings) as index:
        answerer = index.session.answerer(variant.strategy, variant.parameters)
        answerer.retrieve([Question(records[0].question)], limit=LIMIT)
        opening_seconds = time.perf_counter() - opened
        times, recalls, rankings = [], [], []
        for record in records:
            start = time.perf_counter()
            (found,) = answerer.retrieve([Question(record.question, record.id)], limit=LIMIT)
            times.append(time.perf_counter() - start)
            gold = set(record.supporting)
            rankings.append([passage.passage_id for passage in found.passages])
            recalls.append(len(gold.intersection(rankings[-1])) / len(gold))
        peak, exact, exact_recall = peak_rss_mb(), None, None
        if index.session.published.artefacts >= {"vectors:passage"}:
            exact, exact_recall = _against_exact(index.session, variant, records, rankings)
    latency = latency_milliseconds(times)
    return {
        "passages": task["passages"],
        **{f"{name}_ms": round(value, 4) for name, value in latency.items() if value is not None},
        "total_seconds": round(sum(times), 4),
        "gold_recall_10": round(sum(recalls) / len(recalls), 4),
        "recall_10_of_exact": exact,
        "exact_gold_recall_10": exact_recall,
        "opening_seconds": round(opening_seconds, 3),
        "peak_rss_mb": peak,
    }


def _against_exact(
    session: Any, variant: Variant, records: Sequence[Any], rankings: Sequence[Sequence[str]]
) -> tuple[float, float]:
    """Share of the exact first passages that were found, and the gold recall of the exact ranking."""
    from polyhop.schemas.query import Question
    from polyhop.warehouse.artefacts import IS_LARGE, partitioned

    # as in a version that is not large
    found_exactly = {partitioned(kind): None for kind in ("passage", "entity")}
    session.published._opened.update({IS_LARGE: False, **found_exactly})  # noqa: SLF001
    with_all = session.answerer(variant.strategy, {**variant.parameters, "rerank": False})
    shares, recalls = [], []
    for record, ranking in zip(records, rankings, strict=True):
        (found,) = with_all.retrieve([Question(record.question, record.id)], limit=LIMIT)
        first = {passage.passage_id for passage in found.passages}
        shares.append(len(first.intersection(ranking)) / max(1, len(first)))
        recalls.append(len(first.intersection(record.supporting)) / len(record.supporting))
    return round(sum(shares) / len(shares), 4), round(sum(recalls) / len(recalls), 4)


def _disk_mb(folder: Path) -> float:
    """Bytes of all files below a folder, in megabytes (10**6 bytes)."""
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 2)


_MEASURES: Mapping[str, Callable[[Settings, Mapping[str, Any]], Result]] = {
    "index": measure_index,
    "query": measure_query,
    "edit": measure_edit,
}


def sweep_plots(sweep: Document) -> dict[str, bytes]:
    """Index cost, query latency and memory against the number of passages, as far as they were measured.

    Args:
        sweep: {"sizes", "index": [{passages, seconds, ms_per_passage, stages, peak_rss_mb, disk_mb}],
            "query": {strategy: [{passages, p50_ms, p95_ms, p99_ms, peak_rss_mb}]}}.

    Returns:
        PNG bytes by file name; equal documents give equal bytes.
    """
    drawn = {"index_cost.png": _index_cost, "query_latency.png": _query_latency, "memory.png": _memory}
    with drawing():
        figures = {name: draw(sweep) for name, draw in drawn.items()}
        return {name: png(made) for name, made in figures.items() if made is not None}


def sweep_table(sweep: Document) -> str:
    """A Markdown table: a row per size; per strategy p50 / p95 in ms, gold recall@10, seconds to open, peak MB."""
    names = _strategies(sweep)
    head = ["passages", "ms per passage", "peak memory MB", "disk MB", *(f"`{name}`" for name in names)]
    lines = [head, ["---"] * len(head)]
    for place, index in enumerate(rows(sweep, "index")):
        asked = [_asked(sweep, name)[place] for name in names]
        cells = [
            f"{one['p50_ms']:.1f} / {one['p95_ms']:.1f}, {_recalls(one)}, {one['opening_seconds']:.1f} s, "
            f"{one['peak_rss_mb']:,.0f} MB"
            for one in asked
        ]
        measured = (f"{index[key]:,.2f}" for key in ("ms_per_passage", "peak_rss_mb", "disk_mb"))
        lines.append([f"{index['passages']:,}", *measured, *cells])
    edits = [
        f"An edit of {edit['changes']['changed']:,} of {edit['passages']:,} passages: {edit['cpu_seconds']:,.1f} s of "
        f"the processor, {edit['cpu_seconds'] / index['cpu_seconds']:.1%} of a full run; {edit['peak_rss_mb']:,.0f} MB"
        for edit, index in zip(rows(sweep, "edit"), rows(sweep, "index"), strict=False)
    ]
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), *edits])


def _recalls(asked: Document) -> str:
    """Gold recall; where a search was approximate, beside the exact one's, and the share of its passages found."""
    if asked["recall_10_of_exact"] is None:
        return f"{asked['gold_recall_10']:.3f}"
    of_exact = f"{asked['recall_10_of_exact']:.3f} of the exact ten"
    return f"{asked['gold_recall_10']:.3f} (exact {asked['exact_gold_recall_10']:.3f}, {of_exact})"


def _index_cost(sweep: Document) -> Figure | None:
    measured = rows(sweep, "index")
    total, each = _points(measured, "seconds"), _points(measured, "ms_per_passage")
    if not total:
        return None
    drawn, panels = figure(4.2, columns=2)
    lines = {"all stages": total} | {
        stage: points for stage in _largest_stages(measured) if (points := _points(measured, "stages", stage))
    }
    entries = curves(panels[0], lines, looks(list(lines)), markers=len(total))
    entries |= _proportional(panels[0], total)
    _sizes(panels[0], [x for x, _ in total])
    _positive(panels[0], lines)
    panels[0].set(title="Time to index", ylabel="seconds (logarithmic)")
    if each:
        curves(panels[1], {"all stages": each}, looks(list(lines), of=["all stages"]), markers=len(each))
        panels[1].set_ylim(0, 1.25 * max(y for _, y in each))
    _sizes(panels[1], [x for x, _ in total])
    panels[1].set(title="Time per passage", ylabel="milliseconds per passage")
    legend(drawn, entries)
    return drawn


def _query_latency(sweep: Document) -> Figure | None:
    lines = {label: points for label in _strategies(sweep) if (points := _points(_asked(sweep, label), "p95_ms"))}
    if not lines:
        return None
    drawn, (axes,) = figure(4.4)
    entries = curves(axes, lines, looks(_strategies(sweep), of=list(lines)), markers=len(sweep["sizes"]))
    entries = {_with_slope(label, lines): artist for label, artist in entries.items()}
    entries |= _proportional(axes, min(lines.values(), key=lambda points: points[0][1]))
    _sizes(axes, [x for points in lines.values() for x, _ in points])
    _positive(axes, lines)
    axes.set(title="Time of a question against corpus size", ylabel="p95 latency (milliseconds, logarithmic)")
    legend(drawn, entries)
    return drawn


def _memory(sweep: Document) -> Figure | None:
    measured = rows(sweep, "index")
    found = {
        "indexing, memory": _points(measured, "peak_rss_mb"),
        "index on disk": _points(measured, "disk_mb"),
    } | {f"{label}, memory": _points(_asked(sweep, label), "peak_rss_mb") for label in _strategies(sweep)}
    lines = {name: points for name, points in found.items() if points}
    if not lines:
        return None
    drawn, (axes,) = figure(4.4)
    entries = curves(axes, lines, looks(list(found), of=list(lines)), markers=len(sweep["sizes"]))
    _sizes(axes, [x for points in lines.values() for x, _ in points])
    _positive(axes, lines)
    axes.set(title="Memory and disk against corpus size", ylabel="megabytes (logarithmic)")
    legend(drawn, entries)
    return drawn


def _points(measured: Sequence[Document], *keys: str) -> Points:
    """(passages, value) by size, where both are above 0: a logarithmic axis has no place for the others."""
    found = [(number(row, "passages"), number(row, *keys)) for row in measured]
    return sorted((x, y) for x, y in found if x is not None and y is not None and x > 0 and y > 0)


def _largest_stages(measured: Sequence[Document]) -> list[str]:
    """The stages that take longest at the largest size, longest first."""
    largest = max(measured, key=lambda row: number(row, "passages") or 0.0)
    seconds = {str(stage): number(largest, "stages", str(stage)) or 0.0 for stage in at(largest, "stages") or {}}
    return sorted(seconds, key=lambda stage: (-seconds[stage], stage))[:STAGES_DRAWN]


def _proportional(axes: Axes, total: Points) -> dict[str, Artist]:
    """A line of slope 1 through the first point: twice the passages, twice the time."""
    (x, y), (last, _) = total[0], total[-1]
    if last <= x:
        return {}
    (line,) = axes.plot([x, last], [y, y * last / x], color=GREY, linestyle=":", linewidth=1.4)
    return {"in proportion": line}


def slope(points: Points) -> float | None:
    """Slope on logarithmic axes between the two largest sizes: 1 is in proportion, 0 is flat; None for one size."""
    if len(points) == 1:
        return None
    (first, low), (last, high) = points[-2:]
    return log(high / low) / log(last / first)


def _with_slope(label: str, lines: Mapping[str, Points]) -> str:
    steepness = slope(lines[label])
    return label if steepness is None else f"{label}, slope {steepness:.2f}"


def _sizes(axes: Axes, passages: Sequence[float]) -> None:
    """A logarithmic axis of passages whose ticks are the sizes measured, where their labels have room."""
    sizes = sorted(set(passages))
    ticks = spaced(sizes)
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{size:,.0f}" for size in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(sizes[0] / 1.4, sizes[-1] * 1.4)
    axes.set_xlabel("passages (logarithmic)")


def spaced(sizes: Sequence[float]) -> list[float]:
    """The first of these ascending sizes, and each that is a fifth of a logarithmic axis after the one kept before."""
    least = log10(1.4**2 * sizes[-1] / sizes[0]) / 5  # 1.4: the axis goes on at both ends
    kept = [sizes[0]]
    for size in sizes[1:]:
        if log10(size / kept[-1]) >= least:
            kept.append(size)
    return kept


def _positive(axes: Axes, lines: Mapping[str, Points]) -> None:
    logarithmic_ticks(axes, "y", [y for points in lines.values() for _, y in points])


def _strategies(sweep: Document) -> list[str]:
    return [str(label) for label in at(sweep, "query") or {}]


def _asked(sweep: Document, label: str) -> list[Document]:
    return rows(sweep, "query", label)


def measure_here() -> None:
    """Measures what standard input says, and writes {task, result} to the file that it names."""
    install()
    order = json.load(sys.stdin)
    task = order["task"]
    settings = Settings.model_validate({**order["settings"], "root": str(ROOT)})
    try:
        result = _MEASURES[task["measure"]](settings, task)
    except PolyhopError as error:
        sys.exit(str(error))
    document = {"task": task, "result": result}
    write_whole(Path(order["file"]), json.dumps(document, indent=1, ensure_ascii=False).encode())


def main() -> None:
    """Measures and draws what the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", default=",".join(map(str, DEFAULT_SIZES)))
    parser.add_argument("--strategies", default=",".join(DEFAULT_STRATEGIES))
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--edit", type=int, default=0)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--exact-below", type=int, default=Settings().search.exact_below)
    parser.add_argument("--memory-mb", type=int, default=Settings().memory_mb)
    given = parser.parse_args()
    request = SweepRequest(
        folder=given.folder,
        sizes=tuple(sorted({int(size) for size in given.sizes.split(",")})),
        strategies=tuple(dict.fromkeys(names_in(given.strategies))),
        questions=given.questions,
        seed=given.seed,
        edited=given.edit,
    )
    encoder = {"name": NAME} if given.vectors else {}
    search = {"exact_below": given.exact_below}
    settings = Settings.model_validate({"encoder": encoder, "search": search, "memory_mb": given.memory_mb})
    print(sweep_table(run_sweep(settings, request)))


if __name__ == "__main__":
    measure_here() if sys.argv[1:] == ["--here"] else main()
