"""Fits the confidence of the span reader: `uv run python weights/training/reader_confidence.py FOLDER`.

Questions over several passages that training has not seen (HotpotQA's part for dev, and MuSiQue-100) are read with the
passages that `bridge` retrieves, and a second time without those that contain an answer: then no answer is right.
FOLDER keeps corpora, indexes and passages, so that a second run reads only. Prints the constants of
worker/reading/reader.py, and what is shown at several thresholds for the fitted sets and for sets that were not fitted.
"""

import argparse
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))  # the project need not be installed

from polyhop.api import open_index  # noqa: E402 - found by the line above
from polyhop.flows.evaluation.metrics import exact_match, token_f1  # noqa: E402
from polyhop.flows.index import run_index  # noqa: E402
from polyhop.flows.runner import DirectRunner  # noqa: E402
from polyhop.schemas.query import ContextPassage  # noqa: E402
from polyhop.schemas.requests import IndexRequest  # noqa: E402
from polyhop.schemas.settings import Settings  # noqa: E402
from polyhop.warehouse.artefacts import NAMES, lexical_of  # noqa: E402
from polyhop.warehouse.models.span_model import LocalSpanModel  # noqa: E402
from polyhop.worker.reading.comparisons import compute  # noqa: E402
from polyhop.worker.reading.pages import Similarity, StemWeights, on_subject, pages_of  # noqa: E402
from polyhop.worker.reading.question import YES_NO, parse_question  # noqa: E402
from polyhop.worker.reading.reader import ANALYSER  # noqa: E402
from polyhop.worker.reading.spans import read_spans  # noqa: E402
from weights.training.reader_text import holds_any  # noqa: E402

Records = list[dict[str, Any]]
RETRIEVED, READ = 16, 8  # passages that are retrieved, and of these, without those that are left out, given to read
RIGHT = 0.5  # token F1 from which an answer counts as right
REGULAR = 1.0  # L2 on standardised features
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7)  # of the printed table; chosen
FITTED = ("hotpotqa", "musique100")  # over several passages
JUDGED = ("squadshifts", "documents", "unseen", "wiki2")


class Case(NamedTuple):
    """A guess with exact match and F1; `is_answered` if the passages may hold the answer, `is_first` of a question.

    A computed answer has no features, but a confidence.
    """

    features: tuple[float, ...] | None
    confidence: float
    em: float
    f1: float
    is_answered: bool
    is_first: bool

    @property
    def is_right(self) -> bool:
        """Returns whether F1 is high enough."""
        return self.f1 >= RIGHT


