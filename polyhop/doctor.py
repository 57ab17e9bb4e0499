"""The checks of `polyhop doctor`: each tries the real thing and says what to fix."""

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from polyhop.flows.maintain import CACHES, run_verify
from polyhop.schemas.errors import ConfigurationError, PolyhopError, StoreError, redact
from polyhop.schemas.settings import ENTITIES, LOCAL, PASSAGES, SHIPPED, Settings, Space
from polyhop.schemas.text import plural
from polyhop.schemas.version import VERSION
from polyhop.warehouse.cache.database import find_damaged_caches
from polyhop.warehouse.files.disk import make_folder, writing
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_lease, read_manifest
from polyhop.warehouse.models.onnx_session import faster_precision
from polyhop.warehouse.open import examine_graph_server
from polyhop.warehouse.open_models import open_encoder
from polyhop.warehouse.queue.queue import examine_queue
from polyhop.warehouse.queue.schema import sqlite_url


def check_queue(settings: Settings) -> str:
    """Says how the question queue is."""
    path = Layout(settings.root).queue
    if not settings.queue.url and not path.exists():
        return "not created yet; `polyhop submit` creates it"
    found = examine_queue(settings.queue.url or sqlite_url(path))
    if found.faults:
        raise StoreError(
            f"the question queue is damaged ({'; '.join(found.faults)}); stop its workers, then restore it from a "
            "backup, or move it away and submit again"
        )
    if found.version > found.newest:
        raise StoreError(
            f"its tables have version {found.version}, newer than version {found.newest} of this Polyhop; upgrade "
            "Polyhop"
        )
    if found.version < found.newest:
        return f"tables of version {found.version}; upgraded to version {found.newest} when next opened"
    held = f"{plural(found.jobs, 'job')}, {plural(found.questions, 'question')}"
    return f"tables of version {found.version}, {held}, every row readable"


ANSWER_SECONDS = 5  # chosen: a server that runs answers in far less, and `doctor` asks it several times
_DATABASE = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
_OUR_FLOWS = "prefect_"  # part of the entrypoint of every flow of ours (flows/prefect_index.py:index_flow)


def check_prefect(_: Settings) -> str:
    """Says which server answers, with which version and database."""
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        return "no PREFECT_API_URL: `polyhop index` runs its stages directly"
    _ask(url, "GET", "/health")
    server, client = str(_ask(url, "GET", "/admin/version")), version("prefect")
    if server.split(".")[:2] != client.split(".")[:2]:
        raise StoreError(
            f"the Prefect server at {url} has version {server}, this installation {client}; install the same minor "
            "version on both"
        )
    # a server shows the driver of its database, never the address, which the environment may hold here
    shown = _ask(url, "GET", "/admin/settings").get("server", {}).get("database", {})
    address = next((os.environ[name] for name in _DATABASE if os.environ.get(name)), "")
    kind = str(shown.get("driver") or address).partition("+")[0].partition(":")[0]
    database = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(kind, "not shown to clients")
    return f"server {server} at {url} answers, database {database}"


def check_deployments(_: Settings) -> str:
    """Says whether somebody runs the deployments of our flows."""
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        return "skipped: PREFECT_API_URL is not set"
    everything = _ask(url, "POST", "/deployments/filter")  # a server may have deployments of other flows
    found = [each for each in everything if _OUR_FLOWS in str(each.get("entrypoint"))]
    if not found:
        return "none of Polyhop's flows; create them with: polyhop deploy --index NAME"
    idle = sorted((each.get("work_pool_name") or "", each["name"]) for each in found if each["status"] != "READY")
    if not idle:
        return f"{len(found)} of Polyhop's flows, all with a worker"
    names, pools = ", ".join(name for _, name in idle), sorted({pool for pool, _ in idle if pool})
    # a deployment without a pool is served
    start = " and ".join(f"prefect worker start --pool {pool}" for pool in pools) or "the process that serves them"
    raise StoreError(f"no worker runs the deployments {names}: their runs stay scheduled; start {start}")


def _ask(url: str, method: str, path: str) -> Any:
    if not url.startswith(("http://", "https://")):
        raise StoreError(f"PREFECT_API_URL is {url}; it must begin with http:// or https://")
    import httpx

    try:
        body: dict[str, str] | None = {} if method == "POST" else None
        answer = httpx.request(method, f"{url.rstrip('/')}{path}", json=body, timeout=ANSWER_SECONDS)
        return answer.raise_for_status().json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise StoreError(
            f"the Prefect server at {url} does not answer ({said}); start it or unset PREFECT_API_URL"
        ) from error


