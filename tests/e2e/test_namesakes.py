"""Namesakes told apart in an index: tables, questions, explanations, merges by hand, and runs after edits."""

import json
from pathlib import Path
from typing import Any

import pytest

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.records import EntityEdit
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.tasks.resolution.resolve import explain, keys_of
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.tables.connection import connect
from polyhop.warehouse.tables.version_rows import read_name_records
from polyhop.warehouse.user_files import change_edits

ROWS = [
    ("a1", "Mercury (planet)", "Mercury is the smallest planet. It orbits the Sun near Venus."),
    ("a2", "Mercury (mythology)", "Mercury is a Roman god. He is the son of Jupiter and Maia."),
    ("a3", "Venus Express", "The probe passed Venus and later Mercury."),
    ("a4", "Maia", "Maia is the mother of Mercury and a lover of Jupiter."),
    ("a5", "Thermometers", "Many thermometers contain Mercury."),
]
MEANT = """
SELECT p.record_id, e.key FROM mentions AS m JOIN entities AS e USING (entity_id)
JOIN passages AS p ON p.passage_id = m.unit_id WHERE e.key LIKE 'mercury%' ORDER BY ALL
"""
Rows = list[tuple[str, str, str]]


def index(root: Path, rows: Rows, identity: str = "context") -> Settings:
    root.mkdir(exist_ok=True)
    path = root / "corpus.jsonl"
    path.write_text(
        "".join(json.dumps(dict(zip(("id", "title", "text"), row, strict=True))) + "\n" for row in rows), "utf-8"
    )
    given = {"root": str(root), "strategies": "bridge-lexical", "resolution.identity": identity}
    settings = parse_settings({"test": given})
    run_index(settings, IndexRequest("one", path), DirectRunner())
    return settings


def tables(root: Path) -> Any:
    return require_version(Layout(root), "one")[1]


def meant(root: Path) -> list[tuple[str, ...]]:
    with connect(tables(root).tables, read_only=True) as connection:
        return connection.execute(MEANT).fetchall()


def test_each_passage_mentions_the_bearer_that_it_means(tmp_path: Path) -> None:
    index(tmp_path, ROWS)
    assert meant(tmp_path) == [
        ("a1", "mercury planet"),
        ("a2", "mercury mythology"),
        ("a3", "mercury planet"),
        ("a4", "mercury mythology"),
        ("a5", "mercury"),
    ]


def test_a_question_starts_from_every_bearer_of_its_name(tmp_path: Path) -> None:
    settings = index(tmp_path, ROWS)
    with open_index("one", settings=settings) as opened:
        found = opened.ask("Where is Mercury?", strategy="bridge-lexical")
    assert {passage["id"] for passage in found.passages} >= {"a1", "a2", "a3", "a4", "a5"}


def test_the_bearers_are_explained_and_a_merge_by_hand_joins_them_again(tmp_path: Path) -> None:
    index(tmp_path, ROWS)
    asked = ("Mercury (planet)", "Mercury")
    layout = Layout(tmp_path)
    told = explain(*asked, read_name_records(layout, "one", keys_of(*asked)))
    assert not told.same
    assert "'mercury' is the name of 2 entities" in told.reason
    folder = layout.index("one")
    merges = [EntityEdit("merge", key, "mercury") for key in ("mercury planet", "mercury mythology")]
    change_edits(folder, lambda _: merges)
    index(tmp_path, ROWS)
    assert len({key for _, key in meant(tmp_path)}) == 1


@pytest.mark.parametrize("identity", ["name_type", "context"])
def test_an_edit_of_the_corpus_ends_like_a_fresh_build(tmp_path: Path, identity: str) -> None:
    changed = [*ROWS[:3], ("a6", "Jupiter", "Jupiter is the father of Mercury. He loves Maia.")]
    index(tmp_path / "edited", ROWS, identity)
    index(tmp_path / "edited", changed, identity)
    index(tmp_path / "fresh", changed, identity)
    sums = [
        {name: record.checksum for name, record in read_manifest(tables(tmp_path / root)).tables.items()}
        for root in ("edited", "fresh")
    ]
    for found in sums:
        del found["version_stages"]
    assert sums[0] == sums[1]
