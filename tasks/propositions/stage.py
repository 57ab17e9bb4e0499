"""The proposition stages: propositions, or triples, and synonyms to the arrays that paths are searched in.

Weights and walks are ranking's business. Source: algorithms.md 3.2, 3.3.
"""

from functools import partial
from typing import Any, cast

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyhop.schemas.columns import Table, real, text
from polyhop.schemas.errors import InvariantError
from polyhop.schemas.proposition_origin import GraphName, PropositionOrigin
from polyhop.tasks.propositions.graph import proposition_graph
from polyhop.tasks.propositions.synonyms import SynonymRule, Synonyms, find_synonyms
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.build import Build
from polyhop.warehouse.graph.arrays import open_array, save_arrays, text_arrays
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import quoted

Numbers = NDArray[np.int64]


def settings(graph: GraphName, build: Build) -> dict[str, object]:
    """What counts as a proposition, and which names are synonyms."""
    chosen = build.settings.propositions
    said: dict[str, object] = {"threshold": chosen.synonym_threshold, "neighbours": chosen.synonym_neighbours}
    return said | PropositionOrigin.of(graph, chosen.include).parameters


def finish(graph: GraphName, name_vectors: str, synonym_table: Table, build: Build) -> Counts:
    """Finds synonyms, fills their table and writes the arrays.

    Args:
        graph: The graph, whose name is also that of its arrays.
        name_vectors: The kind of vectors that its synonyms are found by.
        synonym_table: The table of its synonyms.
        build: The build.
    """
    chosen = build.settings.propositions
    with build.tables(read_only=True) as connection:
        origin = PropositionOrigin.of(graph, chosen.include)
        for name in ("number_propositions", "number_entities"):
            connection.execute(statement("propositions", name), origin.parameters)
        rows = _rows(connection, "named_entities")
        texts = [row[0] for row in _rows(connection, "texts")]
        propositions, passages = _rows(connection, "count_things")[0]
        named = _pairs(connection, "entities_of_propositions", origin)
        stated = _pairs(connection, "passages_of_propositions", origin)
    ids, names = [row[0] for row in rows], [row[1] for row in rows]
    vectors = open_array(build.staging.arrays, f"vectors-{name_vectors}_matrix")
    if len(vectors) != len(names):
        raise InvariantError(f"{len(names)} entities have {len(vectors)} vectors of their names.")
    rule = SynonymRule(chosen.synonym_threshold, chosen.synonym_neighbours)
    synonyms = find_synonyms(cast("NDArray[np.float32]", np.asarray(vectors)), names, rule)
    _fill_synonyms(build, synonym_table, ids, synonyms)
    shape = (propositions, len(ids), passages)
    found = proposition_graph(named, stated, synonyms.pairs, synonyms.cosines, shape)
    save_arrays(build.staging.arrays, graph, {**found.arrays, **text_arrays(texts)})
    return {
        graph: shape[0],
        "entities": shape[1],
        "clique_edges": len(found.cliques.indices) // 2,
        "containment_edges": len(found.passage_entities.indices),
        "synonym_edges": len(synonyms.pairs),
        "synonym_recall_per_mille": int(synonyms.recall * 1000),
    }


def _rows(connection: duckdb.DuckDBPyConnection, name: str) -> list[tuple[Any, ...]]:
    return connection.execute(statement("propositions", name)).fetchall()


def _pairs(connection: duckdb.DuckDBPyConnection, name: str, origin: PropositionOrigin) -> Numbers:
    columns = connection.execute(statement("propositions", name), origin.parameters).fetchnumpy()
    return np.stack((columns["proposition"], columns["other"]), axis=1).astype(np.int64)


def _fill_synonyms(build: Build, table: Table, ids: list[str], synonyms: Synonyms) -> None:
    rows = pa.table(
        {
            "entity_id": pa.array([ids[number] for number in synonyms.pairs[:, 0].tolist()], pa.string()),
            "synonym_id": pa.array([ids[number] for number in synonyms.pairs[:, 1].tolist()], pa.string()),
            "cosine": pa.array(synonyms.cosines, pa.float64()),
        }
    )
    with build.tables() as connection:
        connection.register("found", rows)
        connection.execute(f"INSERT INTO {quoted(table.name)} FROM found ORDER BY ALL")
        connection.unregister("found")


def _stage(graph: GraphName, vectors: str, synonyms: str, comment: str) -> Stage:
    """The stage of one graph; it takes the vectors of names of this kind, and fills this table with synonyms."""
    table = Table(
        synonyms,
        comment,
        ("entity_id", "synonym_id"),
        (
            text("entity_id", "entity with the smaller key"),
            text("synonym_id", "entity with the larger key"),
            real("cosine", "of the vectors of their names, from propositions.synonym_threshold to 1"),
        ),
    )
    return Stage(
        graph,
        reads=("entities", "passages", f"vectors:{vectors}"),
        writes=(f"graph:{graph}",),
        finish=partial(finish, graph, vectors, table),
        settings=partial(settings, graph),
        tables=(table,),
        arrays=graph,
        invariants={
            f"{synonyms}_without_entity": f"SELECT count(*), min(synonym_id) FROM {quoted(synonyms)} AS s "
            "WHERE NOT EXISTS (FROM entities AS e WHERE e.entity_id = s.entity_id) "
            "OR NOT EXISTS (FROM entities AS e WHERE e.entity_id = s.synonym_id)"
        },
    )


PROPOSITIONS = _stage(
    "propositions",
    "name",
    "synonym_edges",
    "Pairs of entities whose names are similar; a path over propositions goes from one to the other.",
)
TRIPLES = _stage(
    "triples", "triplename", "triple_synonym_edges", "The same of the entities that triples name; used by triple-ppr."
)
