"""The checks of `polyhop doctor`: each tries the real thing and says what to fix.

Changes nothing besides a file that it writes and removes.
"""

import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polyhop.flows.verify import CACHES, run_verify
from polyhop.installation_health import check_encoder, check_leases, check_neo4j, check_packages
from polyhop.prefect_health import check_deployments, check_prefect
from polyhop.queue_health import check_queue
from polyhop.schemas.errors import PolyhopError, StoreError
from polyhop.schemas.printable import plural
from polyhop.schemas.redaction import redact
from polyhop.schemas.settings import Settings
from polyhop.schemas.version import VERSION
from polyhop.warehouse.cache.repair import find_damaged_caches
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest

# chosen, not measured: doctor says it while small corpora still fit; what an index needs depends on its corpus
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
        ("packages", check_packages),
        ("encoder", check_encoder),
        ("prefect", check_prefect),
        ("deployments", check_deployments),
        ("neo4j", check_neo4j),
        ("queue", check_queue),
        ("caches", _caches),
        ("writers", check_leases),
    ]
    results = [_run(name, check, settings) for name, check in checks]
    layout = Layout(settings.root)
    results += [_run(f"index {name}", lambda s, name=name: _index(s, name), settings) for name in layout.index_names()]  # type: ignore[misc]
    return results


def _run(name: str, check: Callable[[Settings], str], settings: Settings) -> Check:
    try:
        return Check(name, True, redact(check(settings)))  # noqa: FBT003
    except PolyhopError as error:
        return Check(name, False, redact(str(error)))  # noqa: FBT003
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one thing, the others are still checked
        return Check(name, False, redact(f"{type(error).__name__}: {error}"))  # noqa: FBT003


def _python(_: Settings) -> str:
    return f"{platform.python_version()} at {sys.executable}, Polyhop {VERSION}"


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


def _caches(settings: Settings) -> str:
    damaged = find_damaged_caches(Layout(settings.root))
    if damaged:
        raise StoreError("; ".join(damaged))
    return "intact"


def _index(settings: Settings, name: str) -> str:
    report = run_verify(settings, name)
    found = [sentence for store, some in report.differences.items() if store != CACHES for sentence in some]
    if found:
        more = f" and {len(found) - 1} more differences" if len(found) > 1 else ""
        raise StoreError(
            f"version {report.version}: {found[0]}{more}; fix it with: polyhop verify --index {name} --repair"
        )
    manifest = read_manifest(Layout(settings.root).index(name).version(report.version))
    return (
        f"version {report.version}, {plural(manifest.counts['passages'], 'passage')}; "
        f"{len(manifest.tables)} tables, {len(manifest.arrays)} arrays and all vectors intact"
    )
