"""The proposition stages: propositions or triples, and entities with similar names, to arrays.

The vectors are split into lists around centres (k-means); a search looks into the nearest lists only, so that its cost
grows with the square root of the number of entities. Cosines of what is found are exact. Source: algorithms.md 3.3 (3).
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyhop.schemas.errors import InvariantError
from polyhop.schemas.propositions import NOUNS, GraphName
from polyhop.schemas.settings import ENTITIES, cosine_threshold
from polyhop.schemas.tables import Table, real, text_column
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.artefacts import open_array, save_arrays, text_arrays
from polyhop.warehouse.build import Build
from polyhop.warehouse.propositions import proposition_graph
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import quoted

SAMPLE = 1000  # entities whose neighbours are also searched in all vectors, to measure the share that is found

_EXACT_UP_TO = 8192  # fewer vectors are compared with all others: 3 GFLOP per thousand entities, half a second in all
_PROBES = 16  # lists that a search looks into, of about the square root of the number of entities
_ROUNDS = 6  # of k-means; chosen: rough lists will do, since what they miss is measured (`synonym_recall_per_mille`)
_TRAINED = 64  # vectors per list that the centres are computed from
_MARGIN = 1e-4  # far above the rounding of float32 products, which find candidates only
_BLOCK = 2048  # rows of a product; chosen: bounds memory (64 MB beside the 8,192 vectors of _EXACT_UP_TO)
_DECIMALS = 12  # algorithms.md 0.3.
_SHORT = 2  # names with so few letters and digits search nothing

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SynonymRule:
    """Condition for synonyms: the least cosine, above 0, and the number of names per entity, at least 1."""

    threshold: float = 0.8
    neighbours: int = 100


SYNONYMS = SynonymRule()  # Source: algorithms.md 3.3 (3).


@dataclass(frozen=True, slots=True)
class Synonyms:
    """Pairs of entities with similar names: numbers, shape (n, 2), the smaller one first, ascending; and their cosines.

    `recall` is the share of a sample's exact neighbours that the search found, 1 where it compared all.
    """

    pairs: Numbers
    cosines: NDArray[np.float64]
    recall: float


def _synonym_rule(build: Build) -> SynonymRule:
    """The rule in the cosines of the encoder of names."""
    encoder = build.settings.encoder.choice_of(ENTITIES).name
    return replace(SYNONYMS, threshold=cosine_threshold(SYNONYMS.threshold, encoder))


def find_synonyms(vectors: Vectors, names: list[str], rule: SynonymRule) -> Synonyms:
    """Pairs of entities of which one found the other among its nearest that reach the threshold (ties: smaller number).

    `vectors` has shape (n, d), float32, length 1: of the names, in number order.
    Source: algorithms.md 3.3 (3).
    Cost: O(n sqrt(n) d); memory O(n sqrt(n)) bytes at most a block at a time.
    """
    searching = np.array([n for n, name in enumerate(names) if sum(map(str.isalnum, name)) > _SHORT], dtype=np.int64)
    if len(vectors) <= _EXACT_UP_TO:
        return _paired(*_nearest(vectors, _all_pairs(vectors, searching, rule), rule), 1.0)
    found = _nearest(vectors, _listed_pairs(vectors, searching, rule), rule)
    # The share of the exact neighbours of a sample that were found.
    sample = np.random.default_rng(0).permutation(searching)[:SAMPLE]
    exact = _nearest(vectors, _all_pairs(vectors, np.sort(sample), rule), rule)
    of_sample = np.isin(found[0], sample)
    known, wanted = (one[0] * len(vectors) + one[1] for one in ([part[of_sample] for part in found[:2]], exact))
    return _paired(*found, float(np.isin(wanted, known).mean()) if len(wanted) else 1.0)


def _all_pairs(vectors: Vectors, searching: Numbers, rule: SynonymRule) -> tuple[Numbers, Numbers]:
    """Candidates of each entity among all others."""
    starts, every = range(0, len(searching), _BLOCK), np.arange(len(vectors))
    return _joined([_above(vectors, searching[start : start + _BLOCK], every, rule) for start in starts])


def _listed_pairs(vectors: Vectors, searching: Numbers, rule: SynonymRule) -> tuple[Numbers, Numbers]:
    """Candidates of each entity in the lists that are nearest to it."""
    centres = _centres(vectors)
    nearest = np.concatenate([_top(vectors[at : at + _BLOCK] @ centres.T) for at in range(0, len(vectors), _BLOCK)])
    members = np.argsort(nearest[:, 0], kind="stable")
    bounds = np.searchsorted(nearest[members, 0], np.arange(len(centres) + 1))
    asked = nearest[searching].ravel()
    order = np.argsort(asked, kind="stable")
    askers = np.repeat(searching, nearest.shape[1])[order]
    asked_bounds = np.searchsorted(asked[order], np.arange(len(centres) + 1))
    found = []
    for each in range(len(centres)):
        listed = members[bounds[each] : bounds[each + 1]]
        queries = askers[asked_bounds[each] : asked_bounds[each + 1]]
        found += [_above(vectors, queries[at : at + _BLOCK], listed, rule) for at in range(0, len(queries), _BLOCK)]
    return _joined(found)


def _centres(vectors: Vectors) -> Vectors:
    """Shape (about sqrt(n), d): means of near vectors, of length 1; the same for the same vectors."""
    count = int(np.sqrt(len(vectors)))
    chosen = np.random.default_rng(0).permutation(len(vectors))
    sample = vectors[np.sort(chosen[: count * _TRAINED])]
    centres = vectors[np.sort(chosen[:count])].copy()
    for _ in range(_ROUNDS):
        own = np.concatenate(
            [np.argmax(sample[at : at + _BLOCK] @ centres.T, axis=1) for at in range(0, len(sample), _BLOCK)]
        )
        order = np.argsort(own, kind="stable")
        filled, starts = np.unique(own[order], return_index=True)
        sums = np.add.reduceat(sample[order], starts, axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centres[filled] = np.divide(sums, lengths, out=centres[filled], where=lengths > 0)
    return centres


def _top(similarities: Vectors) -> Numbers:
    """Shape (b, probes): columns of the largest, the largest of all first."""
    probes = min(_PROBES, similarities.shape[1])
    top = np.argpartition(-similarities, probes - 1, axis=1)[:, :probes]
    order = np.argsort(-np.take_along_axis(similarities, top, axis=1), axis=1, kind="stable")
    return np.take_along_axis(top, order, axis=1).astype(np.int64)


def _above(vectors: Vectors, sources: Numbers, targets: Numbers, rule: SynonymRule) -> tuple[Numbers, Numbers]:
    near = vectors[sources] @ vectors[targets].T >= rule.threshold - _MARGIN
    cells = np.flatnonzero(near)  # several times as fast as two numbers per cell: hardly any cell is true
    rows, columns = np.divmod(cells, max(1, len(targets)))
    found = sources[rows], targets[columns]
    apart = found[0] != found[1]
    return found[0][apart], found[1][apart]


def _joined(found: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    sources, targets = np.concatenate([np.empty((2, 0), dtype=np.int64), *map(np.stack, found)], axis=1)
    return sources, targets


def _nearest(
    vectors: Vectors, candidates: tuple[Numbers, Numbers], rule: SynonymRule
) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Selects the nearest candidates of each source that reach the threshold, with exact cosines."""
    sources, targets = candidates
    cosines = np.empty(len(sources))
    for start in range(0, len(sources), _BLOCK):  # small enough for the processor's cache
        part = slice(start, start + _BLOCK)
        left, right = vectors[sources[part]].astype(np.float64), vectors[targets[part]].astype(np.float64)
        cosines[part] = np.einsum("nd,nd->n", left, right)
    near = np.round(cosines, _DECIMALS) >= rule.threshold
    sources, targets, cosines = sources[near], targets[near], cosines[near]
    order = np.lexsort((targets, -np.round(cosines, _DECIMALS), sources))
    sources, targets, cosines = sources[order], targets[order], cosines[order]
    rank = np.arange(len(sources)) - np.searchsorted(sources, sources)
    kept = rank < rule.neighbours
    return sources[kept], targets[kept], cosines[kept]


