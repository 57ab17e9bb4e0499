"""Every strategy, and variants of some, on MuSiQue-100, over the graph of rules and the imported openie graph.

Run: uv run python benchmarks/evaluation.py ROOT [MUSIQUE [STRATEGIES]]
MUSIQUE is the folder of the data set, default ../shared/data/musique100. STRATEGIES evaluates only these, separated by
commas, builds the indexes for them, and keeps the results of the others.
Builds both indexes under ROOT where they are missing, and writes benchmarks/results/musique100.json: means per
strategy, without times. benchmarks/readme_tables.py writes the tables of the docs from it.
"""

import json
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = PROJECT / "benchmarks" / "results" / "musique100.json"
ADDED = ("bridge-masked", "qasa", "naive-vector", "dense-ann", "proprag", "triple-ppr")
"""Strategies that an index is not built for by default."""
VARIANTS = (
    "graph-hybrid:title_aliases=true",
    "graph-hybrid:hub_top_percent=1",
    "graph-hybrid:mix=adaptive",
    "graph-hybrid:title_aliases=true:hub_top_percent=1:mix=adaptive",
    "graph-hybrid:entity_norm=none",
    "graph-hybrid:entity_norm=simple",
    "graph-hybrid:entity_norm=lower",
    "graph-hybrid:edge_cap=20",
    "graph-hybrid:ppr=push",
    "graph:entity_fallback=bm25_top1",
    "graph:entity_norm=simple",
    "graph:hub_top_percent=1",
)
"""SPRIG's refinements."""
KEPT = ("recall@2", "recall@5", "recall@10", "mrr", "em", "f1")


def polyhop(root: str, *arguments: str) -> str:
    """Standard output of a command."""
    command = [sys.executable, "-m", "polyhop.cli", *arguments, "--root", root]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=PROJECT).stdout


def evaluated(root: str, data: Path, index: str, strategies: str) -> dict[str, dict[str, float]]:
    """Mean metrics by strategy."""
    arguments = ("eval", str(data / "questions.jsonl"), "--index", index, "--strategies", strategies)
    report = json.loads(polyhop(root, *arguments, "--no-store", "--json"))
    return {name: {metric: result[metric] for metric in KEPT} for name, result in report["strategies"].items()}


def main() -> None:
    """Writes the results of one graph after the other."""
    root = str(Path(sys.argv[1]).resolve())
    data = Path(sys.argv[2] if len(sys.argv) > 2 else PROJECT.parent / "shared" / "data" / "musique100").resolve()
    named = sys.argv[3] if len(sys.argv) > 3 else ""
    added = [part for name in ADDED for part in ("--add-strategy", name)]
    wanted = ["--set", f"strategies={named}"] if named else added
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for index, extractor in (("musique", "rules"), ("musique-openie", f"import:{data / 'openie.jsonl'}")):
        polyhop(
            root, "index", str(data / "corpus.jsonl"), "--index", index, "--extractor", extractor, *wanted, "--json"
        )
        if named:
            results[index] |= evaluated(root, data, index, named)
        else:
            results[index] = evaluated(root, data, index, "all") | evaluated(root, data, index, ",".join(VARIANTS))
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
