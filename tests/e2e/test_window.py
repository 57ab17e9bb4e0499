"""`polyhop ui`: the contract over HTTP, what it refuses and survives; all its pages in a real browser."""

import asyncio
import contextlib
import json
import re
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import command_processes
import httpx
import pytest
from browser_process import PAGE_FACTS, Browser, page_paths
from command_processes import Commands, Prepare
from hypothesis import HealthCheck, assume
from hypothesis import settings as example_settings
from scripted_server import Behaviour
from small_indexes import Call, indexed, record, write_rows

from polyhop.api import open_index
from polyhop.schemas.settings import Settings
from polyhop.server import api, guard, problems
from polyhop.server import service as service_module
from polyhop.server.app import make_app
from polyhop.server.service import Asked, LateError, Service
from polyhop.warehouse.tables.query_processes import QueryLimits

OF_THE_DEMO = (
    "Who designed the Statue of Liberty?",
    "Which river flows through Paris?",
    "What is the Eiffel Tower made of?",
)
TOKEN = "correct-horse-battery-staple"


def test_questions_that_wait_are_one_batch_with_the_answers_of_each_alone(demo_root: Path) -> None:
    service = Service(Settings(root=demo_root))

    async def ask_all() -> list[Any]:
        asked = [Asked("demo", question) for question in (*OF_THE_DEMO * 20, "?")]
        return await asyncio.gather(*map(service.ask, asked), return_exceptions=True)

    try:
        *answers, bad = asyncio.run(ask_all())
    finally:
        service.close()
    with open_index("demo", root=demo_root) as index:
        alone = [index.ask(question) for question in OF_THE_DEMO]
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


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_of_json_is_read_whatever_its_content_type(window: str, kind: str) -> None:
    body = b'{"query": "SELECT 1 AS x"}'
    reply = httpx.post(
        f"{window}/api/v1/indexes/demo/sql", content=body, headers={"content-type": kind} if kind else {}
    )
    assert reply.json()["rows"] == [{"x": 1}]


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("indexes/demo/ask", b"", "The request has no body; send a JSON object."),
        ("indexes/demo/ask", b"not json", "The body is invalid JSON at character 1."),
        ("indexes/demo/ask", b"\xff\xfe\xfd", "The body is not JSON: it holds bytes that are not UTF-8."),
        ("indexes/demo/ask", b"[" * 100_000, "The body is JSON that is nested too deeply, or has too long a number."),
        ("indexes/demo/ask", b"[1]", "The body is JSON, but no object; send one such as"),
        ("indexes/demo/ask", b"{}", "question is missing."),
        ("indexes/demo/ask", b'{"question": 7}', "question must be text, not 7."),
        ("indexes/demo/ask", b'{"question": "\\ud800"}', "question must be text without halves of surrogate pairs"),
        ("indexes/demo/ask", b'{"question": "x", "limti": 3}', "Unknown field 'limti'; did you mean 'limit'? Known:"),
        ("indexes/demo/ask", b'{"question": "x", "limit": 1001}', "limit must be at most 1000, not 1001."),
        ("indexes/demo/text", b'{"words": "x", "version": true}', "version must be a whole number, not true."),
        (
            "indexes/demo/ask",
            b'{"question": "x", "parameters": {"k1": null}}',
            "parameters.k1 must be text or a number or true or false, not null.",
        ),
        ("indexes/demo/documents?file=..", b"", "file must be the name of a file with its ending"),
        ("jobs?index=demo&format=xml", b"", "format must be 'jsonl', 'json', 'csv', 'txt' or 'parquet', not 'xml'."),
        ("jobs/0/cancel", b"", "job must be at least 1, not '0'."),
        ("jobs/x/cancel", b"", "job must be a whole number, not 'x'."),
        ("nothing", b"", "There is nothing at /api/v1/nothing."),
        ("indexes", b"", "POST is not allowed at /api/v1/indexes."),
    ],
)
def test_each_mistake_of_a_request_has_a_sentence_of_ours(window: str, path: str, body: bytes, sentence: str) -> None:
    reply = httpx.post(f"{window}/api/v1/{path}", content=body)
    assert (reply.status_code >= 400, reply.json()["detail"][: len(sentence)]) == (True, sentence)


