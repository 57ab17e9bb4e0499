"""Export and verification need no more of a graph store than the port: they run on Neo4j and on one in memory."""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

import memory_graph
import pytest
from graph_databases import INDEX, Kept, claimed, held, row
from graph_fixture import KilledBefore

from polyhop.flows.export import ExportReport, Published, export_version
from polyhop.flows.index import run_index
from polyhop.flows.maintain import graph_differences, repair_graph
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.ports import GRAPH_KINDS, HUB_KINDS, GraphKind, GraphRow, GraphStore
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.graph import neo4j_store

pytestmark = pytest.mark.slow

TOWNS = 12
BATCH = 2
"""Rows of a batch where an export is killed within one."""
Editions = tuple[Settings, Settings]


class KilledWithin:
    """A store whose writer ends after some rows of a kind, as a killed process would; all else is the store's own."""

    def __init__(self, store: GraphStore, kind: GraphKind, count: int) -> None:
        self._store = store
        self._kind = kind
        self._count = count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, kind: GraphKind, rows: Iterable[GraphRow]) -> None:
        self._store.write(kind, self._first(rows) if kind == self._kind else rows)

    def _first(self, rows: Iterable[GraphRow]) -> Iterator[GraphRow]:
        yield from islice(rows, self._count)
        raise KeyboardInterrupt


def records(numbers: range, edited: Sequence[int] = ()) -> list[dict[str, str]]:
    return [
        {
            "id": f"p{n:03d}",
            "title": f"Town {n}",
            "text": f"Castle {n} stands near Town {n % 5} in Norland. Bishop {'Odo' if n in edited else 'Ulf'} built.",
        }
        for n in numbers
    ]


def publish(root: Path, rows: Sequence[Mapping[str, str]], strategy: str) -> Settings:
    settings = Settings(root=root, strategies=(strategy,))
    corpus = root.parent / f"{root.name}.jsonl"
    corpus.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    run_index(settings, IndexRequest(INDEX, corpus, replaces=True), DirectRunner())
    return settings


def publish_twice(folder: Path, strategy: str) -> Editions:
    """An index as it was first published, and as it was after additions, edits and deletions."""
    first = publish(folder / "first", records(range(TOWNS)), strategy)
    shutil.copytree(folder / "first", folder / "second")
    return first, publish(folder / "second", records(range(3, TOWNS + 2), edited=(4, 5)), strategy)


@pytest.fixture(scope="module")
def without_hubs(tmp_path_factory: pytest.TempPathFactory) -> Editions:
    return publish_twice(tmp_path_factory.mktemp("plain"), "bm25")


@pytest.fixture(scope="module")
def with_hubs(tmp_path_factory: pytest.TempPathFactory) -> Editions:
    return publish_twice(tmp_path_factory.mktemp("hubs"), "hub-facets")


@pytest.fixture(params=["without_hubs", "with_hubs"])
def editions(request: pytest.FixtureRequest) -> Editions:
    chosen: Editions = request.getfixturevalue(request.param)
    return chosen


def hashes_of(published: Published) -> dict[str, dict[str, str]]:
    return {kind: published.hashes(kind) for kind in GRAPH_KINDS}


def exported(settings: Settings, store: GraphStore, steps: DirectRunner | None = None) -> ExportReport:
    with Published(settings, INDEX) as published:
        return export_version(published, store, steps or DirectRunner())


def test_an_export_leads_to_equal_hashes_and_again_writes_nothing(graphs: Kept, editions: Editions) -> None:
    report = exported(editions[0], graphs.open())
    with Published(editions[0], INDEX) as published:
        wanted = hashes_of(published)
        assert {kind: dict(graphs.open().hashes(kind)) for kind in GRAPH_KINDS} == wanted
        assert graph_differences(published, graphs.open()) == []
        assert graphs.open().recorded() == published.record()
        lengths = [row.properties["length"] for row in published.rows("hub_paths")]
        assert len(wanted["hub_path_entities"]) == sum(lengths)
        assert [kind for kind, rows in wanted.items() if rows] == list(report.counts) == list(published.kinds)
    assert report.created == sum(map(len, wanted.values())) > TOWNS
    again = exported(editions[0], graphs.open())
    assert (again.created, again.updated, again.deleted) == (0, 0, 0)


def test_a_later_version_is_written_as_a_delta_and_ends_as_a_fresh_export_does(
    graphs: Kept, editions: Editions
) -> None:
    exported(editions[0], graphs.open())
    report = exported(editions[1], graphs.open())
    found = []
    for settings in editions:
        with Published(settings, INDEX) as published:
            found.append(
                {(kind, key): digest for kind, rows in hashes_of(published).items() for key, digest in rows.items()}
            )
    before, after = found
    assert report.created == len(after.keys() - before.keys()) > 0
    assert report.deleted == len(before.keys() - after.keys()) > 0
    assert report.updated == sum(before[key] != after[key] for key in before.keys() & after.keys()) > 0
    with Published(editions[1], INDEX) as published:
        fresh = graphs.open("other")
        export_version(published, fresh, DirectRunner())
        assert held(fresh) == held(graphs.open())
        assert graph_differences(published, graphs.open()) == []


