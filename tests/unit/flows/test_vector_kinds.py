"""A kind of vectors beside passages and entities: embedded, published, searched and verified as they are."""

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ConfigurationError, InvariantError
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.ports import Strategy
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.tables.query import query_rows
from polyhop.warehouse.vectors import kinds
from polyhop.warehouse.vectors.kinds import VectorKind, declare, kinds_in
from polyhop.worker.strategies import registry
from polyhop.worker.strategies.base import DECLARED, Parameters, strategy

pytestmark = pytest.mark.slow

TITLE_ROWS = "SELECT passage_id AS id, title AS first, text AS second, passage_id AS rank FROM passages"
RECORDS = [
    {"id": "a", "title": "Ada Lovelace", "text": "Ada Lovelace worked with Charles Babbage in London."},
    {"id": "b", "title": "Charles Babbage", "text": "Babbage was born in London. Charles Babbage died in 1871."},
]


def never_built(*_: object) -> Strategy:
    raise AssertionError


def title_only(title: str, _text: str) -> str:
    return title


@pytest.fixture
def titles(monkeypatch: pytest.MonkeyPatch) -> Iterator[VectorKind]:
    """A third kind, and a strategy that needs it, as installed packages bring them."""
    monkeypatch.setattr(kinds, "_DECLARED", {})
    points = {"near-title": EntryPoint("near-title", __name__, registry.GROUP)}
    monkeypatch.setattr(registry, "extensions", lambda _group: points)
    strategy("near-title", "By title.", Parameters, needs={"vectors:title", "ann:title"})(never_built)
    yield declare(VectorKind("title", "titles", TITLE_ROWS, title_only))
    del DECLARED["near-title"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, RECORDS)), encoding="utf-8")
    return path


def run(root: Path, corpus: Path, *strategies: str) -> tuple[IndexReport, Manifest]:
    settings = Settings(root=root, strategies=strategies, batch_size=1)
    report = run_index(settings, IndexRequest("one", corpus), DirectRunner())
    return report, read_manifest(require_version(Layout(root), "one")[1])


def test_a_third_kind_is_published_in_a_table_of_its_own(tmp_path: Path, corpus: Path, titles: VectorKind) -> None:
    root = tmp_path / "data"
    _, before = run(root, corpus, "naive-vector", "dense")
    report, manifest = run(root, corpus, "naive-vector", "dense", "near-title")
    assert report.reused[-2:] == ["embed-entity", "embed-passage"]
    assert {kind: record.table for kind, record in manifest.vectors.items()} == {
        "passage": "passages",
        "entity": "entities",
        "title": titles.table,
    }
    assert {kind: manifest.vectors[kind] for kind in before.vectors} == before.vectors
    assert manifest.vectors["title"].hnsw is not None
    found = query_rows(Layout(root), "one", "SELECT id FROM title_vectors ORDER BY id").column("id").to_pylist()
    assert found == ["a", "b"]
    verified = run_verify(Settings(root=root), "one")
    assert not any(verified.differences.values())
    again, _ = run(root, corpus, "near-title")
    assert (again.changed, again.version) == (False, 2)


def test_an_index_with_a_kind_that_nobody_declares_any_more_is_left_alone(
    tmp_path: Path, corpus: Path, titles: VectorKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "data"
    run(root, corpus, "near-title")
    monkeypatch.setattr(kinds, "_DECLARED", {})
    words = (
        f"Unknown vector kind '{titles.name}'; known are passage, entity, proposition, name, triple, triplename, "
        "hubpath, hubvalue. If a"
    )
    with pytest.raises(ConfigurationError, match=words):
        run(root, corpus, "bm25")


def test_rows_that_name_the_same_thing_twice_are_not_published(
    tmp_path: Path, corpus: Path, titles: VectorKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "_DECLARED", {})
    declare(replace(titles, rows=f"{TITLE_ROWS} UNION ALL {TITLE_ROWS}"))
    with pytest.raises(InvariantError, match=r"table 'embeddings' has \d+ rows with a used key"):
        run(tmp_path / "data", corpus, "near-title")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT passage_id AS id, nothing AS first, text AS second, passage_id AS rank FROM passages", "nothing"),
        ("SELECT passage_id AS id, passage_id AS rank FROM passages", "first"),
    ],
)
def test_rows_that_duckdb_refuses_name_the_kind(
    tmp_path: Path, corpus: Path, titles: VectorKind, monkeypatch: pytest.MonkeyPatch, rows: str, words: str
) -> None:
    monkeypatch.setattr(kinds, "_DECLARED", {})
    declare(replace(titles, rows=rows))
    with pytest.raises(ConfigurationError, match=f"rows of the vector kind 'title' cannot be read: .*{words}"):
        run(tmp_path / "data", corpus, "near-title")


@pytest.mark.parametrize(
    ("name", "table", "words"),
    [
        ("passage", "others", "collides with the kind 'passage'"),
        ("other", "entities", "collides with the kind 'entity' with table 'entities'"),
        ("passage_x", "others", "lower-case letters and digits only"),
        ("other", "o-2", "needs another table than 'o-2'"),
    ],
)
def test_a_name_or_table_that_is_in_use_or_unusable_is_refused(name: str, table: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        declare(VectorKind(name, table, TITLE_ROWS, title_only))


def test_kinds_are_those_of_the_artefacts_ours_first() -> None:
    wanted = ["ann:passage", "graph", "vectors:entity", "vectors:passage"]
    assert [kind.name for kind in kinds_in(wanted)] == ["passage", "entity"]
    assert [kind.name for kind in kinds_in(wanted, "ann")] == ["passage"]
