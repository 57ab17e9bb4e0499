"""Batches of a provider over real HTTP: a run submits and ends, later ones take in and go on to what single calls give.

By hand: POLYHOP_BATCH_PASSAGES=1700 POLYHOP_KILLS=40 uv run pytest -n 0 --timeout 0 tests/e2e/test_model_batches.py
"""

import gc
import json
import os
import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_processes import Started
from scripted_server import drawn
from small_indexes import indexed, write_rows

from polyhop.flows.plan import plan_index
from polyhop.flows.reports import RunModelUse
from polyhop.schemas import errors
from polyhop.schemas.queue import JobSpec, NewQuestion
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.warehouse.tables.query import query_rows

MANY = int(os.environ.get("POLYHOP_BATCH_PASSAGES", "1700"))  # of three units each
KILL_COUNT = int(os.environ.get("POLYHOP_KILLS", "40"))
LOST = ("expired", "absent", "garbled")
FAULTS = ("error", "truncated", "length", "wrong_schema", "refusal", "content_filter", *LOST)
HELPED = ("prose", "broken")


# litellm makes an HTTP client for each call about a batch and leaves it, open, to the collector of garbage
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def runs(runs: Any) -> Iterator[Any]:
    runs.mode = "batch"
    yield runs
    gc.collect()


def by_single_calls(runs: Any, corpus: Path) -> tuple[Settings, RunModelUse]:
    """Settings of a root whose index asked single calls, and what these took; the server forgets them."""
    single = runs.settings("single", "single")
    taken = indexed(single, corpus).model
    runs.server.reset()
    return single, taken


def journal(settings: Settings, query: str) -> list[Any]:
    """Rows of the cache of replies, read by another connection."""
    with closing(sqlite3.connect(Layout(settings.root).reply_cache)) as cache:
        return cache.execute(query).fetchall()


