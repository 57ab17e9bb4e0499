"""Fuzzes `polyhop ui` (/api/v1 and /v1) and `polyhop mcp` with malformed requests for some minutes.

Run: uv run python tests/support/fuzz_servers.py --minutes 30 [--seed N]

Requests come from schemathesis, by the OpenAPI document and against it, and from valid JSON of which bytes or values
are changed; lines of MCP likewise. It is a fault if a reply is missing, has a status of 500 or more or words of FastAPI
or pydantic, if a line that needs a reply gets none, or if a server logs a traceback. Faults are printed; the exit code
is then 1.
"""

import argparse
import contextlib
import json
import random
import socket
import string
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import httpx
import hypothesis
import schemathesis

from polyhop.server.chat import ChatBody

PROJECT = Path(__file__).resolve().parents[2]
THEIR_WORDS = ("Input should", "pydantic", "Field required", "validation error", "Extra inputs", "parsing the body")
SECONDS = 60.0  # for a reply
EXAMPLES = 20  # requests to an operation before the next one
SHOWN = 300  # characters of a request in a fault
Fault = Callable[[str], None]

QUESTION = {"index": "demo", "question": "Who designed the Statue of Liberty?"}
CALLS: list[dict[str, Any]] = [
    {"method": "ping"},
    {"method": "tools/list"},
    {"method": "resources/list"},
    {"method": "resources/read", "params": {"uri": "polyhop://demo/versions"}},
    {"method": "prompts/get", "params": {"name": "x"}},
    {"method": "tools/call", "params": {"name": "ask", "arguments": {**QUESTION, "limit": 3}}},
    {"method": "tools/call", "params": {"name": "search_passages", "arguments": QUESTION}},
    {"method": "tools/call", "params": {"name": "find_entities", "arguments": {"index": "demo", "name": "Eiffel"}}},
    {"method": "tools/call", "params": {"name": "neighbours", "arguments": {"index": "demo", "entity_id": "e"}}},
    {"method": "tools/call", "params": {"name": "connect", "arguments": {"index": "demo", "a": "Paris", "b": "Rome"}}},
    {"method": "tools/call", "params": {"name": "sql", "arguments": {"index": "demo", "query": "FROM entities"}}},
]
BODIES: dict[str, dict[str, Any]] = {
    "api/v1/indexes/demo/ask": {"question": "Who?", "limit": 3, "parameters": {"k1": 0.9}},
    "api/v1/indexes/demo/search": {"question": "Who?", "strategy": "bm25", "where": "title != 'x'"},
    "api/v1/indexes/demo/text": {"words": "river", "limit": 3},
    "api/v1/indexes/demo/sql": {"query": "SELECT 1", "version": 1},
    "v1/chat/completions": {"model": "demo", "messages": [{"role": "user", "content": "Who?"}], "stream": False},
}
VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 10**30, float("nan"), "", " ", "x" * 20_000, "\ud800", "\x00", "…", "' OR 1=1", [], [None],
    {}, {"": {}},
]  # fmt: skip


