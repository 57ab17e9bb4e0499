"""The stages `hub-paths` (a graph or a corpus to hubs, their paths, what they cover) and `hubs` (texts of the paths).

Texts are by a template or a model, whose replies are cached by the words of a path: a changed graph asks for new ones
only, and what failed has the template's text until a later run gets another. Source: algorithms.md 4.2 to 4.7, 4B.
"""

import json
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask, Role
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.hub_paths import (
    DEFINITIONS,
    Covered,
    HubSearch,
    NamedGraph,
    Row,
    SearchLimits,
    Signature,
    hub_rules,
    neighbours_of,
    path_arrays,
    path_hash,
    path_json,
    path_rows,
    path_text,
    row,
    search_hubs,
    signature_texts,
    splits,
    view_of,
)
from polyhop.schemas.hubs import END_KINDS, LEVELS, HubGraph, HubRows, Numbers
from polyhop.schemas.propositions import StoredTexts
from polyhop.schemas.records import SourceKind
from polyhop.schemas.settings import DOCUMENT, HubMode, HubSettings
from polyhop.schemas.tables import Table, count, real, text_column
from polyhop.schemas.text import ID_LENGTH, content_hash
from polyhop.tasks.stage import BatchResult, Counts, Stage
from polyhop.warehouse.artefacts import open_array, save_arrays, text_arrays
from polyhop.warehouse.build import (
    Build,
    batch_count,
    is_part_done,
    part_files,
    read_batch,
    row_count,
    write_batches,
    write_part,
)
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.statements import read_prompt, statement, statements

if TYPE_CHECKING:
    from polyhop.tasks.planning import PlannedStep, Planner

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
    """Condition for a node to be a hub: `mode` is not "auto", and there are types if it needs them."""

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
    labels = ([entry] if entry in known else [label for _, label in splits(entry)] for entry in rule.types)
    return sorted(set(chain.from_iterable(labels)))


def _typed(connection: duckdb.DuckDBPyConnection, named: NamedGraph, entry: str) -> set[int]:
    """Nodes of a type, or adjacent to a label over a predicate."""
    found = set(_of_type(connection, entry))
    for predicate, label in splits(entry):
        if predicate in named.predicates:
            labelled = [node for node, _ in numbered(connection, "nodes_of_labels", {"labels": [label]})]
            found.update(neighbours_of(named.graph, named.predicates.index(predicate), labelled).tolist())
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
    """Limits of the search for hubs and paths of a source, from the settings."""
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
        """Settings that determine hubs and their paths."""
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


# Source: algorithms.md 4.6 (embedding levels), 4B (units).

_NO_TRIPLE = -1  # in rows of other levels: numbers of triples begin at 0


class DistinctTexts:
    """Texts, numbered as they first come."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The text's number, a new one if it has none."""
        return self._number_of.setdefault(text, len(self._number_of))

    @property
    def texts(self) -> list[str]:
        """The texts by number."""
        return list(self._number_of)


@dataclass(slots=True)
class RowCollector:
    """Takes paths one after the other and makes their rows; `texts` are the distinct ones of all rows."""

    levels: Collection[str]
    texts: DistinctTexts = field(default_factory=DistinctTexts)
    _rows: "array[int]" = field(default_factory=lambda: array("i"))
    _paths: int = 0

    def add(self, numbers: Sequence[int], triples: Sequence[NamedTriple], text: str) -> None:
        """The rows of the next path."""
        words = [(triple.subject_words, triple.predicate, triple.object_words) for triple in triples]
        of_triples = (f"({', '.join(each)})" for each in words)
        found = {
            "path": [(text, _NO_TRIPLE)],
            "triple": zip(of_triples, numbers, strict=True),
            "entity": [(label, _NO_TRIPLE) for each in words for label in each],
        }
        for level, name in enumerate(LEVELS):
            if name in self.levels:
                first: dict[str, int] = {}
                for row_text, triple in found[name]:
                    first.setdefault(row_text, triple)
                for row_text, triple in first.items():
                    self._rows.extend((self._paths, self.texts.number(row_text), level, triple))
        self._paths += 1

    def rows(self) -> HubRows:
        """All rows, in the order of their paths."""
        paths, texts, levels, triples = np.ascontiguousarray(np.frombuffer(self._rows, dtype=np.int32).reshape(-1, 4).T)
        return HubRows(paths, texts, levels.astype(np.uint8), triples)


def value_texts(signatures: Iterable[Signature], values: Iterable[str], distinct: DistinctTexts) -> NDArray[np.int32]:
    """The number of each path's text for hub-facets, shape (p,): its signature's text, then its value."""
    listed = list(signatures)
    words = signature_texts(set(listed))
    texts = (f"{words[signature]} {value}".strip() for signature, value in zip(listed, values, strict=True))
    return np.fromiter(map(distinct.number, texts), dtype=np.int32, count=len(listed))


class PathText(BaseModel):
    """The form of a reply to hub.path_text."""

    text: str


