"""Extraction by a model over real HTTP: faults, kills and budgets cost at most the calls in flight, and end alike.

By hand with more: POLYHOP_MODEL_PASSAGES=200 POLYHOP_KILLS=20 uv run pytest tests/e2e/test_model_extraction.py
"""

import os
import random
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands, Started
from small_indexes import indexed, write_rows

from polyhop.commands.index import print_report
from polyhop.flows.index import run_index
from polyhop.flows.plan import plan_index
from polyhop.flows.reports import cost_rows, summary_lines
from polyhop.flows.runner import DirectRunner
from polyhop.schemas import errors
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.tables.query import query_rows

PASSAGE_COUNT = int(os.environ.get("POLYHOP_MODEL_PASSAGES", "40"))
KILL_COUNT = int(os.environ.get("POLYHOP_KILLS", "3"))
CONCURRENCY = 8
FAULTS = dict.fromkeys(("error", "drop", "wrong_schema", "rate_limit", "refusal"), 0.1)
HISTORY = {"extraction_ledger", "version_stages"}
"""Tables that tell how a version came about: attempts differ after faults."""
NAMES = ("Aldo Verri", "Berta Kahn", "Carl Otto", "Dora Lind")


class Runs:
    """Index runs in a folder, with the scripted server as the model."""

    def __init__(self, folder: Path, server: Any, commands: Commands) -> None:
        self.folder = folder
        self.server = server
        self.commands = commands

    def corpus(self, count: int = PASSAGE_COUNT, first: int = 0, name: str = "corpus") -> Path:
        """Villages, each a passage of three calls."""
        rows = (
            {
                "id": f"p{n:04d}",
                "title": f"Village {n}",
                "text": f"Village {n} lies on the River {n % 7}. It was founded by {NAMES[n % 4]} in {1500 + n}. "
                f"{NAMES[n % 4]} was born in Town {n % 5}.",
            }
            for n in range(first, first + count)
        )
        return write_rows(self.folder / f"{name}.jsonl", rows)

    def settings(self, root: str = "one", **more: object) -> Settings:
        """Settings of a root by name."""
        values = {
            "root": str(self.folder / root),
            "strategies": "bridge-lexical",
            "extraction.extractor": "model",
            "models.extract": "openai/scripted",
            "models.api_base": self.server.url,
            "models.concurrency": CONCURRENCY,
            "models.price": "1.0,2.0",
        }
        return parse_settings({"test": values | {name.replace("__", "."): value for name, value in more.items()}})

    def start(self, settings: Settings, corpus: Path, name: str = "towns") -> Started:
        """`polyhop index` with these settings, in a process of its own."""
        models = settings.models
        chosen = f"extract={models.extract} api_base={models.api_base} concurrency={models.concurrency}"
        flags = [part for value in chosen.split() for part in ("--set", f"models.{value}")]
        flags += ["--set", f"strategies={','.join(settings.strategies)}", "--extractor", "model"]
        command = ["index", corpus, "--index", name, *flags, "--root", settings.root, "--json"]
        with (self.folder / "log").open("a") as log:
            return self.commands.start(command, self.folder, {}, log)  # type: ignore[arg-type]


@pytest.fixture
def runs(tmp_path: Path, model_server: Any, commands: Commands) -> Runs:
    return Runs(tmp_path, model_server, commands)


def tables(settings: Settings, name: str = "towns") -> dict[str, Any]:
    """Checksums of the current version's tables, but for history."""
    manifest = read_manifest(require_version(Layout(settings.root), name)[1])
    return {table: record for table, record in manifest.tables.items() if table not in HISTORY}


def is_published(settings: Settings) -> bool:
    return Layout(settings.root).index("towns").current.exists()


def ledger(settings: Settings) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = query_rows(Layout(settings.root), "towns", "FROM extraction_ledger").to_pylist()
    return rows


def failed_units(settings: Settings) -> list[Any]:
    return [row["unit_id"] for row in ledger(settings) if row["state"] == "failed"]


