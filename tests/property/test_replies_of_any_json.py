"""Whatever JSON a provider sends ends as a value, or as an error of ours: numbers beyond 64 bits, NaN, wrong types."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from polyhop.schemas import errors
from polyhop.tasks.extraction.model import KgReply, PhrasesReply, PropositionsReply, TypesReply
from polyhop.tasks.hubs.stage import PathText
from polyhop.tasks.resolution.candidates import NameGroups
from polyhop.warehouse.models.chat import canonical_json
from polyhop.warehouse.models.endpoints import completion_of, parse_retry_after
from polyhop.warehouse.models.litellm_client import batch_reply
from polyhop.warehouse.models.onnx_session import unit_rows
from polyhop.warehouse.models.replies import read_reply
from polyhop.worker.questions.parts import ComponentsReply, EntitiesReply
from polyhop.worker.reading.hubs import FilterReply, FinalReply, PartialReply
from polyhop.worker.reading.models import AnsweredReply, ReadReply

FORMS: list[type[BaseModel]] = [
    *(KgReply, PhrasesReply, PropositionsReply, TypesReply, PathText, NameGroups, ComponentsReply, EntitiesReply),
    *(FilterReply, FinalReply, PartialReply, AnsweredReply, ReadReply),
]
MOST = 2**63 - 1  # of a column of SQLite or DuckDB
NAMES = (
    *("custom_id", "response", "status_code", "body", "choices", "message", "content", "refusal", "finish_reason"),
    *("usage", "prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens", "error", "code"),
)
HUGE = st.sampled_from([10**400, -(10**400), 2**63, -(2**63) - 1, 1e308, 1.5, float("nan"), float("inf")])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | HUGE


def values(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Any JSON, mostly with fields of these names."""
    deeper = lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5)  # noqa: E731
    return st.recursive(LEAVES, deeper, max_leaves=12)


ANY = values(st.sampled_from(NAMES) | st.text(max_size=3))


def line(usage: Any, message: Any = None, **fields: Any) -> bytes:
    """A line of a provider's output file."""
    choice = {"finish_reason": "stop", "message": message or {"content": "{}"}}
    body = {"choices": [choice], "usage": usage}
    return json.dumps({"custom_id": "k", "response": {"status_code": 200, "body": body}, **fields}).encode()


@given(ANY)
def test_a_batch_line_of_any_json_is_read_or_left_out(document: Any) -> None:
    key, answer, error = batch_reply(json.dumps(document).encode())
    assert (type(key), type(error), answer is None or type(answer.text)) in {(str, str, True), (str, str, str)}


@given(ANY, ANY, ANY, ANY)
def test_a_batch_line_with_odd_fields_keeps_its_key(content: Any, refusal: Any, error: Any, usage: Any) -> None:
    key, answer, _ = batch_reply(line(usage, {"content": content, "refusal": refusal}, error=error))
    assert (key, type(answer and answer.text), type(answer and answer.value.refusal)) == ("k", str, str)


@given(ANY, ANY)
def test_a_token_count_beyond_64_bits_counts_as_absent(prompt: Any, completion: Any) -> None:
    _, answer, _ = batch_reply(line({"prompt_tokens": prompt, "completion_tokens": completion}))
    assert answer
    assert {type(answer.prompt_tokens), type(answer.completion_tokens)} == {int}
    assert min(answer.prompt_tokens, answer.completion_tokens) >= 0
    assert max(answer.prompt_tokens, answer.completion_tokens) <= MOST


@pytest.mark.parametrize(
    ("reported", "counted"),
    [(7, 7), (7.0, 7), (MOST, MOST), (MOST + 1, 0), (10**400, 0), (-1, 0), (1.5, 0), (True, 0), ("7", 0), (None, 0)],
    ids=lambda value: str(value)[:20],
)
def test_a_token_count_of_a_batch_line_is_a_whole_number_or_absent(reported: Any, counted: int) -> None:
    _, answer, _ = batch_reply(line({"prompt_tokens": reported}))
    assert answer
    assert answer.prompt_tokens == counted


@given(ANY)
def test_a_single_reply_of_any_json_is_a_completion_or_malformed(document: Any) -> None:
    for reply in (document, {"choices": document}, {"choices": [document], "usage": document}):
        with suppress(errors.MalformedReplyError):
            answer = completion_of(json.loads(json.dumps(reply)))
            assert (type(answer.text), type(answer.value.refusal), type(answer.value.is_cut)) == (str, str, bool)
            assert 0 <= answer.prompt_tokens <= MOST


def test_a_batch_line_nested_too_deeply_is_left_out() -> None:
    assert batch_reply(b"[" * 100_000) == ("", None, "")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@given(st.data())
def test_a_reply_of_any_json_is_valid_or_malformed(form: type[BaseModel], data: st.DataObject) -> None:
    schema = form.model_json_schema()
    parts = [schema, *schema.get("$defs", {}).values()]
    names = sorted({name for part in parts for name in part.get("properties", {})})
    text = json.dumps(data.draw(values(st.sampled_from(names))), ensure_ascii=data.draw(st.booleans()))
    with suppress(errors.MalformedReplyError, errors.ReplyRefusedError):
        reply, _ = read_reply(text, form)
        assert form.model_validate_json(canonical_json(reply)) == reply


@given(st.lists(ANY | st.lists(LEAVES, max_size=3), max_size=3))
@example([[10**400]])
def test_vectors_of_any_json_are_of_length_one_or_refused(vectors: list[Any]) -> None:
    with suppress(errors.InvalidVectorError):
        rows = unit_rows(vectors, len(vectors), 0, "m")
        assert [round(float(row @ row), 3) for row in rows] == [1.0] * len(vectors)


@pytest.mark.parametrize("value", ["0 JAN 0 3000000000:0", "1 Jan 99999999999 00:00:00", "9" * 400, "nan"])
def test_a_retry_after_beyond_any_date_is_left_out(value: str) -> None:
    assert parse_retry_after(value, datetime.now(UTC)) is None


def test_a_usage_of_more_digits_than_python_converts_counts_as_absent() -> None:
    long = line({"prompt_tokens": 7}).replace(b"7", b"9" * 5_000)
    key, answer, _ = batch_reply(long)
    assert answer
    assert (key, answer.prompt_tokens) == ("k", 0)
