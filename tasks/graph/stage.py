"""The graph stage: mentions of names to the entity-passage arrays.

Weights are ranking's business: the arrays hold counts and title flags only.
"""

import numpy as np

from tasks.stage import Counts, Stage, no_batches, nothing_to_run
from warehouse.build import Build, chain_fingerprint
from warehouse.graph.arrays import save_arrays
from warehouse.tables.statements import statement

REVISION = 1


def fingerprint(build: Build) -> str:
    """Depends on what was resolved."""
    return chain_fingerprint("graph", REVISION, {"resolve": build.fingerprint("resolve")}, {})


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


GRAPH = Stage("graph", fingerprint, no_batches, nothing_to_run, finish, arrays="bipartite")
