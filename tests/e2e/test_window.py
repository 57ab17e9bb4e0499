"""`polyhop ui` as programs meet it: the contract over HTTP, what it refuses, and what it survives."""

import asyncio
import contextlib
import json
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as example_settings
from small_indexes import Call

from polyhop.api import open_index
from polyhop.schemas.settings import Settings
from polyhop.server import api, guard, problems
from polyhop.server import service as service_module
from polyhop.server.app import make_app
from polyhop.server.service import Asked, LateError, Service
from polyhop.warehouse.tables.query import QueryLimits

QUESTIONS = (
    "Who designed the Statue of Liberty?",
    "Which river flows through Paris?",
    "What is the Eiffel Tower made of?",
)
TOKEN = "correct-horse-battery-staple"


def test_questions_that_wait_are_one_batch_with_the_answers_of_each_alone(demo_root: Path) -> None:
    service = Service(Settings(root=demo_root))

    async def ask_all() -> list[Any]:
        asked = [Asked("demo", question) for question in (*QUESTIONS * 20, "?")]
        return await asyncio.gather(*map(service.ask, asked), return_exceptions=True)

    try:
        *answers, bad = asyncio.run(ask_all())
    finally:
        service.close()
    with open_index("demo", root=demo_root) as index:
        alone = [index.ask(question) for question in QUESTIONS]
    assert type(bad).__name__ == "EmptyQuestionError"  # and the others of its batch have their answers
    assert [(one.answer, one.passages) for one in answers] == [(one.answer, one.passages) for one in alone] * 20


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("indexes/nothing/ask", {"question": "Who?"}, 404, "UnknownIndexError"),
        ("indexes/demo/ask", {"question": "?"}, 422, "EmptyQuestionError"),
        ("indexes/demo/ask", {"question": "Who?", "strategy": "none"}, 422, "UnknownStrategyError"),
        ("indexes/demo/ask", {"question": "Who?", "version": 99}, 404, "UnknownIdError"),
        ("indexes/demo/ask", {"question": "Who?", "where": "x ="}, 422, "FilterError"),
        ("indexes/demo/sql", {"query": "DROP TABLE entities"}, 422, "StatementRejectedError"),
        ("indexes/demo/sql", {"query": "FROM '/etc/passwd'"}, 422, "StatementRejectedError"),
        ("jobs?index=demo", {"question": "Who?"}, 403, "RefusedError"),
        ("jobs/1/cancel", {}, 403, "RefusedError"),
        ("indexes/demo/documents?file=..", {}, 422, ""),  # no name of a file
    ],
)
def test_an_error_is_a_problem_document(window: str, path: str, body: dict[str, Any], status: int, error: str) -> None:
    reply = httpx.post(f"{window}/api/v1/{path}", json=body)
    problem = reply.json()
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json")
    assert (problem["status"], problem["error"], len(problem["detail"]) > 20) == (status, error, True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:4280"}, 421),  # a name that was made to lead here
        ({"Host": "localhost:4280"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),  # a link in a mail
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_other_sites_reach_nothing_and_send_no_form(window: str, headers: dict[str, str], status: int) -> None:
    assert httpx.get(f"{window}/api/v1/indexes", headers=headers).status_code == status
    if "Sec-Fetch-Mode" in headers:
        assert httpx.post(f"{window}/login", headers=headers, data={"token": "x"}).status_code == 403


def test_who_does_not_know_the_token_sees_nothing(serve: Call, demo_root: Path) -> None:
    url = serve(demo_root, host="0.0.0.0", POLYHOP_UI_TOKEN=TOKEN).url
    for path, told, status in (("indexes", "", 401), ("openapi.json", "", 401), ("indexes", "x", 401)):
        headers = {"Authorization": f"Bearer {TOKEN}{told}"} if told else {}
        assert httpx.get(f"{url}/api/v1/{path}", headers=headers).status_code == status
    assert httpx.get(f"{url}/api/v1/indexes", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    with httpx.Client(base_url=url, follow_redirects=True) as person:
        assert person.post("/login", data={"token": "wrong"}).status_code == 401
        assert person.get("/", headers={"Accept": "text/html"}).url.path == "/login"
        assert "demo" in person.post("/login", data={"token": TOKEN}).text
        assert TOKEN not in str(person.cookies.jar)


@pytest.mark.parametrize(
    ("arguments", "token", "sentence"),
    [
        ("--host 0.0.0.0", "", "POLYHOP_UI_TOKEN"),
        ("--host 0.0.0.0", "short", "at least 16 characters"),
        ("--port PORT", "", "Address already in use"),
    ],
)
def test_a_server_that_cannot_be_is_one_sentence(
    said: Call, monkeypatch: pytest.MonkeyPatch, demo_root: Path, arguments: str, token: str, sentence: str
) -> None:
    monkeypatch.setenv("POLYHOP_UI_TOKEN", token)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended, _, told = said(f"ui {arguments.replace('PORT', port)} --root", demo_root)
    assert (ended, sentence in told, len(told.splitlines())) == (2, True, 1), told


def test_what_takes_too_long_is_ended(demo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "SQL_LIMITS", QueryLimits(10, 0.5))
    monkeypatch.setattr(service_module, "ANSWER_SECONDS", 0.05)
    service = Service(Settings(root=demo_root))
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(1000000) b"
    with pytest.raises(Exception, match=r"ended after 0\.5 s"):
        api.sql_document(service, "demo", endless, None)
    few = api.sql_document(service, "demo", "FROM range(1000)", None)
    with pytest.raises(LateError) as late:
        asyncio.run(service.run(lambda: time.sleep(0.5)))
    service.close()
    assert (len(few["rows"]), few["truncated"], problems.status_of(late.value)) == (10, True, 504)


def test_bodies_are_bounded_in_size_and_time(demo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_BODY_BYTES", 1_000)
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.1)
    app = make_app(Settings(root=demo_root))

    async def large() -> Any:
        for _ in range(3):
            yield b"x" * 500

    async def slow() -> Any:
        yield b"{"
        await asyncio.sleep(5)

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
            replies = [await client.post("/indexes/demo/ask", content=body) for body in (b"x" * 1_001, large(), slow())]
            return [reply.status_code for reply in replies]

    assert asyncio.run(ask()) == [413, 413, 408]


def test_a_new_version_answers_the_next_question_and_an_old_one_still_answers(serve: Call, towns: Any) -> None:
    url = serve(towns.root).url
    body = {"question": "Which river does Town 3 lie on?"}

    def asked(**more: int) -> tuple[int, str]:
        document = httpx.post(f"{url}/api/v1/indexes/towns/ask", json={**body, **more}, timeout=60).json()
        return document["version"], document["passages"][0]["text"][-10:]

    assert asked() == (1, "Edition 1.")
    assert towns.publish(edition=2) == 2
    assert asked() == (2, "Edition 2.")
    assert asked(version=1) == (1, "Edition 1.")
    rows = httpx.get(f"{url}/api/v1/indexes/towns/versions").json()
    assert [(row["version"], row["current"]) for row in rows] == [(1, False), (2, True)]


def test_a_job_by_http_is_answered_by_a_worker_and_its_results_are_the_commands(serve: Call, towns: Any) -> None:
    """The job of a server that was killed is there for the next one."""
    window, body = serve(towns.root, "--allow-changes"), towns.questions(30).read_bytes()
    job = "api/v1/jobs?index=towns&name=by-http&strategy=bm25&key=once"
    made = httpx.post(f"{window.url}/{job}", content=body)
    assert (made.status_code, made.json()["questions"]) == (201, 30)
    number = made.json()["job_id"]
    window.process.kill()
    window.process.wait(30)
    url = f"{serve(towns.root, '--allow-changes').url}/api/v1"
    again = httpx.post(f"{url.removesuffix('/api/v1')}/{job}", content=body).json()
    assert (again["job_id"], again["new"]) == (number, False)
    assert httpx.get(f"{url}/jobs/{number}").json()["queued"] == 30
    towns.good("worker --until-empty --json")
    lines = httpx.get(f"{url}/jobs/{number}/results").text.splitlines()
    assert [json.loads(line) for line in lines] == towns.good(f"jobs results {number}")
    assert {json.loads(line)["state"] for line in lines} == {"done"}
    for kind, begins in (("csv", b'"id"'), ("parquet", b"PAR1")):
        assert httpx.get(f"{url}/jobs/{number}/results?format={kind}").content.startswith(begins)
    assert httpx.post(f"{url}/jobs/{number}/retry").json() == {"job_id": number, "requeued": 0}
    bad = httpx.post(f"{url}/jobs?index=towns&format=csv", content=b"nothing\n1\n")
    detail = bad.json()["detail"]  # without a folder of the server's
    assert (bad.status_code, "questions.csv" in detail, "/" in detail) == (422, True, False)


def test_a_stopped_server_finishes_what_runs(serve: Call, towns: Any) -> None:
    window = serve(towns.root)
    slow = {"query": "SELECT count(*) AS n FROM range(30000) a, range(10000) b WHERE hash(a.range, b.range) % 7 = 1"}

    async def stop_while_it_answers() -> httpx.Response:
        async with httpx.AsyncClient(timeout=60) as client:
            asked = asyncio.create_task(client.post(f"{window.url}/api/v1/indexes/towns/sql", json=slow))
            await asyncio.sleep(0.3)
            window.process.terminate()
            return await asked

    reply = asyncio.run(stop_while_it_answers())
    assert (reply.status_code, window.process.wait(30)) == (200, 0)
    assert reply.json()["rows"][0]["n"] > 0


@pytest.mark.rare
def test_many_callers_and_slow_clients_stop_neither_the_server_nor_a_worker(serve: Call, towns: Any) -> None:
    window = serve(towns.root)
    host, port = "127.0.0.1", int(window.url.rpartition(":")[2])
    towns.good("submit --index towns --strategy bm25 --json", towns.questions(200))
    with contextlib.ExitStack() as held:
        for _ in range(100):  # each says half a request, and nothing more
            client = held.enter_context(socket.create_connection((host, port)))
            client.sendall(b"POST /api/v1/indexes/towns/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")

        async def ask_at_once() -> list[int]:
            limits = httpx.Limits(max_connections=200)
            async with httpx.AsyncClient(timeout=120, limits=limits) as client:
                body = {"question": "Which river does Town 3 lie on?"}
                asked = [client.post(f"{window.url}/api/v1/indexes/towns/ask", json=body) for _ in range(200)]
                return [reply.status_code for reply in await asyncio.gather(*asked)]

        worker = towns.start("worker --until-empty")
        assert asyncio.run(ask_at_once()) == [200] * 200
        assert worker.wait(120) == 0
    with towns.queue() as queue:
        assert queue.job(1).open_count == 0


@pytest.fixture(scope="session")
def api_schema(serve: Call, tmp_path_factory: pytest.TempPathFactory, published_towns: Path) -> Any:
    """The OpenAPI document of a server that may change its root."""
    import schemathesis

    root = tmp_path_factory.mktemp("api") / "root"
    shutil.copytree(published_towns, root)
    url = serve(root, "--allow-changes").url
    question = b'{"id": "q1", "question": "Which river does Town 3 lie on?"}'
    assert httpx.post(f"{url}/api/v1/jobs?index=towns", content=question).status_code == 201
    return schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")


@pytest.mark.rare
def test_nothing_that_the_openapi_document_allows_is_an_error_of_the_server(request: pytest.FixtureRequest) -> None:
    # imported here: it takes two seconds, and each test process collects all tests
    from schemathesis.pytest import from_fixture
    from schemathesis.specs.openapi.checks import allow_header_conformance, positive_data_acceptance

    @from_fixture("api_schema").parametrize()  # type: ignore[untyped-decorator]
    @example_settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    def ask(case: Any) -> None:
        if "index" in (case.path_parameters or {}) and len(case.path_parameters["index"]) % 2:
            case.path_parameters["index"] = "towns"  # else nothing comes further than the unknown index
        # An unknown name, an empty question and a wrong filter are refused (4xx), which no schema can say beforehand;
        # and the framework's Allow header names one of two routes of a path.
        case.call_and_validate(excluded_checks=[allow_header_conformance, positive_data_acceptance])

    ask(request=request)
