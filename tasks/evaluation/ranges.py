"""The ranges of a stored run: which variants stand on a curve over a parameter or in a map over two, and where.

Draws nothing (plots_of_ranges.py and plots_of_maps.py do) and takes no label apart (schemas/variants.py does).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from polyhop.tasks.evaluation.documents import MAIN_TRIPLE_METRICS, Document, at, judged_metrics, metric, rows
from polyhop.tasks.evaluation.metrics import CONTAINMENT

RANGE_METRICS = ("recall@2", "recall@5", "recall@10", "mrr", "em", "f1")


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Two parameters of a range whose values are numbers, for one combination of the others.

    Attributes:
        across: The parameter of the columns: the one with fewer values, so that each column has room for numbers.
        down: The parameter of the rows.
        columns: Its values, ascending.
        rows: Likewise.
        labels: (value across, value down) -> label of the variant.
        others: Values of the range's other parameters, "" where there is none.
    """

    across: str
    down: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    labels: Mapping[tuple[str, str], str]
    others: str


@dataclass(frozen=True, slots=True)
class StoredRange:
    """One range of a run.

    Attributes:
        label: As written.
        parameters: Those with several values; curves run over the first.
        points: (label of the variant, its values, one per parameter), in the order of the values as written.
    """

    label: str
    parameters: tuple[str, ...]
    points: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return self.label.partition(":")[0].strip()

    def curves(self) -> dict[str, list[tuple[str, str]]]:
        """{values of the other parameters: [(value of the first parameter, label)]}; "" where there is no other."""
        found: dict[str, list[tuple[str, str]]] = {}
        for label, (value, *others) in self.points:
            name = ", ".join(f"{p}={v}" for p, v in zip(self.parameters[1:], others, strict=True))
            found.setdefault(name, []).append((value, label))
        return found

    def values_of(self, parameter: str) -> list[str]:
        """The values of one of the parameters, each once, in the order written."""
        place = self.parameters.index(parameter)
        return list(dict.fromkeys(values[place] for _, values in self.points))

    def several(self) -> list[str]:
        """The parameters that have two values or more."""
        return [name for name in self.parameters if len(self.values_of(name)) > 1]

    def heat_maps(self) -> list[HeatMap]:
        """One per combination of the other parameters; [] without two parameters that have two numbers or more."""
        numeric = [name for name in self.several() if numbers_of(self.values_of(name)) is not None][:2]
        if len(numeric) < 2:
            return []
        across, down = sorted(numeric, key=lambda name: len(self.values_of(name)))
        columns, rows_ = (tuple(sorted(self.values_of(name), key=float)) for name in (across, down))
        found: dict[str, dict[tuple[str, str], str]] = {}
        for label, values in self.points:
            given = dict(zip(self.parameters, values, strict=True))
            cell = given.pop(across), given.pop(down)
            found.setdefault(", ".join(f"{name}={value}" for name, value in given.items()), {})[cell] = label
        return [HeatMap(across, down, columns, rows_, labels, others) for others, labels in found.items()]


def stored_ranges(run: Document) -> list[StoredRange]:
    """The ranges of a run, in the order written; runs from before there were any have none."""
    return [
        StoredRange(
            label=str(row["label"]),
            parameters=tuple(map(str, row["parameters"])),
            points=tuple((str(at(point, "label")), tuple(map(str, point["values"]))) for point in rows(row, "points")),
        )
        for row in rows(run, "ranges")
    ]


def metrics_of(run: Document, one: StoredRange) -> list[str]:
    """The main metrics in which a point of the range was judged."""
    names = judged_metrics(run, (*RANGE_METRICS, CONTAINMENT, *MAIN_TRIPLE_METRICS))
    return [name for name in names if any(metric(run, label, name) is not None for label, _ in one.points)]


def numbers_of(values: list[str]) -> list[float] | None:
    """The values as numbers; None if one is a word."""
    try:
        return [float(value) for value in values]
    except ValueError:
        return None
