"""Milliseconds per passage of extraction by rules, part by part.

Run: uv run python benchmarks/extraction.py [folder with wiki2/ and wiki20k/]
"""

import gzip
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from polyhop.schemas.languages import plain_tokens, stem_tokens
from polyhop.schemas.names import NameFinder, split_sentences
from polyhop.schemas.records import Passage
from polyhop.schemas.types import find_dates, find_numbers
from polyhop.tasks.extraction.rows import bundle_of
from polyhop.tasks.extraction.rules import rules_page

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
CORPORA = ("musique100/corpus.jsonl", "wiki2/corpus.jsonl", "wiki20k/corpus.jsonl.gz")


def lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        yield from file


def passages(path: Path) -> list[Passage]:
    records = map(json.loads, lines(path))
    return [Passage(r["id"], r["id"], "", 0, r["title"], r["text"], 0, len(r["text"])) for r in records]


def milliseconds(work: Callable[[], object]) -> float:
    """Best of three, so that a busy machine does not count."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best * 1000


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor()
    return next((row.split(": ")[1] for row in info.read_text().splitlines() if row.startswith("model name")), "?")


def measure(path: Path) -> None:
    corpus = passages(path)
    titles = [passage.title for passage in corpus]
    finder = NameFinder(titles)
    parts: dict[str, Callable[[], object]] = {
        "names": lambda: [finder.find(p.text) for p in corpus],
        "dates and numbers": lambda: [(dates := find_dates(p.text), find_numbers(p.text, dates)) for p in corpus],
        "sentences": lambda: [split_sentences(p.text) for p in corpus],
        "everything together": lambda: bundle_of(rules_page(passage, finder) for passage in corpus),
        "stems (BM25)": lambda: [stem_tokens(p.text) for p in corpus],
        "plain tokens (BM25)": lambda: [plain_tokens(p.text) for p in corpus],
    }
    characters = sum(len(p.text) for p in corpus) / len(corpus)
    print(f"\n{path.parent.name}: {len(corpus)} passages of {characters:.0f} characters, {len(set(titles))} titles")
    print(f"  {'finder built in':22}{milliseconds(lambda: NameFinder(titles)):9.1f} ms")
    for name, work in parts.items():
        print(f"  {name:22}{milliseconds(work) / len(corpus):9.3f} ms per passage")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    print(f"{processor()}, one thread, Python {platform.python_version()}")
    for name in CORPORA:
        if (folder / name).exists():
            measure(folder / name)


if __name__ == "__main__":
    main()
