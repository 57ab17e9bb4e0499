"""The entities of an open index as a graph: look-up, traversal, graph and fusion search, connections (`Index.graph`).

Owns no formula (worker/ranking does). Ids are those of the table `entities`; an id that the version does not have
leads nowhere. Source: algorithms.md 5.2.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polyhop.connections import find_connections, graph_entities
from polyhop.graph_results import Connections, GraphEntity, ReachedEntity, SimilarEntity
from polyhop.schemas.errors import AlgorithmError, MissingArtefactError
from polyhop.schemas.query import Question, QuestionName, RankedPassage, Retrieval
from polyhop.schemas.text import norm_ws
from polyhop.warehouse.artefacts import ALIASES, ENTITY_IDS, GRAPH, RELATIONS, vectors_of
from polyhop.worker.ranking.entity_search import NameSearch, similar_entities
from polyhop.worker.ranking.fusion import reciprocal_rank_fusion
from polyhop.worker.ranking.similarity import mentioned_in
from polyhop.worker.ranking.traversal import expand, passages_by_hops, passages_mentioning, require_depth, traverse
from polyhop.worker.session import IndexSession
from polyhop.worker.strategies.arcana import FUSION, GRAPH_SEARCH
from polyhop.worker.strategies.base import ranked_passages
from polyhop.worker.strategies.lookup import NameLookup

if TYPE_CHECKING:
    from scipy import sparse


class EntityGraph:
    """The entities of one open version and the relations between them, followed in both directions.

    Raises:
        MissingArtefactError: If the version was built without relations.
    """

    def __init__(self, session: IndexSession) -> None:
        self._session = session
        self._index = session.published
        if "graph:relations" not in self._index.artefacts:
            raise MissingArtefactError("graph:relations", self._index.name, GRAPH_SEARCH, "The graph of entities")

    def find_entities(self, name: str, *, fuzzy: bool = False) -> list[GraphEntity]:
        """Entities whose full name is this one, by length of name, then name, then key.

        A part of a name finds nothing by itself: `halvorsen` finds Erik Halvorsen with `fuzzy` only.

        Args:
            name: A name in any case; accents, punctuation and whitespace do not count, and a name that resolution made
                another form of an entity's leads to that entity.
            fuzzy: Also entities one of whose names contains this one, or all of its words in any order.

        Returns:
            Empty for a name without letters or digits, or that nobody has.
        """
        numbers = set(self._named([name]))
        if fuzzy:
            numbers.update(self._search.like(name))
            merged = list(self._index.artefact(ALIASES).items())
            number_of = self._index.artefact(GRAPH).number_of
            found_keys = (merged[place][1] for place in NameSearch([alias for alias, _ in merged]).like(name))
            numbers.update(number_of[key] for key in found_keys if key in number_of)
        found = graph_entities(self._index, sorted(numbers))
        return sorted(found, key=lambda entity: (len(entity.name), norm_ws(entity.name), entity.key))

    def find_entities_by_embedding(
        self, query: str | NDArray[np.float32], top_k: int = 10, min_similarity: float = 0.0
    ) -> list[SimilarEntity]:
        """Entities whose vector (of name and description) is near a text or a vector.

        Args:
            query: A text, which is encoded, or a vector of shape (d,).
            top_k: Entities to return at most.
            min_similarity: Smallest cosine that counts, itself included.

        Returns:
            By descending cosine, then key; entities without vector are left out.

        Raises:
            MissingArtefactError: If the version has no vectors of entities.
            AlgorithmError: If the vector has another dimension.
        """
        if "vectors:entity" not in self._index.artefacts:
            raise MissingArtefactError("vectors:entity", self._index.name, "naive-vector", "Similarity to entities")
        vector = self._encoded(query) if isinstance(query, str) else query
        numbers, cosines = similar_entities(self._index.artefact(vectors_of("entity")), vector, top_k, min_similarity)
        pairs = zip(graph_entities(self._index, numbers.tolist()), cosines.tolist(), strict=True)
        return [SimilarEntity(entity, cosine) for entity, cosine in pairs]

    def traverse(self, entity_id: str, depth: int = 1) -> list[ReachedEntity]:
        """Entities within `depth` relations of one, without it, by hops, then key; of an unknown one none.

        Raises:
            AlgorithmError: If `depth` is negative.
        """
        require_depth(depth)
        starts = self._numbers([entity_id])
        if not starts:
            return []
        reached, hops = traverse(self._index.artefact(RELATIONS), starts[0], depth)
        pairs = zip(graph_entities(self._index, reached.tolist()), hops.tolist(), strict=True)
        return [ReachedEntity(entity, hop) for entity, hop in pairs]

    def expand(self, ids: Iterable[str], depth: int) -> dict[str, int]:
        """Hops by entity id: the starts have 0, unknown ones are left out; by hops, then key.

        Raises:
            AlgorithmError: If `depth` is negative.
        """
        reached, hops = expand(self._index.artefact(RELATIONS), self._numbers(ids), depth)
        order = np.argsort(hops, kind="stable")
        id_of = self._index.artefact(ENTITY_IDS)
        return {id_of[n]: hop for n, hop in zip(reached[order].tolist(), hops[order].tolist(), strict=True)}

    def chunks_for_entities(self, ids: Iterable[str]) -> list[str]:
        """Ids of the passages that mention any of these entities, ascending, each once."""
        passage_ids = self._index.passage_ids
        return [passage_ids[n] for n in passages_mentioning(self._mentioned_in, self._numbers(ids)).tolist()]

    def graph_search(
        self, names: Sequence[str], depth: int = 1, *, decay: float = 0.5, limit: int | None = None
    ) -> list[RankedPassage]:
        """Passages that mention entities within `depth` relations of those named, in descending order of score.

        A passage scores `0.1 * decay ** hop` for each such entity that it mentions; ties go to the smaller id.

        Args:
            names: Exact names, as in `find_entities`; a name that nobody has adds nothing.
            depth: Relations to follow, at least 0.
            decay: What a hop leaves of an entity's worth.
            limit: Passages to return at most; None: all.

        Raises:
            AlgorithmError: If `depth` is negative, or `decay` not between 0 and 1.
        """
        if not 0 <= decay <= 1:
            raise AlgorithmError(f"A decay is a number from 0 to 1, not {decay}.")
        reached, hops = expand(self._index.artefact(RELATIONS), self._named(names), depth)
        count = len(self._index.passage_ids) if limit is None else limit
        ranking = passages_by_hops(self._mentioned_in, reached, hops, decay, count)
        return list(ranked_passages(self._index.passage_ids, ranking))

    def fusion_search(
        self, names: Sequence[str], vector_results: Sequence[str], depth: int = 1, limit: int = 10, k: float = 60
    ) -> list[RankedPassage]:
        """Passage ids of any vector search, fused by reciprocal rank with graph search for these names.

        Args:
            names: Exact names; if none is an entity's, the order of `vector_results` stays.
            vector_results: Passage ids in descending order of score, of this index or beyond it; a repeated one keeps
                its first rank.
            depth: Relations to follow, at least 0.
            limit: Passages to return at most.
            k: Damping of the first ranks, at least 0.

        Returns:
            In descending order of score; ties by rank in `vector_results`, then by rank in graph search, then by id.

        Raises:
            AlgorithmError: If `depth` or `k` is negative.
        """
        if k < 0:
            raise AlgorithmError(f"The damping k is {k}; it must be at least 0.")
        by_graph = [passage.passage_id for passage in self.graph_search(names, depth)]
        ids = sorted({*vector_results, *by_graph})
        number_of = {passage_id: number for number, passage_id in enumerate(ids)}
        lists = [[number_of[passage_id] for passage_id in one] for one in (vector_results, by_graph)]
        fused = reciprocal_rank_fusion(lists, k)[: max(limit, 0)]
        return [RankedPassage(ids[number], rank, score) for rank, (number, score) in enumerate(fused, start=1)]

    def search_with_graph(self, question: str, *, depth: int = 1, limit: int = 10, k: float = 60) -> Retrieval:
        """A question's passages by strategy `fusion`: its names start the graph search, its vector the other list.

        Without a name in the question, or with none that is an entity's, passages come by vector alone.

        Raises:
            EmptyQuestionError: If the question has no word in it.
            MissingArtefactError: If the version has no vectors of passages.
            ConfigurationError: If a parameter is out of its range.
        """
        answerer = self._session.answerer(FUSION, {"depth": depth, "rrf_k": k})
        return answerer.retrieve([Question(question)], limit=limit)[0]

    def connect(self, a: str, b: str, *, max_length: int = 4, paths: int = 5) -> Connections:
        """The shortest connections between two entities, with the passages that state them.

        Args:
            a: A name, as in `find_entities`.
            b: Another one.
            max_length: Relations that a connection may have, at least 0.
            paths: Connections to return at most.

        Raises:
            UnknownIdError: If no entity has one of the names; it says which names are similar.
            ConfigurationError: If one has neither letter nor digit.
            AlgorithmError: If `max_length` is negative.
        """
        return find_connections(self._index, self._lookup, self._mentioned_in, (a, b), (max_length, paths))

    @cached_property
    def _lookup(self) -> NameLookup:
        return NameLookup(self._index)

    @cached_property
    def _search(self) -> NameSearch:
        return NameSearch(self._index.artefact(GRAPH).keys)

    @cached_property
    def _mentioned_in(self) -> "sparse.csr_array":
        return mentioned_in(self._index.artefact(GRAPH))

    @cached_property
    def _number_of(self) -> dict[str, int]:
        ids = self._index.artefact(ENTITY_IDS)
        return {entity_id: number for number, entity_id in enumerate(ids)}

    def _numbers(self, ids: Iterable[str]) -> list[int]:
        """Numbers of known ids, ascending, each once."""
        return sorted({self._number_of[given] for given in ids if given in self._number_of})

    def _named(self, names: Iterable[str]) -> list[int]:
        """Numbers of the entities with these names (or this one name), ascending, each once."""
        given = [names] if isinstance(names, str) else names
        return sorted({number for name in given for number in self._lookup.find(QuestionName(name, name))[1]})

    def _encoded(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._session.services.encode_entities([text])[0]
        return vector
