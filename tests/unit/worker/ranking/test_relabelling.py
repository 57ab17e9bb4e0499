"""Graphs under other labels, without short names, and term graphs, against the plain way of building them."""

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking.pagerank import relabelled, term_graph, without_short_names


def as_rows(graph: BipartiteGraph) -> list[dict[str, tuple[float, bool]]]:
    """Passage by passage {key: (tf, is title)}."""
    rows: list[dict[str, tuple[float, bool]]] = [{} for _ in range(graph.passage_count)]
    for row, entity, tf, is_title in zip(graph.rows, graph.indices, graph.tf, graph.is_title, strict=True):
        rows[row][graph.keys[entity]] = (float(tf), bool(is_title))
    return rows


def test_entities_of_one_label_become_one(make_graph: Any) -> None:
    graph = make_graph([{"Ada": 2, "ada": 1, "Bob": 1}, {"ada": 1}, {}], {0: ["ada"]})
    found = relabelled(graph, ["ada", "bob", "ada"])
    assert found.keys == ("ada", "bob")
    assert as_rows(found) == [{"ada": (3, True), "bob": (1, False)}, {"ada": (1, False)}, {}]
    assert found.df.tolist() == [2, 1]


def test_entities_without_a_label_go_and_their_passages_stay(make_graph: Any) -> None:
    graph = make_graph([{"a": 1, "b": 1}, {"a": 1}])
    assert as_rows(relabelled(graph, ["", "b"])) == [{"b": (1, False)}, {}]
    nothing = relabelled(graph, ["", ""])
    assert (nothing.keys, nothing.passage_count, len(nothing.indices)) == ((), 2, 0)


@given(st.integers(0, 2**32 - 1))
def test_labels_give_what_building_with_them_gives(make_graph: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [{key: float(rng.integers(1, 4)) for key in "abcdef" if rng.random() < 0.5} for _ in range(6)]
    titles = {n: [key] for n, row in enumerate(rows) for key in list(row)[:1]}
    graph = make_graph(rows, titles)
    label_of = {key: "zyx"[int(rng.integers(0, 3))] for key in "abcdef"}
    sums: list[Counter[str]] = [Counter() for _ in rows]
    for row, total in zip(rows, sums, strict=True):
        for key, tf in row.items():
            total[label_of[key]] += tf  # type: ignore[assignment]
    expected = make_graph(sums, {n: [label_of[key] for key in keys] for n, keys in titles.items()})
    found = relabelled(graph, [label_of[key] for key in graph.keys])
    assert found.keys == expected.keys
    for name in ("indptr", "indices", "tf", "is_title"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
        assert getattr(found, name).dtype == getattr(expected, name).dtype, name


def test_short_names_are_left_out(make_graph: Any) -> None:
    graph = make_graph([{"a": 1, "bb": 1, "cc": 1}, {"bb": 1, "cc": 1}, {"bb": 1}, {}])
    assert without_short_names(graph, 1) is graph
    assert without_short_names(graph, 2).keys == ("bb", "cc")


def test_a_term_graph_is_the_postings_by_passage(make_lexical: Any) -> None:
    lexical = make_lexical([["b", "a", "b"], ["c", "b"], ["b", "c"], ["b"]])
    assert as_rows(term_graph(lexical, 1, 1.0)) == [
        {"a": (1, False), "b": (2, False)},
        {"b": (1, False), "c": (1, False)},
        {"b": (1, False), "c": (1, False)},
        {"b": (1, False)},
    ]
    assert term_graph(lexical, 2, 0.5).keys == ("c",)
    assert term_graph(lexical, 3, 0.5).keys == ()


def test_terms_are_ascending_inside_a_passage(make_lexical: Any) -> None:
    rng = np.random.default_rng(13)
    graph = term_graph(make_lexical([[f"t{n}" for n in rng.integers(0, 40, 30)] for _ in range(20)]), 1, 1.0)
    for start, end in zip(graph.indptr, graph.indptr[1:], strict=False):
        assert np.all(np.diff(graph.indices[start:end]) > 0)
    assert list(graph.keys) == sorted(graph.keys)