@pytest.mark.parametrize(("accept", "kind"), [("*/*", "application/problem+json"), ("text/html", "text/html")])
def test_an_error_beside_the_api_is_a_page_for_browsers_only(window: str, accept: str, kind: str) -> None:
    reply = httpx.post(f"{window}/chat/completions", json={}, headers={"Accept": accept})
    assert reply.headers["content-type"].partition(";")[0] == kind


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


@pytest.fixture(scope="module")
def locked(serve: Call, demo_root: Path) -> str:
    """The address of a server that asks for TOKEN."""
    return str(serve(demo_root, POLYHOP_UI_TOKEN=TOKEN).url)


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (f"BEARER  {TOKEN}", 200),
        (TOKEN, 401),
        (f"Basic {TOKEN}", 401),
    ],
)
def test_the_token_is_known_by_its_scheme(locked: str, authorization: str, status: int) -> None:
    reply = httpx.get(f"{locked}/api/v1/indexes", headers={"Authorization": authorization})
    assert reply.status_code == status


def test_the_message_that_asks_for_the_token_is_whole(locked: str) -> None:
    assert "***" not in httpx.get(f"{locked}/api/v1/indexes").json()["detail"]


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
    service = Service(Settings(root=demo_root))
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(1000000) b"
    with pytest.raises(Exception, match=r"stopped after 0\.5 s"):
        asyncio.run(api.sql_document(service, "demo", endless))
    monkeypatch.setattr(api, "SQL_LIMITS", QueryLimits(10, 30.0))
    few = asyncio.run(api.sql_document(service, "demo", "FROM range(1000)"))
    monkeypatch.setattr(service_module, "ANSWER_SECONDS", 0.05)
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


@pytest.mark.parametrize("files", [None, 256])  # that the server may open
def test_silent_connections_are_closed_and_lock_no_client_out(serve: Call, demo_root: Path, files: int | None) -> None:
    prepare = Prepare(Path(command_processes.__file__), "limit_files", {"files": files}) if files else None
    window = serve(demo_root, prepare=prepare, POLYHOP_UI_TOKEN=TOKEN)
    address = ("127.0.0.1", int(window.url.rpartition(":")[2]))
    with contextlib.ExitStack() as held:
        silent = [held.enter_context(socket.create_connection(address)) for _ in range(2_000)]
        silent[-1].sendall(b"GET / HTTP/1.1\r\nHost:")  # half a header
        for _ in range(5):
            reply = httpx.get(f"{window.url}/api/v1/indexes", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=5)
            assert reply.status_code == 200
        silent[-1].settimeout(15)
        assert silent[-1].recv(1) == b""
    assert "Error" not in window.output.read_text()


