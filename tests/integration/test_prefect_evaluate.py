"""Evaluation on a real Prefect server: artifacts of a stored run, and a run that fails where a gate does."""

import base64
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_processes import Commands
from prefect_rest import post, runs_named

Run = Callable[..., subprocess.CompletedProcess[str]]
WriteCorpus = Callable[..., Path]
pytestmark = pytest.mark.prefect

RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n} in Country {n % 3}."} for n in range(8)
]
SCRIPT = """
import json, sys
started = []
sys.addaudithook(lambda event, given: event == "subprocess.Popen" and started.append([str(part) for part in given[1]]))
from polyhop.flows.prefect_answer import evaluate_flow
from polyhop.schemas.errors import PolyhopError

first = evaluate_flow("questions.jsonl", "lakes", "bm25,bridge-lexical", fail_below=["recall@5=.5"])
try:
    options = {"baseline": "bm25:b=0,bm25", "fail_below": ["bm25:em=1"], "min_confidence": 1.0, "sample": 3, "seed": 4}
    evaluate_flow("questions.jsonl", "lakes", "bm25,bm25:b=0..1", {"k1": 1.3}, **options)
    second = "passed"
except PolyhopError as error:
    second = str(error)
print(json.dumps([first, second, [command for command in started if "polyhop.cli" in command]]))
"""


def test_an_evaluation_shows_its_run_as_artifacts_and_a_gate_fails_the_flow_run(
    commands: Commands, polyhop: Run, write_corpus: WriteCorpus, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    settings = ("--set", "strategies=bridge-lexical,bm25", "--root", root)
    assert polyhop("index", write_corpus(RECORDS), "--index", "lakes", *settings).returncode == 0
    rows = [
        {"id": f"q{n}", "question": f"What lies near Mount {n}?", "answers": [f"Pond {n}"], "supporting": [f"p{n}"]}
        for n in range(4)
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    variables = prefect_server | {"POLYHOP_ROOT": str(root), "PREFECT_LOGGING_LEVEL": "INFO"}
    done = commands.python(SCRIPT, (), tmp_path, variables)
    assert done.returncode == 0, done.stderr
    first, second, processes = json.loads(done.stdout.splitlines()[-1])
    assert (first["run"], processes) == (1, [])  # the evaluation ran in the flow's own process
    assert [row["recall@5"] for row in first["strategies"]] == [1.0, 1.0]
    assert "em of bm25 is 0, below 1" in second
    for number in (1, 2):
        (run,) = runs_named(prefect_server, f"evaluate lakes v1 run {number}")
        assert set(run["tags"]) == {"polyhop", "lakes", "evaluation"}
        assert run["state_type"] == ("COMPLETED", "FAILED")[number - 1]
        shown = {a["key"]: a for a in post(prefect_server, "/artifacts/filter") if a["flow_run_id"] == run["id"]}
        table = json.loads(shown["evaluation-lakes-strategies"]["data"])
        asked = {"bm25", "bridge-lexical"} if number == 1 else {"bm25", "bm25:b=0", "bm25:b=1"}
        assert {row["strategy"] for row in table} == asked
        tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
        assert {task["name"] for task in tasks} == {*(f"evaluate {name}" for name in asked), "show results"}
        report = root / "evaluations" / f"{number:06d}" / "report.html"
        assert "recall@5" in shown["evaluation-lakes"]["data"]
        assert f"`{report}`" in shown["evaluation-lakes"]["data"]
        assert report.is_file()
        plot = shown["evaluation-lakes-recall-at-k"]
        assert plot["type"] == "image"
        picture = base64.b64decode(plot["data"].removeprefix("data:image/png;base64,"))
        assert picture == (report.parent / "recall_at_k.png").read_bytes()
    assert shown["evaluation-lakes-paired-differences-2"]["type"] == "image"
    logged = _logged(prefect_server, until="evaluation 2 stored")
    for line in ("bm25: 4 of 4 questions", "bridge-lexical: 4 of 4 questions", "questions.jsonl line 5 was left out"):
        assert line in logged
    again = polyhop("eval", "questions.jsonl", "--index", "lakes", "--strategies", "bm25,bm25:b=0..1",
                    "--param", "k1=1.3", "--set", "reader.min_confidence=1", "--sample", "3", "--seed", "4",
                    "--baseline", "bm25:b=0", "--baseline", "bm25", "--root", root)  # fmt: skip
    assert again.returncode == 0, again.stderr
    by_flow, by_command = (root / "evaluations" / number for number in ("000002", "000003"))
    results = json.loads((by_flow / "run.json").read_text())["results"]
    assert [result["shown"]["share"] for result in results.values()] == [0.0] * 3  # with reader.min_confidence=1
    for name in ("run.json", "questions.jsonl"):
        assert (by_flow / name).read_bytes() == (by_command / name).read_bytes()


def _logged(server: dict[str, str], until: str) -> str:
    """The lines of all runs, as soon as that one is there: Prefect's server stores them a little later."""
    end = time.monotonic() + 60
    while True:
        lines = "\n".join(log["message"] for log in post(server, "/logs/filter", {"logs": {"level": {"ge_": 0}}}))
        if until in lines or time.monotonic() > end:
            return lines
        time.sleep(0.5)
