"""Check the unseen corpora and their questions: python3 benchmarks/data/unseen/check.py"""

import json
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
KINDS = {"lookup": 24, "bridge": 20, "comparison": 8, "yesno": 4, "unanswerable": 4}
FIELDS = {"id", "question", "answers", "supporting", "kind", "hops", "split"}


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check(corpus: Path, seen_ids: Counter, seen_questions: Counter) -> list[str]:
    problems = []
    passages = {row["id"]: row for row in rows(corpus)}
    seen_ids.update(row["id"] for row in rows(corpus))
    if not 50 <= len(passages) <= 70:
        problems.append(f"{corpus.name}: {len(passages)} passages")
    for row in passages.values():
        words = len(row["text"].split())
        if set(row) != {"id", "title", "text"} or not 60 <= words <= 160:
            problems.append(f"{row['id']}: {words} words, fields {sorted(row)}")
    counts: Counter = Counter()
    polarity: Counter = Counter()
    for row in rows(corpus.with_name(corpus.stem + "_questions.jsonl")):
        name = row["id"]
        seen_ids[name] += 1
        seen_questions[" ".join(row["question"].lower().split())] += 1
        counts[row["kind"], row["split"]] += 1
        if set(row) != FIELDS or row["kind"] not in KINDS or row["split"] not in {"dev", "held"}:
            problems.append(f"{name}: fields or values")
        missing = [i for i in row["supporting"] if i not in passages]
        if missing:
            problems.append(f"{name}: no such passage: {missing}")
            continue
        if len(set(row["supporting"])) != len(row["supporting"]):
            problems.append(f"{name}: a passage named twice")
        if row["kind"] == "unanswerable":
            if row["answers"] or row["supporting"]:
                problems.append(f"{name}: unanswerable, yet has answers or passages")
            continue
        if not row["answers"] or not row["supporting"]:
            problems.append(f"{name}: no answers or no passages")
        text = " ".join(passages[i]["title"] + "\n" + passages[i]["text"] for i in row["supporting"])
        if row["kind"] in {"lookup", "bridge"}:
            body = " ".join(passages[i]["text"] for i in row["supporting"])
            if not any(answer in body for answer in row["answers"]):
                problems.append(f"{name}: no answer occurs in {row['supporting']}")
        elif row["kind"] == "comparison":
            if not any(answer.lower() in (text + row["question"]).lower() for answer in row["answers"]):
                problems.append(f"{name}: answer neither in the passages nor in the question")
        else:
            polarity[row["answers"][0]] += 1
            if row["answers"] not in (["yes"], ["no"]):
                problems.append(f"{name}: yes or no expected")
    for kind, total in KINDS.items():
        got = counts[kind, "dev"], counts[kind, "held"]
        if got != (total // 2, total // 2):
            problems.append(f"{corpus.name}: {kind} dev, held = {got}, expected {total // 2} each")
    if polarity["yes"] != polarity["no"]:
        problems.append(f"{corpus.name}: {dict(polarity)}")
    print(f"{corpus.stem}: {len(passages)} passages, {sum(counts.values())} questions")
    return problems


if __name__ == "__main__":
    ids, questions = Counter(), Counter()
    corpora = [p for p in sorted(HERE.glob("*.jsonl")) if not p.stem.endswith("_questions")]
    found = [problem for corpus in corpora for problem in check(corpus, ids, questions)]
    found += [f"{name}: {n} times" for name, n in (ids + questions).items() if n > 1]
    print("\n".join(found) or "no problems")
    sys.exit(bool(found))
