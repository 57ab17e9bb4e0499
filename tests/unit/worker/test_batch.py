"""A claimed batch to outcomes: groups, one bad question among good ones, outages."""

from types import SimpleNamespace
from typing import Any

import pytest

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import ModelUnavailableError, StoreUnavailableError
from polyhop.schemas.query import ModelUse
from polyhop.schemas.queue import ClaimedQuestion
from polyhop.worker.answer import PartialOutageError, Watch
from polyhop.worker.loop import LONGEST_ERROR, BatchOutcome, answer_group, grouped


def claimed(question_id: str, **changes: Any) -> ClaimedQuestion:
    values: dict[str, Any] = {
        "job_id": 1,
        "question_id": question_id,
        "ordinal": 0,
        "question": question_id,
        "topic": None,
        "queue": "default",
        "index": "wiki",
        "strategy": "bridge",
        "parameters": {},
        "limit": 10,
        "attempt": 1,
        "max_attempts": 3,
        "lease_token": f"token-{question_id}",
        "lease_until": 0.0,
        "deadline": None,
    }
    return ClaimedQuestion(**values | changes)


def raising(error: Exception, *texts: str) -> Any:
    def behave(text: str) -> str:
        if text in texts:
            raise error
        return text.upper()

    return behave


def answered(pool: Any, *questions: ClaimedQuestion) -> BatchOutcome:
    outcome = BatchOutcome()
    answer_group(pool, questions, outcome, Watch(60.0))
    return outcome


def test_questions_are_grouped_by_all_that_decides_how_they_are_answered() -> None:
    batch = [
        claimed("a"),
        claimed("b", strategy="bm25"),
        claimed("c", job_id=2),
        claimed("d", limit=5),
        claimed("e", index="other"),
        claimed("f", parameters={"seeds": "3"}),
        claimed("g", min_confidence=0.5),
        claimed("h", min_confidence=0.5),
    ]
    ids = [[question.question_id for question in group] for group in grouped(batch)]
    assert ids == [["a", "c"], ["b"], ["d"], ["e"], ["f"], ["g", "h"]]


def test_the_order_of_parameters_makes_no_second_group() -> None:
    first, second = {"seeds": "3", "restart": "0.5"}, {"restart": "0.5", "seeds": "3"}
    assert len(grouped([claimed("a", parameters=first), claimed("b", parameters=second)])) == 1


def test_no_question_is_no_group() -> None:
    assert grouped([]) == []


def test_a_group_is_answered_at_once_and_each_answer_says_how_it_was_made(scripted_pool: Any) -> None:
    pool = scripted_pool()
    outcome = answered(pool, claimed("a", parameters={"seeds": "3"}), claimed("b", parameters={"seeds": "3"}))
    assert pool.asked == [["a", "b"]]
    assert [(one.lease_token, one.answer, one.version) for one in outcome.finished] == [
        ("token-a", "A", 3),
        ("token-b", "B", 3),
    ]
    assert outcome.finished[0].result == {
        "answer": "A",
        "index": "wiki",
        "parameters": {"seeds": "3"},
        "limit": 10,
        "min_confidence": None,
        "model": None,
        "tokens": {"prompt": 0, "completion": 0},
        "cost_usd": 0.0,
    }


def test_a_poison_question_fails_alone(scripted_pool: Any) -> None:
    pool = scripted_pool(raising(ZeroDivisionError("division by zero"), "b"))
    outcome = answered(pool, *map(claimed, "abcd"))
    assert [one.lease_token for one in outcome.finished] == ["token-a", "token-c", "token-d"]
    (failure,) = outcome.failed
    assert (failure.lease_token, failure.error, failure.error_class, failure.retryable) == (
        "token-b",
        "division by zero",
        "ZeroDivisionError",
        False,
    )
    assert outcome.released == []


