"""hub-facets on a knowledge graph: recall, hits and MRR of triples, what each part adds, and milliseconds.

Run: uv run python benchmarks/hub_facets.py ORKG [--parts]   (a folder with triples.jsonl and questions.jsonl of ORKG)
Indexes the graph in a temporary folder, asks its questions and our own rewordings of 60 of them
(benchmarks/data/orkg_rewordings.jsonl, worded before anything was tuned; the part `held-out` was never tuned on). The
60 are those whose ids have the smallest sha256; every second one of them, in this order, is held out. With --parts each
part is left out once. The metrics are this script's own, so that it stays independent of `polyhop eval`.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from machine import describe_machine

from polyhop.api import open_index
from polyhop.schemas.query import Question, RankedTriple
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_encoder
from polyhop.worker.strategies.registry import make

REWORDINGS = Path(__file__).parent / "data" / "orkg_rewordings.jsonl"
FACETS = "polyhop.worker.ranking.facets"
DEPTH = 100
INDEXED = (
    "--index",
    "orkg",
    "--add-strategy",
    "hub-facets",
    "--set",
    "hubs.types=Paper",
    "--set",
    "hubs.start=R659055",
)
METRICS = ("recall@10", "recall@30", "hit@10", "MRR")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its vector and the triples that answer it, as the questions' file writes them."""

    question: Question
    golden: frozenset[str]


PARTS: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    "all parts": ({}, {}),
    "AND over facets": ({"floor": 1.0}, {}),
    "value match": ({}, {"ranking.add_matches": lambda *_: None}),
    "polarity": ({}, {"polarity.MOST_VALUES": -1}),
    "introducers": ({}, {"conditions.NEAR": 0}),
    "ranges": ({}, {"conditions.RANGES": {}}),
    "same node": ({"same_node_bonus": 0.0}, {}),
    "names": ({}, {"mentions.RAREST": 0}),
    "similar words": ({}, {"labels.LEAST_DICE": 2.0}),
    "word families": ({"family_factor": 0.0}, {}),
    "any order": ({"any_order": False}, {}),
    "signature similarity": ({"signature_similarity": 0.0}, {}),
    "vectors of paths": ({"similarity_share": 0.0}, {}),
    "all vectors": ({"similarity_share": 0.0, "signature_similarity": 0.0}, {}),
    "hub label": ({"hub_label_share": 0.0}, {}),
    "soft score": ({"soft_weight": 0.0}, {}),
}
"""What is left out: parameters, or names of the ranking's modules that are replaced."""


def rows(path: Path) -> list[dict[str, Any]]:
    """Objects of a .jsonl file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def written(triple: RankedTriple) -> str:
    """A triple as the questions' file writes it."""
    return f"({triple.subject_id}:{triple.subject}, {triple.predicate}, {triple.object_id}:{triple.object})"


def judged(triples: Sequence[RankedTriple], golden: frozenset[str]) -> tuple[float, ...]:
    """Values of METRICS for one ranking."""
    hits = [written(triple) in golden for triple in triples]
    first = next((1 / rank for rank, is_hit in enumerate(hits, start=1) if is_hit), 0.0)
    return sum(hits[:10]) / len(golden), sum(hits[:30]) / len(golden), float(any(hits[:10])), first


@contextlib.contextmanager
def replaced(names: Mapping[str, object]) -> Iterator[None]:
    """Other values of names in the ranking's modules, for a while."""
    with contextlib.ExitStack() as stack:
        for name, value in names.items():
            stack.enter_context(patch(f"{FACETS}.{name}", value))
        yield


def measured(index: Any, sets: Mapping[str, Sequence[Asked]], part: str) -> tuple[str, float]:
    """A row of the table, and the median of milliseconds besides encoding."""
    parameters, names = PARTS[part]
    cells, times = [], []
    with replaced(names):
        strategy = make("hub-facets", index.session.published, parameters, index.session.services)
        for asked in sets.values():
            values = []
            for one in asked:
                begun = time.perf_counter()
                (retrieval,) = strategy.retrieve([one.question], limit=DEPTH)
                times.append(1000 * (time.perf_counter() - begun - retrieval.seconds["encoding"]))
                values.append(judged(retrieval.triples, one.golden))
            cells.append(" / ".join(f"{value:.3f}" for value in np.mean(values, axis=0)))
    return f"| {part} | {' | '.join(cells)} |", float(np.median(times))


def question_sets(folder: Path, settings: Settings) -> dict[str, list[Asked]]:
    """The graph's questions, and our rewordings by part."""
    originals = rows(folder / "questions.jsonl")
    golden = {row["id"]: frozenset(row["golden_triples"]) for row in originals}
    worded = rows(REWORDINGS)
    texts = {
        f"{len(originals)} questions": [(row["question"], frozenset(row["golden_triples"])) for row in originals],
        **{
            f"{part}, reworded": [(row["question"], golden[row["id"]]) for row in worded if row["part"] == part]
            for part in ("tuning", "held-out")
        },
    }
    encode = open_encoder(settings).encode_questions
    return {
        name: [Asked(Question(text, vector=encode([text])[0]), triples) for text, triples in found]
        for name, found in texts.items()
    }


def main(folder: Path, parts: Sequence[str]) -> None:
    """Prints Markdown."""
    with tempfile.TemporaryDirectory() as root:
        settings = Settings(root=Path(root))
        begun = time.perf_counter()
        command = [sys.executable, "-m", "polyhop.cli", "index", "--graph", str(folder / "triples.jsonl"), *INDEXED]
        subprocess.run([*command, "--root", root], check=True, stdout=subprocess.DEVNULL)
        indexed = time.perf_counter() - begun
        with open_index("orkg", settings=settings) as index:
            sets = question_sets(folder, settings)
            print(f"{describe_machine()}\nindexed in {indexed:.1f} s; {' / '.join(METRICS)}\n")
            print(f"| {'left out' if len(parts) > 1 else ''} | {' | '.join(sets)} |\n|---|{'---|' * len(sets)}")
            for part in parts:
                row, median = measured(index, sets, part)
                print(row, flush=True)
                if part == "all parts":
                    print(f"p50 {median:.2f} ms besides encoding", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), list(PARTS) if "--parts" in sys.argv else ["all parts"])
