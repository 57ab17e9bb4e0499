"""Where settings come from: polyhop.toml, then the environment, then flags.

Says nothing about what the settings mean (schemas/settings.py does).
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from polyhop.schemas.environment import environment_settings
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.redaction import remember_secrets
from polyhop.schemas.settings import Settings, flatten, parse_settings

CONFIG_VARIABLE = "POLYHOP_CONFIG"
DEFAULT_FILE = "polyhop.toml"


def load_settings(flags: Mapping[str, object] | None = None) -> Settings:
    """Settings from ./polyhop.toml (or the file that POLYHOP_CONFIG names), POLYHOP_… variables and flags.

    Args:
        flags: Dotted keys and values from the command line; they win.

    Raises:
        ConfigurationError: If the file cannot be read, or a key or value is wrong.
    """
    sources: dict[str, Mapping[str, object]] = {}
    path = Path(os.environ.get(CONFIG_VARIABLE, DEFAULT_FILE))
    if path.exists():
        sources[str(path)] = _read_toml(path)
    elif CONFIG_VARIABLE in os.environ:
        raise ConfigurationError(f"{CONFIG_VARIABLE} names {path}, which does not exist.")
    sources["the environment (POLYHOP_…)"] = environment_settings(os.environ)
    sources["the command line"] = flags or {}
    values = [value for source in sources.values() for value in source.values()]
    remember_secrets(value for value in values if isinstance(value, str) and "://" in value)
    return parse_settings(sources)


def _read_toml(path: Path) -> dict[str, object]:
    try:
        return flatten(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"Cannot read settings from {path}: {error}.") from error
