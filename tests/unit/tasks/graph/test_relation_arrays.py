"""Arrays of relations and entity texts, read back by the classes that use them."""

import numpy as np

from polyhop.schemas.graph import RelationGraph
from polyhop.schemas.propositions import StoredTexts
from polyhop.tasks.graph.stage import relation_arrays
from polyhop.warehouse.artefacts import text_arrays


def graph_of(triples: list[tuple[int, int, int]], entity_count: int, names: tuple[str, ...]) -> RelationGraph:
    columns = np.array(sorted(triples), dtype=np.int64).reshape(-1, 3).T
    arrays = relation_arrays(columns[0], columns[1], columns[2], entity_count)
    return RelationGraph(arrays["indptr"], arrays["indices"], arrays["label-indptr"], arrays["labels"], names)  # type: ignore[arg-type]


def test_neighbours_are_distinct_and_stand_in_both_rows() -> None:
    graph = graph_of([(0, 2, 0), (0, 2, 1), (2, 0, 1), (3, 0, 0)], 4, ("knows", "likes"))
    rows = [graph.indices[graph.indptr[n] : graph.indptr[n + 1]].tolist() for n in range(4)]
    assert rows == [[2, 3], [], [0], [0]]


def test_labels_stand_where_the_relation_leaves() -> None:
    graph = graph_of([(0, 2, 0), (0, 2, 1), (2, 0, 1), (3, 0, 0)], 4, ("knows", "likes"))
    assert graph.labels_from(0, 2) == ("knows", "likes")
    assert graph.labels_from(2, 0) == ("likes",)
    assert graph.labels_from(3, 0) == ("knows",)
    assert graph.labels_from(0, 3) == graph.labels_from(0, 1) == graph.labels_from(1, 3) == ()


def test_multiplicity_counts_relations_both_ways() -> None:
    graph = graph_of([(0, 2, 0), (0, 2, 1), (2, 0, 1), (3, 0, 0)], 4, ("knows", "likes"))
    assert graph.multiplicity.tolist() == [3, 1, 3, 1]
    assert graph.single.tolist() == [1, 1, 1, 1]


def test_there_may_be_no_relation_and_no_entity() -> None:
    assert graph_of([], 3, ()).entity_count == 3
    assert graph_of([], 0, ()).entity_count == 0


def test_texts_come_back_whatever_they_hold() -> None:
    rows = [("Ada", "PERSON", "wrote\tnotes\n"), ("", "", ""), ("Łódź 東京", "", "a\x00b")]
    arrays = text_arrays(field for row in rows for field in row)
    texts = StoredTexts(arrays["text-starts"], arrays["texts"])  # type: ignore[arg-type]
    assert texts.of(range(9)) == [field for row in rows for field in row]
