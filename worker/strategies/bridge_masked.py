"""`bridge-masked`: bridge with a second look at the question, encoded once more without its rare names.

Removing the names lets second-hop passages, which do not mention them, rank higher. The walk also uses parts of titles
as edges; BM25 is weighted by how much it is trusted. Source: bridge-masked.md 1, 3.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.evidence import Note
from polyhop.schemas.manifest import NEAR
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question
from polyhop.warehouse.artefacts import CHUNK_GRAPH, NAMES
from polyhop.worker.ranking.bm25 import DEPTH, Trust, agreement, completeness, containment, count_terms, score
from polyhop.worker.ranking.bridge import (
    flat_walk_part,
    is_unnested,
    masked_text,
    names_share,
    relative,
    walk_parts,
)
from polyhop.worker.ranking.fusion import best, contenders
from polyhop.worker.ranking.similarity import cosine_error, exact_cosines
from polyhop.worker.strategies.base import Found, question_vector, strategy
from polyhop.worker.strategies.bridge import (
    IN_COSINES,
    REFERENCE_RANK,
    BridgeParameters,
    BridgeStrategy,
    Candidates,
    ExactScores,
)
from polyhop.worker.strategies.entities import QuestionEntities, entity_meanings, match_meanings

LEAST_GRAPH_SHARE = 0.2  # c_min, of graph_weight: left to questions without rare names; bridge-masked.md 4.


@dataclass(frozen=True, slots=True)
class MaskedQuestion:
    """A question as it is read before anything is ranked."""

    entities: QuestionEntities
    seeds: NDArray[np.intp]  # Shape (m,): those of them that start the walk, ascending.
    shares: NDArray[np.float64]
    masked: str  # Its words without its rare names; "" if there is no such question.
    names_share: float  # c.


IN_MASKED_COSINES = (*IN_COSINES, "lexical_share")
"""Parameters in units of the local encoder's cosine. Source: bridge-masked.md 8, algorithms.md 2B.5."""

_BLEND_ROUNDINGS = 4  # Roundings of a blended vector's components, as so many further dimensions in `cosine_error`.


class BridgeMaskedParameters(BridgeParameters):
    """Parameters of `bridge-masked`; see bridge-masked.md 4 for how far each may move without harm."""

    grid: ClassVar[Mapping[str, str]] = {"graph_weight": ".1,.2,.35,.5", "mask_weight": "0,.5,.7,.8"}
    """Around the defaults, beyond where bridge-masked.md 4 found them flat."""

    graph_weight: float = Field(
        0.35, ge=0, le=1000, description="lambda: weight of the walk in the score, default 0.35."
    )
    mask_weight: float = Field(
        0.7,
        ge=0,
        le=1,
        description="w: share of the masked question in the similarity, default 0.7; 0: the question alone.",
    )
    lexical_share: float = Field(
        0.3,
        ge=0,
        le=1000,
        description="phi: weight of BM25 in the score, where the question is about no rare name, default 0.3.",
    )


