"""Graphs at a SPARQL endpoint: a real one, of pyoxigraph behind http.server."""

import base64
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Store, parse
from small_indexes import indexed

from polyhop.schemas.errors import ConfigurationError, PolyhopError, SourceError, StoreUnavailableError
from polyhop.schemas.records import Address, GraphServer, source_of
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.graph_files import read_graph
from polyhop.warehouse.graph import sparql
from polyhop.warehouse.graph.sparql import SparqlEndpoint
from polyhop.warehouse.open import read_sparql

EX = "http://example.org/"
ADA = """
@prefix : <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:ada a :Person ; rdfs:label "Ada Lovelace"@en ; :knows :charles, :mary ; :born 1815, "1815", "1815"@en .
:charles a :Person ; rdfs:label "Charles Babbage" ; :built :engine ; :note "two\\nlines and a \\"quote\\"" .
:engine rdfs:label "Analytical Engine" ; :of [ :made :brass ] .
"""
BLANK = 2  # triples of ADA with the blank node


class Endpoint:
    """A store behind HTTP, which may fail a number of times, ask for a password, or send less than it is asked for."""

    def __init__(self) -> None:
        self.store = Store()
        self.store.extend(Quad(q.subject, q.predicate, q.object) for q in parse(ADA, RdfFormat.TURTLE))
        self.failures: list[int] = []  # statuses of the next replies
        self.kind = "application/n-triples"
        self.password = ""
        self.most = 1_000_000  # triples in a reply, whatever the query says
        self.requests = 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/sparql"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests += 1
        form = parse_qs(handler.rfile.read(int(handler.headers["Content-Length"])).decode())
        wanted = f"Basic {base64.b64encode(f'ada:{self.password}'.encode()).decode()}"
        status, body = self.failures.pop(0) if self.failures else 200, b""
        if self.password and handler.headers.get("Authorization") != wanted:
            status = 401
        if status == 200:
            query = re.sub(r"LIMIT (\d+)", lambda limit: f"LIMIT {min(self.most, int(limit[1]))}", form["query"][0])
            found: Any = self.store.query(query)
            body = found.serialize(format=RdfFormat.N_TRIPLES)
        handler.send_response(status)
        handler.send_header("Content-Type", self.kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    served = Endpoint()
    yield served
    served.close()


def copied(endpoint: Endpoint, folder: Path, **sizes: int) -> list[str]:
    """The triples that are copied, sorted."""
    connection, path = SparqlEndpoint(Address(endpoint.url, "", ""), **sizes), folder / "graph.nt"
    count = connection.copy(path)
    connection.close()
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == count
    return sorted(lines)


def stored(endpoint: Endpoint) -> list[str]:
    quads = [quad for quad in endpoint.store if "_:" not in f"{quad.subject} {quad.object}"]
    assert len(quads) == len(endpoint.store) - BLANK
    return sorted(f"{quad.triple} ." for quad in quads)


@pytest.mark.parametrize(("page", "requests"), [(1, 13), (5, 4), (12, 2), (100, 2)])
def test_each_triple_without_blank_nodes_is_copied_once(
    endpoint: Endpoint, tmp_path: Path, page: int, requests: int
) -> None:
    assert copied(endpoint, tmp_path, page_triples=page) == stored(endpoint)
    assert endpoint.requests == requests


def test_a_server_may_send_less_than_a_page(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.most = 5
    assert copied(endpoint, tmp_path) == stored(endpoint)


def test_an_endpoint_gives_the_lines_of_the_same_triples_in_a_file(endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "same.nt").write_text("\n".join(stored(endpoint)), encoding="utf-8")
    read = list(read_sparql(GraphServer(endpoint.url), ("en",), tmp_path / "copies", {}))
    assert sorted(map(repr, read)) == sorted(map(repr, read_graph(tmp_path / "same.nt", ("en",))))
    assert not list((tmp_path / "copies").iterdir())


def test_an_index_of_an_endpoint_follows_its_changes(endpoint: Endpoint, tmp_path: Path) -> None:
    settings = Settings(root=tmp_path / "root", strategies=("graph-search",))
    first, again = (indexed(settings, source_of(endpoint.url), "kg", kind="graph") for _ in range(2))
    endpoint.store.add(Quad(NamedNode(f"{EX}mary"), NamedNode(f"{EX}wrote"), Literal("Connexion")))
    changed = indexed(settings, source_of(endpoint.url), "kg", kind="graph")
    assert (first.version, again.changed, changed.version) == (1, False, 2)
    assert changed.counts["relations"] == first.counts["relations"] + 1


@pytest.mark.parametrize("failures", [[503], [429, 500]])
def test_a_failure_that_passes_is_tried_again(endpoint: Endpoint, tmp_path: Path, failures: list[int]) -> None:
    endpoint.failures = failures
    assert copied(endpoint, tmp_path) == stored(endpoint)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"failures": [503, 503]}, StoreUnavailableError, r"does not answer \(status 503\)"),
        ({"failures": [404]}, SourceError, "answered a query with status 404"),
        ({"failures": [302]}, SourceError, "answered a query with status 302"),
        ({"kind": "text/html; charset=utf-8"}, SourceError, "status 200 and text/html, not with N-Triples"),
        ({"password": "hush"}, ConfigurationError, "set SPARQL_USER and SPARQL_PASSWORD"),
        ({"store": Store()}, SourceError, "has no triple without blank nodes"),
    ],
    ids=["down", "no page", "redirect", "a page of HTML", "closed", "empty"],
)
def test_an_endpoint_that_gives_no_graph_is_refused_in_a_sentence(
    endpoint: Endpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: Any,
    error: type[PolyhopError],
    said: str,
) -> None:
    monkeypatch.setattr(sparql, "ATTEMPTS", 2)
    for name, value in given.items():
        setattr(endpoint, name, value)
    with pytest.raises(error, match=said) as caught:
        list(read_sparql(GraphServer(endpoint.url), (), tmp_path, {}))
    assert str(caught.value).count(". ") == 0


def test_a_user_and_a_password_come_from_the_environment(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.password = "hush"
    server, known = GraphServer(endpoint.url), {"SPARQL_USER": "ada", "SPARQL_PASSWORD": "hush"}
    assert list(read_sparql(server, (), tmp_path, known))
    with pytest.raises(ConfigurationError) as caught:
        list(read_sparql(server, (), tmp_path, known | {"SPARQL_PASSWORD": "rosebud"}))
    assert "rosebud" not in str(caught.value)


@pytest.mark.parametrize("address", ["https://ada:hush@host/sparql", "https://host/sparql?key=hush"])
def test_an_address_with_a_secret_is_refused_without_showing_it(address: str) -> None:
    with pytest.raises(ConfigurationError, match="set SPARQL_USER and SPARQL_PASSWORD") as caught:
        source_of(address)
    assert "hush" not in str(caught.value)


def test_a_graph_above_the_limit_is_refused(endpoint: Endpoint, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has more than 10 triples"):
        copied(endpoint, tmp_path, page_triples=4, most_triples=10)


def test_nothing_listens_at_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparql, "ATTEMPTS", 1)
    with pytest.raises(StoreUnavailableError, match="ConnectError"):
        list(read_sparql(GraphServer("http://127.0.0.1:1/sparql"), (), tmp_path, {}))
