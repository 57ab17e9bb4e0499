"""A chat model behind the cache: what is asked, what is stored, what happens on failures and at a limit."""

import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from polyhop.schemas.chat import ChatOutcome, ChatRequest, ChatTask, Prompt, Role, Rung, Usage
from polyhop.schemas.errors import BudgetExceededError, ConfigurationError, StoreError
from polyhop.schemas.settings import ModelSettings, Settings
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.models.budget import Budget
from polyhop.warehouse.models.chat import Chat, canonical_json
from polyhop.warehouse.models.litellm_client import Answer, Completion
from polyhop.warehouse.open_models import close_chats, model_name, open_chat

MODEL = "fake/model"
UNLIMITED = Budget(None, None, (0, 50))
CALL = Usage(calls=1, prompt_tokens=40, completion_tokens=20, cost_usd=0.001)


class Names(BaseModel):
    names: list[str]
    note: str = ""


class StricterNames(BaseModel):
    names: list[str]
    year: int


TASK = ChatTask("kg.extract", Prompt("kg.extract", "Names in {{text}}"), Names, max_output_tokens=100)


def ask_for(text: str, task: ChatTask[Any] = TASK) -> ChatRequest[Any]:
    return ChatRequest(task, f"unit {text}", (("text", text),))


class FakeModel:
    """Replies with the text's words; `script` says otherwise for some texts, call by call."""

    def __init__(self, script: Mapping[str, Iterable[Any]] | None = None) -> None:
        self.script = {text: list(steps) for text, steps in (script or {}).items()}
        self.asked: list[str] = []

    def call(
        self, messages: list[dict[str, str]], name: str, reply: type[BaseModel], longest: int
    ) -> Answer[Completion]:
        text = messages[0]["content"].removeprefix("Names in ")
        self.asked.append(text)
        steps = self.script.get(text)
        step = steps.pop(0) if steps else None
        if isinstance(step, BaseException):
            raise step
        said = step or reply.model_validate({"names": text.split(), "year": 1}).model_dump_json()
        return Answer(Completion(said, "", is_cut=False), said, CALL.prompt_tokens, CALL.completion_tokens)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ReplyCache]:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    yield cache
    cache.close()


def chat_of(cache: ReplyCache, model: FakeModel, budget: Budget = UNLIMITED, concurrency: int = 3) -> Chat:
    settings = ModelSettings(concurrency=concurrency, max_attempts=1, max_reply_tokens=100)
    return Chat(MODEL, settings, cache, budget, completions=model, clock=lambda: 0.0)


def names_of(outcomes: Iterable[ChatOutcome[Any]]) -> list[list[str] | None]:
    return [outcome.reply.names if outcome.reply else None for outcome in outcomes]


def test_outcomes_come_in_the_order_of_requests_whatever_ends_first(cache: ReplyCache) -> None:
    class SlowerFirst(FakeModel):
        def call(self, messages: list[dict[str, str]], *given: Any) -> Answer[Completion]:
            time.sleep(0.05 if messages[0]["content"].endswith(" 0") else 0)
            return super().call(messages, *given)

    texts = [str(n) for n in range(12)]
    outcomes = chat_of(cache, SlowerFirst()).ask([ask_for(text) for text in texts])
    assert names_of(outcomes) == [[text] for text in texts]


def test_what_was_answered_is_never_asked_again(cache: ReplyCache) -> None:
    model = FakeModel()
    first = chat_of(cache, model).ask([ask_for("a"), ask_for("b")])
    again = chat_of(cache, model)
    second = again.ask([ask_for("b"), ask_for("c"), ask_for("a")])
    assert sorted(model.asked) == ["a", "b", "c"]
    assert [outcome.is_cached for outcome in second] == [True, False, True]
    assert [outcome.reply for outcome in first] == [second[2].reply, second[0].reply]
    assert second[0] == ChatOutcome(Names(names=["b"]), "fake/model", True, Rung.AS_IS, 1, "", "", CALL)
    assert (again.spent, again.cached) == (CALL, 2)


def test_equal_requests_of_one_call_are_asked_and_paid_once(cache: ReplyCache) -> None:
    model = FakeModel({"bad": ["broken"]})
    chat = chat_of(cache, model)
    outcomes = chat.ask([ask_for("a"), ask_for("bad"), ask_for("a"), ask_for("bad"), ask_for("a")])
    assert sorted(model.asked) == ["a", "bad"]
    assert names_of(outcomes) == [["a"], None, ["a"], None, ["a"]]
    assert [outcome.is_cached for outcome in outcomes] == [False, False, True, False, True]
    paid = sum((outcome.usage for outcome in outcomes if not outcome.is_cached), Usage())
    assert paid == chat.spent == CALL + CALL


