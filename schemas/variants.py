"""Strategies with parameters of their own, as `polyhop eval --strategies` takes them: `qasa`, `qasa:gate=none:steps=1`.

Knows no strategy and no parameter (the registry refuses what does not exist).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from polyhop.schemas.errors import ConfigurationError

ALL = "all"
"""Stands for every strategy."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A strategy with parameters that differ from their defaults; `label` is how it was written."""

    label: str
    strategy: str
    parameters: Mapping[str, object]


def parse_variant(label: str, common: Mapping[str, object]) -> Variant:
    """A variant from `name` or `name:parameter=value:parameter=value`.

    Args:
        label: As written.
        common: Parameters of all variants; its own win.

    Raises:
        ConfigurationError: If a part has no '='.
    """
    strategy, *parts = (part.strip() for part in label.split(":"))
    own = {}
    for part in parts:
        name, separator, value = part.partition("=")
        if not separator or not name.strip():
            raise ConfigurationError(f"A variant is written like qasa:gate=none:steps=1, not '{label}'.")
        own[name.strip()] = value.strip()
    return Variant(label, strategy, {**common, **own})


def expand_labels(labels: Iterable[str], known: Iterable[str]) -> list[str]:
    """The labels with `all` as the names of `known`, each once, at its first place."""
    everything = list(known)
    return list(dict.fromkeys(name for label in labels for name in (everything if label == ALL else [label])))
