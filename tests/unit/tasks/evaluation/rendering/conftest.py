"""Small documents of a stored evaluation, as the flow writes them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

METRICS = (
    *(f"recall@{k}" for k in (1, 2, 5, 10, 20, 30)),
    *(f"hit@{k}" for k in (1, 5, 10)),
    *(f"all@{k}" for k in (5, 10)),
    "mrr",
    "em",
    "f1",
)
Documents = tuple[dict[str, Any], dict[str, Any]]


def _result(place: int) -> dict[str, Any]:
    """The first strategy is the best in everything but recall@1."""
    values = {name: round(max(0.05, 0.9 - 0.03 * place - 0.02 * number), 6) for number, name in enumerate(METRICS)}
    values["recall@1"] = 0.3 + 0.01 * place
    return {
        **values,
        "intervals": {name: {"low": value - 0.1, "high": value + 0.1} for name, value in values.items()},
        "answered": {"share": 0.8, "em": 0.25, "f1": 0.35},
        "shown": {"share": 0.3, "em": 0.75, "f1": 0.85},
        "sentence_hit": 0.6,
        "calibration": [{"n": 16, "stated": 0.1 + 0.18 * group, "observed": 0.15 + 0.1 * group} for group in range(5)],
        "coverage": [
            {"coverage": step / 20, "precision": 0.9 - step / 40, "confidence": 1 - step / 20} for step in range(1, 17)
        ],
        "tokens": {"prompt": 1200 + place, "completion": 80},
        "cost_usd": 0.0123,
        "failures": 0,
        "failed": [],
    }


def _difference(place: int) -> dict[str, Any]:
    middle = -0.03 * place
    return {
        "difference": middle,
        "low": middle - 0.05,
        "high": middle + 0.05,
        "wins": 4,
        "ties": 90,
        "losses": 6 + place,
        "significant": middle + 0.05 < 0,
    }


def _timing(place: int) -> dict[str, Any]:
    parts = {"encoding": 5.0, "seed": 1.0 + place, "traversal": 2.0 * place, "reading": 3.0}
    total = sum(parts.values())
    spread = {"p50": 1.0, "p95": 2.0, "p99": 3.0, "mean": 1.2}
    return {
        "latency_ms": {name: total * factor for name, factor in spread.items()},
        "parts_ms": {part: {name: value * factor for name, factor in spread.items()} for part, value in parts.items()},
        "total_seconds": total / 10,
    }


def _groups(labels: Sequence[str], sizes: Mapping[str, int]) -> dict[str, Any]:
    return {
        group: {
            "n": size,
            "strategies": {
                label: {name: max(0.0, 0.95 - 0.15 * column - 0.02 * place) for name in METRICS}
                for place, label in enumerate(labels)
            },
        }
        for column, (group, size) in enumerate(sizes.items())
    }


def make_documents(labels: Sequence[str]) -> Documents:
    """A run of these strategies and its timings; the first one is the baseline."""
    run = {
        "format": 1,
        "index": "films",
        "version": 3,
        "questions": {
            "file": "questions.jsonl",
            "sha256": "ab" * 32,
            "n": 100,
            "excluded": 2,
            "sample": None,
            "unknown_supporting": 0,
        },
        "strategies": list(labels),
        "parameters": {},
        "left_out": {},
        "ranges": [],
        "polyhop": "1.0",
        "interval": {"kind": "percentile bootstrap", "level": 0.95, "resamples": 10_000, "seed": 13},
        "settings_hash": "cd" * 32,
        "seed": 13,
        "reader": "rules",
        "depth": 100,
        "results": {label: _result(place) for place, label in enumerate(labels)},
        "baseline": labels[0],
        "baselines": [labels[0]],
        "paired_further": {},
        "paired": {
            label: dict.fromkeys(METRICS, _difference(place)) for place, label in enumerate(labels) if place > 0
        },
        "by_hops": _groups(labels, {"2": 50, "3": 30, "4": 20}),
        "by_type": _groups(labels, {"bridge": 70, "comparison": 30}),
    }
    timings = {
        "started": "2026-11-21T10:43:32+00:00",
        "seconds": 31.4,
        "machine": {"processor": "x86_64", "cores": 2},
        "strategies": {label: _timing(place) for place, label in enumerate(labels)},
        "costs": {},
        "peak_rss_mb": 812.5,
    }
    return run, timings


@pytest.fixture
def documents() -> Callable[[Sequence[str]], Documents]:
    return make_documents


@pytest.fixture
def empty_documents() -> Documents:
    """A run of two strategies in which nothing could be judged or measured."""
    labels = ["bridge", "dense"]
    run, timings = make_documents(labels)
    spread = dict.fromkeys(("p50", "p95", "p99", "mean"))
    for label in labels:
        run["results"][label] |= {
            **dict.fromkeys([*METRICS, "calibration", "coverage"]),
            "intervals": dict.fromkeys(METRICS),
            "answered": dict.fromkeys(("share", "em", "f1")),
            "shown": dict.fromkeys(("share", "em", "f1")),
            "sentence_hit": None,
            "tokens": {"prompt": 0, "completion": 0},
            "cost_usd": 0.0,
        }
        timings["strategies"][label] = {"latency_ms": spread, "parts_ms": {}, "total_seconds": 0.0}
    run |= {"paired": {"dense": {}}, "by_hops": {}, "by_type": {}}
    return run, timings
