"""A generated corpus as files: the same bytes for the same numbers, and nothing where the numbers are wrong."""

from pathlib import Path

import pytest

from polyhop.generation import write_generated
from polyhop.schemas.errors import ConfigurationError, StoreError


def test_the_same_numbers_give_the_same_files_and_another_seed_others(tmp_path: Path) -> None:
    reports = [write_generated(tmp_path / name, 60, 7, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    files = [(Path(one.corpus).read_bytes(), Path(one.questions).read_bytes()) for one in reports]
    assert files[0] == files[1] != files[2]
    assert (reports[0].passage_count, reports[0].question_count) == (60, 7)
    assert [content.count(b"\n") for content in files[0]] == [60, 7]
    assert reports[0].to_json()["seed"] == 1


def test_numbers_out_of_range_make_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="at most as many questions as passages"):
        write_generated(tmp_path / "new", 60, 61, 1)
    assert not (tmp_path / "new").exists()


def test_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    with pytest.raises(StoreError, match="a generated corpus"):
        write_generated(tmp_path / "new", 60, 7, 1)