def changed(document: dict[str, Any], chance: random.Random) -> bytes:
    """A document as JSON, of which a value, a name or some bytes are others."""
    document = json.loads(json.dumps(document))
    for _ in range(chance.choice([0, 1, 1, 2])):
        fields = chance.choice([*_objects(document)])
        name = chance.choice([*fields, "extra"])
        if chance.random() < 0.2:
            fields.pop(name, None)
        else:
            fields[name] = deepcopy(chance.choice(VALUES))
    text = json.dumps(document, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    way = chance.randrange(8)
    if way == 0:
        at = chance.randrange(len(text) + 1)
        return text[:at] + bytes(chance.randrange(256) for _ in range(chance.randrange(4))) + text[at + 1 :]
    if way == 1:
        return text[: chance.randrange(len(text) + 1)]
    if way == 2:
        return b"[" * chance.choice([1, 100, 10_000]) + text
    return text


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from _objects(inner)


def is_answered(line: bytes) -> bool:
    """Returns True if a line of MCP needs a reply: all do but notifications and responses of JSON-RPC 2.0."""
    try:
        message = json.loads(line)
        json.dumps(message, ensure_ascii=False).encode()  # fails for half a surrogate
        line.decode()
    except (ValueError, RecursionError):
        return True
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return True
    is_response = isinstance(message.get("result"), dict) or isinstance(message.get("error"), dict)
    has_parameters = isinstance(message.get("params", {}), dict | None)  # others make a request invalid: id null
    is_notification = isinstance(message.get("method"), str) and "id" not in message and has_parameters
    return not (is_response or is_notification)


class LineServer:
    """A running `polyhop mcp` after its handshake."""

    def __init__(self, root: Path, log: Path) -> None:
        words = [sys.executable, "-m", "polyhop.cli", "mcp", "--root", str(root)]
        with log.open("w") as errors:
            self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self._replies: Queue[dict[str, Any]] = Queue()
        self._number = 0
        Thread(target=self._read, daemon=True).start()
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}}
        self._send({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": client})
        self._replies.get(timeout=SECONDS)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _read(self) -> None:
        if self.process.stdout is not None:
            for line in self.process.stdout:
                self._replies.put(json.loads(line))

    def _send(self, message: dict[str, Any]) -> None:
        self.send_line(json.dumps(message).encode())

    def send_line(self, line: bytes) -> None:
        """Sends one line."""
        if self.process.stdin is None:
            raise BrokenPipeError
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def replies_to(self, line: bytes, count: int) -> list[dict[str, Any]]:
        """Returns the replies that come after a line until a ping is answered, and until there are `count`."""
        self._number += 1
        ping = f"ping-{self._number}"
        self.send_line(line)
        self._send({"jsonrpc": "2.0", "id": ping, "method": "ping"})
        found: list[dict[str, Any]] = []
        is_over = False
        with contextlib.suppress(Empty):
            while not is_over or len(found) < count:
                reply = self._replies.get(timeout=SECONDS)
                is_ping = reply.get("id") == ping
                is_over = is_over or is_ping
                if not is_ping and "id" in reply:  # else a notification of the server
                    found.append(reply)
        return found if is_over else []


def fuzz_lines(server: LineServer, chance: random.Random, fault: Fault) -> None:
    """Sends one line."""
    number: Any = chance.choice([chance.randrange(10**6), "".join(chance.choices(string.ascii_letters, k=8))])
    line = changed({"jsonrpc": "2.0", "id": number, **chance.choice(CALLS)}, chance).replace(b"\n", b" ")
    expected = int(is_answered(line))
    replies = server.replies_to(line, expected)
    if len(replies) != expected:
        fault(f"MCP: {len(replies)} replies to {line[:SHOWN]!r}")
    for reply in replies:
        if words := [one for one in THEIR_WORDS if one in json.dumps(reply)]:
            fault(f"MCP: {words} in the reply to {line[:SHOWN]!r}")


def check_reply(reply: httpx.Response | Any, request: str, fault: Fault) -> None:
    """Reports the faults of a reply over HTTP."""
    if reply.status_code >= 500:
        fault(f"HTTP: {reply.status_code} to {request}: {reply.text[:SHOWN]}")
    if reply.status_code >= 400 and (words := [one for one in THEIR_WORDS if one in reply.text]):
        fault(f"HTTP: {words} in the reply to {request}")


def fuzz_bodies(url: str, chance: random.Random, fault: Fault) -> None:
    """Sends one body."""
    path, body = chance.choice([*BODIES.items()])
    content, kind = changed(body, chance), chance.choice(["", "application/json", "text/plain", "x"])
    request = f"POST /{path} {content[:SHOWN]!r} ({kind})"
    try:
        reply = httpx.post(
            f"{url}/{path}", content=content, headers={"content-type": kind} if kind else {}, timeout=SECONDS
        )
    except httpx.HTTPError as error:
        fault(f"HTTP: {type(error).__name__} to {request}")
        return
    check_reply(reply, request, fault)
    is_openai = path.startswith("v1/")
    if reply.status_code >= 400 and ("error" if is_openai else "detail") not in reply.json():
        fault(f"HTTP: the error has no form: {request}: {reply.text[:SHOWN]}")


def operations(url: str) -> list[Any]:
    """The operations of /api/v1 by its own document, and of /v1 by one that is made here."""
    body = {
        "required": True,
        "content": {
            "application/json": {"schema": ChatBody.model_json_schema(ref_template="#/components/schemas/{model}")}
        },
    }
    schema = body["content"]["application/json"]["schema"]  # type: ignore[index]
    path = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    found = {"responses": {"200": {"description": "found"}}}
    chat = {
        "openapi": "3.1.0",
        "info": {"title": "chat", "version": "1"},
        "components": {"schemas": schema.pop("$defs", {})},
        "paths": {
            "/v1/models": {"get": found},
            "/v1/models/{name}": {"get": {**found, "parameters": path}},
            "/v1/chat/completions": {"post": {**found, "requestBody": body}},
        },
    }
    loaded = [schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json"), schemathesis.openapi.from_dict(chat)]
    return [result.ok() for schema in loaded for result in schema.get_all_operations()]


def fuzz_operation(operation: Any, url: str, seed: int, until: float, fault: Fault) -> int:
    """Sends requests that the document of an operation allows, and such that it does not; returns how many."""
    sent = 0
    for mode in schemathesis.GenerationMode:

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            nonlocal sent
            if time.monotonic() > until:
                return
            for name, value in {"index": "demo", "name": "demo", "model": "demo"}.items():
                if name in (case.path_parameters or {}) and len(str(case.path_parameters[name])) % 2:
                    case.path_parameters[name] = value  # else nothing comes further than the unknown index
            sent += 1
            request = f"{operation.label} {case.path_parameters} {case.query} {str(case.body)[:SHOWN]}"
            try:
                reply = case.call(base_url=url, timeout=SECONDS)
            except Exception as error:  # noqa: BLE001 - whatever a client raises, the reply is missing
                fault(f"HTTP: {type(error).__name__} to {request}")
                return
            check_reply(reply, request, fault)

        with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # no request is against this document
            send()
    return sent


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[tuple[str, LineServer]]:
    """Both servers on an index of the demo's corpus."""
    root, corpus = folder / "root", PROJECT / "polyhop" / "demo" / "corpus.jsonl"
    polyhop = [sys.executable, "-m", "polyhop.cli"]
    subprocess.run([*polyhop, "index", str(corpus), "--index", "demo", "--root", str(root)], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "ui.log").open("w") as log:
        words = [*polyhop, "ui", "--root", str(root), "--port", str(port), "--allow-changes"]
        window = subprocess.Popen(words, stdout=log, stderr=log)
    lines = LineServer(root, folder / "mcp.log")
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{url}/healthz")
                break
            time.sleep(0.5)
        yield url, lines
    finally:
        for process in (window, lines.process):
            process.terminate()
            process.wait(SECONDS)


def main() -> int:
    """Fuzzes until the minutes are over; returns 1 if there were faults."""
    parser = argparse.ArgumentParser(description="Fuzz polyhop ui and polyhop mcp.")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    chance, faults, sent = random.Random(given.seed), list[str](), Counter[str]()

    def fault(sentence: str) -> None:
        faults.append(sentence)
        sys.stdout.write(f"{sentence}\n")
        sys.stdout.flush()

    sys.stdout.write(f"seed {given.seed}\n")
    with tempfile.TemporaryDirectory(prefix="polyhop-fuzz-") as named:
        folder = Path(named)
        with servers(folder) as (url, lines):
            until = time.monotonic() + 60 * given.minutes
            listed = operations(url)
            while time.monotonic() < until:
                for operation in listed:
                    round_seed = chance.randrange(2**32)
                    sent["requests by the documents"] += fuzz_operation(operation, url, round_seed, until, fault)
                    for _ in range(EXAMPLES):
                        if time.monotonic() < until:
                            fuzz_bodies(url, chance, fault)
                            fuzz_lines(lines, chance, fault)
                            sent.update(["changed bodies", "lines of MCP"])
            if lines.process.poll() is not None:
                fault(f"MCP: the server ended with {lines.process.returncode}")
        for log in ("ui.log", "mcp.log"):
            text = (folder / log).read_text(errors="replace")
            if "Traceback" in text:
                fault(f"{log}: {text[:20_000]}")
    counts = ", ".join(f"{count:,} {what}" for what, count in sent.items())
    sys.stdout.write(f"{counts}; {len(faults)} faults\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
