"""Forms and pages of jobs: strategies that an index can serve, and queues that no worker serves."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from small_indexes import Call, publish, record, write_rows

from polyhop.schemas.settings import Settings
from polyhop.server.service import Service
from polyhop.warehouse.open import open_questions

TOWNS = [record("p1", "Cairo", "Cairo lies on the Nile."), record("p2", "Ulm", "Ulm lies on the Danube.")]
UNSERVED = "No worker serves queue 'night'; start one: polyhop worker --queues night"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a root of two indexes, one for words alone, and questions."""
    folder = tmp_path_factory.mktemp("forms")
    publish(folder, TOWNS, "words", "bm25")
    publish(folder, TOWNS, "vectors", "dense")
    write_rows(folder / "questions.jsonl", [{"id": "q1", "question": "Where does Ulm lie?"}])
    return folder


@pytest.fixture
def client(serve: Call, root: Path) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=serve(root, "--allow-changes").url, timeout=60) as opened:
        yield opened


def test_an_index_serves_the_strategies_whose_artefacts_it_holds(root: Path) -> None:
    service = Service(Settings(root=root))
    try:
        served = service.servable_strategies()
    finally:
        service.close()
    assert ("bm25" in served["words"], "dense" in served["words"], "dense" in served["vectors"]) == (True, False, True)


@pytest.mark.parametrize("path", ["jobs", "ask"])
def test_a_form_offers_only_strategies_that_an_index_can_serve(client: httpx.Client, root: Path, path: str) -> None:
    both = client.get(f"/{path}").text
    groups = dict(re.findall(r'<optgroup label="(\w+)">(.*?)</optgroup>', both, re.DOTALL))
    assert ("<option>dense<" in groups["words"], "<option>dense<" in groups["vectors"]) == (False, True)
    shutil.rmtree(root / "indexes" / "vectors")
    alone = client.get(f"/{path}").text
    assert ("<option>bm25</option>" in alone, "<option>dense" in alone, "<optgroup" in alone) == (True, False, False)


def test_submit_and_the_page_say_that_no_worker_serves_the_queue(command: Call, client: httpx.Client) -> None:
    submitted = command("submit questions.jsonl --index words --strategy bm25 --queue night")
    assert UNSERVED in submitted.stdout
    assert UNSERVED in client.get("/jobs/1").text.replace("&#39;", "'")


def test_json_of_submit_says_it_on_standard_error(command: Call) -> None:
    done = command("submit questions.jsonl --index words --strategy bm25 --queue night --json")
    assert (UNSERVED in done.stderr, UNSERVED in done.stdout) == (True, False)


def test_a_queue_with_a_worker_is_served(command: Call, client: httpx.Client, root: Path) -> None:
    with open_questions(Settings(root=root)) as queue:
        queue.report_worker("w1", host="h", process_id=1, queues=["night"], versions={})
    submitted = command("submit questions.jsonl --index words --strategy bm25 --queue night")
    assert "No worker serves" not in submitted.stdout + client.get("/jobs/1").text


def test_an_answered_job_needs_no_worker(command: Call, client: httpx.Client) -> None:
    command("submit questions.jsonl --index words --strategy bm25 --queue night")
    assert command("worker --queues night --until-empty").exit_code == 0
    assert "No worker serves" not in client.get("/jobs/1").text
