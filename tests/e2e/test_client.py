"""`polyhop.connect` against `polyhop ui` in a process of its own: what an open index answers, and what goes wrong."""

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from small_indexes import publish

import polyhop
from polyhop.integrations.langchain import PolyhopRetriever
from polyhop.schemas import errors

TOKEN = "long-and-secret-token"
QUESTION = "Which suspension bridge over a strait did Thomas Telford design?"


@pytest.fixture(scope="module")
def guarded(serve: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two indexes, for those who know the token."""
    folder = tmp_path_factory.mktemp("guarded")
    for name in ("towns", "rivers"):
        root = publish(folder, [{"id": "p1", "title": "Cairo", "text": "Cairo lies on the Nile."}], name, "bm25")
    return serve(root, "--no-pages", POLYHOP_UI_TOKEN=TOKEN)


@pytest.fixture
def remote(window: str) -> Iterator[polyhop.RemoteIndex]:
    with polyhop.connect(window) as connected:
        yield connected


@pytest.fixture(scope="module")
def local(demo_root: Path) -> Iterator[polyhop.Index]:
    with polyhop.open_index("demo", root=demo_root) as opened:
        yield opened


def document(answer: polyhop.Answer) -> Any:
    """All of an answer but what its parts took, as JSON has it."""
    whole = {**answer.to_json(), "texts": [row["text"] for row in answer.passages]}
    del whole["seconds"]
    if "filter" in whole:
        del whole["filter"]["seconds"]
    return json.loads(json.dumps(whole))


def test_a_server_answers_as_the_open_index_does(remote: polyhop.RemoteIndex, local: polyhop.Index) -> None:
    assert (remote.name, remote.version, remote.default_strategy) == ("demo", 1, local.default_strategy)
    for options in (
        {},
        {"strategy": "bm25", "limit": 3, "parameters": {"k1": 0.9}, "where": "title != 'London'"},
        {"topic": "Thomas Telford"},
    ):
        asked: dict[str, Any] = dict(options)
        answer = remote.ask(QUESTION, **asked)
        assert document(answer) == document(local.ask(QUESTION, **asked))
        asked.pop("topic", None)
        found = remote.search(QUESTION, **asked)
        assert document(found) == document(local.search(QUESTION, **asked))
        assert (found.answer, found.reading["by"], found.passages) == ("", "none", answer.passages)
    assert isinstance(answer, polyhop.Answer)
    documents = PolyhopRetriever(remote, limit=4).invoke(QUESTION)
    assert [(one.id, one.page_content) for one in documents] == [(row["id"], row["text"]) for row in found.passages[:4]]


def test_a_batch_keeps_its_order_and_asyncio_gets_the_same(
    remote: polyhop.RemoteIndex, local: polyhop.Index, demo_folder: Path
) -> None:
    rows = [json.loads(line) for line in (demo_folder / "questions.jsonl").read_text().splitlines()]
    questions = [row["question"] for row in rows] * 2
    expected = [document(answer) for answer in local.ask_batch(questions)]
    assert [document(answer) for answer in remote.ask_batch(questions)] == expected

    async def all_at_once() -> list[polyhop.Answer]:
        return await asyncio.gather(*map(remote.aask, questions[:20]))

    assert [document(answer) for answer in asyncio.run(all_at_once())] == expected[:20]
    with pytest.raises(errors.ConfigurationError, match="There are 1 topics for 2 questions; give one for each"):
        remote.ask_batch(questions[:2], topics=["Thomas Telford"])
    with pytest.raises(errors.EmptyQuestionError):
        remote.ask_batch([*questions, "?"])


def test_sql_words_and_entities_are_those_of_the_open_index_and_names_are_not_logged(
    remote: polyhop.RemoteIndex, local: polyhop.Index, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    query = "SELECT passage_id, length(text) AS length FROM passages ORDER BY passage_id"
    assert remote.sql(query).equals(local.sql(query).cast(remote.sql(query).schema))
    assert remote.sql("SELECT title FROM passages WHERE false").to_pydict() == {"title": []}
    assert remote.search_text("river bridge", limit=4) == local.search_text("river bridge", limit=4) != []
    (entity,) = remote.find_entities("thomas telford")
    assert [entity] == local.graph.find_entities("thomas telford")
    fuzzy = remote.find_entities("telford", fuzzy=True)
    assert entity in fuzzy == local.graph.find_entities("telford", fuzzy=True)
    assert remote.neighbours(entity.id, 2) == local.graph.traverse(entity.id, 2) != []
    connected = remote.connect("Thomas Telford", "Menai Suspension Bridge", max_length=3)
    assert connected == local.graph.connect("Thomas Telford", "Menai Suspension Bridge", max_length=3)
    assert connected.paths
    assert caplog.records != []  # of httpcore: the capture works
    assert "Telford" not in caplog.text


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda index: index.ask(QUESTION, strategy="brigde"), errors.UnknownStrategyError, "did you mean 'bridge'?"),
        (lambda index: index.ask(QUESTION, limit=0), errors.PolyhopError, "limit: input should be greater"),
        (lambda index: index.sql("FROM range(10_001)"), errors.StatementRejectedError, "10,000 that the server sends"),
    ],
)
def test_what_the_server_refuses_is_raised_as_its_error_with_its_sentence(
    remote: polyhop.RemoteIndex, call: Callable[[Any], object], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind) as raised:
        call(remote)
    assert (type(raised.value), sentence in str(raised.value)) == (kind, True)


def test_an_index_is_named_where_there_are_several_and_the_token_is_asked_for_and_never_shown(
    guarded: Any,
) -> None:
    with polyhop.connect(guarded.url, "rivers", token=TOKEN) as index:
        assert index.ask("Where does Cairo lie?", strategy="bm25").passages[0]["id"] == "p1"
        assert "Cairo" not in guarded.output.read_text()
        assert repr(index) == f"RemoteIndex('rivers', version=1, server='{guarded.url}')"
    with pytest.raises(errors.ConfigurationError, match="has the indexes rivers, towns; name one of them"):
        polyhop.connect(guarded.url, token=TOKEN)
    with pytest.raises(errors.UnknownIndexError, match=r"Unknown index 'river'.*known indexes: rivers, towns"):
        polyhop.connect(guarded.url, "river", token=TOKEN)
    for token, said in ((None, "A token"), (f"{TOKEN}x", "A token"), (f"{TOKEN}\n", "that a header cannot hold")):
        with pytest.raises(errors.PolyhopError, match=said) as raised:
            polyhop.connect(guarded.url, "rivers", token=token)
        assert TOKEN not in str(raised.value)


class OtherServer(BaseHTTPRequestHandler):
    """A web server that is not ours: pages, and a proxy's error."""

    def do_GET(self) -> None:
        self.send_response(502 if "proxy" in self.path else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


def test_a_server_that_is_not_there_or_not_ours_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        dead_port = free.getsockname()[1]
    with pytest.raises(
        errors.StoreUnavailableError, match=r"The server at http://127\.0\.0\.1:\d+ cannot be reached .*polyhop ui"
    ):
        polyhop.connect(f"http://user:s3cret-of-an-address@127.0.0.1:{dead_port}")
    for address in ("127.0.0.1:4280", "ftp://127.0.0.1", "http://", "http://\x00", ""):
        with pytest.raises(errors.ConfigurationError, match="is not a server's address; give one like http://"):
            polyhop.connect(address)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(errors.StoreUnavailableError, match=r"did not answer within 0\.2 s; ask again later"):
            polyhop.connect(url, timeout_seconds=0.2)
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherServer) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{other.server_port}"
        for kind, raised, sentence in (
            ("page", errors.StoreError, r"\(status 200\) is not a Polyhop server of this version"),
            ("proxy", errors.StoreUnavailableError, r"\(status 502\)"),
        ):
            with pytest.raises(raised, match=sentence):
                polyhop.connect(f"{url}/{kind}")
        other.shutdown()
