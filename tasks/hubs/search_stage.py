"""The stage `hub-paths`: the relations of a graph or a corpus to hubs, their paths and what they cover.

Source: algorithms.md 4.3 to 4.7.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.hubs import END_KINDS, HubGraph, Numbers
from polyhop.schemas.propositions import StoredTexts
from polyhop.schemas.records import SourceKind
from polyhop.schemas.settings import DOCUMENT, HubMode, HubSettings
from polyhop.schemas.tables import Table, count, real, text_column
from polyhop.tasks.hubs.paths import (
    DEFINITIONS,
    Covered,
    HubSearch,
    NamedGraph,
    Row,
    SearchLimits,
    hub_rules,
    nodes_beside,
    path_arrays,
    path_hash,
    path_json,
    path_rows,
    row,
    search_hubs,
    splits,
    view_of,
)
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.artefacts import open_array, save_arrays, text_arrays
from polyhop.warehouse.build import Build
from polyhop.warehouse.statements import statement, statements

_HUB_ID = text_column("hub_id", "entity that is the hub")
_PATH = "[[subject id, subject, predicate, object id, object], …] from the hub on, as JSON; ids are the graph's own"

HUBS_TABLE = Table(
    "hubs",
    "Hubs: entities of special interest, whose information is the paths that leave them.",
    ("hub_id",),
    (
        _HUB_ID,
        text_column("definition", "rules of the settings that it meets: types, edges, types and edges, or split"),
        count("index_level", "level of the search that found it, from 0; NULL if none did, so it has no paths",
              nullable=True),
        count("path_count", "paths of it in hub_paths"),
        count("left_out_count", "further paths, beyond hubs.max_paths_per_hub"),
        text_column("graph_hash", "sha256 of its paths' hashes: the same while none of its paths changes"),
    ),
)  # fmt: skip
HUB_CANDIDATES = Table(
    "hub_candidates",
    "Nodes from which search goes on from a hub: other hubs, and where paths end for their length.",
    ("hub_id", "next_entity_id"),
    (
        _HUB_ID,
        text_column("next_entity_id", "entity where search goes on"),
        text_column("kind", "hub or limit"),
        text_column("path_json", _PATH),
    ),
)
HUB_COVERAGE = Table(
    "hub_coverage",
    "Which part of the graph is in some path of a hub, and how many hubs and paths there are.",
    ("what", "part"),
    (
        text_column(
            "what",
            "nodes, nodes of type, triples, triples of predicate: in a path or in none. hubs: with paths or without. "
            "paths: kept, or left out by hubs.max_paths_per_hub. hubs with paths (by their number), paths of length, "
            "paths that end in: kept ones only",
        ),
        text_column("part", "type, predicate, number or kind; (all) for all of them"),
        count("covered", "in a path; hubs with paths; paths kept"),
        count("uncovered", "in no path; hubs without a path; paths left out"),
        real("share", "covered part, 0 to 1; NULL of nothing", nullable=True),
    ),
)  # fmt: skip
HUB_UNCOVERED = Table(
    "hub_uncovered",
    "Relations in no path of a hub: FROM neighbours SEMI JOIN hub_uncovered USING (relation_id) shows them.",
    ("relation_id",),
    (text_column("relation_id", "relation"),),
)
HUB_PATHS = Table(
    "hub_paths",
    "Paths of hubs, with their texts.",
    ("hub_id", "path_hash"),
    (
        _HUB_ID,
        text_column("path_hash", "sha256 of triples_json"),
        count("ordinal", "position among the hub's paths, from 0"),
        count("length", "number of its triples"),
        text_column("triples_json", _PATH),
        text_column("text", "the path in words"),
        text_column("textualiser", "template, or the model that wrote the text"),
        text_column(
            "end_kind", "leaf (no relation goes on), hub, limit (longest path), revisit (a node that was passed)"
        ),
        text_column("end_entity_id", "entity at which it ends"),
    ),
)
HUB_TEXTS = Table(
    "hub_texts",
    "Distinct texts of hubs and paths that have vectors, in the order of their vectors.",
    ("kind", "ordinal"),
    (
        text_column("kind", "hubpath (what hublink compares) or hubvalue (what hub-facets compares)"),
        count("ordinal", "number of the text in its kind, from 0"),
        text_column("text_id", "sha256-derived from the text"),
        text_column("text", "the text"),
    ),
)


_NODES: Mapping[SourceKind, str] = {"graph": "nodes_of_graph", "corpus": "nodes_of_corpus"}


@dataclass(frozen=True, slots=True)
class ReadGraph:
    """A graph with its names, and the ids that other tables have for its nodes and triples."""

    named: NamedGraph
    entity_ids: list[str]
    relation_ids: list[str]


def read_hub_graph(connection: duckdb.DuckDBPyConnection, kind: SourceKind) -> ReadGraph:
    """Numbers nodes, predicates and triples; the temporary tables that say how stay in the connection."""
    connection.execute(statement("hubs", _NODES[kind]))
    connection.execute(statement("hubs", "number_predicates"))
    nodes = _table(connection, "nodes")
    triples = _table(connection, "triples")
    subjects, predicates, objects = (triples.column(name).to_numpy() for name in ("subject", "predicate", "object"))
    is_literal = np.array(nodes.column("is_literal").to_pylist(), dtype=np.bool_)
    graph = HubGraph.from_triples(subjects, predicates, objects, is_literal)
    named = NamedGraph(
        graph,
        nodes.column("own_id").to_pylist(),
        nodes.column("name").to_pylist(),
        _table(connection, "predicates").column("relation").to_pylist(),
    )
    return ReadGraph(named, nodes.column("entity_id").to_pylist(), triples.column("relation_id").to_pylist())


def passage_pairs(connection: duckdb.DuckDBPyConnection, name: str) -> NDArray[np.int64]:
    """Shape (e, 2): numbers of a triple or a node and of a passage, of the statement of this name."""
    columns = connection.execute(statement("hubs", name)).fetchnumpy()
    return np.stack((columns["thing"], columns["passage"]), axis=1).astype(np.int64)


def numbered(connection: duckdb.DuckDBPyConnection, name: str, values: Mapping[str, Any]) -> list[tuple[int, Any]]:
    """Numbers of nodes with what a statement says of each."""
    return connection.execute(statement("hubs", name), values).fetchall()


def texts_of(connection: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    """The only column of a statement."""
    return [row[0] for row in connection.execute(statement("hubs", name)).fetchall()]


def _table(connection: duckdb.DuckDBPyConnection, name: str) -> pa.Table:
    return connection.sql(statement("hubs", name)).to_arrow_table()  # of execute(), DuckDB copies all rows


@dataclass(frozen=True, slots=True)
class HubRule:
    """What makes a node a hub: `mode` is not "auto", and there are types if it needs them."""

    mode: HubMode
    types: tuple[str, ...]
    min_edges: int

    @classmethod
    def of(cls, settings: HubSettings, kind: SourceKind) -> "HubRule":
        """The rule that the settings mean for a source."""
        types = settings.types or ((DOCUMENT,) if kind == "corpus" and settings.mode != "edges" else ())
        mode: HubMode = settings.mode
        if mode == "auto":
            mode = "types" if types else "edges"
        if mode != "edges" and not types:
            raise ConfigurationError(
                f"hubs.mode = {mode} needs the types of hubs; name them in hubs.types, or set hubs.mode = edges."
            )
        if settings.split and settings.max_path_length == 0:
            raise ConfigurationError(
                "hubs.split needs a length at which paths end; set hubs.max_path_length, or leave hubs.split out."
            )
        return cls(mode, types if mode != "edges" else (), settings.min_edges)


def hub_type_names(connection: duckdb.DuckDBPyConnection, rule: HubRule) -> list[str]:
    """The types and labels that hubs were chosen by; if by their edges, the types that they have.

    The table `hubs` is filled.
    """
    if not rule.types:
        return texts_of(connection, "types_of_hubs")
    known = set(texts_of(connection, "known_types"))
    names = {entry for entry in rule.types if entry in known}
    return sorted(names | {label for entry in rule.types if entry not in known for _, label in splits(entry)})


def _typed(connection: duckdb.DuckDBPyConnection, named: NamedGraph, entry: str) -> set[int]:
    """Nodes of a type, or beside a label over a predicate."""
    found = set(_of_type(connection, entry))
    pairs = [(predicate, label) for predicate, label in splits(entry) if predicate in named.predicates]
    if not pairs:
        return found
    labelled: dict[str, list[int]] = {}
    for node, label in numbered(connection, "nodes_of_labels", {"labels": [label for _, label in pairs]}):
        labelled.setdefault(label, []).append(node)
    for predicate, label in pairs:
        found.update(nodes_beside(named.graph, named.predicates.index(predicate), labelled.get(label, [])).tolist())
    return found


def _of_type(connection: duckdb.DuckDBPyConnection, name: str) -> list[int]:
    return [node for node, _ in numbered(connection, "nodes_of_types", {"types": [name]})]


def _unknown(connection: duckdb.DuckDBPyConnection, setting: str, entry: str, why: str) -> ConfigurationError:
    known = texts_of(connection, "known_types")
    near = get_close_matches(entry, known, n=1)
    listed = ", ".join(sorted(known)[:10]) + (", …" if len(known) > 10 else "")
    types = f"types are {listed}" if known else "its nodes have no types"
    advice = f"did you mean '{near[0]}'" if near else types
    return ConfigurationError(f"{setting} names '{entry}', but {why}; {advice}.")


PATH_ARRAYS = "hub-paths"  # prefix of the arrays of the stage `hub-paths`


@dataclass(frozen=True, slots=True)
class SearchedPaths:
    """Hubs and their paths, in emission order, with names; starts say where paths of a hub, triples of a path begin."""

    named: NamedGraph
    entity_ids: list[str]
    hubs: NDArray[np.int32]
    path_starts: NDArray[np.int64]
    triple_starts: NDArray[np.int64]
    triples: NDArray[np.int32]
    end_kinds: NDArray[np.uint8]
    hashes: NDArray[np.uint8]

    @classmethod
    def of(cls, named: NamedGraph, entity_ids: list[str], array: Callable[[str], NDArray[Any]]) -> "SearchedPaths":
        """From arrays by name, as `found_arrays` makes them."""
        names = ("hubs", "path-starts", "triple-starts", "path-triples", "end-kinds", "hashes")
        return cls(named, entity_ids, *map(array, names))

    @classmethod
    def open(cls, folder: Path) -> "SearchedPaths":
        """From the stage's arrays in a folder."""

        def array(name: str) -> NDArray[Any]:
            return open_array(folder, f"{PATH_ARRAYS}_{name}")

        def texts(name: str) -> list[str]:
            starts, data = array(f"{name}-starts"), array(f"{name}-texts")
            return StoredTexts(starts, data).of(range(len(starts) - 1))

        named = NamedGraph(HubGraph.of(array), texts("own-ids"), texts("labels"), texts("predicates"))
        return cls.of(named, texts("entity-ids"), array)

    @property
    def path_count(self) -> int:
        """Paths of all hubs."""
        return len(self.end_kinds)

    def numbers(self) -> Iterator[memoryview]:
        """Triple numbers of each path."""
        triples = view_of(self.triples)
        return (triples[first:end] for first, end in pairwise(self.triple_starts.tolist()))

    def words(self) -> Iterator[list[NamedTriple]]:
        """Each path in words."""
        return map(self.named.path, self.numbers())

    def ends(self) -> Numbers:
        """Shape (p,): the node at which each path ends."""
        return self.named.graph.objects[self.triples[self.triple_starts[1:] - 1]]

    def signatures(self) -> Iterator[tuple[str, ...]]:
        """The predicates of each path, from the hub on."""
        predicates, names = self.named.graph.predicates[self.triples].tolist(), self.named.predicates
        bounds = pairwise(self.triple_starts.tolist())
        return (tuple(names[number] for number in predicates[first:end]) for first, end in bounds)

    def hash_of(self, path: int) -> str:
        """Hash of a path, 64 hexadecimal digits."""
        return bytes(self.hashes[path]).hex()


