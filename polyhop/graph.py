"""The entities of an open index as a graph: look-up, traversal, search, connections (`Index.graph`).

Ids are those of the table `entities`; an id that the version does not have leads nowhere. Source: algorithms.md 5.2.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError, ConfigurationError, MissingArtefactError, UnknownIdError
from polyhop.schemas.graph import BipartiteGraph, EdgesByEntity
from polyhop.schemas.names import name_tokens
from polyhop.schemas.query import Question, QuestionName, RankedPassage, Retrieval
from polyhop.schemas.settings import ENTITIES as SHORT_TEXTS
from polyhop.schemas.text import norm_ws
from polyhop.schemas.types import is_people_or_language
from polyhop.warehouse.artefacts import ALIASES, ENTITIES, ENTITY_IDS, GRAPH, RELATIONS, vectors_of
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.tables.version_rows import RelationPassages, Stated, read_name_records, read_relation_passages
from polyhop.worker.ranking import traversal
from polyhop.worker.ranking.chains import chain_line, hops_of
from polyhop.worker.ranking.fusion import reciprocal_rank_fusion
from polyhop.worker.session import IndexSession
from polyhop.worker.strategies.arcana import FUSION, GRAPH_SEARCH
from polyhop.worker.strategies.base import ranked_passages
from polyhop.worker.strategies.entities import NameLookup, entity_search


@dataclass(frozen=True, slots=True)
class GraphEntity:
    """An entity: its id in the tables, key, most frequent spelling, type ("" if unknown) and description."""

    id: str
    key: str
    name: str
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class SimilarEntity:
    """An entity and the cosine of its vector with what was asked, -1 to 1."""

    entity: GraphEntity
    similarity: float


@dataclass(frozen=True, slots=True)
class ReachedEntity:
    """An entity and the fewest relations that lead to it, at least 1."""

    entity: GraphEntity
    hop: int


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A passage's id and title."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """A relation between an entity of a connection and the next one."""

    relation: str  # Its label.
    forward: bool  # Whether it points from the first to the next, as stored.
    passages: tuple[CitedPassage, ...]  # The first passages that state it, by id.
    passage_count: int  # How many do in all.


@dataclass(frozen=True, slots=True)
class Connection:
    """One way from an entity to another."""

    # "relation" if stated relations lead there, "passage" if a passage merely mentions both.
    via: Literal["relation", "passage"]
    entities: tuple[GraphEntity, ...]  # Those on the way, both ends included; a single one if both ends are one entity.
    # The relations from each entity to the next, one fewer than entities; none with "passage".
    hops: tuple[tuple[StatedRelation, ...], ...]
    passages: tuple[CitedPassage, ...]  # The passage that mentions both, with "passage".
    text: str  # All that on one line.


@dataclass(frozen=True, slots=True)
class Connections:
    """The shortest connections between two names."""

    index: str  # Name of the index.
    version: int  # Version searched.
    a: str  # The first name as asked.
    b: str  # The second.
    from_entities: tuple[GraphEntity, ...]  # Entities of the first name.
    to_entities: tuple[GraphEntity, ...]  # Entities of the second.
    max_length: int  # Relations that a connection may have.
    paths: tuple[Connection, ...]  # Connections, all of one kind and length; empty if there is none.

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop connect`."""
        return dataclasses.asdict(self)


CITED = 3  # so many passages are named for each relation
_SUGGESTED = 3  # names in an error's sentence; chosen, and no result depends on it


def require_entities(index: PublishedIndex, lookup: NameLookup, name: str) -> tuple[int, ...]:
    """Numbers of the entities of a name, ascending."""
    key = " ".join(name_tokens(name))
    if not key:
        raise ConfigurationError(f"'{name}' is not a name; give a name with letters or digits.")
    numbers = lookup.find(QuestionName(name, name))[1]
    if numbers:
        return numbers
    # names that contain this one or its words, the shortest first; else those that look most like it
    found = index.artefact(ENTITIES)(traversal.NameSearch(index.artefact(GRAPH).keys).like(key))
    similar = sorted((entity.name for entity in found), key=lambda name: (len(name), name))[:_SUGGESTED]
    similar = similar or read_name_records(index.layout, index.name, [key]).nearest.get(key, [])
    meant = " or ".join(map(repr, similar))
    hint = f"did you mean {meant}?" if similar else "no name is similar."
    raise UnknownIdError(f"Index '{index.name}' has no entity '{name}'; {hint}")


