"""Metrics of an answer, and of a ranking of passages or triples, against gold. Source: algorithms.md 6.1, 6.2, 6.4."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import fsum, log2

import numpy as np

from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.names import FUNCTION_WORDS
from polyhop.schemas.records import GoldenTriple, Prediction, TripleIds
from polyhop.schemas.text import norm_answer

MRR_DEPTH = 100  # algorithms.md 6.2.
CONTAINMENT = "containment"  # the metric of `containment`, where gold answers are long
_CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1.0 if the prediction equals one of the (one or more) gold answers after normalisation, else 0.0.

    Source: algorithms.md 6.1.
    """
    predicted = norm_answer(prediction)
    return float(any(predicted == norm_answer(answer) for answer in answers))


def token_f1(prediction: str, answers: Sequence[str], *, hotpot_yes_no: bool = False) -> float:
    """Overlap of the token multisets with the nearest of the gold answers, 2PR / (P + R); 1.0 if both are empty.

    `hotpot_yes_no`: 0 where one side is yes, no or noanswer and the other differs.
    Source: algorithms.md 6.1 (SQuAD; HotpotQA's official script for the special case).
    """
    predicted = norm_answer(prediction)
    return max(_pair_f1(predicted, norm_answer(answer), hotpot_yes_no=hotpot_yes_no) for answer in answers)


def sentence_hit(sentences: Sequence[str], answers: Sequence[str]) -> float:
    """1.0 if one of the gold answers occurs in one of the sentences as whole words after normalisation, else 0.0."""
    golds = [f" {normed} " for answer in answers if (normed := norm_answer(answer))]
    return float(any(gold in f" {norm_answer(sentence)} " for sentence in sentences for gold in golds))


def _pair_f1(predicted: str, gold: str, *, hotpot_yes_no: bool) -> float:
    if predicted == gold:
        return 1.0
    if hotpot_yes_no and (predicted in _CLOSED_ANSWERS or gold in _CLOSED_ANSWERS):
        return 0.0
    predicted_tokens, gold_tokens = predicted.split(), gold.split()
    shared = (Counter(predicted_tokens) & Counter(gold_tokens)).total()
    # 2PR / (P + R) in one division; the sum is above 0 because the two sides differ.
    return 2 * shared / (len(predicted_tokens) + len(gold_tokens))


def containment(prediction: str, answers: Sequence[str]) -> float:
    """Share of a gold answer's distinct content words that the prediction has; of several answers the best one counts.

    Content words are the tokens after normalisation that are no function words, or all tokens if there are no others.
    1.0 for a gold answer without any token. Source: algorithms.md 6.1.
    """
    said = set(norm_answer(prediction).split())
    golds = (set(norm_answer(answer).split()) for answer in answers)
    contents = (gold - FUNCTION_WORDS or gold for gold in golds)
    return max(len(content & said) / len(content) if content else 1.0 for content in contents)


def judged_ranking(
    passage_ids: Sequence[str], supporting: Collection[str], record_of: Callable[[str], str]
) -> list[str]:
    """The ranking in the ids that gold uses, each once: pieces of a record become it at the first piece.

    A piece that gold names stays itself.
    """
    judged = (passage_id if passage_id in supporting else record_of(passage_id) for passage_id in passage_ids)
    return list(dict.fromkeys(judged))


def recall_at(ranking: Sequence[Hashable], supporting: Collection[Hashable], depth: int) -> float:
    """Share of the gold ids (one or more, distinct) among the first `depth`. Source: algorithms.md 6.2."""
    gold = set(supporting)
    return len(gold.intersection(ranking[:depth])) / len(gold)


def hit_at(ranking: Sequence[Hashable], supporting: Collection[Hashable], depth: int) -> float:
    """1.0 if a gold id is among the first `depth`, else 0.0. Source: algorithms.md 6.2."""
    return float(not set(supporting).isdisjoint(ranking[:depth]))


def all_at(ranking: Sequence[str], supporting: Collection[str], depth: int) -> float:
    """1.0 if every gold id is among the first `depth`, else 0.0. Source: algorithms.md 6.2 (AllR@k)."""
    return float(set(supporting).issubset(ranking[:depth]))