def check_packages(_: Settings) -> str:
    """Says whether the installed packages are those that Polyhop was tested with."""
    faults = [requirement_fault(line) for line in requires("polyhop") or []]
    wrong = [sentence for sentence in faults if sentence]
    if wrong:
        raise ConfigurationError(f"{'; '.join(wrong)}. Install the required versions: pip install --upgrade polyhop")
    return f"{len(faults)} requirements met"


def requirement_fault(line: str) -> str:
    """Fault of an installed package; "" if there is none. Packages of extras may be missing."""
    from packaging.requirements import Requirement

    wanted = Requirement(line)
    is_extra = "extra" in (line.partition(";")[2])
    if wanted.marker is not None and not is_extra and not wanted.marker.evaluate():
        return ""
    try:
        found = version(wanted.name)
    except PackageNotFoundError:
        return "" if is_extra else f"{wanted.name} is not installed"
    if wanted.specifier.contains(found, prereleases=True):
        return ""
    return f"{wanted.name} is {found}, Polyhop needs {wanted.specifier}"


def check_encoder(settings: Settings) -> str:
    """Encodes a question by the configured encoder, a server's included, and says what did it."""
    said = _tried(settings, PASSAGES)
    return f"{said}; entities: {_tried(settings, ENTITIES)}" if settings.encoder.entities else said


def _tried(settings: Settings, space: Space) -> str:
    encoder = open_encoder(settings, space)
    started = time.perf_counter()
    vectors = encoder.encode_questions(["Is the encoder working?"])
    said = f"{encoder.model}, {vectors.shape[1]} dimensions"
    choice = settings.encoder.choice_of(space)
    if choice.name in SHIPPED:
        advice = faster_precision() if choice.name == LOCAL and choice.precision == "float32" else ""
        return f"{said}, no network; its weights have the published sha256{f'; {advice}' if advice else ''}"
    return f"{said}, one text in {time.perf_counter() - started:.2f} s"


def check_leases(settings: Settings) -> str:
    """Says who is writing which index."""
    layout = Layout(settings.root)
    holders = {name: read_lease(layout.index(name)) for name in layout.index_names()}
    held = [f"index '{name}' is being written by {holder}" for name, holder in holders.items() if holder is not None]
    return "; ".join(held) or "no index is being written"


def check_neo4j(_: Settings) -> str:
    """Says which Neo4j NEO4J_URI names, and whether its indexes serve."""
    if not os.environ.get("NEO4J_URI"):
        return "skipped: NEO4J_URI is not set"
    found = examine_graph_server()
    failed = sorted(name for name, state in found.indexes.items() if state != "ONLINE")
    if failed:
        states = ", ".join(f"{name} is {found.indexes[name]}" for name in failed)
        raise StoreError(
            f"Neo4j {found.version} ({found.edition}): {states}; wait until they are built, or drop those that FAILED "
            "and export again"
        )
    count = len(found.indexes)
    return f"version {found.version}, {found.edition} edition, {plural(count, 'index', 'indexes')} of Polyhop online"


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
    layout = Layout(settings.root)
    checks += [(f"index {name}", partial(_index, name=name)) for name in layout.index_names()]
    results = []
    for name, check in checks:
        is_ok = False
        try:
            message = check(settings)
            is_ok = True
        except PolyhopError as error:
            message = str(error)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one thing, the others are still checked
            message = f"{type(error).__name__}: {error}"
        results.append(Check(name, is_ok, redact(message)))
    return results


def _python(_: Settings) -> str:
    said = f"{platform.python_version()} at {sys.executable}, Polyhop {VERSION}"
    # what only Linux has: docs/install.md
    return said if sys.platform == "linux" else f"{said}; its tests have run on Linux only (docs/install.md)"


def _root(settings: Settings) -> str:
    with writing("a test file", settings.root):
        make_folder(settings.root, is_root=True)
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
            raise StoreError("a written row cannot be read back; reinstall lancedb")
    return f"version {lancedb.__version__}"


def _caches(settings: Settings) -> str:
    damaged = find_damaged_caches(Layout(settings.root))
    if damaged:
        raise StoreError("; ".join(damaged.values()))
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