def test_a_failure_is_listed_and_asked_again_by_the_next_call(cache: ReplyCache) -> None:
    model = FakeModel({"x": ["broken", "broken again"]})
    key = ask_for("x").key(MODEL)
    (first,) = chat_of(cache, model).ask([ask_for("x")])
    assert (first.reply, first.error_class, first.attempts) == (None, "MalformedReplyError", 1)
    assert cache.failures([key])[key][2] == "The reply is not what was asked for: there is no JSON in it."
    (second,) = chat_of(cache, model).ask([ask_for("x")])
    assert (second.reply, second.attempts) == (None, 2)
    (third,) = chat_of(cache, model).ask([ask_for("x")])
    assert (third.reply, third.attempts, third.is_cached) == (Names(names=["x"]), 3, False)
    assert cache.failures([key]) == {}
    assert [raw.error_class for raw in cache.raw_replies([key])[key]] == ["", *["MalformedReplyError"] * 2]


def test_a_text_that_was_paid_for_just_before_a_kill_is_read_without_a_call(cache: ReplyCache) -> None:
    model = FakeModel()
    chat = chat_of(cache, model)
    request = ask_for("x")
    source = chat._source(request.key(MODEL), request)
    cache.put_call(source, "no reply, asked again", CALL, "MalformedReplyError")
    cache.put_call(source, '{"names":["paid"]}', CALL, "")
    (outcome,) = chat.ask([request])
    assert (outcome.reply, outcome.is_cached, outcome.attempts) == (Names(names=["paid"]), True, 2)
    assert model.asked == []


def test_a_cached_reply_that_no_longer_has_the_form_counts_as_missing(cache: ReplyCache) -> None:
    stricter = ChatTask("kg.extract", TASK.prompt, StricterNames, max_output_tokens=100)
    assert ask_for("a").key("m") == ask_for("a", stricter).key("m")
    chat_of(cache, FakeModel()).ask([ask_for("a")])
    model = FakeModel()
    for expected_calls in (["a"], ["a"]):
        (outcome,) = chat_of(cache, model).ask([ask_for("a", stricter)])
        assert outcome.reply == StricterNames(names=["a"], year=1)
        assert model.asked == expected_calls


def test_the_budget_stops_new_calls_and_keeps_those_in_flight(cache: ReplyCache) -> None:
    model = FakeModel()
    chat = chat_of(cache, model, Budget(None, 230), concurrency=2)
    with pytest.raises(BudgetExceededError, match="budget of this run is used up"):
        chat.ask([ask_for(str(n)) for n in range(20)])
    assert len(model.asked) == 2  # a call takes 60 tokens, and might take 100 for its reply
    assert len(cache.replies([ask_for(text).key(MODEL) for text in model.asked])) == 2
    assert chat.spent.prompt_tokens + chat.spent.completion_tokens == 120


def test_a_run_that_ran_out_goes_on_where_it_stopped(cache: ReplyCache) -> None:
    model = FakeModel()
    requests = [ask_for(str(n)) for n in range(10)]
    runs = 0
    while True:
        runs += 1
        try:
            outcomes = chat_of(cache, model, Budget(None, 160)).ask(requests)
            break
        except BudgetExceededError:
            assert runs < 11
    assert sorted(model.asked) == sorted(str(n) for n in range(10))
    assert names_of(outcomes) == [[str(n)] for n in range(10)]
    assert runs == 10


def test_dollars_stop_a_run_too(cache: ReplyCache) -> None:
    model = FakeModel()
    chat = chat_of(cache, model, Budget(0.0075, None, (0, 50)), concurrency=1)
    with pytest.raises(BudgetExceededError):
        chat.ask([ask_for(str(n)) for n in range(10)])
    assert chat.spent.cost_usd == pytest.approx(0.003)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StoreError("The disk is full."), ValueError("a defect")])
def test_an_exception_ends_the_call_and_keeps_what_was_answered(cache: ReplyCache, error: BaseException) -> None:
    model = FakeModel({"5": [error]})
    requests = [ask_for(str(n)) for n in range(50)]
    with pytest.raises(type(error)):
        chat_of(cache, model, Budget(None, 10**6), concurrency=2).ask(requests)
    answered = len(model.asked) - 1
    assert cache.stats().reply_count == answered < 49
    again = FakeModel()
    outcomes = chat_of(cache, again).ask(requests)
    assert len(again.asked) == 50 - answered
    assert names_of(outcomes) == [[str(n)] for n in range(50)]


