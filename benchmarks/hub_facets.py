"""hub-facets on a knowledge graph: recall, hits and MRR of triples, what each part adds, and milliseconds.

Run: uv run python benchmarks/hub_facets.py ORKG [--parts]   (a folder with triples.jsonl and questions.jsonl of ORKG)
     uv run python benchmarks/hub_facets.py museum|trials|harbour [--parts] (made-up graphs of benchmarks/data)
Indexes the graph in a temporary folder and asks its questions. Of ORKG these are its own and our rewordings of 60 of
them (benchmarks/data/orkg_rewordings.jsonl, worded before anything was tuned): those whose ids have the smallest
sha256. Every second one of these, and of a made-up graph's 40 questions in such an order, is held out: nothing was
tuned on the part `held-out`. With --parts each part is left out once. The metrics are this script's own, so that it
stays independent of `polyhop eval`.
"""

import contextlib
import json
import shutil
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
from polyhop.warehouse.open_models import open_encoder
from polyhop.worker.strategies.registry import make

DATA = Path(__file__).parent / "data"
REWORDINGS = DATA / "orkg_rewordings.jsonl"
FACETS = "polyhop.worker.ranking.facets"
DEPTH = 100
METRICS = ("recall@10", "recall@30", "hit@10", "MRR")


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph with questions: the type of its hubs, and the node that leads to them."""

    hub_type: str
    start: str


ORKG = Graph("Paper", "R659055")
MADE_UP: Mapping[str, Graph] = {
    "museum": Graph("Artefact", "M1"),
    "trials": Graph("Trial", "REG1"),
    "harbour": Graph("Vessel", "P1"),
}
"""By name; data/NAME_triples.jsonl and data/NAME_questions.jsonl."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its vector and the triples that answer it, as the questions' file writes them."""

    question: Question
    golden: frozenset[str]


PARTS: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    "all parts": ({}, {}),
    "AND over facets": ({"floor": 1.0}, {}),
    "polarity": ({}, {"units.MOST_VALUES": -1}),
    "introducers": ({}, {"conditions.NEAR": 0}),
    "ranges": ({}, {"conditions.number_ranges": lambda _: []}),
    "parts of values": ({}, {"labels.LONGEST_IN_PART": 0}),
    "superlatives": ({}, {"ranking.extreme_facet": lambda *_: None}),
    "kinds of values": ({}, {"ranking.KIND_WEIGHT": 0.0}),
    "words of types": ({}, {"conditions.ReadQuestion._is_type": lambda *_: False}),
    "requests": ({}, {"labels._REQUESTS": frozenset()}),
    "words beside hubs": ({}, {"conditions.ReadQuestion.words_beside_hubs": property(lambda read: read.words)}),
    "word families": ({}, {"labels.are_family": lambda *_: False}),
    "signature similarity": ({"signature_similarity": 0.0}, {}),
    "vectors of paths": ({"similarity_share": 0.0}, {}),
    "all vectors": ({"similarity_share": 0.0, "signature_similarity": 0.0}, {}),
    "hub label": ({}, {"ranking.HUB_LABEL_SHARE": 0.0}),
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


def question_texts(folder: Path, source: str) -> dict[str, list[tuple[str, frozenset[str]]]]:
    """Questions with their golden triples, by set."""
    originals = rows(folder / "questions.jsonl")
    golden = {row["id"]: frozenset(row["golden_triples"]) for row in originals}
    worded, name = (originals, source) if source in MADE_UP else (rows(REWORDINGS), "reworded")
    parts = {
        f"{part}, {name}": [(row["question"], golden[row["id"]]) for row in worded if row["part"] == part]
        for part in ("tuning", "held-out")
    }
    if source in MADE_UP:
        return parts
    return {
        f"{len(originals)} questions": [(row["question"], frozenset(row["golden_triples"])) for row in originals],
        **parts,
    }


def question_sets(folder: Path, source: str, settings: Settings) -> dict[str, list[Asked]]:
    """Questions with their vectors, by set."""
    encode = open_encoder(settings).encode_questions
    return {
        name: [Asked(Question(text, vector=encode([text])[0]), triples) for text, triples in found]
        for name, found in question_texts(folder, source).items()
    }


def index_graph(folder: Path, graph: Graph, root: Path) -> float:
    """Indexes a folder's triples under `root`; seconds."""
    begun = time.perf_counter()
    settings = ("--set", f"hubs.types={graph.hub_type}", "--set", f"hubs.start={graph.start}", "--root", str(root))
    command = (sys.executable, "-m", "polyhop.cli", "index", "--graph", str(folder / "triples.jsonl"))
    command += ("--index", "graph", "--add-strategy", "hub-facets", *settings)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def measure(folder: Path, source: str, parts: Sequence[str]) -> None:
    """Prints Markdown."""
    graph = MADE_UP.get(source, ORKG)
    with tempfile.TemporaryDirectory() as root:
        settings = Settings(root=Path(root))
        indexed = index_graph(folder, graph, Path(root))
        with open_index("graph", settings=settings) as index:
            sets = question_sets(folder, source, settings)
            print(f"{describe_machine()}\nindexed in {indexed:.1f} s; {' / '.join(METRICS)}\n")
            print(f"| {'left out' if len(parts) > 1 else ''} | {' | '.join(sets)} |\n|---|{'---|' * len(sets)}")
            for part in parts:
                row, median = measured(index, sets, part)
                print(row, flush=True)
                if part == "all parts":
                    print(f"p50 {median:.2f} ms besides encoding", file=sys.stderr)


def main(source: str, parts: Sequence[str]) -> None:
    """Measures on a folder of ORKG, or on a made-up graph."""
    if source not in MADE_UP:
        measure(Path(source), source, parts)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in ("triples", "questions"):
            shutil.copy(DATA / f"{source}_{name}.jsonl", Path(folder, f"{name}.jsonl"))
        measure(Path(folder), source, parts)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], list(PARTS) if "--parts" in sys.argv else ["all parts"])
