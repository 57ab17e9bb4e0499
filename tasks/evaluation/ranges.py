"""The ranges of a stored run: which variants stand on a curve over a parameter, and where.

Draws nothing (plots_of_ranges.py does) and takes no label apart (schemas/variants.py does).
"""

from dataclasses import dataclass

from polyhop.tasks.evaluation.documents import MAIN_TRIPLE_METRICS, Document, at, judged_metrics, metric, rows

RANGE_METRICS = ("recall@2", "recall@5", "recall@10", "mrr", "em", "f1")


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
    names = judged_metrics(run, (*RANGE_METRICS, *MAIN_TRIPLE_METRICS))
    return [name for name in names if any(metric(run, label, name) is not None for label, _ in one.points)]


def numbers_of(values: list[str]) -> list[float] | None:
    """The values as numbers; None if one is a word."""
    try:
        return [float(value) for value in values]
    except ValueError:
        return None