@pytest.mark.parametrize("step", ["paragraphs", "relations", "deletions", "verification"])
def test_an_export_that_was_killed_is_completed_by_the_next_one(
    graphs: Kept, without_hubs: Editions, step: str
) -> None:
    is_completed_after(step, graphs, without_hubs)


@pytest.mark.parametrize("step", ["hub_paths", "hub_path_entities"])
def test_an_export_of_hubs_that_was_killed_is_completed_by_the_next_one(
    graphs: Kept, with_hubs: Editions, step: str
) -> None:
    is_completed_after(step, graphs, with_hubs)


def test_exports_killed_within_a_batch_of_each_kind_of_hub_rows_leave_whole_batches_and_are_completed(
    graphs: Kept, with_hubs: Editions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_graph, "BATCH", BATCH)
    rows = neo4j_store.BATCH_ROWS  # type: ignore[attr-defined]
    settings = with_hubs[0]
    with Published(settings, INDEX) as published:
        wanted = hashes_of(published)
    for kind in HUB_KINDS:
        monkeypatch.setattr(neo4j_store, "BATCH_ROWS", {**rows, kind: BATCH})
        with pytest.raises(KeyboardInterrupt):
            exported(settings, cast("GraphStore", KilledWithin(graphs.open(), kind, BATCH + 1)))
        left = graphs.open()
        assert left.recorded() is None
        assert (kind, len(left.hashes(kind))) == (kind, BATCH)
        assert dict(left.hashes(kind)).items() <= wanted[kind].items()
    exported(settings, graphs.open())
    with Published(settings, INDEX) as published:
        assert graph_differences(published, graphs.open()) == []


def is_completed_after(step: str, graphs: Kept, editions: Editions) -> None:
    exported(editions[0], graphs.open())
    with pytest.raises(KeyboardInterrupt):
        exported(editions[1], graphs.open(), KilledBefore(step))
    assert graphs.open().recorded() is None
    exported(editions[1], graphs.open())
    with Published(editions[1], INDEX) as published:
        assert graph_differences(published, graphs.open()) == []


def test_hubs_vanish_with_the_version_that_had_them(graphs: Kept, without_hubs: Editions, with_hubs: Editions) -> None:
    exported(without_hubs[1], graphs.open("other"))
    report = exported(with_hubs[0], graphs.open())
    hub_rows = sum(report.counts[kind] for kind in HUB_KINDS)
    after = exported(without_hubs[1], graphs.open())
    assert after.deleted > hub_rows > 0
    assert held(graphs.open()) == held(graphs.open("other"))
    assert not after.counts.keys() & set(HUB_KINDS)
    with Published(without_hubs[1], INDEX) as published:
        assert graphs.open().recorded() == published.record()
        assert graph_differences(published, graphs.open()) == []


def test_verification_finds_hubs_and_paths_that_differ_and_repair_writes_them(
    graphs: Kept, with_hubs: Editions
) -> None:
    exported(with_hubs[0], graphs.open())
    whole = held(graphs.open())
    intruder = claimed(graphs)
    for kind in HUB_KINDS:
        intruder.delete(kind, [intruder.hashes(kind)[0][0]])
    intruder.write("hub_paths", [row("intruder", text="x")])
    with Published(with_hubs[0], INDEX) as published:
        found = " ".join(graph_differences(published, graphs.open()))
        assert "1 hub paths are too many: intruder" in found
        assert all(f"{kind.replace('_', ' ')} are missing" in found for kind in HUB_KINDS)
        repair_graph(published, graphs.open())
        assert graph_differences(published, graphs.open()) == []
    assert held(graphs.open()) == whole


def test_verification_finds_what_differs_and_repair_writes_it(graphs: Kept, without_hubs: Editions) -> None:
    exported(without_hubs[0], graphs.open())
    whole = held(graphs.open())
    intruder = claimed(graphs)
    intruder.write("documents", [row("intruder", title="x")])
    intruder.delete("relations", [intruder.hashes("relations")[0][0]])
    graphs.forge("p001", "forged")
    with Published(without_hubs[0], INDEX) as published:
        found = " ".join(graph_differences(published, graphs.open()))
        assert "holds no complete version, not version 1" in found
        assert "1 documents are too many: intruder" in found
        assert "1 paragraphs differ: p001" in found
        assert "1 relations are missing" in found
        repair_graph(published, graphs.open())
        assert graph_differences(published, graphs.open()) == []
        assert graphs.open().recorded() == published.record()
    assert held(graphs.open()) == whole


def test_a_forged_row_is_found_whatever_its_hash_says(graphs: Kept, without_hubs: Editions) -> None:
    exported(without_hubs[0], graphs.open())
    before = graphs.open().hashes("paragraphs")
    graphs.forge("p002", "forged")
    assert sorted(graphs.open().hashes("paragraphs")) == sorted(before)
    with Published(without_hubs[0], INDEX) as published:
        assert graph_differences(published, graphs.open()) == ["1 paragraphs differ: p002"]
