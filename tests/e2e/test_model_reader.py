"""Reading with a model over real HTTP: answers with checked citations, nothing paid twice, outages that lose nothing.

Run by hand with a long outage: POLYHOP_OUTAGE_SECONDS=60 uv run pytest tests/e2e/test_model_reader.py -k away
"""

import json
import os
import re
import time
from typing import Any

import pytest
from scripted_server import ModelServer
from small_indexes import wait_for

from polyhop.schemas.queue import QuestionState

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
    sentence = "          It lies there [1], as all say."
    assert f"Answer    River 0\n{sentence}\n  [1]     [p007] {QUOTE}\nPassages" in shown.stdout
    assert "models.read" not in shown.stderr
    unsure = towns.run(f"{ASK} --set reader.min_confidence=1", QUESTION)
    assert unsure.stderr.count("--set models.read=PROVIDER/MODEL") == 1
    without = ask(towns, model_server, "--reader rules")
    assert (without["reading"]["by"], without["reading"]["model"], model_server.count()) == ("rules", None, 1)


@pytest.mark.parametrize(("status", "code", "calls"), [(503, 1, 2), (401, 2, 1)])
def test_a_failing_model_is_one_sentence(towns: Any, model_server: Any, status: int, code: int, calls: int) -> None:
    model_server.respond(lambda asked: {"kind": "error", "status": status, "message": "it fails"})
    done = towns.run(f"{ASK} {model(model_server.url)}", QUESTION)
    assert (done.returncode, model_server.count()) == (code, calls)
    assert re.fullmatch("polyhop: .*it fails.*\n", done.stderr)


def served(port: int = 0) -> ModelServer:
    """A server, slow enough that a job is seen half answered."""
    server = ModelServer(port).start()
    server.respond(lambda asked: reply())
    server.delay(0.15)
    return server


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
