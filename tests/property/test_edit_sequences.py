"""Whatever was added, changed, deleted and renamed, in whole sources or in part: the index is that of a fresh build.

Shuffled, a corpus gives the same tables, arrays and rankings: no strategy may profit from the order of passages.
POLYHOP_EDIT_SEQUENCES and POLYHOP_EDIT_PASSAGES run more and longer sequences by hand (100 and 200, some 17 s each).
"""

import json
import math
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from generated_corpus import generate

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import CorpusSettings, Settings
from polyhop.schemas.text import content_hash
from polyhop.tasks.raw_rows import RAW, RawRows
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.tables.connection import connect, table_record
from polyhop.worker.strategies.registry import STRATEGIES as REGISTERED

pytestmark = pytest.mark.rare

SEQUENCES = int(os.environ.get("POLYHOP_EDIT_SEQUENCES", "3"))
PASSAGES = int(os.environ.get("POLYHOP_EDIT_PASSAGES", "8"))
EDITS = 5 if "POLYHOP_EDIT_SEQUENCES" in os.environ else 3
STRATEGIES = ("bm25", "bridge-masked")
NAMES = ("Alder", "Birch Hill", "Cedar", "Dunmore", "Elm Park", "Foxley", "Grange", "Holt")
Row = dict[str, Any]
Sources = dict[str, dict[str, Row]]


class Corpus:
    """Two sources that change at random, or one that is always read whole, and the index that follows them."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.root = root
        self.sources: Sources = {name: {} for name in ("news", "wiki")[: 1 if seed % 3 == 2 else 2]}
        for name in self.sources:
            for _ in range(PASSAGES // 2):
                self._add(name)
            self.read_whole(name)

    def _row(self) -> Row:
        chosen = [self.random.choice(NAMES) for _ in range(4)]
        founded = f"It was founded by the people of {chosen[2]} in 19{len(chosen[3])}0. "
        text = f"{chosen[0]} lies near {chosen[1]}. {founded}" * self.random.choice((1, 1, 3))  # some are cut
        row = {"title": self.random.choice([*NAMES, f"{chosen[0]} and {chosen[3]}"]), "text": text}
        return row | ({"year": self.random.randrange(9)} if self.random.random() < 0.5 else {})

    def _add(self, name: str) -> str:
        id_ = f"{self.random.choice('abcd')}{self.random.randrange(4 * PASSAGES)}"  # some ids are in both sources
        self.sources[name][id_] = self._row()
        return id_

    def _edit(self, name: str) -> tuple[set[str], set[str]]:
        """Changes a source; the ids that are new or other now, and those that are gone."""
        rows = self.sources[name]
        changed, gone = set[str](), set[str]()
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice(["add", "change", "retitle", "delete", "rename"])
            if kind == "add" or len(rows) < 3:
                changed.add(self._add(name))
                continue
            id_ = self.random.choice(sorted(rows))
            if kind in ("change", "retitle"):
                row = self._row()
                rows[id_] = row if kind == "change" else rows[id_] | {"title": row["title"]}
                changed.add(id_)
                continue
            row = rows.pop(id_)
            gone.add(id_)
            if kind == "rename":
                rows[f"{id_}x"] = row
                changed.add(f"{id_}x")
        return changed & rows.keys(), gone - rows.keys()

    def step(self) -> None:
        """Some edits of one source, read as a whole or in part."""
        name = self.random.choice(sorted(self.sources))
        changed, gone = self._edit(name)
        if len(self.sources) == 1 or self.random.random() < 0.5:
            self.read_whole(name)
        else:
            rows = [{"id": id_, **self.sources[name][id_]} for id_ in changed]
            self._read(self.root, name, [*rows, *({"id": id_, "deleted": True} for id_ in gone)], is_partial=True)

    def read_whole(self, name: str, root: Path | None = None) -> None:
        self._read(root or self.root, name, [{"id": id_, **row} for id_, row in self.sources[name].items()])

    def _read(self, root: Path, name: str, rows: list[Row], *, is_partial: bool = False) -> None:
        self.random.shuffle(rows)
        path = root / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        request = IndexRequest("one", path, source_name=name, is_partial=is_partial, allows_deletions=True)
        run_index(settings_of(root), request, DirectRunner())


def settings_of(root: Path) -> Settings:
    corpus = CorpusSettings(max_quarantine_share=0.95, max_passage_characters=200)  # some records are cut
    return Settings(root=root, strategies=STRATEGIES, batch_size=7, corpus=corpus)


def content(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Checksums of all tables but that of runs, of raw rows wherever they are, and of all arrays but vectors."""
    folder = require_version(Layout(root), "one")[1]
    manifest = read_manifest(folder)
    with connect(folder.tables, read_only=True) as connection:
        assert {name: table_record(connection, name) for name in manifest.tables} == manifest.tables
    tables = {name: record.checksum for name, record in manifest.tables.items() if name != "version_stages"}
    kept = {name: sum_ for name, sum_ in manifest.arrays.items() if "_matrix" not in name}
    arrays = {name: sum_ for name, sum_ in kept.items() if not name.startswith("extraction")}
    return tables | raw_rows(folder.arrays), arrays


