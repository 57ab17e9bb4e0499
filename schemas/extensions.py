"""What other installed packages add by entry points: found by group, loaded, named in one sentence if unusable.

Opens nothing and knows no group: the module that owns a group says what its entry points are and checks what is loaded.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from polyhop.schemas.errors import ConfigurationError


@cache
def extensions(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name, in alphabetical order; installed packages are searched once per process."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def load_extension(point: EntryPoint, noun: str) -> Any:
    """Imports what an entry point names.

    Args:
        point: One of `extensions`.
        noun: What it is, in a sentence: "strategy".

    Raises:
        ConfigurationError: If it cannot be imported.
    """
    try:
        return point.load()
    except Exception as error:  # another package's module may raise anything when it is imported
        raise unusable_extension(point, noun, f"does not load: {type(error).__name__}: {error}") from error


def unusable_extension(point: EntryPoint, noun: str, reason: str) -> ConfigurationError:
    """The error for an extension that cannot be used: what it is, its package, why, and what to do."""
    return ConfigurationError(f"The {described(point, noun)} {reason}. Update or uninstall that package.")


def described(point: EntryPoint, noun: str) -> str:
    """An extension in words: `format '.xml' of the package 'examples'`."""
    return f"{noun} '{point.name}' of the package '{point.dist.name if point.dist else point.module}'"
