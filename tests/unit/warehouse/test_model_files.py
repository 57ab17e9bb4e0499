"""Files of a model's folder: which one is taken, what cannot be used, and a hash that changes with their content."""

from pathlib import Path

import pytest

from polyhop.schemas.errors import ModelFileError
from polyhop.warehouse.models.onnx_session import (
    clean_text,
    existing_file,
    first_line,
    folder_hash,
    load_tokenizer,
    read_json,
)


def test_the_first_file_that_is_there_is_taken(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"of models\.rerank has no a or sub/b; add it"):
        existing_file(tmp_path, ("a", "sub/b"), "models.rerank")
    (tmp_path / "a").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b").touch()
    assert existing_file(tmp_path, ("a", "sub/b"), "s") == tmp_path / "sub" / "b"


def test_a_hash_changes_with_content_name_and_number_of_files(tmp_path: Path) -> None:
    hashes = [folder_hash(tmp_path)]
    for name, content in (("a", "1"), ("a", "2"), ("b", "2"), ("sub/c", "")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
        hashes.append(folder_hash(tmp_path))
    assert len(set(hashes)) == len(hashes)
    assert {len(one) for one in hashes} == {8}
    named = folder_hash(tmp_path, ["a", "none"])
    (tmp_path / "b").write_text("other", encoding="utf-8")
    assert folder_hash(tmp_path, ["a", "none"]) == named != folder_hash(tmp_path)


def test_a_hash_is_the_same_in_another_folder(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text("x", encoding="utf-8")
    assert folder_hash(tmp_path / "one") == folder_hash(tmp_path / "two")


def test_a_json_file_may_be_missing_but_not_broken(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    assert read_json(path) is None
    path.write_text('{"a": 1}', encoding="utf-8")
    assert read_json(path) == {"a": 1}
    path.write_bytes(b"\xff{")
    with pytest.raises(ModelFileError, match=r"config\.json cannot be read as JSON"):
        read_json(path)


def test_a_broken_tokenizer_is_said(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelFileError, match=r"tokenizer\.json cannot be read as a tokenizer"):
        load_tokenizer(tmp_path / "tokenizer.json", 9)


def test_texts_and_errors_are_made_fit() -> None:
    assert clean_text("a\ud800b東\udfff") == "a?b東?"
    assert first_line(ValueError("\n first \nsecond")) == "first "
    assert first_line(ValueError("")) == "ValueError"