def raw_rows(arrays: Path) -> dict[str, str]:
    found = {}
    for name in RAW:
        files = (arrays / f"extraction_{part}.parquet" for part in (name, f"{name}-since", "replaced"))
        query = RawRows([str(next(files))], next(files), next(files)).query()
        rows = sorted(duckdb.sql(f"SELECT r::VARCHAR FROM ({query}) AS r").fetchall())  # type: ignore[union-attr]
        found[f"raw {name}"] = content_hash(*(row[0] for row in rows))
    return found


def matrix(root: Path) -> Any:
    return np.load(require_version(Layout(root), "one")[1].arrays / "vectors-passage_matrix.npy")


def rankings(root: Path) -> list[list[str]]:
    questions = [f"Who founded {name}?" for name in NAMES[:4]]
    with open_index("one", settings=settings_of(root)) as index:
        answers = [answer for strategy in STRATEGIES for answer in index.ask_batch(questions, strategy=strategy)]
    return [[passage["id"] for passage in answer.passages] for answer in answers]


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_any_edits_end_like_a_fresh_build(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 3:  # rows of what changed join those of the version before, however much changed
        monkeypatch.setattr("polyhop.tasks.resolution.stage.MAX_CLUSTER", 2)
        limits = ("tasks.resolution.stage._MOST_CHANGED", "tasks.extraction.stage.MOST_REPLACED")
        for limit in (*limits, "warehouse.build.MOST_APPENDED", "tasks.passages.records.MOST_FRESH"):
            monkeypatch.setattr(f"polyhop.{limit}", math.inf)
    (edited := tmp_path / "edited").mkdir()
    corpus = Corpus(edited, seed)
    for _ in range(EDITS):
        corpus.step()
    (fresh := tmp_path / "fresh").mkdir()
    for name in reversed(corpus.sources):
        corpus.read_whole(name, fresh)
    assert content(edited) == content(fresh)
    assert np.abs(matrix(edited) - matrix(fresh)).max() < 1e-5
    assert rankings(edited) == rankings(fresh)


RANKED_BY = (
    "bridge", "bridge-lexical", "bridge-masked", "bm25", "dense", "graph", "graph-hybrid", "graph-dense", "graph-rrf",
    "rrf", "qasa",
)  # fmt: skip
CHEAP = {"graph", "graph:relations", "lexical:plain", "lexical:stems"}
WITHOUT_VECTORS = tuple(name for name, spec in REGISTERED.items() if set(spec.needs) <= CHEAP)


def _of_both_orders(folder: Path, lines: Sequence[str], strategies: tuple[str, ...]) -> tuple[Path, Path]:
    """Roots with a corpus as it is, and shuffled; their tables and arrays are the same."""
    shuffled = random.Random(13).sample(lines, len(lines))
    assert shuffled != lines
    published = []
    for root, rows in ((folder / "a", lines), (folder / "b", shuffled)):
        root.mkdir()
        (corpus := root / "corpus.jsonl").write_text("".join(rows), encoding="utf-8")
        run_index(Settings(root=root, strategies=strategies), IndexRequest("one", corpus), DirectRunner())
        manifest = read_manifest(Layout(root).index("one").version(1))
        published.append((manifest.tables, manifest.arrays))
    assert published[0] == published[1]
    return folder / "a", folder / "b"


def test_shuffling_the_demo_or_batching_changes_no_answer(tmp_path: Path, demo_folder: Path) -> None:
    lines = (demo_folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    roots = _of_both_orders(tmp_path, lines, RANKED_BY)
    questions = [question.question for question in read_questions(demo_folder / "questions.jsonl")[0]]
    with open_index("one", root=roots[0]) as a, open_index("one", root=roots[1]) as b:
        for strategy in RANKED_BY:
            together = a.ask_batch(questions, strategy=strategy)
            rankings = [
                [[(p["id"], p["score"]) for p in answer.passages] for answer in answers]
                for answers in (together, b.ask_batch(questions, strategy=strategy))
            ]
            assert rankings[0] == rankings[1], strategy
            for question, one in zip(questions, together, strict=True):
                alone = a.ask(question, strategy=strategy)
                assert (alone.passages, alone.answer, alone.evidence) == (one.passages, one.answer, one.evidence)


def test_shuffling_a_generated_corpus_changes_no_table_and_no_array(tmp_path: Path) -> None:
    """For every strategy that needs no vectors; rankings are made of these alone."""
    assert {"bm25", "bridge-lexical", "graph", "graph-hybrid"} <= set(WITHOUT_VECTORS)
    _of_both_orders(tmp_path, [json.dumps(row) + "\n" for row in generate(240, 36, 13)[0]], WITHOUT_VECTORS)
