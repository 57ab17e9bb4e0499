"""Proposition paths on MuSiQue-100: tables like the PropRAG paper's, each by one `polyhop eval`, with 95 % intervals.

Run: uv run python benchmarks/proposition_tables.py ROOT [MUSIQUE]   (the data set's folder, default
../shared/data/musique100). Builds the indexes under ROOT where they are missing: propositions by rules (musique),
imported triples (musique-openie), and the sentences of the former beside the triples of the latter (sentences).
Each evaluation is stored with its report (polyhop eval --list). Nobody reads.
"""

import json
import sys
from pathlib import Path
from typing import Any

from evaluation import PROJECT, polyhop
from machine import describe_machine

SHOWN = ("recall@2", "recall@5", "recall@10")
CHANGES = (
    *("exact=false", "exact_when_few=false", "allow_unconnected=true", "seeds=explore_only", "seeds=exploit_only"),
    *("stage1_only=true", "preset=hipporag2"),
)
TABLES = {
    "Length of paths": ("proprag:max_length=1..4", "proprag:max_length=3"),
    "Width of the beam": ("proprag:beam_width=1..6", "proprag:beam_width=4"),
    "What is left out": (f"proprag,{','.join(f'proprag:{change}' for change in CHANGES)},dense,bridge", "proprag"),
}
"""Heading: strategies, and the baseline that the differences are to."""

UNITS = "proprag,proprag:preset=hipporag2,triple-ppr,triple-ppr:preset=proprag"


def evaluate(root: str, data: Path, index: str, strategies: str, *more: str) -> dict[str, Any]:
    """The JSON of one evaluation, stored."""
    arguments = ("--index", index, "--strategies", strategies, "--reader", "none", "--json", *more)
    report: dict[str, Any] = json.loads(polyhop(root, "eval", str(data / "questions.jsonl"), *arguments))
    return report


def show(report: dict[str, Any]) -> None:
    """A row per strategy: means with intervals, and the difference of recall@5 to the baseline."""
    baseline = report["baseline"]
    print(f"| strategy | {' | '.join(SHOWN)} | recall@5 minus `{baseline}` |\n|---|" + "---|" * (len(SHOWN) + 1))
    for name, result in report["strategies"].items():
        means = " | ".join(f"{_short(result[metric])} {_interval(result['intervals'][metric])}" for metric in SHOWN)
        print(f"| `{name}` | {means} | {_difference(report['paired'], name, baseline)} |")


def _difference(paired: dict[str, Any], name: str, baseline: str) -> str:
    if name == baseline:
        return ""
    if f"{name} vs {baseline}" in paired:
        found, sign = paired[f"{name} vs {baseline}"]["recall@5"], 1
    else:
        found, sign = paired[f"{baseline} vs {name}"]["recall@5"], -1
    low, high = sorted((sign * found["low"], sign * found["high"]))
    return f"{_short(sign * found['difference'], '+')} {_interval({'low': low, 'high': high}, '+')}"


def _interval(bounds: dict[str, float], sign: str = "") -> str:
    return f"[{_short(bounds['low'], sign)}, {_short(bounds['high'], sign)}]"


def _short(value: float, sign: str = "") -> str:
    return f"{round(value, 3) + 0.0:{sign}.3f}".replace("0.", ".")  # + 0.0: no -0


def build(root: Path, data: Path) -> None:
    """The three indexes; those that are there change nothing."""

    def index(name: str, extractor: str, *more: str) -> None:
        wanted = ("--add-strategy", "proprag", "--add-strategy", "triple-ppr")
        arguments = (str(data / "corpus.jsonl"), "--index", name, "--extractor", extractor, *wanted, *more)
        polyhop(str(root), "index", *arguments, "--json")

    index("musique", "rules")
    index("musique-openie", f"import:{data / 'openie.jsonl'}")
    sentences, joined = root / "sentences.jsonl", root / "sentences-and-triples.jsonl"
    polyhop(str(root), "export", "extraction", str(sentences), "--index", "musique")
    propositions = {row["id"]: row["propositions"] for row in map(json.loads, sentences.open(encoding="utf-8"))}
    with joined.open("w", encoding="utf-8") as file:  # the triples of one, each passage with the sentences of the other
        for row in map(json.loads, (data / "openie.jsonl").open(encoding="utf-8")):
            row["propositions"] = propositions.get(row["id"], [])
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    index("sentences", f"import:{joined}")


def main() -> None:
    """Prints Markdown."""
    root = Path(sys.argv[1]).resolve()
    data = Path(sys.argv[2] if len(sys.argv) > 2 else PROJECT.parent / "shared" / "data" / "musique100").resolve()
    root.mkdir(parents=True, exist_ok=True)
    print(describe_machine())
    build(root, data)
    for heading, (strategies, baseline) in TABLES.items():
        print(f"\n### {heading}\n")
        show(evaluate(str(root), data, "musique-openie", strategies, "--baseline", baseline))
    for index in ("musique", "sentences"):
        print(f"\n### {index}\n")
        show(evaluate(str(root), data, index, UNITS, "--baseline", "proprag"))


if __name__ == "__main__":
    main()
