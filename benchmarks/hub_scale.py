"""Hubs of a generated graph: seconds per stage, peak memory and disk of an index, without encoding.

Run: uv run python benchmarks/hub_scale.py [--shape chains|leaves] [--hubs 50000] [--encode 5000]
Both shapes have 20 triples a hub. `chains`: four paths of five triples, whose texts all differ. `leaves`: twenty paths
of one triple, whose texts differ by the hub's label, while hub-facets has at most 200,000 different texts of them.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import describe_machine

from polyhop.schemas.propositions import StoredTexts
from polyhop.schemas.settings import Settings

Node = dict[str, Any]
VALUES = 9_000
"""Different values of a predicate: with twenty predicates fewer than 200,000 texts of a predicate and a value."""


def chains(hub: Node, number: int, _: random.Random) -> Iterator[tuple[Node, str, Node]]:
    """Four chains of five triples."""
    for chain in range(4):
        before = hub
        for step in range(5):
            own_id = f"n{number}.{chain}.{step}"
            after = {"id": own_id, "name": f"Part {own_id}", "types": ["Part"]}
            yield before, f"has part {chain}", after
            before = after


def leaves(hub: Node, _number: int, chance: random.Random) -> Iterator[tuple[Node, str, Node]]:
    """Twenty values."""
    for field in range(20):
        value = chance.randrange(VALUES)
        yield hub, f"field {field}", {"id": f"v{field}.{value}", "name": f"Value {value}", "types": ["Value"]}


SHAPES = {"chains": chains, "leaves": leaves}


def write_graph(path: Path, shape: str, hubs: int) -> int:
    """Writes the statements; returns how many."""
    chance, count = random.Random(13), 0
    with path.open("w", encoding="utf-8") as file:
        for number in range(hubs):
            hub = {"id": f"P{number}", "name": f"Paper {number}", "types": ["Paper"]}
            for subject, predicate, value in SHAPES[shape](hub, number, chance):
                file.write(json.dumps({"subject": subject, "predicate": predicate, "object": value}) + "\n")
                count += 1
    return count


def _never_built(*_: object) -> Any:
    raise AssertionError


def encode(texts: StoredTexts, wanted: int, settings: Settings) -> dict[str, float]:
    """Seconds of encoding some of the texts, spread evenly, of the clock and of the processor."""
    import time

    from polyhop.warehouse.open_models import open_encoder

    total = len(texts.starts) - 1
    sample = texts.of(sorted({number * total // wanted for number in range(wanted)}))
    encoder = open_encoder(settings).encoder  # without the cache
    encoder.encode(sample[:1])
    clock, processor = time.perf_counter(), time.process_time()
    encoder.encode(sample)
    return {
        "encoded": len(sample),
        "encode_seconds": time.perf_counter() - clock,
        "encode_processor_seconds": time.process_time() - processor,
    }


def measure(source: Path, root: Path, encoded: int) -> dict[str, object]:
    """Indexes a graph for its hubs in this process, then opens them."""
    import time

    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.hub_paths import STORED_HUBS
    from polyhop.schemas.requests import IndexRequest
    from polyhop.schemas.settings import parse_settings
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.index_reader import PublishedIndex
    from polyhop.warehouse.machine import peak_rss_mb
    from polyhop.worker.strategies import registry
    from polyhop.worker.strategies.base import Parameters, strategy

    registry.MODULES = {**registry.MODULES, "hubs-alone": ""}  # what hub-facets needs, but for vectors
    strategy("hubs-alone", "For this benchmark.", Parameters, needs={"hubs"})(_never_built)
    settings = parse_settings({"benchmark": {"root": str(root), "strategies": "hubs-alone", "hubs.types": "Paper"}})
    report = run_index(settings, IndexRequest("bench", source, kind="graph"), DirectRunner())
    built = peak_rss_mb()
    reader = PublishedIndex(Layout(root), "bench")
    start = time.perf_counter()
    hubs = reader.artefact(STORED_HUBS)
    result = {
        "counts": report.counts,
        "seconds": report.seconds,
        "open_seconds": time.perf_counter() - start,
        "texts": len(hubs.path_texts.starts) - 1,
        "values": int(hubs.values.max()) + 1,
        "peak_mb": built,
        "disk_mb": sum(f.stat().st_size for f in root.rglob("*") if f.is_file()) / 1e6,
    }
    if encoded:
        result |= encode(hubs.path_texts, encoded, settings)
    reader.close()
    return result


def main() -> None:
    """Writes a graph, indexes it in a process of its own, and prints what that took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, default="chains")
    parser.add_argument("--hubs", type=int, default=50_000)
    parser.add_argument("--encode", type=int, default=0)
    parser.add_argument("--measure", nargs=2, type=Path)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(*chosen.measure, chosen.encode)))
        return
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "graph.jsonl"
        triples = write_graph(source, chosen.shape, chosen.hubs)
        command = [sys.executable, __file__, "--measure", str(source), str(Path(folder) / "root")]
        command += ["--encode", str(chosen.encode)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    print(f"{chosen.shape}: {triples:,} statements; {result['counts']}")
    print(f"{result['texts']:,} texts of paths, {result['values']:,} of hub-facets\n\n| stage | s |\n|---|---|")
    for stage, seconds in result["seconds"].items():
        print(f"| {stage} | {seconds:.1f} |")
    print(
        f"\npeak memory {result['peak_mb']:.0f} MB, {result['disk_mb']:.0f} MB on disk, "
        f"opened in {result['open_seconds']:.2f} s"
    )
    if chosen.encode:
        each = result["encode_seconds"] / result["encoded"]
        everything = each * result["texts"] / 60
        print(
            f"encoding {result['encoded']:,} texts: {1 / each:.0f} a second, "
            f"{result['encode_processor_seconds']:.1f} s of the processor; "
            f"extrapolated to all {result['texts']:,}: {everything:.1f} minutes"
        )


if __name__ == "__main__":
    main()
