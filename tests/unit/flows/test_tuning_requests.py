"""What `polyhop tune` refuses before anything runs, and the settings that a strategy's own grid stands for."""

import json
from pathlib import Path
from typing import Any

import pytest

from polyhop.flows import evaluate
from polyhop.flows.evaluate import tune_index
from polyhop.schemas.errors import ConfigurationError, SourceError, StoreConflictError, UnknownStrategyError
from polyhop.schemas.requests import EvaluationRequest, TuningRequest, parse_range, parse_variant
from polyhop.schemas.settings import Settings
from polyhop.worker.strategies.registry import STRATEGIES, parse_parameters


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    rows = [{"id": f"q{n}", "question": f"Where is Town {n}?", "supporting": [f"p{n}"]} for n in range(24)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("strategy", "options", "sentence"),
    [
        ("bm25:b=.3", {"metric": "recall"}, "Unknown metric 'recall' to tune by; metrics: recall@1, "),
        ("bm25", {"metric": "em"}, "Tuning by em needs answers, and --reader none reads none."),
        ("bm25", {"metric": "triple_mrr"}, "needs ranked triples, and strategy 'bm25' ranks none"),
        ("dense", {}, "Strategy 'dense' has no values of its own to try; name some, like bridge:graph_weight="),
        ("bm25:b=.3,.4,rrf", {}, "polyhop tune takes one strategy, not 2: bm25:b=.3,.4, rrf."),
        ("bm25:b=1..1", {}, "'bm25:b=1..1' is a single setting, so there is nothing to choose from"),
        ("bm25:b=.5,0.5", {}, "is a single setting"),
        ("bm25:rerank=false,0", {}, "is a single setting"),
        ("bm25:b=.3:k1=2", {}, "Strategy 'bm25' has no values of its own to try"),
        ("bm25:b=.3,2", {}, "Parameter 'b' of strategy 'bm25' is '2'; it must be a number at least 0 and at most 1."),
        ("bm25:c=1,2", {}, "'c' of strategy 'bm25'"),
        ("bm25", {"parameters": {"c": "1"}}, "'c' of strategy 'bm25'"),
        ("bm25:k1=0..100", {}, "stands for 101 variants, at most 100 are possible"),
        ("bm25", {"sample": 0}, "A sample has at least 1 question, not 0"),
        ("bm25", {"sample": 20}, "there are 20 to tune on and 4 to keep back"),
        ("bm25:rerank=true,false", {"sample": 20}, "there are 20 to tune on and 4 to keep back"),
        ("hublink", {"metric": "triple_mrr"}, "there are 0 to tune on and 0 to keep back"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_sentence_before_the_index_is_opened(
    tmp_path: Path, questions: Path, strategy: str, options: dict[str, Any], sentence: str
) -> None:
    settings = Settings(root=tmp_path / "root")
    settings = settings.model_copy(update={"reader": settings.reader.model_copy(update={"reads": False})})
    with pytest.raises(ConfigurationError) as refused:
        tune_index(settings, TuningRequest(questions, "towns", strategy, **options))
    assert sentence in str(refused.value)
    assert not (tmp_path / "root").exists()


def test_an_unknown_strategy_and_a_file_without_questions_are_refused(tmp_path: Path, questions: Path) -> None:
    with pytest.raises(UnknownStrategyError, match="did you mean 'bm25'"):
        tune_index(Settings(root=tmp_path), TuningRequest(questions, "towns", "bm52:b=.3,.4"))
    empty = tmp_path / "empty.jsonl"
    empty.write_text("", encoding="utf-8")
    with pytest.raises(SourceError):
        tune_index(Settings(root=tmp_path), TuningRequest(empty, "towns", "bm25"))


@pytest.mark.parametrize("name", [name for name, spec in STRATEGIES.items() if spec.parameters.grid])
def test_the_values_that_a_strategy_brings_are_several_settings_within_their_ranges(name: str) -> None:
    spec = STRATEGIES[name]
    tried = parse_range(":".join([name, *(f"{key}={values}" for key, values in spec.parameters.grid.items())]))
    settings = {parse_parameters(spec, parse_variant(label, {}).parameters).model_dump_json() for label in tried.points}
    assert len(settings) == len(tried.points) > 4


def test_a_parameter_that_is_fixed_is_not_tried(
    tmp_path: Path, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[EvaluationRequest] = []

    def refuse(_: Settings, request: EvaluationRequest, __: object) -> None:
        asked.append(request)
        raise StoreConflictError("enough")

    monkeypatch.setattr(evaluate, "run_evaluation", refuse)
    with pytest.raises(StoreConflictError):
        tune_index(Settings(root=tmp_path), TuningRequest(questions, "towns", "bm25:k1=2", seed=5))
    (request,) = asked
    assert request.strategies == ("bm25", "bm25:k1=2:b=.4,.6,.75,.9")
    assert (request.baselines, request.sample, request.seed, request.is_stored) == (("bm25",), 12, 5, False)
