"""A scripted model server: what it does with each request, and what it has seen."""

import contextlib
import hashlib
import importlib.util
import itertools
import json
import math
import os
import random
import re
import select
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from scripted_batches import OF_LINES, BatchDesk

_DATA = re.compile(r"<data\b[^>]*>(.*?)</data>", re.DOTALL | re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_CAPITALISED = r"[A-Z][\w'’&-]*"
_NAME = re.compile(rf"{_CAPITALISED}(?:\s+(?:(?:of|the|de|von|van)\s+)*{_CAPITALISED})*")
_ARTICLES = {"The", "A", "An", "This", "That", "Its"}
_STOP = {"In", "On", "At", "It", "He", "She", "They", "His", "Her", "As", "But"} | _ARTICLES
_TYPES = ("PERSON", "ORGANIZATION", "LOCATION", "EVENT", "CONCEPT")


def task_name(schema_name: str) -> str:
    """The task of algorithms.md 0.7 that a request is about, "" if it is another one."""
    return next((name for name in _MAKERS if re.sub(r"\W", "_", name) == schema_name), "")


def names_in(text: str) -> list[str]:
    """Capitalised runs, each once, in order, without the articles that begin sentences."""
    found: dict[str, None] = {}
    for match in _NAME.findall(text):
        words = match.split()
        while words and words[0] in _STOP:
            words = words[1:]
        if words:
            found[" ".join(words)] = None
    return list(found)


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE.split(text) if sentence.strip()]


def _graph(blocks: list[str]) -> dict[str, Any]:
    text = "\n".join(blocks)
    entities: dict[str, dict[str, str]] = {}
    relations = []
    for sentence in _sentences(text):
        names = names_in(sentence)
        for name in names:
            kind = _TYPES[hashlib.sha256(name.encode()).digest()[0] % len(_TYPES)]
            entities.setdefault(name, {"name": name, "type": kind, "description": sentence})
        for source, target in itertools.pairwise(names):
            between = re.findall(r"[a-z]+", sentence.partition(source)[2].partition(target)[0])
            label = " ".join(between[:4]) or "related to"
            relations.append({"source_name": source, "relation": label, "target_name": target})
    return {"entities": list(entities.values()), "relations": relations}


def _propositions(blocks: list[str]) -> dict[str, Any]:
    """One proposition per sentence of the longest block, with the names in it."""
    made = [{"text": sentence, "entities": names_in(sentence)} for sentence in _sentences(max(blocks, key=len))]
    return {"propositions": [proposition for proposition in made if proposition["entities"]]}


def _groups(blocks: list[str]) -> dict[str, Any]:
    """Names whose words are all in a longer name belong to it."""
    groups: dict[str, list[str]] = {}
    # one a line, as tasks/resolution/prompts has them
    listed = {json.loads(line)["name"] for block in blocks for line in block.splitlines()}
    for name in sorted(listed, key=lambda name: (-len(name.split()), name)):
        words = set(name.lower().split())
        home = next((long for long in groups if words <= set(long.lower().split())), None)
        groups.setdefault(home or name, []).append(name)
    return {
        "groups": [
            {"canonical_name": canonical, "members": members, "description": f"{canonical}, by {len(members)} names"}
            for canonical, members in groups.items()
        ]
    }


def _answer(blocks: list[str]) -> dict[str, Any]:
    """The first name of the context that the question does not have; the shortest block is the question."""
    question = min(blocks, key=len)
    context = "\n".join(block for block in blocks if block is not question) or question
    name = next((name for name in names_in(context) if name not in question), "")
    sentence = next((sentence for sentence in _sentences(context) if name and name in sentence), "")
    markers = re.findall(r"\[(\d+)\]", context)
    return {"answer": name, "reasoning": sentence, "citations": [int(marker) for marker in markers[:1]]}


def _numbered(blocks: list[str]) -> dict[int, str]:
    """Lines like `[2] …` of the first block that has any, by number."""
    found = ({int(n): text for n, text in re.findall(r"^\[(\d+)\] (.*)$", block, re.MULTILINE)} for block in blocks)
    return next(filter(None, found), {})


