"""Published versions whose files changed: not built on, not certified, found by verify and doctor, healed."""

import shutil
from pathlib import Path

import duckdb
import pytest
from real_index import RealIndex, flip, lasting, write_lines

from polyhop.api import open_index
from polyhop.doctor import run_checks
from polyhop.flows.maintain import VerifyReport, repair, run_verify
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

    @property
    def vectors(self) -> Path:
        return self.index_folder.vectors

    def write(self, count: int = 12, *, edited: int = 0) -> None:
        texts = (f"Town {n} lies on the River {n % 4}." + (" It is old." if n < edited else "") for n in range(count))
        rows = ({"id": f"p{n:02d}", "title": f"Town {n}", "text": text} for n, text in enumerate(texts))
        write_lines(self.folder / "corpus.jsonl", rows)

    def index(self, *, source: bool = True, full: bool = False, add: tuple[str, ...] = ()) -> IndexReport:
        read = {"source_name": "corpus"} if source else {}
        return self.run(self.folder / "corpus.jsonl" if source else None, add_strategies=add, full=full, **read)

    def verify(self) -> VerifyReport:
        return run_verify(self.settings, "towns")

    def found(self) -> dict[str, list[str]]:
        """Stores that verify finds something in."""
        return {name: some for name, some in self.verify().differences.items() if some}

    def repaired(self) -> VerifyReport:
        repair(self.settings, self.verify())
        return self.verify()

    def ask(self) -> str:
        """Title of the first passage."""
        with open_index("towns", settings=self.settings) as index:
            return str(index.ask("Which river does Town 3 lie on?").passages[0]["title"])

    def doctor(self) -> dict[str, str]:
        """Names and messages of the checks that fail."""
        return {check.name: check.message for check in run_checks(self.settings) if not check.ok}