_TEXT_SETTINGS = {"levels", "textualiser"}  # settings of the section that change no path

DEFAULT_LENGTHS: Mapping[SourceKind, int] = {"graph": 10, "corpus": 2}
"""Relations of the longest path. Source: algorithms.md 4.5; of texts measured on musique100 (rules): 97,000 paths of up
to 2 cover 98 % of the triples; up to 3 there are 420,000, up to 10 3,500,000 paths for the same 98 %."""

_PASSAGES: Mapping[SourceKind, str] = {"graph": "passages_attached_to_hubs", "corpus": "passages_of_hubs"}

Arrays = dict[str, NDArray[np.generic]]


def limits_of(chosen: HubSettings, kind: SourceKind) -> SearchLimits:
    """How far the settings let hubs and paths of a source be searched."""
    length = DEFAULT_LENGTHS[kind] if chosen.max_path_length is None else chosen.max_path_length
    return SearchLimits(chosen.split, length, chosen.max_paths_per_hub)


def found_hubs(build: Build, connection: duckdb.DuckDBPyConnection) -> tuple[ReadGraph, HubSearch]:
    """Reads the graph of a build, and finds its hubs and their paths."""
    chosen, read = build.settings.hubs, read_hub_graph(connection, build.source_kind)
    rule = HubRule.of(chosen, build.source_kind)
    # The rules by which each node is a hub, shape (n,); see `hub_rules`.
    must_exist = bool(chosen.types)
    typed: set[int] = set()
    for entry in rule.types:
        found = _typed(connection, read.named, entry)
        if must_exist and not found:
            raise _unknown(connection, "hubs.types", entry, "no node is of that type")
        typed |= found
    rules = hub_rules(read.named.graph, sorted(typed), rule.mode, rule.min_edges)
    # Nodes by id or type, in the order of the settings, each once; without any: all hubs.
    starts: dict[int, None] = {}
    by_id = {own_id: node for node, own_id in numbered(connection, "nodes_of_ids", {"ids": list(chosen.start)})}
    for start in chosen.start:
        nodes = [by_id[start]] if start in by_id else _of_type(connection, start)
        if not nodes:
            raise _unknown(connection, "hubs.start", start, "no node has that id or type")
        starts |= dict.fromkeys(nodes)
    limits = limits_of(chosen, build.source_kind)
    return read, search_hubs(read.named.graph, rules, list(starts) if chosen.start else None, limits)


