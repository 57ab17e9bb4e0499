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

import polyhop.warehouse.models.chat
from polyhop.schemas.chat import CallJournal, ChatOutcome, ChatRequest, ChatTask, Gateway, Prompt, Role, Rung, Usage
from polyhop.schemas.errors import BudgetExceededError, ConfigurationError, StoreError
from polyhop.schemas.settings import ModelSettings, Settings
from polyhop.warehouse.cache.replies import ReplyCache, StoredFailure
from polyhop.warehouse.models.budget import Budget, Price
from polyhop.warehouse.models.chat import CachedChat, canonical_json
from polyhop.warehouse.open_models import close_chats, model_name, open_chat

UNLIMITED = Budget(None, None)
CALL = Usage(calls=1, prompt_tokens=10, completion_tokens=5, cost_usd=0.01, seconds=0.5)


class Names(BaseModel):
    names: list[str]
    note: str = ""


class StricterNames(BaseModel):
    names: list[str]
    year: int


TASK = ChatTask("kg.extract", Prompt("kg.extract", "Names in {{text}}"), Names, max_output_tokens=100)


def ask_for(text: str, task: ChatTask[Any] = TASK) -> ChatRequest[Any]:
    return ChatRequest(task, f"unit {text}", (("text", text),))


class FakeGateway:
    """Replies with the text's words; `script` says otherwise for some texts, call by call."""

    model = "fake/model"

    def __init__(self, script: Mapping[str, Iterable[Any]] | None = None, usage: Usage = CALL) -> None:
        self.script = {text: list(steps) for text, steps in (script or {}).items()}
        self.usage = usage
        self.asked: list[Any] = []

    def answer(self, request: ChatRequest[Any], journal: CallJournal) -> ChatOutcome[Any]:
        text = dict(request.inputs)["text"]
        journal.before_call(request, self.usage.prompt_tokens)
        self.asked.append(text)
        steps = self.script.get(text)
        step = steps.pop(0) if steps else None
        if isinstance(step, BaseException):
            raise step
        if step is not None:
            journal.after_call(request, step, self.usage, "MalformedReplyError")
            return ChatOutcome(None, self.model, False, None, 1, "MalformedReplyError", "No JSON.", self.usage)
        reply = request.task.reply.model_validate({"names": text.split(), "year": 1})
        journal.after_call(request, reply.model_dump_json(), self.usage, "")
        return ChatOutcome(reply, self.model, False, Rung.AS_IS, 1, "", "", self.usage)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ReplyCache]:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    yield cache
    cache.close()


def chat_of(cache: ReplyCache, gateway: Gateway, budget: Budget = UNLIMITED, concurrency: int = 3) -> CachedChat:
    return CachedChat(gateway, cache, budget, concurrency)


def names_of(outcomes: Iterable[ChatOutcome[Any]]) -> list[list[str] | None]:
    return [outcome.reply.names if outcome.reply else None for outcome in outcomes]


def test_outcomes_come_in_the_order_of_requests_whatever_ends_first(cache: ReplyCache) -> None:
    class SlowerFirst(FakeGateway):
        def answer(self, request: ChatRequest[Any], journal: CallJournal) -> ChatOutcome[Any]:
            time.sleep(0.05 if dict(request.inputs)["text"] == "0" else 0)
            return super().answer(request, journal)

    texts = [str(n) for n in range(12)]
    outcomes = chat_of(cache, SlowerFirst()).ask([ask_for(text) for text in texts])
    assert names_of(outcomes) == [[text] for text in texts]


def test_what_was_answered_is_never_asked_again(cache: ReplyCache) -> None:
    gateway = FakeGateway()
    first = chat_of(cache, gateway).ask([ask_for("a"), ask_for("b")])
    again = chat_of(cache, gateway)
    second = again.ask([ask_for("b"), ask_for("c"), ask_for("a")])
    assert sorted(gateway.asked) == ["a", "b", "c"]
    assert [outcome.is_cached for outcome in second] == [True, False, True]
    assert [outcome.reply for outcome in first] == [second[2].reply, second[0].reply]
    assert second[0] == ChatOutcome(Names(names=["b"]), "fake/model", True, Rung.AS_IS, 1, "", "", CALL)
    assert (again.spent, again.cached) == (CALL, 2)


