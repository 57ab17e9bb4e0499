"""The stage of extraction in model mode: batches, kept rows, its plan, places of names."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_reply import OneReply
from pydantic import BaseModel
from small_indexes import indexed, publish, town_records
from small_indexes import write_rows as write_lines

from polyhop.schemas.chat import ChatRequest, ChatTask, Role
from polyhop.schemas.names import NameFinder
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import ExtractionSettings, Settings, parse_settings
from polyhop.schemas.tables import PASSAGES
from polyhop.schemas.text import content_hash
from polyhop.tasks.corpus.stage import INGEST
from polyhop.tasks.extraction.model import PhrasesReply, plan_passages, questions
from polyhop.tasks.extraction.rows import arrow_table
from polyhop.tasks.extraction.stage import EXTRACT, EXTRACTED, fresh_passages, gone_passages, merged_rows
from polyhop.tasks.extraction.stated import Contract, PlacedText, key_of
from polyhop.tasks.stage import Counts, tables_of
from polyhop.warehouse import build as kept
from polyhop.warehouse.build import Build, part_files, start_build, write_rows
from polyhop.warehouse.tables.connection import create_statement


def replies(*failing: str) -> OneReply:
    """To every question about a unit that is not among the failing ones."""

    def reply(request: ChatRequest[Any]) -> dict[str, object] | str:
        rome = {"name": "Rome", "type": "CITY", "description": "Rome is old."}
        values: dict[str, dict[str, object]] = {
            "kg.extract": {"entities": [rome], "relations": []},
            "prop.entities": {"entities": ["Rome", "rivers"]},
            "prop.propositions": {"propositions": [{"text": f"{request.unit_id} is old.", "entities": ["Rome"]}]},
        }
        return "ReplyRefusedError" if request.unit_id in failing else values[request.task.name]

    return OneReply(reply)


def known(folder: Path) -> dict[str, object]:
    return {"root": str(folder / "root"), "extraction.extractor": "model", "models.extract": "test/model"}


def build(folder: Path, **settings: object) -> Build:
    """A build whose corpus of five passages in three documents is ingested."""
    folder.mkdir()
    corpus = folder / "corpus.jsonl"
    records = [{"id": f"p{n}", "title": f"Town {n % 3}", "text": f"Town {n} saw Rome in 1990."} for n in range(5)]
    corpus.write_text("".join(json.dumps(record) + "\n" for record in records))
    made = Build(parse_settings({"test": known(folder) | settings}), "one", corpus, ())
    start_build(made, tables_of([INGEST, EXTRACT]))
    INGEST.run(made, 0)
    INGEST.finish(made)
    made = INGEST.done(made)
    return made.with_fingerprint("extract", EXTRACT.fingerprint(made))


def run(made: Build, model: OneReply, monkeypatch: pytest.MonkeyPatch) -> Counts:
    opened = SimpleNamespace(open_chat=lambda *_: model)
    monkeypatch.setitem(sys.modules, "polyhop.warehouse.open_models", opened)
    for number in EXTRACT.batches(made):
        EXTRACT.run(made, number)
    return EXTRACT.finish(made)


def outcome(made: Build) -> str:
    assert EXTRACT.outcome is not None
    return EXTRACT.outcome(made)


@pytest.mark.slow
def test_every_unit_is_in_the_ledger_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(tmp_path / "a")
    counts = run(made, replies(), monkeypatch)
    assert (counts["extracted_units"], counts["new_entity_types"]) == (3 + 5 + 5, 3)
    assert "failed_units" not in counts
    with made.tables(read_only=True) as connection:
        ledger = connection.execute(
            "SELECT step, state, count(*), sum(prompt_tokens)::INT, sum(cost_usd) FROM extraction_ledger "
            "GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    of_passages = ("done", 5, 150, 2.5)
    steps = [("kg.extract", "done", 3, 90, 1.5), ("prop.entities", *of_passages), ("prop.propositions", *of_passages)]
    assert ledger == steps


@pytest.mark.slow
def test_a_batch_with_a_failed_unit_counts_but_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(tmp_path / "a", batch_size="1")
    assert EXTRACT.batches(made) == [0, 1, 2]
    counts = run(made, replies("p1"), monkeypatch)
    assert counts["failed_units"] == 2
    assert len(EXTRACT.batches(made)) == 1
    model = replies()
    assert "failed_units" not in run(made, model, monkeypatch)
    assert {one.unit_id for one in model.requests if one.task.name.startswith("prop.")} == {"p1", "p4"}
    assert len(part_files(made.parts("extract"), "mentions")) == 3
    assert EXTRACT.batches(made) == []


@pytest.mark.slow
def test_the_outcome_is_the_content_whatever_the_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = []
    for name, size, model in (("a", "1", replies()), ("b", "500", replies()), ("c", "500", replies("p1"))):
        made = build(tmp_path / name, batch_size=size)
        run(made, model, monkeypatch)
        outcomes.append(outcome(made))
    assert outcomes[0] == outcomes[1] != outcomes[2]


@pytest.mark.slow
def test_fingerprints_of_rules_depend_on_no_model_and_those_of_models_do(tmp_path: Path) -> None:
    made = build(tmp_path / "a", **{"extraction.extractor": "rules"})
    assert outcome(made) == made.fingerprint("extract")

    def fingerprint(**settings: object) -> str:
        changed = parse_settings({"test": {**known(tmp_path / "a"), **settings}})
        return EXTRACT.fingerprint(replace(made, settings=changed))

    rules = {"extraction.extractor": "rules"}
    spacy = rules | {"extraction.ner": "spacy"}
    other, few = {"models.extract": "other"}, {"models.max_reply_tokens": 64}
    plain, ruled = fingerprint(), fingerprint(**rules)
    assert made.fingerprint("extract") == ruled == fingerprint(**rules, **other) == fingerprint(**rules, **few)
    assert plain not in {fingerprint(**one) for one in (other, few, {"extraction.relation_types": "born in"})}
    assert fingerprint(**spacy) != fingerprint(**rules, **{"extraction.ner": "spacy:other"})
    assert fingerprint(**spacy) == fingerprint(**rules, **{"extraction.ner": "spacy:en_core_web_sm"})


NAMES = [f"p{number:02d}" for number in range(30)]
ROWS = pa.table({"passage_id": [name for name in NAMES for _ in range(3)], "keys": [["a", str(n)] for n in range(90)]})


def parts(size: int) -> Iterator[pa.RecordBatch]:
    return (batch for start in range(0, len(ROWS), size) for batch in ROWS.slice(start, size).to_batches())


@pytest.fixture(autouse=True)
def groups_of_seven_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_ROW_GROUP", 7)


def rows_of(*names: str) -> pa.Table:
    table = pa.table({"passage_id": [name for name in names for _ in range(2)], "keys": [["n"]] * 2 * len(names)})
    return table.cast(ROWS.schema)


def test_the_bytes_of_a_file_do_not_depend_on_its_parts(tmp_path: Path) -> None:
    for size in (1, 7, 20, 90):
        write_rows(tmp_path / f"{size}.parquet", ROWS.schema, parts(size))
    contents = {(tmp_path / f"{size}.parquet").read_bytes() for size in (1, 7, 20, 90)}
    assert len(contents) == 1
    assert pq.read_table(tmp_path / "7.parquet").equals(ROWS)


@pytest.mark.parametrize(
    ("gone", "coming"),
    [
        ([], []),
        (["p00", "p29"], []),
        (["p07"], [["p07"]]),
        (NAMES[3:20], [["p04", "p05"], ["p11", "p19"]]),
        (["p29"], [["o99", "p00x"], ["p28x", "p29", "q"], ["r"]]),
        (NAMES, [["p02"]]),
        (NAMES, []),
    ],
)
def test_kept_rows_join_new_ones_in_order(tmp_path: Path, gone: list[str], coming: list[list[str]]) -> None:
    before = tmp_path / "before.parquet"
    write_rows(before, ROWS.schema, parts(20))
    new = [name for part in coming for name in part]
    merged = [*merged_rows(before, gone, (rows_of(*part) for part in coming))]
    found = [row for table in merged for row in table.to_pylist()]
    kept_rows = [row for row in ROWS.to_pylist() if row["passage_id"] not in gone]
    expected = sorted([*kept_rows, *rows_of(*new).to_pylist()], key=lambda row: row["passage_id"])
    assert found == expected
    assert pa.concat_tables(merged_rows(None, [], [ROWS.slice(0, 20), ROWS.slice(20)])).equals(ROWS)  # none before


def corpus(*rows: tuple[str, str, str]) -> duckdb.DuckDBPyConnection:
    """A database with passages of these ids, titles and texts."""
    connection = duckdb.connect()
    connection.execute(create_statement(PASSAGES))
    for id_, title, text in rows:
        values = [id_, id_, "d", 0, title, text, 0, len(text), 1, content_hash(title, text)]
        connection.execute("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    return connection


def test_rows_with_the_columns_of_an_earlier_release_are_extracted_again(tmp_path: Path) -> None:
    root = publish(tmp_path, town_records()[:3])
    (folder,) = (root / "indexes" / "towns" / "versions").glob("*/graph")
    for file in folder.glob("extraction_mentions*.parquet"):
        rows = pq.read_table(file).drop_columns(["votes"])
        file.unlink()  # other versions may link to it
        pq.write_table(rows, file)
    other = ExtractionSettings(ner="regex")  # as another revision of the code, it changes what is extracted
    settings = Settings(root=root, strategies=("bm25", "bridge-lexical"), extraction=other)
    report = indexed(settings, write_lines(tmp_path / "towns.jsonl", town_records()[:4]))
    assert report.computed["extract"] == 4


TEXT = "Ada wrote."


def test_a_passage_is_kept_with_the_same_id_title_text_and_recipe_only(tmp_path: Path) -> None:
    extracted = tmp_path / "extracted.parquet"
    made = [(name, "Ada", content_hash("Ada", TEXT), "recipe") for name in ("a", "b", "c", "d")]
    pq.write_table(arrow_table(EXTRACTED, made), extracted)
    with corpus(("a", "Ada", TEXT), ("b", "Ada", "Ada wrote!"), ("e", "Ada", TEXT)) as connection:
        assert fresh_passages(connection, extracted, "recipe") == ["b", "e"]
        assert fresh_passages(connection, extracted, "another") == ["a", "b", "e"]
        assert gone_passages(connection, extracted) == ["c", "d"]
    with corpus(("a", "Ada", TEXT), ("b", "Wrote", "")) as connection:  # a title that occurs in the text of a
        assert fresh_passages(connection, extracted, "recipe") == ["a", "b"]
    with corpus(("a", "Ada", TEXT), ("b", "Read", "")) as connection:
        assert fresh_passages(connection, extracted, "recipe") == ["b"]


CONTRACT = Contract.of(ExtractionSettings())
PLANNED_PASSAGES = [Passage(f"p{n}", f"p{n}", f"d{n}", 0, "Rome", "Rome is old.", 0, 12) for n in range(3)]


class WordPlanner:
    """Counts words; knows the entities of the passages named, and no other reply."""

    def __init__(self, *known: str) -> None:
        self._known = known

    def replies(self, requests: Sequence[ChatRequest[Any]], role: Role = Role.EXTRACT) -> list[BaseModel | None]:
        return [
            PhrasesReply(entities=["Rome"]) if r.task.reply is PhrasesReply and r.unit_id in self._known else None
            for r in requests
        ]

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def output_per_input(self, task: ChatTask[Any]) -> float:
        return 0.5

    def text_per_call(self, task: ChatTask[Any]) -> float:
        return 0.0


@pytest.mark.parametrize("known", [(), ("p1",)])
def test_every_prompt_to_send_is_priced_with_its_demonstration(known: tuple[str, ...]) -> None:
    steps = plan_passages(PLANNED_PASSAGES, CONTRACT, questions(), WordPlanner(*known))  # type: ignore[arg-type]
    assert [step.calls for step in steps] == [3, 3 - len(known), 3]
    for step in steps[1:]:
        text = step.task.prompt.text
        shown = len(text[text.index("<example>") : text.index("</example>")].split())
        assert shown > 80
        assert step.prompt_tokens - step.text_tokens > shown * step.calls


def test_keys() -> None:
    expected = {
        "Antoni Gaudí": "antoni gaudi",
        "Norman's Crossing": "norman s crossing",
        " 24 October 1650 ": "date:1650-10-24",
        "1999": "date:1999",
        "1,200": "number:1200",
        "3.5 million": "number:3500000",
        "in 1999": "in 1999",
        "25 miles": "25 miles",
        "±": "",
        "": "",
    }
    assert {name: key_of(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "name", "surfaces"),
    [
        ("New York, new-york and Newyork.", "New York", ["New York", "new-york"]),
        ("Gaudí, Gaudi\u0301 and GAUDI", "gaudi", ["Gaudí", "Gaudi", "GAUDI"]),
        ("Yorkshire", "York", []),
        ("a a a", "a a", ["a a"]),
        ("Born 24 October 1650, not 1650.", "October 24, 1650", ["24 October 1650"]),
        ("In 12,000 years", "12000", ["12,000"]),
        ("ﬁne ﬁsh", "fish", ["ﬁsh"]),
        ("", "x", []),
        ("x", "±", []),
    ],
)
def test_places(text: str, name: str, surfaces: list[str]) -> None:
    assert [text[start:end] for start, end in PlacedText(text).find(key_of(name))] == surfaces


@given(st.text(alphabet="AbÉe\u0301ﬁ .-1", max_size=40))
def test_every_name_that_the_finder_sees_is_found_at_its_place(text: str) -> None:
    placed = PlacedText(text)
    for mention in NameFinder([]).find(text):
        starts = [start for start, _ in placed.find(mention.key)]
        if mention.key == key_of(mention.surface):
            assert mention.start in starts or any(start < mention.end for start in starts)
