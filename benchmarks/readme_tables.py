"""Writes the parts of README.md, docs/ and benchmarks/results that come from running things.

These are demo output, settings, the tables of strategies (from the results of benchmarks/evaluation.py), and what
larger corpora would cost (from what benchmarks/README.md states of a million passages), and the comparisons of encoders
and with published figures on 2Wiki (from the results of benchmarks/encoders.py).

Run: uv run python benchmarks/readme_tables.py [settings|demo|musique|strategies|scale|encoders|wiki2 …]
(all if none is named)
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import encoders

from polyhop.schemas.settings import known_settings

PROJECT = Path(__file__).resolve().parent.parent
README = PROJECT / "README.md"
SETTINGS = PROJECT / "docs" / "reference" / "settings.md"
STRATEGIES = PROJECT / "docs" / "reference" / "strategies.md"
MEASURED = PROJECT / "benchmarks" / "results" / "musique100.md"
SCALE = PROJECT / "docs" / "scale.md"
ENCODERS = PROJECT / "docs" / "how-to" / "encoders.md"
RESULTS = PROJECT / "benchmarks" / "results" / "musique100.json"
SHOWN = ("recall@2", "recall@5", "recall@10", "mrr")


def run(*arguments: str) -> str:
    """Standard output of a polyhop command in an empty root."""
    command = [sys.executable, "-m", "polyhop.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT).stdout


def settings() -> str:
    """All settings as a Markdown table."""
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for name, description, default in known_settings():
        shown = ", ".join(default) if isinstance(default, tuple) else str(default)
        rows.append(f"| `{name}` | {shown} | {description} |")
    return "\n".join(rows)


def demo() -> str:
    """What `polyhop demo` prints."""
    with tempfile.TemporaryDirectory() as root:
        printed = run("demo", "--root", f"{root}/polyhop-data")
        return "```console\n" + printed.replace(f" --root {root}/polyhop-data", "").replace(f"{PROJECT}/", "") + "```"


def musique() -> str:
    """Recall of every strategy with its default parameters over the graph of rules, in descending order of recall@5."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))["musique"]
    rows = [f"| strategy | {' | '.join(SHOWN)} |", "|---|" + "---|" * len(SHOWN)]
    for name, result in sorted(results.items(), key=lambda pair: (-pair[1]["recall@5"], pair[0])):
        if ":" not in name:
            rows.append(f"| `{name}` | " + " | ".join(f"{result[metric]:.3f}" for metric in SHOWN) + " |")
    return "\n".join(rows)


def strategies() -> str:
    """The same and the variants over both graphs, with exact match and F1 of the reader by rules."""
    rules, imported = json.loads(RESULTS.read_text(encoding="utf-8")).values()
    rows = [
        "| strategy | rules: R@2 / R@5 / R@10 / MRR | EM / F1 | openie: R@2 / R@5 / R@10 / MRR | EM / F1 |",
        "|---|---|---|---|---|",
    ]
    for name in sorted(rules, key=lambda name: (":" in name, -rules[name]["recall@5"] * (":" not in name), name)):
        cells = [
            " / ".join(f"{results[name][metric]:.3f}".removeprefix("0") for metric in metrics)
            if name in results
            else "not measured"
            for results in (rules, imported)
            for metrics in (SHOWN, ("em", "f1"))
        ]
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def encoder_sets() -> str:
    """Recall with each shipped encoder, by question set and strategy."""
    return encoders.table(json.loads(encoders.RESULTS.read_text(encoding="utf-8")))


NEEDS = {
    "bm25": "BM25",
    "dense": "1 encoding",
    "rrf": "1 encoding",
    "bridge": "1 encoding",
    "bridge-masked": "2 encodings",
}
"""Cost of a question by strategy; none asks a model."""
ENCODER_NAMES = {"local": "MiniLM (22M)", "bge": "bge-small (33M)"}
LLAMA, NV_EMBED = "Llama-3.3-70B", "NV-Embed-v2 (7B)"
PUBLISHED = (
    # Method, paper, encoder, model while indexing, cost of a question, recall@5
    ("BridgeRAG", "2604.03384", NV_EMBED, "none", f"3 calls of {LLAMA}, 4 to 5 s", ".953"),
    ("PropRAG", "2504.18070", NV_EMBED, LLAMA, "encodings of paths", ".941"),
    ("SAG", "2606.15971", "bge-large (335M)", "qwen3.6-flash", "calls of qwen3.6-flash", ".933 (its repository: .880)"),
    ("HippoRAG 2", "2502.14802", NV_EMBED, LLAMA, f"1 call of {LLAMA}", ".904"),
)
"""Recall@5 on the 1,000 questions of the split, as the papers state it."""


