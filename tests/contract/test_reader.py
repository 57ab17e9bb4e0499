"""The contract of every Reader: spans, sentences, models that mark or write, hubs and facets."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import loaded
from memory_index import PASSAGES, MemoryIndex

import polyhop.worker.reading.models
from polyhop.schemas.evidence import Evidence
from polyhop.schemas.ports import Reader
from polyhop.schemas.query import ContextPassage, Question, ReaderResult, ReadingItem, Retrieval, reading_row
from polyhop.warehouse.models.span_model import open_span_model
from polyhop.warehouse.statements import read_prompt
from polyhop.worker.reading.hubs import HubModel, HubReader, HubReadingRule
from polyhop.worker.reading.models import AnswerChecks, ChainReader, ClosedBookReader, ModelReader
from polyhop.worker.reading.reader import FacetReader, LocalReader

FOLDER = Path(polyhop.worker.reading.models.__file__).parent / "prompts"
INDEX = MemoryIndex(PASSAGES)
CHAINS = "Chains:\nMarie Curie --[born in]--> Warsaw"
KINDS = {"extracted", "computed", "generated", "none"}
ODD = ("Where was Marie Curie born?", "?!", "\ud800", "Who was born in </data> {{passages}}?", "who " * 400)


class Echo:
    """A chat model that replies with the question, in the form of the task, or fails with an error of that class."""

    model = "openai/scripted"

    def __init__(self, error_class: str = "") -> None:
        self._error_class = error_class

    def ask(self, requests: Sequence[Any]) -> list[Any]:
        reply = {"reasoning": "r", "citations": [1], "sufficient": True, "used": [1], "ids": [1]}
        said = [self._error_class or {**reply, "answer": f"<{dict(one.inputs)['question']}>"} for one in requests]
        made = loaded("support/one_reply.py").OneReply
        return [made(one).ask([request])[0] for one, request in zip(said, requests, strict=True)]


def prompt(name: str) -> Any:
    return read_prompt(FOLDER / f"{name}.md")


def hubs_by_rules() -> Reader:
    made = loaded("unit/worker/reading/test_hub_reader.py")
    return HubReader(made.INDEX, HubReadingRule(), None, LocalReader(made.INDEX))


def hubs_by_model(error_class: str = "") -> Reader:
    made = loaded("unit/worker/reading/test_hub_reader.py")
    tasks = prompt("hub.partial"), prompt("hub.final"), prompt("hub.filter")
    return HubReader(
        made.INDEX, HubReadingRule(filters=True), HubModel(Echo(error_class), tasks, 6), LocalReader(INDEX)
    )


def readers(error_class: str = "") -> dict[str, Any]:
    """Those that ask a chat model, by name."""
    return {
        "model": lambda: ModelReader(Echo(error_class), prompt("qa.answer"), LocalReader(INDEX), AnswerChecks(INDEX)),
        "chains": lambda: ChainReader(Echo(error_class), prompt("qa.chains"), LocalReader(INDEX), budget_tokens=2000),
        "closed book": lambda: ClosedBookReader(Echo(error_class), prompt("qa.closed_book")),
        "hubs by model": lambda: hubs_by_model(error_class),
    }


OPENED: dict[str, Any] = {
    "sentences": lambda: LocalReader(INDEX),
    "spans": lambda: LocalReader(INDEX, None, open_span_model()),
    "hubs by rules": hubs_by_rules,
    "facets": lambda: FacetReader("short", LocalReader(INDEX)),
    **readers(),
}


@pytest.fixture(scope="module", params=OPENED)
def reader(request: pytest.FixtureRequest) -> Any:
    return OPENED[request.param]()


def item(text: str, *numbers: int, evidence: Evidence | None = None) -> ReadingItem:
    context = [ContextPassage(*PASSAGES[n], rank, 1 / rank) for rank, n in enumerate(numbers, start=1)]
    question = Question(text, f"q {text}", INDEX.encode([text])[0])
    return ReadingItem(question, Retrieval((), evidence or Evidence()), context)


def items() -> list[ReadingItem]:
    made = loaded("unit/worker/reading/test_hub_reader.py")
    facets = {"short": made.ANSWER}
    hubs = made.item([made.P1], [made.P2, made.P3]).retrieval.evidence
    return [
        item("Where was Marie Curie born?", 5, 6, 7),
        item("Who designed the Analytical Engine?", 0, 1, evidence=Evidence(context=CHAINS)),
        item("Is London older than Paris?", 2, 8, 9),
        item("What is the bridge made of?", 11, evidence=Evidence(data=facets)),
        item("Who is the author of Tactics?", 12, evidence=hubs),
        item("zzz qqq", 11, 12),
        item("Where was Marie Curie born?", 5, 6, 7),
    ]


def test_only_readers_that_ask_a_chat_model_gain_from_many_questions() -> None:
    assert {name: OPENED[name]().batches for name in OPENED} == {name: name in readers() for name in OPENED}


def test_every_item_has_its_reading_whatever_stands_beside_it(reader: Any) -> None:
    together = reader.read(items())
    assert reader.read([]) == []
    assert [type(one) for one in together] == [ReaderResult] * len(items())
    assert [reader.read([one])[0] for one in items()] == together
    assert reader.read(items()[::-1]) == together[::-1]
    assert together[0] == together[-1]


@pytest.mark.parametrize("text", ODD, ids=["plain", "signs", "half", "template", "long"])
def test_odd_questions_are_read_with_passages_and_without(reader: Any, text: str) -> None:
    with_two, without = reader.read([item(text, 5, 6), item(text)])
    assert with_two.outage is None
    assert {with_two.kind, without.kind} <= KINDS


def test_a_reading_is_well_formed(reader: Any) -> None:
    for reading in reader.read(items()):
        assert reading.kind in KINDS
        assert (reading.kind == "none") <= (reading.answer == "")
        assert reading.answer == reading.answer.strip()
        assert 0 <= reading.confidence <= 1
        assert json.loads(json.dumps(reading_row(reading))) is not None


def test_sentences_are_where_they_are_said_to_be(reader: Any) -> None:
    texts = {passage_id: text for passage_id, _, text in (*PASSAGES, ("p0", "", "Tactics was written by Ann Roe."))}
    for reading in reader.read(items()):
        for one in (*reading.sentences, *(c.sentence for c in reading.citations if c.sentence)):
            assert texts[one.passage_id][one.start : one.end] == one.text != ""


@pytest.mark.parametrize("name", sorted(readers()))
def test_an_unavailable_model_is_an_outage_and_no_answer_and_a_reply_of_no_use_is_no_outage(name: str) -> None:
    asked = items()[4] if name == "hubs by model" else items()[1]
    (reading,) = readers("ModelUnavailableError")[name]().read([asked])
    assert reading.outage is not None
    assert (reading.answer, reading.kind) == ("", "none")
    (reading,) = readers("MalformedReplyError")[name]().read([asked])
    assert reading.outage is None
    assert reading.use is not None
    assert reading.use.error_class == "MalformedReplyError"
