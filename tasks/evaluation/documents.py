"""What the documents of a stored run say to the page, the plots and the summary: values, order, what stands out.

A missing or null value reads as None, never as 0.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from polyhop.tasks.evaluation.metrics import CONTAINMENT, TRIPLE_METRICS

Document = Mapping[str, Any]

SHOWN_METRICS = (
    *(f"recall@{k}" for k in (1, 2, 5, 10, 20, 30)),
    *(f"hit@{k}" for k in (1, 5, 10)),
    *(f"all@{k}" for k in (5, 10)),
    "mrr",
    "em",
    "f1",
    "containment",
)
SHOWN_TRIPLE_METRICS = (
    tuple(name for name in TRIPLE_METRICS if name.startswith("triple_recall")),
    tuple(name for name in TRIPLE_METRICS if not name.startswith("triple_recall")),
)
"""In two groups: all at once would be a table wider than the page."""
MAIN_TRIPLE_METRICS = ("triple_recall@10", "triple_recall@30", "triple_hit@10", "triple_mrr")
MAIN_METRICS = (
    *(f"recall@{k}" for k in (1, 2, 5, 10, 20, 30)),
    *("hit@10", "all@5", "mrr", *MAIN_TRIPLE_METRICS, "em", "f1", "containment"),
)
COMPARED_METRICS = ("recall@5", "mrr", "triple_recall@10", "triple_mrr", "em", "f1", "containment")
LEADING_METRICS = ("recall@5", "mrr", "triple_recall@10", "triple_mrr", "f1", "em")
RANGE_METRICS = ("recall@2", "recall@5", "recall@10", "mrr", "em", "f1", CONTAINMENT, *MAIN_TRIPLE_METRICS)
HIGHLIGHTED = 8  # curves of a plot; chosen: there are seven colours, and more lines are not told apart
PARTS = ("encoding", "seed", "traversal", "reading")


def at(document: object, *keys: str) -> Any:
    """The value under nested keys, None where one of them is missing."""
    for key in keys:
        if not isinstance(document, Mapping) or key not in document:
            return None
        document = document[key]
    return document


def number(document: object, *keys: str) -> float | None:
    """The finite number under nested keys, None if there is none."""
    value = at(document, *keys)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


def rows(document: object, *keys: str) -> list[Document]:
    """The list of objects under nested keys, empty if there is none."""
    value = at(document, *keys)
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else []


def long_answers_sentence(found: Document) -> str:
    """What long gold answers (`long_answers` of a report) mean for the metrics."""
    return (
        f"The gold answers are long (median {found['median_words']:g} words), so answers are judged by token F1 and "
        "containment (the share of a gold answer's content words), not by exact match, and confidence is not judged."
    )


def labels(run: Document) -> list[str]:
    """The strategies of a run, in the order they were named."""
    return [str(label) for label in run["strategies"]]


def metric(run: Document, label: str, name: str) -> float | None:
    """A strategy's mean over the questions; None if it was not judged."""
    return number(run, "results", label, name)


def interval(run: Document, label: str, name: str) -> tuple[float, float] | None:
    """The interval of a strategy's mean; None if it was not judged, or the run is older than intervals."""
    low, high = (number(run, "results", label, "intervals", name, key) for key in ("low", "high"))
    return None if low is None or high is None else (low, high)


def interval_words(run: Document) -> str:
    """What the intervals of means are: "95 %, percentile bootstrap …"; empty if the run is older than intervals."""
    level, resamples = number(run, "interval", "level"), number(run, "interval", "resamples")
    if level is None or resamples is None:
        return ""
    return f"{100 * level:.0f} %, {at(run, 'interval', 'kind')}, {resamples:,.0f} resamples"


def baselines(run: Document) -> list[str]:
    """The strategies that the others are compared with; runs from before there could be several have one."""
    found = at(run, "baselines") or [at(run, "baseline")]
    return [str(label) for label in found if label is not None]


def paired(run: Document, baseline: str) -> Document:
    """{strategy: {metric: …}}: every other strategy minus a baseline."""
    found = at(run, "paired") if baseline == run.get("baseline") else at(run, "paired_further", baseline)
    return found if isinstance(found, Mapping) else {}


def judged_metrics(run: Document, names: Iterable[str]) -> list[str]:
    """Those of the metrics that at least one strategy has a value for."""
    return [name for name in names if any(metric(run, label, name) is not None for label in labels(run))]