def test_equal_requests_of_one_call_are_asked_and_paid_once(cache: ReplyCache) -> None:
    gateway = FakeGateway({"bad": ["broken"]})
    chat = chat_of(cache, gateway)
    outcomes = chat.ask([ask_for("a"), ask_for("bad"), ask_for("a"), ask_for("bad"), ask_for("a")])
    assert sorted(gateway.asked) == ["a", "bad"]
    assert names_of(outcomes) == [["a"], None, ["a"], None, ["a"]]
    assert [outcome.is_cached for outcome in outcomes] == [False, False, True, False, True]
    paid = sum((outcome.usage for outcome in outcomes if not outcome.is_cached), Usage())
    assert paid == chat.spent == CALL + CALL


def test_a_failure_is_listed_and_asked_again_by_the_next_call(cache: ReplyCache) -> None:
    gateway = FakeGateway({"x": ["broken", "broken again"]})
    key = ask_for("x").key(gateway.model)
    (first,) = chat_of(cache, gateway).ask([ask_for("x")])
    assert (first.reply, first.error_class, first.attempts) == (None, "MalformedReplyError", 1)
    assert cache.failures([key])[key].error == "No JSON."
    (second,) = chat_of(cache, gateway).ask([ask_for("x")])
    assert (second.reply, second.attempts) == (None, 2)
    (third,) = chat_of(cache, gateway).ask([ask_for("x")])
    assert (third.reply, third.attempts, third.is_cached) == (Names(names=["x"]), 3, False)
    assert cache.failures([key]) == {}
    assert [raw.error_class for raw in cache.raw_replies([key])[key]] == ["", *["MalformedReplyError"] * 2]


def test_a_newer_parser_reads_stored_texts_without_a_call(cache: ReplyCache, monkeypatch: pytest.MonkeyPatch) -> None:
    fenced = '```json\n{"names": ["from raw"]}\n```'
    gateway = FakeGateway({"x": [fenced], "y": ["nothing to read"]})
    chat_of(cache, gateway).ask([ask_for("x"), ask_for("y")])
    monkeypatch.setattr(
        polyhop.warehouse.models.chat,
        "REPAIR_REVISION",
        polyhop.warehouse.models.chat.REPAIR_REVISION + 1,  # type: ignore[attr-defined]
    )
    silent = FakeGateway({"y": [KeyboardInterrupt()]})
    (outcome,) = chat_of(cache, silent).ask([ask_for("x")])
    assert (outcome.reply, outcome.is_cached, outcome.usage) == (Names(names=["from raw"]), True, CALL)
    assert outcome.rung is Rung.UNWRAPPED
    assert silent.asked == []
    assert names_of(chat_of(cache, FakeGateway()).ask([ask_for("y")])) == [["y"]]


def test_the_parser_that_failed_is_not_tried_again(cache: ReplyCache) -> None:
    gateway = FakeGateway({"x": ['{"names": ["readable after all"]}']})
    chat_of(cache, gateway).ask([ask_for("x")])
    (outcome,) = chat_of(cache, gateway).ask([ask_for("x")])
    assert (outcome.reply, gateway.asked) == (Names(names=["x"]), ["x", "x"])


def test_a_text_that_was_paid_for_just_before_a_kill_is_read_without_a_call(cache: ReplyCache) -> None:
    gateway = FakeGateway()
    chat = chat_of(cache, gateway)
    request = ask_for("x")
    source = chat._ledger.source(request.key(chat.model), TASK)
    cache.put_call(source, "no reply, asked again", CALL, "MalformedReplyError")
    cache.put_call(source, '{"names":["paid"]}', CALL, "")
    (outcome,) = chat.ask([request])
    assert (outcome.reply, outcome.is_cached, outcome.attempts) == (Names(names=["paid"]), True, 2)
    assert gateway.asked == []


def test_a_cached_reply_that_no_longer_has_the_form_counts_as_missing(cache: ReplyCache) -> None:
    stricter = ChatTask("kg.extract", TASK.prompt, StricterNames, max_output_tokens=100)
    assert ask_for("a").key("m") == ask_for("a", stricter).key("m")
    chat_of(cache, FakeGateway()).ask([ask_for("a")])
    gateway = FakeGateway()
    for expected_calls in (["a"], ["a"]):
        (outcome,) = chat_of(cache, gateway).ask([ask_for("a", stricter)])
        assert outcome.reply == StricterNames(names=["a"], year=1)
        assert gateway.asked == expected_calls


