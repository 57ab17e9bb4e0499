"""A chat model with its cache: what is asked and stored, failures, limits; and broken replies, repaired or refused."""

import json
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, create_model

from polyhop.schemas import errors
from polyhop.schemas.chat import ChatOutcome, ChatRequest, ChatTask, Prompt, Repair, Role, Usage
from polyhop.schemas.settings import ModelSettings, Settings
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.models.budget import Budget
from polyhop.warehouse.models.chat import MOST_FAILURES, Chat
from polyhop.warehouse.models.endpoints import Completion, EndpointReply
from polyhop.warehouse.models.replies import read_reply
from polyhop.warehouse.open_models import begin_run, current_run, model_name, open_chat

MODEL, UNLIMITED = "fake/model", Budget(None, None, (0, 50))
CALL = Usage(calls=1, prompt_tokens=40, completion_tokens=20, cost_usd=0.001)
OUTAGES = ["ModelUnavailableError", "ModelTimeoutError"] * MOST_FAILURES
ACCEPTED = ("", "MalformedReplyError", "ReplyRefusedError")
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "broken_replies.jsonl"
CASES = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
Entity = create_model("Entity", name=str, type=str)
Relation = create_model("Relation", source_name=str, relation=str, target_name=str)
Proposition = create_model("Proposition", text=str, entities=(list[str], []))


class Names(BaseModel):
    names: list[str]
    note: str = ""


class StricterNames(BaseModel):
    names: list[str]
    year: int


TASK = ChatTask("kg.extract", Prompt("kg.extract", "Names in {{text}}"), Names, max_output_tokens=100)


def ask_for(text: str, task: ChatTask[Any] = TASK) -> ChatRequest[Any]:
    return ChatRequest(task, f"unit {text}", (("text", text),))


NUMBERS = [ask_for(str(n)) for n in range(20)]


class FakeModel:
    """Replies with the text's words; `script` says otherwise for some texts, call by call."""

    def __init__(self, script: Mapping[str, Iterable[Any]] | None = None) -> None:
        self.script = {text: list(steps) for text, steps in (script or {}).items()}
        self.asked: list[str] = []

    def call(
        self, messages: list[Any], name: str, reply: type[BaseModel], longest: int, _on_text: Any = None
    ) -> EndpointReply[Completion]:
        text = messages[0]["content"].removeprefix("Names in ")
        self.asked.append(text)
        steps = self.script.get(text)
        step = steps.pop(0) if steps else None
        if isinstance(step, BaseException):
            raise step
        said = step or reply.model_validate({"names": text.split(), "year": 1}).model_dump_json()
        return EndpointReply(Completion(said, "", is_cut=False), said, CALL.prompt_tokens, CALL.completion_tokens)


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


def test_equal_requests_are_asked_and_paid_once_by_this_call_and_the_next(cache: ReplyCache) -> None:
    model = FakeModel({"bad": ["broken"]})
    chat = chat_of(cache, model)
    seen: list[tuple[int, int]] = []
    requests = [ask_for(text) for text in ("a", "bad", "a", "bad", "Ü b")]
    outcomes = chat.ask(requests, on_progress=lambda done, total: seen.append((done, total)))
    assert (sorted(model.asked), names_of(outcomes)) == (["a", "bad", "Ü b"], [["a"], None, ["a"], None, ["Ü", "b"]])
    assert [outcome.is_cached for outcome in outcomes] == [False, False, True, False, False]
    paid = sum((outcome.usage for outcome in outcomes if not outcome.is_cached), Usage())
    assert paid == chat.spent == CALL + CALL + CALL
    assert (seen[0], seen[-1], len(seen), chat._limiter.size) == ((0, 5), (5, 5), 4, 3)  # more at once with each reply
    again = chat_of(cache, model)
    (known,) = again.ask([ask_for("Ü b")], on_progress=lambda done, total: seen.append((done, total)))
    assert known == ChatOutcome(Names(names=["Ü", "b"]), "fake/model", True, Repair.AS_IS, 1, "", "", CALL)
    assert (len(model.asked), again.spent, again.cached, seen[-1]) == (3, Usage(), 1, (1, 1))
    (stored,) = cache.replies([ask_for("Ü b").key("fake/model")]).values()
    assert stored.text == '{"names":["Ü","b"],"note":""}'


def test_a_failure_is_listed_and_asked_again_by_the_next_call(cache: ReplyCache) -> None:
    model = FakeModel({"x": ["broken", "broken again"]})
    key = ask_for("x").key(MODEL)
    (first,) = chat_of(cache, model).ask([ask_for("x")])
    assert cache.failures([key])[key][2] == "The reply is not what was asked for: there is no JSON in it."
    (second,), (third,) = (chat_of(cache, model).ask([ask_for("x")]) for _ in range(2))
    told = [(one.reply, one.error_class, one.attempts) for one in (first, second, third)]
    assert told[:2] == [(None, "MalformedReplyError", number) for number in (1, 2)]
    assert (told[2], third.is_cached) == ((Names(names=["x"]), "", 3), False)
    assert cache.failures([key]) == {}
    assert [raw.error_class for raw in cache.raw_replies([key])[key]] == ["", *["MalformedReplyError"] * 2]


