"""Arrays of relations and entity texts, and parts of titles as keys and edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.graph import BipartiteGraph, RelationGraph
from polyhop.schemas.propositions import StoredTexts
from polyhop.tasks.graph.stage import MOST_STARTS, MOST_WORDS, chunk_edges, chunk_keys, relation_arrays
from polyhop.warehouse.artefacts import text_arrays


def graph_of(triples: list[tuple[int, int, int]], entity_count: int, names: tuple[str, ...]) -> RelationGraph:
    columns = np.array(sorted(triples), dtype=np.int64).reshape(-1, 3).T
    arrays = relation_arrays(columns[0], columns[1], columns[2], entity_count)
    return RelationGraph(arrays["indptr"], arrays["indices"], arrays["label-indptr"], arrays["labels"], names)  # type: ignore[arg-type]


def test_relations_stand_in_both_rows_with_labels_where_they_leave() -> None:
    graph = graph_of([(0, 2, 0), (0, 2, 1), (2, 0, 1), (3, 0, 0)], 4, ("knows", "likes"))
    rows = [graph.indices[graph.indptr[n] : graph.indptr[n + 1]].tolist() for n in range(4)]
    assert rows == [[2, 3], [], [0], [0]]
    labels = {pair: graph.labels_from(*pair) for pair in ((0, 2), (2, 0), (3, 0), (0, 3), (0, 1), (1, 3))}
    assert {pair: found for pair, found in labels.items() if found} == {
        (0, 2): ("knows", "likes"),
        (2, 0): ("likes",),
        (3, 0): ("knows",),
    }
    assert graph.multiplicity.tolist() == [3, 1, 3, 1]
    assert graph.single.tolist() == [1, 1, 1, 1]
    assert [graph_of([], count, ()).entity_count for count in (3, 0)] == [3, 0]


def test_texts_come_back_whatever_they_hold() -> None:
    rows = [("Ada", "PERSON", "wrote\tnotes\n"), ("", "", ""), ("Łódź 東京", "", "a\x00b")]
    arrays = text_arrays(field for row in rows for field in row)
    texts = StoredTexts(arrays["text-starts"], arrays["texts"])  # type: ignore[arg-type]
    assert texts.of(range(9)) == [field for row in rows for field in row]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("History of Mississippi", {"history", "history of", "of mississippi", "mississippi"}),
        ("The Wizard of Oz", {"wizard", "the wizard", "wizard of", "of oz", "the wizard of", "wizard of oz"}),
        ("Texas", set()),
        ("", set()),
        ("of the sea", {"the sea"}),
        ("WHO Report", {"report"}),
        ("Émile's Łódź", {"emile", "emile s", "s łodz", "łodz"}),
        ("東京 tower", set()),
        ("東京都 tower", {"東京都"}),
        ("1984 2nd", set()),
        ("iPhone X_Files", {"iphone x", "x files", "files"}),
    ],
)
def test_runs_of_words_shorter_than_the_title(title: str, expected: set[str]) -> None:
    """One word: a capital or a letter without case, three letters, no function word; several: not only such words."""
    assert chunk_keys(title) == expected


def test_long_titles_are_cut() -> None:
    words = [f"Word{n:02}" for n in range(40)]
    found = chunk_keys(" ".join(words))
    assert len(found) == MOST_STARTS * MOST_WORDS
    assert max(len(key.split()) for key in found) == MOST_WORDS
    assert {key.split()[0] for key in found} == {word.lower() for word in words[:MOST_STARTS]}


def test_edges_are_added_where_the_graph_has_none() -> None:
    """Keys a 0, b 1, c 2; passages: A B (has a), A B (has nothing), C (its title is no chunk)."""
    numbers = {"aaa": 0, "bbb": 1, "ccc": 2}
    indptr, indices = np.array([0, 1, 1, 2]), np.array([0, 2], dtype=np.int32)
    starts, added = chunk_edges(["Aaa Bbb", "Bbb Aaa Ddd", "Ccc"], numbers, indptr, indices)
    assert (starts.tolist(), added.tolist()) == ([0, 1, 3, 3], [1, 0, 1])
    assert (starts.dtype, added.dtype) == (np.dtype(np.int64), np.dtype(np.int32))
    starts, added = chunk_edges([], {}, np.array([0]), indices[:0])
    assert (starts.tolist(), added.tolist()) == ([0], [])


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 6))
def test_a_graph_with_further_edges_has_both(seed: int, rows: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, (rows, columns))  # no edge, one of the graph, a further one
    tf, title = rng.integers(1, 5, (rows, columns)).astype(float), rng.random((rows, columns)) < 0.5

    def starts(mask: np.ndarray) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int64)

    has, further = kind == 1, kind == 2
    keys = tuple(map(str, range(columns)))
    graph = BipartiteGraph(starts(has), np.nonzero(has)[1].astype(np.int32), tf[has], title[has], keys)
    joined = graph.with_edges(starts(further), np.nonzero(further)[1].astype(np.int32))
    either = kind > 0
    assert joined.indptr.tolist() == starts(either).tolist()
    assert joined.indices.tolist() == np.nonzero(either)[1].tolist()
    assert joined.tf.tolist() == np.where(further, 1.0, tf)[either].tolist()
    assert joined.is_title.tolist() == (title & has)[either].tolist()
    found = (joined.indptr.dtype, joined.indices.dtype, joined.tf.dtype)
    assert found == (np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.float64))
