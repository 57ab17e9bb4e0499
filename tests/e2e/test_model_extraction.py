"""Extraction by a model over real HTTP: faults and kills cost at most the calls in flight, and end alike.

By hand with more: POLYHOP_MODEL_PASSAGES=200 POLYHOP_KILLS=20 uv run pytest tests/e2e/test_model_extraction.py
"""

import os
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from small_indexes import indexed, wait_for, write_rows

from polyhop.commands.index import print_report
from polyhop.flows.index import run_index
from polyhop.flows.plan import plan_index
from polyhop.flows.reports import cost_rows, summary_lines
from polyhop.flows.runner import DirectRunner
from polyhop.schemas import errors
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.query import query_rows

PASSAGE_COUNT = int(os.environ.get("POLYHOP_MODEL_PASSAGES", "40"))
KILL_COUNT = int(os.environ.get("POLYHOP_KILLS", "3"))
CONCURRENCY = 8
FAULTS = dict.fromkeys(("error", "drop", "wrong_schema", "rate_limit", "refusal"), 0.1)


def is_published(settings: Settings) -> bool:
    return Layout(settings.root).index("towns").current.exists()


def ledger(settings: Settings) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = query_rows(Layout(settings.root), "towns", "FROM extraction_ledger").to_pylist()
    return rows


def failed_units(settings: Settings) -> list[Any]:
    return [row["unit_id"] for row in ledger(settings) if row["state"] == "failed"]


@pytest.mark.rare
def test_what_failed_is_listed_and_is_all_that_the_next_run_asks(runs: Any) -> None:
    corpus = runs.corpus(PASSAGE_COUNT)
    runs.server.shares(FAULTS, seed=3)
    settings = runs.settings()
    first = indexed(settings, corpus)
    rows = ledger(settings)
    failed = [row for row in rows if row["state"] == "failed"]
    assert (len(rows), first.model.calls) == (3 * PASSAGE_COUNT, runs.server.count())
    assert first.extraction["failed_units"] == len(failed) > 0
    assert all(row["error_class"] and row["error"] for row in failed)

    for calls, changed in ((len(failed), True), (0, False)):
        runs.server.reset()
        again = indexed(settings, corpus)
        assert (runs.server.count(), again.model.calls, again.changed) == (calls, calls, changed)
        assert {row["state"] for row in ledger(settings)} == {"done"}

    undisturbed = runs.settings("other")
    indexed(undisturbed, corpus)
    assert runs.tables(settings) == runs.tables(undisturbed)
    triples = query_rows(Layout(settings.root), "towns", "SELECT DISTINCT extractor FROM triples")
    assert triples.column(0).to_pylist() == ["model"]


@pytest.mark.rare
def test_paid_calls_and_an_unknown_price_are_said_whatever_becomes_of_the_run(runs: Any, capsys: Any) -> None:
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
def test_a_killed_run_loses_no_more_than_the_calls_in_flight(runs: Any) -> None:
    corpus = runs.corpus(PASSAGE_COUNT)
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
    assert runs.tables(settings) == runs.tables(undisturbed)


@pytest.mark.rare
def test_a_dead_address_ends_the_run_unless_caches_hold_every_reply(runs: Any) -> None:
    corpus = runs.corpus(8)
    dead = {"models__api_base": runs.server.dead_url()}
    with pytest.raises(errors.ConfigurationError, match=r"Nothing was asked; start the server, or correct models\."):
        indexed(runs.settings(**dead), corpus)
    assert not is_published(runs.settings())
    indexed(runs.settings(), corpus)
    cached = indexed(runs.settings(**dead), corpus, "other")
    assert (cached.version, cached.model.calls, cached.model.cached) == (1, 0, 24)
    assert runs.tables(runs.settings(), "other") == runs.tables(runs.settings())


@pytest.mark.rare
def test_replies_that_were_cut_are_all_that_is_asked_again(runs: Any) -> None:
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
    assert failed_units(settings) == ["p00003"]

    runs.server.requests.clear()
    assert plan_index(runs.settings(models__max_reply_tokens=600), corpus).to_json()["calls"] == 1
    longer = indexed(runs.settings(models__max_reply_tokens=600), corpus)
    assert (longer.model.calls, longer.changed, runs.server.count()) == (1, True, 1)
    assert failed_units(settings) == []
    assert runs.tables(settings) == runs.tables(undisturbed)
    assert indexed(runs.settings(models__max_reply_tokens=700), corpus).model.calls == 0


@pytest.mark.rare
def test_a_run_after_a_kill_lists_the_calls_whose_outcome_is_unknown(runs: Any) -> None:
    corpus = runs.corpus(8)
    settings = runs.settings()
    runs.server.respond(lambda asked: {"kind": "reply", "delay_seconds": 60.0})
    process = runs.start(settings, corpus)
    wait_for(runs.server.count)
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


@pytest.mark.rare
def test_the_plan_comes_close_to_what_a_run_then_takes(runs: Any, shared_data: Path) -> None:
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
