"""Do files, disk and time stay bounded over many incremental runs? One document is edited per run.

Run: uv run python benchmarks/many_runs.py [--runs 200] [--documents 200] [--every 10] [--root FOLDER]

Prints files and MB of the root (without the assembled encoder) and the seconds of the runs, by the clock and of the
processor, at 1, 50, 100, 150 and 200.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_maintenance
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest, MaintenanceRequest, Size
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.disk import size_of
from polyhop.warehouse.files.layout import Layout

SHOWN = (1, 50, 100, 150, 200)


def main() -> None:
    """Prints a line per shown run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--every", type=int, default=10, help="runs between maintenance; 0: none")
    parser.add_argument("--root", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="polyhop-runs-") as folder:
        measure(options.root or Path(folder), options.runs, options.documents, options.every)


def measure(root: Path, runs: int, documents: int, every: int) -> None:
    """Runs `runs` times, each with another text of one document."""
    root.mkdir(parents=True, exist_ok=True)
    corpus, settings = root / "corpus.jsonl", Settings(root=root / "data")
    editions = dict.fromkeys(range(documents), 0)
    recent: list[tuple[float, float]] = []
    print("  run  files      MB  seconds  of the processor (medians of the last 10)")
    for number in range(1, runs + 1):
        editions[number % documents] += 1
        corpus.write_text("".join(json.dumps(record(n, edition)) + "\n" for n, edition in editions.items()))
        start, busy = time.perf_counter(), time.process_time()
        run_index(settings, IndexRequest("many", corpus), DirectRunner())
        recent = [*recent, (time.perf_counter() - start, time.process_time() - busy)][-10:]
        if every and number % every == 0:
            run_maintenance(settings, MaintenanceRequest())
        if number in SHOWN or number == runs:
            held = disk(settings.root)
            seconds, processor = (median(values) for values in zip(*recent, strict=True))
            print(f"{number:5}{held.files:7,}{held.bytes / 1e6:8.1f}{seconds:9.2f}{processor:9.2f}", flush=True)


def record(number: int, edition: int) -> dict[str, str]:
    """A document about a town, whose text its edition changes."""
    river, country = number % 17, number % 5
    text = f"Town {number} lies on the River {river} in Country {country}. Its mayor is Person {edition * 31 + number}."
    return {"id": f"d{number:05d}", "title": f"Town {number}", "text": text}


def disk(root: Path) -> Size:
    """All of a root but the encoder's graph."""
    layout = Layout(root)
    whole, models = size_of(root), size_of(layout.model_cache)
    return Size(whole.files - models.files, whole.bytes - models.bytes)


if __name__ == "__main__":
    main()
