"""The handles of our artefacts: how each is opened, and what is left of it under a filter of questions.

A handle reads an open version through `Stored` alone, so that strategies, which import this module, reach no store.
Saves nothing (artefact_arrays.py does).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.artefacts import Artefact, Restriction, Stored, unrestricted
from polyhop.schemas.graph import BipartiteGraph, Entity, LexicalIndex, RelationGraph
from polyhop.schemas.languages import recorded_language
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.propositions import Rows
from polyhop.schemas.restricting import (
    kept_entities,
    kept_statements,
    new_numbers,
    restricted_graph,
    restricted_postings,
    restricted_relations,
)
from polyhop.schemas.settings import ExtractionSettings
from polyhop.warehouse.artefact_arrays import (
    open_bipartite,
    open_chunk_graph,
    open_entity_texts,
    open_lexical,
    open_passages_of_statements,
    open_relations,
    open_vectors,
    surface_graph,
)
from polyhop.warehouse.statements import statement

EntityReader = Callable[[Sequence[int]], list[Entity]]
"""Entities by number, in the order asked."""

NearestPassages = Callable[[NDArray[np.float32], int, int], Sequence[int]]
"""Numbers of about `count` passages nearest to a vector of shape (d,), nearest first: vector, count, ef_search."""


def _graph(stored: Stored) -> BipartiteGraph:
    return open_bipartite(stored, tuple(_column(stored, "entity_keys")), len(stored.passage_ids))


def _allowed_rows(handle: Artefact[BipartiteGraph], restriction: Restriction) -> BipartiteGraph:
    return restricted_graph(restriction.whole(handle), restriction.allowed)


GRAPH = Artefact("graph", _graph, "graph", restrict=_allowed_rows)
"""Passages and the entities they mention."""


def _every_entity(stored: Stored) -> NDArray[np.int64]:
    return np.arange(stored.artefact(GRAPH).entity_count, dtype=np.int64)


def _entities_left(_: Artefact[NDArray[np.int64]], restriction: Restriction) -> NDArray[np.int64]:
    return kept_entities(restriction.whole(GRAPH), restriction.allowed)


ENTITY_NUMBERS: Artefact[NDArray[np.int64]] = Artefact("graph", _every_entity, "graph", restrict=_entities_left)
"""Shape (n,), int64, ascending: numbers, in the whole version, of the entities in `GRAPH`."""


def _chunk_graph(stored: Stored) -> BipartiteGraph:
    return open_chunk_graph(stored, stored.artefact(GRAPH))


def _chunks_left(handle: Artefact[BipartiteGraph], restriction: Restriction) -> BipartiteGraph:
    return restricted_graph(restriction.whole(handle), restriction.allowed, restriction.artefact(ENTITY_NUMBERS))


CHUNK_GRAPH = Artefact("graph:title-chunks", _chunk_graph, "bridge-masked", restrict=_chunks_left)
"""`GRAPH` with edges from passages to names that are part of their titles, in the same numbering."""


def _surfaces(stored: Stored) -> BipartiteGraph:
    return surface_graph(stored.columns(statement("read", "surfaces")), len(stored.passage_ids))


SURFACES = Artefact("surfaces", _surfaces, is_optional=False, restrict=_allowed_rows)
"""Passages and the spellings of names in them, before resolution; its keys are the spellings. Read from the tables."""


def _relations(stored: Stored) -> RelationGraph:
    labels = tuple(_column(stored, "relation_labels"))
    return open_relations(stored, labels, stored.artefact(GRAPH).entity_count)


def _statements(stored: Stored) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    columns = stored.columns(statement("read", "relation_passages"))
    return columns["relation"].astype(np.int64), columns["passage"].astype(np.int64)


RELATION_PASSAGES = Artefact("graph:relations", _statements, "graph-search", restrict=unrestricted)
"""Shape (s,) each: offset of a relation in the `labels` of `RELATIONS`, and a passage that states it; -1 if none."""


def _relations_left(handle: Artefact[RelationGraph], restriction: Restriction) -> RelationGraph:
    kept, statements = restriction.artefact(ENTITY_NUMBERS), restriction.whole(RELATION_PASSAGES)
    return restricted_relations(restriction.whole(handle), statements, restriction.is_allowed, kept)


RELATIONS = Artefact("graph:relations", _relations, "graph-search", restrict=_relations_left)
"""Entities and their labelled relations, in the numbering of `GRAPH`."""


def _entity_ids(stored: Stored) -> Sequence[str]:
    return _column(stored, "entity_ids")


def _ids_left(handle: Artefact[Sequence[str]], restriction: Restriction) -> Sequence[str]:
    ids = restriction.whole(handle)
    return [ids[number] for number in restriction.artefact(ENTITY_NUMBERS).tolist()]


ENTITY_IDS = Artefact("graph", _entity_ids, "graph", restrict=_ids_left)
"""Ids of the entities in the numbering of `GRAPH`; those of a knowledge graph's nodes do not follow from their keys."""