def lines_of(path: Path) -> Records:
    """The records of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def dev_set(data: Path, source: str) -> tuple[Records, Records]:
    """Passages and questions of a source's dev part in reader_training."""
    groups = defaultdict(list)
    with gzip.open(data / "reader_training" / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["split"] == "dev" and row["source"].startswith(source):
                groups[row["group"]].append(row)
    texts = dict.fromkeys((row["title"], row["text"]) for rows in groups.values() for row in rows)
    corpus = [{"id": f"p{number}", "title": title, "text": text} for number, (title, text) in enumerate(texts)]
    asked = [{"question": rows[0]["question"], "answers": rows[0]["answers"]} for rows in groups.values()]
    return corpus, asked


def sets_of(data: Path) -> dict[str, Callable[[], tuple[Records, Records]]]:
    """Corpora and questions by name."""
    own = PROJECT / "benchmarks" / "data"

    def unseen() -> tuple[Records, Records]:
        files = sorted((own / "unseen").glob("*.jsonl"))
        asked = [file for file in files if file.stem.endswith("_questions")]
        corpora = [file for file in files if file not in asked]
        return [row for file in corpora for row in lines_of(file)], [row for file in asked for row in lines_of(file)]

    def folder(path: Path) -> Callable[[], tuple[Records, Records]]:
        return lambda: (lines_of(path / "corpus.jsonl"), lines_of(path / "questions.jsonl"))

    return {
        "hotpotqa": lambda: dev_set(data, "hotpotqa"),
        "squadshifts": lambda: dev_set(data, "squadshifts"),
        "musique100": folder(data / "musique100"),
        "documents": folder(own / "reader"),
        "unseen": unseen,
        "wiki2": folder(data / "wiki2"),
    }


def retrieved(out: Path, name: str, make: Callable[[], tuple[Records, Records]]) -> Records:
    """The questions of a set with the passages that `bridge` retrieves."""
    kept = out / f"{name}.jsonl"
    if not kept.exists():
        corpus, asked = make()
        file = out / f"{name}-corpus.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in corpus), encoding="utf-8")
        run_index(Settings(root=out / "root"), IndexRequest(name, file), DirectRunner())
        with open_index(name, root=out / "root") as index:
            answers = index.ask_batch([row["question"] for row in asked], limit=RETRIEVED, reads=False)
        rows = [{**row, "passages": list(answer.passages)} for row, answer in zip(asked, answers, strict=True)]
        kept.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return lines_of(kept)


def cases(out: Path, name: str, rows: Records, model: LocalSpanModel) -> Iterator[Case]:
    """Guesses that are spans, of each question with all passages and without those that contain an answer."""
    with open_index(name, root=out / "root") as index:
        published, encode = index.session.published, index.session.services.encode
        similar = Similarity(published, encode, StemWeights(published.artefact(lexical_of(ANALYSER))))
        names = published.artefact(NAMES)
        for row in rows:
            golds, question = row["answers"], parse_question(row["question"], names.find(row["question"]))
            without = [one for one in row["passages"] if not holds_any(f"{one['title']} {one['text']}", golds)]
            chosen = [(row["passages"], bool(golds), True)]
            if golds and len(without) < len(row["passages"]):
                chosen.append((without, False, False))
            for passages, is_answered, is_first in chosen:
                context = [
                    ContextPassage(one["id"], one["title"], one["text"], rank, 1 / rank)
                    for rank, one in enumerate(passages[:READ], 1)
                ]
                pages = pages_of(context)
                computed = compute(question, pages, similar)
                guess, found = "" if computed is None else computed.answer, None
                if not guess and question.expected != YES_NO:
                    found = read_spans(question, pages, on_subject(pages, question.names), similar, model)
                    guess = "" if found is None else found.best.answer
                features = found.features if found is not None and computed is None else None
                judged = (exact_match(guess, golds), token_f1(guess, golds)) if golds else (0.0, 0.0)
                confidence = computed.confidence if computed is not None else 0.0
                yield Case(features, confidence, *judged, is_answered, is_first)


def fitted(found: Sequence[Case]) -> tuple[float, NDArray[np.float64]]:
    """Bias and weights of a logistic regression, by Newton's method on standardised features."""
    raw = np.array([case.features for case in found])
    mean, scale = raw.mean(0), raw.std(0)
    rows = np.column_stack((np.ones(len(raw)), (raw - mean) / scale))
    labels = np.array([case.is_right for case in found], float)
    weights, penalty = np.zeros(rows.shape[1]), np.diag([0.0, *[REGULAR] * raw.shape[1]])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-rows @ weights))
        hessian = rows.T @ (rows * (chance * (1 - chance))[:, None]) + penalty
        weights = weights - np.linalg.solve(hessian, rows.T @ (chance - labels) + penalty @ weights)
    slopes = weights[1:] / scale
    return float(weights[0] - slopes @ mean), slopes


def main() -> None:
    """Fits, and prints the constants and a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the data")
    parser.add_argument("--reader", type=Path, help="folder of another reader.onnx than the installed one")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    model, makers = LocalSpanModel(folder=arguments.reader), sets_of(arguments.data)
    found = {}
    for name in (*FITTED, *JUDGED):
        rows = retrieved(arguments.folder, name, makers[name])
        found[name] = list(cases(arguments.folder, name, rows, model))
    bias, slopes = fitted([case for name in FITTED for case in found[name] if case.features is not None])
    print(f"_BIAS, _SLOPES = {bias:.2f}, ({', '.join(f'{slope:.2f}' for slope in slopes)})")
    print("\n| set | EM | F1 | threshold | answerable | shown | right | unanswerable | shown |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, chosen in found.items():
        confidences = np.array(
            [
                case.confidence if case.features is None else 1 / (1 + np.exp(-(bias + np.dot(slopes, case.features))))
                for case in chosen
            ]
        )
        answered, right = (np.array([getattr(case, key) for case in chosen]) for key in ("is_answered", "is_right"))
        means = np.mean([(case.em, case.f1) for case in chosen if case.is_first and case.is_answered], axis=0)
        for threshold in THRESHOLDS:
            shown = confidences >= threshold
            counts = (answered.sum(), (shown & answered).sum(), (shown & answered & right).sum(), (~answered).sum())
            values = (*(f"{mean:.3f}" for mean in means), threshold, *counts, (shown & ~answered).sum())
            print(f"| {name} | {' | '.join(map(str, values))} |")


if __name__ == "__main__":
    main()
