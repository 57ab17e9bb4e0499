"""Strategies with parameters of their own, as `polyhop eval --strategies` takes them: `qasa`, `qasa:gate=none:steps=1`.

A parameter may have several values, `qasa:decay=.3,.5,.7`, or a range of whole numbers, `proprag:beam_width=1..6`.
Knows no strategy and no parameter (the registry refuses what does not exist).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.requests import names_in

ALL = "all"
OWN = "own"
"""Stands for the strategies that an index was built for, where `all` stands for all that there are."""
"""Stands for every strategy."""
MAX_COMBINATIONS = 100
"""Variants that one label with ranges may stand for; chosen: more rows than a report can show."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Variant:
    """A strategy with parameters that differ from their defaults; `label` is how it was written."""

    label: str
    strategy: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Range:
    """A strategy with several values of some parameters, which stands for every combination of them.

    Attributes:
        label: As written.
        parameters: The parameters with several values, in the order written.
        points: Label of each combination -> its values, one per parameter; those of the last one change fastest.
    """

    label: str
    parameters: tuple[str, ...]
    points: Mapping[str, tuple[str, ...]]


def parse_variant(label: str, common: Mapping[str, object]) -> Variant:
    """A variant from `name` or `name:parameter=value:parameter=value`.

    Args:
        label: As written.
        common: Parameters of all variants; its own win.

    Raises:
        ConfigurationError: If a part has no '=', or a parameter is given twice.
    """
    strategy, own = _parts(label)
    return Variant(label, strategy, {**common, **own})


def labels_in(text: str, known: Collection[str]) -> list[str]:
    """The labels of a list that is separated by commas, `qasa:decay=.3,.5,bridge`: two labels.

    A part between commas begins a label if the text before its first ':' is the name of a strategy or `all`, or if no
    `parameter=value` stands before it; every other part is a further value of the parameter before it.

    Args:
        text: As written.
        known: Names of all strategies.
    """
    labels: list[str] = []
    for part in names_in(text):
        name = part.partition(":")[0].strip()
        if labels and name not in known and name != ALL and "=" in labels[-1].rpartition(":")[2]:
            labels[-1] += f",{part}"
        else:
            labels.append(part)
    return labels


def parse_range(label: str) -> Range:
    """The variants that a label stands for; one without several values stands for itself.

    Raises:
        ConfigurationError: If a part or a range is malformed, a value belongs to nothing, or there are too many.
    """
    strategy, own = _parts(label)
    values = {name: _values(label, name, text) for name, text in own.items()}
    count = prod(sum(map(len, pieces)) for pieces in values.values())
    if count > MAX_COMBINATIONS:
        raise ConfigurationError(
            f"'{label}' stands for {count:,} variants, at most {MAX_COMBINATIONS} are possible; narrow its ranges."
        )
    several = tuple(name for name, pieces in values.items() if len(pieces) > 1 or isinstance(pieces[0], range))
    if not several:
        return Range(label, (), {label: ()})
    spread = {
        name: list(dict.fromkeys(str(one) for piece in pieces for one in piece)) for name, pieces in values.items()
    }
    return Range(label, several, _points(strategy, spread, several))


def _points(strategy: str, spread: Mapping[str, Sequence[str]], several: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Label of each combination of values, to its values of the parameters that have several."""
    found = {}
    for chosen in product(*spread.values()):
        given = dict(zip(spread, chosen, strict=True))
        point = ":".join((strategy, *(f"{name}={value}" for name, value in given.items())))
        found[point] = tuple(given[name] for name in several)
    return found


def expand_labels(labels: Iterable[str], known: Iterable[str]) -> list[str]:
    """The labels with `all` as the names of `known` and ranges as their variants, each once, where it comes first.

    Raises:
        ConfigurationError: As `parse_range`.
    """
    everything = list(known)
    found = (everything if label == ALL else parse_range(label).points for label in labels)
    return list(dict.fromkeys(name for names in found for name in names))


def _parts(label: str) -> tuple[str, dict[str, str]]:
    """The strategy, and its parameters as they are written."""
    strategy, *parts = (part.strip() for part in label.split(":"))
    own: dict[str, str] = {}
    for part in parts:
        name, separator, value = (word.strip() for word in part.partition("="))
        if not separator or not name:
            raise ConfigurationError(f"A variant is written like qasa:gate=none:steps=1, not '{label}'.")
        if name in own:
            raise ConfigurationError(f"'{label}' gives '{name}' twice; list its values: {name}={own[name]},{value}.")
        own[name] = value
    return strategy, own


def _values(label: str, name: str, text: str) -> list[Sequence[object]]:
    """The values of a parameter, in pieces: a range, or one value."""
    pieces: list[Sequence[object]] = []
    are_numbers = True
    for value in (one.strip() for one in text.split(",")):
        if "=" in value:
            raise ConfigurationError(
                f"'{value}' in '{label}' is neither a strategy nor a value of '{name}'; parameters of one strategy are "
                "separated by ':', like qasa:gate=none:steps=1."
            )
        piece = _range(label, value)
        is_number = isinstance(piece, range) or _is_number(value)
        if pieces and are_numbers and not is_number:
            raise ConfigurationError(
                f"'{value}' in '{label}' is neither a strategy nor a number like the values of '{name}' before it."
            )
        are_numbers = is_number
        pieces.append(piece)
    return pieces


def _range(label: str, value: str) -> Sequence[object]:
    """The whole numbers of FIRST..LAST, else the value alone."""
    first, dots, last = value.partition("..")
    if not dots or not (_is_number(first) or _is_number(last)):
        return (value,)
    if not (_WHOLE.fullmatch(first) and _WHOLE.fullmatch(last)):
        raise ConfigurationError(
            f"'{value}' in '{label}' is not a range: FIRST..LAST takes whole numbers, like beam_width=1..6; other "
            "values are listed, like decay=.3,.5,.7."
        )
    if int(first) > int(last):
        raise ConfigurationError(f"'{value}' in '{label}' is empty; the smaller number comes first: {last}..{first}.")
    return range(int(first), int(last) + 1)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