def graph_entities(index: PublishedIndex, numbers: Sequence[int]) -> list[GraphEntity]:
    """Entities by number, in the order asked."""
    entities, ids = index.artefact(ENTITIES)(numbers), index.artefact(ENTITY_IDS)
    return [
        GraphEntity(ids[number], entity.key, entity.name, entity.type, entity.description)
        for number, entity in zip(numbers, entities, strict=True)
    ]


def _stated(
    index: PublishedIndex, stated: Mapping[Stated, RelationPassages], relation: Stated, *, forward: bool
) -> StatedRelation:
    """A relation with its passages; one that was imported without any has none."""
    sources = stated.get(relation, RelationPassages((), 0))
    passages = tuple(_cited(index, index.number_of_passage[passage_id]) for passage_id in sources.passage_ids)
    return StatedRelation(relation[1], forward, passages, sources.count)


def _by_passage(
    index: PublishedIndex, mentions: EdgesByEntity, ends: tuple[Sequence[int], Sequence[int]], passage: int
) -> Connection:
    """A passage that mentions both names; of several entities of a name the one with the smallest key counts."""
    numbers = [next(n for n in end if passage in traversal.passages_mentioning(mentions, [n])) for end in ends]
    left, right = graph_entities(index, numbers)
    cited = _cited(index, passage)
    text = f"{left.name} --(both in passage {cited.id})-- {right.name}"
    return Connection("passage", (left, right), (), (cited,), text)


