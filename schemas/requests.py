"""Requests by verb: one type for the command line, the form on Prefect and Python."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.queue import JobSpec
from polyhop.schemas.records import GraphServer, Source, SourceKind
from polyhop.schemas.text import names_in


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """Request to index a source."""

    index: str
    source: Source | None  # The corpus or graph, or None to build on the current version's, with its texts for nodes.
    add_strategies: tuple[str, ...] = ()  # Strategies to build for besides the settings' and the index's own.
    full: bool = False  # Derive every stage again (caches are still used: nothing is paid or encoded twice).
    # What the source is; None: what the current version was made from, a corpus if there is none.
    kind: SourceKind | None = None
    graph_sources: Path | None = None  # A file of texts for the graph's nodes; None: it has none.
    source_name: str = ""  # Which of the index's sources it is; "": the one that was read from there, or the only one.
    is_partial: bool = False  # Whether the source only adds and changes: records that it does not mention stay.
    wait_seconds: float = 0.0  # How long to wait while another process writes the index; infinite: as long as it takes.
    flow_run_id: str = ""  # The Prefect flow run that asks, for the run history; "" without one.
    flow_run_url: str = ""  # Its page on the dashboard.
    removed_source: str = ""  # A source of the index that goes, with its records; nothing is read then. "": none.
    # Whether the source replaces the index's only one, or the one that `source_name` names.
    replaces: bool = False
    allows_deletions: bool = False  # Whether it may delete more than 30 % of a source's records.

    @property
    def stated_kind(self) -> SourceKind | None:
        """Kind of the source, if the request states it: databases, and sources with texts for nodes, are graphs."""
        is_graph = isinstance(self.source, GraphServer) or self.graph_sources is not None
        return self.kind or ("graph" if is_graph else None)


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """Request to evaluate strategies."""

    questions: Path
    index: str
    # Names, or variants of them, or lists of such separated by commas; `all` are those that the index can serve; none:
    # the index's default.
    strategies: tuple[str, ...]
    parameters: Mapping[str, object] = field(default_factory=dict)
    out: Path | None = None  # A file for one row per question and strategy.
    # Those of the strategies that the others are compared with, each or in a list separated by commas; default: the
    # first.
    baselines: tuple[str, ...] = ()
    fail_below: tuple[str, ...] = ()  # Gates like recall@5=.65 or bridge:em=.1.
    min_confidence: float | None = None  # Answers without a model below it are left empty; None: as the settings say.
    is_stored: bool = True  # Whether a run and a report of it are kept under the root.
    sample: int | None = None  # How many questions are asked, chosen at random; None: all.
    seed: int | None = None  # Of the sample; None: 13.
    first: int | None = None  # How many questions are asked, from the first on; None: all, or the sample.
    closed_book: bool = False  # Whether the model that reads also answers without passages, as one more row.
    asks_rest: bool = False  # Whether the questions that the sample leaves out are asked instead.
    where: str | None = None  # A filter of the passages; None: all.


@dataclass(frozen=True, slots=True)
class TuningRequest:
    """Request to tune the settings of a strategy."""

    questions: Path
    index: str
    # One strategy with ranges of parameters; a name alone: its own grid; "": the index's default strategy.
    strategy: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)  # Given to every setting, the default one included.
    metric: str = "recall@5"  # What the settings are chosen by.
    # On how many questions they are tried, chosen at random; None: half of them, at most 500.
    sample: int | None = None
    seed: int | None = None  # Of the sample; None: 13.
    is_stored: bool = True  # Whether the result and a report of it are kept under the root.


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """A question file to submit as one job."""

    questions: Path
    job: JobSpec  # How its questions are to be answered; without a name, it gets the file's.
    skip_bad: bool = False  # Whether bad questions are left out; otherwise a file that has one is refused.


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """Request for maintenance."""

    index: str | None = None  # Name of the only index; None: all.
    dry_run: bool = False  # Change nothing, report what would go.
    queue_days: float | None = None  # Forget jobs that ended so many days ago; None: none.


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a part on disk; a file with several names counts once."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class PartSize:
    """A part before and after."""

    part: str
    before: Size
    after: Size


@dataclass(slots=True)
class MaintenanceReport:
    """Result of maintenance, or of a dry run."""

    dry_run: bool  # Whether nothing was changed.
    removed_versions: dict[str, list[int]] = field(default_factory=dict)  # Numbers of versions by index.
    # How many of other things, by name: "cached vectors", "jobs", "leftovers".
    removed: dict[str, int] = field(default_factory=dict)
    # Bytes of empty pages that were given back to the disk, by part.
    compacted: dict[str, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)  # Parts that were left alone, and why, in sentences.
    parts: list[PartSize] = field(default_factory=list)  # Sizes before and after.

    @property
    def before(self) -> Size:
        """All parts together, before."""
        return sum((part.before for part in self.parts), Size())

    @property
    def after(self) -> Size:
        """All parts together, after."""
        return sum((part.after for part in self.parts), Size())

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop maintain` (architecture.md section 9)."""
        return {**asdict(self), "before": asdict(self.before), "after": asdict(self.after)}


ALL = "all"  # Stands for every strategy.
OWN = "own"  # Stands for the strategies that an index was built for, where `all` stands for all that there are.
MAX_COMBINATIONS = 100  # Variants that one label with ranges may stand for; chosen: more rows than a report can show.
_WHOLE = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Variant:
    """A strategy with parameters that differ from their defaults; `label` is how it was written."""

    label: str
    strategy: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Range:
    """A strategy with several values of some parameters, which stands for every combination of them."""

    label: str
    parameters: tuple[str, ...]  # The parameters with several values, in the order written.
    # Label of each combination -> its values, one per parameter; those of the last one change fastest.
    points: Mapping[str, tuple[str, ...]]


def parse_variant(label: str, common: Mapping[str, object]) -> Variant:
    """A variant from `name` or `name:parameter=value:parameter=value`."""
    strategy, own = _parts(label)
    return Variant(label, strategy, {**common, **own})


def labels_in(text: str, known: Collection[str]) -> list[str]:
    """The labels of a list that is separated by commas, `qasa:decay=.3,.5,bridge`: two labels.

    A part between commas begins a label if the text before its first ':' is the name of a strategy or `all`, or if no
    `parameter=value` stands before it; every other part is a further value of the parameter before it.
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
    """The variants that a label stands for; one without several values stands for itself."""
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
    points = {}
    for chosen in product(*spread.values()):
        given = dict(zip(spread, chosen, strict=True))
        point = ":".join((strategy, *(f"{name}={value}" for name, value in given.items())))
        points[point] = tuple(given[name] for name in several)
    return Range(label, several, points)


def expand_labels(labels: Iterable[str], known: Iterable[str]) -> list[str]:
    """The labels with `all` as the names of `known` and ranges as their variants, each once, where it comes first."""
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
