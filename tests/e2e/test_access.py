"""Tokens of `polyhop ui`: each route asked with each kind of token, and what a filter of records must never show."""

import json
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from small_indexes import Call, indexed, record, write_rows
from starlette.testclient import TestClient

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.settings import Settings
from polyhop.server.access import (
    CURRENT,
    Access,
    TokenRole,
    Tokens,
    add_token,
    listed_tokens,
    remove_token,
    require_access,
)
from polyhop.server.app import make_app
from polyhop.server.service import Asked, Service
from polyhop.warehouse.files.layout import Layout

SECRET, OPEN = "Velmont", "Tarnwick"
PAGES = [
    record("s1", f"{SECRET} Steelworks", f"{SECRET} Steelworks is led by Ines Falkner since 2011.", team="board"),
    record("s2", "Ines Falkner", f"Ines Falkner was born in Krummhorn and leads {SECRET} Steelworks.", team="board"),
    record("o1", f"{OPEN} Engineering", f"{OPEN} Engineering is led by Pavel Novak since 2015.", team="sales"),
    record("o2", "Pavel Novak", f"Pavel Novak was born in Ostley and leads {OPEN} Engineering.", team="sales"),
]
FILTER = "metadata.team = 'sales'"
SECRETS = re.compile(r"Velmont|Falkner|Krummhorn|\bs1\b|\bs2\b|board", re.IGNORECASE)
QUESTION = "Where was the person born who leads Velmont Steelworks?"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two indexes of the same records; tokens by name in tokens.json."""
    folder = tmp_path_factory.mktemp("access")
    settings = Settings(root=folder / "root")
    for name in ("firm", "annex"):
        indexed(settings, write_rows(folder / "corpus.jsonl", PAGES), name)
    return folder / "root"


@pytest.fixture(scope="module")
def keys(root: Path) -> Mapping[str, str]:
    made = {role.name.lower(): Access(role.name.lower(), role) for role in TokenRole}
    made["some"] = Access("some", TokenRole.CHANGE, ("firm",))
    made["filtered"] = Access("filtered", TokenRole.CHANGE, (), FILTER)
    return {name: add_token(Layout(root), access) for name, access in made.items()}


@pytest.fixture(scope="module")
def client(root: Path) -> Iterator[TestClient]:
    with TestClient(make_app(Settings(root=root), allows_changes=True), "http://127.0.0.1") as opened:
        opened.follow_redirects = False
        yield opened


def sent(client: TestClient, key: str, method: str, path: str, **given: Any) -> Any:
    headers = {"authorization": f"Bearer {key}", "accept": "text/html"} if key else {}
    return client.request(method, path, headers=headers, **given)


def application(client: TestClient) -> Any:
    return cast("Any", client.app)._app  # within the guard


def routes(app: Any) -> list[tuple[str, str]]:
    """Every route of the application: method and path, its gaps filled with what exists."""
    filled = {"index": "firm", "document": "x", "passage:path": "s1", "entity": "x", "entity_id": "x", "hub": "x"}
    filled |= {"job": "1", "run": "1", "question:path": "q", "change": "cancel", "name": "firm", "format": "csv"}
    found = []
    for route in _leaves(app.routes):
        path = re.sub(r"{([\w:]+)}", lambda gap: filled.get(gap[1], "x"), route.path)
        found += [(method, path) for method in sorted((route.methods or set()) - {"HEAD", "OPTIONS"})]
    return found


def _leaves(routes: Any) -> Any:
    for route in routes:
        if hasattr(route, "effective_route_contexts"):  # an included router
            yield from route.effective_route_contexts()
        elif hasattr(route, "methods"):
            yield route


FREE = {"/login", "/healthz", "/static/answer.css"}


def test_no_route_is_open_without_a_token(client: TestClient, keys: Mapping[str, str]) -> None:
    found = [one for one in routes(application(client)) if one[1] not in FREE]
    assert len(found) > 40
    wrong = {one: sent(client, "", *one).status_code for one in found}
    assert {one: status for one, status in wrong.items() if status != 401} == {}


def test_a_token_with_a_filter_gets_nothing_of_other_records_from_any_route(
    client: TestClient, keys: Mapping[str, str]
) -> None:
    """Every route with the arguments that would show most, and with the secret words as arguments."""
    body = {"question": QUESTION, "words": SECRET, "query": "FROM passages", "limit": 100, "model": "firm"}
    body |= {"messages": [{"role": "user", "content": QUESTION}]}
    fields = {"question": QUESTION, "limit": 100}
    query = {"index": "firm", "question": QUESTION, "query": "FROM passages", "name": SECRET, "id": "s1"}
    for method, path in routes(application(client)):
        if path in FREE:
            continue
        kept = fields if path.endswith(("/ask", "/search")) else body
        given: dict[str, Any] = {"params": query} if method == "GET" else {"json": kept}
        reply = sent(client, keys["filtered"], method, path, **given)
        told = reply.text.replace(QUESTION, "")  # an answer repeats what was asked
        told = told.replace(httpx.QueryParams({"question": QUESTION})["question"], "")
        told = re.sub(r"question=[^&\"]*", "", told)
        found = SECRETS.search(told)
        assert not found, (method, path, told[found.start() - 300 :][:400])
        assert reply.status_code in {200, 303, 403, 422}, (method, path, reply.text)


@pytest.mark.parametrize(
    "where",
    [
        "metadata.team = 'board'",
        "metadata.team = 'sales') OR (metadata.team = 'board'",
        "true) OR (true",
        "metadata.team = 'board' --",
        "metadata.team = 'x' OR metadata.team = 'board'",
        "metadata.team = 'x' -- ') OR (metadata.team = 'board'",
        "metadata.team = 'x' /* ) OR (metadata.team = 'board' */",
        "metadata.team = 'x' --\n) OR (metadata.team = 'board'",
    ],
)
@pytest.mark.parametrize("strategy", ["bridge", "bm25"])
def test_a_filter_of_the_question_never_widens_that_of_the_token(
    client: TestClient, keys: Mapping[str, str], where: str, strategy: str
) -> None:
    asked = {"question": QUESTION, "where": where, "strategy": strategy}
    reply = sent(client, keys["filtered"], "POST", "/api/v1/indexes/firm/ask", json=asked)
    if reply.status_code == 200:
        assert {row["id"] for row in reply.json()["passages"]} <= {"o1", "o2"}
    else:
        assert reply.status_code == 422


def test_a_filter_still_answers_from_its_own_records(client: TestClient, keys: Mapping[str, str]) -> None:
    asked = {"question": "Where was Pavel Novak born?"}
    reply = sent(client, keys["filtered"], "POST", "/api/v1/indexes/firm/ask", json=asked).json()
    assert {row["id"] for row in reply["passages"]} == {"o1", "o2"}
    assert (reply["evidence"], "filter" in reply) == ({}, False)
    first = sent(client, keys["filtered"], "GET", "/")  # which counts what indexes hold
    assert (first.status_code, first.headers["location"]) == (303, "/ask")
    page = sent(client, keys["filtered"], "GET", "/ask", params={"index": "firm", **asked})
    assert (page.status_code, "Ostley" in page.text) == (200, True)
    topic = sent(client, keys["filtered"], "POST", "/api/v1/indexes/firm/ask", json={**asked, "topic": "Ines"})
    assert (topic.status_code, "may not name a topic" in topic.text) == (403, True)


def test_a_token_of_some_indexes_sees_no_other(client: TestClient, keys: Mapping[str, str]) -> None:
    own = sent(client, keys["some"], "GET", "/api/v1/indexes").json()
    assert [row["index"] for row in own] == ["firm"]
    models = sent(client, keys["some"], "GET", "/v1/models").json()["data"]
    assert {row["id"].partition(":")[0] for row in models} == {"firm"}
    body = {"model": "annex", "messages": [{"role": "user", "content": "Who?"}]}
    assert sent(client, keys["some"], "POST", "/v1/chat/completions", json=body).status_code == 404
    for path in ("/ask", "/sql", "/indexes", "/"):
        assert "annex" not in sent(client, keys["some"], "GET", path).text, path
    refused = [
        ("GET", "/indexes/annex"),
        ("GET", "/api/v1/indexes/annex/entities?name=x"),
        ("POST", "/api/v1/indexes/annex/ask"),
        ("GET", "/sql?index=firm&index=annex"),
        ("GET", "/ask?index=annex&question=Who%3F"),
        ("GET", "/jobs"),
        ("GET", "/evaluations"),
        ("GET", "/health"),
    ]
    replies = {one: sent(client, keys["some"], *one, json={"question": "Who?"}).status_code for one in refused}
    assert replies == dict.fromkeys(refused, 403)


@pytest.mark.parametrize(
    ("method", "path", "least"),
    [
        ("GET", "/api/v1/indexes/firm/versions", TokenRole.READ),
        ("POST", "/api/v1/indexes/firm/sql", TokenRole.READ),
        ("GET", "/jobs", TokenRole.READ),
        ("POST", "/api/v1/indexes/firm/ask", TokenRole.ASK),
        ("GET", "/ask", TokenRole.ASK),
        ("POST", "/api/v1/jobs", TokenRole.CHANGE),
        ("POST", "/api/v1/indexes/firm/documents", TokenRole.CHANGE),
        ("DELETE", "/api/v1/indexes/firm/documents/x", TokenRole.CHANGE),
        ("POST", "/sql/saved", TokenRole.CHANGE),
        ("GET", "/health", TokenRole.ADMIN),
        ("PATCH", "/indexes/firm", TokenRole.ADMIN),
        ("GET", "/a/route/of/tomorrow", TokenRole.ADMIN),
    ],
)
def test_a_role_includes_those_before_it(method: str, path: str, least: TokenRole) -> None:
    for role in TokenRole:
        if role >= least:
            require_access(Access("x", role), method, path, "")
        else:
            with pytest.raises(Exception, match="this needs"):
                require_access(Access("x", role), method, path, "")


def test_only_the_hash_of_a_token_is_kept_and_a_removed_token_ends_at_once(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "new")
    token, tokens = add_token(layout, Access("anna", TokenRole.ASK)), Tokens(layout)
    text = layout.tokens.read_text("utf-8")
    assert (token in text, len(json.loads(text)[0]["sha256"])) == (False, 64)
    assert stat.S_IMODE(layout.tokens.stat().st_mode) == 0o600
    session = tokens.login(token) or ""
    assert tokens.access(token, "") == tokens.access("", session) == Access("anna", TokenRole.ASK)
    assert (tokens.access("", token), tokens.access(session, ""), tokens.access("", "")) == (None, None, None)
    with pytest.raises(ConfigurationError, match="There is a token 'anna' already"):
        add_token(layout, Access("anna", TokenRole.ADMIN))
    add_token(layout, Access("ben", TokenRole.READ))
    remove_token(layout, "anna")
    assert (tokens.access(token, ""), tokens.access("", session)) == (None, None)
    assert [one.name for one in listed_tokens(layout)] == ["ben"]


def test_a_damaged_file_of_tokens_lets_nobody_in(client: TestClient, root: Path, keys: Mapping[str, str]) -> None:
    path = Layout(root).tokens
    kept = path.read_bytes()
    try:
        path.write_text('[{"name": "x"}]', encoding="utf-8")
        replies = [sent(client, key, "GET", "/api/v1/indexes").status_code for key in ("", keys["admin"])]
    finally:
        path.write_bytes(kept)
    assert replies == [503, 503]


def test_the_log_says_who_did_what(
    client: TestClient, keys: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "polyhop"):
        sent(client, keys["read"], "GET", "/api/v1/indexes/firm/versions")
        sent(client, keys["read"], "POST", "/api/v1/indexes/firm/ask", json={"question": "Who?"})
    lines = [one.getMessage() for one in caplog.records if one.name == "polyhop.server.guard"]
    assert lines == ["read: GET /api/v1/indexes/firm/versions 200", "read: POST /api/v1/indexes/firm/ask 403"]


def test_tokens_are_made_listed_and_removed_by_commands(said: Call, tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    ended, made, _ = said("tokens add sales --only-index firm --where", FILTER, "--root", root)
    assert (ended, len(made.strip()) >= 32) == (0, True)
    _, listed, _ = said("tokens list --json --root", root)
    assert json.loads(listed) == [{"name": "sales", "role": "ask", "indexes": "firm", "where": FILTER}]
    said("tokens remove sales --root", root)
    assert "There are no tokens" in said("tokens list --root", root)[1]
    ended, _, told = said("tokens add bad --where", "true) or (true", "--root", root)
    assert (ended, told.startswith("polyhop: The filter is wrong")) == (2, True)


def test_drafts_of_a_model_are_not_for_tokens_with_a_filter(root: Path) -> None:
    """A strategy that the filter does not limit is refused after its answer."""
    service, asked = Service(Settings(root=root)), Asked("firm", QUESTION, on_draft=print)
    with_filter = CURRENT.set(Access("filtered", TokenRole.ASK, (), FILTER))
    try:
        permitted = service.permitted(asked)
    finally:
        CURRENT.reset(with_filter)
        service.close()
    assert (service.permitted(asked).on_draft, permitted.on_draft) == (print, None)
