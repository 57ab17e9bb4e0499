"""The guard of the server and its error documents, without a socket and a browser."""

from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from polyhop.schemas import errors
from polyhop.server import guard
from polyhop.server.access import RefusedError, Tokens, session_of
from polyhop.server.guard import RequestGuard, is_from_elsewhere, is_loopback, own_hosts
from polyhop.server.problems import JsonRoute, problem_of, status_of
from polyhop.server.service import BusyError, LateError
from polyhop.warehouse.files.layout import Layout

TOKEN = "a-long-secret-token"


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that reads the body and answers."""
    size, has_more = 0, True
    while has_more:
        message = await receive()
        size, has_more = size + len(message.get("body", b"")), message.get("more_body", False)
    await PlainTextResponse(f"{size} bytes")(scope, receive, send)


@pytest.fixture
def open_server(tmp_path: Path) -> TestClient:
    guarded = RequestGuard(hello, hosts=own_hosts("127.0.0.1"), tokens=Tokens(Layout(tmp_path)))
    return TestClient(guarded, base_url="http://127.0.0.1:4280")


@pytest.fixture
def guarded_server(tmp_path: Path) -> TestClient:
    guarded = RequestGuard(hello, hosts=own_hosts("0.0.0.0"), tokens=Tokens(Layout(tmp_path), TOKEN))
    return TestClient(guarded, base_url="http://lake.example", follow_redirects=False)


def test_a_request_by_the_servers_own_name_is_answered(open_server: TestClient) -> None:
    assert open_server.get("/").text == "0 bytes"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", ""])
def test_a_foreign_host_header_is_refused_without_a_token(open_server: TestClient, host: str) -> None:
    assert open_server.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9", "[::1]:4280", "LOCALHOST"])
def test_each_name_of_this_machine_is_its_own(open_server: TestClient, host: str) -> None:
    assert open_server.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
def test_a_request_of_another_site_is_refused(open_server: TestClient, headers: dict[str, str]) -> None:
    assert open_server.post("/", headers=headers).status_code == 403


def test_a_link_from_another_site_is_followed(open_server: TestClient) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert open_server.get("/", headers=headers).status_code == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_token_is_known_after_the_word_bearer(guarded_server: TestClient, scheme: str) -> None:
    assert guarded_server.get("/", headers={"authorization": f"{scheme} {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("authorization", ["", TOKEN, "Bearer", "Bearer wrong", f"Basic {TOKEN}", "Bearer é"])
def test_any_other_authorization_is_refused(guarded_server: TestClient, authorization: str) -> None:
    reply = guarded_server.get("/", headers=Headers({"authorization": authorization}).mutablecopy().raw)
    assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")


def test_the_cookie_of_the_login_form_is_the_token(guarded_server: TestClient) -> None:
    guarded_server.cookies.set(guard.COOKIE, session_of(TOKEN))
    assert guarded_server.get("/").status_code == 200


def test_a_reader_of_pages_is_led_to_the_login_form(guarded_server: TestClient) -> None:
    reply = guarded_server.get("/", headers={"accept": "text/html"})
    assert (reply.status_code, reply.headers["location"]) == (303, "/login")


def test_the_refusal_of_a_token_shows_no_token(guarded_server: TestClient) -> None:
    reply = guarded_server.get("/", headers={"authorization": "Bearer sk-wrong-and-secret"})
    assert "sk-wrong" not in reply.text


@pytest.mark.parametrize("length", [str(guard.MAX_BODY_BYTES + 1), "-1", "1e3"])
def test_a_body_of_an_impossible_length_is_refused(open_server: TestClient, length: str) -> None:
    assert open_server.post("/", headers={"content-length": length}).status_code == 413


def test_a_body_that_grows_too_long_is_refused(open_server: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_BODY_BYTES", 10)
    assert open_server.post("/", content=iter([b"12345", b"678901"])).status_code == 413


def test_requests_beyond_the_limit_are_told_to_come_later(
    open_server: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MAX_REQUESTS", 0)
    assert open_server.get("/").status_code == 503


def test_every_reply_has_the_security_headers(open_server: TestClient) -> None:
    assert guard.SECURITY_HEADERS.items() <= dict(open_server.get("/").headers).items()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_addresses_of_this_machine_are_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "lake.example", "::"])
def test_addresses_that_others_reach_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_a_program_without_fetch_headers_is_from_nowhere_else() -> None:
    assert not is_from_elsewhere(Headers({"host": "127.0.0.1:4280"}))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UnknownIndexError("x", ["y"], "root"), 404),
        (BusyError("busy"), 503),
        (LateError("late"), 504),
        (RefusedError(418, "tea"), 418),
        (errors.ConfigurationError("wrong"), 422),
        (errors.StoreConflictError("taken"), 409),
        (errors.MalformedReplyError("no JSON"), 502),
        (errors.StoreError("disk"), 500),
        (ZeroDivisionError(), 500),
    ],
)
def test_each_error_has_the_status_of_its_class(error: Exception, status: int) -> None:
    assert status_of(error) == status


@pytest.fixture
def failing() -> TestClient:
    """An application whose routes raise and read JSON."""
    app = FastAPI()
    app.router.route_class = JsonRoute
    app.add_exception_handler(Exception, problem_of)
    app.add_exception_handler(errors.PolyhopError, problem_of)
    app.add_exception_handler(RequestValidationError, problem_of)

    @app.get("/defect")
    def defect() -> None:
        raise KeyError("secret-value")

    @app.get("/v1/refused")
    def refused() -> None:
        raise errors.ConfigurationError("The limit is 0.")

    @app.post("/body")
    def body(document: dict[str, int]) -> int:
        return sum(document.values())

    return TestClient(app, raise_server_exceptions=False)


def test_a_defect_is_a_sentence_without_its_values(failing: TestClient) -> None:
    assert failing.get("/defect").json()["detail"] == "Unexpected KeyError; see the server's log. This is a bug."


def test_an_error_below_v1_has_the_form_of_openai(failing: TestClient) -> None:
    reply = failing.get("/v1/refused")
    expected = {"message": "The limit is 0.", "type": "invalid_request_error", "param": None}
    assert (reply.status_code, reply.json()["error"]) == (400, expected | {"code": "ConfigurationError"})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has no body"),
        (b"[1]", "no object"),
        (b'{"a": 1', "invalid JSON at character"),
        (b'{"a": "\xff"}', "bytes that are not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(failing: TestClient, content: bytes, words: str) -> None:
    reply = failing.post("/body", content=content)
    assert (reply.status_code, words in reply.json()["detail"]) == (422, True)


def test_a_body_is_json_whatever_its_content_type(failing: TestClient) -> None:
    assert failing.post("/body", content=b'{"a": 1, "b": 2}', headers={"content-type": "text/plain"}).json() == 3


def test_a_wrong_value_is_shown_as_json_has_it(failing: TestClient) -> None:
    reply = failing.post("/body", content=b'{"a": [null, true]}')
    assert reply.json()["detail"] == "a must be a whole number, not [null, true]."
