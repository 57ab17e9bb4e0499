"""Files of existing extractions, read in each form; and our own export read back."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import SourceError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.rows import read_extractions
from polyhop.warehouse.tables.connection import connect
from polyhop.warehouse.tables.version_rows import export_extractions

OPENIE = {"id": "a", "entities": ["Rome"], "triples": [["Rome", "is", "old"]]}
HIPPORAG = {"idx": 0, "passage": "Rome\nRome is old.", "extracted_entities": ["Rome"], "extracted_triples": []}


def test_lines_packed_or_not(tmp_path: Path) -> None:
    text = "\n".join(['{"id": 7}', "", "{broken", "[1]", '{"entities": []}', json.dumps(OPENIE), "[" * 100_000])
    (tmp_path / "a.jsonl").write_text(text)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    rows = list(read_extractions(tmp_path / "a.jsonl"))
    assert [(row.line, row.id, row.fault) for row in rows] == [
        (1, "7", ""),
        (3, "", "not JSON: Expecting property name enclosed in double quotes at character 2"),
        (4, "", "not a JSON object but a list"),
        (5, "", "neither an id nor a passage"),
        (6, "a", ""),
        (7, "", "JSON that cannot be read: it is nested too deeply"),
    ]
    assert rows[4].fields == OPENIE
    assert list(read_extractions(tmp_path / "a.jsonl.gz")) == rows


def test_parquet_and_rows_of_hipporag_that_are_known_by_their_text_not_by_their_number(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"docs": [HIPPORAG, HIPPORAG | {"idx": "chunk-1"}], "avg": 1}))
    rows = list(read_extractions(tmp_path / "a.json"))
    assert [(row.id, row.text) for row in rows] == [("", "Rome\nRome is old."), ("chunk-1", "Rome\nRome is old.")]
    pq.write_table(pa.Table.from_pylist([OPENIE]), tmp_path / "a.parquet")
    (row,) = read_extractions(tmp_path / "a.parquet")
    assert (row.line, row.id, row.fields) == (1, "a", OPENIE)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b"{"),
        ("a.json", b'{"x": 1}'),
        ("a.parquet", b"PAR1"),
        ("a.jsonl.gz", b"nonsense"),
        ("none.jsonl", None),
    ],
)
def test_an_unusable_file_is_named(tmp_path: Path, name: str, content: bytes | None) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SourceError, match=name):
        list(read_extractions(path))


def index(root: Path, corpus: Path, **settings: object) -> Settings:
    known = {"root": str(root), "strategies": "bm25", "resolution.method": "off"} | settings
    parsed = parse_settings({"test": known})
    run_index(parsed, IndexRequest("one", corpus), DirectRunner())
    return parsed


def content(root: Path) -> list[list[tuple[object, ...]]]:
    queries = (
        "SELECT unit_id, key, tf, is_title, spans_json FROM mentions JOIN entities USING (entity_id) ORDER BY ALL",
        "SELECT source_id, norm_relation, target_id FROM relations ORDER BY ALL",
        "SELECT text FROM propositions ORDER BY ALL",
        "SELECT * FROM proposition_entities ORDER BY ALL",
    )
    with connect(Layout(root).index("one").version(1).tables, read_only=True) as connection:
        return [connection.execute(query).fetchall() for query in queries]


def test_our_own_export_comes_back(tmp_path: Path, write_corpus: Callable[..., Path]) -> None:
    text = "Ann Roe was born in Rome on 2 May 1990. She met Bo Lee."
    corpus = write_corpus([{"id": "a", "title": "Ann Roe", "text": text}, {"id": "b", "title": "", "text": "Rome."}])
    index(tmp_path / "first", corpus)
    target = tmp_path / "export.jsonl.gz"
    assert export_extractions(Layout(tmp_path / "first").index("one").version(1).tables, target) == 2
    index(tmp_path / "second", corpus, **{"extraction.extractor": f"import:{target}"})
    assert content(tmp_path / "second") == content(tmp_path / "first")
