"""The registry: complete, described, and clear about what it refuses."""

from typing import Any

import pytest

from schemas.errors import ConfigurationError, MissingArtefactError, UnknownSettingError, UnknownStrategyError
from schemas.settings import DEFAULT_STRATEGIES
from schemas.strategies import DEFAULT_STRATEGY, NEEDS
from worker.strategies.registry import STRATEGIES, make, parse_parameters, spec_of


def test_every_strategy_that_indexes_are_built_for_can_be_made() -> None:
    assert set(STRATEGIES) == set(NEEDS)
    assert {DEFAULT_STRATEGY, *DEFAULT_STRATEGIES} <= set(STRATEGIES)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_and_its_parameters_are_described(name: str) -> None:
    spec = STRATEGIES[name]
    assert spec.summary.endswith(".")
    for parameter, field in spec.parameters.model_fields.items():
        assert field.description, parameter
        assert not field.is_required(), parameter
        if isinstance(field.default, int | float):
            assert f"default {field.default:g}" in field.description, parameter
    assert spec.parameters() == parse_parameters(spec, {})


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_made_strategy_knows_its_name(memory_index: Any, name: str) -> None:
    assert make(name, memory_index, {}).name == name


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_reads_nothing_but_what_it_declares(memory_index: Any, name: str) -> None:
    """Every artefact that is not declared fails on touch."""

    declared = NEEDS[name]

    class Declared:
        name = "declared"
        version = 1
        passage_ids = memory_index.passage_ids
        names = memory_index.names
        aliases = memory_index.aliases
        exact_names = memory_index.exact_names
        entities = memory_index.entities
        reranker = memory_index.reranker

        @property
        def graph(self) -> Any:
            assert "graph" in NEEDS[name]
            return memory_index.graph

        @property
        def relations(self) -> Any:
            assert "graph:relations" in NEEDS[name]
            return memory_index.relations

        artefacts = declared

        def nearest_passages(self, vector: Any, count: int, ef_search: int) -> Any:
            assert "ann:passage" in NEEDS[name]
            return memory_index.nearest_passages(vector, count, ef_search)

        def lexical(self, analyser: str) -> Any:
            assert f"lexical:{analyser}" in NEEDS[name]
            return memory_index.lexical(analyser)

        def vectors(self, owner: str) -> Any:
            assert f"vectors:{owner}" in NEEDS[name]
            return memory_index.vectors(owner)

    fallback = {"entity_fallback": "bm25_top1"} if name == "graph" else {}
    make(name, Declared(), fallback)  # type: ignore[arg-type]


def test_vectors_are_asked_of_questions_only_if_vectors_are_read() -> None:
    wanted = {name for name, spec in STRATEGIES.items() if spec.needs_question_vector}
    fused = {"rrf", "rrf-ce", "rrf-ppr", "fusion"}
    assert wanted == {"bridge", "dense", "dense-ann", "naive-vector", "qasa", "graph-dense", "graph-rrf"} | fused


def test_an_unknown_strategy_names_the_nearest() -> None:
    with pytest.raises(UnknownStrategyError, match="did you mean 'bridge'"):
        spec_of("brigde")


def test_an_unknown_parameter_names_the_strategy_and_the_nearest() -> None:
    with pytest.raises(UnknownSettingError, match=r"'restrat' in strategy 'bridge'.*'restart'"):
        parse_parameters(spec_of("bridge"), {"restrat": 0.2})


def test_a_parameter_of_a_strategy_without_any_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="strategy 'dense', which has none"):
        parse_parameters(spec_of("dense"), {"k1": 1})


@pytest.mark.parametrize(
    ("name", "parameter", "value", "allowed"),
    [
        ("bridge", "restart", 1.0, "a number above 0 and below 1"),
        ("bridge", "seeds", 2.5, "a whole number at least 1 and at most 10000"),
        ("bridge", "graph_weight", float("nan"), "a number at least 0 and at most 1000"),
        ("bridge", "graph_weight", "much", "a number at least 0 and at most 1000"),
        ("graph-dense", "ppr", "exact", "one of power, push"),
        ("graph-hybrid", "mix", "adaptve", "one of mass, fixed, adaptive"),
        ("bm25", "b", 1.01, "a number at least 0 and at most 1"),
        ("graph", "title_aliases", "perhaps", "true or false"),
        ("rrf-ppr", "entity_norm", "upper", "one of key, none, simple, lower"),
        ("tfidf-graph", "max_df_ratio", 0, "a number above 0 and at most 1"),
    ],
)
def test_a_bad_value_names_strategy_parameter_and_range(name: str, parameter: str, value: object, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        parse_parameters(spec_of(name), {parameter: value})
    for part in (f"'{parameter}'", f"'{name}'", repr(value), allowed):
        assert part in str(refusal.value)


def test_values_may_be_strings_as_the_command_line_gives_them() -> None:
    parsed: Any = parse_parameters(spec_of("graph-dense"), {"seeds": "7", "restart": "0.2", "ppr": "push"})
    assert (parsed.seeds, parsed.restart, parsed.ppr) == (7, 0.2, "push")


def test_the_papers_values_are_the_defaults() -> None:
    """algorithms.md 2.8, 2B.3."""
    expected: dict[str, dict[str, object]] = {
        "graph-dense": {"seeds": 5, "hub_penalty": 0.5, "entity_penalty": 0.5, "restart": 0.15, "max_iter": 5},
        "graph-hybrid": {"seeds": 10, "seed_weighting": "rank", "mix": "mass", "ppr": "power", "k1": 1.5, "b": 0.75},
        "graph-rrf": {"seeds": 10, "depth": 100, "rrf_k": 60, "eps": 1e-4},
        "graph": {"entity_fallback": "uniform", "min_entity_len": 2, "min_entity_df": 1, "max_entity_df_ratio": 1.0},
        "rrf-ppr": {"depth": 100, "rrf_k": 60, "rrf_share": 0.5, "restart": 0.15},
        "tfidf-graph": {"min_df": 3, "max_df_ratio": 0.1, "entity_penalty": 0, "hub_penalty": 0.5},
        "bridge": {"lexical_weight": 0.3, "seeds": 5, "seed_temperature": 0.03, "graph_weight": 0.2, "title_boost": 5},
        "bridge-lexical": {"seed_temperature": 0.1, "graph_weight": 0.4, "restart": 0.1, "steps": 5, "pool": 30},
    }
    for name, values in expected.items():
        defaults = STRATEGIES[name].parameters().model_dump()
        assert {key: defaults[key] for key in values} == values


def test_a_missing_artefact_is_refused_when_the_strategy_is_made(make_index: Any, corpus: Any) -> None:
    index = make_index(corpus, frozenset({"vectors:passage"}))
    with pytest.raises(MissingArtefactError, match="vectors:passage"):
        make("dense", index, {})
