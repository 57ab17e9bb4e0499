"""A claimed batch to finished, failed and released questions.

Knows sessions, not the queue: what it returns, the loop stores.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.errors import ModelUnavailableError, PolyhopError
from schemas.query import Question
from schemas.queue import ClaimedQuestion, FailedQuestion, FinishedQuestion, to_json
from worker.answer import AnsweredQuestion, PartialOutageError
from worker.pool import IndexPool
from worker.session import IndexSession

LONGEST_ERROR = 2_000
"""Characters of an error that are kept."""


@dataclass(slots=True)
class BatchOutcome:
    """What became of a batch; `released` questions go back unharmed because of `outage`.

    `left` are the released ones that a model left without a reply while it replied to others of the batch.
    """

    finished: list[FinishedQuestion] = field(default_factory=list)
    failed: list[FailedQuestion] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    outage: ModelUnavailableError | None = None


def grouped(claimed: Iterable[ClaimedQuestion]) -> list[list[ClaimedQuestion]]:
    """Questions that can be answered together (same index, strategy, parameters…), in claimed order."""
    groups: dict[tuple[str, str, str, int, float | None], list[ClaimedQuestion]] = {}
    for question in claimed:
        key = (
            question.index,
            question.strategy,
            to_json(dict(question.parameters)),
            question.limit,
            question.min_confidence,
        )
        groups.setdefault(key, []).append(question)
    return list(groups.values())


def answer_group(pool: IndexPool, group: Sequence[ClaimedQuestion], outcome: BatchOutcome) -> None:
    """Answers one group; a question that raises is found by asking one by one and fails alone."""
    first = group[0]
    try:
        session = pool.session(first.index)
        answerer = session.answerer(first.strategy, first.parameters, first.min_confidence)
        start = time.perf_counter()
        asked = [Question(q.question, q.question_id, topic=q.topic) for q in group]
        answered = answerer.answer(asked, limit=first.limit)
        seconds = (time.perf_counter() - start) / len(group)
        finished = [_finished(session, q, one, seconds) for q, one in zip(group, answered, strict=True)]
    except PartialOutageError as error:
        _take_apart(session, group, error, (time.perf_counter() - start) / len(group), outcome)
    except ModelUnavailableError as error:
        outcome.outage = error
        outcome.released.extend(question.lease_token for question in group)
    except Exception as error:  # noqa: BLE001 - whatever a strategy raises, the other questions go on
        if len(group) == 1:
            outcome.failed.append(failed_question(first.lease_token, error))
        else:
            _answer_singly(pool, group, outcome)
    else:
        outcome.finished.extend(finished)


def _answer_singly(pool: IndexPool, group: Sequence[ClaimedQuestion], outcome: BatchOutcome) -> None:
    for place, question in enumerate(group):
        answer_group(pool, [question], outcome)
        if outcome.outage is not None:
            outcome.released.extend(later.lease_token for later in group[place + 1 :])
            return


def _take_apart(
    session: IndexSession,
    group: Sequence[ClaimedQuestion],
    outage: PartialOutageError,
    seconds: float,
    outcome: BatchOutcome,
) -> None:
    """Keeps the answers of a group for the rest of which the model was away."""
    outcome.outage = outage
    pairs = list(zip(group, outage.answered, strict=True))
    left = [question.lease_token for question, one in pairs if one is None]
    outcome.finished.extend(_finished(session, question, one, seconds) for question, one in pairs if one is not None)
    outcome.released.extend(left)
    if any(one is not None and _was_called(one) for one in outage.answered):
        outcome.left.extend(left)


def _was_called(answered: AnsweredQuestion) -> bool:
    """Whether the model replied just now, not some time before."""
    use = answered.reading.use
    return use is not None and use.spent.calls > 0


def _finished(
    session: IndexSession, question: ClaimedQuestion, answered: AnsweredQuestion, seconds: float
) -> FinishedQuestion:
    document = session.document(question.strategy, answered)
    reading: Any = document.get("reading") or {}
    document["index"] = question.index
    document["parameters"] = dict(question.parameters)
    document["limit"] = question.limit
    document["min_confidence"] = question.min_confidence
    document["model"] = reading.get("model") or session.encoder_model
    spent = reading.get("spent") or {}
    document["tokens"] = {"prompt": spent.get("prompt_tokens", 0), "completion": spent.get("completion_tokens", 0)}
    document["cost_usd"] = spent.get("cost_usd", 0.0)
    return FinishedQuestion(
        lease_token=question.lease_token,
        answer=answered.reading.answer,
        version=session.version,
        strategy=question.strategy,
        seconds=seconds,
        result=document,
    )


def failed_question(lease_token: str, error: Exception) -> FailedQuestion:
    """A question with what was raised for it, in words of a bounded length."""
    return FailedQuestion(
        lease_token=lease_token,
        error=(str(error) or type(error).__name__)[:LONGEST_ERROR],
        error_class=type(error).__name__,
        retryable=isinstance(error, PolyhopError) and error.retryable,
    )
