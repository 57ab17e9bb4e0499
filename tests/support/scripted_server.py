"""A scripted model server: what it does with each request, and what it has seen.

Sends nothing itself (scripted_http.py does). In tests, through the fixture `model_server`.
"""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripted_behaviour import Behaviour, Spec, behaviour, drawn
from scripted_bodies import Encode, prompt_text
from scripted_http import Handler, Http
from scripted_replies import task_name


@dataclass(frozen=True)
class Recorded:
    """One request as it arrived.

    Attributes:
        number: Counts all requests from 0.
        path: "/v1/chat/completions" or "/v1/embeddings".
        model: As the body names it.
        task: "kg.extract"…, "" if unknown.
        prompt: Text of all messages, or of the inputs.
        time: Seconds since the epoch.
        attempt: How often this prompt had come before, from 0.
        kind: How it was treated.
        body: The whole request.
    """

    number: int
    path: str
    model: str
    task: str
    prompt: str
    time: float
    attempt: int
    kind: str
    body: Mapping[str, Any]


Responder = Callable[[Recorded], Spec]


class ModelServer:
    """A scripted model server on a free port of this machine; safe for threads.

    Attributes:
        encode: Makes the vectors of `/embeddings`; None: they depend on nothing but their text.

    What a request gets: what `respond` says; else the next of `play`; else what falls to it by `shares`; else a reply.
    """

    def __init__(self, port: int = 0, log: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._log = log
        self.in_flight = 0
        self.most_in_flight = 0
        self.reset()
        self._http = Http(("127.0.0.1", port), Handler)
        self._http.model_server = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def reset(self) -> None:
        """Forgets requests and script."""
        with self._lock:
            self.requests: list[Recorded] = []
            self._seen: Counter[str] = Counter()
            self._queue: list[Behaviour] = []
            self._shares: dict[str, float] = {}
            self._fault_specs: dict[str, Spec] = {}
            self._seed, self._is_sticky = 0, False
            self._respond: Responder | None = None
            self._delay_seconds = 0.0
            self._slot: threading.Semaphore | None = None
            self.encode: Encode | None = None

    def play(self, *specs: Spec) -> None:
        """The next requests get these, one each, in order; later ones are replied to as before."""
        with self._lock:
            self._queue.extend(behaviour(spec) for spec in specs)

    def shares(
        self,
        shares: Mapping[str, float],
        seed: int = 0,
        *,
        is_sticky: bool = False,
        specs: Mapping[str, Spec] | None = None,
    ) -> None:
        """Faults by share of the requests, drawn from seed, prompt and attempt, whatever the order of arrival.

        Args:
            shares: {kind: share}; what remains of 1 is replied to.
            seed: Another seed hits other requests.
            is_sticky: The same prompt gets the same fault each time.
            specs: {kind: behaviour} where the kind alone is not enough.
        """
        with self._lock:
            self._shares, self._seed, self._is_sticky = dict(shares), seed, is_sticky
            self._fault_specs = dict(specs or {})

    def respond(self, responder: Responder | None) -> None:
        """Each request gets what this function returns for it; None: as if it had not been given."""
        self._respond = responder

    def delay(self, seconds: float) -> None:
        """Every request waits so long, besides what its behaviour says."""
        self._delay_seconds = seconds

    def slots(self, count: int, delay_seconds: float) -> None:
        """Works on so many requests at a time, each for so long; the others wait for their turn, as in llama.cpp."""
        self._slot = threading.Semaphore(count)
        self._delay_seconds = delay_seconds

    def script(self, script: Mapping[str, Any]) -> None:
        """Takes over a script file: {"play": […], "shares": {…}, "seed": 0, "is_sticky": false, "delay_seconds": 0,
        "replies": {task or text in the prompt: content}}."""
        self.play(*script.get("play", ()))
        self.shares(script.get("shares", {}), script.get("seed", 0), is_sticky=script.get("is_sticky", False))
        self.delay(script.get("delay_seconds", 0.0))
        replies: dict[str, str] = script.get("replies", {})
        if replies:
            self._respond = lambda asked: self._scripted_reply(asked, replies)

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
        self._http.cut_connections()
        self._http.server_close()
        self._thread.join()

    def take(self, path: str, body: Mapping[str, Any]) -> tuple[Recorded, Behaviour]:
        """Records a request and says how to treat it."""
        schema_name, schema = asked_schema(body)
        prompt = prompt_of(body)
        with self._lock:
            attempt = self._seen[prompt]
            self._seen[prompt] += 1
            task = task_name(schema_name, schema, prompt) if path.endswith("/completions") else ""
            draft = Recorded(
                len(self.requests), path, str(body.get("model")), task, prompt, time.time(), attempt, "", body
            )
            chosen = self._chosen(draft)
            asked = Recorded(**{**draft.__dict__, "kind": chosen.kind})
            self.requests.append(asked)
            if self._log:
                with self._log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(asked)) + "\n")
        return asked, chosen

    def enter(self) -> None:
        """A request begins."""
        with self._lock:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A request's turn: at once, unless slots are limited."""
        with self._slot or nullcontext():
            yield

    def leave(self) -> None:
        """A request has ended."""
        with self._lock:
            self.in_flight -= 1

    def wait_seconds(self, chosen: Behaviour) -> float:
        """How long a request is held."""
        return self._delay_seconds + chosen.delay_seconds

    def _chosen(self, asked: Recorded) -> Behaviour:
        if self._respond is not None:
            return behaviour(self._respond(asked))
        return self._by_script(asked)

    def _by_script(self, asked: Recorded) -> Behaviour:
        if self._queue:
            return self._queue.pop(0)
        keys: Sequence[object] = (asked.prompt,) if self._is_sticky else (asked.prompt, asked.attempt)
        kind = drawn(self._shares, self._seed, *keys)
        return behaviour(self._fault_specs.get(kind, kind))

    def _scripted_reply(self, asked: Recorded, replies: Mapping[str, str]) -> Spec:
        chosen = self._by_script(asked)
        content = next((text for word, text in replies.items() if word == asked.task or word in asked.prompt), None)
        return chosen if content is None else Behaviour(**{**chosen.__dict__, "content": content})


def prompt_of(body: Mapping[str, Any]) -> str:
    """Text of all messages, or of all inputs to embed."""
    if "messages" not in body:
        given = body.get("input", "")
        return given if isinstance(given, str) else "\n".join(map(str, given))
    return prompt_text(body["messages"])


def asked_schema(body: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Name and JSON schema that a request asks for, ("", None) without one."""
    given = (body.get("response_format") or {}).get("json_schema") or {}
    return str(given.get("name", "")), given.get("schema")
