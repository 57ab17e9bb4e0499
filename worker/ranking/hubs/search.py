"""Scores of all hub paths for a question: the largest cosine of a path's rows with a query vector (pure).

Chooses no hub (choice.py does). Exact at any size, and the evidence says over how many texts: one product with the
distinct vectors, which is bound by memory (22 ms for 200,000 vectors of 384 dimensions, and as much for each 200,000
more). Source: algorithms.md 4.8.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.hubs import LEVELS, HubPaths, HubRows
from polyhop.worker.ranking.order import DECIMALS, contenders

Scores = NDArray[np.float64]
_TRIPLE_ROW = LEVELS.index("triple")
_HASH_PARTS = 4  # 8 bytes each of a sha256, compared as large numbers in the order of its digits


@dataclass(frozen=True, slots=True)
class PathScores:
    """What a question gives every path.

    Attributes:
        paths: Shape (p,): 0 to 1; minus infinity for paths that search does not see.
        texts: Shape (t,): the same of the distinct texts of rows.
    """

    paths: Scores
    texts: Scores


class PathSearch:
    """The rows of a version, ready for questions; shared by threads.

    Args:
        paths: Hubs and their paths.
        rows: What is compared with a question.
        vectors: Shape (t, d), float32, of length 1, by number of a row's text; one of zeros is missing, and no row of
            it is seen.

    Attributes:
        paths: As given.
        has_triple_rows: Whether some rows stand for single triples.
        text_count: Distinct texts, each compared with every question.
    """

    def __init__(self, paths: HubPaths, rows: HubRows, vectors: NDArray[np.float32]) -> None:
        self.paths = paths
        self.text_count = len(vectors)
        self._vectors = vectors
        self._missing = np.flatnonzero(~np.any(vectors, axis=1)) if len(vectors) else np.empty(0, dtype=np.intp)
        order = np.argsort(rows.row_paths, kind="stable")
        self._row_texts = rows.row_texts[order].astype(np.intp)  # of this type they select fastest
        self._row_triples = np.where(rows.row_levels == _TRIPLE_ROW, rows.row_triples, -1)[order]
        self.has_triple_rows = bool(np.any(self._row_triples >= 0))
        self._starts = np.searchsorted(rows.row_paths[order], np.arange(paths.path_count + 1))
        counts = np.diff(self._starts)
        self._is_simple = bool(np.all(counts == 1))
        self._with_rows = np.flatnonzero(counts)

    def scores(self, queries: NDArray[np.float32], least: float = 0.0) -> PathScores:
        """Scores of all paths.

        Args:
            queries: Shape (m, d), m >= 1, of length 1: the question, and its components if they are used.
            least: Paths that score below it are not seen.

        Raises:
            AlgorithmError: If the queries have another dimension than the vectors.
        Cost: O(t * d * m + rows).
        """
        if len(self._vectors) and queries.shape[1:] != self._vectors.shape[1:]:
            raise AlgorithmError(
                f"The question's vectors have shape {queries.shape}, those of hub paths {self._vectors.shape}; encode "
                "questions with the model that built the index."
            )
        texts = self._text_scores(queries)
        found = np.full(self.paths.path_count, -np.inf)
        if self._is_simple:
            found = texts.take(self._row_texts)
        elif len(self._with_rows):
            found[self._with_rows] = np.maximum.reduceat(texts.take(self._row_texts), self._starts[self._with_rows])
        if least > 0:
            found[found < least] = -np.inf
        return PathScores(found, texts)

    def best_row_triple(self, scores: PathScores, path: int) -> int:
        """The triple that the row with a path's score stands for; -1 if that row stands for something else.

        Of equal rows the first.
        """
        start, end = int(self._starts[path]), int(self._starts[path + 1])
        if start == end:
            return -1
        row = start + int(np.argmax(np.round(scores.texts[self._row_texts[start:end]], DECIMALS)))
        return int(self._row_triples[row])

    def _text_scores(self, queries: NDArray[np.float32]) -> Scores:
        if not len(self._vectors):
            return np.empty(0)
        products = self._vectors @ queries.astype(np.float32, copy=False).T
        largest = products[:, 0] if products.shape[1] == 1 else products.max(axis=1)
        # float32 makes a little more than 1 of equal texts
        scores: Scores = np.clip(largest, 0, 1).astype(np.float64)
        scores[self._missing] = -np.inf
        return scores


def best_paths(scores: Scores, hashes: NDArray[np.uint8], count: int) -> NDArray[np.intp]:
    """Numbers of the `count` best paths, in descending order of score; equal scores by ascending hash.

    Args:
        scores: Shape (n,); paths at minus infinity are left out.
        hashes: Shape (n, 32), sha256.
        count: How many; fewer are returned if there are fewer.

    Source: algorithms.md 4.8.
    """
    seen = np.flatnonzero(scores > -np.inf)
    near = seen[contenders(scores[seen], count)]
    keys = np.ascontiguousarray(hashes[near]).view(">u8").reshape(len(near), _HASH_PARTS)
    order = np.lexsort((*keys.T[::-1], -np.round(scores[near], DECIMALS)))
    return near[order[: max(count, 0)]]