def leading_metric(run: Document) -> str | None:
    """The metric that orders the strategies: recall@5 where passages are judged, else of triples, else of answers."""
    return next(iter(judged_metrics(run, LEADING_METRICS)), None)


def ranked(run: Document, name: str | None = None) -> list[str]:
    """The strategies, in descending order of score by a metric (the leading one unless named).

    Equal ones come as the leading metric has them, then as they were named; those without a value come last.
    """
    leading = leading_metric(run)
    keys = [key for key in (name, leading) if key is not None]

    def place(label: str) -> tuple[float, ...]:
        values = (metric(run, label, key) for key in keys)
        return tuple(float("inf") if value is None else -value for value in values)

    return sorted(labels(run), key=place)


def highlighted(run: Document, candidates: Sequence[str]) -> list[str]:
    """The strategies that get a colour of their own where all would be a tangle: the best ones and the baselines.

    Args:
        run: The document of a run.
        candidates: Strategies with something to draw, in descending order of score.
    """
    if len(candidates) <= HIGHLIGHTED:
        return list(candidates)
    kept = [label for label in baselines(run) if label in candidates][:HIGHLIGHTED]
    others = [label for label in candidates if label not in kept][: HIGHLIGHTED - len(kept)]
    return [label for label in candidates if label in kept or label in others]


def best_labels(run: Document, name: str) -> list[str]:
    """The strategies that share the highest value of a metric, in the order they were named."""
    values = {label: metric(run, label, name) for label in labels(run)}
    top = max((value for value in values.values() if value is not None), default=None)
    return [label for label, value in values.items() if value is not None and value == top]


def recall_depths(run: Document, prefix: str = "") -> list[int]:
    """Every k that some strategy has a recall@k for (with a prefix: of triples), ascending."""
    found = {
        int(match[1])
        for label in labels(run)
        for name, value in (at(run, "results", label) or {}).items()
        if value is not None and (match := re.fullmatch(rf"{prefix}recall@([1-9]\d*)", str(name)))
    }
    return sorted(found)


def latency(timings: Document, label: str, quantile: str) -> float | None:
    """Milliseconds per question of a strategy at p50, p95, p99 or mean; None if unmeasured."""
    return number(timings, "strategies", label, "latency_ms", quantile)


def parts(timings: Document, names: Iterable[str]) -> list[str]:
    """The parts of the latency that some strategy measured, in the order in which a question passes them."""
    found = {str(part) for label in names for part in at(timings, "strategies", label, "parts_ms") or {}}
    return [part for part in PARTS if part in found] + sorted(found.difference(PARTS))


def groups(run: Document, kind: str) -> dict[str, Document]:
    """The question groups of "by_hops", "by_type" or, as "by_field/NAME", of a field of the question file.

    Numbers come first, ascending, then words in alphabetical order.
    """
    found = at(run, *kind.split("/", maxsplit=1))
    if not isinstance(found, Mapping):
        return {}
    names = sorted(map(str, found), key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))
    return {name: found[name] for name in names if isinstance(found[name], Mapping)}


def fields(run: Document) -> list[str]:
    """The fields of the question file that group the questions; runs from before there were any have none."""
    found = at(run, "by_field")
    return [str(name) for name in found] if isinstance(found, Mapping) else []


def group_title(kind: str, name: str) -> str:
    """How a group is called where people read it."""
    if kind != "by_hops":
        return name
    return f"{name} hop" if name == "1" else f"{name} hops"


@dataclass(frozen=True, slots=True)
class StoredRange:
    """A strategy that a run evaluated with several values of some parameters.

    Attributes:
        label: As written.
        parameters: Those with several values.
        points: (label of the variant, its values, one per parameter), in the order of the values as written.
    """

    label: str
    parameters: tuple[str, ...]
    points: tuple[tuple[str, tuple[str, ...]], ...]


def stored_ranges(run: Document) -> list[StoredRange]:
    """The ranges of a run, in the order written."""
    return [
        StoredRange(
            label=str(row["label"]),
            parameters=tuple(map(str, row["parameters"])),
            points=tuple((str(at(point, "label")), tuple(map(str, point["values"]))) for point in rows(row, "points")),
        )
        for row in rows(run, "ranges")
    ]


def range_metrics(run: Document, one: StoredRange) -> list[str]:
    """The main metrics in which a point of the range was judged."""
    labels_ = [label for label, _ in one.points]
    return [name for name in RANGE_METRICS if any(metric(run, label, name) is not None for label in labels_)]