@pytest.mark.real_time
def test_the_budget_stops_new_calls_and_keeps_those_in_flight(cache: ReplyCache) -> None:
    large = Usage(calls=1, prompt_tokens=100, completion_tokens=50)

    class Uneven(FakeGateway):
        def answer(self, request: ChatRequest[Any], journal: CallJournal) -> ChatOutcome[Any]:
            text = dict(request.inputs)["text"]
            journal.before_call(request, 10)
            self.asked.append(text)
            if text == "slow":
                time.sleep(0.3)
            reply = Names(names=[text])
            usage = CALL if text == "slow" else large
            journal.after_call(request, reply.model_dump_json(), usage, "")
            return ChatOutcome(reply, self.model, False, Rung.AS_IS, 1, "", "", usage)

    gateway = Uneven()
    requests = [ask_for(text) for text in ("slow", "large", *map(str, range(20)))]
    chat = chat_of(cache, gateway, Budget(None, 250), concurrency=2)
    with pytest.raises(BudgetExceededError, match="budget of this run is used up"):
        chat.ask(requests)
    assert sorted(gateway.asked) == ["large", "slow"]
    assert len(cache.replies([ask_for(text).key(chat.model) for text in gateway.asked])) == 2
    assert chat.spent == CALL + large


def test_a_run_that_ran_out_goes_on_where_it_stopped(cache: ReplyCache) -> None:
    gateway = FakeGateway()
    requests = [ask_for(str(n)) for n in range(10)]
    runs = 0
    while True:
        runs += 1
        try:
            outcomes = chat_of(cache, gateway, Budget(None, 160)).ask(requests)
            break
        except BudgetExceededError:
            assert runs < 10
    assert sorted(gateway.asked) == sorted(str(n) for n in range(10))
    assert names_of(outcomes) == [[str(n)] for n in range(10)]
    assert runs == 3


def test_a_history_of_short_outputs_lets_more_calls_into_a_budget(cache: ReplyCache) -> None:
    chat_of(cache, FakeGateway()).ask([ask_for(f"old {n}") for n in range(20)])
    gateway = FakeGateway()
    chat_of(cache, gateway, Budget(None, 150)).ask([ask_for(str(n)) for n in range(10)])
    assert len(gateway.asked) == 10


def test_dollars_stop_a_run_too(cache: ReplyCache) -> None:
    gateway = FakeGateway()
    chat = chat_of(cache, gateway, Budget(0.034, None, Price(prompt=0, completion=50)), concurrency=1)
    with pytest.raises(BudgetExceededError):
        chat.ask([ask_for(str(n)) for n in range(10)])
    assert chat.spent.cost_usd == pytest.approx(0.03)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StoreError("The disk is full."), ValueError("a defect")])
def test_an_exception_ends_the_call_and_keeps_what_was_answered(cache: ReplyCache, error: BaseException) -> None:
    gateway = FakeGateway({"5": [error]})
    requests = [ask_for(str(n)) for n in range(50)]
    with pytest.raises(type(error)):
        chat_of(cache, gateway, Budget(None, 10**6), concurrency=2).ask(requests)
    answered = len(gateway.asked) - 1
    assert cache.stats().reply_count == answered < 49
    again = FakeGateway()
    outcomes = chat_of(cache, again).ask(requests)
    assert len(again.asked) == 50 - answered
    assert names_of(outcomes) == [[str(n)] for n in range(50)]


