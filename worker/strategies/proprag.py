"""`proprag`: beam search for paths of linked propositions, between two walks; `triple-ppr`: one walk over triples.

Source: algorithms.md 3.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from polyhop.schemas.evidence import BY_VECTOR, Edge, Evidence, Fallback, Node, Note, Path, Seed
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import ModelUse, Question
from polyhop.schemas.settings import ENTITIES
from polyhop.warehouse.artefacts import vectors_of
from polyhop.warehouse.propositions import STORED_PROPOSITIONS, STORED_TRIPLES, StoredPropositions
from polyhop.warehouse.statements import read_prompt
from polyhop.worker.questions.parts import (
    FILTER_REPLY_TOKENS,
    FILTER_TOKENS,
    RecognitionFilter,
    recognition_task,
)
from polyhop.worker.ranking.proposition_paths import (
    FoundPaths,
    PropositionIndex,
    PropositionPath,
    PropositionRanking,
    rank_passages,
)
from polyhop.worker.ranking.proposition_walks import (
    PRESETS,
    EdgeWeights,
    PathPreset,
    PathRule,
    Similarities,
    most_similar,
    weighted_graph,
)
from polyhop.worker.ranking.similarity import cosines
from polyhop.worker.reading.models import estimate_tokens
from polyhop.worker.strategies.base import (
    CallBound,
    Found,
    Parameters,
    RankedStrategy,
    entity_vector,
    question_vector,
    strategy,
)

_FILTER_PROMPT = FilePath(__file__).parents[1] / "questions" / "prompts" / "prop.filter.md"
_DIGITS = 6  # decimals shown; rankings keep twelve (algorithms.md 0.3).
_SHOWN = 10  # Paths, and seeds of the first walk, that are listed; the beams hold the other paths.
_SIGNS = {"exact": "→", "synonym": "≈", "jump": "⇢"}
_SIGNS_IN_WORDS = "→ by an entity that both name, ≈ by entities with similar names, ⇢ by a jump"

FIRST_WALK = Fallback("stage1", "no path was found to start the second walk, so the first walk ranks")


@dataclass(frozen=True, slots=True)
class _Named:
    """A proposition in an evidence: its key there, its text, and the score of the best path over it."""

    key: str
    text: str
    score: float


class PathEvidence:
    """Writes rankings by proposition paths down for one open version."""

    def __init__(self, stored: StoredPropositions, passage_ids: Sequence[str]) -> None:
        self._stored = stored
        self._passage_ids = passage_ids

    def of(self, ranking: PropositionRanking) -> Evidence:
        """The evidence of one question: the seeds of the walks, the best paths, the beam after every depth."""
        fallback = {"": None, "dense": BY_VECTOR, "stage1": FIRST_WALK}[ranking.fallback]
        stored, focus, weighed = self._stored, ranking.focus, [(seed.entity, seed.weight) for seed in ranking.seeds]
        if ranking.found is None:  # the seeds of the first walk
            pairs = () if focus is None else zip(focus.entities.tolist(), focus.weights.tolist(), strict=True)
            weighed = [*pairs][:_SHOWN]
        seeds = tuple(Seed("entity", stored.keys[n], round(w, _DIGITS), stored.names[n]) for n, w in weighed)
        if ranking.found is None:
            return Evidence(seeds=seeds, fallback=fallback)
        named = self._named(ranking.found)
        paths = ranking.found.paths[:_SHOWN]
        shown = dict.fromkeys(number for path in paths for number in path.propositions)
        return Evidence(
            seeds=seeds,
            nodes=tuple(
                Node(one.key, f"{one.key}: {one.text}", round(one.score, _DIGITS), kind="proposition")
                for one in named.values()
            ),
            paths=tuple(self._path(path, named) for path in paths),
            notes=(
                Note("Explored", "entities of the most similar propositions", self._weights(ranking, "explore")),
                Note("Exploited", "entities of the best paths", self._weights(ranking, "exploit")),
                *_beam_notes(ranking.found.beams, named),
            ),
            fallback=fallback,
            measure="path score",
            node_count=len(named),
            stated=self._stated(named),
            context="\n".join(named[number].text for number in shown),
            data={"beams": [[self._row(path, named) for path in beam] for beam in ranking.found.beams]},
        )

    def _named(self, found: FoundPaths) -> dict[int, _Named]:
        """All propositions of a search by number, in the order in which paths mention them, best paths first."""
        scores: dict[int, float] = {}
        for path in found.paths:
            for number in path.propositions:
                scores.setdefault(number, path.score)
        texts = self._stored.texts.of([*scores])
        rows = zip(scores.items(), texts, strict=True)
        return {number: _Named(f"p{n}", text, score) for n, ((number, score), text) in enumerate(rows, start=1)}

    def _stated(self, named: Mapping[int, _Named]) -> dict[str, tuple[str, ...]]:
        """Keys of the propositions that passages state, by passage id."""
        passages = self._stored.graph.passages
        owners, offsets = passages.gathered(np.array([*named], dtype=np.int64))
        keys = [one.key for one in named.values()]
        found: dict[str, tuple[str, ...]] = {}
        for owner, passage in zip(owners.tolist(), passages.indices[offsets].tolist(), strict=True):
            passage_id = self._passage_ids[passage]
            found[passage_id] = (*found.get(passage_id, ()), keys[owner])
        return found

    def _weights(self, ranking: PropositionRanking, part: str) -> tuple[tuple[str, float], ...]:
        """Names and weights of the entities that one of the two sets chose, in descending order of weight."""
        weights = [(self._stored.names[seed.entity], getattr(seed, part)) for seed in ranking.seeds]
        chosen = [(name, round(weight, _DIGITS)) for name, weight in weights if weight > 0]
        return tuple(sorted(chosen, key=lambda pair: -pair[1]))

    def _path(self, path: PropositionPath, named: Mapping[int, _Named]) -> Path:
        keys = tuple(named[number].key for number in path.propositions)
        names = tuple(named[number].text for number in path.propositions)
        labels, entities = [], self._stored.names
        for connection in path.connections:  # how a path goes on, as people read it
            if connection.source is None or connection.target is None:
                labels.append("jump")
            elif connection.kind == "exact":
                labels.append(entities[connection.source])
            else:
                labels.append(f"{entities[connection.source]} ≈ {entities[connection.target]}")
        edges = tuple(Edge(*pair, (label,)) for pair, label in zip(pairwise(keys), labels, strict=True))
        line = names[0] + "".join(f" —{label}→ {name}" for label, name in zip(labels, names[1:], strict=True))
        return Path(line, keys, names, edges, round(path.score, _DIGITS))

    def _row(self, path: PropositionPath, named: Mapping[int, _Named]) -> dict[str, Any]:
        """A path of a beam for programs. Source: algorithms.md 3.1 (connections)."""
        connections = []
        for one in path.connections:
            source, target = (None if end is None else self._stored.keys[end] for end in (one.source, one.target))
            connections.append({"type": one.kind, "e1": source, "e2": target})
        nodes = [named[number].key for number in path.propositions]
        return {"nodes": nodes, "connections": connections, "score": round(path.score, _DIGITS)}


def _beam_notes(beams: Sequence[Sequence[PropositionPath]], named: Mapping[int, _Named]) -> list[Note]:
    """The beam after every depth, and what the signs between its propositions mean."""
    notes = []
    for length, beam in enumerate(beams, start=1):
        lines = []
        for path in beam:
            signs = ("", *(_SIGNS[connection.kind] for connection in path.connections))
            steps = zip(signs, (named[number].key for number in path.propositions), strict=True)
            lines.append("".join(sign + key for sign, key in steps) + f" {path.score:.4f}")
        notes.append(Note(f"Beam of length {length}", " · ".join(lines)))
    return [*notes, Note("Signs", _SIGNS_IN_WORDS)] if len(beams) > 1 else notes


class PropRagParameters(Parameters):
    """Parameters of `proprag`; defaults are the paper's, or the preset's."""

    grid: ClassVar[Mapping[str, str]] = {"beam_width": "2,4,6", "max_length": "1..4"}
    """Around the default B = 4; L_max as the paper varies it: algorithms.md 3."""

    preset: PathPreset = Field(
        "proprag",
        description="Values of the parameters not given: PropRAG's (proprag, default), or one walk as HippoRAG 2 "
        "(hipporag2).",
    )
    beam_width: int = Field(4, ge=1, le=100, description="B: paths that go on after a depth, default 4.")
    max_length: int = Field(3, ge=1, le=10, description="L_max: propositions in a path, default 3.")
    exact: bool = Field(
        default=True, description="Score candidates by the vector of their joined text, default 1 (yes)."
    )
    exact_when_few: bool = Field(
        default=True, description="Apply this also if at most beam_width candidates are left, default 1 (yes)."
    )
    allow_unconnected: bool = Field(
        default=False, description="Every proposition of the subgraph continues any path, default 0 (no)."
    )
    seed_propositions: int = Field(
        20, ge=1, le=10_000, description="N_prop: propositions whose entities start the first walk, default 20."
    )
    stage1_restart: float = Field(0.25, gt=0, lt=1, description="First walk: probability of returning, default 0.25.")
    stage1_only: bool = Field(default=False, description="Rank all passages by the first walk, default 0 (no).")
    subgraph_passages: int = Field(50, ge=1, le=100_000, description="K: passages of the subgraph, default 50.")
    seeds: Literal["both", "explore_only", "exploit_only"] = Field(
        "both", description="Entities that start the second walk: both sets (default) or one of them."
    )
    stage2_restart: float = Field(0.55, gt=0, lt=1, description="Second walk: probability of returning, default 0.55.")
    edge_weights: EdgeWeights = Field(
        "counts",
        description="Edges between entities weigh what they share and how similar their names are, twice (counts, "
        "default; published code), or 1 each (ones: the paper gives no weights).",
    )
    recognition_filter: bool = Field(
        default=False,
        description="A model (models.read) keeps those of the N_prop propositions that help to answer, as in HippoRAG "
        "2, default 0 (no); if it keeps none, similarity ranks.",
    )

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: Any) -> Any:
        """Fills in the values of the preset for parameters not given."""
        if not isinstance(given, dict):
            return given
        preset = PRESETS.get(given.get("preset", cls.model_fields["preset"].default), {})
        return {name: value for name, value in preset.items() if name in cls.model_fields} | given

    def rule(self) -> PathRule:
        """The rule of a search."""
        factor = {"entity_edge_factor": 1.0} if self.edge_weights == "ones" else {}  # algorithms.md 3.6
        return PathRule(
            **{**factor, **PRESETS[self.preset], **self.model_dump(exclude={"preset", "recognition_filter"})}
        )

    def call_bounds(self) -> tuple[CallBound, ...]:
        """At most the filter, once."""
        if not self.recognition_filter:
            return ()
        shown = FILTER_TOKENS + estimate_tokens(read_prompt(_FILTER_PROMPT).text)
        return (CallBound("prop.filter", 1, shown, FILTER_REPLY_TOKENS),)


class TripleParameters(PropRagParameters):
    """Parameters of `triple-ppr`: those of `proprag` with another preset."""

    grid: ClassVar[Mapping[str, str]] = {}  # Its preset searches no paths.

    preset: PathPreset = Field(
        "hipporag2",
        description="Values of the parameters not given: one walk as HippoRAG 2 (hipporag2, default), or PropRAG's "
        "paths over triples (proprag).",
    )


@strategy(
    "proprag",
    "Passages by paths of linked propositions: a walk, beam search in what it found, a second walk from the paths.",
    PropRagParameters,
    needs={"graph:propositions", "vectors:proposition", "vectors:passage"},
    batches=True,
    writes_context=True,
)
class PropositionStrategy(RankedStrategy):
    """Passages by proposition paths, for a whole micro-batch at a time."""

    propositions = STORED_PROPOSITIONS
    kind = "proposition"

    def __init__(self, reader: IndexReader, parameters: PropRagParameters, services: Services) -> None:
        super().__init__(reader)
        stored = reader.artefact(self.propositions)
        rule = parameters.rule()
        self._passages = np.asarray(reader.artefact(vectors_of("passage")))
        self._propositions = np.asarray(reader.artefact(vectors_of(self.kind)))
        walk = weighted_graph(stored.graph, rule.entity_edge_factor, rule.edge_weights)
        self._index = PropositionIndex(stored.graph, walk, self._propositions, stored.texts.of)
        self._rule = rule
        self._services = services
        self._evidence = PathEvidence(stored, reader.passage_ids)
        chat = services.chat() if parameters.recognition_filter else None
        self._filter = RecognitionFilter(chat, recognition_task(read_prompt(_FILTER_PROMPT))) if chat else None

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterator[Found]:
        """Rankings of a whole micro-batch, with their paths."""
        encoding = 0.0

        def encode(texts: Sequence[str]) -> NDArray[np.float32]:
            nonlocal encoding
            started = time.perf_counter()
            vectors = self._services.encode(texts, ENTITIES, is_repeated=True)
            encoding += time.perf_counter() - started
            return vectors

        similarities = []
        for question in questions:
            vector = entity_vector(question)
            by_passage = cosines(self._passages, question_vector(question))
            by_proposition = cosines(self._propositions, vector)
            similarities.append(Similarities(vector.astype(np.float64), by_proposition, by_passage))
        uses: list[ModelUse | None] = [None] * len(questions)
        if self._filter is not None:
            similarities, uses = self._recognised(self._filter, questions, similarities)
        seeded = time.perf_counter()
        rankings = rank_passages(self._index, similarities, self._rule, limit, encode)
        share = 1 / max(1, len(questions))
        walked = (time.perf_counter() - seeded - encoding) * share
        for one, use in zip(rankings, uses, strict=True):
            yield Found((one.passages, one.scores), self._evidence.of(one), walked, encoding * share, use)

    def _recognised(
        self, recognition: RecognitionFilter, questions: Sequence[Question], similarities: Sequence[Similarities]
    ) -> tuple[list[Similarities], list[ModelUse | None]]:
        """The questions with the propositions that a model keeps of the first. Source: algorithms.md 3.13."""
        first = [most_similar(one.propositions, self._rule.seed_propositions) for one in similarities]
        found = recognition.kept(questions, [self._index.texts_of(numbers.tolist()) for numbers in first])
        chosen = zip(similarities, first, found, strict=True)
        return [replace(one, seeds=numbers[kept]) for one, numbers, (kept, _) in chosen], [use for _, use in found]


@strategy(
    "triple-ppr",
    "HippoRAG 2's walk over triples and passages, on the graph of proprag built from triples.",
    TripleParameters,
    needs={"graph:triples", "vectors:triple", "vectors:passage"},
    batches=True,
    writes_context=True,
)
class TripleStrategy(PropositionStrategy):
    """The same over triples."""

    propositions = STORED_TRIPLES
    kind = "triple"
