"""Precision and recall of telling namesakes apart, by pairs of passages that mention one name, and recall@5 of bridge.

Run: uv run python benchmarks/namesakes.py [DATA]   (DATA: wiki2/ and musique100/)
A pair is merged if both passages mention the name as one entity. A passage that the rules leave undecided keeps the
name for itself: it counts as split from all that are decided. Truth of the generated set is known by construction:
towns in one or two regions, people with or without a company of their name. On wiki2 titles with parentheses are truth:
pages whose titles differ in them only are different things.
"""

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

from machine import describe_machine

from polyhop.schemas.text import without_last_parenthesis

PROJECT = Path(__file__).resolve().parent.parent
LEVELS = ("name", "name_type", "context")
SEED = 33
Truth = dict[str, dict[str, str]]
"""Spelling of a name to passage id to the thing that is meant."""


def polyhop(root: str, *arguments: str) -> str:
    """Standard output of a command."""
    command = [sys.executable, "-m", "polyhop.cli", *arguments, "--root", root]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=PROJECT).stdout


def generated() -> tuple[list[dict[str, str]], Truth]:
    """A corpus of places, people and their namesakes, and who is meant where."""
    chosen = random.Random(SEED)
    syllables = ("bar", "den", "fel", "gor", "hal", "kin", "lor", "mer", "nor", "pel", "ros", "tav", "ul", "vin", "wex")
    made: set[str] = set()

    def word(end: str = "") -> str:
        while True:
            name = ("".join(chosen.sample(syllables, 2)) + end).capitalize()
            if name not in made:
                made.add(name)
                return name

    rows: list[dict[str, str]] = []
    truth: Truth = {}

    def add(title: str, text: str, name: str, meant: str) -> None:
        row = f"g{len(rows):04}"
        rows.append({"id": row, "title": title, "text": text})
        truth.setdefault(name, {})[row] = meant

    regions = [word("ia") for _ in range(8)]
    for number in range(30):
        town = word("ton")
        bearers = chosen.sample(regions, 2) if number < 20 else [chosen.choice(regions)]
        for region in bearers:
            river, school, mayor = f"River {word()}", f"{word()} School", f"{word()} {word('son')}"
            told = number % 2 == 0
            at = f"{town}, {region}" if told else town
            title = f"{town} ({region})" if not told and len(bearers) > 1 else mayor
            add(title, f"{mayor} was the mayor of a town. {mayor} was born in {at}.", town, region)
            add(school, f"{school} lies in {town} on the {river}. {mayor} studied there.", town, region)
            add(river, f"The {river} flows through {at}. It passes {school}.", town, region)
            add(word("feld"), f"A market is held in {town} near {school} every year.", town, region)
            add(word("holm"), "People like to row, and many do so in " + town + ".", town, region)
    for number in range(20):
        name = word("ell")
        person = f"{name} is a singer. {name} was born in {chosen.choice(regions)} and met {{other}}."
        firm = f"{name} is a company that makes pumps. {name} was founded by {{other}}."
        others = [f"{word()} {word('son')}", f"{word()} {word('man')}"]
        for kind, text, other in zip(("person", "firm"), (person, firm), others, strict=True):
            if kind == "firm" and number >= 10:
                continue
            add(f"{name} ({kind})" if number % 2 else other, text.format(other=other), name, kind)
            add(f"{other} Award", f"{other} knew {name} well. {text.format(other=other)}", name, kind)
    return rows, truth


def wiki_truth(rows: Iterable[dict[str, str]]) -> Truth:
    """Names that several titles share, and the pages of these."""
    truth: Truth = {}
    for row in rows:
        name = without_last_parenthesis(row["title"])
        truth.setdefault(name, {})[row["id"]] = row["title"]
    return {name: pages for name, pages in truth.items() if len(set(pages.values())) > 1}


def entities_of(root: str) -> dict[tuple[str, str], set[str]]:
    """(passage, first word of an entity's name in lower case) to keys."""
    query = (
        "SELECT p.record_id AS record, e.key AS key FROM mentions AS m JOIN entities AS e USING (entity_id) "
        "JOIN passages AS p ON p.passage_id = m.unit_id WHERE e.is_named"
    )
    found: dict[tuple[str, str], set[str]] = {}
    for row in json.loads(polyhop(root, "sql", "--index", "one", "--json", query)):
        found.setdefault((row["record"], row["key"].split()[0]), set()).add(row["key"])
    return found


def measure(truth: Truth, found: dict[tuple[str, str], set[str]]) -> str:
    """Precision and recall of merges and of splits over pairs of passages that mention one name."""
    from polyhop.schemas.names import name_tokens

    counts = {(same, merged): 0 for same in (True, False) for merged in (True, False)}
    for name, meant in truth.items():
        words = name_tokens(name)
        keys = {}
        for row in meant:
            own = found.get((row, words[0]), set()) if words else set()
            keys[row] = {key for key in own if key.split()[: len(words)] == words}
        for a, b in combinations(sorted(row for row in meant if keys[row]), 2):
            counts[meant[a] == meant[b], bool(keys[a] & keys[b])] += 1

    def share(part: int, whole: int) -> str:
        return f"{part / whole:.3f} ({part} of {whole})" if whole else "- (0)"

    merged = counts[True, True] + counts[False, True]
    split = counts[True, False] + counts[False, False]
    same = counts[True, True] + counts[True, False]
    other = counts[False, True] + counts[False, False]
    return " | ".join(
        (
            share(counts[True, True], merged),
            share(counts[True, True], same),
            share(counts[False, False], split),
            share(counts[False, False], other),
        )
    )


def main() -> None:
    """Prints Markdown tables."""
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT.parent / "shared" / "data"
    rows, truth = generated()
    wiki = data / "wiki2" / "corpus.jsonl"
    wiki_rows = [json.loads(line) for line in wiki.read_text(encoding="utf-8").splitlines()]
    print(f"{describe_machine()}\n\n| set | by | merges: precision | recall | splits: precision | recall | entities |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "generated.jsonl"
        made.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        for name, corpus, known in (("generated", made, truth), ("wiki2", wiki, wiki_truth(wiki_rows))):
            for level in LEVELS:
                with tempfile.TemporaryDirectory() as root:
                    chosen = ("--set", "strategies=bridge-lexical", "--set", f"resolution.identity={level}")
                    polyhop(root, "index", str(corpus), "--index", "one", *chosen, "--json")
                    figures = measure(known, entities_of(root))
                    out = polyhop(root, "sql", "--index", "one", "--json", "SELECT count(*) AS n FROM entities")
                    print(f"| {name} | {level} | {figures} | {json.loads(out)[0]['n']} |", flush=True)
    print("\n| musique100: recall@5, recall@10 of bridge | |\n|---|---|")
    for level in LEVELS:
        with tempfile.TemporaryDirectory() as root:
            chosen = ("--set", "strategies=bridge", "--set", f"resolution.identity={level}")
            musique = data / "musique100"
            polyhop(root, "index", str(musique / "corpus.jsonl"), "--index", "one", *chosen, "--json")
            out = polyhop(
                root, "eval", str(musique / "questions.jsonl"), "--index", "one", "--strategies", "bridge", "--json"
            )
            metrics = json.loads(out)["strategies"]["bridge"]
            print(f"| {level} | {metrics['recall@5']:.4f}, {metrics['recall@10']:.4f} |", flush=True)


if __name__ == "__main__":
    main()
