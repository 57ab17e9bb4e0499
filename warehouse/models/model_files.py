"""The files of a model in a folder: where they are, what they are, and a hash that names them. Runs no model."""

import json
from collections.abc import Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from polyhop.schemas.errors import ModelFileError

GRAPH_FILES = ("model.onnx", "onnx/model.onnx")
TOKENIZER_FILES = ("tokenizer.json",)
FIELD_OF_INPUT = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""Inputs of BERT-like models, and what of a tokenizer's encoding each is."""


def existing_file(folder: Path, names: Sequence[str], setting: str) -> Path:
    """The first of these files that is there.

    Args:
        folder: Of the model.
        names: Paths in it.
        setting: Which setting names the folder, for the sentence.

    Raises:
        ModelFileError: If none is.
    """
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise ModelFileError(f"The folder {folder} of {setting} has no {' or '.join(names)}; add it.")


def load_tokenizer(path: Path, max_tokens: int | None) -> Any:
    """A tokenizer that pads nothing and cuts long texts.

    Args:
        path: A tokenizer.json.
        max_tokens: Texts are cut after so many; None: never.

    Raises:
        ModelFileError: If it cannot be read.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises Exception itself
        raise ModelFileError(f"{path} cannot be read as a tokenizer ({first_line(error)}); fetch it again.") from error
    tokenizer.no_padding()
    if max_tokens is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(max_tokens)
    return tokenizer


def inputs_of(session: Any, folder: Path, what: str) -> dict[str, str]:
    """Field of a tokenizer's encoding by the name of a graph's input.

    Args:
        session: Of onnxruntime.
        folder: Of the model.
        what: What the graph should be ("a cross-encoder"), for the sentence.

    Raises:
        ModelFileError: If it asks for something that a tokenizer does not give.
    """
    wanted = [one.name for one in session.get_inputs()]
    unknown = sorted(set(wanted) - set(FIELD_OF_INPUT))
    if unknown:
        raise ModelFileError(
            f"The model in {folder} asks for {', '.join(unknown)}; {what} asks for some of "
            f"{', '.join(FIELD_OF_INPUT)}. Export it again."
        )
    return {name: FIELD_OF_INPUT[name] for name in wanted}


def clean_text(text: str) -> str:
    """Lone surrogates as "?", which a tokenizer would refuse; as many characters as before."""
    return text.encode("utf-8", "replace").decode("utf-8")


def first_line(error: Exception) -> str:
    """What an error of another library says, in one line."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def read_json(path: Path) -> Any:
    """The content of a JSON file, None if there is none.

    Raises:
        ModelFileError: If it cannot be read.
    """
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read as JSON ({error}); fetch it again.") from error


def folder_hash(folder: Path, names: Sequence[str] = ()) -> str:
    """Eight hexadecimal digits that change with the content of the files.

    Args:
        folder: Of the model.
        names: Paths in it, those that are there; none: all files.

    Cost: a second per GB.
    """
    files = [folder / name for name in names] if names else sorted(folder.rglob("*"))
    digest = sha256()
    for file in files:
        if file.is_file():
            with file.open("rb") as content:
                digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
                digest.update(file_digest(content, "sha256").digest())
    return digest.hexdigest()[:8]