def test_threads_that_ask_the_same_pay_once(cache: ReplyCache) -> None:
    class Slow(FakeModel):
        def call(self, messages: list[dict[str, str]], *given: Any) -> Answer[Completion]:
            time.sleep(0.02)
            return super().call(messages, *given)

    model, found = Slow(), []
    chat = chat_of(cache, model)
    requests = [ask_for(str(n)) for n in range(6)]
    threads = [threading.Thread(target=lambda: found.append(names_of(chat.ask(requests)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(model.asked) == [str(n) for n in range(6)]
    assert found == [[[str(n)] for n in range(6)]] * 3


@pytest.mark.real_time
def test_no_more_calls_are_in_flight_than_allowed(cache: ReplyCache) -> None:
    class Counting(FakeModel):
        now = most = 0
        lock = threading.Lock()

        def call(self, messages: list[dict[str, str]], *given: Any) -> Answer[Completion]:
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
            time.sleep(0.005)
            answer = super().call(messages, *given)
            with self.lock:
                self.now -= 1
            return answer

    model = Counting()
    chat = chat_of(cache, model, concurrency=2)
    threads = [threading.Thread(target=chat.ask, args=([ask_for(f"{k} {n}") for n in range(8)],)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.most == 2


def test_progress_counts_requests_with_repetitions(cache: ReplyCache) -> None:
    chat = chat_of(cache, FakeModel(), concurrency=1)
    chat.ask([ask_for("known")])
    seen = []
    requests = [ask_for(text) for text in ("known", "a", "a", "known", "b")]
    chat.ask(requests, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (2, 5)
    assert seen[-1] == (5, 5)
    assert len(seen) == 3


def test_nothing_asked_is_nothing_answered(cache: ReplyCache) -> None:
    assert chat_of(cache, FakeModel()).ask([]) == []


@settings(max_examples=25, deadline=None)
@given(
    runs=st.lists(st.lists(st.sampled_from("abcde"), max_size=8), max_size=4), broken=st.sets(st.sampled_from("abc"))
)
def test_every_text_is_paid_once_per_success_and_every_failure_is_retried_once_per_call(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[str]], broken: set[str]
) -> None:
    cache = ReplyCache(tmp_path_factory.mktemp("law") / "replies.sqlite")
    model = FakeModel({text: ["broken"] for text in broken})
    expected: list[str] = []
    failing, known = set(broken), set[str]()
    for texts in runs:
        outcomes = chat_of(cache, model).ask([ask_for(text) for text in texts])
        expected += sorted(set(texts) - known)
        assert [outcome.reply is None for outcome in outcomes] == [text in failing for text in texts]
        known |= set(texts) - failing
        failing -= set(texts)
    assert sorted(model.asked) == sorted(expected)
    cache.close()


def test_stored_replies_are_canonical(cache: ReplyCache, tmp_path: Path) -> None:
    chat_of(cache, FakeModel()).ask([ask_for("Ü a")])
    assert canonical_json(Names(names=["Ü"], note="n")) == '{"names":["Ü"],"note":"n"}'
    connection = sqlite3.connect(cache.path)
    assert connection.execute("SELECT count(*) FROM replies").fetchone() == (1,)
    connection.close()
    (stored,) = cache.replies([ask_for("Ü a").key("fake/model")]).values()
    assert json.loads(stored.text) == {"names": ["Ü", "a"], "note": ""}


def test_an_imported_failure_of_another_class_is_simply_asked(cache: ReplyCache) -> None:
    model = FakeModel()
    chat = chat_of(cache, model)
    request = ask_for("x")
    source = chat._source(request.key(MODEL), request)
    cache.put_call(source, '{"names":["raw"]}', CALL, "ReplyRefusedError")
    cache.put_failure(source, 1, "ReplyRefusedError", "No.")
    assert names_of(chat.ask([request])) == [["x"]]
    assert model.asked == ["x"]


def test_a_role_has_its_model_and_resolution_that_of_extraction() -> None:
    models = ModelSettings(extract="openai/a", read="openai/c")
    assert [model_name(models, role) for role in Role] == ["openai/a", "openai/a", "openai/c"]
    with pytest.raises(ConfigurationError, match=r"set models\.read to a model"):
        model_name(ModelSettings(extract="openai/a"), Role.READ)
    with pytest.raises(ConfigurationError, match=r"set models\.extract"):
        open_chat(Settings(), Role.EXTRACT)


def test_one_configuration_is_one_model_per_process_until_closed(tmp_path: Path) -> None:
    configured = Settings(root=tmp_path, models=ModelSettings(extract="openai/a", read="openai/c"))
    first = open_chat(configured, Role.EXTRACT)
    try:
        assert open_chat(configured, Role.RESOLVE) is first
        assert open_chat(configured, Role.READ) is not first
        assert first.ask([]) == []
        assert (tmp_path / "caches" / "replies.sqlite").exists()
    finally:
        close_chats()
    assert open_chat(configured, Role.EXTRACT) is not first
    close_chats()


def test_a_limit_in_dollars_for_a_model_of_unknown_price_is_refused_at_once(tmp_path: Path) -> None:
    models = ModelSettings(extract="openai/no-such-model")
    with pytest.raises(ConfigurationError, match=r"models\.price"):
        open_chat(Settings(root=tmp_path, models=models, max_cost_usd=1), Role.EXTRACT)
    priced = models.model_copy(update={"price": (1.0, 2.0)})
    open_chat(Settings(root=tmp_path, models=priced, max_cost_usd=1), Role.EXTRACT)
    close_chats()
