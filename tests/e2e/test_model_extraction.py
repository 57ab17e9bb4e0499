"""Extraction by a model over real HTTP: faults, kills and budgets cost at most the calls in flight, and end alike.

By hand with more: POLYHOP_MODEL_PASSAGES=200 POLYHOP_KILLS=20 uv run pytest tests/e2e/test_model_extraction.py
"""

import contextlib
import json
import os
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands, Started

from polyhop.commands.index import print_report
from polyhop.flows.index import run_index
from polyhop.flows.plan import plan_index
from polyhop.flows.reports import IndexReport, cost_rows, summary_lines
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import (
    BudgetExceededError,
    ConfigurationError,
    CoverageError,
    ModelKeyError,
    ModelRejectedError,
    PolyhopError,
)
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.query import query_rows

PASSAGE_COUNT = int(os.environ.get("POLYHOP_MODEL_PASSAGES", "40"))
KILL_COUNT = int(os.environ.get("POLYHOP_KILLS", "3"))
CONCURRENCY = 8
FAULTS = dict.fromkeys(("error", "drop", "wrong_schema", "rate_limit", "refusal"), 0.1)
HISTORY = {"extraction_ledger", "version_stages"}
"""Tables that tell how a version came about: attempts differ after faults."""
NAMES = ("Aldo Verri", "Berta Kahn", "Carl Otto", "Dora Lind")
WriteCorpus = Callable[..., Path]


def records(count: int, first: int = 0) -> list[dict[str, object]]:
    return [
        {
            "id": f"p{n:04d}",
            "title": f"Village {n}",
            "text": f"Village {n} lies on the River {n % 7}. It was founded by {NAMES[n % 4]} in {1500 + n}. "
            f"{NAMES[n % 4]} was born in Town {n % 5}.",
        }
        for n in range(first, first + count)
    ]


@pytest.fixture
def settings_for(tmp_path: Path, model_server: Any) -> Callable[..., Settings]:
    """Settings of a root by name, with the scripted server as the model."""

    def make(root: str = "one", **more: object) -> Settings:
        values = {
            "root": str(tmp_path / root),
            "strategies": "bridge-lexical",
            "extraction.extractor": "model",
            "models.extract": "openai/scripted",
            "models.api_base": model_server.url,
            "models.concurrency": CONCURRENCY,
            "models.price": "1.0,2.0",
        }
        return parse_settings({"test": values | {name.replace("__", "."): value for name, value in more.items()}})

    return make


def index(settings: Settings, corpus: Path, name: str = "i") -> IndexReport:
    return run_index(settings, IndexRequest(name, corpus), DirectRunner())


def tables(settings: Settings, name: str = "i") -> dict[str, Any]:
    """Checksums of the current version's tables, but for history."""
    folder = Layout(settings.root).index(name)
    version = int(folder.current.read_text(encoding="ascii"))
    manifest = json.loads(folder.version(version).manifest.read_text(encoding="utf-8"))
    return {table: record for table, record in manifest["tables"].items() if table not in HISTORY}


def ledger(settings: Settings, name: str = "i") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = query_rows(Layout(settings.root), name, "FROM extraction_ledger").to_pylist()
    return rows


def test_what_failed_is_listed_and_is_all_that_the_next_run_asks(
    settings_for: Callable[..., Settings], write_corpus: WriteCorpus, model_server: Any
) -> None:
    corpus = write_corpus(records(PASSAGE_COUNT))
    model_server.shares(FAULTS, seed=3)
    settings = settings_for()
    first = index(settings, corpus)
    rows = ledger(settings)
    failed = [row for row in rows if row["state"] == "failed"]
    assert len(rows) == 3 * PASSAGE_COUNT
    assert failed
    assert all(row["error_class"] and row["error"] for row in failed)
    assert first.extraction["failed_units"] == len(failed)
    assert first.model.calls == model_server.count()

    model_server.reset()
    second = index(settings, corpus)
    assert model_server.count() == second.model.calls == len(failed)
    assert {row["state"] for row in ledger(settings)} == {"done"}
    assert second.changed

    model_server.reset()
    third = index(settings, corpus)
    assert (model_server.count(), third.model.calls, third.changed) == (0, 0, False)

    undisturbed = settings_for("other")
    index(undisturbed, corpus)
    assert tables(settings) == tables(undisturbed)
    triples = query_rows(Layout(settings.root), "i", "SELECT DISTINCT extractor FROM triples")
    assert triples.column(0).to_pylist() == ["model"]


