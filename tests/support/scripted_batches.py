"""Files and batches of a scripted model server: what was uploaded, submitted and done."""

import hashlib
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scripted_server import Behaviour, Recorded

OF_LINES = ("expired", "absent", "garbled")
_FAILING = {"rate_limit": 429, "error": 500, "html": 502, "drop": 500, "drop_mid": 500}
_PAGE = 2
"""Batches per page of a listing, whatever a client asks for: few, so that every test pages."""

Sent = tuple[int, str]


class BatchDesk:
    """What the server knows of files and batches; safe for threads.

    `creating` is how the next creations of batches go: "error" (500, nothing is made), "made" (made, then 500),
    "failed" (made, and found wrong by the server's validation); others are as they should be.
    """

    def __init__(self, treat: Callable[[str, Mapping[str, Any]], "tuple[Recorded, Behaviour]"]) -> None:
        self._treat = treat
        self._lock = threading.RLock()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}  # as the interface shows them, in the order of creation
        self.done: Counter[str] = Counter()  # how often each custom id was worked on
        self.polls = 0  # how often a batch is looked at before it has ended
        self.is_held = False
        self.on_request: Callable[[], None] = lambda: None  # before each request is treated, and before it is answered
        self.creating: list[str] = []
        self.most_tokens = 10**9  # enqueued, of prompts; above them a batch fails
        self._looks: Counter[str] = Counter()

    def answer(self, path: str, body: bytes | None = None) -> Sent:
        """Status and text of the answer to a GET, or to a POST with a body."""
        self.on_request()
        answer = self._get(path) if body is None else self._post(path, body)
        self.on_request()
        return answer

    def _get(self, path: str) -> Sent:
        with self._lock:
            path, _, query = path.partition("?")
            if found := re.fullmatch(r"/v1/files/([^/]+)/content", path):
                return 200, self.files[found[1]].decode()
            if found := re.fullmatch(r"/v1/batches/([^/]+)", path):
                if found[1] not in self.batches:
                    return 404, json.dumps({"error": {"message": "No such batch", "type": "scripted"}})
                self._look(self.batches[found[1]])
                return 200, json.dumps(self.batches[found[1]])
            after = re.search(r"after=([^&]+)", query)
            ids = list(self.batches)[::-1]  # the latest come first, as OpenAI lists them
            start = ids.index(after[1]) + 1 if after else 0
            page = [self.batches[each] for each in ids[start : start + _PAGE]]
            more = {"has_more": start + _PAGE < len(ids), "first_id": None, "last_id": page[-1]["id"] if page else None}
            return 200, json.dumps({"object": "list", "data": page, **more})

    def _post(self, path: str, body: bytes) -> Sent:
        with self._lock:
            if path.endswith("/files"):
                return 200, json.dumps(self._uploaded(body))
            order = json.loads(body)
            kind = self.creating.pop(0) if self.creating else ""
            failure = json.dumps({"error": {"message": "scripted fault", "type": "scripted"}})
            if kind == "error":
                return 500, failure
            made = self._made(order, kind)
            return (500, failure) if kind == "made" else (200, json.dumps(made))

    def lines(self, batch: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The requests of a batch."""
        return [json.loads(line) for line in self.files[batch["input_file_id"]].decode().splitlines()]

    def finish(self) -> None:
        """Every batch has ended at the next look."""
        with self._lock:
            self.polls, self.is_held = 0, False

    def _tokens(self, batch: Mapping[str, Any]) -> int:
        from scripted_server import prompt_of, token_count

        return sum(token_count(prompt_of(line["body"])) + 7 for line in self.lines(batch))

    def _uploaded(self, body: bytes) -> dict[str, Any]:
        boundary = body.split(b"\r\n", 1)[0]
        parts = [part.partition(b"\r\n\r\n") for part in body.split(boundary)[1:-1]]
        (content,) = (content.removesuffix(b"\r\n") for header, _, content in parts if b'name="file"' in header)
        name = f"file-{len(self.files)}"
        self.files[name] = content
        about = {"object": "file", "filename": "requests.jsonl", "purpose": "batch", "status": "processed"}
        return {"id": name, "bytes": len(content), "created_at": 1, **about}

    def _made(self, order: Mapping[str, Any], kind: str) -> dict[str, Any]:
        number = f"batch-{len(self.batches)}"
        kept = {name: order.get(name) for name in ("endpoint", "input_file_id", "completion_window", "metadata")}
        later = dict.fromkeys(("output_file_id", "error_file_id", "errors"))
        batch = {"id": number, "object": "batch", "status": "in_progress", "created_at": 1, **kept, **later}
        enqueued = sum(self._tokens(each) for each in self.batches.values() if each["status"] == "in_progress")
        self.batches[number] = batch
        lines = self.lines(batch)
        is_too_much = enqueued + self._tokens(batch) > self.most_tokens
        if kind == "failed" or is_too_much or len({line["custom_id"] for line in lines}) != len(lines):
            code = "token_limit_exceeded" if is_too_much else "invalid_json_line"
            said = {"code": code, "message": f"scripted: {code}", "line": None, "param": None}
            batch |= {"status": "failed", "errors": {"object": "list", "data": [said]}}
        return batch

    def _look(self, batch: dict[str, Any]) -> None:
        self._looks[batch["id"]] += 1
        if batch["status"] == "in_progress" and not self.is_held and self._looks[batch["id"]] > self.polls:
            self._work(batch)

    def _work(self, batch: dict[str, Any]) -> None:
        """Does all lines, in an order of its own."""
        from scripted_server import chat_body

        lines = self.lines(batch)
        random.Random(batch["id"]).shuffle(lines)
        output: list[str] = []
        failed: list[str] = []
        for line in lines:
            asked, chosen = self._treat(line["url"], line["body"])
            key = {"id": f"line-{asked.number}", "custom_id": line["custom_id"]}
            if chosen.kind == "expired":
                batch["status"] = "expired"
                failed.append(json.dumps({**key, "response": None, "error": {"code": "batch_expired", "message": "-"}}))
                continue
            self.done[line["custom_id"]] += chosen.kind not in _FAILING
            status = _FAILING.get(chosen.kind, 200)
            body = chat_body(asked, chosen) if status == 200 else {"error": {"message": "scripted fault"}}
            made = json.dumps({**key, "response": {"status_code": status, "body": body}, "error": None})
            if chosen.kind == "garbled":
                output.append(made[: len(made) // 2])
            elif chosen.kind != "absent":
                (output if status == 200 else failed).append(made)
        batch["status"] = batch["status"].replace("in_progress", "completed")
        for name, texts in (("output_file_id", output), ("error_file_id", failed)):
            if texts:
                text = "\n".join(texts)
                batch[name] = f"file-{name}-{batch['id']}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
                self.files[batch[name]] = text.encode()