def _cited(index: PublishedIndex, passage: int) -> CitedPassage:
    return CitedPassage(index.passage_ids[passage], index.passage_titles[passage])


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

    def find_entities(self, name: str, *, fuzzy: bool = True) -> list[GraphEntity]:
        """Entities of a name, those of the full name first, then by length of name, name and key.

        Args:
            name: A name in any case; accents, punctuation and whitespace do not count, and a name that resolution made
                another form of an entity's leads to that entity.
            fuzzy: Also entities one of whose names contains this one, or all of its words in any order: `halvorsen`
                finds Erik Halvorsen. False: full names only.

        Returns:
            Empty for a name without letters or digits, or that no entity has.
        """
        exact = self._named([name])
        numbers = set(exact)
        if fuzzy:
            numbers.update(traversal.NameSearch(self._index.artefact(GRAPH).keys).like(name))
            merged = list(self._index.artefact(ALIASES).items())
            number_of = self._index.artefact(GRAPH).number_of
            found_keys = (
                merged[number][1] for number in traversal.NameSearch([alias for alias, _ in merged]).like(name)
            )
            numbers.update(number_of[key] for key in found_keys if key in number_of)
        groups = exact, sorted(numbers.difference(exact))
        shortest = lambda entity: (len(entity.name), norm_ws(entity.name), entity.key)  # noqa: E731
        return [one for group in groups for one in sorted(graph_entities(self._index, group), key=shortest)]

    def entity(self, entity_id: str) -> GraphEntity:
        """The entity of an id.

        Raises:
            UnknownIdError: If the version has none of this id.
        """
        numbers = self._numbers([entity_id])
        if not numbers:
            raise UnknownIdError(f"Index '{self._index.name}' has no entity with the id '{entity_id}'.")
        return graph_entities(self._index, numbers)[0]

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
        vector = self._session.services.encode([query], SHORT_TEXTS)[0] if isinstance(query, str) else query
        vectors, search = self._index.artefact(vectors_of("entity")), entity_search(self._index)
        numbers, cosines = traversal.similar_entities(vectors, vector, top_k, min_similarity, search)
        pairs = zip(graph_entities(self._index, numbers.tolist()), cosines.tolist(), strict=True)
        return [SimilarEntity(entity, cosine) for entity, cosine in pairs]

    def traverse(self, entity_id: str, depth: int = 1) -> list[ReachedEntity]:
        """Entities within `depth` relations of one, without it, by hops, then key; of an unknown one none.

        Raises:
            AlgorithmError: If `depth` is negative.
        """
        traversal.require_depth(depth)
        starts = self._numbers([entity_id])
        if not starts:
            return []
        reached, hops = traversal.traverse(self._index.artefact(RELATIONS), starts[0], depth)
        pairs = zip(graph_entities(self._index, reached.tolist()), hops.tolist(), strict=True)
        return [ReachedEntity(entity, hop) for entity, hop in pairs]

    def expand(self, ids: Iterable[str], depth: int) -> dict[str, int]:
        """Hops by entity id: the starts have 0, unknown ones are left out; by hops, then key.

        Raises:
            AlgorithmError: If `depth` is negative.
        """
        reached, hops = traversal.expand(self._index.artefact(RELATIONS), self._numbers(ids), depth)
        order = np.argsort(hops, kind="stable")
        id_of = self._index.artefact(ENTITY_IDS)
        return {id_of[n]: hop for n, hop in zip(reached[order].tolist(), hops[order].tolist(), strict=True)}

    def chunks_for_entities(self, ids: Iterable[str]) -> list[str]:
        """Ids of the passages that mention any of these entities, ascending, each once."""
        passage_ids = self._index.passage_ids
        return [passage_ids[n] for n in traversal.passages_mentioning(self._mentions, self._numbers(ids)).tolist()]

    def graph_search(
        self, names: Sequence[str], depth: int = 1, *, decay: float = 0.5, limit: int | None = None
    ) -> list[RankedPassage]:
        """Passages that mention entities within `depth` relations of those named, in descending order of score.

        A passage scores `0.1 * decay ** hop` for each such entity that it mentions; ties go to the smaller id.

        Args:
            names: Exact names, as in `find_entities`; an unknown name adds nothing.
            depth: Relations to follow, at least 0.
            decay: What a hop leaves of an entity's worth.
            limit: Passages to return at most; None: all.

        Raises:
            AlgorithmError: If `depth` is negative, or `decay` not between 0 and 1.
        """
        if not 0 <= decay <= 1:
            raise AlgorithmError(f"A decay is a number from 0 to 1, not {decay}.")
        reached, hops = traversal.expand(self._index.artefact(RELATIONS), self._named(names), depth)
        count = len(self._index.passage_ids) if limit is None else limit
        ranking = traversal.passages_by_hops(self._mentions, reached, hops, decay, count)
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
        index = self._index
        sources, targets = (require_entities(index, self._lookup, name) for name in (a, b))
        barred = [number for number, key in enumerate(index.artefact(GRAPH).keys) if is_people_or_language(key)]
        ways = traversal.shortest_paths(index.artefact(RELATIONS), sources, targets, max_length, paths, barred)
        if ways:
            numbers = sorted({number for path in ways for number in path})
            entity_of = dict(zip(numbers, graph_entities(index, numbers), strict=True))
            keys = [entity_of[number].key for number in numbers]
            stated = read_relation_passages(index.layout, index.name, index.version, keys, CITED)
            connections = []
            for path in ways:
                hops = hops_of(index.artefact(RELATIONS), path)
                entities = tuple(entity_of[number] for number in path)
                relations = []
                for (left, right), hop in zip(pairwise(entities), hops, strict=True):
                    there = [_stated(index, stated, (left.key, name, right.key), forward=True) for name in hop.forward]
                    back = [_stated(index, stated, (right.key, name, left.key), forward=False) for name in hop.backward]
                    relations.append((*there, *back))
                text = chain_line([entity.name for entity in entities], hops)
                connections.append(Connection("relation", entities, tuple(relations), (), text))
        else:
            shared = traversal.shared_passages(self._mentions, sources, targets)[: max(paths, 0)].tolist()
            connections = [_by_passage(index, self._mentions, (sources, targets), passage) for passage in shared]
        begin, end = (tuple(graph_entities(index, numbers)) for numbers in (sources, targets))
        return Connections(index.name, index.version, a, b, begin, end, max_length, tuple(connections))

    @cached_property
    def _lookup(self) -> NameLookup:
        return NameLookup(self._index)

    @property
    def _mentions(self) -> EdgesByEntity:
        graph: BipartiteGraph = self._index.artefact(GRAPH)
        return graph.by_entity

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
