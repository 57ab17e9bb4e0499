"""No strategy may profit from the order of passages: shuffled, a corpus gives the same tables, arrays and rankings."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from generated_corpus import generate

from polyhop.api import Index, open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.query import Question
from polyhop.schemas.requests import IndexRequest, parse_variant
from polyhop.schemas.settings import Settings
from polyhop.tasks.evaluation.metrics import recall_at
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.files.versions import read_manifest
from polyhop.worker.strategies.registry import STRATEGIES as REGISTERED

STRATEGIES = (
    "bridge", "bridge-lexical", "bridge-masked", "bm25", "dense", "graph", "graph-hybrid", "graph-dense", "graph-rrf",
    "rrf", "qasa",
)  # fmt: skip
PASSAGES, QUESTIONS = 240, 36
CHEAP = {"graph", "graph:relations", "lexical:plain", "lexical:stems"}
WITHOUT_VECTORS = tuple(name for name, spec in REGISTERED.items() if set(spec.needs) <= CHEAP)
VARIANTS = (
    "graph:ppr=push:entity_fallback=bm25_top1",
    "graph:entity_norm=simple:title_aliases=true",
    "graph-hybrid:hub_top_percent=1:edge_cap=5:mix=adaptive",
)


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


def _lines_of(corpus: Path) -> list[str]:
    return corpus.read_text(encoding="utf-8").splitlines(keepends=True)


@pytest.mark.rare
def test_shuffling_the_demo_changes_no_ranking_and_a_question_is_answered_alike_in_any_batch(
    tmp_path: Path, demo_folder: Path
) -> None:
    roots = _of_both_orders(tmp_path, _lines_of(demo_folder / "corpus.jsonl"), STRATEGIES)
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
@pytest.mark.shared_data
def test_shuffling_musique_changes_no_table_and_no_array(tmp_path: Path, shared_data: Path) -> None:
    _of_both_orders(tmp_path, _lines_of(shared_data / "musique100" / "corpus.jsonl"), ("bridge-lexical", "bm25"))


def _rankings(index: Index, label: str, asked: Sequence[Question]) -> list[list[str]]:
    variant = parse_variant(label, {})
    found = index.session.answerer(variant.strategy, variant.parameters).retrieve(asked, limit=100)
    return [[passage.passage_id for passage in retrieval.passages] for retrieval in found]


@pytest.mark.rare
def test_shuffling_a_generated_corpus_changes_no_ranking(tmp_path: Path) -> None:
    """Every strategy that needs no vectors."""
    records, rows = ([json.dumps(row) + "\n" for row in made] for made in generate(PASSAGES, QUESTIONS, 13))
    roots = _of_both_orders(tmp_path, records, WITHOUT_VECTORS)
    (tmp_path / "questions.jsonl").write_text("".join(rows), encoding="utf-8")
    questions, _ = read_questions(tmp_path / "questions.jsonl")
    asked = [Question(question.question, question.id) for question in questions]
    assert {"bm25", "bridge-lexical", "graph", "graph-hybrid"} <= set(WITHOUT_VECTORS)
    with open_index("one", root=roots[0]) as a, open_index("one", root=roots[1]) as b:
        for label in (*WITHOUT_VECTORS, *VARIANTS):
            stored, other = (_rankings(index, label, asked) for index in (a, b))
            assert stored == other, label
            assert any(recall_at(found, q.supporting, 10) for found, q in zip(stored, questions, strict=True)), label
