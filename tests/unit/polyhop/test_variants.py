"""Variants as they are written, `all`, and the settings that an evaluation names."""

import pytest

from polyhop.flows.evaluate import answering_settings
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.requests import Variant, expand_labels, parse_variant
from polyhop.schemas.settings import Settings, known_settings


def test_all_stands_for_every_strategy_and_none_comes_twice() -> None:
    known = ["bridge", "bm25", "dense"]
    assert expand_labels(["dense", "all", "bm25:b=0.5", "bm25"], known) == ["dense", "bridge", "bm25", "bm25:b=0.5"]
    assert expand_labels([], known) == []


def test_own_parameters_win_over_those_of_all() -> None:
    variant = parse_variant("qasa:gate=none: steps = 1", {"steps": "3", "decay": ".5"})
    assert variant == Variant("qasa:gate=none: steps = 1", "qasa", {"gate": "none", "steps": "1", "decay": ".5"})
    with pytest.raises(ConfigurationError, match="not 'qasa:gate'"):
        parse_variant("qasa:gate", {})


def test_settings_that_decide_speed_cost_or_place_are_not_part_of_an_evaluation() -> None:
    settings = Settings()
    named = answering_settings(settings, settings.model_dump(mode="json"))
    assert named["reader.min_confidence"] == 0.5
    assert named["index.corpus.max_passage_characters"] == 2000
    assert named["index.resolution.identity"] == "name"
    idle = Settings(
        root="elsewhere",
        batch_size=7,
        keep_versions=9,
        max_cost_usd=3,
        models={"timeout_seconds": 1, "concurrency": 2, "price": (5.0, 5.0)},
        encoder={"threads": 3},
        worker={"lease_seconds": 3},
        queue={"url": "sqlite:///other.sqlite"},
    )
    assert answering_settings(idle, settings.model_dump(mode="json")) == named
    assert answering_settings(Settings(models={"read": "openai/x"}), {})["models.read"] == "openai/x"
    known = {name for name, _, _ in known_settings()}
    assert {name.removeprefix("index.") for name in named} <= known
