"""`qasa`: activation spreads from the question's names, gated by similarity to the question; passages follow.

Owns no formula: an engine spreads (spreading.py), passages are ranked as in algorithms.md 6.2. Ablations are
parameters (1.7); `naive-vector` is the one without a graph. Source: algorithms.md 1.
"""

import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.evidence import NOTHING_SEARCHED, QUESTION_VECTOR
from polyhop.schemas.ports import IndexReader, Services, SpreadingDatabase
from polyhop.schemas.query import Question, QuestionName, Retrieval
from polyhop.schemas.spreading import (
    ChainRule,
    Dedupe,
    Gate,
    Multiplicity,
    SeedName,
    SeedRule,
    SeedScore,
    SpreadQuestion,
    SpreadRule,
)
from polyhop.warehouse.artefacts import GRAPH
from polyhop.worker.ranking.similarity import mentioned_in, passages_of_entities
from polyhop.worker.strategies.base import Parameters, entity_vector, ranked_passages, retrieve_each, strategy
from polyhop.worker.strategies.lookup import NameLookup
from polyhop.worker.strategies.qasa_evidence import QasaEvidence
from polyhop.worker.strategies.spreading import EmbeddedEngine, Engine, QasaRules
from polyhop.worker.strategies.spreading_neo4j import Neo4jEngine

NAME = "qasa"
_FALLBACKS = {"question_vector": QUESTION_VECTOR, "empty": NOTHING_SEARCHED}


class QasaParameters(Parameters):
    """Parameters of `qasa`; the defaults are the paper's."""

    grid: ClassVar[Mapping[str, str]] = {"steps": "1..4", "decay": ".3,.5,.7,.9,1"}
    """The sweeps of the paper: algorithms.md 1.5."""

    engine: Literal["embedded", "neo4j"] = Field(
        "embedded",
        description="Engine: embedded, on the index's own arrays, or neo4j, the server of NEO4J_URI that holds "
        "the exported version; both give the same.",
    )
    thin_client: bool = Field(
        default=False,
        description="engine=neo4j: names are looked up, and descriptions read, on the server, too, default 0 (in the "
        "index); both give the same.",
    )
    steps: int = Field(3, ge=0, le=10, description="T: steps that activation spreads, default 3; 0: seeds only.")
    decay: float = Field(0.7, gt=0, le=1, description="alpha: share of activation that one step passes, default 0.7.")
    threshold: float = Field(
        0.01, ge=0, le=1000, description="tau: what does not pass on more than this is ignored, default 0.01."
    )
    gate: Gate = Field(
        "cosine", description="Scale of an increment: cosine of entity and question (default), or none (ablation)."
    )
    uniform_requires_embedding: bool = Field(
        default=True,
        description="Without gate, entities without vector receive nothing, default 1; 0: as the paper's code.",
    )
    edge_multiplicity: Multiplicity = Field(
        "set", description="Neighbours count once (set, default) or once per relation (per_edge)."
    )
    seed_vector_budget: int = Field(
        5, ge=1, le=1000, description="Entities searched by similarity, shared among a question's names, default 5."
    )
    seed_score: SeedScore = Field(
        "question",
        description="Score of an entity found by similarity: cosine with the question (default), with the name's hint "
        "(entity), or (1 + that) / 2 (neo4j).",
    )
    no_entity_policy: Literal["question_vector", "empty"] = Field(
        "question_vector", description="A question without names: its own vector finds seeds (default), or nothing."
    )
    top_k_entities: int = Field(30, ge=1, le=10_000, description="K_e: entities in the evidence, default 30.")
    top_k_chains: int = Field(
        30, ge=1, le=10_000, description="K_c: chains kept, before duplicates are dropped, default 30."
    )
    max_chain_length: int = Field(4, ge=1, le=6, description="L_max: relations in a chain, default 4.")
    chain_dedupe: Dedupe = Field(
        "after_limit",
        description="Duplicates are dropped after the cut at K_c (after_limit, default) or before it (before_limit).",
    )
    max_paths_enumerated: int = Field(
        200_000, ge=1, le=2_000_000, description="Most chains looked at, default 200000; stopping is flagged."
    )


