"""The checks of `polyhop doctor`: each tries the real thing and says what to fix.

Changes nothing besides a file that it writes and removes.
"""

import os
import platform
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import PolyhopError, StoreError
from schemas.settings import Settings
from warehouse.files.disk import writing
from warehouse.files.layout import Layout
from warehouse.files.versions import read_manifest, require_version
from warehouse.graph.arrays import file_checksum
from warehouse.open import open_encoder

ENOUGH_DISK_BYTES = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried."""

    name: str
    ok: bool
    message: str


def run_checks(settings: Settings) -> list[Check]:
    """All checks, in order; one that fails does not stop the others."""
    checks: list[tuple[str, Callable[[Settings], str]]] = [
        ("python", _python),
        ("root", _root),
        ("disk", _disk),
        ("duckdb", _duckdb),
        ("lancedb", _lancedb),
        ("encoder", _encoder),
        ("prefect", _prefect),
    ]
    results = [_run(name, check, settings) for name, check in checks]
    layout = Layout(settings.root)
    results += [_run(f"index {name}", lambda s, name=name: _index(s, name), settings) for name in layout.index_names()]  # type: ignore[misc]
    return results


def _run(name: str, check: Callable[[Settings], str], settings: Settings) -> Check:
    try:
        return Check(name, True, check(settings))  # noqa: FBT003
    except (PolyhopError, OSError, RuntimeError, ImportError) as error:
        return Check(name, False, str(error))  # noqa: FBT003


def _python(_: Settings) -> str:
    return f"{platform.python_version()} at {sys.executable}"


def _root(settings: Settings) -> str:
    with writing("a test file", settings.root):
        settings.root.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=settings.root):
            return f"{settings.root.resolve()} is writable"


def _disk(settings: Settings) -> str:
    free = shutil.disk_usage(settings.root if settings.root.exists() else Path()).free
    if free < ENOUGH_DISK_BYTES:
        raise StoreError(f"only {free / 1e9:.1f} GB are free under {settings.root}; free some space")
    return f"{free / 1e9:.0f} GB free"


def _duckdb(_: Settings) -> str:
    import duckdb

    duckdb.connect().execute("SELECT json_array_length('[1]'), md5_number('a')").fetchone()
    return f"version {duckdb.__version__}"


def _lancedb(_: Settings) -> str:
    import lancedb

    with tempfile.TemporaryDirectory() as folder:
        table = lancedb.connect(folder).create_table("t", data=[{"id": "a", "vector": [1.0, 0.0]}])
        if table.count_rows() != 1:
            raise StoreError("a table does not hold the row that was written; reinstall lancedb")
    return f"version {lancedb.__version__}"


def _encoder(settings: Settings) -> str:
    encoder = open_encoder(settings)
    vectors = encoder.encode_questions(["Is the encoder working?"])
    return f"{encoder.model}, {vectors.shape[1]} dimensions, no network"


def _prefect(_: Settings) -> str:
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        return "no PREFECT_API_URL: `polyhop index` runs its stages directly"
    if not url.startswith(("http://", "https://")):
        raise StoreError(f"PREFECT_API_URL is {url}; it must begin with http:// or https://")
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=5):  # noqa: S310 - scheme checked above
            return f"server at {url} answers"
    except OSError as error:
        raise StoreError(
            f"the Prefect server at {url} does not answer ({error}); start it or unset PREFECT_API_URL"
        ) from error


def _index(settings: Settings, name: str) -> str:
    number, folder = require_version(Layout(settings.root), name)
    manifest = read_manifest(folder)
    for file, checksum in manifest.arrays.items():
        path = folder.arrays / file
        if not path.exists() or file_checksum(path) != checksum:
            raise StoreError(
                f"version {number}: {path} is damaged; build it again with `polyhop index SOURCE --index {name} --full`"
            )
    return f"version {number}, {manifest.counts['passages']:,} passages, {len(manifest.arrays)} arrays intact"
