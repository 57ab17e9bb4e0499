"""Extraction and reading by a model over real HTTP: faults, kills and outages lose nothing and cost next to nothing.

By hand with more: POLYHOP_MODEL_PASSAGES=200 POLYHOP_KILLS=20 POLYHOP_OUTAGE_SECONDS=60 uv run pytest THIS_FILE
"""

import json
import os
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from scripted_server import ModelServer
from small_indexes import indexed, wait_for, write_rows

from polyhop.commands.index import print_report
from polyhop.flows.index import run_index
from polyhop.flows.plan import plan_index
from polyhop.flows.reports import cost_rows, summary_lines
from polyhop.flows.runner import DirectRunner
from polyhop.schemas import errors
from polyhop.schemas.queue import QuestionState
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


def cut_units(settings: Settings) -> list[Any]:
    return [row["unit_id"] for row in ledger(settings) if row["rung"] == "cut"]


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


def test_a_run_says_how_much_of_the_replies_it_kept(runs: Any, capsys: Any) -> None:
    named = {"name": "Village 3", "type": "LOCATION", "description": "A village."}
    incomplete = json.dumps({"entities": [named, {"type": "LOCATION"}, {"name": "Thames"}]})
    runs.server.respond(
        lambda asked: {"kind": "reply", "content": incomplete} if asked.task == "kg.extract" else "reply"
    )
    settings = runs.settings()
    report = indexed(settings, runs.corpus(4))
    assert report.failing == {}
    assert {row["items"] for row in ledger(settings) if row["dropped"]} == {"kept 2 of 3 entities"}
    print_report(report)
    assert "models: of their replies kept 8 of 12 entities, " in capsys.readouterr().out


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
        assert re.search(r"\d+ units? still fails? \(extract \d+\); the next run retries", said[-1])
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
    with pytest.raises(errors.ConfigurationError, match=r"No request was sent; start the server, or correct models\."):
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
    assert cut_units(settings) == ["p00003"]
    assert runs.tables(settings) != runs.tables(undisturbed)

    runs.server.requests.clear()
    assert plan_index(runs.settings(models__max_reply_tokens=600), corpus).to_json()["calls"] == 1
    longer = indexed(runs.settings(models__max_reply_tokens=600), corpus)
    assert (longer.model.calls, longer.changed, runs.server.count()) == (1, True, 1)
    assert cut_units(settings) == []
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
    assert note.startswith("An earlier run was killed during 1 call to a model. Their cost is unknown")
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


OUTAGE_SECONDS = float(os.environ.get("POLYHOP_OUTAGE_SECONDS", "5"))
QUESTION_COUNT = 60
QUESTION = "Which river does Town 7 lie on?"
ASK = "ask --index towns --strategy bm25"
QUOTE = "Town 7 lies on the River 0 in Country 1."


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's package wants one."""
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")


def model(url: str) -> str:
    """Options that name the scripted server."""
    values = f"read=openai/scripted api_base={url} max_attempts=2 timeout_seconds=10 price=1,2"
    return " ".join(f"--set models.{value}" for value in values.split())


def reply(answer: str = "River 0", *citations: object) -> dict[str, str]:
    content = {"reasoning": "It lies there [1], as all say [4].", "answer": answer, "citations": citations}
    return {"kind": "reply", "content": json.dumps(content)}


def ask(towns: Any, server: Any, options: str = "") -> Any:
    (answer,) = towns.good(f"{ASK} --json {model(server.url)} {options}", QUESTION)
    return answer


