"""A worker started and stopped on the page of jobs."""

import time
from pathlib import Path
from typing import Any

import pytest
from small_indexes import publish, town_records, write_rows
from starlette.testclient import TestClient

from polyhop.schemas.settings import Settings
from polyhop.server.app import make_app
from polyhop.server.guard import csrf_token

QUESTIONS = [{"id": f"q{n}", "question": f"Which river does Town {n} lie on?"} for n in range(3)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("page_worker"), town_records())


def until(seconds: float, done: Any) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if done():
            return True
        time.sleep(0.2)
    return False


def test_a_page_starts_a_worker_which_answers_and_stops_it(root: Path, tmp_path: Path) -> None:
    body = write_rows(tmp_path / "questions.jsonl", QUESTIONS).read_bytes()
    form = {"csrf": csrf_token()}
    with TestClient(make_app(Settings(root=root), allows_changes=True), "http://127.0.0.1") as client:
        client.post("/api/v1/jobs", params={"index": "towns", "queue": "slow"}, content=body)
        assert "Start a worker" in client.get("/jobs").text
        started = client.post("/workers/start", data=form)
        assert "Stop the worker of this page" in started.text
        answered = until(120, lambda: client.get("/api/v1/jobs/1").json()["done"] == len(QUESTIONS))
        assert answered, client.get("/api/v1/jobs/1").json()
        stopped = client.post("/workers/stop", data=form)
        assert ("Start a worker" in stopped.text, "No worker is running" in stopped.text) == (True, True)


def test_a_worker_ends_with_its_server(root: Path) -> None:
    with TestClient(make_app(Settings(root=root), allows_changes=True), "http://127.0.0.1") as client:
        client.post("/workers/start", data={"csrf": csrf_token()})
        assert until(120, lambda: "No worker is running" not in client.get("/jobs").text)
    with TestClient(make_app(Settings(root=root)), "http://127.0.0.1") as client:
        assert "No worker is running" in client.get("/jobs").text
        assert client.post("/workers/start", data={"csrf": csrf_token()}).status_code == 403
