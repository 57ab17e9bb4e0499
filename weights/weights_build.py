"""Build backend of polyhop-weights: hatchling, after the published files were put into the package.

Source distributions are hatchling's own and hold none of these files.
Source: PEP 517 (2015) and PEP 660 (2021), the functions of a build backend.
"""

from typing import Any

import hatchling.build  # type: ignore[import-not-found]  # in the environment of a build, not in that of mypy
from hatchling.build import *  # noqa: F403
from published_files import WeightsError, place_files  # type: ignore[import-not-found]


def build_wheel(directory: str, *further: Any, **named: Any) -> str:
    """Builds the wheel, with the files in it."""
    _place_or_stop()
    built: str = hatchling.build.build_wheel(directory, *further, **named)
    return built


def build_editable(directory: str, *further: Any, **named: Any) -> str:
    """Builds the wheel that points to this folder, after the files were put into it."""
    _place_or_stop()
    built: str = hatchling.build.build_editable(directory, *further, **named)
    return built


def _place_or_stop() -> None:
    """Puts the files in place; ends the build with one sentence instead of a traceback if they cannot be had."""
    try:
        place_files()
    except WeightsError as error:
        raise SystemExit(f"polyhop-weights cannot be built: {error}") from None
