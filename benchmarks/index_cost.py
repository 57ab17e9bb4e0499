"""What an index costs: seconds per stage, milliseconds per passage, peak memory, size on disk; and an edit of 1 %.

Run: uv run python benchmarks/index_cost.py [--processes] [--cached ROOT] CORPUS [CORPUS …] | --save FOLDER CORPUS
Each corpus in a process of its own, with empty caches, or with the vectors that ROOT has cached. Of a corpus in
.jsonl(.gz) every hundredth text gets one more sentence, and the source is read again: as a whole, and with --partial
(those records only, with another sentence). Nothing is encoded meanwhile if ROOT has the vectors of the edited texts,
too: --save FOLDER writes the two edited files, to be indexed there before. Seconds are wall seconds; of whole runs also
processor seconds, without those of the processes that do batches with --processes (runner.kind = processes).
"""

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from machine import describe_machine


def measure(corpus: Path, root: Path, *, on_all_cores: bool) -> dict[str, object]:
    """Indexes a corpus from nothing, then again, in this process, or with batches in further ones."""
    from polyhop.flows.index import run_index
    from polyhop.flows.pools import ProcessPool, usable_cores
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest
    from polyhop.schemas.settings import Settings
    from polyhop.warehouse.machine import peak_rss_mb

    settings = Settings(root=root)
    runner = DirectRunner(pool=ProcessPool(usable_cores()) if on_all_cores else None)
    start, processor = time.perf_counter(), time.process_time()
    report = run_index(settings, IndexRequest("bench", corpus), runner)
    whole = {"whole run": time.perf_counter() - start, "processor": time.process_time() - processor}
    start = time.perf_counter()
    again = run_index(settings, IndexRequest("bench", corpus), runner)
    again_seconds = time.perf_counter() - start
    measured = {
        "corpus": corpus.parent.name,
        "passages": report.counts["passages"],
        "seconds": report.seconds,
        "whole": whole,
        "again_seconds": again_seconds,
        "again_changed": again.changed,
        "peak_mb": peak_rss_mb(),
        "disk_mb": sum(f.stat().st_size for f in root.rglob("*") if f.is_file()) / 1e6,
        "edits": {},
    }
    for name, path, is_partial in edited(corpus, root):
        start, processor = time.perf_counter(), time.process_time()
        request = IndexRequest("bench", path, source_name="corpus", is_partial=is_partial)
        report = run_index(settings, request, runner)
        whole = {"whole run": time.perf_counter() - start, "processor": time.process_time() - processor}
        measured["edits"][name] = {"seconds": {**report.seconds, **whole}, "changes": report.changes}
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
    on_all_cores = "--processes" in sys.argv
    if on_all_cores:
        sys.argv.remove("--processes")
    if sys.argv[1] == "--measure":
        print(json.dumps(measure(Path(sys.argv[2]), Path(sys.argv[3]), on_all_cores=on_all_cores)))
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
            command = [sys.executable, __file__, "--measure", corpus, root, *["--processes"] * on_all_cores]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout.splitlines()[-1])
        passages = result["passages"]
        state = "vectors from the cache" if cached else "empty caches"
        print(f"\n{result['corpus']}: {passages:,} passages, {state}\n\n| stage | s | ms per passage |\n|---|---|---|")
        for stage, seconds in result["seconds"].items():
            print(f"| {stage} | {seconds:.2f} | {1000 * seconds / passages:.3f} |")
        rest = sum(s for stage, s in result["seconds"].items() if not stage.startswith("embed"))
        print(f"| all but encoding | {rest:.2f} | {1000 * rest / passages:.3f} |")
        print(f"| whole run | {result['whole']['whole run']:.2f} (processor {result['whole']['processor']:.2f}) | |")
        print(
            f"\npeak memory {result['peak_mb']:.0f} MB, {result['disk_mb']:.0f} MB on disk, "
            f"the same corpus again {result['again_seconds']:.2f} s (changed: {result['again_changed']})"
        )
        for name, edit in result["edits"].items():
            stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in edit["seconds"].items())
            print(f"\n{name} {edit['changes']}: {stages}")


if __name__ == "__main__":
    main()
