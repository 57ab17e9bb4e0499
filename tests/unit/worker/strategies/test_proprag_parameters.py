"""Parameters of `proprag` and `triple-ppr`: what a preset fills in, and synonyms that the index does not hold."""

from dataclasses import replace
from typing import Any

import pytest
from memory_index import memory_services

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.query import Question
from polyhop.worker.ranking.proposition_walks import PRESETS, PathRule
from polyhop.worker.strategies.registry import make, parse_parameters, spec_of

HIPPORAG2 = PathRule(**PRESETS["hipporag2"])


def rule(strategy: str, **given: object) -> PathRule:
    parameters: Any = parse_parameters(spec_of(strategy), given)
    found: PathRule = parameters.rule()
    return found


def test_each_strategy_has_its_preset() -> None:
    assert rule("proprag") == PathRule()
    assert rule("triple-ppr") == HIPPORAG2
    assert rule("proprag", preset="hipporag2") == HIPPORAG2
    assert rule("triple-ppr", preset="proprag") == PathRule()


def test_what_is_given_wins_over_the_preset() -> None:
    given: dict[str, object] = {"seed_propositions": "7", "stage1_only": "false", "beam_width": "2"}
    expected = replace(HIPPORAG2, seed_propositions=7, stage1_only=False, beam_width=2)
    assert rule("proprag", preset="hipporag2", **given) == expected
    assert rule("triple-ppr", **given) == expected


@pytest.mark.parametrize(("given", "factor"), [({}, 2), ({"edge_weights": "ones"}, 1)])
def test_edges_of_one_have_no_factor(given: Any, factor: float) -> None:
    assert rule("proprag", **given).entity_edge_factor == factor


def test_parameters_mean_the_same_once_they_are_written_down() -> None:
    for name, given in (("proprag", {"preset": "hipporag2", "stage1_restart": 0.3}), ("triple-ppr", {})):
        parsed = parse_parameters(spec_of(name), given)
        assert parse_parameters(spec_of(name), parsed.model_dump()) == parsed


def test_a_preset_gives_the_rankings_of_its_parameters(make_index: Any, corpus: Any) -> None:
    index = make_index(corpus)
    services = memory_services(index)
    text = "Where was Marie Curie born?"
    question = Question(text, vector=index.encode([text])[0])
    one, triples = (
        make(name, index, given, services).retrieve([question], limit=10)[0].passages
        for name, given in (
            ("proprag", {"preset": "hipporag2"}),
            ("triple-ppr", {}),
        )
    )
    assert one == triples


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("preset", "hippo", "one of proprag, hipporag2"),
        ("stage2_restart", "2", "a number above 0 and below 1"),
        ("seed_propositions", "0", "a whole number at least 1 and at most 10000"),
    ],
)
def test_a_value_that_cannot_be_names_what_can(name: str, value: str, words: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"Parameter '{name}' of strategy 'proprag' is '{value}'; it must be {words}"
    ):
        parse_parameters(spec_of("proprag"), {name: value})
