"""Names with `and` that are one name (`Marks and Spencer`), and pairs that are two, as extraction finds them.

Run: uv run python benchmarks/joined_names.py [--wild [SHARED_DATA]]
Labels (data/joined_names.jsonl): 155 sentences, written down before the network that joins names was trained: 125 of
wiki2 and musique100 (in 14 of them `&` became `and`), 30 invented. --wild lists the joined names of 1,600 passages of
wiki2 and musique100, drawn by hash, for reading.
"""

import hashlib
import json
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from polyhop.schemas.names import NameFinder, name_tokens
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import Settings
from polyhop.tasks.extraction.rules import PassageRules, find_names
from polyhop.warehouse.name_judge import NameJudge

PROJECT = Path(__file__).resolve().parent.parent
LABELS = Path(__file__).parent / "data" / "joined_names.jsonl"
SEED = "joined names 68"
DRAWN = 1600  # passages for reading


def passage(number: str, title: str, text: str) -> Passage:
    """A record of one passage."""
    return Passage(number, number, number, 0, title, text, 0, len(text))


def labelled(rules: PassageRules) -> None:
    """Prints how many names and pairs are found as they are labelled, and those that are not."""
    labels = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    pages = [passage(str(number), "", label["text"]) for number, label in enumerate(labels)]
    found = rules.judged([(page, find_names(page, rules.finder)) for page in pages])
    for is_one in (True, False):
        rows = [
            (label, names) for label, (_, names) in zip(labels, found, strict=True) if label["is_one_name"] is is_one
        ]
        joined = [
            any(f" {' '.join(name_tokens(label['name']))} " in f" {mention.key} " for mention in names.in_text)
            for label, names in rows
        ]
        print(f"{'one name' if is_one else 'two names'}: {sum(joined)} of {len(rows)} joined")
        wrong = [label["name"] for (label, _), was_joined in zip(rows, joined, strict=True) if was_joined is not is_one]
        print(f"  wrong: {', '.join(wrong)}")


def wild(rules: PassageRules, data: Path) -> None:
    """Prints the names that are joined in real texts."""
    rows = [
        json.loads(line)
        for name in ("wiki2", "musique100")
        for line in (data / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    rows.sort(key=lambda row: hashlib.sha256(f"{SEED}\n{row['id']}".encode()).hexdigest())
    pages = [passage(row["id"], row["title"], row["text"]) for row in rows[:DRAWN]]
    pairs = joined = 0
    for start in range(0, len(pages), 64):
        some = [(page, find_names(page, rules.finder)) for page in pages[start : start + 64]]
        for (page, before), (_, after) in zip(some, rules.judged(some), strict=True):
            neighbours = pairwise(before.in_text)
            pairs += sum(page.text[a.end : b.start] == " and " for a, b in neighbours)
            known = {mention.key for mention in before.in_text}
            for mention in after.in_text:
                if " and " in mention.surface and mention.key not in known:
                    joined += 1
                    print(f"{mention.surface} | {page.text[max(0, mention.start - 60) : mention.end + 30]!r}")
    print(f"{joined} of {pairs} joined")


def main() -> None:
    """Prints both, or one."""
    with tempfile.TemporaryDirectory() as root:
        rules = PassageRules(NameFinder([]), "rules", "en", NameJudge(Settings(root=Path(root))))
        if "--wild" in sys.argv:
            rest = sys.argv[sys.argv.index("--wild") + 1 :]
            wild(rules, Path(rest[0]) if rest else PROJECT.parent / "shared" / "data")
        else:
            labelled(rules)


if __name__ == "__main__":
    main()
