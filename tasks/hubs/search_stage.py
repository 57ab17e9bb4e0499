"""The stage `hub-paths`: the relations of a graph or a corpus to hubs, their paths and what they cover.

Makes no text of a path (stage.py does). Source: algorithms.md 4.3 to 4.7.
"""

from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyhop.schemas.corpus import SourceKind
from polyhop.schemas.hub_settings import HubSettings
from polyhop.schemas.hubs import END_KINDS
from polyhop.tasks.hubs.choice import HubRule, find_hubs, find_starts, hub_type_names
from polyhop.tasks.hubs.coverage import Covered, Row, parts, path_rows
from polyhop.tasks.hubs.definition import DEFINITIONS
from polyhop.tasks.hubs.flat import NamedGraph, path_arrays
from polyhop.tasks.hubs.levels import HubSearch, SearchLimits, search_hubs
from polyhop.tasks.hubs.read import ReadGraph, insert, passage_pairs, read_hub_graph
from polyhop.tasks.hubs.searched import PATH_ARRAYS, SearchedPaths
from polyhop.tasks.hubs.tables import HUB_CANDIDATES, HUB_COVERAGE, HUB_UNCOVERED, HUBS
from polyhop.tasks.hubs.text import path_hash, path_json
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.build import Build
from polyhop.warehouse.graph.arrays import save_arrays, text_arrays
from polyhop.warehouse.statements import statement, statements

_TEXT_SETTINGS = {"levels", "textualiser"}
"""Settings of the section that change no path."""

DEFAULT_LENGTHS: Mapping[SourceKind, int] = {"graph": 10, "corpus": 2}
"""Relations of the longest path. Source: algorithms.md 4.5; of texts measured on musique100 (rules): 97,000 paths of up
to 2 cover 98 % of the triples; up to 3 there are 420,000, up to 10 3,500,000 paths for the same 98 %."""

_PASSAGES: Mapping[SourceKind, str] = {"graph": "passages_attached_to_hubs", "corpus": "passages_of_hubs"}

Arrays = dict[str, NDArray[np.generic]]


def settings(build: Build) -> dict[str, object]:
    """What hubs are, and how far their paths go.

    Raises:
        ConfigurationError: If a setting needs another one.
    """
    chosen = build.settings.hubs
    HubRule.of(chosen, build.source_kind)
    return chosen.model_dump(mode="json", exclude=_TEXT_SETTINGS) | asdict(limits_of(chosen, build.source_kind))


def limits_of(chosen: HubSettings, kind: SourceKind) -> SearchLimits:
    """How far the settings let hubs and paths of a source be searched."""
    length = DEFAULT_LENGTHS[kind] if chosen.max_path_length is None else chosen.max_path_length
    return SearchLimits(chosen.split, length, chosen.max_paths_per_hub, chosen.search_until_hub, chosen.max_depth)


def found_hubs(build: Build, connection: duckdb.DuckDBPyConnection) -> tuple[ReadGraph, HubSearch]:
    """Reads the graph of a build, and finds its hubs and their paths.

    Raises:
        ConfigurationError: If the settings name a type or a start that no node has.
    """
    chosen, read = build.settings.hubs, read_hub_graph(connection, build.source_kind)
    rule = HubRule.of(chosen, build.source_kind)
    rules = find_hubs(connection, read.named, rule, must_exist=bool(chosen.types))
    starts = find_starts(connection, chosen.start)
    return read, search_hubs(read.named.graph, rules, starts, limits_of(chosen, build.source_kind))


def searched_paths(read: ReadGraph, search: HubSearch) -> SearchedPaths:
    """The paths as the stage `hubs` reads them from arrays."""
    arrays = path_arrays(search)
    return SearchedPaths.of(read, {**arrays, "hashes": path_hashes(read.named, arrays)})


def finish(build: Build) -> Counts:
    """Fills the tables and writes the arrays.

    Raises:
        ConfigurationError: If the settings name a type or a start that no node has.
    """
    with build.tables() as connection:
        read, search = found_hubs(build, connection)
        arrays = path_arrays(search)
        arrays["hashes"] = path_hashes(read.named, arrays)
        insert(connection, _hubs_table(search, read, arrays), HUBS.name, HUBS.key)
        insert(connection, _candidates_table(read, arrays), HUB_CANDIDATES.name, HUB_CANDIDATES.key)
        covered = Covered.by(arrays["path-triples"], read.named.graph)
        uncovered = [read.relation_ids[triple] for triple in np.flatnonzero(~covered.triples).tolist()]
        insert(
            connection, pa.table({"relation_id": uncovered}, HUB_UNCOVERED.arrow), HUB_UNCOVERED.name, HUB_UNCOVERED.key
        )
        insert(
            connection, _coverage_table(connection, covered, read, search, arrays), HUB_COVERAGE.name, HUB_COVERAGE.key
        )
        hub_types = hub_type_names(connection, HubRule.of(build.settings.hubs, build.source_kind))
        saved = {
            **read.named.graph.arrays,
            **arrays,
            "unreached": search.unreached,
            **_names(read, hub_types),
            "triple-passages": passage_pairs(connection, "passages_of_triples"),
            "hub-passages": _hub_passages(connection, build.source_kind, arrays["hubs"]),
        }
    save_arrays(build.staging.arrays, PATH_ARRAYS, saved)
    return {
        "hubs": len(arrays["hubs"]),
        "unreached_hubs": len(search.unreached),
        "paths": len(arrays["end-kinds"]),
        "left_out_paths": _left_out(search),
        "candidates": len(arrays["candidates"]),
        "nodes": len(covered.nodes),
        "covered_nodes": int(covered.nodes.sum()),
        "triples": len(covered.triples),
        "covered_triples": int(covered.triples.sum()),
    }


