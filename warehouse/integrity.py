"""What of a published version is no longer what was published: the checksums of its files against its manifest.

What an index run takes over, and what `polyhop verify` says, rests on it.
"""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from polyhop.schemas.manifest import Manifest
from polyhop.warehouse.files.disk import file_checksum
from polyhop.warehouse.files.layout import IndexFolder, VersionFolder
from polyhop.warehouse.index_reader import open_vector_store


@dataclass(frozen=True, slots=True)
class Damage:
    """What is damaged, in sentences by table, by array file and by kind of vectors."""

    tables: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, str] = field(default_factory=dict)
    vectors: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.tables or self.arrays or self.vectors)

    def sentences(self) -> list[str]:
        """All that is wrong, each sentence once."""
        found = [*self.tables.values(), *self.arrays.values(), *self.vectors.values()]
        return [*dict.fromkeys(found)]

    def concerns(self, tables: Collection[str], array_prefix: str) -> bool:
        """Whether one of these tables, or an array whose name begins so, is damaged."""
        is_array = bool(array_prefix) and any(name.startswith(f"{array_prefix}_") for name in self.arrays)
        return is_array or any(name in self.tables for name in tables)


def find_damage(index: IndexFolder, folder: VersionFolder, manifest: Manifest) -> Damage:
    """Compares every file of a version with the checksum that was taken when it was published.

    Cost: reads every file once.
    """
    vectors = open_vector_store(index)
    with ThreadPoolExecutor(1) as beside:
        tables = beside.submit(_difference, folder.tables, manifest.tables_file)
        arrays = {name: _difference(folder.arrays / name, checksum) for name, checksum in manifest.arrays.items()}
        of_vectors = {kind: "; ".join(vectors.find_damage(record.table)) for kind, record in manifest.vectors.items()}
        return Damage(
            dict.fromkeys({**manifest.tables, **manifest.history}, tables.result()) if tables.result() else {},
            {name: found for name, found in arrays.items() if found},
            {kind: found for kind, found in of_vectors.items() if found},
        )


def _difference(path: Path, checksum: str) -> str:
    """What is wrong with a file, in a sentence; "" if nothing is."""
    try:
        is_whole = file_checksum(path) == checksum
    except FileNotFoundError:
        return f"file '{path.name}' is missing"
    except OSError as error:
        return f"file '{path.name}' cannot be read ({error.strerror})"
    return "" if is_whole else f"file '{path.name}' has another content than was published"