def reciprocal_rank(ranking: Sequence[Hashable], supporting: Collection[Hashable], depth: int = MRR_DEPTH) -> float:
    """1 / rank of the first gold id, 0.0 if none is within `depth`. Source: algorithms.md 6.2."""
    gold = set(supporting)
    return next((1 / rank for rank, found in enumerate(ranking[:depth], start=1) if found in gold), 0.0)


def precision_at(ranking: Sequence[Hashable], golden: Collection[Hashable], depth: int) -> float:
    """Golden ids among the first `depth`, divided by `depth`, however few were ranked. Source: algorithms.md 6.2."""
    return len(set(golden).intersection(ranking[:depth])) / depth


def f1_at(ranking: Sequence[Hashable], golden: Collection[Hashable], depth: int) -> float:
    """Harmonic mean of `precision_at` and `recall_at`, 0.0 if both are. Source: algorithms.md 6.2."""
    gold = set(golden)
    return 2 * len(gold.intersection(ranking[:depth])) / (depth + len(gold))


def ndcg_at(ranking: Sequence[Hashable], golden: Collection[Hashable], depth: int) -> float:
    """Sum of 1 / log2(rank + 1) over golden ids among the first `depth`, divided by the largest possible.

    Source: algorithms.md 6.2.
    """
    gold = set(golden)
    gained = fsum(1 / log2(rank + 1) for rank, found in enumerate(ranking[:depth], start=1) if found in gold)
    return gained / fsum(1 / log2(rank + 1) for rank in range(1, min(depth, len(gold)) + 1))


def latency_milliseconds(seconds: Sequence[float]) -> dict[str, float | None]:
    """p50, p95, p99 (linearly interpolated) and mean in milliseconds; None without a measurement.

    Source: algorithms.md 6.4.
    """
    if not seconds:
        return {"p50": None, "p95": None, "p99": None, "mean": None}
    milliseconds = np.asarray(seconds, dtype=np.float64) * 1000
    p50, p95, p99 = np.percentile(milliseconds, [50, 95, 99])
    return {"p50": float(p50), "p95": float(p95), "p99": float(p99), "mean": float(milliseconds.mean())}


RECALL_DEPTHS = (1, 2, 5, 10, 20, 30)  # algorithms.md 6.2, and 30, one of HubLink's depths.
DEPTHS = (10, 30)  # those of the paper of HubLink
PREFIX = "triple_"
TRIPLE_METRICS = (
    *(f"{PREFIX}recall@{k}" for k in RECALL_DEPTHS),
    *(f"{PREFIX}{name}@{k}" for name in ("precision", "f1", "hit", "ndcg") for k in DEPTHS),
    f"{PREFIX}mrr",
)


def triple_values(
    golden: Collection[GoldenTriple], ranking: Sequence[TripleIds] | None, *, failed: bool
) -> dict[str, float | None]:
    """Every metric of one question; None without golden triples, or of a strategy that ranks none (`ranking` None).

    Golden triples that the graph does not have count as missed. A failed question has 0.
    """
    if not golden or ranking is None:
        return dict.fromkeys(TRIPLE_METRICS)
    if failed:
        return dict.fromkeys(TRIPLE_METRICS, 0.0)
    ranked = list(dict.fromkeys(ranking))
    at = {"precision": precision_at, "f1": f1_at, "hit": hit_at, "ndcg": ndcg_at}
    values: dict[str, float | None] = {f"{PREFIX}recall@{k}": recall_at(ranked, golden, k) for k in RECALL_DEPTHS}
    values |= {f"{PREFIX}{name}@{k}": value(ranked, golden, k) for name, value in at.items() for k in DEPTHS}
    return values | {f"{PREFIX}mrr": reciprocal_rank(ranked, golden)}


def metrics_of(names: Sequence[str], values: Mapping[str, Sequence[Mapping[str, float | None]]]) -> tuple[str, ...]:
    """These metrics, and containment and those of triples if the values have them."""
    first = next((rows[0] for rows in values.values() if rows), {})
    further = (CONTAINMENT,) if CONTAINMENT in first else ()
    return (*names, *further, *(TRIPLE_METRICS if TRIPLE_METRICS[0] in first else ()))


