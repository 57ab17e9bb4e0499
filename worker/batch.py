"""A claimed batch to finished, failed and released questions.

Knows sessions, not the queue: what it returns, the loop stores.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyhop.schemas.errors import ModelKeyError, ModelUnavailableError, PolyhopError, QuestionTimeoutError
from polyhop.schemas.query import Question
from polyhop.schemas.queue import (
    DEADLINE_ERROR,
    DEADLINE_TEXT,
    ClaimedQuestion,
    FailedQuestion,
    FinishedQuestion,
    to_json,
)
from polyhop.schemas.redaction import redact
from polyhop.worker.answer import AnsweredQuestion, PartialOutageError
from polyhop.worker.pool import IndexPool
from polyhop.worker.session import IndexSession
from polyhop.worker.turns import TooLateError, TurnOverError, Watch

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
    """Questions that can be answered together (same index, strategy, parameters, filter…), in claimed order."""
    groups: dict[tuple[str, str, str, int, float | None, str | None], list[ClaimedQuestion]] = {}
    for question in claimed:
        key = (
            question.index,
            question.strategy,
            to_json(dict(question.parameters)),
            question.limit,
            question.min_confidence,
            question.where,
        )
        groups.setdefault(key, []).append(question)
    return list(groups.values())


def answer_group(pool: IndexPool, group: Sequence[ClaimedQuestion], outcome: BatchOutcome, watch: Watch) -> None:
    """Answers one group; a question that raises is found by asking one by one and fails alone.

    A question that takes too long, or whose deadline passes before its turn, is known at once: the others go on. If
    several shared the turn that took too long, they are asked one by one, too.

    Raises:
        ModelKeyError: If the model's key is missing or refused: no question is to blame, and none would be answered.
    """
    group = _in_time(group, outcome, watch)
    if not group:
        return
    first = group[0]
    try:
        session = pool.session(first.index).where(first.where)
        answerer = session.answerer(first.strategy, first.parameters, first.min_confidence)
        asked = [Question(q.question, q.question_id, topic=q.topic) for q in group]
        # Nobody knows which question of a batch took its worker or its time away: tried again, none shares a turn.
        alone = [place for place, question in enumerate(group) if question.attempt > 1]
        turns = watch.turns([q.lease_token for q in group], alone)
        answered = answerer.answer(asked, limit=first.limit, turns=turns)
        finished = [_finished(session, q, one) for q, one in zip(group, answered, strict=True)]
    except PartialOutageError as error:
        _take_apart(session, group, error, outcome)
    except ModelUnavailableError as error:
        outcome.outage = error
        outcome.released.extend(question.lease_token for question in group)
    except ModelKeyError:
        raise
    except TooLateError:
        answer_group(pool, group, outcome, watch)
    except TurnOverError as over:
        watch.clear()
        pool.forget(first.index)
        _answer_others(pool, group, over.tokens, outcome, watch)
    except Exception as error:  # noqa: BLE001 - a strategy, ours or not, may raise anything; the others go on
        if len(group) == 1:
            outcome.failed.append(failed_question(first.lease_token, error))
        else:
            _answer_singly(pool, group, outcome, watch)
    else:
        outcome.finished.extend(finished)


def _answer_others(
    pool: IndexPool, group: Sequence[ClaimedQuestion], slow: Sequence[str], outcome: BatchOutcome, watch: Watch
) -> None:
    """Answers a group after a turn that took too long: without the question at fault, or one by one to find it."""
    if len(slow) > 1:
        _answer_singly(pool, group, outcome, watch)
        return
    outcome.failed.append(failed_question(slow[0], QuestionTimeoutError(watch.limit_seconds)))
    answer_group(pool, [question for question in group if question.lease_token not in slow], outcome, watch)


def _in_time(group: Sequence[ClaimedQuestion], outcome: BatchOutcome, watch: Watch) -> list[ClaimedQuestion]:
    """The questions of a group whose deadlines have not passed; the others are dead."""
    late = [question.lease_token for question in group if watch.is_late(question.lease_token)]
    outcome.failed.extend(FailedQuestion(token, DEADLINE_TEXT, DEADLINE_ERROR, retryable=False) for token in late)
    return [question for question in group if question.lease_token not in late]


def _answer_singly(pool: IndexPool, group: Sequence[ClaimedQuestion], outcome: BatchOutcome, watch: Watch) -> None:
    for place, question in enumerate(group):
        answer_group(pool, [question], outcome, watch)
        if outcome.outage is not None:
            outcome.released.extend(later.lease_token for later in group[place + 1 :])
            return


def _take_apart(
    session: IndexSession,
    group: Sequence[ClaimedQuestion],
    outage: PartialOutageError,
    outcome: BatchOutcome,
) -> None:
    """Keeps the answers of a group for the rest of which the model was unavailable."""
    outcome.outage = outage
    pairs = list(zip(group, outage.answered, strict=True))
    left = [question.lease_token for question, one in pairs if one is None]
    outcome.finished.extend(_finished(session, question, one) for question, one in pairs if one is not None)
    outcome.released.extend(left)
    if any(one is not None and _was_called(one) for one in outage.answered):
        outcome.left.extend(left)


def _was_called(answered: AnsweredQuestion) -> bool:
    """Whether the model replied just now, not some time before."""
    use = answered.reading.use
    return use is not None and use.spent.calls > 0


def _finished(session: IndexSession, question: ClaimedQuestion, answered: AnsweredQuestion) -> FinishedQuestion:
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
        seconds=answered.total_seconds,
        result=document,
    )


def failed_question(lease_token: str, error: Exception) -> FailedQuestion:
    """A question with what was raised for it, in words of a bounded length."""
    return FailedQuestion(
        lease_token=lease_token,
        error=(redact(str(error)) or type(error).__name__)[:LONGEST_ERROR],
        error_class=type(error).__name__,
        retryable=isinstance(error, PolyhopError) and error.retryable,
    )
