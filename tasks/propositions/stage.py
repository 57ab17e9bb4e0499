"""The proposition stage: propositions and synonyms to the arrays that paths are searched in.

Weights and walks are ranking's business. Source: algorithms.md 3.2, 3.3.
"""

from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyhop.schemas.columns import Table, real, text
from polyhop.schemas.errors import InvariantError
from polyhop.tasks.propositions.graph import proposition_graph
from polyhop.tasks.propositions.synonyms import NEIGHBOURS, THRESHOLD, Synonyms, find_synonyms
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.build import Build
from polyhop.warehouse.graph.arrays import open_array, save_arrays
from polyhop.warehouse.statements import statement

ARRAYS = "propositions"
SYNONYM_EDGES = Table(
    "synonym_edges",
    "Pairs of entities whose names are similar; a path over propositions goes from one to the other.",
    ("entity_id", "synonym_id"),
    (
        text("entity_id", "entity with the smaller key"),
        text("synonym_id", "entity with the larger key"),
        real("cosine", "of the vectors of their names, .8 to 1"),
    ),
)


def settings(_: Build) -> dict[str, object]:
    """Which names are synonyms."""
    return {"threshold": THRESHOLD, "neighbours": NEIGHBOURS}


def finish(build: Build) -> Counts:
    """Finds synonyms, fills their table and writes the arrays."""
    with build.tables(read_only=True) as connection:
        rows = connection.execute(statement("propositions", "named_entities")).fetchall()
        named = connection.execute(statement("propositions", "entities_of_propositions")).fetchnumpy()
        stated = connection.execute(statement("propositions", "passages_of_propositions")).fetchnumpy()
        texts = [row[0] for row in connection.execute(statement("propositions", "texts")).fetchall()]
        counts = connection.execute(statement("propositions", "count_things")).fetchone() or (0, 0)
    ids, names = [row[0] for row in rows], [row[1] for row in rows]
    vectors = open_array(build.staging.arrays, "vectors-name_matrix")
    if len(vectors) != len(names):
        raise InvariantError(f"{len(names)} entities have {len(vectors)} vectors of their names.")
    synonyms = find_synonyms(cast("NDArray[np.float32]", np.asarray(vectors)), names)
    _fill_synonyms(build, ids, synonyms)
    shape = (counts[0], len(ids), counts[1])
    graph = proposition_graph(_pairs(named), _pairs(stated), synonyms.pairs, synonyms.cosines, shape)
    save_arrays(build.staging.arrays, ARRAYS, {**graph.arrays, **_text_arrays(texts)})
    return {
        "propositions": shape[0],
        "entities": shape[1],
        "clique_edges": len(graph.cliques.indices) // 2,
        "containment_edges": len(graph.passage_entities.indices),
        "synonym_edges": len(synonyms.pairs),
        "synonym_recall_per_mille": int(synonyms.recall * 1000),
    }


def _pairs(columns: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.stack((columns["proposition"], columns["other"]), axis=1).astype(np.int64)


def _fill_synonyms(build: Build, ids: list[str], synonyms: Synonyms) -> None:
    table = pa.table(
        {
            "entity_id": pa.array([ids[number] for number in synonyms.pairs[:, 0].tolist()], pa.string()),
            "synonym_id": pa.array([ids[number] for number in synonyms.pairs[:, 1].tolist()], pa.string()),
            "cosine": pa.array(synonyms.cosines, pa.float64()),
        }
    )
    with build.tables() as connection:
        connection.register("found", table)
        connection.execute("INSERT INTO synonym_edges FROM found ORDER BY ALL")
        connection.unregister("found")


def _text_arrays(texts: list[str]) -> dict[str, NDArray[np.generic]]:
    encoded = [each.encode("utf-8", "replace") for each in texts]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in encoded], dtype=np.int64)]).astype(np.int64)
    return {"text-starts": starts, "texts": np.frombuffer(b"".join(encoded), dtype=np.uint8)}


PROPOSITIONS = Stage(
    "propositions",
    reads=("entities", "passages", "vectors:name"),
    writes=("graph:propositions",),
    finish=finish,
    settings=settings,
    tables=(SYNONYM_EDGES,),
    arrays=ARRAYS,
    invariants={
        "synonym_without_entity": "SELECT count(*), min(synonym_id) FROM synonym_edges AS s "
        "WHERE NOT EXISTS (FROM entities AS e WHERE e.entity_id = s.entity_id) "
        "OR NOT EXISTS (FROM entities AS e WHERE e.entity_id = s.synonym_id)"
    },
)
