"""What an index costs: seconds per stage, milliseconds per passage, peak memory, size on disk; and an edit of 1 %.

Run: uv run python benchmarks/index_cost.py [--one-process] [--cached ROOT] CORPUS [CORPUS …] | --save FOLDER CORPUS
Each corpus in a process of its own, with empty caches, or with the vectors that ROOT has cached. Of a corpus in
.jsonl(.gz) every hundredth text gets one more sentence, and the source is read again: as a whole, and with --partial
(those records only, with another sentence). Nothing is encoded meanwhile if ROOT has the vectors of the edited texts,
too: --save FOLDER writes the two edited files, to be indexed there before. Seconds are wall seconds, with processor
seconds of the run's own process beside them; of whole runs those of the processes that do its batches, too (none with
--one-process, runner.kind = local).
"""

import gzip
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from machine import describe_machine

from polyhop.flows.runner import DirectRunner

_Measured = dict[str, dict[str, float]]


class TimedRunner(DirectRunner):
    """Counts the processor seconds of this process for each stage."""

    def __init__(self, pool: Any) -> None:
        super().__init__(pool=pool)
        self.processor: Counter[str] = Counter()

    def batches(self, stage: Any, build: Any, numbers: list[int]) -> Iterator[Any]:
        """As usual."""
        start = time.process_time()
        yield from super().batches(stage, build, numbers)
        self.processor[stage.name] += time.process_time() - start

    def step(self, name: str, run: Callable[[], Any]) -> Any:
        """As usual."""
        start = time.process_time()
        done = super().step(name, run)
        self.processor[name.removesuffix(" finish")] += time.process_time() - start
        return done


def timed(settings: Any, request: Any) -> tuple[Any, _Measured]:
    """A run's report, and its wall and processor seconds by stage and in the whole."""
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import batch_pool

    wall, before = time.perf_counter(), processor_seconds()
    with batch_pool(settings) as pool:
        runner = TimedRunner(pool)
        report = run_index(settings, request, runner)
    stages = {name: {"wall": s, "processor": runner.processor[name]} for name, s in report.seconds.items()}
    own, others = (now - then for now, then in zip(processor_seconds(), before, strict=True))
    whole = {"wall": time.perf_counter() - wall, "processor": own, "in other processes": others}
    return report, stages | {"whole run": whole}


def processor_seconds() -> tuple[float, float]:
    """Of this process, and of those that it started and that ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), ended.ru_utime + ended.ru_stime


def measure(corpus: Path, root: Path, *, in_one_process: bool) -> dict[str, object]:
    """Indexes a corpus from nothing, then again, then edited."""
    from polyhop.schemas.requests import IndexRequest
    from polyhop.schemas.settings import parse_settings
    from polyhop.warehouse.machine import peak_rss_mb

    settings = parse_settings({"benchmark": {"root": str(root)} | ({"runner.kind": "local"} if in_one_process else {})})
    report, seconds = timed(settings, IndexRequest("bench", corpus))
    again, seconds_again = timed(settings, IndexRequest("bench", corpus))
    measured = {
        "corpus": corpus.parent.name,
        "passages": report.counts["passages"],
        "seconds": seconds,
        "again_seconds": seconds_again["whole run"]["wall"],
        "again_changed": again.changed,
        "peak_mb": peak_rss_mb(),
        "disk_mb": sum(f.stat().st_size for f in root.rglob("*") if f.is_file()) / 1e6,
        "edits": {},
    }
    for name, path, is_partial in edited(corpus, root):
        report, seconds = timed(settings, IndexRequest("bench", path, source_name="corpus", is_partial=is_partial))
        measured["edits"][name] = {"seconds": seconds, "changes": report.changes}
    return measured


def edited(corpus: Path, folder: Path) -> Iterator[tuple[str, Path, bool]]:
    """Files in which every hundredth record has one more sentence: name, path, whether it holds those records only."""
    if not corpus.name.endswith((".jsonl", ".jsonl.gz")):
        return
    open_text = gzip.open if corpus.suffix == ".gz" else open
    with open_text(corpus, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for row in rows[::100]:
        row["text"] += " A sentence was added."
    yield "1 % edited", written(rows, folder / "edited" / corpus.name), False
    for row in rows[::100]:
        row["text"] += " Another one was added."
    if "id" in rows[0]:
        yield "1 % edited, --partial", written(rows[::100], folder / "partial" / corpus.name), True


def written(rows: list[dict[str, object]], path: Path) -> Path:
    """The rows as a file of the name that the corpus has, for a document knows the file that it is from."""
    path.parent.mkdir()
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def main() -> None:
    """Measures each corpus and prints a Markdown table per corpus."""
    in_one_process = "--one-process" in sys.argv
    if in_one_process:
        sys.argv.remove("--one-process")
    if sys.argv[1] == "--measure":
        print(json.dumps(measure(Path(sys.argv[2]), Path(sys.argv[3]), in_one_process=in_one_process)))
        return
    if sys.argv[1] == "--save":
        print(*(path for _, path, _ in edited(Path(sys.argv[3]), Path(sys.argv[2]))), sep="\n")
        return
    print(describe_machine())
    cached = Path(sys.argv[2]) if sys.argv[1] == "--cached" else None
    for corpus in sys.argv[3:] if cached else sys.argv[1:]:
        with tempfile.TemporaryDirectory() as root:
            if cached:
                shutil.copytree(cached / "caches", Path(root) / "caches")
            command = [sys.executable, __file__, "--measure", corpus, root, *["--one-process"] * in_one_process]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        show(json.loads(done.stdout.splitlines()[-1]), "vectors from the cache" if cached else "empty caches")


def show(result: dict[str, Any], state: str) -> None:
    """Prints a table: stages of the first run and of each edit, wall and processor seconds."""
    runs: dict[str, _Measured] = {"first run": result["seconds"]}
    runs |= {name: edit["seconds"] for name, edit in result["edits"].items()}
    passages = result["passages"]
    print(f"\n{result['corpus']}: {passages:,} passages, {state}; wall seconds / processor seconds\n")
    print(f"| stage | {' | '.join(runs)} |\n|---|{'---|' * len(runs)}")
    for stage in dict.fromkeys(stage for seconds in runs.values() for stage in seconds):
        print(f"| {stage} | {' | '.join(_cell(seconds.get(stage)) for seconds in runs.values())} |")
    first = result["seconds"]["whole run"]
    others = first["in other processes"]
    encoding = [seconds for stage, seconds in result["seconds"].items() if stage.startswith("embed")]
    for kind, whole in (("wall", first["wall"]), ("processor", first["processor"] + others)):
        rest = whole - sum(seconds[kind] for seconds in encoding)
        print(f"\nall but encoding: {1000 * rest / passages:.2f} ms of {kind} time per passage")
    print(f"\nof the first run, {others:.1f} processor seconds more in other processes")
    for name, edit in result["edits"].items():
        whole = edit["seconds"]["whole run"]
        shares = whole["wall"] / first["wall"], whole["processor"] / (first["processor"] + others)
        print(f"{name} {edit['changes']}: {shares[0]:.1%} of its wall and {shares[1]:.1%} of its processor seconds")
    print(
        f"\npeak memory {result['peak_mb']:.0f} MB, {result['disk_mb']:.0f} MB on disk, "
        f"the same corpus again {result['again_seconds']:.2f} s (changed: {result['again_changed']})"
    )


def _cell(seconds: dict[str, float] | None) -> str:
    return "" if seconds is None else f"{seconds['wall']:.2f} / {seconds['processor']:.2f}"


if __name__ == "__main__":
    main()