def searched_paths(read: ReadGraph, search: HubSearch) -> SearchedPaths:
    """The paths as the stage `hubs` reads them from arrays."""
    return SearchedPaths.of(read.named, read.entity_ids, found_arrays(read.named, search).__getitem__)


def found_arrays(named: NamedGraph, search: HubSearch) -> Arrays:
    """The arrays of `path_arrays`, and the hashes of their paths, shape (p, 32)."""
    arrays = path_arrays(search)
    paths = named.paths(arrays["triple-starts"], arrays["path-triples"])  # type: ignore[arg-type]
    hashes = np.frombuffer(b"".join(map(path_hash, paths)), dtype=np.uint8).reshape(-1, 32)
    return {**arrays, "hashes": hashes}


def _names(read: ReadGraph, hub_types: list[str]) -> Arrays:
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
        "triples_by_predicate": ("covered_triples", {"predicate": graph.predicates, "is_covered": covered.triples}),
    }
    for name, (view, columns) in marked.items():
        connection.register(view, pa.table(columns))
        counted[name] = connection.execute(statement("hubs", name)).fetchall()
        connection.unregister(view)
    rows: list[Row] = [
        *covered.rows(),
        *(row("nodes of type", *counts) for counts in counted["nodes_by_type"]),
        *(row("triples of predicate", *counts) for counts in counted["triples_by_predicate"]),
        *path_rows(arrays, search.left_out, len(search.unreached)),
    ]
    return pa.table(dict(zip(HUB_COVERAGE.column_names, zip(*rows, strict=True), strict=True)), HUB_COVERAGE.arrow)


