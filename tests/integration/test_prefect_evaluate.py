"""Evaluation on a real Prefect server: artifacts of a stored run, and a run that fails where a gate does."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from prefect_rest import post

Run = Callable[..., subprocess.CompletedProcess[str]]
WriteCorpus = Callable[..., Path]
pytestmark = pytest.mark.prefect

RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n} in Country {n % 3}."} for n in range(8)
]
SCRIPT = """
import json
from flows.prefect_evaluate import evaluate_flow
from schemas.errors import PolyhopError

first = evaluate_flow("questions.jsonl", "lakes", "bm25,bridge-lexical", fail_below=["recall@5=.5"])
try:
    evaluate_flow("questions.jsonl", "lakes", "bm25", fail_below=["bm25:em=1"], min_confidence=1.0)
    second = "passed"
except PolyhopError as error:
    second = str(error)
print(json.dumps([first, second]))
"""


def test_an_evaluation_shows_its_run_as_artifacts_and_a_gate_fails_the_flow_run(
    polyhop: Run, write_corpus: WriteCorpus, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    settings = ("--set", "strategies=bridge-lexical,bm25", "--root", root)
    assert polyhop("index", write_corpus(RECORDS), "--index", "lakes", *settings).returncode == 0
    rows = [
        {"id": f"q{n}", "question": f"What lies near Mount {n}?", "answers": [f"Lake {n}"], "supporting": [f"p{n}"]}
        for n in range(4)
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=clean | prefect_server | {"POLYHOP_ROOT": str(root)},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout.splitlines()[-1])
    assert first["run"] == 1
    assert [row["recall@5"] for row in first["strategies"]] == [1.0, 1.0]
    assert "em of bm25 is 0, below 1" in second
    artifacts = {artifact["key"]: artifact for artifact in post(prefect_server, "/artifacts/filter")}
    for number in (1, 2):
        table = json.loads(artifacts[f"evaluation-{number}-strategies"]["data"])
        assert {row["strategy"] for row in table} == ({"bm25", "bridge-lexical"} if number == 1 else {"bm25"})
        assert "recall@5" in artifacts[f"evaluation-{number}-summary"]["data"]
        report = root / "evaluations" / f"{number:06d}" / "report.html"
        assert report.as_uri() in artifacts[f"evaluation-{number}-report"]["data"]
        assert report.is_file()
        plot = artifacts[f"evaluation-{number}-recall-at-k"]
        assert plot["type"] == "image"
        shown = base64.b64decode(plot["data"].removeprefix("data:image/png;base64,"))
        assert shown == (report.parent / "recall_at_k.png").read_bytes()
    runs = [run for run in post(prefect_server, "/flow_runs/filter") if run["name"] == "evaluate lakes"]
    assert sorted(run["state_type"] for run in runs) == ["COMPLETED", "FAILED"]
