"""The registry: complete, described, and clear about what it refuses."""

import re
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from memory_index import PASSAGES, MemoryIndex, memory_services

from polyhop.schemas.errors import ConfigurationError, MissingArtefactError, UnknownStrategyError
from polyhop.schemas.ports import Artefact
from polyhop.schemas.query import Question
from polyhop.worker.strategies import registry
from polyhop.worker.strategies.base import Parameters, strategy
from polyhop.worker.strategies.registry import MODULES, STRATEGIES, make, parse_parameters, spec_of

HANDLES = [handle for handle in MemoryIndex(PASSAGES)._makers if handle.is_optional and handle.strategy != "STRATEGY"]


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
def test_a_strategy_reads_nothing_but_what_it_declares(name: str) -> None:
    """Every artefact that is not declared is missing."""
    fallback = {"entity_fallback": "bm25_top1"} if name == "graph" else {}
    index = MemoryIndex(PASSAGES, artefacts=STRATEGIES[name].needs)
    question = Question("Paris", vector=index.encode(["Paris"])[0])
    found = make(name, index, fallback, memory_services(index)).retrieve([question], limit=3)
    assert found[0].passages


@pytest.mark.parametrize("handle", HANDLES, ids=lambda handle: handle.name)
def test_the_strategy_that_a_missing_artefact_is_built_for_needs_it(handle: Artefact[Any]) -> None:
    assert handle.name in STRATEGIES[handle.strategy].needs


def test_an_unknown_strategy_names_the_nearest() -> None:
    with pytest.raises(UnknownStrategyError, match="did you mean 'bridge'"):
        spec_of("brigde")


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("bridge", {"restrat": 0.2}, "'restrat' of strategy 'bridge'; did you mean 'restart'"),
        ("dense", {"k1": 1}, "'k1' of strategy 'dense'; it takes proximity_weight, rerank,"),
        ("bm25-ce", {"rerank": "true"}, "Strategy 'bm25-ce' always re-ranks; leave out 'rerank'."),
        ("dense", {"rerank_depth": 5}, "Parameter 'rerank_depth' of strategy 'dense' requires rerank=true."),
        ("graph-rrf", {"k1": 1}, "Unknown parameter 'k1' of strategy 'graph-rrf'; "),
        *(
            (name, {key: value}, f"Parameter '{key}' of strategy '{name}' is {value!r}; it must be {allowed}")
            for name, key, value, allowed in (
                ("bridge", "rerank", "yes, please", "true or false"),
                ("bridge", "restart", 1.0, "a number above 0 and below 1"),
                ("bridge", "seeds", 2.5, "a whole number at least 1 and at most 10000"),
                ("bridge", "graph_weight", float("nan"), "a number at least 0 and at most 1000"),
                ("bridge", "graph_weight", "much", "a number at least 0 and at most 1000"),
                ("graph-dense", "ppr", "exact", "one of power, push"),
                ("bm25", "b", 1.01, "a number at least 0 and at most 1"),
                ("tfidf-graph", "max_df_ratio", 0, "a number above 0 and at most 1"),
                ("hub-facets", "soft_weight", -1, "a number"),
            )
        ),
    ],
)
def test_an_unknown_parameter_or_value_is_refused(name: str, given: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        parse_parameters(spec_of(name), given)


def test_values_may_be_strings_as_the_command_line_gives_them() -> None:
    parsed: Any = parse_parameters(spec_of("graph-dense"), {"seeds": "7", "restart": "0.2", "ppr": "push"})
    assert (parsed.seeds, parsed.restart, parsed.ppr) == (7, 0.2, "push")


PAPERS = {
    "graph-search": "depth 1 decay 0.5 matcher exact entities 20 min_similarity 0.3",
    "fusion": "rrf_k 60.0 over_fetch 2 vector_passages None graph_passages None",
    "bm25-rm3": "k1 1.5 b 0.75 fb_docs 10 fb_terms 10 original_weight 0.5 drop_stopwords False",
    "bm25-2step": "fb_docs 5 fb_entities 5 max_df_ratio 0.1 entity_word_weight 0.5",
    "qasa": "steps 3 decay 0.7 threshold 0.01 gate cosine uniform_requires_embedding True edge_multiplicity set "
    "seed_vector_budget 5 seed_score question no_entity_policy question_vector top_k_entities 30 top_k_chains 30 "
    "max_chain_length 4 chain_dedupe after_limit",
    "bm25-ce": "rerank_depth 100",
    "rrf-ce": "rerank_depth 20",
    "graph-dense": "seeds 5 hub_penalty 0.5 entity_penalty 0.5 restart 0.15 max_iter 5",
    "graph-hybrid": "seeds 10 seed_weighting rank mix mass ppr power",
    "graph-rrf": "seeds 10",
    "rrf-ppr": "rrf_share 0.5 restart 0.15",
    "tfidf-graph": "min_df 3 max_df_ratio 0.1 entity_penalty 0.0 hub_penalty 0.5",
    "bridge": "lexical_weight 0.3 seeds 5 seed_temperature 0.03 graph_weight 0.2 title_boost 5.0",
    "bridge-lexical": "seed_temperature 0.1 graph_weight 0.4 restart 0.1 seeds 5",
    "bridge-masked": "lexical_share 0.3 mask_weight 0.7 graph_weight 0.35",
}


@pytest.mark.parametrize("name", PAPERS)
def test_the_papers_values_are_the_defaults(name: str) -> None:
    """algorithms.md 1.5, 2.8, 2.9, 2B.3, 5.2, 5.4 A4."""
    defaults, words = STRATEGIES[name].parameters().model_dump(), PAPERS[name].split()
    assert " ".join(f"{parameter} {defaults[parameter]}" for parameter in words[::2]) == PAPERS[name]


@pytest.mark.parametrize(
    ("name", "given", "artefacts", "words"),
    [
        ("dense", {}, (), "vectors:passage"),
        ("graph-dense", {"search": "ann"}, ("vectors:passage",), "--add-strategy dense-ann"),
        ("graph-search", {"matcher": "embedding"}, ("graph", "graph:relations"), "'vectors:entity'.*'memory'"),
    ],
)
def test_a_missing_artefact_is_refused_at_once(name: str, given: Any, artefacts: Any, words: str) -> None:
    with pytest.raises((MissingArtefactError, ConfigurationError), match=words):
        make(name, MemoryIndex(PASSAGES, artefacts=artefacts), given)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("no_such_module_anywhere", "does not load: ModuleNotFoundError"),
        ("polyhop.schemas.text", "declares none of that name with @strategy"),
    ],
)
def test_an_unusable_strategy_of_a_package_says_why(monkeypatch: pytest.MonkeyPatch, module: str, words: str) -> None:
    monkeypatch.setattr(registry, "extensions", lambda _group: {"theirs": EntryPoint("theirs", module, registry.GROUP)})
    assert "theirs" in STRATEGIES
    with pytest.raises(ConfigurationError, match=words):
        spec_of("theirs")


def test_two_modules_cannot_declare_one_name() -> None:
    spec_of("bm25")

    def build(reader: Any, parameters: Any, services: Any) -> Any: ...

    words = r"'bm25' is declared twice, by polyhop\.worker\.strategies\.baselines and"
    with pytest.raises(ConfigurationError, match=words):
        strategy("bm25", "Another.", Parameters, needs=())(build)


@pytest.mark.parametrize("name", MODULES)
def test_the_module_table_names_the_module_that_declares_the_strategy(name: str) -> None:
    assert STRATEGIES[name].build.__module__ == f"polyhop.worker.strategies.{MODULES[name]}"