def _entities(stored: Stored) -> EntityReader:
    keys = stored.artefact(GRAPH).keys
    texts = open_entity_texts(stored, len(keys))
    return lambda numbers: [Entity(keys[number], *texts.fields(number)) for number in numbers]


def _entities_by_new_number(handle: Artefact[EntityReader], restriction: Restriction) -> EntityReader:
    read, kept = restriction.whole(handle), restriction.artefact(ENTITY_NUMBERS)
    return lambda numbers: read(kept[list(numbers)].tolist())


ENTITIES = Artefact("graph:relations", _entities, "graph-search", restrict=_entities_by_new_number)
"""Entities as people see them; their texts are saved with the relations."""


def _exact_names(stored: Stored) -> Mapping[str, Sequence[int]]:
    number_of = stored.artefact(GRAPH).number_of
    numbers: dict[str, list[int]] = {}
    for name, key in stored.rows(statement("read", "exact_names")):
        numbers.setdefault(name, []).append(number_of[key])
    return numbers


def _names_left(handle: Artefact[Mapping[str, Sequence[int]]], restriction: Restriction) -> Mapping[str, Sequence[int]]:
    kept = restriction.artefact(ENTITY_NUMBERS)
    moved = new_numbers(kept, restriction.whole(GRAPH).entity_count)
    left = {
        name: [number for number in moved[list(numbers)].tolist() if number >= 0]
        for name, numbers in restriction.whole(handle).items()
    }
    return {name: numbers for name, numbers in left.items() if numbers}


EXACT_NAMES = Artefact("graph", _exact_names, "graph", restrict=_names_left)
"""Entity numbers by `norm_ws` name, where that is not the entity's key."""


def _aliases(stored: Stored) -> Mapping[str, str]:
    return dict(stored.rows(statement("read", "merged_names")))


ALIASES = Artefact("aliases", _aliases, is_optional=False, restrict=unrestricted)
"""Key of its entity by the key of a name that resolution, or a person, made another form of it."""


def _namesakes(stored: Stored) -> Mapping[str, Sequence[str]]:
    return {key: tuple(bearers) for key, bearers in stored.rows(statement("read", "namesakes"))}


NAMESAKES = Artefact("aliases", _namesakes, is_optional=False, restrict=unrestricted)
"""Keys of the entities that bear a name by its key, where resolution tells namesakes apart."""


def _names(stored: Stored) -> NameFinding:
    from polyhop.warehouse.names import open_finder

    settings = ExtractionSettings.model_validate(stored.settings["extraction"])
    return open_finder(
        settings.ner,
        _column(stored, "distinct_titles"),
        settings.spacy_model,
        regex_drop_stopwords=settings.regex_drop_stopwords,
        language=_language(stored),
    )


def _language(stored: Stored) -> str:
    return recorded_language(stored.settings)


LANGUAGE = Artefact("names", _language, is_optional=False, restrict=unrestricted)
"""`corpus.language` of the version."""


NAMES = Artefact("names", _names, is_optional=False, restrict=unrestricted)
"""The same name finder that built the graph."""


def _lexical(stored: Stored, analyser: str) -> LexicalIndex:
    return replace(open_lexical(stored, analyser, len(stored.passage_ids)), language=_language(stored))


@cache
def lexical_of(analyser: str) -> Artefact[LexicalIndex]:
    """Term statistics under one analyser ("plain" or "stems")."""
    strategies = {"plain": "bm25", "stems": "bridge-lexical"}
    strategy = strategies.get(analyser, "STRATEGY")
    return Artefact(f"lexical:{analyser}", partial(_lexical, analyser=analyser), strategy, restrict=_postings_left)


