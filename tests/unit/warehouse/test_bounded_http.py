"""Replies over HTTP without nonsense in `usage`; the time limit is tested at a server (test_chat_gateway.py)."""

import json
from typing import Any

import httpx
import pytest

from polyhop.warehouse.models.litellm_client import drop_odd_usage


@pytest.mark.parametrize(
    ("usage", "is_kept"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, True),
        ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}}, True),
        ({"prompt_tokens": 10**30}, True),
        ({"prompt_tokens": float("nan")}, False),
        ({"prompt_tokens": 3, "total_tokens": float("inf")}, False),
        ({"prompt_tokens": "3"}, False),
        ([], False),
        ("many", False),
    ],
)
def test_token_counts_that_are_no_numbers_are_left_out(usage: Any, is_kept: bool) -> None:
    response = httpx.Response(200, content=json.dumps({"choices": [], "usage": usage}).encode())
    drop_odd_usage(response)
    assert response.json() == ({"choices": [], "usage": usage} if is_kept else {"choices": []})


@pytest.mark.parametrize("content", [b"", b'"usage"', b'[{"usage": 1}]', b'{"usage": ', b'{"text": "\\"usage\\""}'])
def test_a_reply_that_is_none_is_left_as_it_is(content: bytes) -> None:
    response = httpx.Response(200, content=content)
    drop_odd_usage(response)
    assert response.content == content
