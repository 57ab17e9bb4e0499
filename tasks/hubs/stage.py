"""The stage `hubs`: texts of the paths that `hub-paths` found, and what of them gets vectors.

Searches nothing. Source: algorithms.md 4.2, 4.6, 4B (units).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyhop.schemas.hubs import END_KINDS, HubGraph, HubRows
from polyhop.schemas.ids import ID_LENGTH, content_hash
from polyhop.schemas.stored_texts import StoredTexts
from polyhop.tasks.hubs.flat import NamedGraph
from polyhop.tasks.hubs.rows import DistinctTexts, RowCollector, value_texts
from polyhop.tasks.hubs.search_stage import ARRAYS as PATH_ARRAYS
from polyhop.tasks.hubs.search_stage import HUB_PATH_SEARCH
from polyhop.tasks.hubs.tables import HUB_PATHS, HUB_TEXTS
from polyhop.tasks.hubs.text import path_json, path_text
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.build import Build, part_files, write_part
from polyhop.warehouse.graph.arrays import open_array, save_arrays, text_arrays
from polyhop.warehouse.statements import statement

ARRAYS = "hubs"
CHUNK = 20_000
"""Paths put into words at once; chosen: some 20 MB."""
TEMPLATE = "template"


@dataclass(frozen=True, slots=True)
class SearchedPaths:
    """What `hub-paths` wrote, as far as texts need it.

    Attributes:
        named: The graph.
        entity_ids: Of the nodes.
        hubs: Shape (h,): node of each hub.
        path_starts: Shape (h + 1,): paths of each hub.
        triple_starts: Shape (p + 1,): triples of each path.
        triples: Triples of all paths.
        end_kinds: Shape (p,).
        hashes: Shape (p, 32).
    """

    named: NamedGraph
    entity_ids: list[str]
    hubs: NDArray[np.int32]
    path_starts: NDArray[np.int64]
    triple_starts: NDArray[np.int64]
    triples: NDArray[np.int32]
    end_kinds: NDArray[np.uint8]
    hashes: NDArray[np.uint8]

    @classmethod
    def open(cls, folder: Path) -> "SearchedPaths":
        """From the arrays in a folder."""

        def array(name: str) -> NDArray[np.generic]:
            return open_array(folder, f"{PATH_ARRAYS}_{name}")

        def texts(name: str) -> list[str]:
            starts, data = array(f"{name}-starts"), array(f"{name}-texts")
            return StoredTexts(starts, data).of(range(len(starts) - 1))  # type: ignore[arg-type]

        graph = HubGraph.of({name: array(name) for name in HubGraph.array_names()})
        named = NamedGraph(graph, texts("own-ids"), texts("labels"), texts("predicates"))
        names = ("hubs", "path-starts", "triple-starts", "path-triples", "end-kinds", "hashes")
        return cls(named, texts("entity-ids"), *map(array, names))  # type: ignore[arg-type]

    @property
    def path_count(self) -> int:
        """Paths of all hubs."""
        return len(self.end_kinds)

    def triples_of(self, path: int) -> list[int]:
        """Triple numbers of a path."""
        numbers: list[int] = self.triples[self.triple_starts[path] : self.triple_starts[path + 1]].tolist()
        return numbers


def settings(build: Build) -> dict[str, object]:
    """What of a path is embedded."""
    return {"levels": list(build.settings.hubs.levels)}


def finish(build: Build) -> Counts:
    """Fills the tables of paths and texts, and writes the arrays."""
    searched = SearchedPaths.open(build.staging.arrays)
    texts, rows = DistinctTexts(), RowCollector(build.settings.hubs.levels)
    numbers: list[int] = []
    folder = build.parts("hubs")
    for chunk, table in enumerate(_path_tables(searched, rows)):
        numbers += map(texts.number, table.column("text").to_pylist())
        write_part(folder, chunk, {"paths": table})
    values = DistinctTexts()
    value_numbers = value_texts(*_facets(searched), values)
    _fill(build, {"hubpath": rows.texts.texts, "hubvalue": values.texts, "hubname": hub_names(searched)})
    found: HubRows = rows.rows()
    saved = {"path-texts": np.array(numbers, dtype=np.int32), "values": value_numbers}
    save_arrays(build.staging.arrays, ARRAYS, {**saved, **found.arrays, **text_arrays(texts.texts)})
    return {
        "paths": searched.path_count,
        "path_texts": len(texts.texts),
        "row_texts": len(rows.texts.texts),
        "value_texts": len(values.texts),
    }


def hub_names(searched: SearchedPaths) -> list[str]:
    """Distinct labels of hubs, ascending; the id of one without a label."""
    named = searched.named
    return sorted({named.labels[node] or named.own_ids[node] for node in searched.hubs.tolist()})


def _path_tables(searched: SearchedPaths, rows: RowCollector) -> Iterator[pa.Table]:
    """The rows of the table of paths, chunk by chunk, and the rows that are embedded."""
    hub_of = np.repeat(np.arange(len(searched.hubs)), np.diff(searched.path_starts))
    for first in range(0, searched.path_count, CHUNK):
        chosen = range(first, min(first + CHUNK, searched.path_count))
        triples = [searched.triples_of(path) for path in chosen]
        words = [searched.named.path(numbers) for numbers in triples]
        texts = list(map(path_text, words))
        for numbers, path, text in zip(triples, words, texts, strict=True):
            rows.add(numbers, path, text)
        hubs = hub_of[first : first + CHUNK]
        columns = {
            "hub_id": [searched.entity_ids[node] for node in searched.hubs[hubs].tolist()],
            "path_hash": [each.tobytes().hex() for each in searched.hashes[first : first + CHUNK]],
            "ordinal": (np.arange(chosen.start, chosen.stop) - searched.path_starts[hubs]).tolist(),
            "length": list(map(len, triples)),
            "triples_json": list(map(path_json, words)),
            "text": texts,
            "textualiser": [TEMPLATE] * len(texts),
            "end_kind": [END_KINDS[kind] for kind in searched.end_kinds[first : first + CHUNK].tolist()],
            "end_entity_id": [searched.entity_ids[_end(searched, numbers)] for numbers in triples],
        }
        yield pa.Table.from_pydict(columns, schema=HUB_PATHS.arrow)


def _end(searched: SearchedPaths, triples: Sequence[int]) -> int:
    return int(searched.named.graph.objects[triples[-1]])


def _facets(searched: SearchedPaths) -> tuple[Iterator[tuple[str, ...]], Iterator[str]]:
    """The signature of each path, and the label of its last object."""
    named, graph = searched.named, searched.named.graph
    predicates, starts = graph.predicates[searched.triples].tolist(), searched.triple_starts.tolist()
    names = named.predicates
    signatures = (tuple(names[number] for number in predicates[first:end]) for first, end in pairwise(starts))
    ends = graph.objects[searched.triples[searched.triple_starts[1:] - 1]].tolist()
    return signatures, (named.labels[node] for node in ends)


def _fill(build: Build, texts: dict[str, list[str]]) -> None:
    """The tables, from the parts and from the distinct texts by kind."""
    folder = build.parts("hubs")
    rows = [(kind, number, text) for kind, of_kind in texts.items() for number, text in enumerate(of_kind)]
    columns = {
        "kind": [row[0] for row in rows],
        "ordinal": [row[1] for row in rows],
        "text_id": [content_hash("hub text", row[2])[:ID_LENGTH] for row in rows],
        "text": [row[2] for row in rows],
    }
    with build.tables() as connection:
        if paths := part_files(folder, "paths"):
            connection.execute(statement("hubs", "fill_hub_paths"), {"paths": paths})
        connection.register("incoming", pa.Table.from_pydict(columns, schema=HUB_TEXTS.arrow))
        connection.execute("INSERT INTO hub_texts FROM incoming ORDER BY kind, ordinal")
        connection.unregister("incoming")


HUBS = Stage(
    "hubs",
    reads=("hub-paths",),
    writes=("hubs",),
    finish=finish,
    settings=settings,
    tables=(HUB_PATHS, HUB_TEXTS),
    arrays=ARRAYS,
)
HUB_STAGES = (HUB_PATH_SEARCH, HUBS)
