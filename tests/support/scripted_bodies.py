"""Bodies of successful answers in OpenAI's form: chat completions with token counts, embeddings.

Token counts come from OpenAI's own tokenizer, whose tables litellm ships.
"""

import hashlib
import importlib.util
import json
import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripted_behaviour import Behaviour
from scripted_replies import derived_reply

if TYPE_CHECKING:
    from scripted_server import Recorded
    from tiktoken import Encoding

DIMENSION = 384


def chat_body(asked: "Recorded", chosen: Behaviour) -> dict[str, Any]:
    """A chat completion."""
    given = (asked.body.get("response_format") or {}).get("json_schema") or {}
    content = chosen.content
    if content is None:
        content = derived_reply(
            prompt_text(asked.body["messages"][:1]), str(given.get("name", "")), given.get("schema")
        )
    message, finish = _message(content, chosen)
    said = message["content"] or message["refusal"] or ""
    prompt_tokens = token_count(asked.prompt) + 4 * len(asked.body["messages"]) + 3
    completion_tokens = token_count(said)
    usage: Mapping[str, Any] = chosen.usage or {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    return {
        "id": f"chatcmpl-{asked.number}",
        "object": "chat.completion",
        "created": int(asked.time),
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
    } | ({"usage": usage} if chosen.has_usage else {})


def prompt_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Text of messages, whose content is a string or parts."""
    parts = []
    for message in messages:
        content = message.get("content") or ""
        parts.append(content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content))
    return "\n".join(parts)


Encode = Callable[[list[str]], list[list[float]]]


def embeddings_body(body: Mapping[str, Any], kind: str = "reply", encode: Encode | None = None) -> dict[str, Any]:
    """Vectors by an encoder; without one, unit vectors that depend on nothing but their text."""
    if kind == "no_embeddings":
        return {"object": "error", "detail": "no such thing"}
    inputs = [str(text) for text in (body["input"] if isinstance(body["input"], list) else [body["input"]])]
    dimension = int(body.get("dimensions") or DIMENSION)
    made = encode(inputs) if encode else [_vector(text, dimension) for text in inputs]
    vectors = _nonsense(kind, made)
    tokens = sum(token_count(text) for text in inputs)
    return {
        "object": "list",
        "model": body.get("model"),
        "data": [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _nonsense(kind: str, vectors: list[list[float]]) -> list[list[float]]:
    match kind:
        case "too_few":
            return vectors[:-1]
        case "not_finite":
            return [*vectors[:-1], [math.nan] * len(vectors[-1])]
        case "zero":
            return [*vectors[:-1], [0.0] * len(vectors[-1])]
        case "longer":
            return [[*vector, 0.5] for vector in vectors]
    return vectors


def token_count(text: str) -> int:
    """Tokens of o200k_base, as OpenAI's present models count them."""
    return len(_encoding().encode_ordinary(text))


@cache
def _encoding() -> "Encoding":
    spec = importlib.util.find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(spec.origin).parent / "litellm_core_utils" / "tokenizers")
    import tiktoken

    return tiktoken.get_encoding("o200k_base")


def _vector(text: str, dimension: int) -> list[float]:
    source = random.Random(hashlib.sha256(text.encode()).digest())
    values = [source.gauss(0, 1) for _ in range(dimension)]
    length = math.sqrt(sum(value * value for value in values))
    return [value / length for value in values]


def _message(content: str, chosen: Behaviour) -> tuple[dict[str, Any], str]:
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    finish = "stop"
    cut = content[: max(1, int(len(content) * chosen.cut))]
    match chosen.kind:
        case "truncated":
            message["content"] = cut
        case "length":
            message["content"], finish = cut, "length"
        case "wrong_schema":
            message["content"] = json.dumps({"result": {"status": "ok"}})
        case "refusal":
            message["content"], message["refusal"] = None, "I'm sorry, but I can't help with that."
        case "content_filter":
            message["content"], finish = None, "content_filter"
        case "prose":
            message["content"] = f"Sure! Here is the JSON:\n\n```json\n{content}\n```\n\nLet me know if I can help."
        case "broken":
            message["content"] = content[:1] + " // as asked\n" + content[1:-1].rstrip() + ",\n" + content[-1:]
    return message, finish