class HubPathSearch(Stage):
    """Hubs of a graph and their paths."""

    name = "hub-paths"
    reads = ("source", "entities", "passages")  # what links texts to nodes of a graph is part of the source alone
    writes = ("hub-paths",)
    revision = 2
    tables = (HUBS_TABLE, HUB_CANDIDATES, HUB_COVERAGE, HUB_UNCOVERED)
    arrays = PATH_ARRAYS
    invariants = statements("hub_invariants")

    def settings(self, build: Build) -> dict[str, object]:
        """What hubs are, and how far their paths go."""
        chosen = build.settings.hubs
        HubRule.of(chosen, build.source_kind)
        return chosen.model_dump(mode="json", exclude=_TEXT_SETTINGS) | asdict(limits_of(chosen, build.source_kind))

    def finish(self, build: Build) -> Counts:
        """Fills the tables and writes the arrays."""
        with build.tables() as connection:
            read, search = found_hubs(build, connection)
            arrays = found_arrays(read.named, search)
            covered = Covered.by(arrays["path-triples"], read.named.graph)
            uncovered = [read.relation_ids[triple] for triple in np.flatnonzero(~covered.triples).tolist()]
            # The hubs that were found, then those that were not.
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
            filled = {
                HUBS_TABLE: pa.Table.from_pydict(columns, schema=HUBS_TABLE.arrow),
                HUB_CANDIDATES: _candidates_table(read, arrays),
                HUB_UNCOVERED: pa.table({"relation_id": uncovered}, HUB_UNCOVERED.arrow),
                HUB_COVERAGE: _coverage_table(connection, covered, read, search, arrays),
            }
            for table, rows in filled.items():
                connection.from_arrow(rows).order(", ".join(table.key)).insert_into(table.name)
            hub_types = hub_type_names(connection, HubRule.of(build.settings.hubs, build.source_kind))
            # Shape (e, 2): numbers of hubs that the search found, and of passages.
            hubs = arrays["hubs"]
            pairs = passage_pairs(connection, _PASSAGES[build.source_kind])
            pairs = pairs[np.isin(pairs[:, 0], hubs)]
            saved = {
                **read.named.graph.arrays,
                **arrays,
                "unreached": search.unreached,
                **_names(read, hub_types),
                "triple-passages": passage_pairs(connection, "passages_of_triples"),
                "hub-passages": np.stack((np.searchsorted(hubs, pairs[:, 0]), pairs[:, 1]), axis=1).astype(np.int64),
            }
        save_arrays(build.staging.arrays, PATH_ARRAYS, saved)
        return {
            "hubs": len(arrays["hubs"]),
            "unreached_hubs": len(search.unreached),
            "paths": len(arrays["end-kinds"]),
            "left_out_paths": search.left_out,
            "candidates": len(arrays["candidates"]),
            "nodes": len(covered.nodes),
            "covered_nodes": int(covered.nodes.sum()),
            "triples": len(covered.triples),
            "covered_triples": int(covered.triples.sum()),
        }


HUB_PATH_SEARCH = HubPathSearch()
