"""What one answer and one ranking are worth against gold.

Averages nothing over questions and knows no strategies (report.py does).
Source: algorithms.md 6.1, 6.2, 6.4.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from math import fsum, log2

import numpy as np

from polyhop.schemas.names import FUNCTION_WORDS
from polyhop.schemas.text import norm_answer

MRR_DEPTH = 100  # algorithms.md 6.2.
CONTAINMENT = "containment"
"""The metric of `containment`, where gold answers are long."""
_CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1.0 if the prediction equals one of the (one or more) gold answers after normalisation, else 0.0.

    Source: algorithms.md 6.1.
    """
    predicted = norm_answer(prediction)
    return float(any(predicted == norm_answer(answer) for answer in answers))


def token_f1(prediction: str, answers: Sequence[str], *, hotpot_yes_no: bool = False) -> float:
    """Overlap of the token multisets with the nearest gold answer.

    Args:
        prediction: Any text, may be empty.
        answers: One or more gold answers; the best one counts.
        hotpot_yes_no: HotpotQA's special case: 0 where one side is yes, no or noanswer and the other differs.

    Returns:
        2PR / (P + R) in [0, 1]; 1.0 if both sides are empty after normalisation.

    Raises:
        ValueError: If `answers` is empty.
    Source: algorithms.md 6.1 (SQuAD; HotpotQA's official script for the special case).
    """
    predicted = norm_answer(prediction)
    return max(_pair_f1(predicted, norm_answer(answer), hotpot_yes_no=hotpot_yes_no) for answer in answers)


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
    return max(_contained(said, set(norm_answer(answer).split())) for answer in answers)


def _contained(said: Collection[str], gold: set[str]) -> float:
    content = gold - FUNCTION_WORDS or gold
    return len(content.intersection(said)) / len(content) if content else 1.0


def judged_ranking(
    passage_ids: Sequence[str], supporting: Collection[str], record_of: Callable[[str], str]
) -> list[str]:
    """The ranking in the ids that gold uses: pieces of a split record become their record, its first piece counts.

    Args:
        passage_ids: Ranked, in descending order of score.
        supporting: Gold ids: records, or single pieces (a piece that gold names stays itself).
        record_of: Record id of a passage id.

    Returns:
        Ids without repetition, in descending order of score.
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
