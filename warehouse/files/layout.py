"""Where everything lies under the root: the one place that knows file names.

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


def owner_of(path: Path) -> Path | None:
    """The root that a path is in the stores of (its indexes, caches, queue, evaluations, tunings); None: of none."""
    place = path.resolve()
    for folder, root in pairwise((place, *place.parents)):
        held = Layout(root)
        own = (held.indexes, held.caches, held.queue, held.evaluations, held.tunings)
        if (folder in own or folder.name.startswith(f"{held.queue.name}-")) and held.is_used:
            return root
    return None


@dataclass(frozen=True, slots=True)
class VersionFolder:
    """The files of one version, published or being built."""

    path: Path

    @property
    def tables(self) -> Path:
        """The DuckDB file."""
        return self.path / "index.duckdb"

    @property
    def arrays(self) -> Path:
        """Folder of the .npy and term files."""
        return self.path / "graph"

    @property
    def manifest(self) -> Path:
        """The manifest."""
        return self.path / "manifest.json"


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """The folder of one index."""

    path: Path
    name: str

    @property
    def versions(self) -> Path:
        """Folder of the published versions."""
        return self.path / "versions"

    @property
    def vectors(self) -> Path:
        """The LanceDB database."""
        return self.path / "vectors"

    @property
    def current(self) -> Path:
        """The pointer: a file with the number of the current version."""
        return self.path / "CURRENT"

    @property
    def pinned(self) -> Path:
        """There while the current version is pinned: a run that publishes leaves the pointer alone."""
        return self.path / "PINNED"

    @property
    def publishing(self) -> Path:
        """A file with the number of a version from before its folder appears until the pointer has moved to it."""
        return self.path / "PUBLISHING"

    @property
    def staging(self) -> Path:
        """Where the next version is built; kept after a crash, so that the next run continues from there."""
        return self.path / "staging"

    @property
    def lease(self) -> Path:
        """The file whose lock makes a process the only writer."""
        return self.path / "WRITER"

    @property
    def runs(self) -> Path:
        """The file with a line for every run; see versions.py."""
        return self.path / "runs.jsonl"

    @property
    def edits(self) -> Path:
        """The file with what people decided about its entities; see warehouse/user_files.py."""
        return self.path / "edits.jsonl"

    def version(self, number: int) -> VersionFolder:
        """The folder of version `number`."""
        return VersionFolder(self.versions / f"{number:06d}")


@dataclass(frozen=True, slots=True)
class Layout:
    """All paths under one root."""

    root: Path

    @property
    def caches(self) -> Path:
        """Content-addressed caches, shared by all indexes."""
        return self.root / "caches"

    @property
    def vector_cache(self) -> Path:
        """The cache of embeddings."""
        return self.caches / "vectors.sqlite"

    @property
    def path_cache(self) -> Path:
        """The cache of embeddings of path texts, which questions bring up."""
        return self.caches / "paths.sqlite"

    @property
    def document_cache(self) -> Path:
        """The cache of texts of document files."""
        return self.caches / "documents.sqlite"

    @property
    def reply_cache(self) -> Path:
        """The cache of model replies."""
        return self.caches / "replies.sqlite"

    @property
    def model_cache(self) -> Path:
        """Models that were fetched."""
        return self.caches / "models"

    @property
    def queue(self) -> Path:
        """The question queue, unless a database server holds it."""
        return self.root / "queue.sqlite"

    @property
    def evaluations(self) -> Path:
        """Folder of the stored evaluations."""
        return self.root / "evaluations"

    @property
    def tunings(self) -> Path:
        """Folder of what tuning found."""
        return self.root / "tunings"

    @property
    def indexes(self) -> Path:
        """Folder of all indexes."""
        return self.root / _INDEXES

    @property
    def is_used(self) -> bool:
        """Whether Polyhop has stored anything here."""
        stores = self.reply_cache, self.vector_cache, self.queue
        return any(store.is_file() for store in stores) or next(self.indexes.glob("*/WRITER"), None) is not None

    def index(self, name: str) -> IndexFolder:
        """The folder of index `name`.

        Raises:
            ConfigurationError: If the name could not be a folder's name on every system.
        """
        if not _INDEX_NAME.fullmatch(name):
            raise ConfigurationError(
                f"'{name}' is not a name for an index; use letters, digits, '.', '_' and '-', "
                "and begin with a letter or digit."
            )
        return IndexFolder(self.indexes / name, name)

    def index_names(self) -> list[str]:
        """Names of all indexes that have a published version, sorted."""
        if not self.indexes.is_dir():
            return []
        return sorted(folder.name for folder in self.indexes.iterdir() if (folder / "CURRENT").is_file())
