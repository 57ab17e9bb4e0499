"""Does what is stored agree with itself? Tables, arrays and vectors with the manifest, Neo4j with the tables.

Changes nothing unless asked to repair; then what the tables can give again is given again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flows.export import Published, opened, vector_of, write_differences
from flows.index import DirectRunner, run_index
from flows.reports import IndexRequest
from schemas.errors import PolyhopError
from schemas.manifest import VectorRecord
from schemas.settings import Settings
from tasks.export.delta import Difference, compare
from tasks.export.rows import row_hash
from warehouse.files.layout import IndexFolder, Layout, VersionFolder
from warehouse.files.versions import read_manifest, require_version
from warehouse.graph.arrays import file_checksum, open_array
from warehouse.graph.neo4j_layout import KINDS, Kind
from warehouse.graph.neo4j_server import Address
from warehouse.graph.neo4j_store import Neo4jStore
from warehouse.tables.checksum import table_record
from warehouse.tables.connection import connect
from warehouse.vectors.lance import read_table

_TOLERANCE = 1e-5
_SHOWN = 5


@dataclass(slots=True)
class VerifyReport:
    """What differs, by store, in sentences."""

    index: str
    version: int
    differences: dict[str, list[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not any(self.differences.values())

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop verify` (architecture.md section 9)."""
        stores = {name: {"ok": not found, "differences": found} for name, found in self.differences.items()}
        return {"index": self.index, "version": self.version, "stores": stores}


def run_verify(settings: Settings, index: str, address: Address | None = None) -> VerifyReport:
    """Compares every store with what it should hold; writes nothing.

    Raises:
        UnknownIndexError: If nothing was published under that name.
        StoreUnavailableError: If Neo4j is asked for and does not answer.
    """
    layout = Layout(settings.root)
    version, folder = require_version(layout, index)
    report = VerifyReport(index, version)
    for name, check in _LOCAL.items():
        report.differences[name] = list(check(layout.index(index), folder))
    if address is not None:
        report.differences["neo4j"] = _in_neo4j(settings, index, address)
    return report


def repair(settings: Settings, report: VerifyReport, address: Address | None = None) -> None:
    """Mends what `report` found: derives the version again from its corpus, writes to Neo4j what differs there.

    Raises:
        PolyhopError: If the index itself cannot be derived again; its source is needed then.
    """
    if any(found for name, found in report.differences.items() if name != "neo4j"):
        run_index(settings, IndexRequest(report.index, None, full=True), DirectRunner())
    if address is None:
        return
    with Published(settings, report.index) as published, opened(address) as connection:
        store = Neo4jStore(connection, report.index)
        store.prepare()
        differences = dict(_neo4j_differences(published, store))
        store.claim()
        write_differences(published, store, differences)
        store.index_vectors(published.dimension, is_new=not store.has_vector_index(published.dimension))
        store.record(published.record())


def _tables(_: IndexFolder, folder: VersionFolder) -> Iterator[str]:
    manifest = read_manifest(folder)
    try:
        with connect(folder.tables, read_only=True) as connection:
            for name, stated in manifest.tables.items():
                held = table_record(connection, name)
                if held != stated:
                    yield f"table '{name}' holds {held.rows} rows with another content than the {stated.rows} published"
    except PolyhopError as error:
        yield str(error)


def _arrays(_: IndexFolder, folder: VersionFolder) -> Iterator[str]:
    for name, checksum in read_manifest(folder).arrays.items():
        path = folder.arrays / name
        if not path.is_file():
            yield f"file '{name}' is missing"
        elif file_checksum(path) != checksum:
            yield f"file '{name}' has another content than was published"


def _vectors(index: IndexFolder, folder: VersionFolder) -> Iterator[str]:
    for kind, record in read_manifest(folder).vectors.items():
        yield from _vectors_of(index, folder, kind, record)