@strategy(
    "bridge-masked",
    "As bridge, with a second encoding of the question without its rare names, and BM25 weighted by how much it is "
    "trusted.",
    BridgeMaskedParameters,
    needs={"graph", "graph:title-chunks", "lexical:stems", "vectors:passage"},
    batches=True,
)
class BridgeMaskedStrategy(BridgeStrategy):
    """Read, seed, spread, fuse, cover. A passage's score is F; the order of the first ones also covers the question."""

    graph = CHUNK_GRAPH
    steps = 7  # T; bridge-masked.md 4.
    in_cosines = IN_MASKED_COSINES
    _parameters: BridgeMaskedParameters

    def __init__(self, reader: IndexReader, parameters: BridgeMaskedParameters, services: Services) -> None:
        super().__init__(reader, parameters, services)
        self._services = services
        graph = reader.artefact(CHUNK_GRAPH)
        self._find = reader.artefact(NAMES).find
        self._meanings_of = entity_meanings(reader)
        self._number_of = graph.number_of
        self._error = cosine_error(self._vectors.dimension + _BLEND_ROUNDINGS)

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterator[Found]:
        """Rankings with the seeds of their walks, and what was read in the question."""
        p, vectors = self._parameters, [question_vector(question) for question in questions]
        reads = [self.read(question.text) for question in questions]
        # Vectors of the masked questions, which come again with other names: cached.
        texts = [text for text in dict.fromkeys(read.masked for read in reads) if text]
        is_mixed, mask_share = p.mask_weight > 0 and texts, np.float32(p.mask_weight)
        vector_of = dict(zip(texts, self._services.encode(texts, is_repeated=True), strict=True)) if is_mixed else {}
        others = [vector_of.get(read.masked) for read in reads]
        wanted = [
            [vector] if other is None else [vector, (1 - mask_share) * vector + mask_share * other]
            for vector, other in zip(vectors, others, strict=True)
        ]
        searches = self._vectors.start(wanted, max(NEAR, limit, p.seeds))
        for question, read, (vector, *_), other in zip(questions, reads, wanted, others, strict=True):
            share = read.names_share
            stems = sorted(count_terms(self._stems(question.text), self._impacts.terms))
            scores = score(self._impacts, dict.fromkeys(stems, 1))
            by_words = contenders(scores, max(NEAR, limit, p.seeds))
            near = searches.near(by_words[scores[by_words] > 0])
            nearest = near.rows[contenders(near.cosines[0], DEPTH, self._error)]
            trust = self._trust(vector, nearest, scores, stems)
            lexical = relative(scores)
            weighed = p.lexical_weight * trust.in_seeds * lexical
            seeding = near.cosines[0] + weighed[near.rows]
            exact = partial(self._exact, vector, other, weighed)
            candidates = Candidates(near.rows, seeding, near.cosines[-1], exact)
            start = self._start(read.entities, read.seeds, read.shares, candidates)
            seeded = time.perf_counter()
            # Added to the similarity. Source: bridge-masked.md 3 step 3.
            graph_weight = p.graph_weight * max(share, LEAST_GRAPH_SHARE)
            added = walk_parts(self._walk(start.seeds), flat_walk_part, graph_weight, REFERENCE_RANK)
            lexical_weight = p.lexical_share * (1 - share) * trust.in_fusion
            if lexical_weight > 0:
                added = added.plus(lexical_weight * lexical)
            # The parts of the scores are not shown: `added` is of the walk and of BM25.
            ranking, _ = self._ranking(candidates, added, stems, p.coverage_weight * trust.in_seeds, limit)
            # What was read in the question and how far BM25 was trusted, rounded for reading.
            parts = {"names share (c)": share, "completeness (kappa)": trust.completeness}
            parts |= {"agreement (o)": float(trust.agreement), "trust (r)": trust.in_seeds}
            items = tuple((label, round(value, 6)) for label, value in parts.items())
            masked = read.masked if p.mask_weight > 0 and read.masked else "none"
            notes = (Note("Masked question", masked), Note("Trust in words", items=items))
            evidence = replace(start.evidence(self._passage_ids, self._keys), notes=notes)
            yield Found(ranking, evidence, time.perf_counter() - seeded)

    def read(self, text: str) -> MaskedQuestion:
        """Names and mask of a question. Source: bridge-masked.md 1, 3 steps 0a and 0b."""
        mentions = self._find(text)
        meanings = [self._meanings_of(mention.key) for mention in mentions]
        entities = match_meanings(meanings, self._number_of, self._df)
        spans = []
        for mention, keys in zip(mentions, meanings, strict=True):
            counts = [self._df[self._number_of[key]] for key in keys if key in self._number_of]
            if any(0 < count <= self._common for count in counts):  # it is rare
                spans.append((mention.start, mention.end))
        masked = masked_text(text, spans) if spans else ""
        first = is_unnested(entities.matched)
        seeds, share = entities.numbers[first], names_share(self._df[entities.numbers[first]], self._common)
        return MaskedQuestion(entities, seeds, entities.shares[first], masked if self._stems(masked) else "", share)

    def _trust(
        self, vector: NDArray[np.float32], near: NDArray[np.intp], scores: NDArray[np.float64], stems: list[int]
    ) -> Trust:
        """Trust in BM25; the nearest passages are among `near`. Source: bridge-masked.md 3, 0c and 0d."""
        by_cosine = near[best(exact_cosines(self._vectors.vectors, near, vector), DEPTH)]
        by_words = best(scores, DEPTH)
        by_words = by_words[scores[by_words] > 0]
        if not len(by_words):
            return Trust(0.0, 0)
        contains = containment(self._impacts, stems, by_words[:1])[0]
        return Trust(completeness(contains, self._impacts.idf[stems]), agreement(by_cosine, by_words))

    def _exact(
        self,
        vector: NDArray[np.float32],
        masked: NDArray[np.float32] | None,
        words: NDArray[np.float64],
        rows: NDArray[np.intp],
    ) -> ExactScores:
        """Similarities of a few passages for seeding and for fusing (s), each computed in float64; no BM25 in s."""
        cosine = exact_cosines(self._vectors.vectors, rows, vector)
        fused, share = cosine, self._parameters.mask_weight
        if masked is not None:
            fused = (1 - share) * cosine + share * exact_cosines(self._vectors.vectors, rows, masked)
        return ExactScores(cosine + words[rows], fused, np.zeros(len(rows)))