@cache
def path_text_task() -> ChatTask[PathText]:
    """The task hub.path_text with its prompt; a text is about as long as the statements that it is of."""
    prompt = read_prompt(Path(__file__).parent / "prompts" / "hub.path_text.md")
    return ChatTask("hub.path_text", prompt, PathText, max_output_tokens=512, output_per_input=1.2)


def path_lines(triples: Iterable[NamedTriple]) -> str:
    """The path as it is shown to a model: a line per triple, with labels and the predicate as stated."""
    words = ([triple.subject_words, triple.predicate, triple.object_words] for triple in triples)
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in words)


def path_request(lines: str, unit_id: str) -> ChatRequest[PathText]:
    """The question about one path."""
    return ChatRequest(path_text_task(), unit_id, (("triples", lines),))


def distinct_lines(paths: Iterable[Sequence[NamedTriple]]) -> dict[str, int]:
    """Different lines of paths, with the number of the first path that has them, in the order of the paths."""
    first: dict[str, int] = {}
    for number, path in enumerate(paths):
        first.setdefault(path_lines(path), number)
    return first


CHUNK = 20_000  # paths put into words at once; chosen: some 20 MB
TEMPLATE = "template"


def path_tables(
    searched: SearchedPaths, written: Mapping[str, tuple[str, str]], rows: RowCollector
) -> Iterator[pa.Table]:
    """The rows of the table of paths, in emission order."""
    hub_of = np.repeat(np.arange(len(searched.hubs)), np.diff(searched.path_starts))
    numbers, words = searched.numbers(), searched.words()
    for first in range(0, searched.path_count, CHUNK):
        paths = list(islice(words, CHUNK))
        # Text of each path and who wrote it: a model, else the template.
        texts = [(path_text(path), TEMPLATE) for path in paths]
        if written:
            texts = [written.get(path_lines(path), own) for path, own in zip(paths, texts, strict=True)]
        for path, (text, _) in zip(paths, texts, strict=True):
            rows.add(next(numbers), path, text)
        hubs, ends = hub_of[first : first + CHUNK], searched.ends()[first : first + CHUNK]
        columns = {
            "hub_id": [searched.entity_ids[node] for node in searched.hubs[hubs].tolist()],
            "path_hash": [each.tobytes().hex() for each in searched.hashes[first : first + CHUNK]],
            "ordinal": (np.arange(first, first + len(paths)) - searched.path_starts[hubs]).tolist(),
            "length": list(map(len, paths)),
            "triples_json": list(map(path_json, paths)),
            "text": [text for text, _ in texts],
            "textualiser": [by for _, by in texts],
            "end_kind": [END_KINDS[kind] for kind in searched.end_kinds[first : first + CHUNK].tolist()],
            "end_entity_id": [searched.entity_ids[node] for node in ends.tolist()],
        }
        yield pa.Table.from_pydict(columns, schema=HUB_PATHS.arrow)


ARRAYS = "hubs"
_REPLIES = Table(
    "path_replies",
    "Paths that a model was asked about, by the words that it was shown.",
    ("lines",),
    (
        text_column("lines", "words of the path"),
        text_column("text", "the usable reply; empty if there is none"),
        text_column("model", "model asked"),
        count("prompt_tokens", "tokens sent for it"),
        count("completion_tokens", "tokens received for it"),
    ),
)
"""Columns of the parts of the batches."""
_ASKED = pa.schema([("lines", pa.string()), ("unit_id", pa.string())])


def _asks(build: Build) -> bool:
    return build.settings.hubs.textualiser == "model"


def _requests(searched: SearchedPaths, build: Build) -> Iterator[list[ChatRequest[PathText]]]:
    """One per path of different words, in the order of the paths, a batch at a time."""
    lines = distinct_lines(searched.words()).items()
    asked = [path_request(each, searched.hash_of(path)) for each, path in lines]
    size = build.settings.batch_size
    return (asked[first : first + size] for first in range(0, len(asked), size))


def _asked(build: Build) -> Path:
    """The list of what the model is asked, by batch: putting all paths into words for each batch would be quadratic."""
    return _replies_folder(build) / "asked.parquet"


def _replies_folder(build: Build) -> Path:
    return build.parts("hubs") / "replies"