@pytest.mark.parametrize(
    ("last_error", "names", "asked"), [("", ["paid"], []), ("ReplyRefusedError", ["x"], ["x"])], ids=["paid", "refused"]
)
def test_a_text_paid_for_is_read_later(cache: ReplyCache, last_error: str, names: list[str], asked: list[str]) -> None:
    model = FakeModel()
    chat = chat_of(cache, model)
    source = chat._source(ask_for("x").key(MODEL), ask_for("x"))
    cache.put_call(source, "no reply, asked again", CALL, "MalformedReplyError")
    cache.put_call(source, '{"names":["paid"]}', CALL, last_error)
    if last_error:
        cache.put_failure(source, 2, last_error, "No.")
    (outcome,) = chat.ask([ask_for("x")])
    assert outcome.reply == Names(names=names)
    assert (outcome.is_cached, model.asked) == (False, asked)


def test_a_cached_reply_that_no_longer_has_the_form_counts_as_missing(cache: ReplyCache) -> None:
    stricter = ChatTask("kg.extract", TASK.prompt, StricterNames, max_output_tokens=100)
    assert ask_for("a").key("m") == ask_for("a", stricter).key("m")
    chat_of(cache, FakeModel()).ask([ask_for("a")])
    model = FakeModel()
    for expected_calls in (["a"], ["a"]):
        (outcome,) = chat_of(cache, model).ask([ask_for("a", stricter)])
        assert outcome.reply == StricterNames(names=["a"], year=1)
        assert model.asked == expected_calls


@pytest.mark.parametrize("budget", [Budget(None, 230), Budget(0.0115, None, (0, 50))], ids=["tokens", "dollars"])
def test_the_budget_stops_new_calls_and_keeps_those_in_flight(cache: ReplyCache, budget: Budget) -> None:
    """A call takes 60 tokens (0.001 USD), and might take 100 for its reply (0.005 USD)."""
    model = FakeModel()
    chat = chat_of(cache, model, budget, concurrency=2)
    with pytest.raises(errors.BudgetExceededError, match="budget of this run is used up"):
        chat.ask(NUMBERS)
    assert len(cache.replies([ask_for(text).key(MODEL) for text in model.asked])) == len(model.asked) > 1
    assert chat.spent.calls == len(model.asked) < 9


@pytest.mark.parametrize("error", [KeyboardInterrupt(), errors.StoreError("The disk is full."), ValueError("a defect")])
def test_an_exception_ends_the_call_and_keeps_what_was_answered(cache: ReplyCache, error: BaseException) -> None:
    model, again = FakeModel({"5": [error]}), FakeModel()
    with pytest.raises(type(error)):
        chat_of(cache, model, Budget(None, 10**6), concurrency=2).ask(NUMBERS)
    answered = len(model.asked) - 1
    assert cache.stats().reply_count == answered < 19
    assert names_of(chat_of(cache, again).ask(NUMBERS)) == [[str(n)] for n in range(20)]
    assert len(again.asked) == 20 - answered


@pytest.mark.real_time
def test_threads_that_ask_the_same_pay_once_with_no_more_calls_in_flight_than_allowed(cache: ReplyCache) -> None:
    class Counting(FakeModel):
        now = most = 0
        lock = threading.Lock()

        def call(self, messages: list[dict[str, str]], *given: Any) -> EndpointReply[Completion]:
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
            time.sleep(0.03 if messages[0]["content"].endswith(" 0") else 0.005)
            answer = super().call(messages, *given)
            with self.lock:
                self.now -= 1
            return answer

    model = Counting()
    chat = chat_of(cache, model, concurrency=2)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: names_of(chat.ask(NUMBERS[:8])), range(3)))
    assert found == [[[n] for n in "01234567"]] * 3
    assert (sorted(model.asked), model.most) == ([*"01234567"], 2)


def test_a_role_has_its_model_and_resolution_that_of_extraction() -> None:
    models = ModelSettings(extract="openai/a", read="openai/c")
    assert [model_name(models, role) for role in Role] == ["openai/a", "openai/a", "openai/c"]
    with pytest.raises(errors.ConfigurationError, match=r"set models\.read to a model"):
        model_name(ModelSettings(extract="openai/a"), Role.READ)
    with pytest.raises(errors.ConfigurationError, match=r"set models\.extract"):
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
        current_run().close()
    assert open_chat(configured, Role.EXTRACT) is not first
    current_run().close()


def test_a_run_leaves_the_models_opened_before_it_as_they_were(tmp_path: Path) -> None:
    configured = Settings(root=tmp_path, models=ModelSettings(extract="openai/a"))
    before = open_chat(configured, Role.EXTRACT)
    with begin_run():
        assert open_chat(configured, Role.EXTRACT) is not before
    assert open_chat(configured, Role.EXTRACT) is before
    assert before.ask([]) == []
    current_run().close()


