"""Compares encoders: recall of strategies on question sets, only the encoder changed, with paired 95 % intervals.

Run: uv run python benchmarks/encoders.py FOLDER [--sets hotpot,wiki2] [--encoders local,bge] [--data SHARED_DATA]
FOLDER keeps the sets, the indexes and the rows of every question, so that a run that was stopped goes on. Prints a
Markdown table and writes benchmarks/results/encoders.json, from which readme_tables.py makes the tables of the docs.
`bridge` was designed on musique100; bge's scale of cosines was chosen on musique100 and hotpot-tune (decision 0037).
"""

import argparse
import gzip
import json
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyhop.flows.evaluation.bootstrap import bootstrap_columns

PROJECT = Path(__file__).resolve().parent.parent
DATA = PROJECT.parent / "shared" / "data"
RESULTS = PROJECT / "benchmarks" / "results" / "encoders.json"
STRATEGIES = ("dense", "bm25", "rrf", "bridge", "bridge-masked")
ENCODERS = ("local", "bge")
METRICS = ("recall@5", "recall@10", "mrr")
SEED = 13
Records = list[dict[str, Any]]
Maker = Callable[[], tuple[Records, Records]]  # Makes a set: its corpus and questions.


def read_lines(path: Path) -> Records:
    """The records of a JSON Lines file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def training_questions(source: str) -> list[Records]:
    """The rows of each question of a source in reader_training, shuffled."""
    groups = defaultdict(list)
    with gzip.open(DATA / "reader_training" / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["source"] == source:
                groups[row["group"]].append(row)
    questions = [groups[number] for number in sorted(groups)]
    random.Random(SEED).shuffle(questions)
    return questions


def with_passages(questions: list[Records], more: list[Records], *, titled: bool = True) -> tuple[Records, Records]:
    """Corpus and questions: passages of `questions` and `more`, each text once; gold is what the source calls so."""
    ids: dict[tuple[str, str], str] = {}
    for row in (row for rows in (*questions, *more) for row in rows):
        ids.setdefault((row["title"], row["text"]), f"p{len(ids):05d}")
    corpus = [{"id": one, "title": title * titled, "text": text} for (title, text), one in ids.items()]
    asked = [
        {
            "id": f"q{number:03d}",
            "question": rows[0]["question"],
            "answers": sorted({answer for row in rows for answer in row["answers"]}),
            "supporting": sorted({ids[row["title"], row["text"]] for row in rows if row.get("gold")}),
        }
        for number, rows in enumerate(questions)
    ]
    return corpus, asked


def hotpot(first: int, last: int, *, titled: bool = True) -> tuple[Records, Records]:
    """HotpotQA questions with ten paragraphs, two of them gold."""
    whole = [rows for rows in training_questions("hotpotqa") if len(rows) == 10]
    return with_passages(
        [rows for rows in whole if sum(row.get("gold", False) for row in rows) == 2][first:last], [], titled=titled
    )


def single_hop(source: str) -> tuple[Records, Records]:
    """300 questions of a source among 1,000 of its passages, their own first."""
    questions = training_questions(source)
    corpus, asked = with_passages(questions[:300], questions[300:])
    return corpus[:1000], asked


def unseen() -> tuple[Records, Records]:
    """The five made-up corpora as one; questions without an answer are left out."""
    folder = PROJECT / "benchmarks" / "data" / "unseen"
    asked = [row for path in sorted(folder.glob("*_questions.jsonl")) for row in read_lines(path)]
    files = [path for path in sorted(folder.glob("*.jsonl")) if "_questions" not in path.name]
    return [row for path in files for row in read_lines(path)], [row for row in asked if row["supporting"]]


def published(name: str) -> tuple[Records, Records]:
    """A set as it is."""
    return read_lines(DATA / name / "corpus.jsonl"), read_lines(DATA / name / "questions.jsonl")


SETS: dict[str, Maker] = {
    "musique100": lambda: published("musique100"),
    "hotpot-tune": lambda: hotpot(0, 100),
    "hotpot": lambda: hotpot(100, 300),
    "hotpot-untitled": lambda: hotpot(100, 300, titled=False),
    "nq": lambda: single_hop("nq-open-oracle"),
    "squad": lambda: single_hop("squadshifts-new_wiki"),
    "unseen": unseen,
    "wiki2": lambda: published("wiki2"),
}


def polyhop(root: Path, *arguments: str) -> str:
    """Standard output of a command."""
    command = [sys.executable, "-m", "polyhop.cli", *arguments, "--root", str(root)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=PROJECT).stdout


def files_of(folder: Path, name: str, make: Maker) -> tuple[Path, Path]:
    """Corpus and questions of a set as files in a folder; made where they are missing."""
    corpus, questions = folder / f"{name}.jsonl", folder / f"{name}_questions.jsonl"
    if not questions.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for path, records in zip((corpus, questions), make(), strict=True):
            path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return corpus, questions


def rows_of(folder: Path, name: str, make: Maker, encoder: str) -> dict[str, dict[str, Any]]:
    """{strategy: {question: {metric: value}}}; makes the set and its index where they are missing."""
    slug = f"{name}-{Path(encoder).name if ':' in encoder else encoder}"
    corpus, questions = files_of(folder, name, make)
    if not (folder / "root" / "indexes" / slug / "CURRENT").exists():
        added = [part for one in ("bridge-masked", "rrf") for part in ("--add-strategy", one)]
        settings = ("--set", f"encoder.name={encoder}")
        polyhop(folder / "root", "index", str(corpus), "--index", slug, *settings, *added, "--json")
    out = folder / f"{slug}-rows.jsonl"
    if not out.exists():
        partial = out.with_suffix(".partial")
        labels = ("--strategies", ",".join(STRATEGIES), "--reader", "none", "--no-store", "--out", str(partial))
        polyhop(folder / "root", "eval", str(questions), "--index", slug, *labels, "--json")
        partial.replace(out)
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in read_lines(out):
        found[row["strategy"]][row["id"]] = row
    return found


def compared(rows: Sequence[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """{strategy: means of each encoder, and differences of the last to the first}, of the rows of the encoders."""
    found = {}
    for strategy in STRATEGIES:
        ids = sorted(rows[0][strategy])
        values = [np.array([[each[strategy][one][metric] for metric in METRICS] for one in ids]) for each in rows]
        differences = bootstrap_columns(values[-1] - values[0])
        found[strategy] = {
            "means": [dict(zip(METRICS, each.mean(axis=0).round(4).tolist(), strict=True)) for each in values],
            "differences": {m: one.as_row() for m, one in zip(METRICS, differences, strict=True)},
        }
    return found


def table(results: dict[str, Any]) -> str:
    """The comparison in Markdown: recall@5/@10 of both encoders, difference in recall@5 with interval and questions."""
    names = " | ".join(ENCODERS)
    lines = [
        f"| set (questions, passages) | strategy | {names} | difference at 5 | better/worse |",
        "|---|---|---|---|---|---|",
    ]
    for result in results.values():
        title = f"{result['name']} ({result['questions']:,}; {result['passages']:,})"
        for strategy, cells in result["strategies"].items():
            if strategy == "bm25":
                continue
            means = [f"{mean['recall@5']:.3f}/{mean['recall@10']:.3f}" for mean in cells["means"]]
            at_5 = cells["differences"]["recall@5"]
            interval = f"{at_5['difference']:+.3f} [{at_5['low']:.3f}, {at_5['high']:.3f}]"
            shown = f"**{interval}**" if at_5["significant"] else interval
            counts = f"{at_5['wins']}/{at_5['losses']}"
            lines.append(f"| {title} | `{strategy}` | {' | '.join(means)} | {shown} | {counts} |")
            title = ""
    return "\n".join(lines)


def main() -> None:
    """Compares the encoders on one set after the other; keeps the results of sets that are not asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--encoders", default=",".join(ENCODERS))
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parser.parse_args()
    globals()["DATA"] = arguments.data
    encoders = arguments.encoders.split(",")
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in arguments.sets.split(","):
        rows = [rows_of(arguments.folder, name, SETS[name], encoder) for encoder in encoders]
        counts = {"passages": len(read_lines(arguments.folder / f"{name}.jsonl")), "questions": len(rows[0]["dense"])}
        results[name] = {"name": name, **counts, "strategies": compared(rows)}
    ordered = {name: results[name] for name in SETS if name in results}
    if encoders == list(ENCODERS):
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    print(table(ordered))


if __name__ == "__main__":
    main()