def _vectors_of(index: IndexFolder, folder: VersionFolder, kind: str, record: VectorRecord) -> Iterator[str]:
    try:
        table = read_table(index.vectors, record.table, record.lance_version)
    except (OSError, ValueError, RuntimeError) as error:
        yield f"vectors of kind '{kind}' cannot be opened: {str(error).splitlines()[0]}"
        return
    if table.num_rows != record.rows:
        yield f"vectors of kind '{kind}': {table.num_rows} rows instead of {record.rows}"
        return
    path = folder.arrays / f"vectors-{kind}_matrix.npy"
    if not path.is_file():
        return
    matrix = open_array(folder.arrays, path.stem)
    column = table.column("vector").combine_chunks()
    stored = column.values.to_numpy().reshape(table.num_rows, -1)
    if not np.array_equal(_sorted_rows(stored), _sorted_rows(np.asarray(matrix))):
        yield f"vectors of kind '{kind}' differ from the version's own"


def _sorted_rows(matrix: Any) -> Any:
    return matrix[np.lexsort(matrix.T[::-1])] if len(matrix) else matrix


_LOCAL: dict[str, Callable[[IndexFolder, VersionFolder], Iterator[str]]] = {
    "tables": _tables,
    "arrays": _arrays,
    "vectors": _vectors,
}


def _in_neo4j(settings: Settings, index: str, address: Address) -> list[str]:
    with Published(settings, index) as published, opened(address) as connection:
        store = Neo4jStore(connection, index)
        record = store.recorded()
        found = []
        if not record.get("complete") or record.get("fingerprint") != published.fingerprint:
            held = f"version {record.get('version')}" if record.get("complete") else "no complete version"
            found.append(f"Neo4j says that it holds {held}, not version {published.version}")
        for name, difference in _neo4j_differences(published, store):
            found += _sentences(name.replace("_", " "), difference)
        if not store.has_vector_index(published.dimension):
            found.append("the vector index is missing, not ready, or of another dimension")
        return found


def _sentences(name: str, difference: Difference) -> Iterator[str]:
    for what, ids in (
        ("are missing", difference.missing),
        ("differ", difference.changed),
        ("are too many", difference.surplus),
    ):
        if ids:
            more = ", …" if len(ids) > _SHOWN else ""
            yield f"{len(ids)} {name} {what}: {', '.join(ids[:_SHOWN])}{more}"


def _neo4j_differences(published: Published, store: Neo4jStore) -> Iterator[tuple[str, Difference]]:
    """By kind, what differs between the tables and what is really there, whatever hash it carries."""
    probe = probe_vector(published.dimension)
    for kind in KINDS:
        rows = store.rows(kind, probe.tolist())
        difference = compare(published.hashes(kind), [(row["id"], _held_hash(row)) for row in rows])
        if kind.name == "entities":
            difference = _with_vectors(published, kind, difference, {row["id"]: row["probe"] for row in rows})
        yield kind.name, difference


def _held_hash(row: dict[str, Any]) -> str:
    properties = dict(row["properties"])
    if not properties.pop("labelled", True):
        return ""
    held = row_hash(properties, row["source"], row["target"])
    return held if properties.get("row_hash") == held else ""


def _with_vectors(
    published: Published, kind: Kind, difference: Difference, likeness: Mapping[str, float | None]
) -> Difference:
    """The same, with entities whose vector is not the index's: its likeness to one fixed vector tells."""
    probe = probe_vector(published.dimension)
    vectors = published.vectors() if published.has_vectors else None
    wrong = []
    for row in published.rows(kind):
        vector = vector_of(row, vectors)
        held = likeness.get(row.id)
        if row.id in likeness and (vector is None) != (held is None):
            wrong.append(row.id)
        elif vector is not None and held is not None:
            cosine = float(np.dot(vector, probe) / np.linalg.norm(vector))
            if abs((1 + cosine) / 2 - held) > _TOLERANCE:
                wrong.append(row.id)
    changed = {*difference.changed, *wrong} - {*difference.missing}
    return Difference(difference.missing, tuple(sorted(changed)), difference.surplus)


def probe_vector(dimension: int) -> Any:
    """A fixed vector of length 1 to which hardly two others are equally alike. Shape (dimension,)."""
    values = np.random.default_rng(0).normal(size=max(1, dimension))
    return values / np.linalg.norm(values)
