"""What `polyhop doctor` says of real servers, and what the dashboard of Prefect shows in a real browser."""

import json
import os
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from neo4j_process import Neo4jServer
from prefect_rest import events_of, post, runs_named

from polyhop.doctor import check_deployments, check_neo4j, check_prefect
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.settings import Settings

SETTINGS = Settings()


@pytest.mark.prefect
def test_a_prefect_server_says_its_version_and_database(
    prefect_server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in prefect_server.items():
        monkeypatch.setenv(name, value)
    url = prefect_server["PREFECT_API_URL"]
    assert check_prefect(SETTINGS) == f"server {version('prefect')} at {url} answers, database SQLite"
    monkeypatch.setattr("polyhop.doctor._OUR_FLOWS", "no flow has this in its entrypoint")
    assert check_deployments(SETTINGS) == "none of Polyhop's flows; make them with: polyhop deploy --index NAME"


@pytest.mark.neo4j
def test_a_neo4j_server_says_its_version_and_edition(
    neo4j_server: Neo4jServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEO4J_URI", neo4j_server.uri)
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.password)
    said = check_neo4j(SETTINGS)
    assert "community edition" in said
    assert said.endswith(" indexes of Polyhop online")
    monkeypatch.setenv("NEO4J_PASSWORD", "wrong")
    with pytest.raises(PolyhopError, match=r"refuses user .*NEO4J_PASSWORD"):
        check_neo4j(SETTINGS)


RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n} in Country {n % 3}."} for n in range(4)
]


@pytest.mark.rare
@pytest.mark.prefect
def test_the_dashboard_shows_runs_their_tasks_artifacts_with_their_history_and_events(
    polyhop: Callable[..., subprocess.CompletedProcess[str]],
    write_corpus: Callable[..., Path],
    prefect_server: dict[str, str],
    browser: Any,
) -> None:
    for count in (3, 4):
        arguments = ("--index", "seen", "--set", "strategies=bm25")
        variables = prefect_server | {"PREFECT_LOGGING_LEVEL": "INFO"}
        done = polyhop("index", write_corpus(RECORDS[:count]), *arguments, env=variables)
        assert done.returncode == 0, done.stderr
    first, second = (runs_named(prefect_server, f"index seen v{number}")[0] for number in (1, 2))
    tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [second["id"]]}}})
    events_of(prefect_server, "polyhop.index.published", "polyhop.index.seen")
    address = prefect_server["PREFECT_API_URL"].removesuffix("/api")

    def see(path: str, *words: str) -> None:
        """Opens a page and waits until a person can read all of these words on it."""
        folder = os.environ.get("POLYHOP_SCREENSHOTS")
        picture = Path(folder, f"{path.strip('/').replace('/', '-').partition('?')[0]}.png") if folder else None
        seen = browser.look(f"{address}{path}", evaluate={"text": _reads(words)}, screenshot=picture)
        assert [word for word in words if word not in seen.values["text"]] == [], (path, seen.values["text"])

    see("/runs", first["name"], second["name"])
    see(f"/runs/flow-run/{second['id']}", second["name"], "version 2 published")
    see(f"/runs/flow-run/{second['id']}?tab=TaskRuns", *(task["name"] for task in tasks[:5]))
    see("/artifacts", "index-seen-summary", "index-seen-changes", "Version 2: 1 added")
    see("/artifacts/key/index-seen-changes", "index-seen-changes", first["name"], second["name"])
    (changes,) = (
        artifact
        for artifact in post(prefect_server, "/artifacts/filter")
        if (artifact["key"], artifact["flow_run_id"]) == ("index-seen-changes", second["id"])
    )
    see(f"/artifacts/artifact/{changes['id']}", "Version 2 of seen: 1 added", "All of them:", "The run that wrote this")
    see("/events", "polyhop.index.published")


def _reads(words: tuple[str, ...]) -> str:
    """An expression that gives the page's text as soon as it holds these words, or after some seconds."""
    return f"""new Promise(done => {{
        const end = Date.now() + 20000
        const look = () => {{
            const text = document.body.innerText
            if ({json.dumps(words)}.every(word => text.includes(word)) || Date.now() > end) done(text)
            else setTimeout(look, 100)
        }}
        look()
    }})"""