def test_a_reply_that_ends_too_early_each_time_is_listed_as_failed(
    settings_for: Callable[..., Settings], write_corpus: WriteCorpus, model_server: Any
) -> None:
    model_server.shares({"truncated": 0.3}, seed=3, is_sticky=True)
    settings = settings_for()
    index(settings, write_corpus(records(20)))
    states = {(row["state"], row["rung"], row["error_class"]) for row in ledger(settings)}
    assert ("failed", "", "MalformedReplyError") in states
    assert states <= {
        ("done", "as_is", ""),
        ("done", "reasked", ""),
        ("failed", "", "MalformedReplyError"),
        ("failed", "", "NotAsked"),
    }


def test_paid_calls_and_an_unknown_price_are_said_whatever_becomes_of_the_run(
    settings_for: Callable[..., Settings], write_corpus: WriteCorpus, model_server: Any, capsys: Any
) -> None:
    model_server.shares({"wrong_schema": 0.5}, seed=3, is_sticky=True)
    unpriced = {"models__price": None}
    corpus = write_corpus(records(10))
    said: list[str] = []
    notes: list[str] = []
    for settings in (
        settings_for(**unpriced),
        settings_for(**unpriced),
        settings_for("strict", min_coverage=1.0, **unpriced),
    ):
        runner = DirectRunner(on_note=notes.append)
        with contextlib.suppress(CoverageError):
            report = run_index(settings, IndexRequest("i", corpus), runner)
            assert report.model.calls > 0 < report.model.prompt_tokens
            assert report.to_json()["model"]["cost_usd"] is None
            assert sum(report.failing.values()) == sum(row["state"] == "failed" for row in ledger(settings))
            print_report(report)
            said.append(capsys.readouterr().out)
            assert cost_rows(report)[0]["cost"] == "cost unknown"
            assert report.model_sentences()[0] in "\n".join(summary_lines(settings, report))
    for text in (*said, "\n".join(notes)):
        assert re.search(r"models: [1-9]\d* calls, [\d,]+ \+ [\d,]+ tokens, cost unknown; \d+ repl", text)
    assert "version 1 published" in said[0]
    assert "nothing has changed" in said[1]
    assert all(re.search(r"\d+ units? still fails? \(extract \d+\); the next run asks again", text) for text in said)
    runs = query_rows(Layout(settings_for().root), "i", "SELECT calls > 0, cost_usd FROM index_runs").to_pylist()
    assert [tuple(row.values()) for row in runs] == [(True, None)] * 2


