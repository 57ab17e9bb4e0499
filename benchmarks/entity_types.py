"""Accuracy of entity types on 520 entities whose types a person wrote down before types were judged by a network.

Run: uv run python benchmarks/entity_types.py [--wrong] [DATA]   (DATA: wiki2/ and musique100/;
--wrong lists the faults of the half for tuning)
Labels (data/entity_types.jsonl): 200 titles of wiki2; 200 names in first sentences of wiki2 that are no title; 120 such
names in any sentence of musique100; all drawn by hash, names as often as they are mentioned. NONE is what has none of
the five types: demonyms, languages, religions, pieces of a longer name. Several types are right where a person
could not say: a page that only says `may refer to`, a rank without its bearer, a piece of a longer name.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from machine import describe_machine

from polyhop.schemas.names import title_keys

PROJECT = Path(__file__).resolve().parent.parent
LABELS = Path(__file__).parent / "data" / "entity_types.jsonl"
TYPES = (
    "SELECT key, type FROM entities WHERE is_named UNION ALL SELECT a.alias_key, e.type FROM aliases AS a "
    "JOIN entities AS e USING (entity_id) WHERE a.kind = 'er' AND a.alias_key <> e.key"
)


def polyhop(root: str, *arguments: str) -> str:
    """Standard output of a command."""
    command = [sys.executable, "-m", "polyhop.cli", *arguments, "--root", root]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=PROJECT).stdout


def types_of(corpus: Path) -> dict[str, str]:
    """Type by key of an index of this corpus with the encoder that types are judged by."""
    with tempfile.TemporaryDirectory() as root:
        polyhop(root, "index", str(corpus), "--index", "labelled", "--set", "strategies=bridge", "--json")
        out = polyhop(root, "sql", "--index", "labelled", "--json", TYPES)
    return {row["key"]: row["type"] or "NONE" for row in json.loads(out)}


def main() -> None:
    """Prints a Markdown table."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--wrong"]
    data = Path(arguments[0]) if arguments else PROJECT.parent / "shared" / "data"
    labels = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    right: Counter[tuple[str, str, str]] = Counter()
    asked: Counter[tuple[str, str, str]] = Counter()
    wrong = []
    for name in ("wiki2", "musique100"):
        corpus = data / name / "corpus.jsonl"
        types = types_of(corpus)
        records = map(json.loads, corpus.read_text(encoding="utf-8").splitlines())
        titles = {record["id"]: record["title"] for record in records}
        for label in (label for label in labels if label["corpus"] == name):
            key = label.get("key") or title_keys(titles[label["id"]])[0]
            found = types.get(key, "NONE")  # what is dropped as no name has no type
            allowed = "either" if "NONE" in label["types"] else "typed"
            for what in ("all", "untyped" if label["types"] == ["NONE"] else allowed):
                row = (f"{name}, {label['kind']}s", label["part"], what)
                asked[row] += 1
                right[row] += found in label["types"]
            if found not in label["types"] and label["part"] == "tuning":
                wrong.append(f"{label['kind']} {key}: {found}, not {' or '.join(label['types'])}")
    print(
        f"{describe_machine()}\n\n| entities | part | all | of a type | without | either |\n|---|---|---|---|---|---|"
    )
    for entities, part in dict.fromkeys((entities, part) for entities, part, _ in asked):
        rows = [(entities, part, what) for what in ("all", "typed", "untyped", "either")]
        print(f"| {entities} | {part} | {' | '.join(f'{right[row]} of {asked[row]}' for row in rows)} |")
    if "--wrong" in sys.argv:
        print("", *wrong, sep="\n")


if __name__ == "__main__":
    main()
