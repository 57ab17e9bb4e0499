"""What an index costs: seconds per stage, milliseconds per passage, peak memory, size on disk.

Run: uv run python benchmarks/index_cost.py [--cached ROOT] CORPUS [CORPUS …]
Each corpus in a process of its own, with empty caches, or with a copy of the vectors that ROOT has cached.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe_machine


def measure(corpus: Path, root: Path) -> dict[str, object]:
    """Indexes a corpus from nothing, then again, in this process."""
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest
    from polyhop.schemas.settings import Settings
    from polyhop.warehouse.machine import peak_rss_mb

    settings = Settings(root=root)
    report = run_index(settings, IndexRequest("bench", corpus), DirectRunner())
    start = time.perf_counter()
    again = run_index(settings, IndexRequest("bench", corpus), DirectRunner())
    return {
        "corpus": corpus.parent.name,
        "passages": report.counts["passages"],
        "seconds": report.seconds,
        "again_seconds": time.perf_counter() - start,
        "again_changed": again.changed,
        "peak_mb": peak_rss_mb(),
        "disk_mb": sum(f.stat().st_size for f in root.rglob("*") if f.is_file()) / 1e6,
    }


def main() -> None:
    """Measures each corpus and prints a Markdown table per corpus."""
    if sys.argv[1] == "--measure":
        print(json.dumps(measure(Path(sys.argv[2]), Path(sys.argv[3]))))
        return
    print(describe_machine())
    cached = Path(sys.argv[2]) if sys.argv[1] == "--cached" else None
    for corpus in sys.argv[3:] if cached else sys.argv[1:]:
        with tempfile.TemporaryDirectory() as root:
            if cached:
                shutil.copytree(cached / "caches", Path(root) / "caches")
            command = [sys.executable, __file__, "--measure", corpus, root]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout.splitlines()[-1])
        passages = result["passages"]
        state = "vectors from the cache" if cached else "empty caches"
        print(f"\n{result['corpus']}: {passages:,} passages, {state}\n\n| stage | s | ms per passage |\n|---|---|---|")
        for stage, seconds in result["seconds"].items():
            print(f"| {stage} | {seconds:.2f} | {1000 * seconds / passages:.3f} |")
        rest = sum(s for stage, s in result["seconds"].items() if not stage.startswith("embed"))
        print(f"| all but encoding | {rest:.2f} | {1000 * rest / passages:.3f} |")
        print(
            f"\npeak memory {result['peak_mb']:.0f} MB, {result['disk_mb']:.0f} MB on disk, "
            f"the same corpus again {result['again_seconds']:.2f} s (changed: {result['again_changed']})"
        )


if __name__ == "__main__":
    main()
