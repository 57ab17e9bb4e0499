"""Events of trouble on a real Prefect server: a spent budget, a model that is unavailable, questions that died."""

import json
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands
from prefect_rest import events_of, runs_named

WriteCorpus = Callable[..., Path]
pytestmark = pytest.mark.prefect

RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n} in Country {n % 3}."} for n in range(4)
]
UNAVAILABLE_SECONDS = 4.0
SCRIPT = """
import json, sys
from polyhop.flows.prefect_answer import answer_flow
from polyhop.flows.prefect_index import index_flow
from polyhop.schemas.errors import BudgetExceededError, LossRefusedError

corpus, questions = sys.argv[1:]
try:
    index_flow("spent", corpus, extractor="model", settings={"max_tokens": 900})
except BudgetExceededError as error:
    spent = str(error)
index_flow("asked", corpus)
answered = answer_flow(questions, "asked", strategy="bm25", queue="troubled")
try:
    index_flow("asked", questions)
except LossRefusedError as error:
    print(json.dumps([spent, answered, str(error)]))
"""


def test_a_spent_budget_an_unavailable_model_and_a_dead_question_are_events_with_what_to_know(
    commands: Commands, write_corpus: WriteCorpus, model_server: Any, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    model_server.respond(_UnavailableAtFirst())
    variables = {
        "POLYHOP_ROOT": str(tmp_path / "root"),
        "POLYHOP_STRATEGIES": "bm25",
        "POLYHOP_MODELS__EXTRACT": "openai/scripted",
        "POLYHOP_MODELS__READ": "openai/scripted",
        "POLYHOP_MODELS__API_BASE": model_server.url,
        "POLYHOP_MODELS__MAX_ATTEMPTS": "1",
        "OPENAI_API_KEY": "not-a-key",
    }
    rows: list[dict[str, object]] = [{"id": f"q{n}", "question": f"What lies near Mount {n}?"} for n in range(2)]
    questions = write_corpus(rows, "troubled.jsonl")
    spent, answered, refused = _run(
        commands, prefect_server | variables, tmp_path, str(write_corpus(RECORDS)), str(questions)
    )
    assert (answered["done"], answered["dead"]) == (1, 1)

    (paused,) = events_of(prefect_server, "polyhop.budget.paused", "polyhop.index.spent")
    (failed,) = runs_named(prefect_server, "index spent")
    assert failed["state_type"] == "FAILED"
    assert paused["payload"].keys() == {"index", "reason", "run_url"}
    assert (paused["payload"]["index"], paused["payload"]["reason"]) == ("spent", spent)
    assert paused["payload"]["run_url"].endswith(failed["id"])
    assert paused["resource"]["polyhop.index"] == "spent"

    (event,) = events_of(prefect_server, "polyhop.index.refused", "polyhop.index.asked")
    assert event["payload"]["reason"] == refused
    assert "is not a source of index 'asked'" in refused
    assert "FAILED" in {run["state_type"] for run in runs_named(prefect_server, "index asked")}

    outage = events_of(prefect_server, "polyhop.worker.outage", "polyhop.queue.troubled")[0]
    (run,) = runs_named(prefect_server, "answer asked job 1 troubled.jsonl")
    said = outage["payload"]
    assert (said["queues"], said["job"], said["index"]) == (["troubled"], 1, "asked")
    assert "scripted" in said["reason"]
    assert (said["host"], bool(said["worker"])) == (socket.gethostname(), True)
    assert 0 <= time.time() - said["since"] < 300
    assert said["run_url"].endswith(run["id"])
    assert f"prefect.flow-run.{run['id']}" in {related["prefect.resource.id"] for related in outage["related"]}

    (dead,) = events_of(prefect_server, "polyhop.queue.dead_letter", "polyhop.queue.troubled")
    said = dead["payload"]
    assert (said["job"], said["index"], said["dead"], said["questions"]) == (1, "asked", 1, 2)
    ((error, count),) = ((each["error"], each["count"]) for each in said["errors"])
    assert (error, count) == ("ModelRejectedError", 1)
    assert "we do not answer" in said["errors"][0]["example"]


class _UnavailableAtFirst:
    """Reads nothing in its first seconds, and refuses the first question for good; extracts as it should."""

    def __init__(self) -> None:
        self._since: float | None = None

    def __call__(self, asked: Any) -> Mapping[str, object] | None:
        if asked.task != "qa.answer":
            return None
        self._since = self._since or time.monotonic()
        if time.monotonic() - self._since < UNAVAILABLE_SECONDS:
            return {"kind": "error", "status": 503}
        if "Mount 0?" in asked.prompt:
            return {"kind": "error", "status": 403, "message": "we do not answer"}
        reply = {"reasoning": "The passage says so.", "answer": "Lake 1", "citations": []}
        return {"kind": "reply", "content": json.dumps(reply)}


def _run(
    commands: Commands, environment: dict[str, str], folder: Path, *arguments: str
) -> tuple[str, dict[str, Any], str]:
    done = commands.python(SCRIPT, arguments, folder, environment)
    assert done.returncode == 0, done.stderr
    spent, answered, refused = json.loads(done.stdout.splitlines()[-1])
    return spent, answered, refused