def wiki2() -> str:
    """Our strategies with both encoders on the papers' own 2Wiki split, beside what papers publish."""
    results = json.loads(encoders.RESULTS.read_text(encoding="utf-8"))["wiki2"]["strategies"]
    rows = []
    for strategy, needs in NEEDS.items():
        for number, encoder in enumerate(encoders.ENCODERS):
            if strategy == "bm25" and number:
                continue
            found = results[strategy]["means"][number]
            recall = " | ".join(f"{found[metric]:.3f}".removeprefix("0") for metric in ("recall@5", "recall@10"))
            name = ENCODER_NAMES[encoder] if strategy != "bm25" else "none"
            rows.append((found["recall@5"], f"| `{strategy}` | {name} | none | {needs} | {recall} |"))
    ours = [row for _, row in sorted(rows, reverse=True)]
    theirs = [
        f"| [{method}](https://arxiv.org/abs/{paper}) | {' | '.join(columns)} | |"
        for method, paper, *columns in PUBLISHED
    ]
    head = "| method | encoder | model while indexing | cost of a question | recall@5 | recall@10 |"
    return "\n".join([head, "|---|---|---|---|---|---|", *ours, *theirs])


SLOPES = (
    # What, how much per million passages, and decimals. Sources: benchmarks/README.md, the sections named.
    ("index without encoding or a model, core hours", 1080 / 3600, 1),  # A million passages: processor seconds
    ("encode by the local encoder, core hours", 2 * 13.9e3 / 3600, 1),  # Indexing: 13.9 ms per passage on two cores
    ("disk, one version with vectors, GB", 8.0, 0),  # A million passages
    ("memory of an index run, GB", 3.8, 0),  # A million passages
    ("memory of a worker with `bridge`, GB", 1.3, 0),  # A million passages
    ("extraction by a model, single calls, USD", 1.34 / 1890 * 1e6, 0),  # Indexing: musique100 by gpt-4o-mini
    ("extraction by a model, batches, USD", 0.67 / 1890 * 1e6, 0),  # Indexing: the same
)


def scale() -> str:
    """What 1, 10 and 100 million passages cost: the first column measured, the others that times the size."""
    rows = ["| | 1 million | 10 million | 100 million |", "|---|--:|--:|--:|"]
    rows += [
        f"| {what} | {' | '.join(f'{n * slope:,.{digits}f}' for n in (1, 10, 100))} |" for what, slope, digits in SLOPES
    ]
    return "\n".join(rows)


PARTS = {
    "settings": ("settings table", settings, (SETTINGS,)),
    "demo": ("demo output", demo, (README,)),
    "musique": ("musique table", musique, (README, STRATEGIES)),
    "strategies": ("strategies table", strategies, (MEASURED,)),
    "scale": ("scale table", scale, (SCALE,)),
    "encoders": ("encoders table", encoder_sets, (ENCODERS,)),
    "wiki2": ("wiki2 table", wiki2, (README,)),
}
"""Marker, what produces the part, and the pages that it stands on."""


def replaced(text: str, marker: str, content: str) -> str:
    """A page with the part between the marker's two lines replaced."""
    begin, end = f"<!-- {marker}: begin -->", f"<!-- {marker}: end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)


def main() -> None:
    """Rewrites the pages."""
    for name in sys.argv[1:] or PARTS:
        marker, produce, pages = PARTS[name]
        content = produce()
        for page in pages:
            page.write_text(replaced(page.read_text(encoding="utf-8"), marker, content), encoding="utf-8")


if __name__ == "__main__":
    main()