class QasaStrategy:
    """Looks names up, lets an engine spread, ranks passages by what they mention."""

    def __init__(
        self,
        reader: IndexReader,
        parameters: QasaParameters,
        engine: Engine,
        database: SpreadingDatabase | None = None,
    ) -> None:
        """On an open version; names and descriptions come from `database` where one is given."""
        self.name = NAME
        self._parameters = parameters
        self._engine = engine
        self._lookup = NameLookup(reader, database.named if database else None)
        self._passage_ids = reader.passage_ids
        graph = reader.artefact(GRAPH)
        self._entity_count = graph.entity_count
        self._mentioned_in = mentioned_in(graph)
        self._evidence = QasaEvidence(reader, parameters.top_k_entities, database.entities if database else None)

    def searched_hints(self, question: Question) -> list[str]:
        """Hints of the names that no entity has."""
        return [name.search_hint for name in question.names if self._lookup.find(name)[0] == "vector"]

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        return retrieve_each(questions, limit, self._retrieve_one)

    def _retrieve_one(self, question: Question, limit: int) -> Retrieval:
        begun = time.perf_counter()
        asked = SpreadQuestion(entity_vector(question, NAME), self._names(question))
        (activation,) = self._engine.activate([asked])
        numbers, scores = passages_of_entities(
            self._mentioned_in, activation.entities, activation.values, max(limit, 0)
        )
        fallback = None if question.names else _FALLBACKS[self._parameters.no_entity_policy]
        evidence = self._evidence.of(asked, activation, fallback)
        seeding = activation.seconds["seed"]
        seconds = {"seed": seeding, "traversal": max(0.0, time.perf_counter() - begun - seeding)}
        return Retrieval(ranked_passages(self._passage_ids, (numbers, scores)), evidence, seconds)

    def _names(self, question: Question) -> tuple[SeedName, ...]:
        """The question's names, looked up; without any, the question itself is the fallback, or nothing is."""
        if not self._entity_count:
            return ()
        if question.names:
            return tuple(self._seed_name(question, name) for name in question.names)
        is_empty = self._parameters.no_entity_policy == "empty"
        return () if is_empty else (SeedName("", "vector", vector=entity_vector(question, NAME)),)

    def _seed_name(self, question: Question, name: QuestionName) -> SeedName:
        match, entities = self._lookup.find(name)
        return SeedName(name.key, match, entities, question.hint_vectors.get(name.search_hint))


@strategy(
    "qasa",
    "QASA: activation spreads from the question's names, gated by similarity to the question.",
    QasaParameters,
    needs={"graph", "graph:relations", "vectors:entity"},
    needs_question_names=True,
    writes_context=True,
)
def build_qasa(reader: IndexReader, parameters: QasaParameters, services: Services) -> QasaStrategy:
    """`qasa` on an open version."""
    rules = rules_of(parameters)
    if parameters.engine == "neo4j":
        database = services.graph_database()
        thin = database if parameters.thin_client else None
        return QasaStrategy(reader, parameters, Neo4jEngine(database, rules), thin)
    if parameters.thin_client:
        raise ConfigurationError("Parameter 'thin_client' reads from Neo4j; set engine=neo4j, too, or leave it out.")
    return QasaStrategy(reader, parameters, EmbeddedEngine(reader, rules))


def rules_of(parameters: QasaParameters) -> QasaRules:
    """The parameters as an engine wants them."""
    p = parameters
    return QasaRules(
        seeds=SeedRule(p.seed_vector_budget, p.seed_score),
        spread=SpreadRule(p.steps, p.decay, p.threshold, p.gate, p.edge_multiplicity, p.uniform_requires_embedding),
        chains=ChainRule(p.top_k_chains, p.max_chain_length, p.chain_dedupe, p.max_paths_enumerated),
    )
