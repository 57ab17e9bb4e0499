"""Fits the confidence of a model's answers on replies of Qwen2.5-Coder-1.5B, and compares it with the right answers.

Run: uv run python benchmarks/model_confidence.py [FOLDER]
The replies are those of tests/golden/recorded to the demo's questions, and with FOLDER those of the table `readers` of
benchmarks/papers/with_a_model.py FOLDER --local --rules. No model is asked. An answer is right if its token F1 is at
least .5. Prints `_BIAS` and `_WEIGHTS` of worker/reading/models.py. Source: reader.md, Answers of a model.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT), str(PROJECT / "tests" / "support"), str(PROJECT / "benchmarks" / "papers")]
import with_a_model as tables  # noqa: E402 - found by the line above
from recorded_replies import BY_RULES, DEMO, Recording, read_by_model, settings_in  # noqa: E402

from polyhop.api import open_index  # noqa: E402
from polyhop.flows.evaluation.bootstrap import DEFAULT_SEED, sampled  # noqa: E402
from polyhop.flows.evaluation.metrics import token_f1  # noqa: E402
from polyhop.schemas.errors import ModelKeyError  # noqa: E402
from polyhop.schemas.settings import Settings  # noqa: E402
from polyhop.warehouse.files.questions import usable_questions  # noqa: E402
from polyhop.warehouse.models import chat  # noqa: E402
from polyhop.worker.reading import models  # noqa: E402
from weights.training.reader_confidence import fitted  # noqa: E402

RIGHT = 0.5  # Least token F1 of a right answer.
BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer of the model: the features of its confidence, and whether it is right."""

    features: Sequence[float]
    is_right: bool
    confidence: float


@contextmanager
def collected() -> Iterator[list[models.Support]]:
    """The support of each answer that is made meanwhile, in order."""
    found: list[models.Support] = []
    confidence_of = models.confidence_of

    def noted(support: models.Support) -> float:
        found.append(support)
        return confidence_of(support)

    models.confidence_of = noted
    try:
        yield found
    finally:
        models.confidence_of = confidence_of


def judged(settings: Settings, index: str, path: Path, strategy: str, size: int) -> list[Judged]:
    """Answers of the model to a sample of questions that have a source that holds."""
    rows: list[Judged] = []
    with open_index(index, settings=settings) as opened, collected() as supports:
        for question in sampled(usable_questions(path)[0], size, DEFAULT_SEED):
            supports.clear()
            try:
                answer = opened.ask(question.question, strategy=strategy)
            except ModelKeyError:  # no usable reply was kept, and none is asked for
                continue
            if any(support.relevance for support in supports):
                reading: dict[str, Any] = answer.to_json()["reading"]
                is_right = token_f1(answer.answer, question.answers) >= RIGHT
                rows.append(Judged(supports[0], is_right, reading["confidence"]))
    return rows


def main() -> None:
    """Prints the fit, and how many answers are right by confidence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sample", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        settings = settings_in(Path(temporary) / "root", **BY_RULES)
        recording = Recording()
        completions = chat.Completions  # type: ignore[attr-defined]
        chat.Completions = lambda *_: recording  # type: ignore[assignment, attr-defined]
        read_by_model(settings)
        rows = judged(settings, "demo", DEMO / "questions.jsonl", "bridge-lexical", sys.maxsize)
        chat.Completions = completions  # type: ignore[attr-defined]
    if given.folder is not None:
        arguments = [str(given.folder), "--local", "--rules", "--sample", str(given.sample)]
        recipe = tables.recipe_of(tables.parsed(arguments), None)
        questions = recipe.sources["corpus"][1]
        for strategy in tables.READ_STRATEGIES.split(","):
            rows += judged(recipe.settings_of("corpus"), "corpus", questions, strategy, given.sample)
    bias, weights = fitted(rows)  # type: ignore[arg-type]
    print(f"{len(rows)} answers, {sum(row.is_right for row in rows)} right")
    print(f"_BIAS, _WEIGHTS = {bias:.2f}, ({', '.join(f'{weight:.2f}' for weight in weights)})\n")
    print("| confidence | answers | stated | right |\n|---|---|---|---|")
    for low, high in pairwise(BINS):
        inside = [row for row in rows if low <= row.confidence < high]
        if inside:
            stated, right = (np.mean([getattr(row, name) for row in inside]) for name in ("confidence", "is_right"))
            print(f"| {low} to {high} | {len(inside)} | {stated:.2f} | {right:.2f} |")


if __name__ == "__main__":
    main()
