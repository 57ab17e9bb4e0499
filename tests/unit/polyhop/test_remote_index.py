"""The client of a server: addresses, replies and errors, against a server that says what a test wants."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

import polyhop
from polyhop.schemas import errors

ROW = {"index": "towns", "version": 3, "strategy": "bridge"}
Reply = tuple[int, str, bytes]


def as_json(document: object, status: int = 200) -> Reply:
    return status, "application/json", json.dumps(document).encode()


def as_problem(error: str, detail: str, status: int) -> Reply:
    return status, "application/problem+json", json.dumps({"error": error, "detail": detail, "status": status}).encode()


class Said:
    """A server with one reply for every path but that of the list of indexes.

    Attributes:
        requests: (method, path, authorization, body) of each request.
    """

    def __init__(self) -> None:
        self.indexes: Reply = as_json([ROW])
        self.reply: Reply = as_json({})
        self.requests: list[tuple[str, str, str, bytes]] = []
        said = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                said.requests.append((self.command, self.path, self.headers.get("authorization", ""), body))
                status, kind, content = said.indexes if self.path.endswith("/indexes") else said.reply
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815 - as http.server has it

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def said() -> Iterator[Said]:
    server = Said()
    Thread(target=server.http.serve_forever, daemon=True).start()
    yield server
    server.http.shutdown()
    server.http.server_close()


Connect = Callable[..., polyhop.RemoteIndex]


@pytest.fixture
def connect(said: Said) -> Iterator[Connect]:
    opened: list[polyhop.RemoteIndex] = []

    def open_it(**options: Any) -> polyhop.RemoteIndex:
        opened.append(polyhop.connect(said.url, **options))
        return opened[-1]

    yield open_it
    for index in opened:
        index.close()


def test_the_only_index_needs_no_name(connect: Connect) -> None:
    index = connect()
    assert (index.name, index.version, index.default_strategy) == ("towns", 3, "bridge")


def test_a_token_goes_into_each_request(connect: Connect, said: Said) -> None:
    connect(token="long-and-secret-token")
    assert [authorization for _, _, authorization, _ in said.requests] == ["Bearer long-and-secret-token"]


def test_an_unknown_index_is_named_with_the_known_ones(connect: Connect) -> None:
    with pytest.raises(errors.UnknownIndexError, match="towns"):
        connect(index="rivers")


@pytest.mark.parametrize(("rows", "words"), [([], "has no index yet"), ([ROW, ROW | {"index": "a"}], "name one of")])
def test_an_index_must_be_named_unless_there_is_one(connect: Connect, said: Said, rows: list[Any], words: str) -> None:
    said.indexes = as_json(rows)
    with pytest.raises(errors.ConfigurationError, match=words):
        connect()


@pytest.mark.parametrize("url", ["127.0.0.1:4280", "ftp://127.0.0.1", "http://", "http://[::1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="is not a server's address"):
        polyhop.connect(url)


@pytest.mark.parametrize("token", ["two\nlines", "é"])
def test_a_token_that_no_header_can_hold_is_refused(connect: Connect, token: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="characters that a header cannot hold"):
        connect(token=token)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (as_problem("MissingArtefactError", "No vectors.", 409), errors.MissingArtefactError),
        (as_problem("FilterError", "No such column.", 422), errors.FilterError),
        (as_problem("BusyError", "Too many.", 503), errors.StoreUnavailableError),
        (as_problem("SystemExit", "Not one of ours.", 500), errors.PolyhopError),
    ],
)
def test_a_problem_is_raised_as_the_error_of_the_server(
    connect: Connect, said: Said, reply: Reply, kind: type[Exception]
) -> None:
    index = connect()
    said.reply = reply
    with pytest.raises(kind) as raised:
        index.ask("Where is Cairo?")
    assert (type(raised.value), str(raised.value)) == (kind, json.loads(reply[2])["detail"])


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ((502, "text/html", b"<h1>Bad gateway</h1>"), errors.StoreUnavailableError),
        ((404, "text/html", b"<h1>Not found</h1>"), errors.StoreError),
        ((200, "text/html", b"<h1>Welcome</h1>"), errors.StoreError),
        (as_json({"answer": 7}), errors.StoreError),
    ],
)
def test_a_reply_of_another_server_is_one_sentence(
    connect: Connect, said: Said, reply: Reply, kind: type[Exception]
) -> None:
    index = connect()
    said.reply = reply
    with pytest.raises(kind, match="is not a Polyhop server of this version") as raised:
        index.ask("Where is Cairo?")
    assert type(raised.value) is kind


def test_a_server_that_is_gone_is_unavailable(connect: Connect, said: Said) -> None:
    index = connect()
    said.http.shutdown()
    said.http.server_close()
    with pytest.raises(errors.StoreUnavailableError, match=r"cannot be reached|closed the connection"):
        index.ask("Where is Cairo?")


def test_options_that_are_not_given_are_not_sent(connect: Connect, said: Said) -> None:
    index = connect()
    with pytest.raises(errors.StoreError):
        index.ask("Where is Cairo?", strategy="bm25")
    assert json.loads(said.requests[-1][3]) == {"question": "Where is Cairo?", "strategy": "bm25", "limit": 10}


def test_a_file_that_cannot_be_read_sends_nothing(connect: Connect, said: Said, tmp_path: Any) -> None:
    index = connect()
    with pytest.raises(errors.SourceError, match="nothing was sent"):
        index.add([tmp_path / "missing.txt"])
    assert [method for method, *_ in said.requests] == ["GET"]
