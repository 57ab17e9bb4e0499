"""`qasa`: activation spreads from the question's names, gated by similarity to the question, in memory or in Neo4j.

Ablations are parameters (1.7); `naive-vector` is the one without a graph. Source: algorithms.md 1.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.evidence import (
    NOTHING_SEARCHED,
    QUESTION_VECTOR,
    Edge,
    Evidence,
    Fallback,
    Node,
    Note,
    Path,
    QuestionNames,
    Seed,
)
from polyhop.schemas.graph import (
    Activation,
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
from polyhop.schemas.ports import IndexReader, Services, SpreadingDatabase
from polyhop.schemas.query import Question
from polyhop.schemas.settings import ENTITIES as SHORT_TEXTS
from polyhop.warehouse.artefacts import ENTITIES, GRAPH, RELATIONS, vectors_of
from polyhop.worker.ranking.activation import find_seeds, next_seeds, spread, with_passages
from polyhop.worker.ranking.chains import best_chains, chain_line, context_text, without_duplicates
from polyhop.worker.ranking.fusion import best
from polyhop.worker.ranking.similarity import cosines, passages_of_entities
from polyhop.worker.strategies.base import (
    Found,
    Parameters,
    RankedStrategy,
    Ranking,
    entity_line,
    entity_vector,
    question_vector,
    strategy,
)
from polyhop.worker.strategies.entities import NameLookup, entity_search


@dataclass(frozen=True, slots=True)
class QasaRules:
    """Everything that decides what an engine returns. Source: algorithms.md 1.5, 1.6."""

    seeds: SeedRule
    spread: SpreadRule
    chains: ChainRule
    passes: int = 1
    pass_seeds: int = 30  # entities of a pass that start the next one
    has_passage_nodes: bool = False


class EmbeddedEngine:
    """Runs on the memory-mapped arrays of an open version."""

    def __init__(self, reader: IndexReader, rules: QasaRules) -> None:
        self._graph = self._nodes = reader.artefact(RELATIONS)
        self._passages: NDArray[np.float32] | None = None
        if rules.has_passage_nodes:
            if "vectors:passage" not in reader.artefacts:
                raise ConfigurationError(
                    f"passage_nodes of strategy 'qasa' needs 'vectors:passage', which index '{reader.name}' was built "
                    f"without. Build it with: polyhop index --index {reader.name} --add-strategy dense"
                )
            self._passages = np.asarray(reader.artefact(vectors_of("passage")))
            self._nodes = with_passages(self._graph, reader.artefact(GRAPH))
        self._vectors = np.asarray(reader.artefact(vectors_of("entity")))
        self._search = entity_search(reader)
        self._rules = rules

    def activate(self, question: SpreadQuestion) -> Activation:
        """Seeds, activations and chains of a question."""
        begun = time.perf_counter()
        rules = self._rules
        seeds = find_seeds(self._vectors, question, rules.seeds, self._search)
        seeded = time.perf_counter()
        named = start = {seed.entity: seed.activation for seed in seeds}
        gates = None if self._passages is None else self._passage_gates(self._passages, question)
        for left in reversed(range(rules.passes)):
            nodes, activations = spread(self._nodes, self._vectors, question.vector, start, rules.spread, gates)
            count = int(np.searchsorted(nodes, len(self._vectors)))  # nodes behind the entities are passages
            entities, values = nodes[:count], activations[:count]
            if left:
                start = next_seeds(entities, values, named, rules.pass_seeds)
        passages = None if gates is None else (nodes[count:] - len(self._vectors), activations[count:])
        found = best_chains(self._graph, entities, values, named, rules.chains)
        seconds = {"seed": seeded - begun, "traversal": time.perf_counter() - seeded}
        return Activation(seeds, entities, values, found.chains, found.is_cut, seconds, passages)

    def _passage_gates(self, passages: NDArray[np.float32], question: SpreadQuestion) -> NDArray[np.float64]:
        """Gates of all passages: their cosines, at least 0, or 1 without a gate. Source: algorithms.md 1.10."""
        if self._rules.spread.gate == "none":
            return np.ones(len(passages))
        vector = question.vector if question.passage_vector is None else question.passage_vector
        return np.maximum(cosines(passages, vector), 0.0)


class Neo4jEngine:
    """Asks the database question by question; drops duplicates as the embedded one does. Source: algorithms.md 1.6."""

    def __init__(self, database: SpreadingDatabase, rules: QasaRules) -> None:
        self._database = database
        self._rules = rules

    def activate(self, question: SpreadQuestion) -> Activation:
        """Seeds, activations and chains of a question."""
        rules = self._rules
        found = self._database.activate(question, rules.seeds, rules.spread, rules.chains)
        by_path = {chain.entities: chain for chain in found.chains}
        kept = without_duplicates(list(by_path))
        return replace(found, chains=tuple(by_path[path] for path in kept[: rules.chains.limit]))


_DIGITS = 6  # decimals shown; rankings keep twelve (algorithms.md 0.3).
_CUT = Note("Search for chains cut short", "stopped at 200,000 paths (ChainRule.max_paths); stronger chains may exist")


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
        0.01, ge=0, le=1000, description="tau: activation at or below this is not passed on, default 0.01."
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
    passes: int = Field(
        1, ge=1, le=5, description="Passes of activation, each from the K_e strongest entities of the last, default 1."
    )
    passage_nodes: bool = Field(
        default=False,
        description="Activation spreads over passages, too, gated by their similarity to the question, and ranks them, "
        "default 0 (no).",
    )


def rules_of(parameters: QasaParameters) -> QasaRules:
    """The parameters as an engine wants them."""
    p = parameters
    return QasaRules(
        seeds=SeedRule(p.seed_vector_budget, p.seed_score),
        spread=SpreadRule(p.steps, p.decay, p.threshold, p.gate, p.edge_multiplicity, p.uniform_requires_embedding),
        chains=ChainRule(p.top_k_chains, p.max_chain_length, p.chain_dedupe),
        passes=p.passes,
        pass_seeds=p.top_k_entities,
        has_passage_nodes=p.passage_nodes,
    )


@strategy(
    "qasa",
    "QASA: activation spreads from the question's names, gated by similarity to the question.",
    QasaParameters,
    needs={"graph", "graph:relations", "vectors:entity"},
    needs_question_names=True,
    writes_context=True,
)
class QasaStrategy(RankedStrategy):
    """Looks names up, lets an engine spread, ranks passages by what they mention."""

    def __init__(self, reader: IndexReader, parameters: QasaParameters, services: Services) -> None:
        super().__init__(reader)
        self._parameters = parameters
        self._encode = services.encode
        self._engine: EmbeddedEngine | Neo4jEngine
        thin: SpreadingDatabase | None = None
        if parameters.engine == "neo4j":
            if parameters.passes > 1 or parameters.passage_nodes:
                raise ConfigurationError(
                    "Parameters 'passes' and 'passage_nodes' require engine=embedded; leave out engine=neo4j."
                )
            database = services.graph_database()
            self._engine = Neo4jEngine(database, rules_of(parameters))
            thin = database if parameters.thin_client else None
        elif parameters.thin_client:
            raise ConfigurationError("Parameter 'thin_client' requires engine=neo4j; set it or leave out thin_client.")
        else:
            self._engine = EmbeddedEngine(reader, rules_of(parameters))
        self._lookup = NameLookup(reader, thin.named if thin else None)
        graph = reader.artefact(GRAPH)
        self._keys = graph.keys
        self._mentions = graph.by_entity
        self._read_entities = thin.entities if thin else reader.artefact(ENTITIES)

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterator[Found]:
        """Rankings with the activation."""
        for question in questions:
            asked = SpreadQuestion(entity_vector(question), self._names(question), question_vector(question))
            begun = time.perf_counter()
            activation = self._engine.activate(asked)
            ranking = self._ranking(activation, max(limit, 0))
            fallback = None if question.names else _FALLBACKS[self._parameters.no_entity_policy]
            evidence = self._evidence(asked, activation, fallback)
            walked = time.perf_counter() - begun - activation.seconds["seed"]
            yield Found(ranking, evidence, max(0.0, walked))

    def _ranking(self, activation: Activation, limit: int) -> Ranking:
        """Passages by their own activation where they are nodes, else by that of the entities they mention."""
        if activation.passages is None:
            return passages_of_entities(self._mentions, activation.entities, activation.values, limit)
        numbers, scores = activation.passages
        first = best(scores, limit)
        return numbers[first], scores[first]

    def _names(self, question: Question) -> tuple[SeedName, ...]:
        if not self._keys:
            return ()
        if not question.names:
            is_empty = self._parameters.no_entity_policy == "empty"
            return () if is_empty else (SeedName("", "vector", vector=entity_vector(question)),)
        found = [(name, *self._lookup.find(name)) for name in question.names]
        hints = list(dict.fromkeys(name.search_hint for name, match, _ in found if match == "vector"))
        vector_of = dict(zip(hints, self._encode(hints, SHORT_TEXTS), strict=True)) if hints else {}
        return tuple(
            SeedName(name.key, match, entities, vector_of.get(name.search_hint)) for name, match, entities in found
        )

    def _evidence(self, question: SpreadQuestion, activation: Activation, fallback: Fallback | None) -> Evidence:
        """The evidence of one question. Source: algorithms.md 1.1, 1.5 steps 4 and 6.

        Returns:
            Names, seeds, the top K_e entities by activation and those of seeds and chains as nodes, chains as paths,
            and both as a reader gets them in `context`.
        """
        first = activation.entities[best(activation.values, self._parameters.top_k_entities)].tolist()
        shown = {*first, *(seed.entity for seed in activation.seeds)}
        shown.update(entity for chain in activation.chains for entity in chain.entities)
        numbers = sorted(shown)
        entities = dict(zip(numbers, self._read_entities(numbers), strict=True))
        value_of = dict(zip(activation.entities.tolist(), activation.values.tolist(), strict=True))
        paths = []
        for chain in activation.chains:
            names = tuple(entities[number].name for number in chain.entities)
            keys = tuple(entities[number].key for number in chain.entities)
            steps = zip(pairwise(keys), chain.hops, strict=True)
            edges = tuple(Edge(*pair, hop.forward, hop.backward) for pair, hop in steps)
            paths.append(Path(chain_line(names, chain.hops), keys, names, edges, round(chain.score, _DIGITS)))
        matched = {self._keys[entity] for name in question.names for entity in name.entities}
        missed = {name.name for name in question.names if name.name and not name.entities}
        seeds = []
        for seed in activation.seeds:
            entity, start, score = entities[seed.entity], round(seed.activation, _DIGITS), round(seed.score, _DIGITS)
            seeds.append(Seed("entity", entity.key, start, entity.name, seed.match, score))
        nodes = []
        for number in [*first, *sorted(shown - set(first), key=lambda number: (-value_of[number], number))]:
            one, value = entities[number], round(value_of[number], _DIGITS)
            nodes.append(Node(one.key, one.name, value, type=one.type, description=one.description))
        return Evidence(
            names=QuestionNames(tuple(sorted(matched)), tuple(sorted(missed))),
            seeds=tuple(seeds),
            nodes=tuple(nodes),
            paths=tuple(paths),
            notes=(_CUT,) if activation.is_cut else (),
            fallback=fallback,
            measure="activation",
            node_count=len(activation.entities),
            context=context_text([path.text for path in paths], [entity_line(entities[number]) for number in first]),
        )
