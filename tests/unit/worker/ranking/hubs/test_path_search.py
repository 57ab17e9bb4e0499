"""Scores of paths: rows and query vectors, missing vectors, ties, rows of triples."""

import numpy as np
import pytest
from hub_index import hubs_of, written
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.hubs import LEVELS, HubRows
from polyhop.worker.ranking.hubs import PathSearch, best_paths

STORED, _ = hubs_of(written("H1 a x; H1 b y; H2 c z"), {"H1", "H2"})
PATH, TRIPLE, ENTITY = (LEVELS.index(name) for name in ("path", "triple", "entity"))


def unit(*degrees: float) -> NDArray[np.float32]:
    """Vectors at these angles."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def rows(*given: tuple[int, int, int, int]) -> HubRows:
    """Path, text, level and triple of each row."""
    columns = np.array(given).reshape(-1, 4).T
    return HubRows(columns[0], columns[1], columns[2].astype(np.uint8), columns[3])


def test_a_path_scores_by_its_best_row_and_the_best_query_vector() -> None:
    search = PathSearch(
        STORED.paths,
        rows((0, 0, PATH, -1), (0, 1, TRIPLE, 0), (1, 2, PATH, -1), (2, 3, PATH, -1), (1, 0, ENTITY, -1)),
        unit(60, 30, 90, 180),
    )
    scores = search.scores(unit(0))
    assert scores.paths == pytest.approx([np.cos(np.radians(30)), 0.5, 0.0], abs=1e-6)
    both = search.scores(unit(0, 180))
    assert both.paths == pytest.approx([np.cos(np.radians(30)), 0.5, 1.0], abs=1e-6)
    assert both.paths.max() <= 1.0
    assert [search.best_row_triple(scores, path) for path in range(3)] == [0, -1, -1]
    assert search.has_triple_rows


def test_paths_below_the_least_score_without_rows_or_without_a_vector_are_not_seen() -> None:
    vectors = unit(60, 30)
    vectors[1] = 0
    search = PathSearch(STORED.paths, rows((0, 0, PATH, -1), (2, 1, PATH, -1)), vectors)
    assert search.scores(unit(0)).paths.tolist() == pytest.approx([0.5, -np.inf, -np.inf])
    assert search.scores(unit(0), 0.6).paths.tolist() == [-np.inf] * 3
    assert search.best_row_triple(search.scores(unit(0)), 1) == -1


def test_rows_in_any_order_give_the_same_scores() -> None:
    given = [(0, 0, PATH, -1), (0, 1, PATH, -1), (1, 2, PATH, -1), (2, 1, PATH, -1)]
    search, other = (PathSearch(STORED.paths, rows(*some), unit(10, 50, 70)) for some in (given, given[::-1]))
    assert search.scores(unit(0)).paths.tolist() == other.scores(unit(0)).paths.tolist()


def test_a_version_without_texts_scores_nothing() -> None:
    search = PathSearch(STORED.paths, rows(), np.empty((0, 2), dtype=np.float32))
    assert search.scores(unit(0)).paths.tolist() == [-np.inf] * 3


def test_vectors_of_another_model_are_refused() -> None:
    search = PathSearch(STORED.paths, rows((0, 0, PATH, -1)), unit(0))
    with pytest.raises(AlgorithmError, match="encode questions with the model that built the index"):
        search.scores(np.ones((1, 3), dtype=np.float32))


def test_equal_scores_stand_by_the_whole_hash() -> None:
    hashes = np.zeros((4, 32), dtype=np.uint8)
    hashes[:, 31] = [3, 2, 9, 1]
    hashes[3, 0] = 200
    assert best_paths(np.array([0.5, 0.5, 0.5 + 1e-13, 0.5]), hashes, 3).tolist() == [1, 0, 2]
    assert best_paths(np.array([0.1, -np.inf, 0.7, 0.5]), hashes, 9).tolist() == [2, 3, 0]
    assert best_paths(np.array([0.1, 0.2, 0.7, 0.5]), hashes, 0).tolist() == []