def _first_statement(blocks: list[str], cited: str) -> dict[str, Any]:
    """The first numbered statement or partial answer, word for word, and its number as `cited`."""
    statements = _numbered(blocks)
    return {"sufficient": bool(statements), "answer": next(iter(statements.values()), ""), cited: [*statements][:1]}


_MAKERS: dict[str, Callable[[list[str]], dict[str, Any]]] = {
    "kg.extract": _graph,
    "kg.resolve": _groups,
    "hub.components": lambda blocks: {"components": names_in("\n".join(blocks))},
    "hub.filter": lambda blocks: {"ids": [*_numbered(blocks[::-1])]},
    "hub.final": lambda blocks: _first_statement(blocks, "citations"),
    "hub.partial": lambda blocks: _first_statement(blocks, "used"),
    "hub.path_text": lambda blocks: {  # statements, one JSON list a line, as sentences
        "text": " ".join(f"{' '.join(json.loads(line))}." for line in "\n".join(blocks).splitlines())
    },
    "prop.entities": lambda blocks: {"entities": names_in("\n".join(blocks))},
    "prop.filter": lambda blocks: {"ids": [*_numbered(blocks)]},
    "prop.propositions": _propositions,
    "qa.answer": _answer,
    "qa.chains": _answer,
    "qa.closed_book": _answer,
    "query.entities": lambda blocks: {
        "entities": [{"name": name, "search_hint": name.lower()} for name in names_in("\n".join(blocks))]
    },
}


KINDS = (
    "reply",  # the scripted or derived reply
    "rate_limit",  # 429, with Retry-After if retry_after is given
    "error",  # status (default 500) with OpenAI's error object
    "html",  # status (default 502) with a proxy's HTML page
    "drop",  # connection closed before any answer
    "drop_mid",  # connection closed in the middle of the answer
    "trickle",  # 200, a byte every 50 ms and never the last
    "trickle_header",  # the same in the header
    "truncated",  # 200, content cut in the middle, finish_reason "stop"
    "length",  # 200, content cut in the middle, finish_reason "length"
    "wrong_schema",  # 200, valid JSON of another form
    "refusal",  # 200, message.refusal instead of content
    "content_filter",  # 200, no content, finish_reason "content_filter"
    "prose",  # 200, the reply between sentences and fences: needs the second rung
    "zero",  # 200, embeddings, the last of which is zero
    "no_embeddings",  # 200, a JSON object of another form
    "broken",  # 200, trailing commas, comments and single quotes: needs the third rung
    "cut_stream",  # 200, a stream without its last parts
    *OF_LINES,  # of batches only
)


@dataclass(frozen=True)
class Behaviour:
    """One way to treat a request."""

    kind: str = "reply"
    content: str | None = None  # of the reply instead of the derived one
    delay_seconds: float = 0.0  # before it does anything
    piece_seconds: float = 0.0  # after each part of a stream
    status: int | None = None  # of "error" and "html"
    retry_after: object = None  # header: seconds or an HTTP date
    message: str = "scripted fault"
    code: str | None = None
    parameter: str | None = None  # that an "error" is about
    cut: float = 0.6  # share of the content that "truncated" and "length" keep
    has_usage: bool = True
    usage: Mapping[str, Any] | None = None  # reported instead of the true counts: a server that lies

    def echoing(self, authorization: str) -> "Behaviour":
        """The same with {authorization} in its texts replaced by what the client sent, as careless servers do."""
        content = None if self.content is None else self.content.replace("{authorization}", authorization)
        return replace(self, message=self.message.replace("{authorization}", authorization), content=content)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"Unknown kind '{self.kind}'; known: {', '.join(KINDS)}.")


Spec = Behaviour | str | Mapping[str, Any]


def behaviour(spec: Spec) -> Behaviour:
    """A behaviour from "drop", {"kind": "rate_limit", "retry_after": 1} or a behaviour."""
    if isinstance(spec, Behaviour):
        return spec
    return Behaviour(spec) if isinstance(spec, str) else Behaviour(**spec)


def drawn(shares: Mapping[str, float], seed: int, *keys: object) -> str:
    """The kind that falls to `keys`, each with its share of all keys, "reply" for the rest; the same everywhere."""
    digest = hashlib.sha256(repr((seed, *keys)).encode()).digest()
    point = int.from_bytes(digest[:8], "big") / 2**64
    for kind, share in shares.items():
        if point < share:
            return kind
        point -= share
    return "reply"