def query_runs(settings: Settings) -> list[dict[str, Any]]:
    """The records of the runs, as they ended."""
    lines = (Layout(settings.root).index("towns").path / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    return list({row["run"]: row for row in map(json.loads, lines)}.values())


def check_nothing_waits(runs: Any, settings: Settings, *, is_asked_once: bool = True) -> None:
    if is_asked_once:
        assert set(by_unit(runs.server).values()) == {1}
    assert journal(settings, "SELECT * FROM parts") == journal(settings, "SELECT * FROM wanted") == []
    assert journal(settings, "SELECT count(*) FROM calls WHERE error = 'InFlight'") == [(0,)]


def by_unit(server: Any) -> Counter[str]:
    """How often each prompt was worked on, in batches and by single calls."""
    return Counter(asked.prompt for asked in server.requests)


def single_calls(server: Any) -> int:
    """Requests that did not come in a batch."""
    lines = sum(len(server.desk.lines(batch)) for batch in server.desk.batches.values() if batch["status"] != "failed")
    return len(server.requests) - lines


def test_a_run_submits_and_waits_and_later_ones_publish_what_single_calls_give_at_half_the_price(runs: Any) -> None:
    corpus = runs.corpus(12)
    single, whole = by_single_calls(runs, corpus)
    runs.server.desk.polls = 1
    settings = runs.settings("batches", models__batch_requests=9)
    first = runs.start(settings, corpus)
    assert first.wait(120) == 75
    assert runs.server.count() == 0
    desk = runs.server.desk
    assert [len(desk.lines(batch)) for batch in desk.batches.values()] == [9, 9, 6]
    (said,) = (runs.folder / "log").read_text().splitlines()[-1:]
    assert said == (
        "polyhop: Index 'towns' waits for 24 replies of openai/scripted in 3 batches, due within 24 hours of "
        "submission. Run the same command again later, or with --wait; no request is sent twice."
    )
    (record,) = query_runs(settings)
    assert (record["outcome"], record["sentence"]) == ("waiting", said.removeprefix("polyhop: "))

    assert len(runs.to_the_end(settings, corpus)) == 3  # the first three batches, not ended; twice for propositions
    assert runs.tables(settings) == runs.tables(single)
    assert single_calls(runs.server) == 0
    sums = "count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_usd)"
    ((calls, prompt, reply, cost),) = journal(settings, f"SELECT {sums} FROM calls WHERE error = ''")
    assert (calls, prompt, reply) == (whole.calls, whole.prompt_tokens, whole.completion_tokens)
    assert cost == pytest.approx((whole.cost_usd or 0.0) / 2)
    assert [row["outcome"] for row in query_runs(settings)] == ["waiting"] * 4 + ["published"]
    stages = [stage for row in query_runs(settings) for stage in row["stages"].values()]
    assert sum(stage["calls"] for stage in stages) == whole.calls
    assert sum(stage["cost_usd"] for stage in stages) == pytest.approx(cost, abs=1e-5)
    check_nothing_waits(runs, settings)
    assert indexed(settings, corpus).changed is False


def test_what_comes_back_late_wrong_or_not_at_all_is_asked_again_by_single_calls(runs: Any) -> None:
    corpus = runs.corpus(12)
    single, _ = by_single_calls(runs, corpus)
    kinds = [*FAULTS, *HELPED, *["reply"] * 10]
    treated: dict[str, str] = {}

    def respond(asked: Any) -> str:
        kind = kinds[len(treated) % len(kinds)] if asked.attempt == 0 else "reply"
        treated.setdefault(asked.prompt, kind)
        return kind

    runs.server.respond(respond)
    settings = runs.settings("batches", models__batch_requests=30)
    assert len(runs.to_the_end(settings, corpus)) == 2
    bad = {prompt for prompt, kind in treated.items() if kind in FAULTS}
    assert set(treated.values()) >= {*FAULTS, *HELPED}
    assert by_unit(runs.server) == {prompt: 2 if prompt in bad else 1 for prompt in treated}
    assert single_calls(runs.server) == len(bad)
    assert runs.tables(settings) == runs.tables(single)
    rows = query_rows(Layout(settings.root), "towns", "SELECT state, attempts, rung FROM extraction_ledger").to_pylist()
    assert Counter(row["attempts"] for row in rows) == {1: len(treated) - len(bad), 2: len(bad)}
    assert {row["state"] for row in rows} == {"done"}
    assert {row["rung"] for row in rows} == {"as_is", "unwrapped", "repaired"}
    said = dict(journal(settings, "SELECT error, count(*) FROM calls GROUP BY error"))
    of = Counter(kind for kind in treated.values() if kind in FAULTS)
    assert said.pop("") == len(treated)
    assert said == {
        "MalformedReplyError": of["truncated"] + of["length"] + of["wrong_schema"],
        "ReplyRefusedError": of["refusal"] + of["content_filter"],
        "ModelUnavailableError": of["error"],
        "Expired": sum(of[kind] for kind in LOST),
    }
    check_nothing_waits(runs, settings, is_asked_once=False)


@pytest.mark.rare
def test_replies_of_an_impossible_usage_are_taken_in_by_our_own_count(runs: Any) -> None:
    usage = {"prompt_tokens": 10**400, "completion_tokens": 2**63}
    runs.server.respond(lambda asked: {"kind": "reply", "usage": usage})
    settings = runs.settings("batches")
    runs.to_the_end(settings, runs.corpus(2))
    counts = journal(settings, "SELECT prompt_tokens, completion_tokens FROM calls")
    assert len(counts) > 0
    assert all(0 < prompt < 10_000 and 0 < reply < 10_000 for prompt, reply in counts)
    check_nothing_waits(runs, settings)


def test_a_batch_is_made_once_though_the_server_fails_while_it_makes_it(runs: Any) -> None:
    runs.server.desk.creating += ["error", "made", "", "made", "error"]
    settings, corpus = runs.settings("batches", models__batch_requests=9), runs.corpus(12)
    runs.to_the_end(settings, corpus)
    assert len(runs.server.desk.batches) == 5  # 24 requests in three, 12 in two
    check_nothing_waits(runs, settings)


@pytest.mark.rare
def test_a_batch_that_is_refused_as_a_whole_costs_nothing_and_is_submitted_by_the_next_run(runs: Any) -> None:
    runs.server.desk.creating.append("failed")
    settings, corpus = runs.settings("batches"), runs.corpus(6)
    with pytest.raises(errors.WaitingError):
        indexed(settings, corpus)
    said = r"refused 1 batch \(batch-0: scripted: invalid_json"
    with pytest.raises(errors.ModelRejectedError, match=said):
        indexed(settings, corpus)
    rejected = "SELECT sum(cost_usd), count(*) FROM calls WHERE error = 'ModelRejectedError'"
    assert journal(settings, rejected) == [(0, 12)]
    assert journal(settings, "SELECT * FROM parts") == journal(settings, "SELECT * FROM wanted") == []
    runs.to_the_end(settings, corpus)
    check_nothing_waits(runs, settings)


@pytest.mark.rare
def test_parts_stay_below_the_tokens_that_may_be_enqueued_and_a_full_queue_is_filled_by_later_runs(runs: Any) -> None:
    corpus = runs.corpus(12)
    single, taken = by_single_calls(runs, corpus)
    runs.server.desk.most_tokens = taken.prompt_tokens // 5
    settings = runs.settings("batches", models__batch_tokens=taken.prompt_tokens // 5)
    assert len(runs.to_the_end(settings, corpus)) >= 5
    assert {batch["status"] for batch in runs.server.desk.batches.values()} == {"completed"}
    assert set(by_unit(runs.server).values()) == {1}
    assert runs.tables(settings) == runs.tables(single)


@pytest.mark.rare
def test_what_is_submitted_counts_as_spent_until_it_comes_back(runs: Any) -> None:
    corpus = runs.corpus(12)
    settings = runs.settings("batches")
    runs.server.desk.is_held = True
    with pytest.raises(errors.WaitingError):
        indexed(settings, corpus)
    ((worst, dollars),) = journal(settings, "SELECT sum(prompt_tokens + completion_tokens), sum(cost_usd) FROM calls")
    assert worst > 24 * 2_000
    for name, limit in (("max_tokens", 3 * worst // 4), ("max_cost_usd", dollars * 0.75)):
        root = f"limited-{name}"
        with pytest.raises(errors.WaitingError, match=r"waits for 1\d replies"):
            indexed(runs.settings(root, **{name: limit}), corpus)
        ((booked,),) = journal(runs.settings(root), "SELECT sum(prompt_tokens + completion_tokens) FROM calls")
        assert booked <= 3 * worst // 4
    runs.server.desk.finish()  # which takes far less than its worst case, so that the rest fits
    runs.to_the_end(runs.settings("limited-max_tokens", max_tokens=3 * worst // 4), corpus)
    with pytest.raises(errors.BudgetExceededError, match="does not cover a single request of a batch"):
        indexed(runs.settings("poor", max_tokens=100), corpus)
    with pytest.raises(errors.ConfigurationError, match=r"in batches is unknown; set models\.batch_price"):
        indexed(runs.settings("unpriced", max_cost_usd=1.0, models__batch_price=None), corpus)


@pytest.mark.rare
def test_two_indexes_of_a_root_pay_once_for_what_both_ask(runs: Any) -> None:
    settings, one, other = runs.settings("batches"), runs.corpus(8), runs.corpus(8, 4, "other")
    runs.server.desk.is_held = True
    for corpus, name, count in ((one, "towns", 16), (other, "villages", 8)):
        with pytest.raises(errors.WaitingError, match=f"Index '{name}' waits for {count} replies"):
            indexed(settings, corpus, name)
    runs.server.desk.finish()
    for corpus, name in ((one, "towns"), (other, "villages")) * 2:
        with suppress(errors.WaitingError):
            indexed(settings, corpus, name)
    assert indexed(settings, one).version == indexed(settings, other, "villages").version == 1
    assert len(by_unit(runs.server)) == 3 * 12
    check_nothing_waits(runs, settings)


@pytest.mark.rare
def test_a_run_told_to_wait_polls_and_publishes(runs: Any) -> None:
    runs.server.desk.polls = 2
    started = runs.start(runs.settings("batches"), runs.corpus(6), "--wait")
    assert started.wait(120) == 0, (runs.folder / "log").read_text()
    assert (runs.folder / "log").read_text().count("waits for") == 2
    assert set(by_unit(runs.server).values()) == {1}


@pytest.mark.rare
def test_only_the_steps_that_are_named_wait_and_single_calls_wait_for_what_was_submitted(runs: Any) -> None:
    corpus = runs.corpus(6)
    mixed = runs.settings("batches", "propositions")
    with pytest.raises(errors.WaitingError, match="waits for 6 replies"):
        indexed(mixed, corpus)
    assert Counter(asked.task for asked in runs.server.requests) == {"kg.extract": 6}
    runs.server.desk.is_held = True
    with pytest.raises(errors.WaitingError, match="waits for 6 replies"):
        indexed(runs.settings("batches", "single"), corpus)
    runs.server.desk.finish()
    indexed(runs.settings("batches", "single"), corpus)
    check_nothing_waits(runs, mixed)


@pytest.mark.rare
def test_resolution_and_hub_texts_wait_for_batches_of_their_own(runs: Any) -> None:
    more = {"resolution__method": "model", "strategies": "hublink", "hubs__textualiser": "model"}
    towns = ("Alba", "Brone", "Corva", "Drimo", "Elst", "Fargo")
    places = zip(towns, runs.people * 2, (towns[-1], *towns), strict=False)
    texts = ((town, f"{town} was founded by {name}. {name.split()[1]} died in {last}.") for town, name, last in places)
    rows = ({"id": town, "title": town, "text": text} for town, text in texts)
    corpus, single = write_rows(runs.folder / "towns.jsonl", rows), runs.settings("single", "single", **more)
    indexed(single, corpus)
    tasks = Counter(asked.task for asked in runs.server.requests)
    assert {"kg.resolve", "hub.path_text"} <= tasks.keys()
    runs.server.reset()
    settings = runs.settings("batches", **more)
    assert len(runs.to_the_end(settings, corpus)) == 4
    assert Counter(asked.task for asked in runs.server.requests) == tasks
    assert single_calls(runs.server) == 0
    assert runs.tables(settings) == runs.tables(single)


def test_a_provider_whose_batches_cannot_be_found_again_is_refused_before_anything_is_sent(runs: Any) -> None:
    settings = runs.settings("batches", models__extract="anthropic/claude-3-5-haiku-latest")
    with pytest.raises(errors.ConfigurationError, match="Batches of anthropic cannot be looked up"):
        indexed(settings, runs.corpus(3))
    assert runs.server.count() == 0


@pytest.mark.parametrize(
    ("passages", "kills", "seed"), [(6, 2, 7), pytest.param(40, KILL_COUNT, None, marks=pytest.mark.rare)]
)
def test_kills_lose_no_unit_and_pay_none_twice(runs: Any, passages: int, kills: int, seed: int | None) -> None:
    """Killed one after the other, at requests of the desk and at any moment; then all is as if none had been."""
    dice = random.Random(seed)
    aimed: dict[str, Any] = {"left": 0}

    def count() -> None:
        """Kills at so many requests of the desk from now, before or after one is treated."""
        aimed["left"] -= 1
        if aimed["left"] == 0:
            aimed["victim"].kill()

    corpus = runs.corpus(passages)
    single, _ = by_single_calls(runs, corpus)
    killed = turn = 0
    while killed < kills:
        turn += 1
        runs.server.reset()
        runs.server.respond(lambda asked: "expired" if asked.attempt == 0 and "River 3" in asked.prompt else "reply")
        settings = runs.settings(f"killed-{turn}", models__batch_requests=max(4, passages // 2))
        runs.server.desk.on_request = count
        code, died = 75, 0
        while code == 75 or code < 0:
            started = runs.start(settings, corpus)
            if killed < kills and died < 12:
                if dice.random() < 0.7:
                    aimed.update(left=dice.randint(1, 30), victim=started)
                else:
                    threading.Timer(dice.uniform(0.2, 4.0), started.kill).start()
            code = started.wait(120)
            killed += code < 0
            died += code < 0
        assert code == 0, (runs.folder / "log").read_text(encoding="utf-8")[-2000:]
        assert runs.tables(settings) == runs.tables(single)
        desk = runs.server.desk
        assert set(desk.done.values()) == {1}, "a unit was paid twice in batches"
        submitted = Counter(line["custom_id"] for batch in desk.batches.values() for line in desk.lines(batch))
        assert set(submitted.values()) == {1}, "a unit was submitted twice"
        assert len(submitted) == 3 * passages, "a unit was lost"
        check_nothing_waits(runs, settings, is_asked_once=False)


@pytest.mark.rare
def test_five_thousand_units_come_back_out_of_order_partly_failed_and_cost_what_was_planned(runs: Any) -> None:
    corpus = runs.corpus(MANY)
    single, _ = by_single_calls(runs, corpus)
    shares = dict.fromkeys(("error", "expired", "wrong_schema", "truncated", "length", "garbled"), 0.01)
    runs.server.respond(lambda asked: drawn(shares, 5, asked.prompt) if asked.attempt == 0 else "reply")
    settings = runs.settings("batches", models__batch_requests=700)
    assert len(runs.to_the_end(settings, corpus)) == 2
    units = by_unit(runs.server)
    assert len(units) == 3 * MANY
    assert Counter(units.values())[2] == single_calls(runs.server)
    assert 0 < single_calls(runs.server) < 0.1 * len(units)
    assert runs.tables(settings) == runs.tables(single)
    check_nothing_waits(runs, settings, is_asked_once=False)


@pytest.mark.rare
def test_batches_cost_what_was_planned(runs: Any) -> None:
    settings, corpus = runs.settings("batches"), runs.corpus(MANY)
    indexed(runs.settings("batches", "single"), runs.corpus(60, MANY, "others"), "others")
    paid = journal(settings, "SELECT sum(cost_usd) FROM calls")[0][0]
    planned = plan_index(settings, corpus).to_json()
    batches = planned["batches"]
    assert (batches["waits"], batches["hours"]) == (2, 48)
    assert batches["cost_usd"]["expected"] == pytest.approx(planned["cost_usd"]["expected"] / 2, abs=1e-6)
    runs.to_the_end(settings, corpus)
    cost = journal(settings, "SELECT sum(cost_usd) FROM calls")[0][0] - paid
    assert batches["cost_usd"]["expected"] == pytest.approx(cost, rel=0.01)
    unpriced = plan_index(runs.settings("batches", models__batch_price=None), runs.corpus(9, 9000, "more")).to_json()
    assert unpriced["cost_usd"] is not None
    assert unpriced["batches"] == {"cost_usd": None, "waits": 2, "hours": 48}
    partly = plan_index(runs.settings("partly", "resolve"), runs.corpus(9, 9000, "more")).to_json()
    assert partly["batches"]["cost_usd"] == partly["cost_usd"]  # extraction waits for none
    more = {"models__extract": "openai/gpt-4o-mini", "models__batch_price": None, "models__price": None}
    listed = plan_index(runs.settings("other", **more), corpus).to_json()
    assert listed["batches"]["cost_usd"]["low"] == pytest.approx(listed["cost_usd"]["low"] / 2, abs=1e-6)


def test_questions_of_jobs_wait_for_batches_and_are_answered_as_by_single_calls_at_half_the_price(runs: Any) -> None:
    """One worker is killed when its batch was made; one finds that batch, and ends; the third answers."""
    corpus = runs.corpus(12)
    asked = [NewQuestion(f"q{n}", f"Who founded Village {n}?") for n in range(12)]
    answered: dict[str, list[tuple[Any, Any]]] = {}
    for mode in ("single", "batch"):
        runs.server.reset()
        settings = runs.settings(mode, mode, extraction__extractor="rules", models__read="openai/scripted")
        indexed(settings, corpus)
        work = partial(runs.start_command, settings, "worker", "--until-empty")
        with open_questions(settings) as queue:
            queue.submit(JobSpec("towns", strategy="bridge-lexical"), asked)
            if mode == "batch":
                check_that_questions_wait(runs.server.desk, work, queue)
            assert work().wait(60) == 0
            rows = list(queue.results(1))
        answered[mode] = [(row.answer, row.result["cost_usd"]) for row in rows]
        assert {row.attempts for row in rows} == {1}
    assert answered["batch"] == [(answer, pytest.approx(cost / 2)) for answer, cost in answered["single"]]
    assert single_calls(runs.server) == 0
    check_nothing_waits(runs, settings)


def check_that_questions_wait(desk: Any, work: Callable[[], Started], queue: QuestionQueue) -> None:
    desk.is_held = True
    killed = work()
    desk.on_request = lambda: killed.kill() if desk.batches else None
    assert killed.wait(60) < 0
    desk.on_request = lambda: None
    assert work().wait(60) == 75
    assert queue.count_put_off(["default"]) == queue.count_open(["default"]) == 12
    desk.finish()
