"""Answers of the reader on dev questions: spans from logits, exact match and F1."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.text import norm_answer

SHAPES = (64, 96, 128, 160, 192)  # tokens of a row in batches
TOP, MOST_PIECES, SPANS = 15, 20, 10  # starts and ends combined; pieces of an answer; spans of a passage

DevRow = dict[str, Any]
"""Input row of a passage with its `text`, and `logits` (tokens, 2) once it was read."""


def read_dev(path: Path, most: int | None = None) -> list[dict[str, Any]]:
    """Dev records in the file's order, at most so many of each source."""
    chosen, counts = [], Counter[str]()
    with path.open(encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            counts[record["source"]] += 1
            if most is None or counts[record["source"]] <= most:
                chosen.append(record)
    return chosen


def dev_batches(
    rows: Sequence[Mapping[str, Any]], size: int = 16
) -> Iterator[tuple[list[int], tuple[NDArray[Any], ...]]]:
    """Rows in batches of few shapes: their numbers, and ids, types and mask."""
    order = sorted(range(len(rows)), key=lambda number: (len(rows[number]["ids"]), number))
    shapes = defaultdict[int, list[int]](list)
    for number in order:
        shapes[next(shape for shape in SHAPES if len(rows[number]["ids"]) <= shape)].append(number)
    for shape, numbers in shapes.items():
        for at in range(0, len(numbers), size):
            chosen = numbers[at : at + size]
            ids, types, mask = (np.zeros((size, shape), np.int32) for _ in range(3))
            mask[:, 0] = 1
            for slot, number in enumerate(chosen):
                tokens, segment = rows[number]["ids"], rows[number]["segment"]
                ids[slot, : len(tokens)] = tokens
                types[slot, segment : len(tokens)] = 1
                mask[slot, : len(tokens)] = 1
            yield chosen, (ids, types, mask)


def best_answer(rows: Sequence[Mapping[str, Any]]) -> tuple[str, float]:
    """The answer with the largest total probability over all spans of all passages.

    Returns:
        The answer, and how far its best span's score is above the mean score of "not here".
    """
    spans = [span for row in rows for span in _spans(row)]
    top = max((score for score, _ in spans), default=0.0)
    shares = defaultdict[str, float](float)
    best: dict[str, tuple[float, str]] = {}
    for score, text in spans:
        key = norm_answer(text)
        if key:
            shares[key] += float(np.exp(score - top))
            best[key] = max(best.get(key, (-np.inf, "")), (score, text))
    if not shares:
        return "", 0.0
    score, text = best[max(shares, key=lambda key: (shares[key], key))]
    return text.strip(" ,;:"), score - float(np.mean([float(row["logits"][0].sum()) for row in rows]))


def _spans(row: Mapping[str, Any]) -> list[tuple[float, str]]:
    """The best spans of a passage: score and text."""
    starts, ends = row["logits"][row["first"] : row["last"]].T
    first, last = (np.argsort(-side, kind="stable")[:TOP] for side in (starts, ends))
    pairs = [(float(starts[a] + ends[b]), a, b) for a in first for b in last if a <= b < a + MOST_PIECES]
    best = sorted(pairs, reverse=True)[:SPANS]
    return [(score, row["text"][row["offsets"][a][0] : row["offsets"][b][1]]) for score, a, b in best]


def scores_of(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """EM, F1, and the share of questions whose answer is above "not here", by source."""
    totals = defaultdict[str, list[tuple[float, float, float]]](list)
    for record in records:
        answer, lead = best_answer(record["rows"])
        totals[record["source"]].append((*em_f1(answer, record["answers"]), float(lead > 0)))
    names = ("em", "f1", "above_null")
    return {
        source: {"n": len(values), **dict(zip(names, np.mean(values, 0).round(4).tolist(), strict=True))}
        for source, values in totals.items()
    }


def em_f1(answer: str, golds: Sequence[str]) -> tuple[float, float]:
    """SQuAD's exact match and F1, the best over the gold answers."""
    words = norm_answer(answer).split()
    pairs = [(0.0, 0.0)]
    for gold in golds:
        wanted = norm_answer(gold).split()
        shared = sum((Counter(words) & Counter(wanted)).values())
        is_equal = float(words == wanted)
        pairs.append((is_equal, is_equal or 2 * shared / max(1, len(words) + len(wanted))))
    return max(pairs)
