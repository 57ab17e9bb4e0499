"""What is left of hubs and their paths where only some passages count (pure).

A path is left if all of its triples are. Source: decisions/0027-filters-of-questions.md.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubPaths, HubRows, Numbers
from polyhop.schemas.restricting import gathered


def triples_left(stated: NDArray[np.int64], count: int, is_allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Numbers of the triples that an allowed passage states, and of those that no passage does; ascending.

    Args:
        stated: Shape (e, 2): pairs of a triple and a passage.
        count: Triples.
        is_allowed: Shape (passages,).
    """
    is_left = np.ones(count, dtype=np.bool_)
    is_left[stated[:, 0]] = False
    is_left[stated[is_allowed[stated[:, 1]], 0]] = True
    return np.flatnonzero(is_left).astype(np.int64)


def passages_left(
    pairs: NDArray[np.int64], things: NDArray[np.int64], passages: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Shape (e, 2): the pairs of a thing and a passage by their new numbers, without those one of which is gone."""
    moved = np.stack((things[pairs[:, 0]], passages[pairs[:, 1]]), axis=1)
    return moved[(moved >= 0).all(axis=1)]


def paths_left(paths: HubPaths, triples: NDArray[np.int64]) -> tuple[HubPaths, NDArray[np.int64]]:
    """The paths and candidates whose triples are all left, and the old numbers of these paths.

    Args:
        paths: All of them.
        triples: New number of each triple, -1 if it is gone.
    """
    kept, starts, steps = _whole(paths.triple_starts, triples[paths.path_triples])
    on, on_starts, on_steps = _whole(paths.candidate_triple_starts, triples[paths.candidate_triples])
    left = replace(
        paths,
        path_starts=np.searchsorted(kept, paths.path_starts),
        triple_starts=starts,
        path_triples=steps,
        end_kinds=paths.end_kinds[kept],
        hashes=paths.hashes[kept],
        path_texts=paths.path_texts[kept],
        candidate_starts=np.searchsorted(on, paths.candidate_starts),
        candidates=paths.candidates[on],
        candidate_kinds=paths.candidate_kinds[on],
        candidate_triple_starts=on_starts,
        candidate_triples=on_steps,
    )
    return left, kept


def _whole(starts: Numbers, moved: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], Numbers]:
    """Rows of which nothing is gone: their numbers, where they begin then, and what they hold."""
    gone = np.concatenate(([0], np.cumsum(moved < 0)))
    kept = np.flatnonzero(gone[starts[1:]] == gone[starts[:-1]]).astype(np.int64)
    new, offsets = gathered(np.asarray(starts, dtype=np.int64), kept)
    return kept, new, moved[offsets].astype(np.int32)


def rows_left(rows: HubRows, paths: NDArray[np.int64], triples: NDArray[np.int64]) -> HubRows:
    """The rows of paths that are left; all triples of these are, too.

    Args:
        rows: All of them.
        paths: New number of each path, -1 if it is gone.
        triples: New number of each triple, -1 if it is gone.
    """
    moved = paths[rows.row_paths]
    kept = np.flatnonzero(moved >= 0)
    stated = np.asarray(rows.row_triples)[kept]
    return HubRows(
        row_paths=moved[kept].astype(np.int32),
        row_texts=rows.row_texts[kept],
        row_levels=rows.row_levels[kept],
        row_triples=np.where(stated < 0, -1, triples[np.maximum(stated, 0)] if len(triples) else -1).astype(np.int32),
    )