def test_an_error_without_words_is_named_by_its_class(scripted_pool: Any) -> None:
    assert answered(scripted_pool(raising(RuntimeError(), "a")), claimed("a")).failed[0].error == "RuntimeError"


def test_an_endless_error_is_cut(scripted_pool: Any) -> None:
    outcome = answered(scripted_pool(raising(RuntimeError("x" * 10**6), "a")), claimed("a"))
    assert len(outcome.failed[0].error) == LONGEST_ERROR


def test_an_error_that_may_pass_is_marked_so(scripted_pool: Any) -> None:
    outcome = answered(scripted_pool(raising(StoreUnavailableError("busy"), "a")), claimed("a"))
    assert outcome.failed[0].retryable


def test_an_unknown_index_fails_every_question_with_its_name(scripted_pool: Any) -> None:
    outcome = answered(scripted_pool(), claimed("a", index="nil"), claimed("b", index="nil"))
    assert [one.error_class for one in outcome.failed] == ["UnknownIndexError", "UnknownIndexError"]
    assert "Unknown index 'nil'" in outcome.failed[0].error
    assert not outcome.failed[0].retryable


def test_a_model_that_is_away_gives_the_whole_group_back(scripted_pool: Any) -> None:
    outcome = answered(scripted_pool(raising(ModelUnavailableError("away"), "b")), *map(claimed, "abc"))
    assert outcome.released == ["token-a", "token-b", "token-c"]
    assert (outcome.finished, outcome.failed) == ([], [])
    assert isinstance(outcome.outage, ModelUnavailableError)


def test_an_outage_while_looking_for_a_bad_question_asks_no_further(scripted_pool: Any) -> None:
    """a is poison; asked one by one, b meets the outage: c is not tried."""

    def behave(text: str) -> str:
        raise ZeroDivisionError if text == "a" else ModelUnavailableError("away")

    pool = scripted_pool(behave)
    outcome = answered(pool, *map(claimed, "abc"))
    assert pool.asked == [["a", "b", "c"], ["a"], ["b"]]
    assert [one.lease_token for one in outcome.failed] == ["token-a"]
    assert outcome.released == ["token-b", "token-c"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_is_no_failed_question(scripted_pool: Any, interruption: type[BaseException]) -> None:
    def behave(text: str) -> str:
        raise interruption

    with pytest.raises(interruption):
        answered(scripted_pool(behave), claimed("a"))


@pytest.mark.parametrize(("is_cached", "left"), [(False, ["token-b", "token-c"]), (True, [])])
def test_what_a_model_answered_before_it_went_away_is_kept(
    scripted_pool: Any, *, is_cached: bool, left: list[str]
) -> None:
    """Only a reply of just now says that the model is there, and that b and c were left for reasons of their own."""
    use = ModelUse("m", "qa.answer", "hash", is_cached=is_cached, usage=Usage(calls=1))
    good = SimpleNamespace(reading=SimpleNamespace(answer="A", use=use), total_seconds=0.5)
    error = PartialOutageError(ModelUnavailableError("away"), [good, None, None])  # type: ignore[list-item]
    outcome = answered(scripted_pool(raising(error, "a")), *map(claimed, "abc"))
    assert [(one.lease_token, one.answer) for one in outcome.finished] == [("token-a", "A")]
    assert outcome.released == ["token-b", "token-c"]
    assert outcome.left == left
    assert outcome.outage is error
    assert outcome.failed == []


def test_a_result_keeps_what_its_model_took(scripted_pool: Any) -> None:
    pool = scripted_pool()
    spent = {"calls": 1, "prompt_tokens": 7, "completion_tokens": 2, "cost_usd": 0.5, "seconds": 1.0}
    pool.document = {"reading": {"model": "openai/x", "spent": spent}}
    (finished,) = answered(pool, claimed("a")).finished
    assert finished.result["model"] == "openai/x"
    assert finished.result["tokens"] == {"prompt": 7, "completion": 2}
    assert finished.result["cost_usd"] == 0.5
