"""What an export to Neo4j writes after 20 documents were edited, 20 deleted and 20 added, and whether it is all of it.

Run: uv run python benchmarks/neo4j_delta.py ROOT INDEX CORPUS   (CORPUS: the .jsonl that INDEX was built from)
Works on copies of the index and of the caches in a temporary root, and on a server of its own
(tests/support/neo4j_process.py).
"""

import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import describe_machine

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from graph_fixture import address_of, changes, connect_to, mark_all, published_hashes, snapshot, wipe_marks
from neo4j_process import Neo4jServer

from polyhop.flows.export import ExportReport, run_export
from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.records import Address
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.user_files import load_settings

CHANGED = 20
FRESH = "fresh"


def main() -> None:
    """Prints a Markdown table, and what was compared."""
    root, index, corpus = sys.argv[1:4]
    server = Neo4jServer(heap="1g")
    folder = Path(tempfile.mkdtemp(prefix="polyhop-delta-"))
    try:
        for part in ("caches", f"indexes/{index}"):
            shutil.copytree(Path(root) / part, folder / part)
        settings, address = load_settings({"root": str(folder)}), address_of(server.start())
        print(f"{describe_machine()}\n\n| | created | updated | deleted | s |\n|---|---|---|---|---|")
        _export(settings, index, address, "first")
        before = published_hashes(settings, index)
        changed = folder / "changed.jsonl"
        changed.write_text("".join(json.dumps(row) + "\n" for row in edited(Path(corpus))), encoding="utf-8")
        run_index(settings, IndexRequest(index, changed, replaces=True), DirectRunner())
        after = published_hashes(settings, index)
        connection = connect_to(server)
        mark_all(connection, index)
        report = _export(settings, index, address, "delta")
        untouched = wipe_marks(connection, index)
        _export(settings, index, address, "again")
        extractor = {"extraction.extractor": _extractor(folder, index)}
        with_extractor = load_settings({"root": str(folder)} | extractor)
        run_index(with_extractor, IndexRequest(FRESH, changed, ("qasa",)), DirectRunner())
        _export(settings, FRESH, address, "fresh, under another name")
        total, wanted = sum(map(len, after.values())), changes(before, after)
        print(
            f"\nThe tables say {wanted}; as many were written: {_counts(report) == wanted}; the other "
            f"{total - wanted['created'] - wanted['updated']:,} rows untouched: "
            f"{untouched == total - wanted['created'] - wanted['updated']}; equal to the fresh export: "
            f"{snapshot(connection, index) == snapshot(connection, FRESH)}; verify finds nothing: "
            f"{run_verify(settings, index, address).ok}."
        )
        connection.close()
    finally:
        server.throw_away()
        shutil.rmtree(folder, ignore_errors=True)


def edited(corpus: Path) -> list[dict[str, Any]]:
    """The corpus with 20 documents edited, 20 deleted and 20 added."""
    rows = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    chosen = random.Random(0).sample(sorted({row["title"] for row in rows}), 2 * CHANGED)
    changed, deleted = set(chosen[:CHANGED]), set(chosen[CHANGED:])
    kept = [row for row in rows if row["title"] not in deleted]
    made = [
        {**row, "text": row["text"] + " Bishop Odo of Norland visited it."} if row["title"] in changed else row
        for row in kept
    ]
    towns = range(CHANGED)
    return [*made, *({"id": f"new{n}", "title": f"Newtown {n}", "text": f"Newtown {n} is in Norland."} for n in towns)]


def _extractor(folder: Path, index: str) -> str:
    extraction = read_manifest(require_version(Layout(folder), index)[1]).settings["extraction"]
    return str(extraction["extractor"])


def _export(settings: Settings, index: str, address: Address, name: str) -> ExportReport:
    begun = time.perf_counter()
    report = run_export(settings, index, address, DirectRunner())
    seconds = time.perf_counter() - begun
    cells = (f"{report.created:,}", f"{report.updated:,}", f"{report.deleted:,}", f"{seconds:.1f}")
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return report


def _counts(report: ExportReport) -> dict[str, int]:
    return {"created": report.created, "updated": report.updated, "deleted": report.deleted}


if __name__ == "__main__":
    main()
