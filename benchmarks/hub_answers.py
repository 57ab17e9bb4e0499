"""Short answers of hub-facets without a model: how many questions it answers, and how many of these answers are right.

Run: uv run python benchmarks/hub_answers.py ORKG|museum|trials   (as benchmarks/hub_facets.py, without --parts)
On a made-up graph an answer is right if it is exactly the set of values asked for (of objects, if no field is asked
for: their names or number; of yes and no: by the value's words). ORKG's answers are sentences: one is right if its
sentence contains every label (or the number, in digits or as a word), and begins with `yes`, or with `no` or has `not`.
F1 is that of words with ORKG's sentence, and of labels otherwise; a question without an answer counts 0.
"""

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hub_facets import MADE_UP, ORKG, REWORDINGS, index_graph, rows
from machine import describe_machine
from museum import write_folder

from polyhop.api import open_index
from polyhop.schemas.query import Question
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import fold
from polyhop.warehouse.open_models import open_encoder
from polyhop.worker.strategies.hub_facets import FACET_ANSWER
from polyhop.worker.strategies.registry import make

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
WORD_OF = {str(number): word for number, word in enumerate(NUMBERS)}
NEGATIVE = frozenset(("no", "not", "false", "none"))
WRITTEN = re.compile(r"\((\w+):(.*), ([^,]*), (\w+):(.*)\)$")


def words(text: str) -> list[str]:
    """Words in lower case, dashes apart."""
    return re.findall(r"\w+", fold(text).lower())


def judged_by_sentence(texts: Sequence[str], kind: str, sentence: str) -> tuple[bool, float]:
    """Whether a sentence says the same, and F1 of words."""
    said = words(sentence)
    own = [word for text in texts for word in words(text)]
    if kind == "yes or no":
        is_no = said[0] == "no" or "not" in said
        return is_no == (texts[0] == "no"), 0.0
    whole = " ".join(said)
    found = [
        re.search(rf"\b{' '.join(words(text))}\b", whole) or (text in WORD_OF and WORD_OF[text] in said)
        for text in texts
    ]
    return all(found), f1(own, said)


def f1(own: Sequence[str], other: Sequence[str]) -> float:
    """F1 of two bags."""
    shared = sum(min(own.count(word), other.count(word)) for word in set(own))
    return 2 * shared / (len(own) + len(other)) if shared else 0.0


def judged_by_labels(
    texts: Sequence[str], kind: str, row: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[bool, float]:
    """Whether an answer is the set of labels asked for, and F1 of labels."""
    parts = [found.groups() for found in map(WRITTEN.match, row["golden_triples"]) if found]
    hubs = {names[subject] for subject, *_ in parts if subject in names}
    expected = sorted({value for _, _, field, _, value in parts if field in row["ask"]} if row["ask"] else hubs)
    if kind == "number":
        return list(texts) == [str(len(expected))], float(list(texts) == [str(len(expected))])
    if kind == "yes or no":
        is_no = any(NEGATIVE.intersection(words(value)) for value in expected)
        return is_no == (texts[0] == "no"), float(is_no == (texts[0] == "no"))
    return sorted(texts) == expected, f1(list(texts), expected)


def question_rows(folder: Path, source: str) -> dict[str, list[dict[str, Any]]]:
    """Questions with what judges their answers, by set."""
    originals = rows(folder / "questions.jsonl")
    if source in MADE_UP:
        return {part: [row for row in originals if row["part"] == part] for part in ("tuning", "held-out")}
    by_id = {row["id"]: row for row in originals}
    reworded = [{**by_id[row["id"]], **row} for row in rows(REWORDINGS)]
    parts = {part: [row for row in reworded if row["part"] == part] for part in ("tuning", "held-out")}
    return {"questions": originals, **{f"reworded, {part}": found for part, found in parts.items()}}


def measure(folder: Path, source: str) -> None:
    """Prints Markdown."""
    graph = MADE_UP[source][0] if source in MADE_UP else ORKG
    objects = [row["object"] for row in rows(folder / "triples.jsonl")]
    names = {node["id"]: node["name"] for node in objects if graph.hub_type in node["types"]}
    with tempfile.TemporaryDirectory() as root:
        settings = Settings(root=Path(root))
        index_graph(folder, graph, Path(root))
        encode = open_encoder(settings).encode_questions
        with open_index("graph", settings=settings) as index:
            strategy = make("hub-facets", index.session.published, {}, index.session.services)
            print(f"{describe_machine()}\n\n| {source} | questions | answered | right | F1 |\n|---|---|---|---|---|")
            for name, asked in question_rows(folder, source).items():
                found = []
                for row in asked:
                    text = row["question"]
                    (retrieval,) = strategy.retrieve([Question(text, vector=encode([text])[0])], limit=1)
                    answer = retrieval.evidence.data.get(FACET_ANSWER)
                    if answer and source in MADE_UP:
                        found.append(judged_by_labels(answer["texts"], answer["kind"], row, names))
                    elif answer:
                        found.append(judged_by_sentence(answer["texts"], answer["kind"], row["answer"]))
                right, share = sum(is_right for is_right, _ in found), sum(value for _, value in found) / len(asked)
                print(f"| {name} | {len(asked)} | {len(found)} | {right} | {share:.3f} |")


def main(source: str) -> None:
    """Measures on a folder of ORKG, or on a made-up graph."""
    if source not in MADE_UP:
        measure(Path(source), source)
        return
    graph, triples, asked = MADE_UP[source]
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), triples(), graph.start, asked)
        measure(Path(folder), source)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
