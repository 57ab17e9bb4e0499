"""The graph stages: mentions of names to the entity-passage arrays, relations to arrays of neighbours.

Weights are ranking's business: the arrays hold counts, flags and labels only.
"""

from itertools import chain

import numpy as np

from polyhop.tasks.cycles import no_search_for_cycles
from polyhop.tasks.graph.relations import relation_arrays
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.build import Build
from polyhop.warehouse.graph.arrays import save_arrays, text_arrays
from polyhop.warehouse.statements import statement


def finish(build: Build) -> Counts:
    """Writes the arrays."""
    with build.tables(read_only=True) as connection:
        edges = connection.execute(statement("graph", "bipartite_edges")).fetchnumpy()
        row = connection.execute(statement("graph", "node_counts")).fetchone() or (0, 0)
    passage_count, entity_count = row
    per_passage = np.bincount(edges["passage"].astype(np.int64), minlength=passage_count)
    save_arrays(
        build.staging.arrays,
        "bipartite",
        {
            "indptr": np.concatenate([[0], np.cumsum(per_passage)]).astype(np.int64),
            "indices": edges["entity"].astype(np.int32),
            "tf": edges["tf"].astype(np.float64),
            "title": edges["is_title"].astype(np.bool_),
        },
    )
    return {"passages": passage_count, "names": entity_count, "edges": len(edges["entity"])}


def finish_relations(build: Build) -> Counts:
    """Writes the arrays of relations between named entities, and what these are called."""
    with build.tables(read_only=True) as connection, no_search_for_cycles():
        edges = connection.execute(statement("graph", "relation_edges")).fetchnumpy()
        entities = connection.execute(statement("graph", "entity_fields")).fetchall()
        texts = text_arrays(chain.from_iterable(entities))
    sources, targets, labels = (edges[name].astype(np.int64) for name in ("source", "target", "label"))
    arrays = relation_arrays(sources, targets, labels, len(entities))
    save_arrays(build.staging.arrays, "relations", {**arrays, **texts})
    return {"names": len(entities), "relations": len(labels), "neighbours": len(arrays["indices"]) // 2}


GRAPH = Stage("graph", reads=("entities",), writes=("graph",), finish=finish, arrays="bipartite")
RELATIONS = Stage(
    "relations", reads=("entities",), writes=("graph:relations",), finish=finish_relations, arrays="relations"
)
