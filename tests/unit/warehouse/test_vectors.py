"""Vectors of a version: copied from the version before, cosines scaled, read from disk."""

import json
import os
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from real_index import RealIndex, pages

from polyhop.schemas.errors import DamagedStoreError
from polyhop.schemas.query import Question
from polyhop.warehouse.artefacts import RowsOnDisk, open_array
from polyhop.warehouse.files.versions import CHECKSUM, document_checksum
from polyhop.warehouse.open import open_published
from polyhop.warehouse.vectors import kinds
from polyhop.warehouse.vectors.kinds import MOST, EarlierVectors, cosine_scale, open_earlier, spread
from polyhop.worker.session import IndexSession
from polyhop.worker.strategies.bridge import IN_COSINES, BridgeParameters

ROWS = arrays(np.float64, st.tuples(st.integers(1, 12), st.just(4)), elements=st.floats(-1, 1, width=32))


def hashes(*numbers: int) -> NDArray[np.uint8]:
    return np.array([list(number.to_bytes(8, "little") * 4) for number in numbers], np.uint8).reshape(-1, 32)


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


def test_files_that_do_not_fit_or_are_gone_give_no_vector(tmp_path: Path) -> None:
    assert open_earlier([], 3).rows_of(hashes(1)).tolist() == [-1]
    assert open_earlier([tmp_path / "a_b.npy", tmp_path / "a_c.npy"], 3).rows_of(hashes(1)).tolist() == [-1]
    known, whole = hashes(1, 2), np.eye(2, 3, dtype=np.float32)
    assert open_earlier(saved(tmp_path, known, whole), 3).rows_of(hashes(2, 3)).tolist() == [1, -1]
    exact: NDArray[np.generic] = np.eye(2, 3)
    bad = [(known, whole[:1]), (known, whole[:, :2]), (known, exact), (known[:, :31], whole)]
    for number, (held, matrix) in enumerate(bad):
        (folder := tmp_path / str(number)).mkdir()
        assert open_earlier(saved(folder, held, matrix), 3).rows_of(known).tolist() == [-1, -1], number


def unit(rows: np.ndarray) -> np.ndarray:
    shifted = rows + np.array([2.0, *[0.0] * (rows.shape[1] - 1)])  # none is zero
    given: np.ndarray = (shifted / np.linalg.norm(shifted, axis=1, keepdims=True)).astype(np.float32)
    return given


@given(ROWS, ROWS, st.integers(1, 15))
def test_the_gap_is_that_of_sorted_cosines_and_ignores_order(asked: np.ndarray, rows: np.ndarray, rank: int) -> None:
    questions, texts = unit(asked), unit(rows)
    cosines = -np.sort(-questions.astype(np.float64) @ texts.astype(np.float64).T, axis=1)
    found = spread(questions, texts, rank)
    assert found == pytest.approx(np.median(cosines[:, 0] - cosines[:, min(rank, len(texts)) - 1]), abs=1e-9)
    assert 0 <= found <= 2 + 1e-6
    assert spread(questions[::-1], texts[::-1], rank) == pytest.approx(found, abs=1e-12)


@given(st.floats(1e-6, 2), st.floats(1e-6, 2))
def test_scales_are_ratios_within_bounds(own: float, reference: float) -> None:
    assert 1 / MOST <= cosine_scale(own, reference) <= MOST
    assert cosine_scale(own, own) == 1
    if 1 / MOST <= own / reference <= MOST:
        assert cosine_scale(own, reference) == pytest.approx(own / reference, abs=1e-4)


def test_nothing_to_measure_scales_nothing() -> None:
    none, two = np.empty((0, 3), np.float32), unit(np.zeros((2, 3)))
    assert spread(none, two) == spread(two, none) == 0
    assert cosine_scale(0, 0.4) == cosine_scale(0.4, 0) == 1


@given(st.lists(st.text("ab. ", max_size=40), max_size=12), st.randoms())
def test_the_sample_depends_on_the_words_and_not_on_their_order(bodies: list[str], shuffle: Random) -> None:
    other = list(bodies)
    shuffle.shuffle(other)
    assert kinds.sampled_sentences(bodies) == kinds.sampled_sentences(other)
    samples = [kinds.sampled_things(zip(b, b, b, strict=True), lambda _, body: body) for b in (bodies, other)]
    assert [body for *_, body in samples[0]] == [body for *_, body in samples[1]]


def test_bridge_scales_what_is_in_cosines_and_nothing_by_default(tmp_path: Path) -> None:
    """A version of another encoder, as its manifest says: the weights are as if they had been given scaled."""
    names = ("Oslo", "Bergen", "Tromso", "Hamar")
    index = RealIndex(tmp_path / "index", strategies=("bridge",))
    index.read(pages({n: f"{n} lies north of {names[k - 1]}. It has a port." for k, n in enumerate(names)}))

    def scores(**parameters: float) -> list[tuple[str, float]]:
        session = IndexSession(open_published(index.root, "i"), index.settings)
        asked = Question("What lies north of Bergen?")
        found = session.answerer("bridge", parameters).retrieve([asked], limit=6)[0]
        session.close()
        return [(passage.passage_id, passage.score) for passage in found.passages]

    path, defaults = index.version.manifest, BridgeParameters()
    document = json.loads(path.read_text(encoding="utf-8"))
    document.pop(CHECKSUM)
    assert document["vectors"]["passage"]["encoder"]["cosine_scale"] == 1
    expected = {scale: scores(**{name: getattr(defaults, name) * scale for name in IN_COSINES}) for scale in (1, 0.25)}
    assert scores() == expected[1] != expected[0.25]
    document["vectors"]["passage"]["encoder"]["cosine_scale"] = 0.25
    document[CHECKSUM] = document_checksum(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    assert scores() == expected[0.25]


def test_rows_on_disk_are_those_of_the_array_and_a_row_that_is_cut_off_is_damage(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).random((9, 5), dtype=np.float32)
    np.save(tmp_path / "vectors-passage_matrix.npy", matrix)
    rows = RowsOnDisk(open_array(tmp_path, "vectors-passage_matrix"))
    some = np.array([8, 0, 3, 3])
    assert rows[some].tolist() == matrix[some].tolist()
    os.truncate(tmp_path / "vectors-passage_matrix.npy", (tmp_path / "vectors-passage_matrix.npy").stat().st_size - 4)
    with pytest.raises(DamagedStoreError, match="row 8 of it is missing"):
        rows[some]