@pytest.mark.rare
def test_what_failed_is_listed_and_is_all_that_the_next_run_asks(runs: Runs) -> None:
    corpus = runs.corpus()
    runs.server.shares(FAULTS, seed=3)
    settings = runs.settings()
    first = indexed(settings, corpus)
    rows = ledger(settings)
    failed = [row for row in rows if row["state"] == "failed"]
    assert len(rows) == 3 * PASSAGE_COUNT
    assert failed
    assert all(row["error_class"] and row["error"] for row in failed)
    assert first.extraction["failed_units"] == len(failed)
    assert first.model.calls == runs.server.count()

    runs.server.reset()
    second = indexed(settings, corpus)
    assert runs.server.count() == second.model.calls == len(failed)
    assert {row["state"] for row in ledger(settings)} == {"done"}
    assert second.changed

    runs.server.reset()
    third = indexed(settings, corpus)
    assert (runs.server.count(), third.model.calls, third.changed) == (0, 0, False)

    undisturbed = runs.settings("other")
    indexed(undisturbed, corpus)
    assert tables(settings) == tables(undisturbed)
    triples = query_rows(Layout(settings.root), "towns", "SELECT DISTINCT extractor FROM triples")
    assert triples.column(0).to_pylist() == ["model"]


def test_a_reply_that_ends_too_early_each_time_is_listed_as_failed(runs: Runs) -> None:
    runs.server.shares({"truncated": 0.3}, seed=3, is_sticky=True)
    settings = runs.settings()
    indexed(settings, runs.corpus(20))
    states = {(row["state"], row["rung"], row["error_class"]) for row in ledger(settings)}
    failed = ("failed", "", "MalformedReplyError")
    assert failed in states
    assert states <= {("done", "as_is", ""), ("done", "reasked", ""), failed, ("failed", "", "NotAsked")}


@pytest.mark.rare
def test_paid_calls_and_an_unknown_price_are_said_whatever_becomes_of_the_run(runs: Runs, capsys: Any) -> None:
    runs.server.shares({"wrong_schema": 0.5}, seed=3, is_sticky=True)
    corpus = runs.corpus(10)
    said: list[str] = []
    notes: list[str] = []
    settings = runs.settings(models__price=None)
    for news in ("version 1 published", "nothing has changed"):
        report = indexed(settings, corpus)
        assert report.model.calls > 0 < report.model.prompt_tokens
        assert report.to_json()["model"]["cost_usd"] is None
        assert sum(report.failing.values()) == len(failed_units(settings))
        print_report(report)
        said.append(capsys.readouterr().out)
        assert news in said[-1]
        assert re.search(r"\d+ units? still fails? \(extract \d+\); the next run asks again", said[-1])
        assert cost_rows(report)[0]["cost"] == "cost unknown"
        assert report.model_sentences()[0] in "\n".join(summary_lines(settings, report))
    rows = query_rows(Layout(settings.root), "towns", "SELECT calls > 0, cost_usd FROM index_runs").to_pylist()
    assert [tuple(row.values()) for row in rows] == [(True, None)] * 2

    strict = runs.settings("strict", min_coverage=0.95, models__price=None)
    with pytest.raises(errors.CoverageError, match=r"min_coverage = 0\.95"):
        run_index(strict, IndexRequest("towns", corpus), DirectRunner(on_note=notes.append))
    assert not is_published(strict)
    for text in (*said, "\n".join(notes)):
        assert re.search(r"models: [1-9]\d* calls, [\d,]+ \+ [\d,]+ tokens, cost unknown; \d+ repl", text)
    runs.server.reset()
    assert indexed(strict, corpus).version == 1


