"""The strategies by name, and how to make one.

A new strategy is one more entry here and in schemas.strategies.NEEDS.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from schemas.errors import ConfigurationError, UnknownSettingError, UnknownStrategyError
from schemas.ports import IndexReader, Strategy
from worker.strategies.arcana import (
    ArcanaFusionParameters,
    GraphSearchParameters,
    build_fusion,
    build_graph_search,
)
from worker.strategies.bridge import BridgeLexicalParameters, BridgeParameters, build_bridge, build_bridge_lexical
from worker.strategies.dense import (
    DenseAnnParameters,
    DenseParameters,
    NaiveVectorParameters,
    build_dense,
    build_dense_ann,
    build_naive_vector,
)
from worker.strategies.feedback import (
    RelevanceModelParameters,
    TwoStepParameters,
    build_bm25_2step,
    build_bm25_rm3,
)
from worker.strategies.fused import FusionParameters, build_rrf
from worker.strategies.lexical import build_bm25
from worker.strategies.qasa import QasaParameters, build_qasa
from worker.strategies.rerank import FusedRerankParameters, LexicalRerankParameters, build_bm25_ce, build_rrf_ce
from worker.strategies.rrf_ppr import RrfPprParameters, build_rrf_ppr
from worker.strategies.spec import LexicalParameters, Parameters, StrategySpec
from worker.strategies.sprig import (
    GraphDenseParameters,
    GraphHybridParameters,
    GraphParameters,
    GraphRrfParameters,
    TfidfGraphParameters,
    build_graph,
    build_graph_dense,
    build_graph_hybrid,
    build_graph_rrf,
    build_tfidf_graph,
)

_SPECS = (
    StrategySpec(
        "bridge",
        "Cosine and BM25 seed a walk over shared entities; the first passages together cover the question.",
        BridgeParameters,
        build_bridge,
    ),
    StrategySpec(
        "bridge-lexical", "As bridge, with BM25 in place of vectors.", BridgeLexicalParameters, build_bridge_lexical
    ),
    StrategySpec("bm25", "Passages by shared words (BM25).", LexicalParameters, build_bm25),
    StrategySpec(
        "bm25-rm3", "BM25 with words that the first passages suggest (RM3).", RelevanceModelParameters, build_bm25_rm3
    ),
    StrategySpec(
        "bm25-2step", "BM25 with the entities of its own first passages.", TwoStepParameters, build_bm25_2step
    ),
    StrategySpec(
        "bm25-ce",
        "BM25's first, put in order by a cross-encoder or its stand-in.",
        LexicalRerankParameters,
        build_bm25_ce,
    ),
    StrategySpec("dense", "Passages by cosine of their vectors.", DenseParameters, build_dense),
    StrategySpec(
        "dense-ann", "As dense, searched approximately by an HNSW graph.", DenseAnnParameters, build_dense_ann
    ),
    StrategySpec("rrf", "BM25 and dense, fused by rank.", FusionParameters, build_rrf),
    StrategySpec(
        "rrf-ce",
        "As rrf, its first put in order by a cross-encoder or its stand-in.",
        FusedRerankParameters,
        build_rrf_ce,
    ),
    StrategySpec(
        "naive-vector",
        "Passages that mention the entities nearest to the question.",
        NaiveVectorParameters,
        build_naive_vector,
    ),
    StrategySpec(
        "qasa",
        "QASA: activation spreads from the question's names, gated by likeness to the question.",
        QasaParameters,
        build_qasa,
        needs_question_names=True,
    ),
    StrategySpec("graph", "SPRIG: a walk from the question's entities.", GraphParameters, build_graph),
    StrategySpec(
        "graph-hybrid", "SPRIG: a walk from entities and BM25's first.", GraphHybridParameters, build_graph_hybrid
    ),
    StrategySpec(
        "graph-dense", "SPRIG: a walk from entities and the nearest passages.", GraphDenseParameters, build_graph_dense
    ),
    StrategySpec(
        "graph-rrf",
        "SPRIG: a walk from entities and the first of the fused rankings.",
        GraphRrfParameters,
        build_graph_rrf,
    ),
    StrategySpec(
        "rrf-ppr", "SPRIG: scores of rrf and of a walk from entities, added.", RrfPprParameters, build_rrf_ppr
    ),
    StrategySpec(
        "tfidf-graph", "SPRIG: a walk from the question's terms over terms.", TfidfGraphParameters, build_tfidf_graph
    ),
    StrategySpec(
        "graph-search",
        "Arcana: passages of entities within a few relations of the question's, nearer ones first.",
        GraphSearchParameters,
        build_graph_search,
        needs_question_names=True,
    ),
    StrategySpec(
        "fusion",
        "Arcana: graph search and dense, fused by rank.",
        ArcanaFusionParameters,
        build_fusion,
        needs_question_names=True,
    ),
)
STRATEGIES: Mapping[str, StrategySpec] = {spec.name: spec for spec in _SPECS}


def spec_of(name: str) -> StrategySpec:
    """The strategy of that name.

    Raises:
        UnknownStrategyError: If there is none.
    """
    if name not in STRATEGIES:
        raise UnknownStrategyError(name, STRATEGIES)
    return STRATEGIES[name]


def parse_parameters(spec: StrategySpec, given: Mapping[str, object]) -> Parameters:
    """A strategy's parameters from names and values; values may be strings.

    Raises:
        ConfigurationError: If one is unknown or out of its range.
    """
    known = spec.parameters.model_fields
    where = f"strategy '{spec.name}'"
    for key in given:
        if key not in known:
            raise (
                UnknownSettingError(key, known, where)
                if known
                else ConfigurationError(f"Unknown setting '{key}' in {where}, which has none.")
            )
    try:
        return spec.parameters.model_validate(dict(given))
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        raise ConfigurationError(
            f"Parameter '{key}' of {where} is {given[key]!r}; it must be {_allowed(known[key])}."
        ) from error


def make(name: str, reader: IndexReader, params: Mapping[str, object]) -> Strategy:
    """A strategy ready on an open version.

    Args:
        name: One of `STRATEGIES`.
        reader: The open version; it must hold what the strategy needs.
        params: Parameters that differ from their defaults.

    Raises:
        UnknownStrategyError: If there is no such strategy.
        ConfigurationError: If a parameter is unknown or out of its range.
        MissingArtefactError: If the version was built without something it needs.
    """
    spec = spec_of(name)
    return spec.build(reader, parse_parameters(spec, params))


def _allowed(field: FieldInfo) -> str:
    """The range of a parameter in words."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    limits = [
        f"{word} {getattr(rule, name)}"
        for rule in field.metadata
        for name, word in words.items()
        if getattr(rule, name, None) is not None
    ]
    kind: Any = field.annotation
    choices = getattr(kind, "__args__", None)
    if choices:
        return "one of " + ", ".join(map(str, choices))
    if kind is bool:
        return "true or false"
    number = "a whole number" if kind is int else "a number"
    return " ".join((number, " and ".join(limits))).strip()
