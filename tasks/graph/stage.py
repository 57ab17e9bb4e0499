"""The graph stages: mentions to entity-passage arrays, relations to neighbours, titles to edges."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyhop.schemas.names import FUNCTION_WORDS
from polyhop.schemas.tables import Table, text_column
from polyhop.schemas.text import fold
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.artefacts import open_array, save_arrays, save_graph
from polyhop.warehouse.build import Build
from polyhop.warehouse.machine import gc_paused
from polyhop.warehouse.statements import statement


def relation_arrays(
    sources: NDArray[np.int64], targets: NDArray[np.int64], labels: NDArray[np.int64], entity_count: int
) -> dict[str, NDArray[np.generic]]:
    """The relation graph's arrays by name.

    Shape (m,) each: the entity that a relation leaves, the other that it enters, its label; in any order.
    Cost: O(m log m).
    """
    directed = sources * entity_count + targets
    order = np.argsort(directed)  # what is in order is found several times as fast below
    directed, labels = directed[order], labels[order]
    cells = np.concatenate((directed, targets * entity_count + sources))
    cells.sort()
    cells = cells[np.diff(cells, prepend=-1) > 0]  # numpy's unique, by a hash table, takes ten times as long
    rows, neighbours = np.divmod(cells, max(1, entity_count))
    at, label_count = np.searchsorted(cells, directed), labels.max(initial=0) + 1
    labels = np.sort(at * label_count + labels) % label_count  # ascending in each cell
    per_cell = np.bincount(at, minlength=len(cells))
    per_row = np.bincount(rows, minlength=entity_count)
    return {
        "indptr": _starts(per_row),
        "indices": neighbours.astype(np.int32),
        "label-indptr": _starts(per_cell),
        "labels": labels.astype(np.int32),
    }


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64, copy=False)


# Source: bridge-masked.md 2.

MOST_STARTS = 24  # words of a title at which a chunk may begin. Source: bridge-masked.md 2.
MOST_WORDS = 12  # words of the longest chunk. Source: bridge-masked.md 2.
LEAST_CHARACTERS = 3  # of a chunk of one word. Source: bridge-masked.md 2.

_WORD = re.compile(r"[^\W_]+")


def chunk_keys(title: str) -> set[str]:
    """Keys of all runs of words of a title that are shorter than the title and may be names.

    Source: bridge-masked.md 2.
    """
    words = _WORD.findall(fold(title))
    lows = [word.lower() for word in words]
    count = len(words)
    found = set()
    is_name = [low not in FUNCTION_WORDS for low in lows]
    for begin in range(min(count, MOST_STARTS) if count > 1 else 0):
        first, has_name = words[begin][0], is_name[begin]
        # a single word must be written with a capital, and be long enough
        if has_name and first.isalpha() and not first.islower() and len(lows[begin]) >= LEAST_CHARACTERS:
            found.add(lows[begin])
        for end in range(begin + 2, min(count - (begin == 0), begin + MOST_WORDS) + 1):
            has_name = has_name or is_name[end - 1]
            if has_name:
                found.add(" ".join(lows[begin:end]))
    return found


def chunk_edges(
    titles: Sequence[str], number_of: Mapping[str, int], indptr: NDArray[np.int64], indices: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Edges from passages to entities that parts of their titles name, but those that the graph has already.

    `number_of` has all entities of the graph by key, `indptr` and `indices` the edges from passages that there are.
    """
    known: dict[str, list[int]] = {}
    rows = []
    for passage, title in enumerate(titles):
        if title not in known:
            known[title] = sorted(number_of[key] for key in chunk_keys(title) if key in number_of)
        has = set(indices[indptr[passage] : indptr[passage + 1]].tolist()) if known[title] else set()
        rows.append([number for number in known[title] if number not in has])
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return starts, np.array([number for row in rows for number in row], dtype=np.int32)


