"""ONNX models, on onnxruntime or OpenVINO: files, sessions, vectors of length 1, and cross-encoders."""

import importlib.util
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import file_digest, sha256
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError, InvalidVectorError, ModelFileError, import_extra, install_words
from polyhop.schemas.ports import Reranker


def open_session(model: Path, advice: str, threads: int = 0) -> Any:
    """A session on the processor."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Spinning saves 0.5 ms per question on an idle machine and halves the speed next to another busy process.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = False  # would remember a memory plan for each of some thousand shapes
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the errors of onnxruntime have no common base class
        raise ModelFileError(f"onnxruntime cannot load {model} ({first_line(error)}); {advice}.") from error


class BFloat16Session:
    """Runs a graph as an `InferenceSession` does, in bfloat16 where it multiplies; safe for many threads."""

    def __init__(self, graph: Path, threads: int) -> None:
        needs = "encoder.precision = bfloat16 needs"
        openvino = import_extra(needs, "openvino", "openvino", "set encoder.precision to float32")
        core = openvino.Core()
        if "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            raise ConfigurationError(
                "This processor does not support bfloat16, which would be slower than float32 here; set "
                "encoder.precision to float32."
            )
        options = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": threads}
        self._model = core.compile_model(core.read_model(graph), "CPU", options)
        self._own = threading.local()  # a request serves one call at a time

    def run(self, outputs: Sequence[str], inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        """The named outputs, float32."""
        if not hasattr(self._own, "request"):
            self._own.request = self._model.create_infer_request()
        found = self._own.request.infer(inputs)
        return [np.array(found[name], np.float32) for name in outputs]


_CPU = Path("/proc/cpuinfo")


def faster_precision() -> str:
    """Sentence on a setting for faster encoding on this machine; "" if there is none.

    Linux says what its processor can do, and the gain was measured there; elsewhere nothing is said.
    """
    flags = _CPU.read_text(encoding="utf-8", errors="replace") if _CPU.is_file() else ""
    if not any(flag in flags for flag in ("amx_bf16", "avx512_bf16")):  # the instructions that multiply bfloat16
        return ""
    install = "" if importlib.util.find_spec("openvino") else f" ({install_words('openvino')})"
    return (
        f"encoder.precision = bfloat16{install} would take about half of the encoder's time, at cosine .9999 to float32"
    )


FIELD_OF_INPUT = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""Inputs of BERT-like models, and what of a tokenizer's encoding each is."""


def existing_file(folder: Path, names: Sequence[str], setting: str) -> Path:
    """The first of these files that is there."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise ModelFileError(f"The folder {folder} of {setting} has no {' or '.join(names)}; add it.")


def load_tokenizer(path: Path, max_tokens: int) -> Any:
    """A tokenizer that pads nothing and cuts long texts."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises Exception itself
        raise ModelFileError(f"{path} cannot be read as a tokenizer ({first_line(error)}); fetch it again.") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


class OnnxModel:
    """A BERT-like model in a folder: model.onnx (or onnx/model.onnx), and tokenizer.json; safe for threads.

    Texts are cut after `max_tokens`; `threads` are those of one call, 0: as many as cores. Sentences name the `setting`
    of the folder, say `what` the model is, and give `advice` if the graph cannot be loaded.
    """

    def __init__(
        self, folder: Path, setting: str, what: str, max_tokens: int, advice: str = "fetch it again", threads: int = 0
    ) -> None:
        self.tokenizer = load_tokenizer(existing_file(folder, ("tokenizer.json",), setting), max_tokens)
        self.graph = existing_file(folder, ("model.onnx", "onnx/model.onnx"), setting)
        self.session = open_session(self.graph, advice, threads)
        names = [one.name for one in self.session.get_inputs()]
        unknown = sorted(set(names) - set(FIELD_OF_INPUT))
        if unknown:
            raise ModelFileError(
                f"The model in {folder} asks for {', '.join(unknown)}; {what} asks for some of "
                f"{', '.join(FIELD_OF_INPUT)}. Export it again."
            )
        self._fields = {name: FIELD_OF_INPUT[name] for name in names}
        self.most_texts = 1 if _quantises_calls(self.graph) else None
        """Texts that a call may have so that none changes the numbers of another; None: any number of equal length."""

    def run(self, encodings: Sequence[Any], outputs: Sequence[str] | None = None) -> list[NDArray[Any]]:
        """The outputs (None: all) for encodings of equal length by the tokenizer."""
        columns = {name: [getattr(one, field) for one in encodings] for name, field in self._fields.items()}
        feed = {name: np.array(rows, np.int64) for name, rows in columns.items()}
        found: list[NDArray[Any]] = self.session.run(outputs, feed)
        return found


def _quantises_calls(graph: Path) -> bool:
    """Returns whether a graph takes the 8-bit scale of its activations from all texts of a call together."""
    with graph.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return content.find(b"DynamicQuantize") >= 0  # ONNX's DynamicQuantizeLinear, onnxruntime's fused operators


def clean_text(text: str) -> str:
    """Lone surrogates as "?", which a tokenizer would refuse; as many characters as before."""
    return text.encode("utf-8", "replace").decode("utf-8")


