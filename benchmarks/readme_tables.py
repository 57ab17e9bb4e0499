"""Writes the parts of README.md and docs/ that come from running things: demo output, recall table, settings.

Run: uv run python benchmarks/readme_tables.py [settings|demo|musique …]   (all if none is named)
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from polyhop.schemas.settings import known_settings

PROJECT = Path(__file__).resolve().parent.parent
README = PROJECT / "README.md"
SETTINGS = PROJECT / "docs" / "reference" / "settings.md"
STRATEGIES = PROJECT / "docs" / "reference" / "strategies.md"
MUSIQUE = PROJECT.parent / "shared" / "data" / "musique100"
ADDED = ("bridge-masked", "qasa", "naive-vector", "dense-ann")
"""Strategies that an index is not built for by default."""
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
    """Recall of every strategy with its default parameters on MuSiQue-100, the best by recall@5 first."""
    with tempfile.TemporaryDirectory() as root:
        added = (part for name in ADDED for part in ("--add-strategy", name))
        run("index", str(MUSIQUE / "corpus.jsonl"), "--index", "musique", "--root", root, *added)
        printed = run(
            "eval", str(MUSIQUE / "questions.jsonl"), "--index", "musique", "--root", root, "--json",
            "--strategies", "all", "--no-store",
        )  # fmt: skip
    rows = [f"| strategy | {' | '.join(SHOWN)} |", "|---|" + "---|" * len(SHOWN)]
    results = json.loads(printed)["strategies"]
    for name, result in sorted(results.items(), key=lambda pair: (-pair[1]["recall@5"], pair[0])):
        rows.append(f"| `{name}` | " + " | ".join(f"{result[metric]:.3f}" for metric in SHOWN) + " |")
    return "\n".join(rows)


PARTS = {
    "settings": ("settings table", settings, (SETTINGS,)),
    "demo": ("demo output", demo, (README,)),
    "musique": ("musique table", musique, (README, STRATEGIES)),
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