@pytest.mark.parametrize(
    ("must_answer", "classes", "ended", "words"),
    [
        (
            False,
            ["ModelRejectedError"] * MOST_FAILURES,
            errors.ModelRejectedError,
            "No request has had.*check the model's",
        ),
        (True, ["ModelUnavailableError"] * MOST_FAILURES, errors.ModelUnavailableError, "again when the server replie"),
        (True, ["ModelRateLimitError"] * MOST_FAILURES, errors.ModelRateLimitError, "again when the server replies"),
        (True, ["ModelUnreachableError"], errors.ModelEndpointError, "correct models.api_base"),
        (True, ["ModelTimeoutError"], errors.ModelTimeoutError, "models.timeout_seconds"),
        (False, ["ModelUnavailableError"] * MOST_FAILURES, None, ""),
        (False, ["ModelRateLimitError"] * MOST_FAILURES, None, ""),
        *((True, ["ModelRejectedError", accepted, *OUTAGES], None, "") for accepted in ACCEPTED),
    ],
)
def test_failures_end_a_run(cache: ReplyCache, must_answer: bool, classes: list[str], ended: Any, words: str) -> None:
    chat = Chat("a/b", ModelSettings(), cache, Budget(None, None), must_answer=must_answer)
    found = []
    for name in classes:
        repair, said = (None, "It failed.") if name else (Repair.AS_IS, "")
        found.append(chat._first_error(ChatOutcome(None, "a/b", False, repair, 1, name, said, Usage(1))))
    assert [type(each) for each in found] == [type(None)] * (len(classes) - 1) + [ended or type(None)]
    assert re.search(words, str(found[-1]))


class NameList(BaseModel):
    entities: list[str]


FORMS: dict[str, type[BaseModel]] = {
    "graph": create_model("Graph", entities=list[Entity], relations=list[Relation]),
    "names": NameList,
    "propositions": create_model("Propositions", propositions=list[Proposition]),
    "answer": create_model("Guess", answer=str, score=float | None, is_sure=(bool | None, None)),
    "weight": create_model("Weight", weight=float),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case["kind"] for case in CASES])
def test_a_broken_reply_is_repaired_or_refused_as_listed(case: dict[str, Any]) -> None:
    form, text = FORMS[case["form"]], case["text"] + case.get("repeat", "") * case.get("times", 0)
    if "error" in case:
        with pytest.raises(getattr(errors, case["error"])) as caught:
            read_reply(text, form)
        assert type(caught.value).__name__ == case["error"]
        assert len(str(caught.value)) < 1000
    else:
        reply, repair = read_reply(text, form)
        assert (reply, repair.value) == (form.model_validate(case["reply"]), case["rung"])


@pytest.mark.slow
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=6), st.data())
def test_a_cut_reply_keeps_a_beginning_of_its_list_or_is_refused(names: list[str], data: st.DataObject) -> None:
    text = json.dumps({"entities": names}, ensure_ascii=data.draw(st.booleans()))
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    try:
        reply, _ = read_reply(cut, NameList)
    except errors.ModelError:
        return
    assert reply.entities == names[: len(reply.entities)]
    assert reply.entities or not names


@pytest.mark.slow
@given(st.text(st.sampled_from(list("{}[]\"':,\\ \nab1.#/*-“”…TN")), max_size=60))
def test_noise_is_refused_or_read_without_inventing(text: str) -> None:
    try:
        reply, _ = read_reply("{" + text, NameList)
    except (errors.MalformedReplyError, errors.ReplyRefusedError):
        return
    assert all(sign in text for name in reply.entities for sign in name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ['"x "y", ', "{", '{"a": ', "[1, ", "/*", '"', "\\", "'", "```", " ", "#\n", '{"entities": ["a"]} ', "{a: "]
)
@pytest.mark.timeout(120)  # quadratic reading of 200 kB takes minutes
def test_no_pattern_makes_reading_endless(unit: str) -> None:
    text = '{"entities": [' + unit * (200_000 // len(unit))
    with pytest.raises(errors.MalformedReplyError):
        read_reply(text, NameList)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_few_stray_quotes_in_a_long_reply_take_no_minutes() -> None:
    text = '{"entities": [' + ('"plain words", ' * 600 + '"Ada "the first" Lovelace", ') * 10 + '"end"]}'
    reply, repair = read_reply(text, NameList)
    assert (reply.entities[600], repair.value) == ('Ada "the first" Lovelace', "repaired")


def test_the_message_of_a_wrong_form_names_the_field() -> None:
    with pytest.raises(errors.MalformedReplyError, match=r"entities\.0\.type: Field required"):
        read_reply('{"entities": [{"name": "Ada"}], "relations": []}', FORMS["graph"])
