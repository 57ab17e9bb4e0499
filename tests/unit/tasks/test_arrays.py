"""Arrays of an index: relations, entity texts, parts of titles, postings, synonyms."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polyhop.schemas.graph import BipartiteGraph, RelationGraph
from polyhop.schemas.postings import build_postings, merged_postings
from polyhop.schemas.propositions import StoredTexts
from polyhop.tasks.graph.stage import MOST_STARTS, MOST_WORDS, _text_arrays, chunk_edges, chunk_keys, relation_arrays
from polyhop.tasks.propositions import stage as synonyms
from polyhop.tasks.propositions.stage import SynonymRule, find_synonyms
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
    found = {pair: names for pair, names in labels.items() if names}
    assert found == {(0, 2): ("knows", "likes"), (2, 0): ("likes",), (3, 0): ("knows",)}
    assert graph.multiplicity.tolist() == [3, 1, 3, 1]
    assert graph.single.tolist() == [1, 1, 1, 1]
    assert [graph_of([], count, ()).entity_count for count in (3, 0)] == [3, 0]


def test_texts_come_back_whatever_they_hold() -> None:
    rows = [("Ada", "PERSON", "wrote\tnotes\n"), ("", "", ""), ("Łódź 東京", "", "a\x00b")]
    arrays = text_arrays(field for row in rows for field in row)
    texts = StoredTexts(arrays["text-starts"], arrays["texts"])  # type: ignore[arg-type]
    assert texts.of(range(9)) == [field for row in rows for field in row]
    joined = [{"texts": "".join(row), "lengths": [len(field.encode()) for field in row]} for row in rows]
    types = pa.schema([("texts", pa.string()), ("lengths", pa.list_(pa.int64()))])
    for some in (joined, []):
        made = _text_arrays(pa.Table.from_pylist(some, types))
        expected = text_arrays(field for row in rows[: len(some)] for field in row)
        assert {name: array.tolist() for name, array in made.items()} == {n: a.tolist() for n, a in expected.items()}


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("History of Mississippi", {"history", "history of", "of mississippi", "mississippi"}),
        ("The Wizard of Oz", {"wizard", "the wizard", "wizard of", "of oz", "the wizard of", "wizard of oz"}),
        ("Texas", set()),
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


TERMS = st.lists(st.sampled_from(["a", "b", "zz", "é"]), max_size=8)


def test_terms_are_numbered_in_ascending_order() -> None:
    index = build_postings([["b", "a", "b"], [], ["c", "a"]])
    assert index.terms == {"a": 0, "b": 1, "c": 2}
    assert index.indptr.tolist() == [0, 2, 3, 4]
    assert index.passages.tolist() == [0, 2, 0, 2]
    assert index.tf.tolist() == [1, 1, 2, 1]
    assert index.lengths.tolist() == [3, 0, 2]
    assert (build_postings([]).terms, build_postings([]).indptr.tolist()) == ({}, [0])


@given(st.lists(st.tuples(TERMS, st.sampled_from(["keep", "drop", "add"])), max_size=8))
def test_postings_from_those_before_are_those_of_all_passages(edits: list[tuple[list[str], str]]) -> None:
    before = [tokens for tokens, edit in edits if edit != "add"]
    after = [(tokens, edit) for tokens, edit in edits if edit != "drop"]
    rows = np.cumsum([edit != "add" for _, edit in edits]) - 1
    numbers = [row if edit == "keep" else -1 for row, (_, edit) in zip(rows, edits, strict=True) if edit != "drop"]
    changed = build_postings(tokens for tokens, edit in after if edit == "add")
    found = merged_postings(build_postings(before), np.array(numbers, dtype=np.int64), changed)
    wanted = build_postings(tokens for tokens, _ in after)
    assert list(found.terms.items()) == list(wanted.terms.items())
    for name in ("indptr", "passages", "tf", "lengths"):
        array, expected = getattr(found, name), getattr(wanted, name)
        assert array.dtype == expected.dtype
        assert array.tolist() == expected.tolist()


Vectors = NDArray[np.float32]


def unit(rows: NDArray[np.floating]) -> Vectors:
    given: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return given


def clustered(count: int, groups: int, seed: int, spread: float = 0.35) -> Vectors:
    """Vectors around some centres, so that many pairs are near the threshold."""
    draw = np.random.default_rng(seed)
    centres = unit(draw.normal(size=(groups, 24)))
    noise = unit(draw.normal(size=(count, 24))) * draw.uniform(0, 2 * spread, size=(count, 1))
    return unit(centres[draw.integers(0, groups, count)] + noise)


def by_definition(vectors: Vectors, names: list[str], rule: SynonymRule) -> dict[tuple[int, int], float]:
    """Every pair looked at, one by one."""
    wide = vectors.astype(np.float64)
    pairs = {}
    for number, name in enumerate(names):
        if sum(map(str.isalnum, name)) <= 2:
            continue
        near = [(-round(float(wide[number] @ wide[other]), 12), other) for other in range(len(wide)) if other != number]
        for cosine, other in sorted(near)[: rule.neighbours]:
            if -cosine >= rule.threshold:
                pairs[min(number, other), max(number, other)] = -cosine
    return pairs


@given(
    count=st.integers(0, 60),
    groups=st.integers(1, 8),
    seed=st.integers(0, 1000),
    short=st.sets(st.integers(0, 59)),
    neighbours=st.sampled_from([1, 3, 100]),
    threshold=st.sampled_from([0.6, 0.8, 0.95]),
)
def test_pairs_are_those_of_the_definition(
    count: int, groups: int, seed: int, short: set[int], neighbours: int, threshold: float
) -> None:
    vectors = clustered(count, groups, seed)
    names = [("EU", "U.K.")[number % 2] if number in short else f"Entity {number}" for number in range(count)]
    rule = SynonymRule(threshold, neighbours)
    found = find_synonyms(vectors, names, rule)
    expected = by_definition(vectors, names, rule)
    assert (found.pairs.shape[1], [tuple(pair) for pair in found.pairs.tolist()]) == (2, sorted(expected))
    assert found.cosines == pytest.approx([expected[pair] for pair in sorted(expected)], abs=1e-9)
    assert found.recall == 1.0


def test_the_search_in_lists_finds_nearly_all_and_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(6000, 900, 5)
    names = [f"Entity {number}" for number in range(6000)]
    exact = find_synonyms(vectors, names, SynonymRule())
    monkeypatch.setattr(synonyms, "_EXACT_UP_TO", 100)
    listed = find_synonyms(vectors, names, SynonymRule())
    all_pairs, found = ({tuple(pair) for pair in each.pairs.tolist()} for each in (exact, listed))
    assert found <= all_pairs
    assert len(all_pairs) > 5000
    share = len(found) / len(all_pairs)
    assert share >= 0.97
    assert listed.recall == pytest.approx(share, abs=0.02)
    again = find_synonyms(vectors, names, SynonymRule())
    assert np.array_equal(listed.pairs, again.pairs)
    assert np.array_equal(listed.cosines, again.cosines)
