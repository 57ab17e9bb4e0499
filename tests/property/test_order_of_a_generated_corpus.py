"""Shuffling a corpus changes no metric: every strategy that needs no vectors, on a generated corpus."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from generated_corpus import generate

from polyhop.api import Index, open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.query import Question
from polyhop.schemas.records import QuestionRecord
from polyhop.schemas.requests import IndexRequest, parse_variant
from polyhop.schemas.settings import Settings
from polyhop.tasks.evaluation.metrics import hit_at, recall_at, reciprocal_rank
from polyhop.warehouse.files.questions import read_questions
from polyhop.worker.strategies.registry import STRATEGIES as REGISTERED

PASSAGES, QUESTIONS = 240, 36
CHEAP = {"graph", "graph:relations", "lexical:plain", "lexical:stems"}
STRATEGIES = tuple(name for name, spec in REGISTERED.items() if set(spec.needs) <= CHEAP)
VARIANTS = (
    "graph:ppr=push:entity_fallback=bm25_top1",
    "graph:entity_norm=simple:title_aliases=true",
    "graph-hybrid:hub_top_percent=1:edge_cap=5:mix=adaptive",
)


def _lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _rankings(index: Index, label: str, questions: list[QuestionRecord]) -> list[list[str]]:
    variant = parse_variant(label, {})
    asked = [Question(question.question, question.id) for question in questions]
    found = index.session.answerer(variant.strategy, variant.parameters).retrieve(asked, limit=100)
    return [[passage.passage_id for passage in retrieval.passages] for retrieval in found]


def _metrics(rankings: list[list[str]], questions: list[QuestionRecord]) -> dict[str, list[float]]:
    pairs = [(ranking, question.supporting) for ranking, question in zip(rankings, questions, strict=True)]
    return {
        **{f"recall@{k}": [recall_at(*pair, k) for pair in pairs] for k in (1, 2, 5, 10, 20)},
        "hit@10": [hit_at(*pair, 10) for pair in pairs],
        "mrr": [reciprocal_rank(*pair) for pair in pairs],
    }


@pytest.mark.rare
def test_shuffling_a_generated_corpus_changes_no_metric(tmp_path: Path) -> None:
    records, asked = (list(rows) for rows in generate(PASSAGES, QUESTIONS, 13))
    shuffled = random.Random(13).sample(records, len(records))
    assert shuffled != records
    questions, _ = read_questions(_lines(tmp_path / "questions.jsonl", asked))
    for name, rows in (("stored", records), ("shuffled", shuffled)):
        settings = Settings(root=tmp_path / name, strategies=STRATEGIES)
        run_index(settings, IndexRequest("one", _lines(tmp_path / f"{name}.jsonl", rows)), DirectRunner())
    assert {"bm25", "bridge-lexical", "graph", "graph-hybrid"} <= set(STRATEGIES)
    with open_index("one", root=tmp_path / "stored") as a, open_index("one", root=tmp_path / "shuffled") as b:
        for label in (*STRATEGIES, *VARIANTS):
            stored, other = (_rankings(index, label, questions) for index in (a, b))
            metrics = _metrics(stored, questions)
            assert metrics == _metrics(other, questions), label
            assert stored == other, label
            assert sum(metrics["recall@10"]) > 0, label
