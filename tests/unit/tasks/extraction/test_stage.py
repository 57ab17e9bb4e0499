"""The stage in model mode on a real staging folder: batches of documents, failures done again, outcome by content."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from polyhop.schemas.chat import ChatRequest
from polyhop.schemas.settings import parse_settings
from polyhop.tasks.corpus.stage import INGEST
from polyhop.tasks.extraction.stage import EXTRACT
from polyhop.tasks.stage import Counts, tables_of
from polyhop.warehouse.build import Build, part_files, start_build

pytestmark = pytest.mark.slow


class Model:
    """Answers every question about a unit that is not among the failing ones."""

    model = "test/model"

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.asked: list[str] = []

    def ask(self, requests: list[ChatRequest[Any]]) -> list[Any]:
        self.asked += [f"{request.task.name} {request.unit_id}" for request in requests]
        return [self._outcome(request) for request in requests]

    def _outcome(self, request: ChatRequest[Any]) -> Any:
        from polyhop.schemas.chat import ChatOutcome, Rung, Usage

        if request.unit_id in self.failing:
            return ChatOutcome(None, self.model, False, None, 5, "ReplyRefusedError", "No.", Usage(5, 5, 0, 0.0, 1.0))
        values = {
            "kg.extract": {
                "entities": [{"name": "Rome", "type": "CITY", "description": "Rome is old."}],
                "relations": [],
            },
            "prop.entities": {"entities": ["Rome", "rivers"]},
            "prop.propositions": {"propositions": [{"text": f"{request.unit_id} is old.", "entities": ["Rome"]}]},
        }
        reply = request.task.reply.model_validate(values[request.task.name])
        return ChatOutcome(reply, self.model, True, Rung.AS_IS, 1, "", "", Usage(1, 7, 3, 0.25, 1.0))


def build(folder: Path, **settings: object) -> Build:
    """A build whose corpus of five passages in three documents is ingested."""
    folder.mkdir()
    corpus = folder / "corpus.jsonl"
    records = [{"id": f"p{n}", "title": f"Town {n % 3}", "text": f"Town {n} saw Rome in 1990."} for n in range(5)]
    corpus.write_text("".join(json.dumps(record) + "\n" for record in records))
    known = {"root": str(folder / "root"), "extraction.extractor": "model", "models.extract": "test/model"}
    made = Build(parse_settings({"test": known | settings}), "one", corpus, ())
    start_build(made, tables_of([INGEST, EXTRACT]))
    INGEST.run(made, 0)
    INGEST.finish(made)
    made = INGEST.done(made)
    return made.with_fingerprint("extract", EXTRACT.fingerprint(made))


def run(made: Build, model: Model, monkeypatch: pytest.MonkeyPatch) -> Counts:
    opened = SimpleNamespace(open_chat=lambda *_: model)
    monkeypatch.setitem(sys.modules, "polyhop.warehouse.open_models", opened)
    for number in EXTRACT.batches(made):
        EXTRACT.run(made, number)
    return EXTRACT.finish(made)


def outcome(made: Build) -> str:
    assert EXTRACT.outcome is not None
    return EXTRACT.outcome(made)


def test_every_unit_is_in_the_ledger_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(tmp_path / "a")
    counts = run(made, Model(), monkeypatch)
    assert (counts["extracted_units"], counts["new_entity_types"]) == (3 + 5 + 5, 3)
    assert "failed_units" not in counts
    with made.tables(read_only=True) as connection:
        ledger = connection.execute(
            "SELECT step, state, count(*), sum(prompt_tokens)::INT, sum(cost_usd) FROM extraction_ledger "
            "GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    assert ledger == [
        ("kg.extract", "done", 3, 21, 0.75),
        ("prop.entities", "done", 5, 35, 1.25),
        ("prop.propositions", "done", 5, 35, 1.25),
    ]


def test_a_batch_with_a_failed_unit_counts_but_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(tmp_path / "a", batch_size="1")
    assert EXTRACT.batches(made) == [0, 1, 2]
    counts = run(made, Model("p1"), monkeypatch)
    assert counts["failed_units"] == 2
    assert len(EXTRACT.batches(made)) == 1
    model = Model()
    assert "failed_units" not in run(made, model, monkeypatch)
    assert {name.split()[1] for name in model.asked if name.startswith("prop.")} == {"p1", "p4"}
    assert len(part_files(made.parts("extract"), "mentions")) == 3
    assert EXTRACT.batches(made) == []


def test_the_outcome_is_the_content_whatever_the_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = []
    for name, size, model in (("a", "1", Model()), ("b", "500", Model()), ("c", "500", Model("p1"))):
        made = build(tmp_path / name, batch_size=size)
        run(made, model, monkeypatch)
        outcomes.append(outcome(made))
    assert outcomes[0] == outcomes[1] != outcomes[2]


def test_fingerprints_of_rules_depend_on_no_model_and_those_of_models_do(tmp_path: Path) -> None:
    def fingerprint(name: str, **settings: object) -> str:
        return build(tmp_path / name, **settings).fingerprint("extract")

    rules = {"extraction.extractor": "rules"}
    assert fingerprint("a", **rules) == fingerprint("b", **rules, **{"models.extract": "other"})
    assert fingerprint("c") != fingerprint("d", **{"models.extract": "other"})
    assert fingerprint("e") != fingerprint("f", **{"extraction.relation_types": "born in"})
    assert fingerprint("k") != fingerprint("l", **{"models.max_reply_tokens": 64})
    assert fingerprint("m", **rules) == fingerprint("n", **rules, **{"models.max_reply_tokens": 64})
    spacy = rules | {"extraction.ner": "spacy"}
    assert fingerprint("g", **spacy) != fingerprint("h", **rules, **{"extraction.ner": "spacy:other"})
    assert fingerprint("i", **spacy) == fingerprint("j", **rules, **{"extraction.ner": "spacy:en_core_web_sm"})


def test_the_outcome_of_rules_is_their_fingerprint(tmp_path: Path) -> None:
    made = build(tmp_path / "a", **{"extraction.extractor": "rules"})
    assert outcome(made) == made.fingerprint("extract")
