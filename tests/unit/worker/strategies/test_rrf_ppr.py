"""RRF+PPR against its two parents."""

from functools import partial
from typing import Any

import pytest
from memory_index import names_of

from polyhop.schemas.query import Question
from polyhop.worker.strategies import sprig
from polyhop.worker.strategies.baselines import FusionParameters
from polyhop.worker.strategies.registry import make

TEXTS = (
    "Which river flows through the capital of Poland, Warsaw?",
    "Who wrote the first program for Charles Babbage?",
    "what is on the river",
)


def scores(index: Any, name: str, text: str, limit: int, **parameters: object) -> dict[str, float]:
    question = Question(text, vector=index.encode([text])[0])
    found = make(name, index, parameters).retrieve([question], limit=limit)[0]
    return {passage.passage_id: passage.score for passage in found.passages}


def stretched(found: dict[str, float]) -> dict[str, float]:
    low, high = min(found.values()), max(found.values())
    return {name: (score - low) / (high - low) if high > low else 1.0 for name, score in found.items()}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("depth", "share"), [(100, 0.5), (4, 0.5), (5, 0.2)])
def test_scores_are_the_weighted_sum_of_both_lists(
    memory_index: Any, text: str, depth: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sprig, "FusionParameters", partial(FusionParameters, depth=depth))
    fused = stretched(scores(memory_index, "rrf", text, depth, depth=depth))
    walked = stretched(scores(memory_index, "graph", text, depth))
    expected = {name: share * fused.get(name, 0) + (1 - share) * walked.get(name, 0) for name in {**fused, **walked}}
    found = scores(memory_index, "rrf-ppr", text, 30, rrf_share=share)
    assert found == pytest.approx(expected)
    assert list(found) == sorted(expected, key=lambda name: (-round(found[name], 12), name))


def test_parameters_of_the_graph_are_its_own_too(memory_index: Any) -> None:
    """Without entities, BM25's best takes their place in the walk."""
    plain = scores(memory_index, "rrf-ppr", TEXTS[2], 13)
    assert scores(memory_index, "rrf-ppr", TEXTS[2], 13, entity_fallback="bm25_top1") != plain


def test_the_evidence_is_the_walk_s(memory_index: Any) -> None:
    question = Question(TEXTS[1], vector=memory_index.encode([TEXTS[1]])[0])
    found = make("rrf-ppr", memory_index, {}).retrieve([question], limit=3)[0]
    assert names_of(found.evidence).matched == ("charles babbage",)
    assert found.evidence.fallback is None