@pytest.mark.rare
def test_a_killed_run_loses_no_more_than_the_calls_in_flight(runs: Runs) -> None:
    corpus = runs.corpus()
    undisturbed = runs.settings("other")
    units = indexed(undisturbed, corpus).model.calls
    assert units == 3 * PASSAGE_COUNT

    runs.server.reset()
    runs.server.delay(0.05)
    settings = runs.settings()
    dice = random.Random(5)
    for _ in range(KILL_COUNT):
        process = runs.start(settings, corpus)
        wanted = runs.server.count() + dice.randint(1, max(2, 2 * units // KILL_COUNT // 3))
        while runs.server.count() < wanted and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        process.wait()
    runs.server.delay(0)
    indexed(settings, corpus)
    assert units < runs.server.count() <= units + KILL_COUNT * CONCURRENCY
    assert tables(settings) == tables(undisturbed)


@pytest.mark.rare
def test_two_processes_with_one_cache_ask_every_question_once(runs: Runs) -> None:
    count = min(PASSAGE_COUNT, 40)
    settings = runs.settings()
    corpora = [runs.corpus(count, name="a"), runs.corpus(count, count // 2, "b")]
    processes = [runs.start(settings, corpus, corpus.stem) for corpus in corpora]
    assert [process.wait(timeout=300) for process in processes] == [0, 0], (runs.folder / "log").read_text(
        encoding="utf-8"
    )
    assert runs.server.count() == 3 * (count + count // 2)
    assert len(set(runs.server.prompts())) == runs.server.count()


@pytest.mark.rare
def test_a_run_pauses_before_its_budget_is_exceeded_and_goes_on_later(runs: Runs) -> None:
    corpus = runs.corpus()
    undisturbed = runs.settings("other")
    whole = indexed(undisturbed, corpus).model
    runs.server.reset()
    limit = (whole.prompt_tokens + whole.completion_tokens) // 2
    settings = runs.settings(max_tokens=limit)
    with pytest.raises(errors.BudgetExceededError, match="run the same command again"):
        indexed(settings, corpus)
    with closing(sqlite3.connect(Layout(settings.root).reply_cache)) as cache:  # each call is in its journal
        (spent,) = cache.execute("SELECT sum(prompt_tokens + completion_tokens) FROM calls").fetchone()
    assert 0.2 * limit < spent <= limit
    assert not is_published(settings)
    indexed(runs.settings(), corpus)
    assert runs.server.count() == whole.calls
    assert tables(settings) == tables(undisturbed)

    money = runs.settings("third", max_cost_usd=(whole.cost_usd or 0.0) / 3)
    with pytest.raises(errors.BudgetExceededError, match="USD"):
        indexed(money, corpus)


@pytest.mark.parametrize(
    ("status", "error", "said", "most_calls"),
    [
        (401, errors.ModelKeyError, "bad key", 1),
        (403, errors.ModelRejectedError, "bad key", 3 + CONCURRENCY),  # it may mean the request alone
        (404, errors.ModelRejectedError, "bad key.*check the model's name and its key", 3 + CONCURRENCY),
        (None, errors.ConfigurationError, "No key for openai/scripted: set OPENAI_API_KEY", 0),
    ],
)
def test_a_refused_or_forgotten_key_and_an_unknown_model_end_the_run_at_its_first_calls_and_publish_nothing(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, status: int | None, error: type[Exception], said: str, most_calls: int
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    fault = {"kind": "error", "status": status, "message": "bad key"}
    runs.server.shares({"error": 1.0}, specs={"error": fault})
    settings = runs.settings(**({} if status else {"models__api_base": ""}))
    with pytest.raises(error, match=said):
        indexed(settings, runs.corpus())
    assert runs.server.count() <= most_calls
    assert not is_published(settings)


@pytest.mark.rare
def test_a_dead_address_ends_the_run_unless_caches_hold_every_reply(runs: Runs) -> None:
    corpus = runs.corpus(8)
    dead = {"models__api_base": runs.server.dead_url()}
    with pytest.raises(
        errors.ConfigurationError, match=r"Nothing was asked; start the server, or correct models\.api_base"
    ):
        indexed(runs.settings(**dead), corpus)
    assert not is_published(runs.settings())
    indexed(runs.settings(), corpus)
    cached = indexed(runs.settings(**dead), corpus, "other")
    assert (cached.version, cached.model.calls, cached.model.cached) == (1, 0, 24)
    assert tables(runs.settings(), "other") == tables(runs.settings())


@pytest.mark.rare
def test_replies_that_were_cut_are_all_that_is_asked_again(runs: Runs) -> None:
    corpus = runs.corpus(8)

    def cut_under_500(asked: Any) -> Any:
        is_cut = asked.task == "prop.propositions" and asked.body["max_tokens"] < 500 and "Village 3" in asked.prompt
        return {"kind": "length", "cut": 0.8} if is_cut else "reply"

    runs.server.respond(cut_under_500)
    undisturbed = runs.settings("other")
    indexed(undisturbed, corpus)
    runs.server.reset()
    runs.server.respond(cut_under_500)
    settings = runs.settings(models__max_reply_tokens=300)
    indexed(settings, corpus)
    assert {asked.body["max_tokens"] for asked in runs.server.requests} == {300}
    assert failed_units(settings) == ["p0003"]

    runs.server.requests.clear()
    assert plan_index(runs.settings(models__max_reply_tokens=600), corpus).to_json()["calls"] == 1
    longer = indexed(runs.settings(models__max_reply_tokens=600), corpus)
    assert (longer.model.calls, longer.changed, runs.server.count()) == (1, True, 1)
    assert failed_units(settings) == []
    assert tables(settings) == tables(undisturbed)
    assert indexed(runs.settings(models__max_reply_tokens=700), corpus).model.calls == 0


@pytest.mark.rare
def test_a_run_after_a_kill_lists_the_calls_whose_outcome_is_unknown(runs: Runs) -> None:
    corpus = runs.corpus(8)
    settings = runs.settings()
    runs.server.respond(lambda asked: {"kind": "reply", "delay_seconds": 60.0})
    process = runs.start(settings, corpus)
    while not runs.server.count():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    runs.server.respond(None)
    notes: list[str] = []
    report = run_index(settings, IndexRequest("towns", corpus), DirectRunner(on_note=notes.append))
    assert (report.model.unknown_calls, report.model.calls) == (1, 24)
    assert 4096 < report.model.unknown_tokens < 4096 + 1500
    (note,) = notes
    assert note.startswith("An earlier run was killed during 1 call to a model. Whether that was billed is unknown;")
    assert f"worst case: {report.model.unknown_tokens:,} tokens" in note
    assert indexed(settings, corpus, "other").model.unknown_calls == 0


def test_a_server_that_lies_about_tokens_is_in_the_report(runs: Runs) -> None:
    lie = {"prompt_tokens": -5, "completion_tokens": -60_000_000, "total_tokens": -60_000_005}
    runs.server.respond(lambda asked: {"kind": "reply", "usage": lie})
    model = indexed(runs.settings(), runs.corpus(8)).model
    assert (model.calls, model.replaced_counts) == (24, 24)
    assert min(model.prompt_tokens, model.completion_tokens, model.cost_usd or 0.0) > 0


@pytest.mark.rare
def test_the_plan_comes_close_to_what_a_run_then_takes(runs: Runs, shared_data: Path) -> None:
    lines = (shared_data / "musique100" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    settings = runs.settings()
    indexed(settings, write_rows(runs.folder / "part.jsonl", [], *lines[:PASSAGE_COUNT]), "part")
    corpus = write_rows(runs.folder / "whole.jsonl", [], *lines[: 4 * PASSAGE_COUNT])
    calls = runs.server.count()
    planned = plan_index(settings, corpus).to_json()
    assert runs.server.count() == calls
    taken = indexed(settings, corpus).model
    assert planned["cached"] >= 0.95 * 3 * PASSAGE_COUNT  # a document that goes on in the rest is another one
    assert planned["calls"] == taken.calls
    assert planned["prompt_tokens"] == pytest.approx(taken.prompt_tokens, rel=0.15)
    tokens = planned["prompt_tokens"] + planned["completion_tokens"]
    assert tokens == pytest.approx(taken.prompt_tokens + taken.completion_tokens, rel=0.15)
    assert planned["cost_usd"]["low"] < taken.cost_usd < planned["cost_usd"]["high"]
    again = plan_index(settings, corpus).to_json()
    assert (again["calls"], again["cost_usd"]["high"]) == (0, 0)
