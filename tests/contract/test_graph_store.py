"""What a graph store must do, and what exports and verification do with it, on a real Neo4j."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from graph_databases import INDEX, PROBE, Kept, claimed, held, row
from graph_fixture import EIGHT, FINAL, SEEDS, Arrays, KilledBefore, disagreement
from real_index import RealIndex

from polyhop.flows.export import ExportReport, Published, compare, export_version
from polyhop.flows.maintain import graph_differences, repair_graph
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ContractError, MissingArtefactError, StoreConflictError
from polyhop.schemas.graph import ChainRule, Entity, SeedRule, SpreadRule
from polyhop.schemas.ports import GRAPH_KINDS, HUB_KINDS, GraphKind, GraphRecord, GraphRow, GraphStore, HeldRow
from polyhop.schemas.settings import Settings
from polyhop.warehouse.graph import neo4j_store
from polyhop.worker.strategies.qasa import EmbeddedEngine, Neo4jEngine, QasaRules

pytestmark = [pytest.mark.slow, pytest.mark.neo4j]
TOWNS = 12
BATCH = 2
"""Rows of a batch where an export is killed within one."""
Editions = tuple[Settings, Settings]
STEPS = ("paragraphs", "relations", "hub_paths", "hub_path_entities", "deletions", "verification")


@pytest.fixture
def store(graphs: Kept) -> GraphStore:
    return claimed(graphs)


def entity(key: str, vector: Sequence[float] | None = None, **said: Any) -> GraphRow:
    return row(key, vector=vector, folded_key=key, name=key.upper(), is_named=True, **said)


def test_a_store_without_rows_holds_nothing(graphs: Kept) -> None:
    store = graphs.open()
    assert store.recorded() is None
    assert {kind: store.hashes(kind) for kind in GRAPH_KINDS} == {kind: [] for kind in GRAPH_KINDS}
    assert store.has_vector_index(0)


def test_rows_come_back_as_they_were_written_last(store: GraphStore) -> None:
    document = row("d1", title="It's `odd`) //", paragraph_count=1)
    has = row("h1", "d1", "p1")
    store.write("documents", [document])
    store.write("paragraphs", [row("p1", text="Oslo", ordinal=0), row("p2", text="Bergen", ordinal=1)])
    store.write("document_paragraphs", [has])
    assert store.hashes("documents") == [("d1", document.hash)]
    assert store.rows("documents", PROBE) == [HeldRow("d1", document.hash, dict(document.properties))]
    assert store.rows("document_paragraphs", PROBE) == [HeldRow("h1", has.hash, {}, "d1", "p1")]
    assert store.hashes("entities") == []
    edited = row("p1", text="Oslo lies in Norway")
    store.write("paragraphs", [edited])  # replaces all that the row said
    found = {each.id: each for each in store.rows("paragraphs", PROBE)}
    assert found["p1"] == HeldRow("p1", edited.hash, {"text": "Oslo lies in Norway"})
    assert found["p2"].properties == {"text": "Bergen", "ordinal": 1}


def test_a_deleted_node_takes_its_relationships_with_it(store: GraphStore) -> None:
    store.write("entities", [entity("a"), entity("b"), entity("c")])
    store.write("relations", [row("ab", "a", "b", relation="r"), row("bc", "b", "c", relation="r")])
    store.delete("entities", ["a", "never there"])
    assert sorted(key for key, _ in store.hashes("entities")) == ["b", "c"]
    assert [key for key, _ in store.hashes("relations")] == ["bc"]
    store.delete("relations", ["bc"])
    assert (store.hashes("relations"), len(store.hashes("entities"))) == ([], 2)


def test_vectors_are_told_apart_by_their_similarity_to_a_probe(store: GraphStore) -> None:
    vectors = {"a": [1.0, 0.0, 0.0], "b": [0.0, 2.0, 0.0], "c": [-1.0, 0.0, 0.0], "d": [1.0, 0.0], "e": None}
    store.write("entities", [entity(key, vector) for key, vector in vectors.items()])
    found = {each.id: each.similarity for each in store.rows("entities", PROBE)}
    assert found == {"a": pytest.approx(1), "b": pytest.approx(0.5), "c": pytest.approx(0), "d": -1.0, "e": None}
    assert all("embedding" not in each.properties for each in store.rows("entities", PROBE))


def test_a_write_that_fails_leaves_whole_rows_which_the_next_one_completes(graphs: Kept) -> None:
    wanted = [entity(f"e{n:04d}") for n in range(1200)]

    def broken() -> Iterator[GraphRow]:
        yield from wanted[:1100]
        raise KeyboardInterrupt

    store = claimed(graphs)
    with pytest.raises(KeyboardInterrupt):
        store.write("entities", broken())
    expected = {each.id: each.hash for each in wanted}
    there = graphs.open().hashes("entities")
    assert 0 < len(there) <= 1100
    assert there == [(key, expected[key]) for key, _ in there]
    assert graphs.open().recorded() is None
    after = claimed(graphs)
    missing = compare(expected, after.hashes("entities")).missing
    after.write("entities", [each for each in wanted if each.id in set(missing)])
    assert compare(expected, after.hashes("entities")).count == 0


def test_a_store_is_complete_only_between_its_record_and_the_next_claim(graphs: Kept) -> None:
    store = claimed(graphs)
    assert store.recorded() is None
    record = GraphRecord(7, "f" * 64, 3, {kind: n for n, kind in enumerate(GRAPH_KINDS)})
    store.record(record)
    assert graphs.open().recorded() == record
    claimed(graphs)
    assert graphs.open().recorded() is None


def test_of_two_who_claimed_only_the_later_one_can_write(graphs: Kept) -> None:
    early, late = claimed(graphs), claimed(graphs)
    late.write("documents", [row("d1", title="Oslo")])
    writes: tuple[Callable[[], None], ...] = (
        lambda: early.write("documents", [row("d2", title="Bergen")]),
        lambda: early.delete("documents", ["d1"]),
        lambda: early.record(GraphRecord(1, "", 0, {})),
    )
    for write in writes:
        with pytest.raises(StoreConflictError, match=f"Another export of index '{INDEX}'"):
            write()
    assert [key for key, _ in late.hashes("documents")] == ["d1"]
    assert graphs.open().recorded() is None


def test_two_indexes_in_one_database_do_not_touch_each_other(graphs: Kept) -> None:
    one, other = claimed(graphs), claimed(graphs, "other")
    for store in (one, other):
        store.write("entities", [entity("a"), entity("b")])
        store.write("relations", [row("ab", "a", "b", relation="r")])
    before = held(other)
    one.delete("entities", ["a"])
    one.write("entities", [entity("b", note="edited")])
    assert held(other) == before
    assert other.recorded() is None
    other.record(GraphRecord(1, "", 0, dict.fromkeys(GRAPH_KINDS, 0)))
    assert one.recorded() is None


def test_vectors_are_searchable_when_they_are_indexed(store: GraphStore) -> None:
    store.write("entities", [entity("a", [1.0, 0.0, 0.0])])
    store.index_vectors(3, is_new=False)
    assert [store.has_vector_index(dimension) for dimension in (0, 2, 3)] == [False, False, True]
    store.index_vectors(2, is_new=False)
    assert [store.has_vector_index(dimension) for dimension in (0, 2, 3)] == [False, True, False]
    store.index_vectors(0, is_new=False)
    assert store.has_vector_index(0)


def eight_in(store: GraphStore, version: int = 1) -> None:
    EIGHT.write_to(store)
    store.record(GraphRecord(version, "", EIGHT.matrix.shape[1], dict.fromkeys(GRAPH_KINDS, 0)))


@pytest.mark.rare
def test_activation_spreads_as_in_the_embedded_engine_and_by_default_to_the_golden_values(store: GraphStore) -> None:
    eight_in(store)
    axis = [1.0, *[0.0] * (EIGHT.matrix.shape[1] - 1)]
    question = EIGHT.question(axis, SEEDS)
    default = QasaRules(SeedRule(2, "entity"), SpreadRule(), ChainRule())
    for rules in (
        QasaRules(SeedRule(2, "entity"), SpreadRule(edge_multiplicity="per_edge"), ChainRule(limit=2)),
        QasaRules(SeedRule(4, "question"), SpreadRule(gate="none", decay=0.5), ChainRule(max_length=2)),
        default,
    ):
        found = Neo4jEngine(store.spreading(1, EIGHT.keys), rules).activate(question)
        local = EmbeddedEngine(Arrays(EIGHT.arrays, EIGHT.matrix), rules).activate(question)  # type: ignore[arg-type]
        assert not disagreement(local, found), rules
    keys = [EIGHT.keys[number] for number in found.entities]
    assert dict(zip(keys, found.values.tolist(), strict=True)) == pytest.approx(FINAL, abs=1e-5)


def test_only_the_version_that_is_held_completely_and_with_vectors_answers(graphs: Kept) -> None:
    store = claimed(graphs)
    with pytest.raises(ContractError, match=f"no complete version of index '{INDEX}', not version 1"):
        store.spreading(1, ())
    eight_in(store, version=3)
    database = store.spreading(3, EIGHT.keys)
    assert (database.named("b", "none"), database.named("none", "b"), database.named("none", "none")) == ([1], [1], [])
    assert database.entities([2, 0]) == [Entity("c", "C", "", "About c."), Entity("a", "A", "", "About a.")]
    assert database.entities([]) == []
    with pytest.raises(ContractError, match=f"holds version 3 of index '{INDEX}', not version 1"):
        store.spreading(1, EIGHT.keys)
    claimed(graphs).record(GraphRecord(4, "", 0, dict.fromkeys(GRAPH_KINDS, 0)))
    with pytest.raises(MissingArtefactError, match="vectors:entity"):
        graphs.open().spreading(4, EIGHT.keys)


def killed_within(store: GraphStore, last: GraphKind, count: int) -> GraphStore:
    """The store, whose writer ends after some rows of a kind, as a killed process would."""
    write = store.write

    def first(rows: Iterable[GraphRow]) -> Iterator[GraphRow]:
        yield from islice(rows, count)
        raise KeyboardInterrupt

    store.write = lambda kind, rows: write(kind, first(rows) if kind == last else rows)  # type: ignore[method-assign]
    return store


def towns(numbers: range, edited: Sequence[int] = ()) -> list[dict[str, str]]:
    text = "Castle {} stands near Town {} in Norland. Bishop {} built."
    texts = {n: text.format(n, n % 5, "Odo" if n in edited else "Ulf") for n in numbers}
    return [{"id": f"p{n:03d}", "title": f"Town {n}", "text": said} for n, said in texts.items()]


def publish_twice(folder: Path, strategy: str) -> Editions:
    """An index as it was first published, and as it was after additions, edits and deletions."""
    first = RealIndex(folder / "first", INDEX, strategies=(strategy,))
    first.read(towns(range(TOWNS)))
    second = first.copy(folder / "second")
    second.read(towns(range(3, TOWNS + 2), edited=(4, 5)), replaces=True)
    return first.settings, second.settings


@pytest.fixture(scope="module")
def without_hubs(tmp_path_factory: pytest.TempPathFactory) -> Editions:
    return publish_twice(tmp_path_factory.mktemp("plain"), "bm25")


@pytest.fixture(scope="module")
def with_hubs(tmp_path_factory: pytest.TempPathFactory) -> Editions:
    return publish_twice(tmp_path_factory.mktemp("hubs"), "hub-facets")


def hashes_of(settings: Settings) -> dict[str, dict[str, str]]:
    with Published(settings, INDEX) as published:
        return {kind: published.hashes(kind) for kind in GRAPH_KINDS}


def exported(settings: Settings, store: GraphStore, steps: DirectRunner | None = None) -> ExportReport:
    with Published(settings, INDEX) as published:
        return export_version(published, store, steps or DirectRunner())


def differences(settings: Settings, store: GraphStore) -> list[str]:
    with Published(settings, INDEX) as published:
        return graph_differences(published, store)


def counts(report: ExportReport) -> tuple[int, int, int]:
    return report.created, report.updated, report.deleted


@pytest.mark.parametrize("name", ["without_hubs", "with_hubs"])
def test_a_later_export_writes_the_delta(graphs: Kept, name: str, request: pytest.FixtureRequest) -> None:
    editions: Editions = request.getfixturevalue(name)
    report = exported(editions[0], graphs.open())
    wanted, later = map(hashes_of, editions)
    assert {kind: dict(graphs.open().hashes(kind)) for kind in GRAPH_KINDS} == wanted
    with Published(editions[0], INDEX) as published:
        assert graphs.open().recorded() == published.record()
        lengths = [row.properties["length"] for row in published.rows("hub_paths")]
        assert len(wanted["hub_path_entities"]) == sum(lengths)
        assert [kind for kind, rows in wanted.items() if rows] == list(report.counts) == list(published.kinds)
    assert counts(report) == (sum(map(len, wanted.values())), 0, 0)
    assert report.created > TOWNS
    assert counts(exported(editions[0], graphs.open())) == (0, 0, 0)
    report = exported(editions[1], graphs.open())
    before, after = (
        {(kind, key): digest for kind, rows in found.items() for key, digest in rows.items()}
        for found in (wanted, later)
    )
    changed = sum(before[key] != after[key] for key in before.keys() & after.keys())
    assert counts(report) == (len(after.keys() - before.keys()), changed, len(before.keys() - after.keys()))
    assert min(counts(report)) > 0
    exported(editions[1], graphs.open("other"))
    assert held(graphs.open("other")) == held(graphs.open())
    assert differences(editions[1], graphs.open()) == []


@pytest.mark.rare
def test_an_export_killed_before_any_step_is_completed_by_the_next(graphs: Kept, with_hubs: Editions) -> None:
    exported(with_hubs[0], graphs.open())
    for number, step in enumerate(STEPS, start=1):
        settings = with_hubs[number % 2]
        with pytest.raises(KeyboardInterrupt):
            exported(settings, graphs.open(), KilledBefore(step))
        assert graphs.open().recorded() is None
        exported(settings, graphs.open())
        assert differences(settings, graphs.open()) == []


@pytest.mark.rare
def test_kills_within_hub_rows_leave_batches(
    graphs: Kept, with_hubs: Editions, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = neo4j_store.BATCH_ROWS  # type: ignore[attr-defined]
    wanted = hashes_of(with_hubs[0])
    for kind in HUB_KINDS:
        monkeypatch.setattr(neo4j_store, "BATCH_ROWS", {**rows, kind: BATCH})
        with pytest.raises(KeyboardInterrupt):
            exported(with_hubs[0], killed_within(graphs.open(), kind, BATCH + 1))
        left = graphs.open()
        assert left.recorded() is None
        assert (kind, len(left.hashes(kind))) == (kind, BATCH)
        assert dict(left.hashes(kind)).items() <= wanted[kind].items()
    exported(with_hubs[0], graphs.open())
    assert differences(with_hubs[0], graphs.open()) == []


@pytest.mark.rare
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


def test_verification_finds_what_differs_and_repair_writes_it(graphs: Kept, with_hubs: Editions) -> None:
    exported(with_hubs[0], graphs.open())
    whole, before = held(graphs.open()), graphs.open().hashes("paragraphs")
    graphs.forge("p001", "forged")
    assert sorted(graphs.open().hashes("paragraphs")) == sorted(before)
    assert differences(with_hubs[0], graphs.open()) == ["1 paragraphs differ: p001"]
    intruder = claimed(graphs)
    for kind in ("relations", *HUB_KINDS):
        intruder.delete(kind, [intruder.hashes(kind)[0][0]])
    intruder.write("documents", [row("intruder", title="x")])
    intruder.write("hub_paths", [row("intruder", text="x")])
    with Published(with_hubs[0], INDEX) as published:
        found = " ".join(graph_differences(published, graphs.open()))
        for said in ("1 documents are too many: intruder", "1 hub paths are too many: intruder", "1 paragraphs differ"):
            assert said in found
        assert "holds no complete version, not version 1" in found
        assert "1 relations are missing" in found
        assert all(f"{kind.replace('_', ' ')} are missing" in found for kind in HUB_KINDS)
        repair_graph(published, graphs.open())
        assert graph_differences(published, graphs.open()) == []
        assert graphs.open().recorded() == published.record()
    assert held(graphs.open()) == whole
