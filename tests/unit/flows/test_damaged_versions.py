"""Published versions whose files changed: not built on, not certified, found by verify and doctor, healed."""

from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest
from real_index import RealIndex, flip, lasting, write_lines

from polyhop.api import open_index
from polyhop.doctor import run_checks
from polyhop.flows.maintain import repair, run_verify
from polyhop.flows.reports import IndexReport
from polyhop.schemas.errors import DamagedStoreError, ManifestMismatchError
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.open_models import close_encoders

pytestmark = pytest.mark.slow

FIX = "polyhop verify --index towns --repair"


class Towns(RealIndex):
    """A root with one published version, and what tests do to it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "towns", strategies=("bridge",))

    def write(self, count: int = 12, *, edited: int = 0) -> None:
        texts = (f"Town {n} lies on the River {n % 4}." + (" It is old." if n < edited else "") for n in range(count))
        rows = ({"id": f"p{n:02d}", "title": f"Town {n}", "text": text} for n, text in enumerate(texts))
        write_lines(self.folder / "corpus.jsonl", rows)

    def index(self, *, source: bool = True, full: bool = False, add: tuple[str, ...] = ()) -> IndexReport:
        read = {"source_name": "corpus"} if source else {}
        return self.run(self.folder / "corpus.jsonl" if source else None, add_strategies=add, full=full, **read)

    def found(self) -> dict[str, list[str]]:
        """Stores that verify finds something in."""
        return {name: some for name, some in run_verify(self.settings, "towns").differences.items() if some}

    def is_repaired(self) -> bool:
        repair(self.settings, run_verify(self.settings, "towns"))
        return not self.found()

    def ask(self) -> str:
        """Title of the first passage."""
        with open_index("towns", settings=self.settings) as index:
            return str(index.ask("Which river does Town 3 lie on?").passages[0]["title"])

    def doctor(self) -> dict[str, str]:
        """Names and messages of the checks that fail."""
        return {check.name: check.message for check in run_checks(self.settings) if not check.ok}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Towns:
    towns = Towns(tmp_path_factory.mktemp("published"))
    towns.write()
    towns.index()
    return towns


@pytest.fixture
def towns(published: Towns, tmp_path: Path) -> Towns:
    close_encoders()
    return published.copy(tmp_path)


def test_damaged_tables_and_arrays_are_made_again_and_said(towns: Towns) -> None:
    before = towns.manifest
    flip(towns.version.arrays / "bipartite_tf.npy")
    report = towns.index(source=False, add=("bm25",))
    sentence = "file 'bipartite_tf.npy' has another content than was published"
    assert report.damaged == [sentence]
    assert ("graph" in report.reused, "lexical-stems" in report.reused) == (False, True)
    assert towns.manifest.arrays["bipartite_tf.npy"] == before.arrays["bipartite_tf.npy"]
    assert towns.found() == {"older_versions": [f"version 1: {sentence}"]}

    flip(towns.version.tables, 4096 + 20)
    with pytest.raises(DamagedStoreError, match=FIX):
        towns.ask()
    assert FIX in towns.doctor()["index towns"]
    report = towns.index()
    assert (report.changed, report.damaged) == (True, ["file 'index.duckdb' has another content than was published"])
    assert lasting(towns.manifest)[0] == lasting(before)[0]
    assert not towns.index().changed
    assert towns.is_repaired()
    assert towns.ask() == "Town 3"


def test_a_lost_view_is_damage_to_the_file_and_a_damaged_list_of_checksums_is_noticed(towns: Towns) -> None:
    with duckdb.connect(str(towns.version.tables)) as connection:
        connection.execute("DROP VIEW entities_of_passage")
    (towns.index_folder.vectors / "checksums.json").write_bytes(b"{")
    assert towns.found() == {
        "tables": ["file 'index.duckdb' has another content than was published"],
        "vectors": ["file 'checksums.json' of the vectors is damaged"],
    }
    assert towns.is_repaired()


def test_a_damaged_corpus_needs_its_source_which_the_sentence_names(towns: Towns, published: Towns) -> None:
    flip(towns.version.tables, 4096 + 20)
    with pytest.raises(DamagedStoreError, match=rf"polyhop index {published.folder}/corpus.jsonl --index towns"):
        towns.index(source=False, full=True)
    assert towns.is_repaired()


def test_full_and_repair_make_lance_tables_from_nothing(towns: Towns) -> None:
    for file in towns.index_folder.vectors.glob("*.lance/_versions/*.manifest"):
        flip(file, 10)
    with open_index("towns", settings=towns.settings) as index, pytest.raises(DamagedStoreError, match=FIX):
        index.search_text("river")
    assert towns.index(full=True).changed
    assert list(towns.found()) == ["older_versions"]
    assert towns.is_repaired()
    with open_index("towns", settings=towns.settings) as index:
        assert len(index.search_text("river")) == 10


def test_a_damaged_manifest_is_refused_and_replaced_from_the_source(towns: Towns) -> None:
    content = towns.version.manifest.read_text()
    towns.version.manifest.write_text(content.replace('"passages": 12', '"passages": 13'))
    for use in (towns.ask, towns.found, lambda: towns.index(source=False, full=True)):
        with pytest.raises(ManifestMismatchError, match="polyhop index SOURCE --index towns"):
            use()
    assert "polyhop index SOURCE --index towns" in towns.doctor()["index towns"]
    towns.index_folder.current.write_text("7\n")
    with pytest.raises(ManifestMismatchError, match="polyhop versions --index towns --use N"):
        towns.index(source=False, full=True)
    assert towns.index().version == 2
    assert towns.is_repaired()


def test_a_damaged_cache_is_named_and_an_index_run_goes_on_with_a_new_one(towns: Towns) -> None:
    before, cache = towns.manifest, Layout(towns.root).vector_cache
    cache.write_bytes(b"no database at all" * 1000)
    assert "vectors.sqlite is damaged (file is not a database)" in towns.found()["caches"][0]
    towns.index(full=True)
    assert towns.manifest.arrays == before.arrays
    assert cache.with_name("vectors.sqlite.damaged-1").exists()
    assert (towns.found(), towns.doctor()) == ({}, {})


def test_a_run_killed_before_its_version_was_visible_is_no_damage(
    towns: Towns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run gives the same number, and so the same pin, to other vectors."""
    towns.write(edited=2)
    with monkeypatch.context() as patched:
        patched.setattr("polyhop.tasks.publish.publish.publish_folder", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            towns.index()
    assert towns.manifest.version == 1
    towns.write(edited=4)
    towns.index()
    assert (towns.manifest.version, towns.found()) == (2, {})
    assert towns.manifest.vectors["passage"].table == "passages"