class BipartiteStage(Stage):
    """Mentions to entity-passage arrays."""

    name = "graph"
    reads = ("entities",)
    writes = ("graph",)
    arrays = "bipartite"

    def finish(self, build: Build) -> Counts:
        """Writes the arrays."""
        with build.tables(read_only=True) as connection:
            edges = connection.execute(statement("graph", "bipartite_edges")).fetchnumpy()
            row = connection.execute(statement("graph", "node_counts")).fetchone() or (0, 0)
            passage_count, entity_count = row
            keys = None
            if passage_count >= build.settings.search.exact_below:
                keys = tuple(key for (key,) in connection.execute(statement("read", "entity_keys")).fetchall())
        # several extractors' mentions of one entity are one edge; numpy sorts in a tenth of DuckDB's time
        cells = edges["passage"] * entity_count + edges["entity"]
        order = np.argsort(cells)
        cells = cells[order]
        firsts = np.flatnonzero(np.diff(cells, prepend=-1))
        passages, entities = np.divmod(cells[firsts], max(1, entity_count))
        starts = _starts(np.bincount(passages, minlength=passage_count))
        tf = np.add.reduceat(edges["tf"][order], firsts)
        is_title = np.logical_or.reduceat(edges["is_title"][order], firsts)
        save_graph(build.staging.arrays, (starts, entities.astype(np.int32), tf, is_title), keys)
        return {"passages": passage_count, "names": entity_count, "edges": len(entities)}


GRAPH = BipartiteStage()


def _text_arrays(rows: pa.Table) -> dict[str, NDArray[np.generic]]:
    """Concatenates `text_arrays` of all fields: `texts` has those of a row joined, `lengths` the bytes of each."""
    lengths, texts = rows["lengths"].combine_chunks().values, rows["texts"].cast(pa.large_string()).combine_chunks()
    starts = _starts(lengths.to_numpy())
    return {"text-starts": starts, "texts": np.frombuffer(texts.buffers()[2] or b"", np.uint8)[: starts[-1]]}


class RelationStage(Stage):
    """Relations between named entities to arrays of neighbours."""

    name = "relations"
    reads = ("entities",)
    writes = ("graph:relations",)
    arrays = "relations"

    def finish(self, build: Build) -> Counts:
        """Writes the arrays of relations between named entities, and what these are called."""
        with build.tables(read_only=True) as connection, gc_paused():
            edges = connection.execute(statement("graph", "relation_edges")).fetchnumpy()
            entities = connection.sql(statement("graph", "entity_fields")).to_arrow_table()
            texts = _text_arrays(entities)
        arrays = relation_arrays(edges["source"], edges["target"], edges["label"], len(entities))
        save_arrays(build.staging.arrays, "relations", {**arrays, **texts})
        return {"names": len(entities), "relations": len(edges["label"]), "neighbours": len(arrays["indices"]) // 2}


RELATIONS = RelationStage()


TITLE_CHUNKS = Table(
    "title_chunks",
    "Edges that only bridge-masked walks: names that are part of a passage's title. They are no mentions.",
    ("passage_id", "entity_id"),
    (
        text_column("passage_id", "passage whose title contains the name and more, and which does not mention it"),
        text_column("entity_id", "entity of that name"),
    ),
)


class TitleChunkStage(Stage):
    """Parts of titles that are names to edges."""

    name = "title-chunks"
    reads = ("graph", "passages")
    writes = ("graph:title-chunks",)
    tables = (TITLE_CHUNKS,)
    arrays = "title-chunks"

    def finish(self, build: Build) -> Counts:
        """Fills the table and writes the arrays."""
        arrays = build.staging.arrays
        indptr = np.asarray(open_array(arrays, "bipartite_indptr"), dtype=np.int64)
        indices = np.asarray(open_array(arrays, "bipartite_indices"), dtype=np.int32)
        with build.tables() as connection:
            passages = connection.execute(statement("graph", "passage_titles")).fetchall()
            entities = connection.execute(statement("graph", "entity_numbers")).fetchall()
            number_of = {key: number for number, (key, _) in enumerate(entities)}
            starts, numbers = chunk_edges([title for _, title in passages], number_of, indptr, indices)
            rows = np.repeat(np.arange(len(passages)), np.diff(starts)).tolist()
            ids = [passages[row][0] for row in rows], [entities[number][1] for number in numbers.tolist()]
            connection.register("found_chunks", pa.table(list(ids), schema=TITLE_CHUNKS.arrow))
            connection.execute(statement("graph", "fill_title_chunks"))
            connection.unregister("found_chunks")
        save_arrays(arrays, "title-chunks", {"indptr": starts, "indices": numbers})
        return {"title_chunks": len(numbers)}


CHUNKS = TitleChunkStage()
