"""Fits the confidence of answers that the reader extracts: how often those like it are right.

Run: uv run python benchmarks/reader_calibration.py [--root FOLDER] [--musique FOLDER]
A logistic regression (ridge .01 per question on standardised values) over the questions that the rules were not tuned
on, benchmarks/data/unseen (dev) and MuSiQue-100; prints the constants of worker/reading/candidates.py, and how many
answers of each set are shown and right with them.
"""

import argparse
import tempfile
from contextlib import ExitStack
from math import log
from pathlib import Path
from unittest.mock import patch

import numpy as np
from reader_ablation import SHARED, UNSEEN, QuestionSet, is_right, question_sets

from polyhop.worker.reading.candidates import MOST_CERTAIN, Best
from polyhop.worker.reading.reader import MIN_CONFIDENCE, RuleReader

_NAMES = ("_SHARE", "_SCORE", "_AGREES", "_STEPS", "_BIAS")


def main() -> None:
    """Prints the constants and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--musique", type=Path, default=SHARED / "musique100")
    arguments = parser.parse_args()
    arguments.wiki = Path("/nonexistent")  # comparisons are computed, not extracted
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        sets = list(question_sets(arguments, arguments.root or Path(folder), opened))
        tables = [told_of(one) for one in sets]
        untuned = [table for one, table in zip(sets, tables, strict=True) if one.name in (*UNSEEN, "musique")]
        rows = np.concatenate(untuned)
        weights = fitted(rows[:, :-1], rows[:, -1])
        print(", ".join(f"{name} = {weight:.3f}" for name, weight in zip(_NAMES, weights, strict=True)))
        print("| set | extracted | shown | of these right |\n|---|---|---|---|")
        for one, table in zip(sets, tables, strict=True):
            told = 1 / (1 + np.exp(-(table[:, :-1] @ weights[:-1] + weights[-1])))
            shown = np.minimum(told, MOST_CERTAIN) >= MIN_CONFIDENCE
            print(f"| {one.name} | {len(table)} | {shown.sum()} | {int(table[shown, -1].sum())} |")


def told_of(one: QuestionSet) -> np.ndarray:
    """What is known of each answer that is extracted, and 1 if it is right."""
    told: list[list[float]] = []

    def record(best: Best, *, is_shown: bool, is_one_step: bool) -> float:
        told.append([log(best.share), best.score, float(is_shown), float(not is_one_step)])
        return 1.0

    rows = []
    with patch.object(Best, "confidence", record):
        reader = RuleReader(one.index, one.encode)
        for item, golds in zip(one.items, one.golds, strict=True):
            told.clear()
            (reading,) = reader.read([item])
            if told:
                rows.append([*told[0], float(bool(golds) and is_right(reading, golds))])
    return np.array(rows)


def fitted(rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Weights of the values and, last, the bias: Newton's method with a ridge."""
    mean, scale = rows.mean(0), rows.std(0)
    x = np.column_stack([(rows - mean) / scale, np.ones(len(rows))])
    ridge = np.diag([0.01 * len(rows)] * rows.shape[1] + [0.0])
    weights = np.zeros(x.shape[1])
    for _ in range(50):
        share = 1 / (1 + np.exp(-(x @ weights)))
        gradient = x.T @ (right - share) - ridge @ weights
        weights += np.linalg.solve((x.T * (share * (1 - share))) @ x + ridge, gradient)
    own = weights[:-1] / scale
    return np.array([*own, weights[-1] - float(own @ mean)])


if __name__ == "__main__":
    main()
