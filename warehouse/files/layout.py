"""Layout of files under the root: the only module that knows file names.

Source: architecture.md section 3 has the picture.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from polyhop.schemas.errors import ConfigurationError

_INDEXES = "indexes"
_INDEX_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def index_of(path: Path) -> str:
    """Name of the index that a file belongs to, "NAME" if it lies in none."""
    parts = path.resolve().parts
    below = [name for folder, name in pairwise(parts) if folder == _INDEXES]
    return below[-1] if below else "NAME"


def index_folder_of(path: Path) -> Path:
    """Returns the folder of the index that a file belongs to; the file's own folder if it belongs to none."""
    path = path.resolve()
    return next((folder for folder in path.parents if folder.parent.name == _INDEXES), path.parent)


def owner_of(path: Path) -> Path | None:
    """The root that a path is in the stores of (its indexes, caches, queue, evaluations, tunings); None: of none."""
    real = path.resolve()
    for folder, root in pairwise((real, *real.parents)):
        held = Layout(root)
        own = (held.indexes, held.caches, held.queue, held.evaluations, held.tunings)
        if folder in own or folder.name.startswith(f"{held.queue.name}-"):
            stores = held.reply_cache, held.vector_cache, held.queue  # Polyhop has stored something here
            if any(store.is_file() for store in stores) or next(held.indexes.glob("*/WRITER"), None) is not None:
                return root
    return None


class _Below:
    """A path below a folder's own, which is its first field."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "VersionFolder | IndexFolder | Layout", _: type) -> Path:
        return (folder.root if isinstance(folder, Layout) else folder.path) / self._name


@dataclass(frozen=True, slots=True)
class VersionFolder:
    """The files of one version, published or being built."""

    path: Path

    tables = _Below("index.duckdb")  # the DuckDB file
    arrays = _Below("graph")  # folder of the .npy and term files
    manifest = _Below("manifest.json")  # the manifest


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """The folder of one index."""

    path: Path
    name: str

    versions = _Below("versions")  # folder of the published versions
    vectors = _Below("vectors")  # the LanceDB database
    current = _Below("CURRENT")  # the pointer: a file with the number of the current version
    pinned = _Below("PINNED")
    """There while the current version is pinned: a run that publishes leaves the pointer alone."""
    publishing = _Below("PUBLISHING")
    """A file with the number of a version from before its folder appears until the pointer has moved to it."""
    staging = _Below("staging")
    """Where the next version is built; kept after a crash, so that the next run continues from there."""
    pulled = _Below("pulled")  # where a version is pulled to; kept after a crash, so that the next pull continues there
    pull_marker = _Below("PULLED")
    """There once a version came from a store: locations in manifests may be other people's, and are not read."""
    lease = _Below("WRITER")  # the file whose lock makes a process the only writer
    runs = _Below("runs.jsonl")  # the file with a line for every run; see versions.py
    inbox = _Below("inbox")  # folder of the records that were added by a call and wait; see warehouse/inbox.py
    files = _Below("files")  # folder of the uploaded files, which is a source; see warehouse/uploads.py
    feedback = _Below("feedback.jsonl")  # the file with the questions whose answers people judged; see the same module
    edits = _Below("edits.jsonl")  # the file with what people decided about its entities; see warehouse/user_files.py

    def version(self, number: int) -> VersionFolder:
        """The folder of version `number`."""
        return VersionFolder(self.versions / f"{number:06d}")


@dataclass(frozen=True, slots=True)
class Layout:
    """All paths under one root."""

    root: Path

    caches = _Below("caches")  # content-addressed caches, shared by all indexes
    vector_cache = _Below("caches/vectors.sqlite")  # the cache of embeddings
    name_cache = _Below("caches/names.sqlite")  # the cache of what the encoder's states show of names
    path_cache = _Below("caches/paths.sqlite")  # the cache of embeddings of path texts, which questions bring up
    document_cache = _Below("caches/documents.sqlite")  # the cache of texts of document files
    reply_cache = _Below("caches/replies.sqlite")  # the cache of model replies
    model_cache = _Below("caches/models")  # models that were fetched
    queue = _Below("queue.sqlite")  # the question queue, unless a database server holds it
    evaluations = _Below("evaluations")  # folder of the stored evaluations
    tokens = _Below("tokens.json")  # the hashed tokens of those who may ask `polyhop ui`
    saved_queries = _Below("saved_queries.json")  # the SQL queries that people saved in the web UI
    tunings = _Below("tunings")  # folder of what tuning found
    indexes = _Below("indexes")  # folder of all indexes

    def index(self, name: str) -> IndexFolder:
        """The folder of index `name`.

        Raises:
            ConfigurationError: If the name could not be a folder's name on every system, or is that of another index
                but for case on a file system that does not tell them apart (as macOS's usually).
        """
        if not _INDEX_NAME.fullmatch(name):
            raise ConfigurationError(
                f"'{name}' is not a name for an index; use letters, digits, '.', '_' and '-', "
                "and begin with a letter or digit."
            )
        folder = self.indexes / name
        if folder.is_dir():
            alike = {one.name for one in self.indexes.iterdir() if one.name.lower() == name.lower()}
            if alike and name not in alike:
                raise ConfigurationError(
                    f"There is an index '{min(alike)}', and this file system does not tell '{name}' from it; use that "
                    "name, or one that differs in more than case."
                )
        return IndexFolder(folder, name)

    def index_names(self) -> list[str]:
        """Names of all indexes that have a published version, sorted."""
        if not self.indexes.is_dir():
            return []
        return sorted(folder.name for folder in self.indexes.iterdir() if (folder / "CURRENT").is_file())

    def begun_names(self) -> list[str]:
        """Names of the indexes that have documents waiting, but no published version yet, sorted."""
        if not self.indexes.is_dir():
            return []
        begun = [one for one in self.indexes.iterdir() if not (one / "CURRENT").is_file()]
        return sorted(one.name for one in begun if any((*one.glob("files/[!.]*"), *one.glob("inbox/[!.]*.parquet"))))