def test_threads_that_ask_the_same_pay_once(cache: ReplyCache) -> None:
    class Slow(FakeGateway):
        def answer(self, request: ChatRequest[Any], journal: CallJournal) -> ChatOutcome[Any]:
            time.sleep(0.02)
            return super().answer(request, journal)

    gateway, found = Slow(), []
    chat = chat_of(cache, gateway)
    requests = [ask_for(str(n)) for n in range(6)]
    threads = [threading.Thread(target=lambda: found.append(names_of(chat.ask(requests)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(gateway.asked) == [str(n) for n in range(6)]
    assert found == [[[str(n)] for n in range(6)]] * 3


@pytest.mark.real_time
def test_no_more_calls_are_in_flight_than_allowed(cache: ReplyCache) -> None:
    class Counting(FakeGateway):
        now = most = 0
        lock = threading.Lock()

        def answer(self, request: ChatRequest[Any], journal: CallJournal) -> ChatOutcome[Any]:
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
            time.sleep(0.005)
            outcome = super().answer(request, journal)
            with self.lock:
                self.now -= 1
            return outcome

    gateway = Counting()
    chat = chat_of(cache, gateway, concurrency=2)
    threads = [threading.Thread(target=chat.ask, args=([ask_for(f"{k} {n}") for n in range(8)],)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gateway.most == 2


def test_progress_counts_requests_with_repetitions(cache: ReplyCache) -> None:
    chat = chat_of(cache, FakeGateway(), concurrency=1)
    chat.ask([ask_for("known")])
    seen = []
    requests = [ask_for(text) for text in ("known", "a", "a", "known", "b")]
    chat.ask(requests, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (2, 5)
    assert seen[-1] == (5, 5)
    assert len(seen) == 3


def test_nothing_asked_is_nothing_answered(cache: ReplyCache) -> None:
    assert chat_of(cache, FakeGateway()).ask([]) == []


@settings(max_examples=25, deadline=None)
@given(
    runs=st.lists(st.lists(st.sampled_from("abcde"), max_size=8), max_size=4), broken=st.sets(st.sampled_from("abc"))
)
def test_every_text_is_paid_once_per_success_and_every_failure_is_retried_once_per_call(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[str]], broken: set[str]
) -> None:
    cache = ReplyCache(tmp_path_factory.mktemp("law") / "replies.sqlite")
    gateway = FakeGateway({text: ["broken"] for text in broken})
    expected: list[str] = []
    failing, known = set(broken), set[str]()
    for texts in runs:
        outcomes = chat_of(cache, gateway).ask([ask_for(text) for text in texts])
        expected += sorted(set(texts) - known)
        assert [outcome.reply is None for outcome in outcomes] == [text in failing for text in texts]
        known |= set(texts) - failing
        failing -= set(texts)
    assert sorted(gateway.asked) == sorted(expected)
    cache.close()


def test_stored_replies_are_canonical(cache: ReplyCache, tmp_path: Path) -> None:
    chat_of(cache, FakeGateway()).ask([ask_for("Ü a")])
    assert canonical_json(Names(names=["Ü"], note="n")) == '{"names":["Ü"],"note":"n"}'
    connection = sqlite3.connect(cache.path)
    assert connection.execute("SELECT count(*) FROM replies").fetchone() == (1,)
    connection.close()
    (stored,) = cache.replies([ask_for("Ü a").key("fake/model")]).values()
    assert json.loads(stored.text) == {"names": ["Ü", "a"], "note": ""}


def test_an_imported_failure_of_another_class_is_simply_asked(cache: ReplyCache) -> None:
    gateway = FakeGateway()
    chat = chat_of(cache, gateway)
    request = ask_for("x")
    source = chat._ledger.source(request.key(chat.model), TASK)
    cache.put_call(source, '{"names":["raw"]}', CALL, "ReplyRefusedError")
    cache.put_failure(source, StoredFailure(1, "ReplyRefusedError", "No.", 0))
    assert names_of(chat.ask([request])) == [["x"]]
    assert gateway.asked == ["x"]


def test_a_role_has_its_model_and_resolution_falls_back_to_that_of_extraction() -> None:
    models = ModelSettings(extract="openai/a", read="openai/c")
    assert [model_name(models, role) for role in Role] == ["openai/a", "openai/a", "openai/c"]
    assert model_name(ModelSettings(extract="openai/a", resolve="openai/b"), Role.RESOLVE) == "openai/b"
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
    with pytest.raises(ConfigurationError, match=r"models\.prompt_price"):
        open_chat(Settings(root=tmp_path, models=models, max_cost_usd=1), Role.EXTRACT)
    priced = models.model_copy(update={"prompt_price": 1.0, "completion_price": 2.0})
    open_chat(Settings(root=tmp_path, models=priced, max_cost_usd=1), Role.EXTRACT)
    close_chats()