def test_requests_beyond_the_limit_are_refused_and_the_next_is_answered(
    demo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(Settings(root=demo_root))

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
            statuses = []
            for limit in (0, 1, 1):
                monkeypatch.setattr(guard, "MAX_REQUESTS", limit)
                statuses.append((await client.get("/indexes")).status_code)
            return statuses

    assert asyncio.run(ask()) == [503, 200, 200]


def test_requests_whose_body_is_incomplete_keep_no_others_out(demo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_REQUESTS", 1)
    app, gate = make_app(Settings(root=demo_root)), asyncio.Event()

    async def held() -> Any:
        yield b"{"
        await gate.wait()
        yield b"}"

    async def ask() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
            waiting = [asyncio.create_task(client.post("/indexes/demo/ask", content=held())) for _ in range(3)]
            await asyncio.sleep(0.1)
            answered = await client.get("/indexes")
            gate.set()
            await asyncio.gather(*waiting)
            return answered.status_code

    assert asyncio.run(ask()) == 200


def test_a_client_that_leaves_amid_its_body_leaves_no_line_in_the_log(serve: Call, demo_root: Path) -> None:
    window = serve(demo_root, "--allow-changes")
    address = ("127.0.0.1", int(window.url.rpartition(":")[2]))
    for path in ("api/v1/indexes/demo/ask", "api/v1/jobs?index=demo", "v1/chat/completions", "login"):
        with socket.create_connection(address) as client:
            head = f"POST /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            client.sendall(f"{head}Content-Length: 99\r\n\r\n{{".encode())
            time.sleep(0.1)
    assert httpx.get(f"{window.url}/api/v1/indexes").status_code == 200
    assert len(window.output.read_text().splitlines()) == 1


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
        assume(len(urlencode(case.query or {}, doseq=True)) < 60_000)  # the server closes at a head above 64 KiB
        # An unknown name, an empty question and a wrong filter are refused (4xx), which no schema can say beforehand;
        # and the framework's Allow header names one of two routes of a path.
        case.call_and_validate(excluded_checks=[allow_header_conformance, positive_data_acceptance])

    ask(request=request)


HOSTILE = (
    "<script>alert(1)</script><img src=http://example.org/x onerror=alert(2)></title></style></svg>"
    "<svg onload=alert(3)>\"'`{{ 7*7 }}{% raw %}&lt;b&gt;<!-- ]]> javascript:alert(4) "
    "\u202etxt.exe\u202c \x1b[31m\x07\x00 \u05d0\u05d1\u05d2"
)
ASKED = HOSTILE.replace("\x00", "")  # which no text may hold
RECORDS = [
    record("p1", "Ada Lovelace", "Ada Lovelace worked with Charles Babbage in London in 1843."),
    record("p2", "Charles Babbage", "Charles Babbage was born in London. He designed the Analytical Engine."),
    record("p3/<b>&?#%", ASKED, f"{ASKED} was seen by Ada Lovelace in London.", metadata={"x": ASKED}),
    record("p4", "Long " * 200_000, "A title of a million characters lies in London."),
]
QUESTIONS: list[dict[str, object]] = [
    {"id": "q1", "question": "Where was Charles Babbage born?", "answers": ["London"], "supporting": ["p2"]},
    {"id": "q2", "question": f"Who saw {ASKED}?", "answers": ["Ada Lovelace"], "supporting": ["p3/<b>&?#%"]},
]
WRONG = ("/nothing", "/jobs/99999999999999999999", "/sql?index=mine&query=SELECT")  # their pages say why
SIZES = [(360, "light"), (1920, "dark")]


@pytest.fixture(scope="module")
def site(serve: Call, commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A server over an index of two versions, with a job, dead questions and evaluations."""
    folder = tmp_path_factory.mktemp("site")
    root = folder / "root"
    corpus = Settings().corpus.model_copy(update={"max_quarantine_share": 0.5})
    settings = Settings(root=root, strategies=("bridge", "bm25", "dense"), corpus=corpus)
    indexed(settings, write_rows(folder / "corpus.jsonl", RECORDS[:2], '{"id": "bad"}'), "mine")
    indexed(settings, write_rows(folder / "corpus.jsonl", RECORDS, '{"id": "bad"}'), "mine")
    file = write_rows(folder / "questions.jsonl", QUESTIONS)
    other = write_rows(folder / "other.jsonl", [QUESTIONS[0] | {"answers": ["Paris"]}, QUESTIONS[1]])
    for line in (
        "eval FILE --index mine --strategies bridge,bm25",
        "eval FILE --index mine --strategies bm25",
        "eval OTHER --index mine --strategies bm25",
        "submit FILE --index mine",
        "worker --until-empty",
        "submit FILE --index mine --deadline 0.001 --name late",
        "worker --until-empty",
    ):
        words = [{"FILE": file, "OTHER": other}.get(word, word) for word in line.split()]
        done = commands.run([*words, "--root", root], folder, {})
        assert done.returncode == 0, done.stderr
    return str(serve(root, "--allow-changes").url)


def paths(url: str) -> Iterator[str]:
    """Every page there is, found by following each kind of link from the first page once."""
    first = ["/", "/ask?index=mine&question=Where+was+Charles+Babbage+born%3F&other=bm25", "/login"]
    first += ["/ask?index=mine&question=" + quote(str(QUESTIONS[1]["question"])), *WRONG]
    first += ["/indexes/mine/entities?name=Ada", "/indexes/mine/words?words=London", "/jobs/1/questions/q2"]
    first += ["/jobs/1", "/evaluations/compare?a=1&b=2", "/indexes/mine/diff?before=1&after=2"]
    first += ["/indexes/mine/passages/" + quote("p3/<b>&?#%"), "/indexes/mine/passages/p4"]
    return page_paths(url, first, WRONG)


def test_every_page_is_readable_at_every_width_and_loads_nothing_from_elsewhere(
    site: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    faults: list[str] = []
    found = list(paths(site))
    for kind in ("/jobs/", "/indexes/mine", "/evaluations/", "/entities/", "/documents/", "/sql", "/health"):
        assert any(kind in path for path in found), kind
    is_all = request.config.getoption("--everything")
    for number, path in enumerate(found):
        papers = set()
        for width, scheme in SIZES if is_all else [SIZES[number % 2]]:
            look = browser.look(f"{site}{path}", evaluate=PAGE_FACTS, width=width, scheme=scheme)
            values, where = look.values, f"{path} ({width}, {scheme})"
            papers.add(values.pop("paper"))
            if values != {"wide": 0, "scripts": 0, "foreign": [], "headings": 1, "axe": []}:
                faults.append(f"{where}: {values}")
            other = [one for one in look.requests if not one.startswith((site, "data:"))]
            said = [one for one in look.messages if "status of 4" not in one]
            if other or said or look.dialogs:
                faults.append(f"{where}: {other} {said} {look.dialogs}")
        if is_all and len(papers) < 2 and not path.endswith("/report"):
            faults.append(f"{path}: light and dark look alike")
    assert faults == []


LISTS = ("/", "/jobs", "/jobs/1", "/evaluations", "/evaluations/compare?a=2&b=1", "/indexes/mine", "/health")


@pytest.mark.parametrize("path", [*LISTS, "/indexes/mine/entities?name=Ada", "/indexes/mine/words?words=London"])
def test_no_list_is_cut_on_a_phone_and_on_a_desktop(site: str, browser: Browser, path: str) -> None:
    cut = "[...document.querySelectorAll('.frame')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)"
    looks = [browser.look(f"{site}{path}", evaluate={"cut": cut}, width=width) for width in (390, 1280)]
    assert [look.values["cut"] for look in looks] == [[], []]


@pytest.mark.parametrize("path", ["/ask?index=mine", "/jobs", "/indexes/mine", "/evaluations"])
def test_controls_of_a_row_end_on_one_line(site: str, browser: Browser, path: str) -> None:
    ends = """[...document.querySelectorAll('.row')].filter(e => e.checkVisibility()).map(row => new Set(
        [...row.querySelectorAll('input:not([type=hidden]):not([type=file]), select, button')]
        .map(e => Math.round(e.getBoundingClientRect().bottom))).size)"""
    assert set(browser.look(f"{site}{path}", evaluate={"ends": ends}, width=1280).values["ends"]) == {1}


@pytest.mark.parametrize("path", ["/jobs", "/jobs/1", "/evaluations", "/evaluations/1", "/indexes/mine", "/health"])
def test_times_are_those_of_the_reader_and_without_javascript_utc(site: str, browser: Browser, path: str) -> None:
    shown = {"time": "document.querySelector('time').textContent", "zone": "new Date().getTimezoneOffset()"}
    with_scripts, without = (browser.look(f"{site}{path}", evaluate=shown, has_scripts=has) for has in (True, False))
    assert re.fullmatch(r"[A-Z][a-z]{2} \d+, \d{4}, \d+:\d\d\s[AP]M", with_scripts.values["time"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", without.values["time"])
    assert re.findall(r"\d{4}-\d\d-\d\dT", with_scripts.text + without.text) == []


@pytest.mark.parametrize(
    ("strategy", "parts"),
    [("bridge", ("similarity", "words", "graph")), ("bm25", ("Strategy 'bm25' reports the total alone",))],
)
def test_the_score_of_a_passage_is_explained(
    site: str, browser: Browser, strategy: str, parts: tuple[str, ...]
) -> None:
    asked = {"index": "mine", "question": "Where was Charles Babbage born?", "strategy": strategy}
    steps = [("click", "details.why summary")]
    text = browser.look(f"{site}/ask?{urlencode(asked)}", steps=steps, has_scripts=False).text
    assert [part for part in parts if part not in text.partition("Why this score")[2]] == []


def test_two_evaluations_are_compared_by_question_with_significance(site: str, browser: Browser) -> None:
    text = browser.look(f"{site}/evaluations/compare?a=2&b=3").text
    for part in ("2 questions in both", "95 % interval", "not significant", "Where was Charles Babbage born?"):
        assert part in text, part


def test_an_answer_appears_while_a_model_writes_it_and_is_then_checked(
    serve: Call, demo_root: Path, browser: Browser, model_server: Any
) -> None:
    written = {"reasoning": "The Vltava flows through Prague [1], as one passage says.", "answer": "Vltava"}
    model_server.respond(lambda _: Behaviour(content=json.dumps(written | {"citations": []}), piece_seconds=0.15))
    settings = ("--set", "models.read=openai/scripted", "--set", f"models.api_base={model_server.url}")
    url = serve(demo_root, *settings, POLYHOP_MODELS__PRICE="1,2").url
    box, draft = "input[name=question]", "#draft:visible >> text=/^The Vltava flows(?!.*says)/"
    steps = [["fill", box, "Which river flows through Prague?"], ["press", box, "Enter"], ["wait", draft]]
    look = browser.look(f"{url}/ask", steps=[*steps, ["wait", "text=Link that reproduces this answer"]])
    assert "being written, not checked yet" not in look.text
    assert ("Vltava" in look.text, "[not verified]" in look.text) == (True, True)
    assert look.url.startswith(f"{url}/ask?index=demo&question=Which+river+flows+through+Prague%3F&")
    assert look.messages == []
    assert model_server.count() == 1


def test_a_person_uploads_questions_and_downloads_the_answers_of_a_worker(
    site: str, browser: Browser, commands: Commands, tmp_path: Path
) -> None:
    upload = ["upload", "input[type=file]", str(write_rows(tmp_path / "mine.jsonl", QUESTIONS))]
    submit = [["choose", "select[name=index]", "mine"], ["click", "form[enctype] button"]]
    made = browser.look(f"{site}/jobs", steps=[upload, *submit])
    job = re.fullmatch(rf"{site}/jobs/(\d+)", made.url)
    assert job, made.text
    root = httpx.get(f"{site}/").text.partition("root <code>")[2].partition("</code>")[0]
    assert commands.run(["worker", "--until-empty", "--root", root], tmp_path, {}).returncode == 0
    done = browser.look(made.url, steps=[["download", "a[href*='format=jsonl']"]])
    command = commands.run(["jobs", "results", job[1], "--root", root], tmp_path, {}).stdout
    results, expected = ([json.loads(line) for line in text.splitlines()] for text in (done.downloads[0], command))
    assert results == expected
    assert [row["state"] for row in results] == ["done", "done"]
    assert results[0]["answer"] in done.text


def test_without_javascript_a_question_is_asked_with_the_keyboard_alone(site: str, browser: Browser) -> None:
    box = "input[name=question]"
    steps = [["fill", box, "Where was Charles Babbage born?"], ["press", box, "Enter"]]
    look = browser.look(site, steps=steps, has_scripts=False)
    assert [part for part in ("London", "Link that reproduces this answer") if part not in look.text] == []
