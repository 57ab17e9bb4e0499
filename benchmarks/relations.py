"""Facts that rules read from the sentences of an invented company, and a sample of relations to judge by reading.

Run: uv run python benchmarks/relations.py facts
     uv run python benchmarks/relations.py sample FILE [--data SHARED_DATA]
     uv run python benchmarks/relations.py precision FILE [FILE …]
`facts` indexes data/company/documents.jsonl and counts the facts of facts.jsonl that are relations of the graph; both
were written before relations were read from sentences. `sample` draws 200 labelled relations (neither `mentions` nor
`related to`), 50 of each of four corpora, by hash, each with its sentence; a person adds `is_right`. `precision` prints
the share that is right per file and corpus, with Wilson's 95 % interval. Right: the label says what the sentence says
of source and target, in this direction.
"""

import argparse
import hashlib
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from polyhop.schemas.names import NameFinder, name_tokens
from polyhop.schemas.records import Passage
from polyhop.tasks.extraction.rules import rules_page

PROJECT = Path(__file__).resolve().parent.parent
COMPANY = PROJECT / "benchmarks" / "data" / "company"
UNLABELLED = ("mentions", "related to")
PER_CORPUS = 50
SEED = "relations 68"  # another one was looked at while the rules were written
RELATIONS = (
    "SELECT s.name AS source, r.relation, t.name AS target FROM relations AS r "
    "JOIN entities AS s ON s.entity_id = r.source_id JOIN entities AS t ON t.entity_id = r.target_id"
)


def polyhop(root: str, *arguments: str) -> str:
    """Standard output of a command."""
    command = [sys.executable, "-m", "polyhop.cli", *arguments, "--root", root]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=PROJECT).stdout


def facts() -> None:
    """Prints how many facts are relations of the graph, and the missing ones."""
    with tempfile.TemporaryDirectory() as root:
        documents = str(COMPANY / "documents.jsonl")
        polyhop(root, "index", documents, "--index", "company", "--set", "strategies=bridge-lexical", "--json")
        rows = json.loads(polyhop(root, "sql", "--index", "company", "--json", RELATIONS))
    graph = {(key(row["source"]), row["relation"], key(row["target"])) for row in rows}
    wanted = [json.loads(line) for line in (COMPANY / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
    missing = [fact for fact in wanted if not any(is_stated(fact_, graph) for fact_ in fact["relations"])]
    for name, some in (("newcomer", [f for f in wanted if f["is_newcomer"]]), ("all", wanted)):
        print(f"{name} facts in the graph: {sum(fact not in missing for fact in some)} of {len(some)}")
    labelled = [row for row in rows if row["relation"] not in UNLABELLED]
    print(f"relations {len(rows)}, labelled {len(labelled)}")
    for fact in missing:
        print(f"missing ({fact['document']}): {fact['question']}")


def key(name: str) -> str:
    """The key of a name, without a form of company that resolution may add."""
    return " ".join(name_tokens(name))


def is_stated(fact: list[str], graph: set[tuple[str, str, str]]) -> bool:
    """Returns whether the graph has a relation between these names whose label has one of the words, `|` between."""
    sources, labels, targets = fact
    return any(
        source in {key(name) for name in sources.split("|")}
        and target in {key(name) for name in targets.split("|")}
        and re.search(labels, label) is not None
        for source, label, target in graph
    )


def corpora(data: Path) -> dict[str, Path]:
    """Corpora to draw from, by name."""
    return {
        "company": COMPANY / "documents.jsonl",
        "demo": PROJECT / "polyhop" / "demo" / "corpus.jsonl",
        "wiki2": data / "wiki2" / "corpus.jsonl",
        "musique100": data / "musique100" / "corpus.jsonl",
    }


def passages(path: Path) -> list[Passage]:
    """Records of a corpus, one passage each."""
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Passage(r["id"], r["id"], r["id"], 0, r["title"], r["text"], 0, len(r["text"])) for r in records]


def sample(file: Path, data: Path) -> None:
    """Writes the relations to judge, and prints how many there are and what extraction takes."""
    lines = []
    for corpus, path in corpora(data).items():
        pages = passages(path)
        finder = NameFinder([page.title for page in pages])
        started = time.process_time()
        found = [rules_page(page, finder) for page in pages]
        seconds = time.process_time() - started
        rows = [
            {"corpus": corpus, "title": page.passage.title, "source": s, "label": label, "target": t, "sentence": said}
            for page in found
            for ((s, label, t), _) in page.relations
            if label not in UNLABELLED
            for said in [sentence_of(page, s, t, label)]
        ]
        every = sum(len(page.relations) for page in found)
        print(f"{corpus}: {every} relations, {len(rows)} labelled; {1000 * seconds / len(pages):.3f} ms per passage")
        lines += sorted(rows, key=order)[:PER_CORPUS]
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines), encoding="utf-8")


def order(row: dict[str, str]) -> str:
    """The hash by which relations are drawn."""
    text = "\n".join((SEED, row["corpus"], row["title"], row["source"], row["label"], row["target"]))
    return hashlib.sha256(text.encode()).hexdigest()


def sentence_of(page: object, source: str, target: str, label: str) -> str:
    """The sentence that has most of the names and words of a relation."""
    text, rows = page.passage.text, page.rows  # type: ignore[attr-defined]
    words = set(label.split())

    def score(span: tuple[int, int]) -> tuple[int, int]:
        start, end = span
        has = sum(any(start <= a < end for a, _ in rows[name].spans) for name in (source, target) if name in rows)
        return has, len(words & set(text[start:end].lower().split()))

    best = max(page.sentences, key=score, default=(0, len(text)))  # type: ignore[attr-defined]
    return " ".join(text[slice(*best)].split())


def wilson(right: int, count: int) -> tuple[float, float]:
    """95 % interval of a share."""
    z, share = 1.96, right / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return middle - half, middle + half


def precision(files: list[Path]) -> None:
    """Prints the share of right relations."""
    for file in files:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for name, some in groups(rows):
            right = sum(row["is_right"] for row in some)
            low, high = wilson(right, len(some))
            share = f"{right / len(some):.3f} ({low:.3f} to {high:.3f})"
            print(f"{file.stem} {name}: {right} of {len(some)} right, {share}")


def groups(rows: list[dict[str, object]]) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """All rows, and those of each corpus."""
    yield "all", rows
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        yield str(corpus), [row for row in rows if row["corpus"] == corpus]


def main() -> None:
    """Runs the chosen part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("facts", "sample", "precision"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data")
    given = parser.parse_args()
    if given.part == "facts":
        facts()
    elif given.part == "sample":
        sample(given.files[0], given.data)
    else:
        precision(given.files)


if __name__ == "__main__":
    main()