def _left_out(search: HubSearch) -> int:
    return sum(hub.left_out for hub in search.hubs.values())


def path_hashes(named: NamedGraph, arrays: Arrays) -> NDArray[np.uint8]:
    """Shape (p, 32): hashes of the paths of `path_arrays`."""
    paths = named.paths(arrays["triple-starts"], arrays["path-triples"])  # type: ignore[arg-type]
    return np.frombuffer(b"".join(map(path_hash, paths)), dtype=np.uint8).reshape(-1, 32)


def _names(read: ReadGraph, hub_types: list[str]) -> Arrays:
    """Ids, labels and predicates as arrays."""
    named = read.named
    texts = {
        "own-ids": named.own_ids,
        "labels": named.labels,
        "entity-ids": read.entity_ids,
        "predicates": named.predicates,
        "relation-ids": read.relation_ids,
        "hub-types": hub_types,
    }
    arrays: Arrays = {}
    for name, values in texts.items():
        starts, data = text_arrays(values).values()
        arrays |= {f"{name}-starts": starts, f"{name}-texts": data}
    return arrays


def _hub_passages(
    connection: duckdb.DuckDBPyConnection, kind: SourceKind, hubs: NDArray[np.generic]
) -> NDArray[np.int64]:
    """Shape (e, 2): numbers of hubs that the search found, and of passages."""
    pairs = passage_pairs(connection, _PASSAGES[kind])
    pairs = pairs[np.isin(pairs[:, 0], hubs)]
    return np.stack((np.searchsorted(hubs, pairs[:, 0]), pairs[:, 1]), axis=1).astype(np.int64)


def _hubs_table(search: HubSearch, read: ReadGraph, arrays: Arrays) -> pa.Table:
    """The hubs that were found, then those that were not."""
    starts = arrays["path-starts"].tolist()
    found = [search.hubs[hub] for hub in arrays["hubs"].tolist()]
    unreached = search.unreached.tolist()
    nodes = [*arrays["hubs"].tolist(), *unreached]
    own = [arrays["hashes"][first:end].tobytes() for first, end in pairwise(starts)]
    rest = len(unreached)
    columns = {
        "hub_id": [read.entity_ids[node] for node in nodes],
        "definition": [DEFINITIONS[int(search.rules[node])] for node in nodes],
        "index_level": [*(hub.level for hub in found), *[None] * rest],
        "path_count": [*np.diff(starts).tolist(), *[0] * rest],
        "left_out_count": [*(hub.left_out for hub in found), *[0] * rest],
        "graph_hash": [sha256(each).hexdigest() for each in [*own, *[b""] * rest]],
    }
    return pa.Table.from_pydict(columns, schema=HUBS.arrow)


def _candidates_table(read: ReadGraph, arrays: Arrays) -> pa.Table:
    per_hub = np.diff(arrays["candidate-starts"])
    paths = read.named.paths(arrays["candidate-triple-starts"], arrays["candidate-triples"])  # type: ignore[arg-type]
    columns = {
        "hub_id": [read.entity_ids[node] for node in np.repeat(arrays["hubs"], per_hub).tolist()],
        "next_entity_id": [read.entity_ids[node] for node in arrays["candidates"].tolist()],
        "kind": [END_KINDS[kind] for kind in arrays["candidate-kinds"].tolist()],
        "path_json": list(map(path_json, paths)),
    }
    return pa.Table.from_pydict(columns, schema=HUB_CANDIDATES.arrow)


def _coverage_table(
    connection: duckdb.DuckDBPyConnection, covered: Covered, read: ReadGraph, search: HubSearch, arrays: Arrays
) -> pa.Table:
    graph = read.named.graph
    counted: dict[str, list[tuple[str, int, int]]] = {}
    marked = {
        "nodes_by_type": ("covered_nodes", {"n": np.arange(graph.node_count), "is_covered": covered.nodes}),
        "triples_by_predicate": (
            "covered_triples",
            {"predicate": graph.predicates, "is_covered": covered.triples},
        ),
    }
    for name, (view, columns) in marked.items():
        connection.register(view, pa.table(columns))
        counted[name] = connection.execute(statement("hubs", name)).fetchall()
        connection.unregister(view)
    rows: list[Row] = [
        *covered.rows(),
        *parts("nodes of type", counted["nodes_by_type"]),
        *parts("triples of predicate", counted["triples_by_predicate"]),
        *path_rows(arrays, _left_out(search), len(search.unreached)),
    ]
    return pa.table(dict(zip(HUB_COVERAGE.column_names, zip(*rows, strict=True), strict=True)), HUB_COVERAGE.arrow)


HUB_PATH_SEARCH = Stage(
    "hub-paths",
    reads=("source", "entities", "passages"),  # what links texts to nodes of a graph is part of the source alone
    writes=("hub-paths",),
    finish=finish,
    settings=settings,
    tables=(HUBS, HUB_CANDIDATES, HUB_COVERAGE, HUB_UNCOVERED),
    revision=2,
    arrays=PATH_ARRAYS,
    invariants=statements("hub_invariants"),
)