DIMENSION = 384
_EMPTY: dict[str, object] = {"string": "", "integer": 0, "number": 0.0, "boolean": False, "array": []}


def chat_body(asked: "Recorded", chosen: Behaviour) -> dict[str, Any]:
    """A chat completion: what was chosen, or derived from the prompt, or empty values of the schema's properties."""
    content = chosen.content
    if content is None:
        first = asked.body["messages"][0]["content"]
        blocks = [block.strip() for block in _DATA.findall(first)] or [first]
        fields = asked_schema(asked.body).get("schema", {}).get("properties", {})
        empty = {name: _EMPTY[field["type"]] for name, field in fields.items()}
        content = json.dumps(_MAKERS[asked.task](blocks) if asked.task else empty, ensure_ascii=False)
    message, finish = _message(content, chosen)
    prompt = token_count(asked.prompt) + 4 * len(asked.body["messages"]) + 3
    reply = token_count(message["content"] or message["refusal"] or "")
    counts = {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}
    return {
        "id": f"chatcmpl-{asked.number}",
        "object": "chat.completion",
        "created": 1,
        "model": asked.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
    } | ({"usage": chosen.usage or counts} if chosen.has_usage else {})


Encode = Callable[[list[str]], list[list[float]]]


def embeddings_body(body: Mapping[str, Any], kind: str = "reply", encode: Encode | None = None) -> dict[str, Any]:
    """Vectors by an encoder; without one, unit vectors that depend on nothing but their text."""
    if kind == "no_embeddings":
        return {"object": "error", "detail": "no such thing"}
    inputs = body["input"]
    made = encode(inputs) if encode else [_vector(text, body.get("dimensions") or DIMENSION) for text in inputs]
    vectors = [*made[:-1], [0.0] * len(made[-1])] if kind == "zero" else made
    tokens = sum(token_count(text) for text in inputs)
    return {
        "object": "list",
        "model": body.get("model"),
        "data": [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def token_count(text: str) -> int:
    """Tokens of o200k_base, as OpenAI's present models count them."""
    return len(_encoding().encode_ordinary(text))


@cache
def _encoding() -> Any:
    package = Path(importlib.util.find_spec("litellm").origin).parent  # type: ignore[union-attr, arg-type] # installed
    os.environ["TIKTOKEN_CACHE_DIR"] = str(package / "litellm_core_utils" / "tokenizers")
    import tiktoken

    return tiktoken.get_encoding("o200k_base")


def _vector(text: str, dimension: int) -> list[float]:
    source = random.Random(hashlib.sha256(text.encode()).digest())
    values = [source.gauss(0, 1) for _ in range(dimension)]
    length = math.sqrt(sum(value * value for value in values))
    return [value / length for value in values]


def _message(content: str, chosen: Behaviour) -> tuple[dict[str, Any], str]:
    said: dict[str, str | None] = {
        "wrong_schema": json.dumps({"result": {"status": "ok"}}),
        "refusal": None,
        "content_filter": None,
        "prose": f"Sure! Here is the JSON:\n\n```json\n{content}\n```\n\nLet me know if I can help.",
        "broken": content[:1] + " // as asked\n" + content[1:-1].rstrip() + ",\n" + content[-1:],
    } | dict.fromkeys(("truncated", "length"), content[: max(1, int(len(content) * chosen.cut))])
    refusal = "I'm sorry, but I can't help with that." if chosen.kind == "refusal" else None
    finish = chosen.kind if chosen.kind in {"length", "content_filter"} else "stop"
    return {"role": "assistant", "content": said.get(chosen.kind, content), "refusal": refusal}, finish


class Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    model_server: "ModelServer"

    connections: set[socket.socket]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is not news; anything else is."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Http

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with contextlib.suppress(OSError, ValueError):
            super().finish()

    def log_message(self, *_args: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        is_of_desk = self.path.startswith(("/v1/files", "/v1/batches"))
        self._send(*(self.server.model_server.desk.answer(self.path) if is_of_desk else (200, "[]")))

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        owner = self.server.model_server
        if self.path.startswith(("/v1/files", "/v1/batches")):
            self._send(*owner.desk.answer(self.path, data))
            return
        body = json.loads(data)
        with owner.counted():
            asked, chosen = owner.take(self.path, body)
            chosen = chosen.echoing(self.headers.get("Authorization", ""))
            with owner.slot or nullcontext():
                if self._is_gone():
                    return
                time.sleep(owner.delay_seconds + chosen.delay_seconds)
            self._treat(asked, chosen)

    def _is_gone(self) -> bool:
        """Whether the client has hung up while it waited for its turn; no server works for nobody."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        is_gone = bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        self.close_connection = self.close_connection or is_gone
        return is_gone

    def _treat(self, asked: "Recorded", chosen: Behaviour) -> None:
        error = json.dumps(
            {"error": {"message": chosen.message, "type": "scripted", "code": chosen.code, "param": chosen.parameter}}
        )
        match chosen.kind:
            case "rate_limit" | "error":
                headers = {} if chosen.retry_after is None else {"Retry-After": str(chosen.retry_after)}
                self._send(429 if chosen.kind == "rate_limit" else chosen.status or 500, error, headers)
            case "html":
                page = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
                self._send(chosen.status or 502, page, {"Content-Type": "text/html"})
            case "drop":
                self._reset()
            case _:
                self._reply(asked, chosen)

    def _reply(self, asked: "Recorded", chosen: Behaviour) -> None:
        if asked.path.endswith("/embeddings"):
            made = embeddings_body(asked.body, chosen.kind, self.server.model_server.encode)
        else:
            made = chat_body(asked, chosen)
        text = json.dumps(made)
        match chosen.kind:
            case "trickle":
                self._trickle("Content-Length: 1000000\r\n\r\n")
            case "trickle_header":
                self._trickle("X-Slow: ")
            case "drop_mid":
                self._send(200, text[: len(text) // 2], {"Content-Length": str(len(text.encode()))})
                self.wfile.flush()
                self._reset()
            case _ if asked.body.get("stream"):
                self._stream(made, chosen)
            case _:
                self._send(200, text)

    def _stream(self, made: dict[str, Any], chosen: Behaviour) -> None:
        """The reply as server-sent events of a few characters each, with the usage in the last one."""
        self.close_connection = True
        choice, usage = made["choices"][0], made.pop("usage", None)
        content = choice["message"]["content"] or ""
        deltas = [{"content": content[n : n + 8]} for n in range(0, len(content), 8)]
        deltas += [{"refusal": choice["message"]["refusal"]}]
        parts = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        parts[-1]["choices"][0]["finish_reason"] = choice["finish_reason"]
        parts += [{"choices": [], "usage": usage}] if usage else []
        parts = parts[:2] if chosen.kind == "cut_stream" else parts
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for part in parts:
            self.wfile.write(f"data: {json.dumps({**made, **part})}\n\n".encode())
            self.wfile.flush()
            time.sleep(chosen.piece_seconds)
        self.wfile.write(b"data: [DONE]\n\n")

    def _trickle(self, begun: str) -> None:
        """A byte now and then, until the client hangs up."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.sendall(f"HTTP/1.1 200 OK\r\n{begun}".encode())
            for _ in range(400):
                self.connection.sendall(b" ")
                time.sleep(0.05)

    def _reset(self) -> None:
        """Closes the connection with a reset, as a crashed server does."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _send(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        data = text.encode()
        self.send_response(status)
        usual = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        for name, value in (usual | dict(headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@dataclass(frozen=True)
class Recorded:
    """One request as it arrived."""

    number: int  # of all requests, from 0
    path: str
    task: str  # "kg.extract"…, "" if unknown
    prompt: str  # text of all messages, or of the inputs
    attempt: int  # how often this prompt had come before, from 0
    kind: str  # how it was treated
    body: Mapping[str, Any]


class ModelServer:
    """A scripted model server on a free port of this machine; safe for threads.

    What a request gets: what `respond` says; else the next of `play`; else what falls to it by `shares`; else a reply.
    """

    def __init__(self, port: int = 0) -> None:
        self._lock = threading.Lock()
        self._in_flight = 0
        self.most_in_flight = 0
        self.reset()
        self._http = Http(("127.0.0.1", port), Handler)
        self._http.model_server, self._http.connections = self, set()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def reset(self) -> None:
        """Forgets requests and script."""
        with self._lock:
            self.requests: list[Recorded] = []
            self._seen: Counter[str] = Counter()
            self._queue: list[Behaviour] = []
            self._shares: dict[str, float] = {}
            self._seed, self._is_sticky = 0, False
            self._respond: Callable[[Recorded], Spec] | None = None
            self.delay_seconds = 0.0  # that each request waits, besides what its behaviour says
            self.slot: threading.Semaphore | None = None
            self.encode: Encode | None = None  # makes the vectors of `/embeddings` in place of those by the text alone
            self.desk = BatchDesk(self.take)

    def play(self, *specs: Spec) -> None:
        """The next requests get these, one each, in order; later ones are replied to as before."""
        with self._lock:
            self._queue.extend(behaviour(spec) for spec in specs)

    def shares(self, shares: Mapping[str, float], seed: int = 0, *, is_sticky: bool = False) -> None:
        """Faults by {kind: share} of the requests, drawn from seed, prompt and attempt, whatever the order of arrival.

        `is_sticky`: the same prompt gets the same fault each time.
        """
        with self._lock:
            self._shares, self._seed, self._is_sticky = dict(shares), seed, is_sticky

    def respond(self, responder: Callable[[Recorded], Spec] | None) -> None:
        """Each request gets what this function returns for it; None: as if it had not been given."""
        self._respond = responder

    def delay(self, seconds: float) -> None:
        """Every request waits so long, besides what its behaviour says."""
        self.delay_seconds = seconds

    def slots(self, count: int, delay_seconds: float) -> None:
        """Works on so many requests at a time, each for so long; the others wait for their turn, as in llama.cpp."""
        self.slot, self.delay_seconds = threading.Semaphore(count), delay_seconds

    @staticmethod
    def dead_url() -> str:
        """An address of this machine at which nothing listens."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return f"http://127.0.0.1:{free.getsockname()[1]}/v1"

    def count(self, task: str | None = None, kind: str | None = None) -> int:
        """Number of requests that arrived, of one task or one kind of treatment if given."""
        with self._lock:
            return sum(task in {None, asked.task} and kind in {None, asked.kind} for asked in self.requests)

    def prompts(self) -> list[str]:
        """The prompts in order of arrival."""
        with self._lock:
            return [asked.prompt for asked in self.requests]

    def start(self) -> "ModelServer":
        """Serves in a thread."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ends at once; clients in the middle of a request lose their connection."""
        self._http.shutdown()
        for kept_alive in list(self._http.connections):
            with contextlib.suppress(OSError):
                kept_alive.shutdown(socket.SHUT_RDWR)
        self._http.server_close()
        self._thread.join()

    def take(self, path: str, body: Mapping[str, Any]) -> tuple[Recorded, Behaviour]:
        """Records a request and says how to treat it."""
        name = asked_schema(body).get("name", "")
        prompt = prompt_of(body)
        with self._lock:
            attempt = self._seen[prompt]
            self._seen[prompt] += 1
            draft = Recorded(len(self.requests), path, task_name(name), prompt, attempt, "", body)
            if self._respond is not None:
                chosen = behaviour(self._respond(draft))
            elif self._queue:
                chosen = self._queue.pop(0)
            else:
                keys = (prompt,) if self._is_sticky else (prompt, attempt)
                chosen = behaviour(drawn(self._shares, self._seed, *keys))
            asked = replace(draft, kind=chosen.kind)
            self.requests.append(asked)
        return asked, chosen

    @contextmanager
    def counted(self) -> Iterator[None]:
        """While a request is in flight."""
        with self._lock:
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1


def prompt_of(body: Mapping[str, Any]) -> str:
    """Text of all messages, or of all inputs to embed."""
    texts = [message["content"] for message in body["messages"]] if "messages" in body else body["input"]
    return "\n".join(texts)


def asked_schema(body: Mapping[str, Any]) -> dict[str, Any]:
    """Name and JSON schema that a request asks for."""
    return (body.get("response_format") or {}).get("json_schema") or {}
