"""No strategy may profit from the order of passages: shuffled, a corpus gives the same tables, arrays and rankings."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from generated_corpus import generate

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.files.versions import read_manifest
from polyhop.worker.strategies.registry import STRATEGIES as REGISTERED

STRATEGIES = (
    "bridge", "bridge-lexical", "bridge-masked", "bm25", "dense", "graph", "graph-hybrid", "graph-dense", "graph-rrf",
    "rrf", "qasa",
)  # fmt: skip
CHEAP = {"graph", "graph:relations", "lexical:plain", "lexical:stems"}
WITHOUT_VECTORS = tuple(name for name, spec in REGISTERED.items() if set(spec.needs) <= CHEAP)


def _build(root: Path, lines: Sequence[str], strategies: tuple[str, ...]) -> Manifest:
    root.mkdir(exist_ok=True)
    corpus = root / "corpus.jsonl"
    corpus.write_text("".join(lines), encoding="utf-8")
    run_index(Settings(root=root, strategies=strategies), IndexRequest("one", corpus), DirectRunner())
    return read_manifest(Layout(root).index("one").version(1))


def _of_both_orders(folder: Path, lines: Sequence[str], strategies: tuple[str, ...]) -> tuple[Path, Path]:
    """Roots with a corpus as it is, and shuffled; their tables and arrays are the same."""
    shuffled = random.Random(13).sample(lines, len(lines))
    assert shuffled != lines
    first, second = (_build(folder / name, rows, strategies) for name, rows in (("a", lines), ("b", shuffled)))
    assert (first.tables, first.arrays) == (second.tables, second.arrays)
    return folder / "a", folder / "b"


@pytest.mark.rare
def test_shuffling_the_demo_changes_no_ranking_and_a_question_is_answered_alike_in_any_batch(
    tmp_path: Path, demo_folder: Path
) -> None:
    lines = (demo_folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    roots = _of_both_orders(tmp_path, lines, STRATEGIES)
    questions = [question.question for question in read_questions(demo_folder / "questions.jsonl")[0]]
    with open_index("one", root=roots[0]) as a, open_index("one", root=roots[1]) as b:
        for strategy in STRATEGIES:
            together = a.ask_batch(questions, strategy=strategy)
            rankings = [
                [[(p["id"], p["score"]) for p in answer.passages] for answer in answers]
                for answers in (together, b.ask_batch(questions, strategy=strategy))
            ]
            assert rankings[0] == rankings[1], strategy
            for question, one in zip(questions, together, strict=True):
                alone = a.ask(question, strategy=strategy)
                assert (alone.passages, alone.answer, alone.evidence) == (one.passages, one.answer, one.evidence)


@pytest.mark.rare
def test_shuffling_a_generated_corpus_changes_no_table_and_no_array(tmp_path: Path) -> None:
    """For every strategy that needs no vectors; rankings are made of these alone."""
    assert {"bm25", "bridge-lexical", "graph", "graph-hybrid"} <= set(WITHOUT_VECTORS)
    _of_both_orders(tmp_path, [json.dumps(row) + "\n" for row in generate(240, 36, 13)[0]], WITHOUT_VECTORS)
