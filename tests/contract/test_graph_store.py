"""What every graph store must do, on a real Neo4j and on a plain one in memory."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from graph_databases import INDEX, PROBE, Kept, claimed, held, row
from graph_fixture import EIGHT, FINAL, SEEDS, Arrays, disagreement

from polyhop.flows.export import compare
from polyhop.schemas.errors import ContractError, MissingArtefactError, StoreConflictError
from polyhop.schemas.graph import ChainRule, Entity, SeedRule, SpreadRule
from polyhop.schemas.ports import GRAPH_KINDS, GraphRecord, GraphRow, GraphStore, HeldRow
from polyhop.worker.strategies.qasa import EmbeddedEngine, Neo4jEngine, QasaRules

pytestmark = pytest.mark.slow


@pytest.fixture
def store(graphs: Kept) -> GraphStore:
    """A store that may write."""
    return claimed(graphs)


def entity(key: str, vector: Sequence[float] | None = None, **said: Any) -> GraphRow:
    return row(key, vector=vector, folded_key=key, name=key.upper(), is_named=True, **said)


def test_a_store_without_rows_holds_nothing(graphs: Kept) -> None:
    store = graphs.open()
    assert store.recorded() is None
    assert {kind: store.hashes(kind) for kind in GRAPH_KINDS} == {kind: [] for kind in GRAPH_KINDS}
    assert store.has_vector_index(0)


def test_rows_come_back_as_they_were_written(store: GraphStore) -> None:
    document = row("d1", title="It's `odd`) //", paragraph_count=1)
    has = row("h1", "d1", "p1")
    store.write("documents", [document])
    store.write("paragraphs", [row("p1", text="Oslo", ordinal=0)])
    store.write("document_paragraphs", [has])
    assert store.hashes("documents") == [("d1", document.hash)]
    assert store.rows("documents", PROBE) == [HeldRow("d1", document.hash, dict(document.properties))]
    assert store.rows("document_paragraphs", PROBE) == [HeldRow("h1", has.hash, {}, "d1", "p1")]
    assert store.hashes("entities") == []


def test_a_row_written_again_replaces_all_that_it_said(store: GraphStore) -> None:
    store.write("paragraphs", [row("p1", text="Oslo", ordinal=0), row("p2", text="Bergen", ordinal=1)])
    edited = row("p1", text="Oslo lies in Norway")
    store.write("paragraphs", [edited])
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
    assert store.hashes("relations") == []
    assert len(store.hashes("entities")) == 2


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


def test_entities_are_found_by_name_and_described(store: GraphStore) -> None:
    eight_in(store)
    database = store.spreading(1, EIGHT.keys)
    assert (database.named("b", "none"), database.named("none", "b"), database.named("none", "none")) == ([1], [1], [])
    assert database.entities([2, 0]) == [Entity("c", "C", "", "About c."), Entity("a", "A", "", "About a.")]
    assert database.entities([]) == []


def test_only_the_version_that_is_held_completely_and_with_vectors_answers(graphs: Kept) -> None:
    store = claimed(graphs)
    with pytest.raises(ContractError, match=f"no complete version of index '{INDEX}', not version 1"):
        store.spreading(1, ())
    eight_in(store, version=3)
    store.spreading(3, EIGHT.keys)
    with pytest.raises(ContractError, match=f"holds version 3 of index '{INDEX}', not version 1"):
        store.spreading(1, EIGHT.keys)
    claimed(graphs).record(GraphRecord(4, "", 0, dict.fromkeys(GRAPH_KINDS, 0)))
    with pytest.raises(MissingArtefactError, match="vectors:entity"):
        graphs.open().spreading(4, EIGHT.keys)


def test_vectors_of_the_golden_graph_are_those_of_its_arrays(store: GraphStore) -> None:
    eight_in(store)
    probe = np.linspace(1, 2, EIGHT.matrix.shape[1])
    found = {each.properties["folded_key"]: each.similarity for each in store.rows("entities", probe.tolist())}
    cosines = EIGHT.matrix @ probe / np.linalg.norm(probe)
    wanted = {key: (1 + value) / 2 for key, value in zip(EIGHT.keys, cosines.tolist(), strict=True)}
    assert found == {key: None if key == "g" else pytest.approx(wanted[key], abs=1e-6) for key in EIGHT.keys}