def one(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[0]


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


def test_a_damaged_array_is_made_again_and_said(towns: Towns) -> None:
    """It used to be taken over: the next version's manifest stated the checksum of the damaged file."""
    before = towns.manifest
    flip(towns.version.arrays / "bipartite_tf.npy")
    report = towns.index(source=False, add=("bm25",))
    assert report.damaged == ["file 'bipartite_tf.npy' has another content than was published"]
    assert "graph" not in report.reused
    assert "lexical-stems" in report.reused
    after = towns.manifest
    assert after.version == 2
    assert after.arrays["bipartite_tf.npy"] == before.arrays["bipartite_tf.npy"]
    assert list(towns.found()) == ["older_versions"]
    assert towns.found()["older_versions"] == [f"version 1: {report.damaged[0]}"]
    assert towns.repaired().ok
    assert towns.ask() == "Town 3"


def test_damaged_tables_are_not_called_unchanged(towns: Towns) -> None:
    """`polyhop index` said "nothing has changed" on a version that nobody could open."""
    before = towns.manifest
    flip(towns.version.tables, 4096 + 20)
    with pytest.raises(DamagedStoreError, match=FIX):
        towns.ask()
    assert FIX in towns.doctor()["index towns"]
    report = towns.index()
    assert report.changed
    assert report.damaged == ["file 'index.duckdb' has another content than was published"]
    assert lasting(towns.manifest)[0] == lasting(before)[0]
    assert towns.ask() == "Town 3"
    assert not towns.index().changed


def test_a_lost_view_is_damage_to_the_file(towns: Towns) -> None:
    with duckdb.connect(str(towns.version.tables)) as connection:
        connection.execute("DROP VIEW entities_of_passage")
    sentence = "file 'index.duckdb' has another content than was published"
    assert towns.found() == {"tables": [sentence]}
    report = towns.index()
    assert (report.changed, report.damaged) == (True, [sentence])
    assert "resolve" not in report.reused
    assert towns.repaired().ok


def test_a_damaged_corpus_needs_its_source_which_the_sentence_names(towns: Towns, published: Towns) -> None:
    flip(towns.version.tables, 4096 + 20)
    with pytest.raises(DamagedStoreError, match=rf"polyhop index {published.folder}/corpus.jsonl --index towns"):
        towns.index(source=False, full=True)
    assert towns.repaired().ok
    assert towns.ask() == "Town 3"


@pytest.mark.rare
@pytest.mark.parametrize(
    "pattern", ["_versions/*3.manifest", "_indices/*/part_0_docs.lance", "data/*.lance", "_refs/tags/*"]
)
def test_damage_to_any_file_of_lancedb_is_found_and_stops_no_edit(towns: Towns, pattern: str) -> None:
    """Damaged index files and older manifests were invisible, and every later edit ended in LanceDB's own words."""
    flip(one(towns.vectors / "passages.lance", pattern), 20)
    (sentence,) = towns.found()["vectors"]
    assert "has another content than was written" in sentence
    assert FIX in towns.doctor()["index towns"]
    towns.write(edited=3)
    report = towns.index()
    assert sentence in report.damaged
    assert towns.manifest.vectors["passage"].table == "passages-2"
    assert list(towns.found()) == ["older_versions"]
    assert towns.repaired().ok
    assert not (towns.vectors / "passages.lance").exists()
    towns.write(edited=4)
    assert towns.index().damaged == []
    assert towns.manifest.vectors["passage"].table == "passages-2"
    assert towns.verify().ok


def test_full_and_repair_make_lance_tables_from_nothing(towns: Towns) -> None:
    for file in towns.vectors.glob("*.lance/_versions/*.manifest"):
        flip(file, 10)
    with open_index("towns", settings=towns.settings) as index, pytest.raises(DamagedStoreError, match=FIX):
        index.search_text("river")
    assert towns.index(full=True).changed
    assert list(towns.found()) == ["older_versions"]
    assert towns.repaired().ok
    with open_index("towns", settings=towns.settings) as index:
        assert len(index.search_text("river")) == 10


def test_a_list_of_checksums_that_is_damaged_itself_is_noticed(towns: Towns) -> None:
    (towns.vectors / "checksums.json").write_bytes(b"{")
    assert towns.found()["vectors"] == ["file 'checksums.json' of the vectors is damaged"]
    assert towns.repaired().ok


def test_a_damaged_manifest_is_refused_and_replaced_from_the_source(towns: Towns) -> None:
    content = towns.version.manifest.read_text()
    towns.version.manifest.write_text(content.replace('"passages": 12', '"passages": 13'))
    for use in (towns.ask, towns.verify, lambda: towns.index(source=False, full=True)):
        with pytest.raises(ManifestMismatchError, match="polyhop index SOURCE --index towns"):
            use()
    assert "polyhop index SOURCE --index towns" in towns.doctor()["index towns"]
    assert towns.index().version == 2
    assert towns.repaired().ok


def test_a_pointer_to_nothing_is_named_and_an_index_run_replaces_it(towns: Towns) -> None:
    pointer = towns.index_folder.current
    for content in ("7\n", "\x11\n", "1\x8a"):
        pointer.write_bytes(content.encode("latin-1"))
        for use in (towns.ask, towns.verify, lambda: towns.index(source=False, full=True)):
            with pytest.raises(ManifestMismatchError, match="polyhop versions --index towns --use N"):
                use()
    assert towns.index().version == 2
    assert towns.verify().ok


def test_a_damaged_cache_is_named_and_an_index_run_goes_on_with_a_new_one(towns: Towns) -> None:
    before, cache = towns.manifest, Layout(towns.root).vector_cache
    cache.write_bytes(b"no database at all" * 1000)
    assert "vectors.sqlite is damaged (file is not a database)" in towns.found()["caches"][0]
    towns.index(full=True)
    assert towns.manifest.arrays == before.arrays
    assert cache.with_name("vectors.sqlite.damaged-1").exists()
    assert towns.verify().ok
    assert towns.doctor() == {}


def test_what_a_killed_removal_left_goes_away_with_the_next_run(towns: Towns) -> None:
    versions = towns.index_folder.versions
    shutil.copytree(versions / "000001", versions / "000000")
    (versions / "000000" / "manifest.json").unlink()
    report = towns.index(source=False)
    assert (report.changed, report.removed_versions) == (False, [0])
    assert [folder.name for folder in versions.iterdir()] == ["000001"]


def test_a_run_killed_before_its_version_was_visible_is_no_damage(
    towns: Towns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run gives the same number, and so the same pin, to other vectors."""
    towns.write(edited=2)
    with monkeypatch.context() as patched:
        patched.setattr("polyhop.tasks.publish.publish.publish_folder", _killed)
        with pytest.raises(KeyboardInterrupt):
            towns.index()
    assert towns.manifest.version == 1
    towns.write(edited=4)
    towns.index()
    assert towns.manifest.version == 2
    assert towns.found() == {}
    assert towns.manifest.vectors["passage"].table == "passages"


def _killed(*_: object) -> None:
    raise KeyboardInterrupt
