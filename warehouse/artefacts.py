"""Our artefacts: how each is saved and opened, what is left of it under a filter of questions.

A handle reads an open version through `Stored` alone, so that strategies, which import this module, reach no store.
"""

import json
import mmap
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import DamagedStoreError
from polyhop.schemas.graph import (
    BipartiteGraph,
    EdgesByEntity,
    Entity,
    LexicalIndex,
    Positions,
    RelationGraph,
    new_numbers,
    row_starts,
)
from polyhop.schemas.languages import ENGLISH, recorded_language
from polyhop.schemas.names import StoredTitleKeys
from polyhop.schemas.ports import Artefact, NameFinding, RestrictedIndex, Stored, unrestricted
from polyhop.schemas.settings import ExtractionSettings, ResolutionSettings, SearchSettings, stored_section
from polyhop.warehouse.files.disk import file_checksum, writing
from polyhop.warehouse.files.layout import index_of
from polyhop.warehouse.statements import statement

if TYPE_CHECKING:
    from polyhop.schemas.propositions import CompressedRows

CHECKED_BYTES = 64 * 2**20
"""Files up to this size are compared with their checksums when opened: 60 ms at the 1.1 GB/s of one core with SHA-NI.

Larger ones are compared by `polyhop verify`."""


def save_arrays(folder: Path, prefix: str, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Writes `<prefix>_<name>.npy` for each array."""
    with writing("arrays", folder):
        for name, array in arrays.items():
            np.save(folder / f"{prefix}_{name}.npy", array)


def text_arrays(texts: Iterable[str]) -> dict[str, NDArray[np.generic]]:
    """Texts as two arrays: where each begins, and all of them in UTF-8, one after the other.

    Returns:
        "text-starts", shape (n + 1,), int64, and "texts", shape (bytes,), uint8.
    """
    encoded = [text.encode("utf-8", "replace") for text in texts]
    starts = row_starts(np.array([len(each) for each in encoded], dtype=np.int64))
    return {"text-starts": starts, "texts": np.frombuffer(b"".join(encoded), dtype=np.uint8)}


def open_array(folder: Path, name: str) -> NDArray[Any]:
    """An array, memory-mapped read-only."""
    path = folder / f"{name}.npy"
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r")
    except Exception as error:  # numpy reads headers with Python's own parser, which raises almost anything
        raise DamagedStoreError(path, index_of(path), str(error).split("\n", 1)[0]) from error
    return array.view(np.ndarray)


def forget_pages(array: NDArray[Any]) -> None:
    """Lets go of what was read of a memory-mapped array: a million vectors would count as a gigabyte and a half."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap):
        base.madvise(mmap.MADV_DONTNEED)


class ArrayFolder:
    """The arrays and lists of a version."""

    def __init__(self, folder: Path, checksums: Mapping[str, str]) -> None:
        self._arrays = folder
        self._checksums = checksums
        self._checked: set[str] = set()

    def array(self, prefix: str, name: str) -> NDArray[Any]:
        """An array, memory-mapped; the first one of a prefix has all files of that prefix checked."""
        self._check(prefix)
        return open_array(self._arrays, f"{prefix}_{name}")

    def has_array(self, prefix: str, name: str) -> bool:
        """Returns whether the version has an array."""
        return f"{prefix}_{name}.npy" in self._checksums

    def lines(self, prefix: str, name: str) -> list[str]:
        """The lines of a text file, checked like the arrays; none if it is empty."""
        self._check(prefix)
        path = self._arrays / f"{prefix}_{name}.txt"
        try:
            text = path.read_bytes().decode("utf-8", "replace")  # a carriage return ends no line
        except OSError as error:
            raise DamagedStoreError(path, index_of(path), str(error)) from error
        return text.split("\n") if text else []

    def _check(self, prefix: str) -> None:
        """Makes sure that the files of a prefix are those that were published, as far as that is cheap."""
        if prefix in self._checked:
            return
        for name, checksum in self._checksums.items():
            if name.startswith(f"{prefix}_"):
                path = self._arrays / name
                if not path.is_file():
                    raise DamagedStoreError(path, index_of(path), "it is missing")
                if path.stat().st_size <= CHECKED_BYTES and file_checksum(path) != checksum:
                    raise DamagedStoreError(path, index_of(path), "its checksum is not the published one")
        self._checked.add(prefix)


LEXICAL_FILES = ("indptr.npy", "passages.npy", "tf.npy", "lengths.npy", "terms.txt")
"""Ends of the names of the files of one analyser's postings."""


def save_lexical(folder: Path, analyser: str, index: LexicalIndex) -> None:
    """Writes the postings of one analyser; terms in number order, one a line."""
    prefix = f"lexical-{analyser}"
    save_arrays(folder, prefix, {name: getattr(index, name) for name in ("indptr", "passages", "tf", "lengths")})
    with writing("terms", folder):
        (folder / f"{prefix}_terms.txt").write_text("\n".join(index.terms), encoding="utf-8")


def open_lexical(arrays: ArrayFolder | Stored, analyser: str, language: str = "en") -> LexicalIndex:
    """The postings of one analyser."""
    prefix = f"lexical-{analyser}"
    terms = Positions(arrays.lines(prefix, "terms"))
    indptr, passages, tf, lengths = (arrays.array(prefix, name) for name in ("indptr", "passages", "tf", "lengths"))
    return LexicalIndex(terms, indptr, passages, tf, lengths, language)


def _column(stored: Stored, name: str) -> list[Any]:
    (column,) = stored.columns(statement("read", name)).values()
    values: list[Any] = column.tolist()
    return values


_BY_PASSAGE = ("indptr", "indices", "tf", "title")
_BY_ENTITY = ("entity-indptr", "passages", "entity-tf", "entity-title")


def save_graph(folder: Path, edges: Sequence[NDArray[Any]], keys: tuple[str, ...] | None) -> None:
    """Writes the edges of a `BipartiteGraph` by passage (its first four fields).

    If the keys of a large version are given, these, too, one a line, and the edges by entity, for walks.
    """
    indptr, indices, tf, is_title = edges
    tf = tf.astype(np.min_scalar_type(int(tf.max(initial=0))))  # one byte of each, and not eight
    arrays = dict(zip(_BY_PASSAGE, (indptr, indices, tf, is_title), strict=True))
    if keys is not None:
        arrays |= dict(zip(_BY_ENTITY, BipartiteGraph(indptr, indices, tf, is_title, keys).by_entity, strict=True))
        with writing("keys", folder):
            (folder / "bipartite_keys.txt").write_text("\n".join(keys), encoding="utf-8")
    save_arrays(folder, "bipartite", arrays)


def _graph(stored: Stored) -> BipartiteGraph:
    indptr, indices, tf, is_title = (stored.array("bipartite", name) for name in _BY_PASSAGE)
    by_entity, keys = None, list[str]()
    if stored.has_array("bipartite", "passages"):
        by_entity = EdgesByEntity(*(stored.array("bipartite", name) for name in _BY_ENTITY))
        keys = stored.lines("bipartite", "keys")  # in a fifth of the time that DuckDB takes
    if by_entity is None or len(keys) != len(by_entity.indptr) - 1:  # or a key has a line break
        keys = _column(stored, "entity_keys")
    return BipartiteGraph(indptr, indices, tf.astype(np.float64, copy=False), is_title, tuple(keys), by_entity)


GRAPH = Artefact("graph", _graph, "graph", restrict=lambda graph, index: graph.restricted(index.allowed))
"""Passages and the entities they mention."""

ENTITY_NUMBERS: Artefact[NDArray[np.int64]] = Artefact(
    "graph",
    lambda stored: np.arange(stored.artefact(GRAPH).entity_count, dtype=np.int64),
    "graph",
    restrict=lambda _, index: index.whole.artefact(GRAPH).entities_of(index.allowed),
)
"""Shape (n,), int64, ascending: numbers, in the whole version, of the entities in `GRAPH`."""

CHUNK_GRAPH: Artefact[BipartiteGraph] = Artefact(
    "graph:title-chunks",
    lambda stored: stored.artefact(GRAPH).with_edges(
        *(stored.array("title-chunks", name) for name in ("indptr", "indices"))
    ),
    "bridge-masked",
    restrict=lambda graph, index: graph.restricted(index.allowed, index.artefact(ENTITY_NUMBERS)),
)
"""`GRAPH` with edges from passages to names that are part of their titles: tf 1, not title edges; numbered alike.

Source: bridge-masked.md 2.
"""


def surface_graph(columns: Mapping[str, NDArray[Any]], passage_count: int) -> BipartiteGraph:
    """Passages and the spellings of names in them, ascending; each offset counts under its own spelling.

    Source: algorithms.md 7.5.
    Cost: O(mentions); 350,000 of them take some 2 s, once per open version.
    """
    surfaces = columns["surface"].tolist()
    keys = sorted(set(surfaces))
    number_of = {key: number for number, key in enumerate(keys)}
    return BipartiteGraph(
        indptr=row_starts(np.bincount(columns["passage"].astype(np.int64), minlength=passage_count)),
        indices=np.fromiter(map(number_of.__getitem__, surfaces), dtype=np.int32, count=len(surfaces)),
        tf=columns["tf"].astype(np.float64),
        is_title=columns["is_title"].astype(np.bool_),
        keys=tuple(keys),
    )


SURFACES = Artefact(
    "surfaces",
    lambda stored: surface_graph(stored.columns(statement("read", "surfaces")), len(stored.passage_ids)),
    is_optional=False,
    restrict=lambda graph, index: graph.restricted(index.allowed),
)
"""Passages and the spellings of names in them, before resolution; its keys are the spellings. Read from the tables."""


def _statements(stored: Stored) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    columns = stored.columns(statement("read", "relation_passages"))
    return columns["relation"].astype(np.int64), columns["passage"].astype(np.int64)


RELATION_PASSAGES = Artefact("graph:relations", _statements, "graph-search", restrict=unrestricted)
"""Shape (s,) each: offset of a relation in the `labels` of `RELATIONS`, and a passage that states it; -1 if none."""


def _relations(stored: Stored) -> RelationGraph:
    parts = ("indptr", "indices", "label-indptr", "labels")
    indptr, indices, label_indptr, labels = (stored.array("relations", name) for name in parts)
    return RelationGraph(indptr, indices, label_indptr, labels, tuple(_column(stored, "relation_labels")))


RELATIONS = Artefact(
    "graph:relations",
    _relations,
    "graph-search",
    restrict=lambda graph, index: graph.restricted(
        index.whole.artefact(RELATION_PASSAGES), index.is_allowed, index.artefact(ENTITY_NUMBERS)
    ),
)
"""Entities and their labelled relations, in the numbering of `GRAPH`."""

ENTITY_IDS: Artefact[Sequence[str]] = Artefact(
    "graph",
    lambda stored: _column(stored, "entity_ids"),
    "graph",
    restrict=lambda ids, index: [ids[number] for number in index.artefact(ENTITY_NUMBERS).tolist()],
)
"""Ids of the entities in the numbering of `GRAPH`; those of a knowledge graph's nodes do not follow from their keys."""

EntityReader = Callable[[Sequence[int]], list[Entity]]  # entities by number, in the order asked


def _entities(stored: Stored) -> EntityReader:
    from polyhop.schemas.propositions import StoredTexts

    keys = stored.artefact(GRAPH).keys
    texts = StoredTexts(stored.array("relations", "text-starts"), stored.array("relations", "texts"))
    # three texts of each: name, type and description
    return lambda numbers: [Entity(keys[n], *texts.of(range(3 * n, 3 * n + 3))) for n in numbers]


ENTITIES: Artefact[EntityReader] = Artefact(
    "graph:relations",
    _entities,
    "graph-search",
    restrict=lambda read, index: lambda numbers: read(index.artefact(ENTITY_NUMBERS)[list(numbers)].tolist()),
)
"""Entities as people see them; their texts are saved with the relations."""


def _exact_names(stored: Stored) -> Mapping[str, Sequence[int]]:
    number_of = stored.artefact(GRAPH).number_of
    numbers: dict[str, list[int]] = {}
    for name, key in stored.rows(statement("read", "exact_names")):
        numbers.setdefault(name, []).append(number_of[key])
    return numbers


def _names_left(names: Mapping[str, Sequence[int]], index: RestrictedIndex) -> Mapping[str, Sequence[int]]:
    kept = index.artefact(ENTITY_NUMBERS)
    moved = new_numbers(kept, index.whole.artefact(GRAPH).entity_count)
    left = {name: [n for n in moved[list(numbers)].tolist() if n >= 0] for name, numbers in names.items()}
    return {name: numbers for name, numbers in left.items() if numbers}


EXACT_NAMES = Artefact("graph", _exact_names, "graph", restrict=_names_left)
"""Entity numbers by `norm_ws` name, where that is not the entity's key."""

ALIASES: Artefact[Mapping[str, str]] = Artefact(
    "aliases",
    lambda stored: dict(stored.rows(statement("read", "merged_names"))),
    is_optional=False,
    restrict=unrestricted,
)
"""Key of its entity by the key of a name that resolution, or a person, made another form of it."""


def _namesakes(stored: Stored) -> Mapping[str, Sequence[str]]:
    if stored_section(ResolutionSettings, stored.settings["resolution"]).identity == "name":
        return {}  # namesakes were not separated; scanning a million aliases takes half a second
    return {key: tuple(bearers) for key, bearers in stored.rows(statement("read", "namesakes"))}


NAMESAKES: Artefact[Mapping[str, Sequence[str]]] = Artefact(
    "aliases",
    _namesakes,
    is_optional=False,
    restrict=unrestricted,
)
"""Keys of the entities that bear a name by its key, where resolution separates namesakes."""

LANGUAGE: Artefact[str] = Artefact(
    "names", lambda stored: recorded_language(stored.settings), is_optional=False, restrict=unrestricted
)
"""`corpus.language` of the version."""


def _is_large(stored: Stored) -> bool:
    if "vectors:passage" in stored.artefacts:
        return stored.has_array(partitions_of("passage"), "rows")
    search = stored_section(SearchSettings, stored.settings.get("search", {}))
    return len(stored.passage_ids) >= search.exact_below


IS_LARGE: Artefact[bool] = Artefact("large", _is_large, is_optional=False, restrict=lambda _, _index: False)
"""Whether a version has so many passages (`search.exact_below`) that questions are answered approximately."""


def partitions_of(kind: str) -> str:
    """Prefix of the arrays that say what LanceDB's table with partitions holds of a version's things of a kind.

    LanceDB's ids of the "rows" that are as in the version, ascending, and their "numbers"; numbers of the "changed"
    things, and their "vectors".
    """
    return "partitions" if kind == "passage" else f"partitions-{kind}"


TITLE_KEYS = "title-keys"
"""Prefix of the arrays of `StoredTitleKeys`, which large versions have: taking apart a million titles takes seconds."""


def _names(stored: Stored) -> NameFinding:
    from polyhop.warehouse.names import open_finder

    chosen, code = stored_section(ExtractionSettings, stored.settings["extraction"]), stored.artefact(LANGUAGE)
    if stored.has_array(TITLE_KEYS, "pairs") and code == ENGLISH and chosen.ner == "rules":
        keys = {name: stored.array(TITLE_KEYS, name) for name in ("singles", "phrases", "pairs", "lengths")}
        return open_finder(chosen.ner, (), code, StoredTitleKeys(keys))
    joined = _column(stored, "joined_names") if code == ENGLISH and "graph" in stored.artefacts else []
    return open_finder(chosen.ner, [*_column(stored, "distinct_titles"), *joined], code)


NAMES = Artefact("names", _names, is_optional=False, restrict=unrestricted)
"""The name finder that built the graph, which finds the names that were joined (`Marks and Spencer`), too."""


@cache
def lexical_of(analyser: str) -> Artefact[LexicalIndex]:
    """Term statistics under one analyser ("plain" or "stems")."""
    return Artefact(
        f"lexical:{analyser}",
        lambda stored: open_lexical(stored, analyser, stored.artefact(LANGUAGE)),
        {"plain": "bm25", "stems": "bridge-lexical"}.get(analyser, "STRATEGY"),
        restrict=lambda postings, index: postings.restricted(index.allowed),
    )


@cache
def passages_of_statements(graph: str) -> "Artefact[CompressedRows]":
    """Passages of each proposition of the graph over "propositions", or of each triple of that over "triples"."""
    from polyhop.schemas.propositions import CompressedRows

    return Artefact(
        f"graph:{graph}",
        lambda stored: CompressedRows(stored.array(graph, "passages-indptr"), stored.array(graph, "passages-indices")),
        {"propositions": "proprag", "triples": "triple-ppr"}[graph],
        restrict=unrestricted,
    )


def statements_left(graph: str, index: RestrictedIndex) -> NDArray[np.int64]:
    """Numbers, in the whole version, of the propositions (or triples) of a graph that are left; ascending."""
    return index.whole.artefact(passages_of_statements(graph)).stated(index.is_allowed)


_NUMBERS_LEFT: Mapping[str, Callable[[RestrictedIndex], NDArray[np.int64]]] = {
    "passage": lambda index: index.allowed,
    "entity": lambda index: index.artefact(ENTITY_NUMBERS),
    "proposition": partial(statements_left, "propositions"),
    "triple": partial(statements_left, "triples"),
}
"""Which vectors are left of the kinds whose things are numbered again."""

_NUMBERED_AS_EVER = frozenset({"name", "triplename", "hubpath", "hubvalue"})
"""Kinds whose things keep their numbers: names of propositions, and texts of hubs."""


@cache
def vectors_of(kind: str) -> Artefact[NDArray[np.float32]]:
    """Vectors of one kind ("passage", "entity" or another package's), shape (n, d), memory-mapped, in number order."""
    strategies = {"passage": "dense", "entity": "naive-vector", "proposition": "proprag", "triple": "triple-ppr"}

    def left(matrix: NDArray[np.float32], index: RestrictedIndex) -> NDArray[np.float32]:
        return np.asarray(matrix)[_NUMBERS_LEFT[kind](index)]

    return Artefact(
        f"vectors:{kind}",
        lambda stored: stored.array(f"vectors-{kind}", "matrix"),
        strategies.get(kind, "STRATEGY"),
        restrict=unrestricted if kind in _NUMBERED_AS_EVER else left if kind in _NUMBERS_LEFT else None,
    )


COSINE_SCALE: Artefact[float] = Artefact(
    "vectors:passage", lambda stored: stored.cosine_scale("passage"), "dense", restrict=unrestricted
)
"""What weights in units of the local encoder's cosine are multiplied by for this version's passages; 1 for that one."""

ENTITY_ENCODER: Artefact[str] = Artefact(
    "vectors:entity", lambda stored: stored.encoder_name("entity"), "naive-vector", restrict=unrestricted
)
"""The encoder of this version's entities, by its name in the settings."""

NearestPassages = Callable[[NDArray[np.float32], int, int], Sequence[int]]
"""Numbers of about `count` passages nearest to a vector of shape (d,), nearest first: vector, count, ef_search."""


def _nearest_passages(stored: Stored) -> NearestPassages:
    def search(vector: NDArray[np.float32], count: int, ef_search: int) -> Sequence[int]:
        if not stored.passage_ids:  # a knowledge graph's index publishes no vectors of passages
            return []
        number_of = stored.number_of_passage
        return [number_of[passage_id] for passage_id in stored.nearest("passage", vector, count, ef_search)]

    return search


def _nearest_allowed(_: NearestPassages, index: RestrictedIndex) -> NearestPassages:
    vectors = index.artefact(vectors_of("passage"))

    def search(vector: NDArray[np.float32], count: int, _ef_search: int) -> Sequence[int]:
        scores = vectors @ vector
        least = np.partition(scores, -count)[-count] if 0 < count < len(scores) else -np.inf
        nearest = np.flatnonzero(scores >= least)
        return nearest[np.argsort(-scores[nearest], kind="stable")][:count].tolist()  # type: ignore[no-any-return]

    return search


NEAREST_PASSAGES = Artefact("ann:passage", _nearest_passages, "dense-ann", restrict=_nearest_allowed)
"""Approximate search of passages by an HNSW graph, which is opened by the first search; exact among allowed passages,
because a graph over all of them may find fewer of these than there are.
"""


class RowsOnDisk:
    """Rows of a large array, read when asked for: mapped, all of it would soon be in this process's memory.

    Args:
        array: Memory-mapped, shape (n, d), float32.
    """

    def __init__(self, array: NDArray[np.float32]) -> None:
        mapped = cast("np.memmap[Any, Any]", array.base)
        self.shape = array.shape
        self._offset, self._row_bytes = mapped.offset, array.strides[0]
        self._path = Path(str(mapped.filename))
        self._file = os.open(self._path, os.O_RDONLY)
        finalize(self, os.close, self._file)

    def __getitem__(self, numbers: NDArray[np.intp]) -> NDArray[np.float32]:
        """Rows of these numbers, shape (m, d)."""
        rows = np.empty((len(numbers), self.shape[1]), np.float32)
        offsets = [self._offset + number * self._row_bytes for number in numbers.tolist()]
        for offset in offsets if hasattr(os, "posix_fadvise") else ():  # macOS has no such call
            os.posix_fadvise(self._file, offset, self._row_bytes, os.POSIX_FADV_WILLNEED)  # the disk reads all at once
        for row, offset, number in zip(rows, offsets, numbers.tolist(), strict=True):
            if os.preadv(self._file, [row.data], offset) != self._row_bytes:
                raise DamagedStoreError(self._path, index_of(self._path), f"row {number:,} of it is missing")
        return rows


def read_rows(array: NDArray[np.float32], numbers: NDArray[np.intp]) -> NDArray[np.float32]:
    """Rows of an array, shape (m, d); of a memory-mapped one from its file, as of `RowsOnDisk`."""
    return RowsOnDisk(array)[numbers] if isinstance(array.base, np.memmap) else array[numbers]


class Partitioned:
    """Vectors of one kind in a large version, searched through LanceDB in a background thread.

    Args:
        search: Numbers of about `count` things nearest to a vector of shape (d,).
        vectors: Reads rows by number.
        first: Any vector, to open LanceDB with.
    """

    def __init__(
        self,
        search: Callable[[NDArray[np.float32], int], NDArray[np.intp]],
        vectors: RowsOnDisk,
        first: NDArray[np.float32],
    ) -> None:
        self.vectors, self.first, self._search = vectors, first, search
        self._thread: ThreadPoolExecutor | None = None

    def search_ahead(self, vector: NDArray[np.float32], count: int) -> "Future[NDArray[np.intp]]":
        """Starts a nearest-neighbour search in the background."""
        self._thread = self._thread or ThreadPoolExecutor(1, "nearest")
        return self._thread.submit(self._search, vector, count)


def _partitioned(stored: Stored, kind: str) -> Partitioned | None:
    prefix, names = partitions_of(kind), ("rows", "numbers", "changed", "vectors")
    if not stored.has_array(prefix, "rows"):
        return None
    vectors = stored.artefact(vectors_of(kind))
    rows, numbers, changed, changed_vectors = (stored.array(prefix, name) for name in names)
    on_disk = RowsOnDisk(vectors)

    def search(vector: NDArray[np.float32], count: int) -> NDArray[np.intp]:
        cosines = changed_vectors @ vector
        first = np.argpartition(-cosines, count)[:count] if count < len(cosines) else np.arange(len(cosines))
        found = stored.nearest_rows(kind, vector, count)
        offsets = np.minimum(np.searchsorted(rows, found), len(rows) - 1)
        near = numbers[offsets[rows[offsets] == found]].astype(np.intp)
        if len(near) and len(found) == count:  # of what changed, things beyond the farthest found need not be read
            first = first[cosines[first] >= (on_disk[near[-1:]] @ vector)[0]]
        return np.concatenate((near, changed[first])).astype(np.intp)

    return Partitioned(search, on_disk, vectors[0])


@cache
def partitioned(kind: str) -> Artefact[Partitioned | None]:
    """Vectors of a kind in a large version (`search.exact_below`), where LanceDB finds the nearest.

    None in a smaller version, of other kinds than "passage" and "entity", and under a filter.
    """
    strategy = vectors_of(kind).strategy
    return Artefact(f"vectors:{kind}", partial(_partitioned, kind=kind), strategy, restrict=lambda _, _index: None)


TripleRow = tuple[str, str, str, str, str]  # id and name of the subject, predicate, id and name of the object

TriplesOf = Callable[[Iterable[str]], list[TripleRow]]  # triples by the ids of their subjects, in no order


def _triples_of_subjects(stored: Stored) -> TriplesOf:
    name = "triples_of_nodes" if _column(stored, "tables_of_nodes") else "triples_of_entities"

    def triples_of(ids: Iterable[str]) -> list[TripleRow]:
        return stored.rows(statement("read", name), {"ids": sorted(set(ids))})

    return triples_of


TRIPLES_OF_SUBJECTS = Artefact("triples of subjects", _triples_of_subjects, is_optional=False)
"""Read from the tables when asked."""

MetadataOf = Callable[[Iterable[str]], list[tuple[str, str, Mapping[str, Any]]]]
"""By the ids of nodes: each id with what is said of the node (passage id ""), or what a row that attached a text to it
says (with the passage of that text); by id and passage."""


def _metadata_of_nodes(stored: Stored) -> MetadataOf:
    name = "metadata_of_nodes" if _column(stored, "tables_of_nodes") else "metadata_of_entities"

    def metadata_of(ids: Iterable[str]) -> list[tuple[str, str, Mapping[str, Any]]]:
        rows = stored.rows(statement("read", name), {"ids": sorted(set(ids))})
        return [(node, passage, json.loads(said)) for node, passage, said in rows]

    return metadata_of


METADATA_OF_NODES = Artefact("metadata of nodes", _metadata_of_nodes, is_optional=False, restrict=unrestricted)
"""Read from the tables when asked; under a filter, what belongs to other passages is there, too."""