def _paired(sources: Numbers, targets: Numbers, cosines: NDArray[np.float64], recall: float) -> Synonyms:
    pairs = np.sort(np.stack((sources, targets), axis=1), axis=1)
    distinct, first = np.unique(pairs, axis=0, return_index=True) if len(pairs) else (pairs, np.empty(0, dtype=np.intp))
    return Synonyms(distinct.reshape(-1, 2), cosines[first], recall)


# Source: algorithms.md 3.2, 3.3.


def _rows(connection: duckdb.DuckDBPyConnection, name: str) -> list[tuple[Any, ...]]:
    return connection.execute(statement("propositions", name)).fetchall()


def _pairs(connection: duckdb.DuckDBPyConnection, name: str, noun: str) -> Numbers:
    columns = connection.execute(statement("propositions", name), {"noun": noun}).fetchnumpy()
    return np.stack((columns["proposition"], columns["other"]), axis=1).astype(np.int64)


class PropositionStage(Stage):
    """One graph, over propositions or triples, and a table of pairs of its entities with similar names."""

    def __init__(self, graph: GraphName, vectors: str, synonyms: str, comment: str) -> None:
        self.graph: GraphName = graph
        self.vectors = vectors
        self.name = self.arrays = graph
        self.reads = ("entities", "passages", f"vectors:{vectors}")
        self.writes = (f"graph:{graph}",)
        columns = (
            text_column("entity_id", "entity with the smaller key"),
            text_column("synonym_id", "entity with the larger key"),
            real("cosine", "of the vectors of their names, from 0.8 to 1"),
        )
        self.tables = (Table(synonyms, comment, ("entity_id", "synonym_id"), columns),)
        self.invariants = {
            f"{synonyms}_without_entity": f"SELECT count(*), min(synonym_id) FROM {quoted(synonyms)} AS s "
            "WHERE NOT EXISTS (FROM entities AS e WHERE e.entity_id = s.entity_id) "
            "OR NOT EXISTS (FROM entities AS e WHERE e.entity_id = s.synonym_id)"
        }

    def settings(self, build: Build) -> dict[str, object]:
        """Settings that determine propositions and synonyms."""
        return {**asdict(_synonym_rule(build)), "noun": NOUNS[self.graph]}

    def finish(self, build: Build) -> Counts:
        """Finds synonyms, fills their table and writes the arrays."""
        noun = NOUNS[self.graph]
        with build.tables(read_only=True) as connection:
            for name in ("number_propositions", "number_entities"):
                connection.execute(statement("propositions", name), {"noun": noun})
            rows = _rows(connection, "named_entities")
            texts = [row[0] for row in _rows(connection, "texts")]
            propositions, passages = _rows(connection, "count_things")[0]
            named = _pairs(connection, "entities_of_propositions", noun)
            stated = _pairs(connection, "passages_of_propositions", noun)
        ids, names = [row[0] for row in rows], [row[1] for row in rows]
        vectors = open_array(build.staging.arrays, f"vectors-{self.vectors}_matrix")
        if len(vectors) != len(names):
            raise InvariantError(f"{len(names)} entities have {len(vectors)} vectors of their names.")
        synonyms = find_synonyms(cast("NDArray[np.float32]", np.asarray(vectors)), names, _synonym_rule(build))
        first, second = ([ids[number] for number in numbers] for numbers in synonyms.pairs.T.tolist())
        pairs = pa.table([first, second, synonyms.cosines], schema=self.tables[0].arrow)
        with build.tables() as connection:
            connection.from_arrow(pairs).order("entity_id, synonym_id, cosine").insert_into(self.tables[0].name)
        shape = (propositions, len(ids), passages)
        found = proposition_graph(named, stated, synonyms.pairs, synonyms.cosines, shape)
        save_arrays(build.staging.arrays, self.graph, {**found.arrays, **text_arrays(texts)})
        return {
            self.graph: shape[0],
            "entities": shape[1],
            "clique_edges": len(found.cliques.indices) // 2,
            "containment_edges": len(found.passage_entities.indices),
            "synonym_edges": len(synonyms.pairs),
            "synonym_recall_per_mille": int(synonyms.recall * 1000),
        }


PROPOSITIONS = PropositionStage(
    "propositions",
    "name",
    "synonym_edges",
    "Pairs of entities whose names are similar; a path over propositions goes from one to the other.",
)
TRIPLES = PropositionStage(
    "triples", "triplename", "triple_synonym_edges", "The same of the entities that triples name; used by triple-ppr."
)
