"""Ten questions over two passages in each of six languages: of how many both gold passages are among the first five.

Run: uv run python benchmarks/languages.py [--language CODE] [--set KEY=VALUE …] [--failures]
The corpora and questions are our own (benchmarks/data/languages), written before the rules were. `--language en` reads
all of them as English, as before there was a setting; `auto` detects each passage's and each question's language;
without it each is indexed under its own code.
"""

import argparse
import json
import tempfile
from pathlib import Path

from machine import describe_machine

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import parse_settings

DATA = Path(__file__).resolve().parent / "data" / "languages"
CODES = ("de", "fr", "es", "ru", "ar", "zh")
STRATEGIES = ("bm25", "bridge-lexical", "bridge", "dense")
FIRST = 5


def found(code: str, settings: dict[str, str], *, shows_failures: bool) -> dict[str, tuple[int, float]]:
    """By strategy: questions whose gold passages are all among the first five, and recall@5."""
    questions = [json.loads(line) for line in (DATA / f"{code}-questions.jsonl").read_text("utf-8").splitlines()]
    counts = {}
    with tempfile.TemporaryDirectory() as root:
        given = {"root": root, "strategies": ",".join(STRATEGIES), **settings}
        run_index(parse_settings({"flags": given}), IndexRequest(code, DATA / f"{code}-corpus.jsonl"), DirectRunner())
        with open_index(code, root=Path(root)) as index:
            for strategy in STRATEGIES:
                whole, share = 0, 0.0
                for row in questions:
                    answer = index.ask(row["question"], strategy=strategy)
                    first, gold = {p["id"] for p in answer.passages[:FIRST]}, set(row["supporting"])
                    whole += gold <= first
                    share += len(gold & first) / len(gold)
                    if shows_failures and not gold <= first:
                        print(strategy, row["id"], row["question"], "missed", sorted(gold - first))
                counts[strategy] = whole, share / len(questions)
    return counts


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", default="", help="a code, or auto; each corpus's own by default")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--failures", action="store_true")
    parser.add_argument("--codes", default=",".join(CODES))
    arguments = parser.parse_args()
    more = dict(given.split("=", 1) for given in arguments.set)
    print(f"{describe_machine()}\n\n| corpus | {' | '.join(STRATEGIES)} |\n|---|{'---|' * len(STRATEGIES)}")
    for code in arguments.codes.split(","):
        language = {"corpus.language": arguments.language or code}
        counts = found(code, language | more, shows_failures=arguments.failures)
        print(
            f"| {code} | " + " | ".join(f"{whole} ({share:.2f})" for whole, share in counts.values()) + " |", flush=True
        )


if __name__ == "__main__":
    main()
