"""The arrays of the proposition graph against plain dictionaries, and what happens to them on disk."""

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.propositions import PropositionGraph, Rows
from polyhop.tasks.propositions.artefact import proposition_graph
from polyhop.warehouse.artefacts import open_array, save_arrays
from polyhop.worker.ranking.proposition_walks import weighted_graph


def lists(rows: Rows) -> list[list[int]]:
    return [rows.indices[start:end].tolist() for start, end in zip(rows.indptr, rows.indptr[1:], strict=False)]


def test_golden_weights(g_prop_1: Any) -> None:
    """G-PROP-1, with the doubled weights between entities and without."""
    graph = g_prop_1.graph
    names = [*g_prop_1.entities, *g_prop_1.passages]
    for factor in (2.0, 1.0):
        weights = weighted_graph(graph, factor).weights.toarray()
        assert (weights == weights.T).all()
        found = {
            f"{names[row]}-{names[column]}": weights[row, column]
            for row, column in zip(*np.nonzero(np.triu(weights)), strict=True)
        }
        between = {"M-P": 1, "F-M": 1, "B-P": 1, "B-W": 1, "S-V": 1, "V-W": 0.9}
        contained = "M-d1 P-d1 P-d2 B-d2 W-d2 V-d3 S-d3 M-d4 F-d4"
        expected = {pair: factor * weight for pair, weight in between.items()} | dict.fromkeys(contained.split(), 1.0)
        assert found == pytest.approx(expected)


def test_golden_weights_where_every_edge_is_one(g_prop_6: Any) -> None:
    """G-PROP-6: two propositions share A and B; A and C are synonyms, and share one."""
    named, graph = g_prop_6.entities, g_prop_6.graph
    between = {"AB": (4, 1), "AC": (3.7, 1), "BC": (2, 1), "CD": (2, 1), "DF": (2, 1), "AD": (0, 0)}
    for column, (factor, kind) in enumerate([(2.0, "counts"), (1.0, "ones")]):
        weights = weighted_graph(graph, factor, kind).weights.toarray()  # type: ignore[arg-type]
        found = {pair: weights[named.index(pair[0]), named.index(pair[1])] for pair in between}
        assert found == pytest.approx({pair: given[column] for pair, given in between.items()})


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Rows of the tables: propositions without entities, entities and passages without propositions among them."""
    propositions, entities, passages = draw(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 4)))
    members = [
        draw(st.lists(st.sampled_from(range(entities)), max_size=5)) if entities else [] for _ in range(propositions)
    ]
    sources = [
        draw(st.sets(st.sampled_from(range(passages)), max_size=3)) if passages else set() for _ in range(propositions)
    ]
    pairs = draw(st.sets(st.sampled_from([*combinations(range(entities), 2)]), max_size=6)) if entities > 1 else set()
    cosines = {pair: draw(st.sampled_from([0.8, 0.9, 1.0])) for pair in sorted(pairs)}
    return {"members": members, "sources": sources, "cosines": cosines, "shape": (propositions, entities, passages)}


def built(case: dict[str, Any]) -> PropositionGraph:
    named = [(number, entity) for number, entities in enumerate(case["members"]) for entity in entities]
    held = [(number, passage) for number, passages in enumerate(case["sources"]) for passage in passages]
    return proposition_graph(
        np.array(named, dtype=np.int64).reshape(-1, 2),
        np.array(held[::-1], dtype=np.int64).reshape(-1, 2),
        np.array([pair[::-1] for pair in case["cosines"]], dtype=np.int64).reshape(-1, 2),
        np.array([*case["cosines"].values()], dtype=np.float64),
        case["shape"],
    )


@given(tables())
def test_arrays_hold_what_plain_dictionaries_hold(case: dict[str, Any]) -> None:
    graph, (propositions, entities, passages) = built(case), case["shape"]
    members = [[*dict.fromkeys(row)] for row in case["members"]]
    assert graph.shape == case["shape"]
    assert lists(graph.entities) == members
    assert lists(graph.passages) == [sorted(row) for row in case["sources"]]
    assert lists(graph.entity_propositions) == [
        [n for n in range(propositions) if e in members[n]] for e in range(entities)
    ]
    held = [[n for n in range(propositions) if d in case["sources"][n]] for d in range(passages)]
    assert lists(graph.passage_propositions) == held
    assert lists(graph.passage_entities) == [sorted({e for n in row for e in members[n]}) for row in held]
    counts = Counter(pair for row in members for pair in combinations(sorted(row), 2))
    found = {
        (e, other): count
        for (e, other), count in zip(pairs_of(graph.cliques), graph.clique_counts.tolist(), strict=True)
    }
    assert found == {**counts, **{pair[::-1]: count for pair, count in counts.items()}}
    both = case["cosines"] | {pair[::-1]: cosine for pair, cosine in case["cosines"].items()}
    ordered = sorted(both, key=lambda pair: (pair[0], -both[pair], pair[1]))
    assert pairs_of(graph.synonyms) == ordered
    assert graph.similarities.tolist() == [both[pair] for pair in ordered]


def pairs_of(rows: Rows) -> list[tuple[int, int]]:
    return [*zip(rows.owners.tolist(), rows.indices.tolist(), strict=True)]


def test_a_name_is_no_synonym_of_itself() -> None:
    nothing = np.empty((0, 2), dtype=np.int64)
    graph = proposition_graph(nothing, nothing, np.array([[0, 0], [1, 0]]), np.array([1.0, 0.9]), (0, 2, 0))
    assert pairs_of(graph.synonyms) == [(0, 1), (1, 0)]


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=5), st.data())
def test_gathered_rows_follow_each_other(rows: list[list[int]], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.sampled_from(range(len(rows))), max_size=7))
    owners = [number for number, row in enumerate(rows) for _ in row]
    flat = [value for row in rows for value in row]
    compressed = Rows.of(np.array(owners, dtype=np.int64), np.array(flat, dtype=np.int64), len(rows))
    found, offsets = compressed.gathered(np.array(wanted, dtype=np.int64))
    assert compressed.indices[offsets].tolist() == [value for number in wanted for value in rows[number]]
    assert found.tolist() == [order for order, number in enumerate(wanted) for _ in rows[number]]


def test_saved_arrays_open_memory_mapped_as_the_same_graph(g_prop_6: Any, tmp_path: Path) -> None:
    graph = g_prop_6.graph
    save_arrays(tmp_path, "propositions", graph.arrays)
    opened = PropositionGraph.of(lambda name: open_array(tmp_path, f"propositions_{name}"))
    for name, array in opened.arrays.items():
        assert array.dtype == graph.arrays[name].dtype
        assert array.tolist() == graph.arrays[name].tolist()
        assert not array.flags.writeable