class HubStage(Stage):
    """Texts of paths, by a template or a model."""

    name = "hubs"
    reads = ("hub-paths",)
    writes = ("hubs",)
    tables = (HUB_PATHS, HUB_TEXTS)
    arrays = ARRAYS
    unit = "paths"
    invariants = statements("hub_path_invariants")

    def settings(self, build: Build) -> dict[str, object]:
        """Settings that determine the texts, and the embedded parts of a path."""
        chosen = build.settings.hubs
        said: dict[str, object] = {"levels": list(chosen.levels), "textualiser": chosen.textualiser}
        if _asks(build):
            from polyhop.warehouse.open_models import model_name

            said["model"] = model_name(build.settings.models, Role.EXTRACT)
        return said

    def files(self, build: Build) -> dict[str, str]:
        """The prompt."""
        return {"prompt": path_text_task().prompt.hash} if _asks(build) else {}

    def plan(self, build: Build, planner: "Planner") -> "Iterator[PlannedStep]":
        """One request per path of different words. What a text corpus relates is known only when it is extracted."""
        from polyhop.tasks.planning import planned_step

        if not _asks(build) or build.source_kind == "corpus":
            return
        with build.tables(read_only=True) as connection:
            read, search = found_hubs(build, connection)
        arrays = found_arrays(read.named, search)
        searched = SearchedPaths.of(read.named, read.entity_ids, arrays.__getitem__)
        for requests in _requests(searched, build):
            yield planned_step(path_text_task(), requests, planner)

    def batches(self, build: Build) -> list[int]:
        """Batches of paths without a finished part, none if a template writes; the paths are listed first, once."""
        if not _asks(build):
            return []
        folder, path = _replies_folder(build), _asked(build)
        if not path.is_file():

            def row(one: ChatRequest[PathText]) -> dict[str, str]:
                return {"lines": dict(one.inputs)["triples"], "unit_id": one.unit_id}

            requests = _requests(SearchedPaths.open(build.staging.arrays), build)
            with writing("the list of paths to ask about", folder):
                write_batches(path, _ASKED, (pa.Table.from_pylist(list(map(row, some)), _ASKED) for some in requests))
        return [number for number in range(batch_count(path)) if not is_part_done(folder, number)]

    def run(self, build: Build, batch: int) -> BatchResult:
        """Asks about one batch of paths; what fails is asked again by the next run."""
        from polyhop.warehouse.open_models import open_chat

        asked = read_batch(_asked(build), batch).to_pylist()
        requests = [path_request(row["lines"], row["unit_id"]) for row in asked]
        outcomes = open_chat(build.settings, Role.EXTRACT).ask(requests)
        rows = [
            {
                "lines": dict(request.inputs)["triples"],
                "text": " ".join(outcome.reply.text.split()),
                "model": outcome.model,
                "prompt_tokens": outcome.usage.prompt_tokens,
                "completion_tokens": outcome.usage.completion_tokens,
            }
            for request, outcome in zip(requests, outcomes, strict=True)
            if outcome.reply is not None
        ]
        table = pa.Table.from_pylist(rows, schema=_REPLIES.arrow)
        write_part(_replies_folder(build), batch, {"replies": table}, is_complete=len(rows) == len(requests))
        return BatchResult(len(requests), sum(not outcome.is_cached for outcome in outcomes))

    def finish(self, build: Build) -> Counts:
        """Fills the tables of paths and texts, and writes the arrays."""
        import pyarrow.parquet as pq

        searched = SearchedPaths.open(build.staging.arrays)
        parts = part_files(_replies_folder(build), "replies") if _asks(build) else []
        replies = [row for part in parts for row in pq.read_table(part).to_pylist()]
        written = {row["lines"]: (row["text"], row["model"]) for row in replies if row["text"]}
        texts, rows = DistinctTexts(), RowCollector(build.settings.hubs.levels)
        numbers: list[int] = []
        folder = build.parts("hubs") / "rows"
        for chunk, table in enumerate(path_tables(searched, written, rows)):
            numbers += map(texts.number, table.column("text").to_pylist())
            write_part(folder, chunk, {"paths": table})
        values = DistinctTexts()
        labels = (searched.named.labels[node] for node in searched.ends().tolist())
        value_numbers = value_texts(searched.signatures(), labels, values)
        hub_texts = [
            {"kind": kind, "ordinal": number, "text_id": content_hash("hub text", text)[:ID_LENGTH], "text": text}
            for kind, of_kind in (("hubpath", rows.texts.texts), ("hubvalue", values.texts))
            for number, text in enumerate(of_kind)
        ]
        with build.tables() as connection:
            if paths := part_files(folder, "paths"):
                connection.execute(statement("hubs", "fill_hub_paths"), {"paths": paths})
            incoming = connection.from_arrow(pa.Table.from_pylist(hub_texts, schema=HUB_TEXTS.arrow))
            incoming.order("kind, ordinal").insert_into("hub_texts")
        saved = {"path-texts": np.array(numbers, dtype=np.int32), "values": value_numbers}
        save_arrays(build.staging.arrays, ARRAYS, {**saved, **rows.rows().arrays, **text_arrays(texts.texts)})
        counts = {
            "paths": searched.path_count,
            "path_texts": len(texts.texts),
            "row_texts": len(rows.texts.texts),
            "value_texts": len(values.texts),
        }
        if _asks(build):
            counts["failed_path_texts"] = row_count(_asked(build)) - len(replies)
            counts |= {name: sum(row[name] for row in replies) for name in ("prompt_tokens", "completion_tokens")}
        return counts

    def outcome(self, build: Build) -> str:
        """Hash of what came out: a model's replies are not determined by the fingerprint."""
        if not _asks(build):
            return build.fingerprint("hubs")
        with build.tables(read_only=True) as connection:
            row = connection.execute(statement("hubs", "content_of_paths")).fetchone() or ()
        return content_hash("hubs", build.fingerprint("hubs"), *map(str, row))


HUBS = HubStage()
HUB_STAGES = (HUB_PATH_SEARCH, HUBS)
