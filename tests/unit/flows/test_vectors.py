"""Vectors: kinds beside passages and entities, copies from the version before, triples beside propositions."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from real_index import RealIndex, flip, lasting, write_lines
from small_indexes import town_records

from polyhop.api import Index, open_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.schemas.errors import ConfigurationError, InvariantError, MissingArtefactError
from polyhop.schemas.ports import Strategy
from polyhop.schemas.settings import parse_settings
from polyhop.warehouse.artefacts import ENTITY_IDS, partitioned, vectors_of
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.open import open_published
from polyhop.warehouse.open_models import close_encoders
from polyhop.warehouse.propositions import STORED_PROPOSITIONS
from polyhop.warehouse.vectors import kinds
from polyhop.warehouse.vectors.kinds import VectorKind, declare, kinds_in
from polyhop.warehouse.vectors.lance import LanceTable
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


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (f"{TITLE_ROWS} UNION ALL {TITLE_ROWS}", InvariantError, r"table 'embeddings' has \d+ rows with a used key"),
        ("SELEC 1", ConfigurationError, "rows of the vector kind 'title' cannot be read: .*syntax error"),
        ("SELECT passage_id AS id, passage_id AS rank FROM passages", ConfigurationError, "cannot be read: .*first"),
    ],
    ids=["twice", "syntax", "no first"],
)
def test_rows_of_a_kind_that_are_wrong_are_not_published(
    tmp_path: Path, titles: VectorKind, monkeypatch: pytest.MonkeyPatch, rows: str, error: type[Exception], words: str
) -> None:
    monkeypatch.setattr(kinds, "_DECLARED", {})
    declare(replace(titles, rows=rows))
    with pytest.raises(error, match=words):
        RealIndex(tmp_path, strategies=("near-title",), batch_size=1).read(RECORDS)


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


MATRIX, HASHES = "vectors-name_matrix.npy", "vectors-name_hashes.npy"


class Places(RealIndex):
    """An index of a few passages, with vectors of passages, propositions and names."""

    def index(self, *lakes: int, full: bool = False) -> IndexReport:
        """Indexes ten passages; those with these numbers are about lakes."""
        names = [f"{'Lake' if n in lakes else 'Mount'} Number{n}" for n in range(10)]
        rows = [{"id": f"p{n}", "title": name, "text": f"{name} is near Old Town{n}."} for n, name in enumerate(names)]
        return self.read(rows, source_name="corpus", full=full)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Places:
    places = Places(tmp_path_factory.mktemp("places"), strategies=("proprag",), batch_size=4)
    places.index()
    return places


@pytest.fixture
def places(indexed: Places, tmp_path: Path) -> Places:
    close_encoders()
    return indexed.copy(tmp_path)


@pytest.fixture
def keys_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    keys: list[str] = []
    get_many = VectorCache.get_many

    def asked(self: VectorCache, some: list[str], dimension: int | None = None) -> dict[str, np.ndarray]:
        keys.extend(some)
        return get_many(self, some, dimension)

    monkeypatch.setattr(VectorCache, "get_many", asked)
    return keys


def test_only_what_the_version_before_lacks_is_asked_of_the_cache(places: Places, keys_read: list[str]) -> None:
    with sqlite3.connect(Layout(places.root).vector_cache) as connection:
        connection.execute("DELETE FROM vectors")
    connection.close()
    report = places.index(3)
    assert report.computed == {"extract": 1, "embed-passage": 0, "embed-proposition": 1, "embed-name": 1}
    assert len(keys_read) == 5  # and of extraction the record of the names and the vector
    edited = places.manifest
    places.index(3, full=True)
    assert len(keys_read) > 3 * 10
    assert lasting(places.manifest) == lasting(edited)


@pytest.mark.rare
@pytest.mark.parametrize(("name", "damage"), [(MATRIX, flip), (HASHES, os.unlink)])
def test_damage_is_not_copied(places: Places, keys_read: list[str], name: str, damage: Callable[[Path], None]) -> None:
    damage(places.version.arrays / name)
    report = places.index(3)
    assert any(f"'{name}'" in sentence for sentence in report.damaged)
    assert report.computed["embed-name"] == 1
    assert len(keys_read) > 10
    edited = places.manifest
    places.index(3, full=True)
    assert lasting(places.manifest) == lasting(edited)


def test_vectors_of_a_version_without_hashes_are_read_from_the_cache(places: Places, keys_read: list[str]) -> None:
    document = json.loads(places.version.manifest.read_bytes())
    for name in [name for name in document["arrays"] if name.endswith("_hashes.npy")]:
        del document["arrays"][name]
        (places.version.arrays / name).unlink()
    del document["checksum"]
    places.version.manifest.write_text(json.dumps(document))
    report = places.index(3)
    assert (report.damaged, report.computed["embed-name"]) == ([], 1)
    assert len(keys_read) > 3 * 10
    assert HASHES in places.manifest.arrays


@pytest.mark.rare
def test_a_killed_run_is_finished_without_the_version_before(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that the killed run left hold what was new to it only."""
    with monkeypatch.context() as patched:
        patched.setattr("polyhop.flows.index._IndexRun._publish", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            places.index(3)
    list(map(flip, places.version.arrays.glob("vectors-*_matrix.npy")))
    assert places.index(3).computed["embed-name"] == 0
    resumed = places.manifest
    places.index(3, full=True)
    assert lasting(places.manifest) == lasting(resumed)


STATED: dict[str, list[list[str]]] = {
    "The Nile": [["The Nile", "flows through", "Cairo"], ["Cairo", "is the capital of", "Egypt"]],
    "Cairo Tower": [["Cairo Tower", "stands in", "Cairo"], ["Naoum Shebib", "designed", "Cairo Tower"]],
    "Naoum Shebib": [["Naoum Shebib", "was born in", "Cairo"]],
    "Warsaw": [["Warsaw", "lies on", "the Vistula"], ["Warsaw", "is the capital of", "Poland"]],
}
"""What each page says, by title."""
TEXTS = {title: " ".join(f"{' '.join(triple)}." for triple in triples) for title, triples in STATED.items()}
SPOKEN = [{"id": f"p{n}", "title": title, "text": text} for n, (title, text) in enumerate(TEXTS.items(), start=1)]
SENTENCES: dict[str, list[dict[str, Any]]] = {
    "p1": [{"text": "the nile flows through cairo.", "entities": ["Cairo", "The Nile", "Egypt"]}],
    "p2": [{"text": "Naoum Shebib designed the tower in Cairo.", "entities": ["Naoum Shebib", "Cairo"]}],
}

QUESTIONS = ["Where was the designer of the Cairo Tower born?", "Which capital lies on the Vistula?"]


@pytest.fixture
def one(tmp_path: Path) -> RealIndex:
    return RealIndex(tmp_path)


def build(
    one: RealIndex, extractor: str, records: list[dict[str, str]] = SPOKEN, *strategies: str, sentences: bool = False
) -> IndexReport:
    """Indexes with triples by rules, or imported, alone or with propositions of their rows' own."""
    if extractor == "import":
        rows: list[dict[str, Any]] = [{"id": f"p{n}", "triples": said} for n, said in enumerate(STATED.values(), 1)]
        if sentences:
            rows = [row | {"propositions": SENTENCES.get(row["id"], [])} for row in rows]
        extractor = f"import:{write_lines(one.folder / 'openie.jsonl', rows)}"
    flags = {"root": str(one.root), "strategies": strategies or ("proprag", "triple-ppr")}
    one.settings = parse_settings({"flags": flags | {"extraction.extractor": extractor}})
    return one.read(records)


def rankings(one: RealIndex, strategy: str, **parameters: object) -> list[list[tuple[str, float]]]:
    with open_index("i", root=one.root) as index:
        answers = index.ask_batch(QUESTIONS, strategy=strategy, parameters=parameters)
    return [[(row["id"], row["score"]) for row in answer.passages] for answer in answers]


@pytest.mark.rare
def test_where_propositions_are_triples_both_strategies_give_the_same(one: RealIndex) -> None:
    computed = build(one, "import").computed
    assert one.rows("SELECT text FROM triples ORDER BY 1") == one.rows("SELECT text FROM propositions ORDER BY 1")
    assert computed["embed-proposition"] + computed["embed-triple"] == 7  # each once, whichever stage asks first
    assert computed["embed-name"] + computed["embed-triplename"] == 8
    found = rankings(one, "triple-ppr")
    assert found == rankings(one, "proprag", preset="hipporag2")
    assert found != rankings(one, "proprag")
    assert rankings(one, "triple-ppr", preset="proprag") == rankings(one, "proprag")
    assert not any(run_verify(one.settings, "i").differences.values())
    again = build(one, "import")
    assert (again.changed, sum(again.computed.values())) == (False, 0)


def test_triples_stand_beside_a_rows_own_propositions_and_each_strategy_searches_its_own(one: RealIndex) -> None:
    build(one, "import", sentences=True)
    assert one.rows("SELECT (SELECT count(*) FROM propositions), (SELECT count(*) FROM triples)") == [(2, 7)]
    assert rankings(one, "proprag", preset="hipporag2") != rankings(one, "triple-ppr")
    index = open_published(one.root, "i")
    stored = index.artefact(STORED_PROPOSITIONS)  # what `proprag` searches
    assert (sorted(stored.keys), stored.graph.shape[0]) == (["cairo", "egypt", "naoum shebib", "the nile"], 2)
    index.close()


def test_a_graph_over_triples_is_built_where_a_strategy_needs_it_and_edits_embed_theirs_only(one: RealIndex) -> None:
    report = build(one, "rules", SPOKEN, "proprag")
    assert not {"triples", "embed-triple", "embed-triplename"} & report.seconds.keys()
    with open_index("i", root=one.root) as index, pytest.raises(MissingArtefactError, match="triple-ppr"):
        index.ask(QUESTIONS[0], strategy="triple-ppr")
    assert {"extract", "resolve", "propositions"} <= set(build(one, "rules").reused)
    assert ("Warsaw lies on Vistula.",) in one.rows("SELECT text FROM triples")
    assert [row[0][0] for row in rankings(one, "triple-ppr")][1] == "p4"
    records = [*SPOKEN, {"id": "p5", "title": "Oslo", "text": "Oslo, then, is the capital of Norway."}]
    report = build(one, "rules", records)
    assert (report.computed["embed-triple"], report.computed["embed-triplename"]) == (1, 2)


SEEDED_BY_VECTORS = ("bridge", "bridge-masked", "dense", "graph-dense", "naive-vector")
ABOUT_TOWNS = ["Which river does Town 7 lie on?", "Which towns lie in the country of Town 12?"]


def passages(index: Index, strategy: str) -> list[Any]:
    return [answer.passages for answer in index.ask_batch(ABOUT_TOWNS, strategy=strategy, limit=20)]


def test_partitions_of_a_version_find_what_exact_search_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    nearest = LanceTable.nearest_rows

    def counted(table: LanceTable, *arguments: Any) -> Any:
        searches.extend(arguments[1:2] if arguments[1] > 1 else [])  # a search for one opens LanceDB
        return nearest(table, *arguments)

    monkeypatch.setattr(LanceTable, "nearest_rows", counted)
    for name, value in {"LEAST_EDGES": 0, "_WHOLE_STEP_SHARE": 2}.items():
        monkeypatch.setattr(f"polyhop.worker.ranking.pagerank.{name}", value)
    monkeypatch.setattr("polyhop.worker.strategies.bridge.BridgeStrategy.thinnest", 1e-9)
    found = {}
    for below, asked in ((101, 0), (100, 2 * len(SEEDED_BY_VECTORS) + 2)):  # bridge-masked searches twice
        index = RealIndex(tmp_path / str(below), strategies=SEEDED_BY_VECTORS, search={"exact_below": below})
        monkeypatch.setattr("polyhop.tasks.embeddings.stage._BLOCK", 7 if asked else 8192)  # parts end inside blocks
        # the second edition changes every row, and partitions are made again; the third three, one goes, one comes
        new = {"id": "q", "title": "Town 7 Old Town", "text": "The old town of Town 7 lies on the River 0, too."}
        for rows in (town_records(1), town_records(2), [*town_records(3)[:3], *town_records(2)[4:], new]):
            index.read(rows)
        records = [index.manifest.vectors[kind].partitions for kind in ("passage", "entity")]
        measured = [(record.recall_at_10, record.changed) for record in records if record]
        # more than a twentieth of the entities changed since the first edition: they are parted again
        assert measured == ([(1.0, 4), (1.0, 0)] if asked else [])
        assert run_verify(index.settings, "i").ok
        large = {"title-keys_pairs.npy", "bipartite_passages.npy", "bipartite_keys.txt"}
        assert index.manifest.arrays.keys() & large == (large if asked else set())
        searches.clear()
        with open_index("i", root=index.root) as opened:
            found[below] = {name: passages(opened, name) for name in SEEDED_BY_VECTORS}
            opened.ask_batch(ABOUT_TOWNS, strategy="bridge", where="id < 'p050'")
            assert len(searches) == asked
            published = opened.session.published
            ids: Any = published.artefact(ENTITY_IDS)
            own = dict(zip(ids, published.artefact(vectors_of("entity")).tolist(), strict=True))
            assert {row["id"]: row["vector"] for row in opened.sql("FROM entity_vectors").to_pylist()} == own
            parts: Any = published.artefact(partitioned("passage"))
            matrix = np.asarray(published.artefact(vectors_of("passage")))
            for vector in matrix[:20] if parts else ():  # of what changed, nothing beyond the farthest found
                changed = published.array("partitions", "changed")
                near, cosines = parts.search_ahead(vector, 5).result(), matrix @ vector
                stays = near[~np.isin(near, changed)]
                wanted = [n for n in changed.tolist() if cosines[n] >= cosines[stays[-1]]]
                assert sorted(set(near.tolist()).difference(stays.tolist())) == wanted
    assert found[100] == found[101]
