"""The export flow on a real Prefect server and a real Neo4j: the same as without, every step a task run."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect_rest import post

from polyhop.schemas.ports import GRAPH_KINDS, HUB_KINDS

PREFECT_FILE = Path(__file__).resolve().parents[2] / "prefect.yaml"
RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} is a lake near Mount {n % 5} in Norland."}
    for n in range(6)
]


def test_every_deployment_names_a_flow_that_takes_its_parameters() -> None:
    from prefect.flows import load_flow_from_entrypoint

    names = []
    for deployment in yaml.safe_load(PREFECT_FILE.read_text(encoding="utf-8"))["deployments"]:
        flow = load_flow_from_entrypoint(deployment["entrypoint"])  # type: ignore[var-annotated]
        flow.validate_parameters(deployment["parameters"])
        names.append(f"{flow.name}/{deployment['name']}")
    assert "export/main-export" in names


@pytest.mark.prefect
@pytest.mark.neo4j
def test_an_export_flow_run_writes_what_a_direct_one_finds_done(
    polyhop: Callable[..., subprocess.CompletedProcess[str]],
    write_corpus: Callable[..., Path],
    prefect_server: dict[str, str],
    neo4j_server: Any,
) -> None:
    done = polyhop("index", write_corpus(RECORDS), "--index", "lakes", "--set", "strategies=bm25")
    assert done.returncode == 0, done.stderr
    server = {"NEO4J_URI": neo4j_server.uri, "NEO4J_PASSWORD": neo4j_server.password}
    on_prefect = polyhop("export", "neo4j", "--index", "lakes", "--json", env=server | prefect_server)
    assert on_prefect.returncode == 0, on_prefect.stderr
    report = json.loads(on_prefect.stdout)
    assert report["created"] == sum(report["counts"].values()) > 0
    directly = json.loads(polyhop("export", "neo4j", "--index", "lakes", "--json", env=server).stdout)
    assert (directly["created"], directly["updated"], directly["deleted"]) == (0, 0, 0)
    assert directly["counts"] == report["counts"]
    names = {task["name"].rsplit("-", 1)[0] for task in _task_runs(prefect_server)}
    steps = {f"export {kind}" for kind in GRAPH_KINDS if kind not in HUB_KINDS}
    assert steps | {"export schema", "export verification"} <= names
    assert not names & {f"export {kind}" for kind in HUB_KINDS}
    assert neo4j_server.password not in json.dumps(post(prefect_server, "/flow_runs/filter"))


def _task_runs(environment: dict[str, str]) -> Any:
    return post(environment, "/task_runs/filter", {"flow_runs": {"name": {"like_": "export lakes v1"}}})
