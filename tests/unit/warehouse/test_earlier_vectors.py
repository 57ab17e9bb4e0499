"""Vectors copied from the version before: by the whole content hash, never by part of one, and by nothing else."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polyhop.warehouse.vectors.kinds import EarlierVectors, hashes_of, open_earlier


def hashes(*numbers: int) -> NDArray[np.uint8]:
    return hashes_of([number.to_bytes(8, "little") * 4 for number in numbers])


def saved(folder: Path, *arrays: NDArray[np.generic]) -> list[Path]:
    paths = [folder / f"vectors-passage_{name}.npy" for name in ("hashes", "matrix")]
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    return paths


@given(known=st.lists(st.integers(0, 50), unique=True), wanted=st.lists(st.integers(0, 50)))
def test_every_known_hash_and_no_other_leads_to_its_row(known: list[int], wanted: list[int]) -> None:
    matrix = np.array(known, dtype=np.float32).reshape(-1, 1)
    earlier = EarlierVectors(hashes(*known), lambda: matrix)
    rows = earlier.rows_of(hashes(*wanted))
    assert rows.tolist() == [known.index(number) if number in known else -1 for number in wanted]
    found = rows >= 0
    target = np.full((len(wanted), 1), -1, dtype=np.float32)
    earlier.copy_to(target, np.flatnonzero(found), rows[found])
    assert target.ravel().tolist() == [number if number in known else -1 for number in wanted]


def test_a_hash_that_only_begins_like_a_known_one_is_unknown() -> None:
    known = hashes(1, 2)
    for position in range(8, 32):
        other = known.copy()
        other[0, position] ^= 1
        assert EarlierVectors(known, lambda: np.eye(2, dtype=np.float32)).rows_of(other).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("held", "matrix"),
    [
        (hashes(1, 2), np.eye(3, dtype=np.float32)[:1]),
        (hashes(1, 2), np.eye(2, dtype=np.float32)),
        (hashes(1, 2), np.eye(3)[:2]),
        (hashes(1, 2)[:, :31], np.eye(3, dtype=np.float32)[:2]),
    ],
    ids=["too few rows", "another dimension", "another type", "short hashes"],
)
def test_files_that_do_not_fit_give_no_vector(
    tmp_path: Path, held: NDArray[np.uint8], matrix: NDArray[np.generic]
) -> None:
    assert open_earlier(saved(tmp_path, held, matrix), 3).rows_of(hashes(1, 2)).tolist() == [-1, -1]


def test_no_files_and_files_that_are_gone_give_no_vector(tmp_path: Path) -> None:
    assert open_earlier([], 3).rows_of(hashes(1)).tolist() == [-1]
    assert open_earlier([tmp_path / "a_b.npy", tmp_path / "a_c.npy"], 3).rows_of(hashes(1)).tolist() == [-1]
    whole = saved(tmp_path, hashes(1, 2), np.eye(3, dtype=np.float32)[:2])
    assert open_earlier(whole, 3).rows_of(hashes(2, 3)).tolist() == [1, -1]