def first_line(error: Exception) -> str:
    """First line of another library's error message."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


@contextmanager
def fetching(package: str, what: str, otherwise: str) -> Iterator[None]:
    """A model that a package fetches or loads within the block, with whatever goes wrong in our words."""
    try:
        yield
    except Exception as error:  # of the model hub's client, of the network, of onnxruntime or PyTorch: no base class
        raise ConfigurationError(
            f"{package} cannot fetch or load {what} ({first_line(error)}). Connect once to the model hub, or "
            f"{otherwise}."
        ) from error


def read_json(path: Path) -> Any:
    """The content of a JSON file, None if there is none."""
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read as JSON ({error}); fetch it again.") from error


def folder_hash(folder: Path, names: Sequence[str] = ()) -> str:
    """Eight hexadecimal digits that change with the content of the files. Cost: a second per GB."""
    files = [folder / name for name in names] if names else sorted(folder.rglob("*"))
    digest = sha256()
    for file in files:
        if file.is_file():
            with file.open("rb") as content:
                digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
                digest.update(file_digest(content, "sha256").digest())
    return digest.hexdigest()[:8]


def unit_rows(vectors: Any, count: int, dimension: int, model: str) -> NDArray[np.float32]:
    """The vectors scaled to length 1.

    Args:
        vectors: One per text: an array, or lists of numbers; not modified.
        count: Number of texts.
        dimension: Components that each must have; 0: any, but all the same.
        model: For the sentence.

    Returns:
        Shape (count, d), float32; a row whose length is 1 already keeps its bits.
    """
    if len(vectors) != count:
        raise InvalidVectorError(f"The encoder {model} gave {len(vectors)} vectors for {count} texts; use another one.")
    try:
        rows = np.array(vectors, dtype=np.float64).reshape(count, -1)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidVectorError(
            f"The encoder {model} gave vectors of different lengths, or no numbers; use another one."
        ) from error
    if dimension and rows.shape[1] != dimension:
        raise InvalidVectorError(
            f"The encoder {model} gave vectors of {rows.shape[1]} dimensions instead of {dimension}; set "
            "encoder.dimension to what it gives, or correct encoder.name."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt((rows * rows).sum(axis=1))
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise InvalidVectorError(
            f"The encoder {model} gave a vector that is zero or not finite for {len(bad)} of {count} texts; use "
            "another one."
        )
    # Lengths nearer to 1 are float32's rounding of it; scaling again would change last bits, and nothing else.
    scaled = np.abs(lengths - 1) > 1e-6
    rows[scaled] /= lengths[scaled, np.newaxis]
    return rows.astype(np.float32)


@cache
def open_reranker(model: str, cache_folder: Path) -> Reranker:
    """A cross-encoder by its folder or by a name that fastembed knows, one per process and name."""
    folder = Path(model)
    return OnnxReranker(folder) if folder.is_dir() else FastembedReranker(model, cache_folder)


class FastembedReranker:
    """A cross-encoder by name, fetched once from a model hub by fastembed (an optional dependency)."""

    def __init__(self, model: str, cache_folder: Path) -> None:
        self.model = model
        needs = f"The cross-encoder models.rerank = '{model}' is not a folder, and model names need"
        instead, module = "leave models.rerank empty for the lexical fallback", "fastembed.rerank.cross_encoder"
        encoders = import_extra(needs, "fastembed", "fastembed", instead, module=module).TextCrossEncoder
        known = sorted(description["model"] for description in encoders.list_supported_models())
        if model.lower() not in [name.lower() for name in known]:
            raise ConfigurationError(
                f"The cross-encoder models.rerank = '{model}' is neither a folder nor known to fastembed; "
                f"it knows: {', '.join(known)}."
            )
        otherwise = "set models.rerank to a folder with model.onnx and tokenizer.json, or leave it empty"
        with fetching("fastembed", f"the cross-encoder '{model}'", otherwise):
            self._encoder = encoders(model_name=model, cache_dir=str(cache_folder))

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """The model's own scores (logits), shape (len(passages),)."""
        return _finite(list(self._encoder.rerank(question, list(passages), batch_size=1)), self.model)


class OnnxReranker:
    """A cross-encoder in a folder: model.onnx (or onnx/model.onnx) with one score per pair, and tokenizer.json.

    One pair per call, so that nothing is padded and a passage's score does not depend on other passages.
    """

    def __init__(self, folder: Path) -> None:
        self.model = folder.as_posix()
        # 512 positions has BERT, from which many published cross-encoders are made
        self._model = OnnxModel(folder, "models.rerank", "a cross-encoder", max_tokens=512)

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """The model's own scores (logits), shape (len(passages),); pairs are cut at 512 tokens."""
        scores = []
        for passage in passages:
            encoded = self._model.tokenizer.encode(clean_text(question), clean_text(passage))
            output = np.asarray(self._model.run([encoded])[0])
            if output.size != 1:
                raise ModelFileError(
                    f"The model in {self.model} gives {output.size} numbers for a question and a passage; "
                    "a cross-encoder for ranking gives one."
                )
            scores.append(float(output.reshape(-1)[0]))
        return _finite(scores, self.model)


def _finite(scores: Sequence[float], model: str) -> NDArray[np.float64]:
    if not np.isfinite(scores).all():
        raise ModelFileError(f"The cross-encoder {model} gave a score that is not a number; use another model.")
    return np.array(scores, np.float64)