def _postings_left(handle: Artefact[LexicalIndex], restriction: Restriction) -> LexicalIndex:
    return restricted_postings(restriction.whole(handle), restriction.allowed)


def _passages_of_statements(stored: Stored, graph: str) -> Rows:
    return open_passages_of_statements(stored, graph, len(stored.passage_ids))


@cache
def passages_of_statements(graph: str) -> Artefact[Rows]:
    """Passages of each proposition of the graph over "propositions", or of each triple of that over "triples"."""
    open_ = partial(_passages_of_statements, graph=graph)
    return Artefact(f"graph:{graph}", open_, _STATING[graph], restrict=unrestricted)


_STATING = {"propositions": "proprag", "triples": "triple-ppr"}


def statements_left(graph: str, restriction: Restriction) -> NDArray[np.int64]:
    """Numbers, in the whole version, of the propositions (or triples) of a graph that are left; ascending."""
    return kept_statements(restriction.whole(passages_of_statements(graph)), restriction.is_allowed)


_NUMBERS_LEFT: Mapping[str, Callable[[Restriction], NDArray[np.int64]]] = {
    "passage": lambda restriction: restriction.allowed,
    "entity": lambda restriction: restriction.artefact(ENTITY_NUMBERS),
    "proposition": partial(statements_left, "propositions"),
    "triple": partial(statements_left, "triples"),
}
"""Which vectors are left of the kinds whose things are numbered again."""

_NUMBERED_AS_EVER = frozenset({"name", "triplename", "hubpath", "hubvalue", "hubname"})
"""Kinds whose things keep their numbers: names of propositions, and texts of hubs."""


def _vectors_left(handle: Artefact[NDArray[np.float32]], restriction: Restriction, kind: str) -> NDArray[np.float32]:
    return np.asarray(restriction.whole(handle))[_NUMBERS_LEFT[kind](restriction)]


@cache
def vectors_of(kind: str) -> Artefact[NDArray[np.float32]]:
    """Vectors of one kind ("passage", "entity" or another package's), shape (n, d), memory-mapped, in number order."""
    strategies = {"passage": "dense", "entity": "naive-vector", "proposition": "proprag", "triple": "triple-ppr"}
    restrict = partial(_vectors_left, kind=kind) if kind in _NUMBERS_LEFT else None
    return Artefact(
        f"vectors:{kind}",
        partial(open_vectors, kind=kind),
        strategies.get(kind, "STRATEGY"),
        restrict=unrestricted if kind in _NUMBERED_AS_EVER else restrict,
    )


def _cosine_scale(stored: Stored) -> float:
    return stored.cosine_scale("passage")


COSINE_SCALE = Artefact("vectors:passage", _cosine_scale, "dense", restrict=unrestricted)
"""What weights in units of the local encoder's cosine are multiplied by for this version's passages; 1 for that one."""


def _nearest_passages(stored: Stored) -> NearestPassages:
    def search(vector: NDArray[np.float32], count: int, ef_search: int) -> Sequence[int]:
        if not stored.passage_ids:  # a knowledge graph's index publishes no vectors of passages
            return []
        number_of = stored.number_of_passage
        return [number_of[passage_id] for passage_id in stored.nearest("passage", vector, count, ef_search)]

    return search


def _nearest_allowed(_: Artefact[NearestPassages], restriction: Restriction) -> NearestPassages:
    vectors = restriction.artefact(vectors_of("passage"))

    def search(vector: NDArray[np.float32], count: int, _ef_search: int) -> Sequence[int]:
        scores = vectors @ vector
        least = np.partition(scores, -count)[-count] if 0 < count < len(scores) else -np.inf
        nearest = np.flatnonzero(scores >= least)
        return nearest[np.argsort(-scores[nearest], kind="stable")][:count].tolist()  # type: ignore[no-any-return]

    return search


NEAREST_PASSAGES = Artefact("ann:passage", _nearest_passages, "dense-ann", restrict=_nearest_allowed)
"""Approximate search of passages by an HNSW graph, which is opened by the first search; exact among allowed passages,
because a graph over all of them may find fewer of these than there are.
"""


def _column(stored: Stored, name: str) -> list[str]:
    return [row[0] for row in stored.rows(statement("read", name))]
