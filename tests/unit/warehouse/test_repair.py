"""Every kind of broken reply seen in the wild is repaired or refused as listed, in linear time, without inventing."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from polyhop.schemas import errors
from polyhop.warehouse.models.replies import read_reply

pytestmark = pytest.mark.slow

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


def test_the_corpus_has_every_kind_once() -> None:
    kinds = [case["kind"] for case in CASES]
    assert len(kinds) == len(set(kinds))
    assert len(kinds) >= 60


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


@given(st.text(st.sampled_from(list("{}[]\"':,\\ \nab1.#/*-“”…TN")), max_size=60))
def test_noise_is_refused_or_read_without_inventing(text: str) -> None:
    try:
        reply, _ = read_reply("{" + text, Names)
    except (errors.MalformedReplyError, errors.ReplyRefusedError):
        return
    assert all(sign in text for name in reply.entities for sign in name)


@pytest.mark.parametrize(
    "unit", ['"x "y", ', "{", '{"a": ', "[1, ", "/*", '"', "\\", "'", "```", " ", "#\n", '{"entities": ["a"]} ', "{a: "]
)
@pytest.mark.timeout(120)  # quadratic reading of 200 kB takes minutes
def test_no_pattern_makes_reading_endless(unit: str) -> None:
    text = '{"entities": [' + unit * (200_000 // len(unit))
    with pytest.raises(errors.MalformedReplyError):
        read_reply(text, Names)


@pytest.mark.timeout(120)
def test_a_few_stray_quotes_in_a_long_reply_take_no_minutes() -> None:
    text = '{"entities": [' + ('"plain words", ' * 600 + '"Ada "the first" Lovelace", ') * 10 + '"end"]}'
    reply, rung = read_reply(text, Names)
    assert (reply.entities[600], rung.value) == ('Ada "the first" Lovelace', "repaired")


def test_the_message_of_a_wrong_form_names_the_field_for_the_next_question() -> None:
    with pytest.raises(errors.MalformedReplyError, match=r"entities\.0\.type: Field required"):
        read_reply('{"entities": [{"name": "Ada"}], "relations": []}', Graph)