def test_a_killed_run_loses_no_more_than_the_calls_in_flight(
    settings_for: Callable[..., Settings],
    write_corpus: WriteCorpus,
    model_server: Any,
    commands: Commands,
    tmp_path: Path,
) -> None:
    corpus = write_corpus(records(PASSAGE_COUNT))
    undisturbed = settings_for("other")
    units = index(undisturbed, corpus).model.calls
    assert units == 3 * PASSAGE_COUNT

    model_server.reset()
    model_server.delay(0.05)
    settings = settings_for()
    dice = random.Random(5)
    for _ in range(KILL_COUNT):
        process = start(commands, settings, corpus, tmp_path)
        wanted = model_server.count() + dice.randint(1, max(2, 2 * units // KILL_COUNT // 3))
        while model_server.count() < wanted and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        process.wait()
    model_server.delay(0)
    index(settings, corpus)
    assert units < model_server.count() <= units + KILL_COUNT * CONCURRENCY
    assert tables(settings) == tables(undisturbed)


def test_two_processes_with_one_cache_ask_every_question_once(
    settings_for: Callable[..., Settings],
    write_corpus: WriteCorpus,
    model_server: Any,
    commands: Commands,
    tmp_path: Path,
) -> None:
    count = min(PASSAGE_COUNT, 40)
    settings = settings_for()
    corpora = [write_corpus(records(count), "a.jsonl"), write_corpus(records(count, count // 2), "b.jsonl")]
    runs = [start(commands, settings, corpus, tmp_path, corpus.stem) for corpus in corpora]
    assert [run.wait(timeout=300) for run in runs] == [0, 0], (tmp_path / "log").read_text(encoding="utf-8")
    assert model_server.count() == 3 * (count + count // 2)
    assert len(set(model_server.prompts())) == model_server.count()


def test_a_run_pauses_before_its_budget_is_exceeded_and_goes_on_later(
    settings_for: Callable[..., Settings], write_corpus: WriteCorpus, model_server: Any
) -> None:
    corpus = write_corpus(records(PASSAGE_COUNT))
    undisturbed = settings_for("other")
    whole = index(undisturbed, corpus).model
    model_server.reset()
    limit = (whole.prompt_tokens + whole.completion_tokens) // 2
    settings = settings_for(max_tokens=limit)
    with pytest.raises(BudgetExceededError, match="run the same command again"):
        index(settings, corpus)
    spent = sum(row[0] for row in usage(settings))
    assert 0.2 * limit < spent <= limit
    assert not Layout(settings.root).index("i").current.exists()
    index(settings_for(), corpus)
    assert model_server.count() == whole.calls
    assert tables(settings) == tables(undisturbed)

    money = settings_for("third", max_cost_usd=(whole.cost_usd or 0.0) / 3)
    with pytest.raises(BudgetExceededError, match="USD"):
        index(money, corpus)


def usage(settings: Settings) -> list[tuple[int]]:
    """Tokens of each call, from the journal in the cache."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(Layout(settings.root).reply_cache)) as cache:
        return cache.execute("SELECT prompt_tokens + completion_tokens FROM calls").fetchall()


def test_too_little_coverage_publishes_nothing(
    settings_for: Callable[..., Settings], write_corpus: WriteCorpus, model_server: Any
) -> None:
    corpus = write_corpus(records(12))
    model_server.shares({"refusal": 0.3}, seed=1, is_sticky=True)
    settings = settings_for(min_coverage=0.95)
    with pytest.raises(CoverageError, match=r"min_coverage = 0\.95"):
        index(settings, corpus)
    assert not Layout(settings.root).index("i").current.exists()
    model_server.reset()
    assert index(settings, corpus).version == 1


@pytest.mark.parametrize(("status", "error"), [(401, ModelKeyError), (403, ModelRejectedError)])
def test_a_refused_key_ends_the_run_at_its_first_calls_and_publishes_nothing(
    settings_for: Callable[..., Settings],
    write_corpus: WriteCorpus,
    model_server: Any,
    status: int,
    error: type[PolyhopError],
) -> None:
    model_server.shares({"error": 1.0}, specs={"error": {"kind": "error", "status": status, "message": "bad key"}})
    settings = settings_for()
    with pytest.raises(error, match=r"bad key"):
        index(settings, write_corpus(records(PASSAGE_COUNT)))
    # 403 may mean the request alone
    assert model_server.count() <= {401: 1, 403: 3 + CONCURRENCY}[status]
    assert not Layout(settings.root).index("i").current.exists()


def test_a_forgotten_key_ends_the_run_before_anything_is_published(
    settings_for: Callable[..., Settings], write_corpus: WriteCorpus, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = settings_for(**{"models.api_base": ""})
    with pytest.raises(ConfigurationError, match=r"No key for openai/scripted: set OPENAI_API_KEY"):
        index(settings, write_corpus(records(8)))
    assert not Layout(settings.root).index("i").current.exists()


def test_an_unknown_model_ends_the_run_after_the_first_requests(
    settings_for: Callable[..., Settings], write_corpus: WriteCorpus, model_server: Any
) -> None:
    model_server.shares({"error": 1.0}, specs={"error": {"kind": "error", "status": 404, "message": "no such model"}})
    with pytest.raises(ModelRejectedError, match=r"no such model.*check the model's name and its key"):
        index(settings_for(), write_corpus(records(PASSAGE_COUNT)))
    assert model_server.count() <= 3 + CONCURRENCY


def test_a_dead_address_ends_the_run_unless_caches_hold_every_reply(
    settings_for: Callable[..., Settings], write_corpus: WriteCorpus, model_server: Any
) -> None:
    corpus = write_corpus(records(8))
    dead = {"models.api_base": model_server.dead_url()}
    with pytest.raises(ConfigurationError, match=r"Nothing was asked; start the server, or correct models\.api_base"):
        index(settings_for(**dead), corpus)
    assert not Layout(settings_for().root).index("i").current.exists()
    index(settings_for(), corpus)
    cached = index(settings_for(**dead), corpus, "other")
    assert (cached.version, cached.model.calls, cached.model.cached) == (1, 0, 24)
    assert tables(settings_for(), "other") == tables(settings_for())


def test_replies_that_were_cut_are_all_that_is_asked_again(
    settings_for: Callable[..., Settings], write_corpus: WriteCorpus, model_server: Any
) -> None:
    corpus = write_corpus(records(8))
    step = "models.max_reply_tokens"

    def cut_under_500(asked: Any) -> Any:
        is_cut = asked.task == "prop.propositions" and asked.body["max_tokens"] < 500 and "Village 3" in asked.prompt
        return {"kind": "length", "cut": 0.8} if is_cut else "reply"

    model_server.respond(cut_under_500)
    undisturbed = settings_for("other")
    index(undisturbed, corpus)
    model_server.reset()
    model_server.respond(cut_under_500)
    settings = settings_for(**{step: 300})
    index(settings, corpus)
    assert {asked.body["max_tokens"] for asked in model_server.requests} == {300}
    assert [row["unit_id"] for row in ledger(settings) if row["state"] == "failed"] == ["p0003"]

    model_server.requests.clear()
    assert plan_index(settings_for(**{step: 600}), corpus).to_json()["calls"] == 1
    longer = index(settings_for(**{step: 600}), corpus)
    assert (longer.model.calls, longer.changed, model_server.count()) == (1, True, 1)
    assert [row["unit_id"] for row in ledger(settings) if row["state"] == "failed"] == []
    assert tables(settings) == tables(undisturbed)
    assert index(settings_for(**{step: 700}), corpus).model.calls == 0


def test_a_run_after_a_kill_lists_the_calls_whose_outcome_is_unknown(
    settings_for: Callable[..., Settings],
    write_corpus: WriteCorpus,
    model_server: Any,
    commands: Commands,
    tmp_path: Path,
) -> None:
    corpus = write_corpus(records(8))
    settings = settings_for()
    model_server.respond(lambda asked: {"kind": "reply", "delay_seconds": 60.0})
    process = start(commands, settings, corpus, tmp_path)
    while not model_server.count():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    model_server.respond(None)
    notes: list[str] = []
    report = run_index(settings, IndexRequest("i", corpus), DirectRunner(on_note=notes.append))
    assert (report.model.unknown_calls, report.model.calls) == (1, 24)
    assert 4096 < report.model.unknown_tokens < 4096 + 1500
    (note,) = notes
    assert note.startswith("An earlier run was killed during 1 call to a model. Whether that was billed is unknown;")
    assert f"worst case: {report.model.unknown_tokens:,} tokens" in note
    assert index(settings, corpus, "other").model.unknown_calls == 0


def test_a_server_that_lies_about_tokens_is_in_the_report(
    settings_for: Callable[..., Settings], write_corpus: WriteCorpus, model_server: Any
) -> None:
    lie = {"prompt_tokens": -5, "completion_tokens": -60_000_000, "total_tokens": -60_000_005}
    model_server.respond(lambda asked: {"kind": "reply", "usage": lie})
    model = index(settings_for(), write_corpus(records(8))).model
    assert (model.calls, model.replaced_counts) == (24, 24)
    assert min(model.prompt_tokens, model.completion_tokens, model.cost_usd or 0.0) > 0


def test_the_plan_comes_close_to_what_a_run_then_takes(
    settings_for: Callable[..., Settings], write_corpus: WriteCorpus, shared_data: Path, model_server: Any
) -> None:
    lines = (shared_data / "musique100" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    passages = [json.loads(line) for line in lines[: 4 * PASSAGE_COUNT]]
    settings = settings_for()
    index(settings, write_corpus(passages[:PASSAGE_COUNT], "part.jsonl"), "part")
    corpus = write_corpus(passages, "whole.jsonl")
    calls = model_server.count()
    planned = plan_index(settings, corpus).to_json()
    assert model_server.count() == calls
    taken = index(settings, corpus).model
    assert planned["cached"] >= 0.95 * 3 * PASSAGE_COUNT  # a document that goes on in the rest is another one
    assert planned["calls"] == taken.calls
    assert planned["prompt_tokens"] == pytest.approx(taken.prompt_tokens, rel=0.15)
    tokens = planned["prompt_tokens"] + planned["completion_tokens"]
    assert tokens == pytest.approx(taken.prompt_tokens + taken.completion_tokens, rel=0.15)
    assert planned["cost_usd"]["low"] < taken.cost_usd < planned["cost_usd"]["high"]
    again = plan_index(settings, corpus).to_json()
    assert (again["calls"], again["cost_usd"]["high"]) == (0, 0)


def start(commands: Commands, settings: Settings, corpus: Path, folder: Path, name: str = "i") -> Started:
    """`polyhop index` with these settings, in a process of its own."""
    models = settings.models
    chosen = {
        "strategies": ",".join(settings.strategies),
        "models.extract": models.extract,
        "models.api_base": models.api_base,
        "models.concurrency": models.concurrency,
    }
    flags = [part for key, value in chosen.items() for part in ("--set", f"{key}={value}")]
    command = ["index", corpus, "--index", name, "--extractor", "model", *flags, "--root", settings.root, "--json"]
    with (folder / "log").open("a") as log:
        return commands.start(command, folder, {}, log)  # type: ignore[arg-type]