def test_a_model_reads_once_and_says_what_it_cost_and_where_it_found_it(towns: Any, model_server: Any) -> None:
    """No source is made up."""
    made_up = [{"passage": 99, "quote": QUOTE}, {"passage": 1, "quote": "Town 7 lies on the moon."}]
    model_server.respond(lambda asked: reply("River 0", *made_up, {"passage": 1, "quote": QUOTE}))
    first = ask(towns, model_server)
    reading = first["reading"]
    assert first["answer"] == "River 0"
    assert (reading["by"], reading["model"], reading["prompt"]["name"]) == ("model", "openai/scripted", "qa.answer")
    assert len(reading["prompt"]["hash"]) == 64
    (citation,) = reading["citations"]
    assert (citation["passage_id"], citation["quote"], reading["dropped_citations"]) == ("p007", QUOTE, 2)
    assert first["evidence"]["sentences"][0]["text"] == QUOTE
    spent = reading["spent"]
    assert spent["calls"] == model_server.count() == 1
    assert min(spent["prompt_tokens"], spent["completion_tokens"]) > 0
    assert spent["cost_usd"] == pytest.approx((spent["prompt_tokens"] + 2 * spent["completion_tokens"]) / 1e6)
    again = ask(towns, model_server)
    assert model_server.count() == 1
    assert (again["answer"], again["reading"]["cached"], again["reading"]["spent"]["calls"]) == ("River 0", True, 0)
    assert again["reading"]["usage"]["prompt_tokens"] == spent["prompt_tokens"]
    shown = towns.run(f"{ASK} {model(model_server.url)}", QUESTION)
    sentence = "          It lies there [1], as all say [not verified]."
    answer = f"Answer    River 0  (by a model, confidence 0.94)\n{sentence}\n"
    assert f"{answer}  [1]     [p007] {QUOTE}\nPassages" in shown.stdout
    assert "models.read" not in shown.stderr
    unsure = towns.run(f"{ASK} --set reader.min_confidence=1", QUESTION)
    assert unsure.stderr.count("--set models.read=PROVIDER/MODEL") == 1
    without = ask(towns, model_server, "--reader spans")
    assert (without["reading"]["by"], without["reading"]["model"], model_server.count()) == ("local", None, 1)


@pytest.mark.parametrize(("status", "code", "calls"), [(503, 1, 2), (401, 2, 1)])
def test_a_failing_model_is_one_sentence(towns: Any, model_server: Any, status: int, code: int, calls: int) -> None:
    model_server.respond(lambda asked: {"kind": "error", "status": status, "message": "it fails"})
    done = towns.run(f"{ASK} {model(model_server.url)}", QUESTION)
    assert (done.returncode, model_server.count()) == (code, calls)
    assert re.fullmatch("polyhop: .*it fails.*\n", done.stderr)


def served(port: int = 0) -> ModelServer:
    """A server, slow enough that a job is seen half answered."""
    server = ModelServer(port)
    server.respond(lambda asked: reply())
    server.delay(0.15)
    return server.start()  # a worker may be waiting for it already


@pytest.mark.real_time
def test_a_worker_waits_while_the_model_is_away_and_then_answers_everything_once(towns: Any) -> None:
    server = served()
    (submitted,) = towns.good("submit --index towns --strategy bm25 --json", towns.questions(QUESTION_COUNT))
    job_id = submitted["job_id"]
    worker = towns.start(f"worker --batch 8 --until-empty --json --set models.concurrency=4 {model(server.url)}")

    def count(state: QuestionState) -> int:
        with towns.queue() as queue:
            given: int = queue.job(job_id).counts[state]
            return given

    def waiting() -> Any:
        return towns.good("jobs --json")[0][0]["waiting_for_model"]

    try:
        wait_for(lambda: count(QuestionState.DONE) >= 8)
        server.stop()
        gone = time.monotonic()
        wait_for(waiting)
        ((row,),) = towns.good("jobs --workers --json")
        assert row["outage"]
        assert "waits for a model, since" in towns.run("jobs").stdout
        stood_at = count(QuestionState.DONE)
        time.sleep(max(0.0, OUTAGE_SECONDS - (time.monotonic() - gone)))
        assert count(QuestionState.DONE) == stood_at < QUESTION_COUNT
        assert count(QuestionState.DEAD) == 0
        server = served(int(server.url.split(":")[2].split("/")[0]))  # at the same address
        assert worker.wait(timeout=120) == 0, towns.log()
    finally:
        server.stop()
    assert waiting() == []
    rows = towns.good(f"results {job_id}")
    assert [row["id"] for row in rows] == [f"q{n}" for n in range(QUESTION_COUNT)]
    for row in rows:  # nobody's attempt was used up by the outage
        read = (row["state"], row["attempts"], row["answer"], row["reading"]["by"], row["model"])
        assert read == ("done", 1, "River 0", "model", "openai/scripted")
    assert "Traceback" not in towns.log()
    assert min(rows[0]["tokens"]["prompt"], rows[0]["cost_usd"]) > 0
    assert "Read by   openai/scripted, prompt qa.answer" in towns.run(f"explain {job_id} q0").stdout