@dataclass(frozen=True, slots=True)
class Score:
    """Exact match and F1 of one prediction, both in [0, 1]."""

    em: float
    f1: float


def score_rows(predictions: Sequence[Prediction], *, hotpot_yes_no: bool = False) -> list[Score | None]:
    """The score of each prediction; None where there is no gold answer to judge by. Source: algorithms.md 6.1."""
    return [
        Score(exact_match(p.prediction, p.answers), token_f1(p.prediction, p.answers, hotpot_yes_no=hotpot_yes_no))
        if p.answers
        else None
        for p in predictions
    ]


def mean_scores(scores: Sequence[Score | None]) -> dict[str, float | int | None]:
    """{n, em, f1}: rows without gold answers count in n only; the means of no row are None."""
    judged = [score for score in scores if score is not None]
    count = len(judged)
    return {
        "n": len(scores),
        "em": fsum(score.em for score in judged) / count if count else None,
        "f1": fsum(score.f1 for score in judged) / count if count else None,
    }


def possible_subjects(golden: Iterable[GoldenTriple]) -> set[str]:
    """Ids that the subjects of golden triples may have: of a text all that stands before a colon or a comma."""
    found: set[str] = set()
    for triple in golden:
        if isinstance(triple, str):
            body = _body(triple)
            found.update(body[:offset] for offset, character in enumerate(body) if character in ":,")
        else:
            found.add(triple[0])
    return found


def find_golden(golden: Iterable[GoldenTriple], stated: Iterable[NamedTriple]) -> dict[GoldenTriple, TripleIds]:
    """The ids of golden triples; those that are not among the stated ones are left out.

    A text is the stated triple whose ids and predicate are in it: `id:name, predicate, id:name`, in parentheses or not;
    names may be missing or differ, and a value may be written instead of its id. Of several such triples it is the one
    whose names are the text's own, then the one whose predicate begins last, then the one with the smallest ids.
    `stated` has at least the graph's triples of `possible_subjects`.
    Cost: O(golden * triples of its possible subjects).
    """
    rows = sorted(stated)
    by_subject = {subject: list(some) for subject, some in groupby(rows, key=lambda row: row.subject_id)}
    found = {}
    for triple in dict.fromkeys(golden):
        ids = _of_text(triple, by_subject) if isinstance(triple, str) else _of_ids(triple, by_subject)
        if ids is not None:
            found[triple] = ids
    return found


def _body(text: str) -> str:
    text = text.strip()
    return text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text


def _of_ids(triple: TripleIds, by_subject: Mapping[str, Sequence[NamedTriple]]) -> TripleIds | None:
    """By id; of an object without an id by its value, if only one has it."""
    same = [row for row in by_subject.get(triple[0], ()) if row.predicate == triple[1]]
    by_value = [row.ids for row in same if row.object == triple[2]]
    if any(row.ids == triple for row in same):
        return triple
    return by_value[0] if len(by_value) == 1 else None


def _of_text(text: str, by_subject: Mapping[str, Sequence[NamedTriple]]) -> TripleIds | None:
    body = _body(text)
    fits = [
        (-fit[0], -fit[1], row.ids)
        for subject in possible_subjects([text]) & by_subject.keys()
        for row in by_subject[subject]
        if (fit := _fit(body, row)) is not None
    ]
    return min(fits)[2] if fits else None


def _fit(body: str, row: NamedTriple) -> tuple[int, int] | None:
    """Number of a triple's names that a text has in their positions, and the offset of its predicate; None without."""
    tails = {
        f", {row.predicate}, {row.object_id}:{row.object}": 1,
        f", {row.predicate}, {row.object}": 1,
        f", {row.predicate}, {row.object_id}": 0,
    }
    offset, named = next(((len(body) - len(t), n) for t, n in tails.items() if body.endswith(t)), (-1, 0))
    if offset < 0:
        offset = body.rfind(f", {row.predicate}, {row.object_id}:")
    head = body[:offset]
    if offset < len(row.subject_id) or not (head == row.subject_id or head.startswith(f"{row.subject_id}:")):
        return None
    return named + (head == f"{row.subject_id}:{row.subject}"), offset
