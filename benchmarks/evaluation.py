"""Every strategy on MuSiQue-100, over the graph of rules and over the imported openie graph: one command.

Run: uv run python benchmarks/evaluation.py ROOT [MUSIQUE]   (folder of the data set, default ../shared/data/musique100)
Builds both indexes under ROOT where they are missing. Each evaluation is stored with its report (polyhop eval --list).
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from machine import describe_machine

PROJECT = Path(__file__).resolve().parent.parent
ADDED = ("qasa", "naive-vector", "dense-ann")
SHOWN = ("recall@2", "recall@5", "recall@10", "mrr", "em", "f1")


def polyhop(root: str, *arguments: str) -> str:
    """Standard output of a command."""
    command = [sys.executable, "-m", "polyhop.cli", *arguments, "--root", root]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=PROJECT).stdout


def main() -> None:
    """Prints a Markdown table per index."""
    root = str(Path(sys.argv[1]).resolve())
    data = Path(sys.argv[2] if len(sys.argv) > 2 else PROJECT.parent / "shared" / "data" / "musique100").resolve()
    added = [part for name in ADDED for part in ("--add-strategy", name)]
    print(describe_machine())
    for index, extractor in (("musique", "rules"), ("musique-openie", f"import:{data / 'openie.jsonl'}")):
        start = time.perf_counter()
        polyhop(root, "index", str(data / "corpus.jsonl"), "--index", index, "--extractor", extractor, *added, "--json")
        indexed = time.perf_counter()
        arguments = ("eval", str(data / "questions.jsonl"), "--index", index, "--strategies", "all", "--json")
        report = json.loads(polyhop(root, *arguments))
        print(
            f"\n{index}: indexed in {indexed - start:.0f} s, {len(report['strategies'])} strategies evaluated in "
            f"{time.perf_counter() - indexed:.0f} s; {report['folder']}/report.html\n"
        )
        print(f"| strategy | {' | '.join(SHOWN)} | p50 / p95 ms |\n|---|" + "---|" * (len(SHOWN) + 1))
        rows = sorted(report["strategies"].items(), key=lambda pair: (-pair[1]["recall@5"], pair[0]))
        for name, result in rows:
            latency = result["latency_ms"]
            values = " | ".join(f"{result[metric]:.3f}" for metric in SHOWN)
            print(f"| `{name}` | {values} | {latency['p50']:.1f} / {latency['p95']:.1f} |")


if __name__ == "__main__":
    main()
