"""From a schedule to an artifact: `polyhop serve` on a real Prefect server runs what schedules bring due.

A schedule here has one date, a few seconds ahead: a server with many runs of short intervals to plan stops answering.
Run by hand, with all kinds (POLYHOP_SCHEDULED_KINDS=all) or some; test_prefect_deploy.py watches the cheap ones.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from prefect_pool import serving, wait_for
from prefect_rest import ended_by_schedule, post, schedule_once

Run = Callable[..., subprocess.CompletedProcess[str]]
WriteCorpus = Callable[..., Path]
pytestmark = [
    pytest.mark.prefect,
    pytest.mark.skipif("POLYHOP_SCHEDULED_KINDS" not in os.environ, reason="a minute; run by hand"),
]

INDEX = "on-schedule"
ARTIFACTS = {
    "index/on-schedule-incremental": "index-on-schedule-summary",
    "verify/on-schedule-check": "verify-on-schedule",
    "export/on-schedule-export": "export-on-schedule",
    "answer/on-schedule-answers": "job-on-schedule",
    "evaluate/on-schedule-evaluation": "evaluation-on-schedule",
    "maintain/maintenance": "maintenance",
}
"""By deployment, the key under which its runs leave what became of them."""
KINDS = os.environ.get("POLYHOP_SCHEDULED_KINDS", "")
RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n} in Country {n % 3}."} for n in range(6)
]
QUESTION = {"id": "q1", "question": "What lies near Mount 1?", "answers": ["Lake 1"], "supporting": ["p1"]}


def test_every_kind_runs_on_its_schedule_and_leaves_its_artifact(
    polyhop: Run,
    write_corpus: WriteCorpus,
    clean_server: dict[str, str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    watched = [name for name in ARTIFACTS if KINDS == "all" or name.endswith(tuple(KINDS.split(",")))]
    lexical = {"POLYHOP_STRATEGIES": "bm25,bridge-lexical"}
    if "export/on-schedule-export" in watched:
        neo4j = request.getfixturevalue("neo4j_server")
        lexical |= {"NEO4J_URI": neo4j.uri, "NEO4J_PASSWORD": neo4j.password}
    assert polyhop("index", write_corpus(RECORDS[:-1]), "--index", INDEX, env=lexical).returncode == 0
    questions, source = write_corpus([QUESTION], "questions.jsonl"), write_corpus(RECORDS)
    options = ("--index", INDEX, "--source", str(source), "--questions", str(questions), "--limit", "2")
    with serving(clean_server, tmp_path / "polyhop-data", tmp_path, options, lexical):
        for name in watched:
            schedule_once(clean_server, name, {"strategy": "bm25"} if name.startswith("answer/") else {})
        for name in watched:
            wait_for(lambda of=name: bool(ended_by_schedule(clean_server, of)), f"no scheduled run of {name} ended")  # type: ignore[misc]
    for name in watched:
        (run,) = ended_by_schedule(clean_server, name)
        assert (run["state_type"], run["created_by"]["type"]) == ("COMPLETED", "SCHEDULE"), (name, run["state"])
        shown = [a["key"] for a in post(clean_server, "/artifacts/filter") if a["flow_run_id"] == run["id"]]
        assert ARTIFACTS[name] in shown, name
