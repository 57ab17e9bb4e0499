"""An exported sentence encoder in a folder: a graph, tokenizer.json, and what sentence-transformers wrote beside them.

Caches no vector (cached.py does). As with the local encoder, only texts of equal token count share a batch, so nothing
is padded, and a text's vector does not depend on the lengths of the texts beside it.
Source of the files' meaning: sentence-transformers (modules.json, 1_Pooling/config.json, sentence_bert_config.json).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ModelFileError
from polyhop.warehouse.models.encoder import equal_length_batches
from polyhop.warehouse.models.model_files import (
    GRAPH_FILES,
    TOKENIZER_FILES,
    clean_text,
    existing_file,
    folder_hash,
    inputs_of,
    load_tokenizer,
    read_json,
)
from polyhop.warehouse.models.onnx_session import open_session
from polyhop.warehouse.models.unit_rows import unit_rows

SETTING = "encoder.name = onnx:…"
DEFAULT_MAX_TOKENS = 512
"""Where no file says more: the positions of BERT."""
_SETTINGS = ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json")
_SENTENCES = ("sentence_embedding", "sentence_embeddings")
_TOKENS = ("token_embeddings", "last_hidden_state")

Tokens = NDArray[np.float32]
"""Shape (texts, tokens, dimension)."""

_POOLINGS: Mapping[str, Callable[[Tokens], NDArray[np.float32]]] = {
    "cls": lambda tokens: tokens[:, 0],
    "mean": lambda tokens: tokens.mean(axis=1),
    "lasttoken": lambda tokens: tokens[:, -1],
    "max": lambda tokens: tokens.max(axis=1),
    "mean_sqrt_len_tokens": lambda tokens: tokens.sum(axis=1) / np.sqrt(tokens.shape[1]),
}
_OLDER_NAMES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
}


class OnnxEncoder:
    """A sentence encoder in a folder; safe for threads. Vectors have length 1, whatever its configuration says.

    Args:
        folder: Holds model.onnx (or onnx/model.onnx) and tokenizer.json; 1_Pooling/config.json, unless the graph gives
            one vector per text.
        max_tokens: Texts are cut after so many; 0: as sentence_bert_config.json says.
        threads: Of one call; 0 means as many as cores.
        batch_size: Most texts of equal token count per call.

    Raises:
        ModelFileError: If a file is missing or cannot be used.
    """

    def __init__(self, folder: Path, *, max_tokens: int = 0, threads: int = 0, batch_size: int = 8) -> None:
        graph = existing_file(folder, GRAPH_FILES, SETTING)
        settings = read_json(folder / "sentence_bert_config.json") or {}
        self.max_tokens = max_tokens or int(settings.get("max_seq_length") or DEFAULT_MAX_TOKENS)
        self._is_lowered = bool(settings.get("do_lower_case"))
        self._tokenizer = load_tokenizer(existing_file(folder, TOKENIZER_FILES, SETTING), self.max_tokens)
        self._session = open_session(graph, "export it again", threads)
        self._inputs = inputs_of(self._session, folder, "a sentence encoder")
        self._output, self._pool = _output(self._session, folder)
        self._batch_size = batch_size
        outside = sorted(file.relative_to(folder).as_posix() for file in graph.parent.glob(f"{graph.name}*"))
        name = folder_hash(folder, [*outside, "tokenizer.json", *_SETTINGS])
        self.model = f"onnx:{folder.name}-{name}<{self.max_tokens}"
        self.dimension = self._raw(["dimension"]).shape[1]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts, which nothing was padded for.

        Returns:
            Shape (len(texts), dimension), float32, rows of length 1, in input order.

        Raises:
            InvalidVectorError: If a vector is zero or not finite.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return unit_rows(self._raw(texts), len(texts), self.dimension, self.model)

    def _raw(self, texts: Sequence[str]) -> NDArray[np.float32]:
        encoded = [self._tokenizer.encode(self._read(text)) for text in texts]
        rows: dict[int, NDArray[np.float32]] = {}
        for batch in equal_length_batches([len(one.ids) for one in encoded], self._batch_size):
            feed = {
                name: np.array([getattr(encoded[number], field) for number in batch], np.int64)
                for name, field in self._inputs.items()
            }
            output = self._session.run([self._output], feed)[0]
            rows.update(zip(batch, self._pool(output) if self._pool else output, strict=True))
        return np.array([rows[number] for number in range(len(texts))], np.float32).reshape(len(texts), -1)

    def _read(self, text: str) -> str:
        return clean_text(text.lower() if self._is_lowered else text)


def _output(session: Any, folder: Path) -> tuple[str, Callable[[Tokens], NDArray[np.float32]] | None]:
    """The output to take, and how its tokens become one vector; None if it has one per text."""
    ranks = {one.name: len(one.shape) for one in session.get_outputs()}
    sentences = _of_rank(2, ranks, _SENTENCES)
    tokens = _of_rank(3, ranks, _TOKENS)
    named = [name for name in sentences if name in _SENTENCES]
    if named or (sentences and not tokens):
        return (named or sentences)[0], None
    if not tokens:
        raise ModelFileError(f"The model in {folder} gives neither vectors of texts nor of tokens; export it again.")
    return tokens[0], _pooling(folder)


def _of_rank(rank: int, ranks: Mapping[str, int], usual: Sequence[str]) -> list[str]:
    """Names of the outputs of a rank, the usual names first."""
    return [name for name in (*usual, *ranks) if ranks.get(name) == rank]


def _pooling(folder: Path) -> Callable[[Tokens], NDArray[np.float32]]:
    """How the vectors of tokens become that of a text, as sentence-transformers noted it.

    Raises:
        ModelFileError: If nobody noted it, or it takes more than Polyhop does.
    """
    modules = read_json(folder / "modules.json") or []
    kinds = {str(module.get("type", "")).rpartition(".")[2]: str(module.get("path", "")) for module in modules}
    more = sorted(set(kinds) - {"Transformer", "Pooling", "Normalize"})
    if more:
        raise ModelFileError(
            f"The model in {folder} has the modules {', '.join(more)} after its tokens; export it with the output "
            "sentence_embedding, which holds what they do."
        )
    config = read_json(folder / kinds.get("Pooling", "1_Pooling") / "config.json")
    if config is None:
        raise ModelFileError(
            f"The model in {folder} gives vectors of tokens, and no 1_Pooling/config.json says how they become one of "
            'a text; add that file, for example with {"pooling_mode_mean_tokens": true}.'
        )
    return _POOLINGS[_pooling_mode(config, folder)]


def _pooling_mode(config: Mapping[str, Any], folder: Path) -> str:
    """The one way of pooling that a configuration names, in the older form (a flag for each) or the newer (a name)."""
    modes = [mode for name, mode in _OLDER_NAMES.items() if config.get(name)]
    modes = modes or [str(config.get("pooling_mode", ""))]
    if len(modes) > 1 or modes[0] not in _POOLINGS:
        raise ModelFileError(
            f"The model in {folder} is pooled by {' and '.join(modes) or 'nothing'}; Polyhop knows one of "
            f"{', '.join(_POOLINGS)}."
        )
    return modes[0]
