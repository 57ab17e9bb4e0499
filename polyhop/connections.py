"""How two named entities of an index connect: shortest paths of relations, else passages that mention both.

Finds no paths itself (worker/ranking/traversal.py does) and prints nothing. No path leads over a demonym or a language:
that two things are English connects nothing; such a name may be an end.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from polyhop.graph_results import CitedPassage, Connection, Connections, GraphEntity, StatedRelation
from polyhop.schemas.errors import ConfigurationError, UnknownIdError
from polyhop.schemas.names import name_tokens
from polyhop.schemas.query import QuestionName
from polyhop.schemas.types import is_people_or_language
from polyhop.warehouse.artefacts import ENTITIES, ENTITY_IDS, GRAPH, RELATIONS
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.tables.decisions import read_name_records
from polyhop.warehouse.tables.relation_passages import RelationPassages, Stated, read_relation_passages
from polyhop.worker.ranking.chain_text import chain_line
from polyhop.worker.ranking.chains import hops_of
from polyhop.worker.ranking.entity_search import NameSearch
from polyhop.worker.ranking.traversal import Path, passages_mentioning, shared_passages, shortest_paths
from polyhop.worker.strategies.lookup import NameLookup

if TYPE_CHECKING:
    from scipy import sparse

CITED = 3
"""So many passages are named for each relation."""

_SUGGESTED = 3  # names in an error's sentence; chosen, and no result depends on it


def find_connections(
    index: PublishedIndex,
    lookup: NameLookup,
    mentioned_in: "sparse.csr_array",
    names: tuple[str, str],
    limits: tuple[int, int],
) -> Connections:
    """The shortest connections between two names.

    Args:
        index: An open version with relations.
        lookup: Its names.
        mentioned_in: Its passages by entity (similarity.mentioned_in).
        names: The two.
        limits: Relations in a connection, and connections, at most.

    Raises:
        UnknownIdError: If no entity has one of the names.
        ConfigurationError: If one has neither letter nor digit.
        AlgorithmError: If a connection may have fewer than 0 relations.
    """
    sources, targets = (require_entities(index, lookup, name) for name in names)
    max_length, count = limits
    barred = [number for number, key in enumerate(index.artefact(GRAPH).keys) if is_people_or_language(key)]
    paths = shortest_paths(index.artefact(RELATIONS), sources, targets, max_length, count, barred)
    if paths:
        connections = _by_relations(index, paths)
    else:
        shared = shared_passages(mentioned_in, sources, targets)[: max(count, 0)].tolist()
        connections = [_by_passage(index, mentioned_in, (sources, targets), passage) for passage in shared]
    begin, end = (tuple(graph_entities(index, numbers)) for numbers in (sources, targets))
    return Connections(index.name, index.version, *names, begin, end, max_length, tuple(connections))


def require_entities(index: PublishedIndex, lookup: NameLookup, name: str) -> tuple[int, ...]:
    """Numbers of the entities of a name, ascending.

    Raises:
        UnknownIdError: If there is none; it says which names are similar.
        ConfigurationError: If the name has neither letter nor digit.
    """
    key = " ".join(name_tokens(name))
    if not key:
        raise ConfigurationError(f"'{name}' is not a name; give a name with letters or digits.")
    numbers = lookup.find(QuestionName(name, name))[1]
    if numbers:
        return numbers
    similar = _similar(index, key)
    hint = (
        f"did you mean {' or '.join(repr(other) for other in similar)}?"
        if similar
        else "none of its names looks like that."
    )
    raise UnknownIdError(f"Index '{index.name}' has no entity '{name}'; {hint}")


def graph_entities(index: PublishedIndex, numbers: Sequence[int]) -> list[GraphEntity]:
    """Entities by number, in the order asked."""
    entities, ids = index.artefact(ENTITIES)(numbers), index.artefact(ENTITY_IDS)
    return [
        GraphEntity(ids[number], entity.key, entity.name, entity.type, entity.description)
        for number, entity in zip(numbers, entities, strict=True)
    ]


def _similar(index: PublishedIndex, key: str) -> list[str]:
    """Names that contain this one or its words, the shortest first; else those that look most like it."""
    names = [entity.name for entity in index.artefact(ENTITIES)(NameSearch(index.artefact(GRAPH).keys).like(key))]
    if names:
        return sorted(names, key=lambda name: (len(name), name))[:_SUGGESTED]
    return read_name_records(index.layout, index.name, [key]).nearest.get(key, [])


def _by_relations(index: PublishedIndex, paths: Sequence[Path]) -> list[Connection]:
    numbers = sorted({number for path in paths for number in path})
    entity_of = dict(zip(numbers, graph_entities(index, numbers), strict=True))
    keys = [entity_of[number].key for number in numbers]
    stated = read_relation_passages(index.layout, index.name, index.version, keys, CITED)
    connections = []
    for path in paths:
        hops = hops_of(index.artefact(RELATIONS), path)
        entities = tuple(entity_of[number] for number in path)
        relations = tuple(
            (
                *(_stated(index, stated, (left.key, label, right.key), forward=True) for label in hop.forward),
                *(_stated(index, stated, (right.key, label, left.key), forward=False) for label in hop.backward),
            )
            for (left, right), hop in zip(pairwise(entities), hops, strict=True)
        )
        text = chain_line([entity.name for entity in entities], hops)
        connections.append(Connection("relation", entities, relations, (), text))
    return connections


def _stated(
    index: PublishedIndex, stated: Mapping[Stated, RelationPassages], relation: Stated, *, forward: bool
) -> StatedRelation:
    """A relation with its passages; one that was imported without any has none."""
    sources = stated.get(relation, RelationPassages((), 0))
    passages = tuple(_cited(index, index.number_of_passage[passage_id]) for passage_id in sources.passage_ids)
    return StatedRelation(relation[1], forward, passages, sources.count)


def _by_passage(
    index: PublishedIndex, mentioned_in: "sparse.csr_array", ends: tuple[Sequence[int], Sequence[int]], passage: int
) -> Connection:
    """A passage that mentions both names; of several entities of a name the one with the smallest key counts."""
    numbers = [next(n for n in end if passage in passages_mentioning(mentioned_in, [n])) for end in ends]
    left, right = graph_entities(index, numbers)
    cited = _cited(index, passage)
    text = f"{left.name} --(both in passage {cited.id})-- {right.name}"
    return Connection("passage", (left, right), (), (cited,), text)


def _cited(index: PublishedIndex, passage: int) -> CitedPassage:
    return CitedPassage(index.passage_ids[passage], index.passage_titles[passage])
