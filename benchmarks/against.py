"""Processor seconds of indexing, of an edit of 1 %, of `ask` and of a worker: this checkout against another one.

Run: uv run python benchmarks/against.py OTHER CORPUS QUESTIONS [ROUNDS]
OTHER is a checkout of another commit with its environment (`git worktree add OTHER a0c1150 && cd OTHER && uv sync`).
The sides take turns, and change places each round (default 3). Vectors are in both caches before the first round, so
that indexing encodes nothing. `ask` is a new process; a worker answers 400 questions per strategy.
"""

import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from machine import describe_machine

HERE = Path(__file__).resolve().parents[1]
STRATEGIES, QUESTION_COUNT = "bridge,bridge-lexical,graph-hybrid", "400"
QUESTION = "Which river flows through the birthplace of the author?"


def edited(lines):
    """The records, of which each hundredth says one sentence more."""
    rows = [json.loads(line) for line in lines]
    return [json.dumps(row | {"text": row["text"] + " It was seen again."} if n % 100 == 7 else row)
            for n, row in enumerate(rows)]  # fmt: skip


def seconds(side, *arguments):
    """Processor seconds of a program of one side, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(side / ".venv" / "bin" / "python"), *map(str, arguments)]
    done = subprocess.run(command, cwd=side, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def measure(side, folder, editions, questions):
    """{what: processor seconds, of a worker milliseconds per question} of one side in one round."""
    root, corpus = folder / "root", folder / "corpus.jsonl"
    at = ("--index", "corpus", "--root", root)
    shutil.rmtree(root / "indexes", ignore_errors=True)
    took = {}
    for what, lines in zip(("index", "edit of 1 %"), editions, strict=True):
        corpus.write_text("\n".join(lines) + "\n", encoding="utf-8")
        took[what] = seconds(side, "-m", "polyhop.cli", "index", corpus, *at)[0]
    took["ask"] = median(seconds(side, "-m", "polyhop.cli", "ask", QUESTION, *at)[0] for _ in range(3))
    table = seconds(side, "benchmarks/worker_throughput.py", root, "corpus", questions, STRATEGIES, QUESTION_COUNT)[1]
    rows = re.findall(r"^\| `(.+?)` \|.*?\|.*?\| ([\d.]+) \|", table, re.MULTILINE)
    return took | {f"worker, `{name}` (ms)": float(value) for name, value in rows}


def main(other, corpus, questions, rounds=3):
    """Prints Markdown: medians of both sides, and what this one takes of the other."""
    sides = {"other": Path(other).resolve(), "this": HERE}
    lines = Path(corpus).read_text(encoding="utf-8").splitlines()
    editions, found = (lines, edited(lines)), defaultdict(lambda: {"other": [], "this": []})
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place) / name for name in sides}
        for turn in range(-1, int(rounds)):  # the first one fills the caches
            for name in sorted(sides, reverse=turn % 2 == 1):
                folders[name].mkdir(exist_ok=True)
                for what, value in measure(sides[name], folders[name], editions, Path(questions).resolve()).items():
                    found[what][name] += [value] if turn >= 0 else []
    print(f"{describe_machine()}\n\n| | other | this | this / other |\n|---|---|---|---|")
    for what, of in found.items():
        one, two = median(of["other"]), median(of["this"])
        print(f"| {what} | {one:.2f} | {two:.2f} | {two / one:.2f} |")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
