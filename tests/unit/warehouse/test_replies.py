"""Broken replies are repaired or refused as listed, in linear time; nonsense in `usage` is left out."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from polyhop.schemas import errors
from polyhop.warehouse.models.litellm_client import drop_odd_usage
from polyhop.warehouse.models.replies import read_reply

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "broken_replies.jsonl"

CASES = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


class Entity(BaseModel):
    name: str
    type: str


class Relation(BaseModel):
    source_name: str
    relation: str
    target_name: str


class Graph(BaseModel):
    entities: list[Entity]
    relations: list[Relation]


class Names(BaseModel):
    entities: list[str]


class Proposition(BaseModel):
    text: str
    entities: list[str] = []


class Propositions(BaseModel):
    propositions: list[Proposition]


class Answer(BaseModel):
    answer: str
    score: float | None
    is_sure: bool | None = None


class Weight(BaseModel):
    weight: float


FORMS: dict[str, type[BaseModel]] = {
    "graph": Graph,
    "names": Names,
    "propositions": Propositions,
    "answer": Answer,
    "weight": Weight,
}


def _text(case: dict[str, Any]) -> str:
    given: str = case["text"] + case.get("repeat", "") * case.get("times", 0)
    return given


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case["kind"] for case in CASES])
def test_a_broken_reply_is_repaired_or_refused_as_listed(case: dict[str, Any]) -> None:
    form = FORMS[case["form"]]
    if "error" in case:
        with pytest.raises(getattr(errors, case["error"])) as caught:
            read_reply(_text(case), form)
        assert type(caught.value).__name__ == case["error"]
        assert len(str(caught.value)) < 1000
        return
    reply, rung = read_reply(_text(case), form)
    expected = form.model_validate(case["reply"])
    assert (reply, rung.value) == (expected, case["rung"])


@pytest.mark.slow
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=6), st.data())
def test_a_reply_cut_anywhere_keeps_a_beginning_of_its_list_or_is_refused(
    names: list[str], data: st.DataObject
) -> None:
    text = json.dumps({"entities": names}, ensure_ascii=data.draw(st.booleans()))
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    try:
        reply, _ = read_reply(cut, Names)
    except errors.ModelError:
        return
    assert reply.entities == names[: len(reply.entities)]
    assert reply.entities or not names


@pytest.mark.slow
@given(st.text(st.sampled_from(list("{}[]\"':,\\ \nab1.#/*-“”…TN")), max_size=60))
def test_noise_is_refused_or_read_without_inventing(text: str) -> None:
    try:
        reply, _ = read_reply("{" + text, Names)
    except (errors.MalformedReplyError, errors.ReplyRefusedError):
        return
    assert all(sign in text for name in reply.entities for sign in name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ['"x "y", ', "{", '{"a": ', "[1, ", "/*", '"', "\\", "'", "```", " ", "#\n", '{"entities": ["a"]} ', "{a: "]
)
@pytest.mark.timeout(120)  # quadratic reading of 200 kB takes minutes
def test_no_pattern_makes_reading_endless(unit: str) -> None:
    text = '{"entities": [' + unit * (200_000 // len(unit))
    with pytest.raises(errors.MalformedReplyError):
        read_reply(text, Names)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_few_stray_quotes_in_a_long_reply_take_no_minutes() -> None:
    text = '{"entities": [' + ('"plain words", ' * 600 + '"Ada "the first" Lovelace", ') * 10 + '"end"]}'
    reply, rung = read_reply(text, Names)
    assert (reply.entities[600], rung.value) == ('Ada "the first" Lovelace', "repaired")


@pytest.mark.slow
def test_the_message_of_a_wrong_form_names_the_field_for_the_next_question() -> None:
    with pytest.raises(errors.MalformedReplyError, match=r"entities\.0\.type: Field required"):
        read_reply('{"entities": [{"name": "Ada"}], "relations": []}', Graph)


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
