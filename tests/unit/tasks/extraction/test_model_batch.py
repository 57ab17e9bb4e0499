"""Documents through a model that answers from a table: located, filled in, listed; whatever the order and the batch."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.chat import ChatOutcome, ChatRequest, ReplyT, Rung, Usage
from polyhop.schemas.errors import BudgetExceededError
from polyhop.schemas.names import NameFinder
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import ExtractionSettings
from polyhop.tasks.extraction.model import DocumentPart, ModelBatch, document_parts, questions
from polyhop.tasks.extraction.rows import BatchPages, LedgerRow, Page, bundle_of, counts_table, ledger_table
from polyhop.tasks.extraction.rules import rules_page
from polyhop.tasks.extraction.stated import Contract

CONTRACT = Contract.of(ExtractionSettings())
ASKED = questions()
INJECTION = "Robert'); DROP TABLE entities; -- MATCH (n) DETACH DELETE n"
Answer = Callable[[ChatRequest[Any]], dict[str, object] | str]


class TableModel:
    """Answers with what a function says: a reply, or the name of an error."""

    model = "test/model"

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[tuple[str, str]] = []

    def ask(self, requests: Sequence[ChatRequest[ReplyT]]) -> list[ChatOutcome[ReplyT]]:
        return [self._outcome(request) for request in requests]

    def _outcome(self, request: ChatRequest[ReplyT]) -> ChatOutcome[ReplyT]:
        self.asked.append((request.task.name, request.unit_id))
        answer = self._answer(request)
        usage = Usage(1, 10, 5, 0.5, 1.0)
        if isinstance(answer, str):
            return ChatOutcome(None, self.model, False, None, 3, answer, "It did not work.", usage)
        reply = request.task.reply.model_validate(answer)
        return ChatOutcome(reply, self.model, False, Rung.REPAIRED, 1, "", "", usage)


def passage(number: int, text: str, document: str = "d1") -> Passage:
    return Passage(f"p{number}", f"p{number}", document, number, "Ann Roe", text, 0, len(text))


PAGES = [passage(1, "Ann Roe met Bo."), passage(2, "Cy came to Rome in 1990.")]


def good(request: ChatRequest[Any]) -> dict[str, object] | str:
    if request.task.name == "kg.extract":
        names = ["Ann Roe", "Cy", "Rome", "Nobody"]
        return {
            "entities": [{"name": n, "type": "PERSON", "description": f"{n} is known."} for n in names],
            "relations": [
                {"source_name": "Cy", "relation": "Came to", "target_name": "Rome"},
                {"source_name": "Ann Roe", "relation": "knows", "target_name": "Cy"},
            ],
        }
    if request.task.name == "prop.entities":
        return {"entities": ["Bo"] if request.unit_id == "p1" else ["Cy", "1990"]}
    return {"propositions": [{"text": f"Claim of {request.unit_id}.", "entities": ["Bo", "Cy", "1990"]}]}


def failing(step: str, unit_id: str) -> Answer:
    return lambda r: "MalformedReplyError" if (r.task.name, r.unit_id) == (step, unit_id) else good(r)


def rules(page: Passage) -> Page:
    return rules_page(page, NameFinder([]))


def run(answer: Answer, pages: Sequence[Passage] = PAGES) -> BatchPages:
    return ModelBatch(pages, TableModel(answer), CONTRACT, rules, "rules", ASKED).run()


def extractors(batch: BatchPages, number: int) -> dict[str, str]:
    return {key: row.extractor for key, row in sorted(batch.pages[number].rows.items())}


def test_a_document_by_hand() -> None:
    batch = run(good)
    bundle = bundle_of(batch.pages)
    rows = [(r["passage_id"], r["key"], r["type"], r["tf"], r["description"]) for r in bundle.mentions.to_pylist()]
    assert rows == [
        ("p1", "ann roe", "PERSON", 2, "Ann Roe is known."),
        ("p1", "bo", None, 1, "Ann Roe met Bo."),
        ("p1", "nobody", "PERSON", 1, "Nobody is known."),
        ("p2", "ann roe", "PERSON", 1, "Cy came to Rome in 1990."),
        ("p2", "cy", "PERSON", 1, "Cy is known."),
        ("p2", "date:1990", "DATE", 1, "Cy came to Rome in 1990."),
        ("p2", "rome", "PERSON", 1, "Rome is known."),
    ]
    assert [
        (r["passage_id"], r["source_key"], r["relation"], r["target_key"]) for r in bundle.relations.to_pylist()
    ] == [
        ("p1", "ann roe", "knows", "cy"),
        ("p2", "cy", "came to", "rome"),
    ]
    assert [(r["passage_id"], r["text"], r["extractor"]) for r in bundle.triples.to_pylist()] == [
        ("p1", "Ann Roe knows Cy.", "model"),
        ("p2", "Cy Came to Rome.", "model"),
    ]
    assert [(r["text"], r["keys"]) for r in bundle.propositions.to_pylist()] == [
        ("Claim of p1.", ["bo"]),
        ("Claim of p2.", ["cy", "date:1990"]),
    ]
    assert batch.counts == {"extracted_units": 5, "dropped_proposition_entities": 3}
    assert batch.ledger[0] == LedgerRow("kg.extract", "d1", "done", "", "test/model", 1, "repaired", "", "", 10, 5, 0.5)
    assert (batch.computed, batch.has_failed) == (5, False)


def test_rules_stand_in_for_a_failed_document_and_are_flagged() -> None:
    batch = run(failing("kg.extract", "d1"))
    assert extractors(batch, 1) == {"ann roe": "rules", "cy": "model", "date:1990": "model", "rome": "rules"}
    assert [label for _, label in batch.pages[1].relations] == ["rules"] * len(batch.pages[1].relations) != []
    assert [label for _, label in batch.pages[1].propositions] == ["model"]
    assert (("Cy came to Rome.", ["cy", "rome"]), "rules") in batch.pages[1].triples
    assert batch.ledger[0] == LedgerRow(
        "kg.extract",
        "d1",
        "failed",
        "rules",
        "test/model",
        3,
        "",
        "MalformedReplyError",
        "It did not work.",
        10,
        5,
        0.5,
    )
    assert (batch.counts["failed_units"], batch.counts["extracted_units"], batch.has_failed) == (1, 4, True)


def test_propositions_are_not_asked_for_while_the_entities_have_failed() -> None:
    model = TableModel(failing("prop.entities", "p2"))
    batch = ModelBatch(PAGES, model, CONTRACT, rules, "rules", ASKED).run()
    assert ("prop.propositions", "p2") not in model.asked
    failed = [(row.step, row.unit_id, row.error_class) for row in batch.ledger if row.state == "failed"]
    assert failed == [("prop.entities", "p2", "MalformedReplyError"), ("prop.propositions", "p2", "NotAsked")]
    assert [proposition for proposition, label in batch.pages[1].propositions if label == "rules"] == [
        ("Cy came to Rome in 1990.", ["cy", "rome", "date:1990"])
    ]
    assert extractors(batch, 1) == {"ann roe": "model", "cy": "model", "date:1990": "rules", "rome": "model"}


def test_the_budget_ends_the_batch() -> None:
    def broke(_: ChatRequest[Any]) -> dict[str, object] | str:
        raise BudgetExceededError("enough")

    with pytest.raises(BudgetExceededError):
        run(broke)


def test_a_reply_with_code_is_data() -> None:
    def attack(request: ChatRequest[Any]) -> dict[str, object] | str:
        if request.task.name == "kg.extract":
            return {
                "entities": [{"name": INJECTION, "type": "WORK", "description": "{{passage}} </data>"}],
                "relations": [],
            }
        return {"entities": [INJECTION], "propositions": [{"text": INJECTION, "entities": [INJECTION]}]}

    batch = run(attack, [passage(1, "Nothing here.")])
    rows = {row["key"]: row for row in bundle_of(batch.pages).mentions.to_pylist()}
    key = "robert drop table entities match n detach delete n"
    assert (rows[key]["surface"], rows[key]["description"]) == (INJECTION, "{{passage}} </data>")
    assert batch.pages[0].propositions == [((INJECTION, [key]), "model")]


def test_documents_are_cut_between_passages() -> None:
    pages = [passage(n, "x" * 4) for n in (3, 1, 2)] + [passage(9, "y" * 20, "d0")]
    assert [(part.unit_id, [p.passage_id for p in part.passages]) for part in document_parts(pages, 8)] == [
        ("d0", ["p9"]),
        ("d1#0", ["p1", "p2"]),
        ("d1#1", ["p3"]),
    ]
    assert DocumentPart("d1", tuple(pages[:2])).text == "**Ann Roe**\nxxxx"


@given(st.permutations([*PAGES, passage(3, "Bo Lee saw Rome.", "d2"), passage(4, "Rome fell.", "d3")]))
def test_order_and_batches_do_not_matter(pages: list[Passage]) -> None:
    answer = failing("kg.extract", "d2")
    together = run(answer, pages)
    alone = [run(answer, [p for p in pages if p.document_id == d]) for d in ("d1", "d2", "d3")]
    assert bundle_of(together.pages) == bundle_of(page for batch in alone for page in batch.pages)
    assert ledger_table(together.ledger) == ledger_table(row for batch in alone for row in batch.ledger)
    assert counts_table(together.counts) == counts_table(
        sum((batch.counts for batch in alone), start=type(together.counts)())
    )
