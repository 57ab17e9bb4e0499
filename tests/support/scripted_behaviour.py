"""How the scripted server treats a request: a reply, or a fault of every kind that servers are known for.

Sends nothing itself (server.py does).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

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
    "too_few",  # 200, embeddings of all texts but the last
    "not_finite",  # 200, embeddings, the last of which has no finite numbers
    "zero",  # 200, embeddings, the last of which is zero
    "longer",  # 200, embeddings of one dimension more
    "no_embeddings",  # 200, a JSON object of another form
    "broken",  # 200, trailing commas, comments and single quotes: needs the third rung
)


@dataclass(frozen=True)
class Behaviour:
    """One way to treat a request.

    Attributes:
        kind: One of KINDS.
        content: Text of the reply instead of the derived one; None derives it from the prompt.
        delay_seconds: Waits before it does anything.
        status: HTTP status of kind "error" and "html".
        retry_after: Value of the Retry-After header (seconds or an HTTP date), None without one.
        message: Message of the error object.
        code: Code of the error object.
        cut: Share of the content that is kept by "truncated" and "length".
        has_usage: Whether token counts are reported.
        usage: Reported instead of the true counts: a server that lies.
    """

    kind: str = "reply"
    content: str | None = None
    delay_seconds: float = 0.0
    status: int | None = None
    retry_after: str | None = None
    message: str = "scripted fault"
    code: str | None = None
    cut: float = 0.6
    has_usage: bool = True
    usage: Mapping[str, Any] | None = None

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
    if isinstance(spec, str):
        return Behaviour(spec)
    made = Behaviour(**spec)
    return made if made.retry_after is None else replace(made, retry_after=str(made.retry_after))


def drawn(shares: Mapping[str, float], seed: int, *keys: object) -> str:
    """The kind that falls to `keys`, each with its share of all keys, "reply" for the rest; the same everywhere."""
    digest = hashlib.sha256(repr((seed, *keys)).encode()).digest()
    point = int.from_bytes(digest[:8], "big") / 2**64
    for kind, share in shares.items():
        if point < share:
            return kind
        point -= share
    return "reply"
