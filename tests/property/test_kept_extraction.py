"""Extraction and postings that keep rows of the version before are those from scratch, whatever was edited."""

import json
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.flows.index import run_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.languages import ANALYSERS
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.names import NameFinder
from polyhop.schemas.records import Passage
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.tasks.extraction.rows import raw_tables
from polyhop.tasks.extraction.rules import rules_page
from polyhop.tasks.extraction.stage import ChangedTitles
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest
from polyhop.warehouse.tables.connection import connect

NAMES = ("Alpha", "alpha", "BETA", "Beta", "beta", "gamma", "São", "sao", "İzmir")
WORDS = (*NAMES, "the", "The", "of", "If", "What", "3")
GAPS = (" ", "-", ". ", ", ", "'s ", " & ", " (", "\n")
Corpus = Mapping[str, tuple[str, str]]
"""Title and text by id."""

words = st.sampled_from(WORDS)
titles = st.lists(words, min_size=1, max_size=3).map(" ".join) | st.tuples(words, words).map("{0[0]} ({0[1]})".format)
texts = st.lists(st.tuples(words, st.sampled_from(GAPS)), max_size=12).map(lambda parts: "".join(map("".join, parts)))
passages = st.tuples(titles, texts.map("It is {}.".format))
corpora = st.dictionaries(st.sampled_from("abcdef"), passages, min_size=1)


@st.composite
def edits(draw: st.DrawFn, corpus: Corpus) -> Corpus:
    """The corpus with some passages added, changed or removed."""
    changed = draw(st.dictionaries(st.sampled_from("abcdefg"), st.none() | passages, max_size=2))
    after = {name: page for name, page in {**corpus, **changed}.items() if page is not None}
    return after or corpus


def found(corpus: Corpus, name: str) -> dict[str, list[dict[str, object]]]:
    """What rules find on one passage."""
    title, text = corpus[name]
    finder = NameFinder(title for title, _ in corpus.values())
    page = rules_page(Passage(name, name, name, 0, title, text, 0, len(text)), finder)
    return {table: rows.to_pylist() for table, rows in raw_tables([page]).items()}


@given(before=corpora, data=st.data())
def test_a_text_without_a_changed_title_yields_the_same(before: Corpus, data: st.DataObject) -> None:
    after = data.draw(edits(before))
    changed = ChangedTitles((title for title, _ in before.values()), (title for title, _ in after.values()))
    for name in before.keys() & after.keys():
        if before[name] == after[name] and not any(map(changed.occur_in, before[name])):
            assert found(after, name) == found(before, name)


def test_only_texts_with_all_words_of_a_changed_title_in_a_row_are_touched() -> None:
    changed = ChangedTitles(["Alpha", "Grand Canyon (film)"], ["Alpha"])
    assert changed.occur_in("the GRAND-canyon of")
    assert not changed.occur_in("a canyon, grand")
    assert not changed.occur_in("Alpha and the grand canyons")
    assert not ChangedTitles(["Alpha"], ["Alpha"]).occur_in("Alpha")


def index(root: Path, corpus: Corpus, *, full: bool = False, strategy: str = "bm25") -> IndexReport:
    path = root / "corpus.jsonl"
    rows = ({"id": name, "title": title, "text": text} for name, (title, text) in corpus.items())
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    chosen = Settings(root=root, strategies=(strategy,), batch_size=2)
    return run_index(chosen, IndexRequest("one", path, full=full), DirectRunner())


def content(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Checksums of tables and files of the current version."""
    folder = Layout(root).index("one")
    manifest: Manifest = read_manifest(folder.version(int(folder.current.read_text())))
    tables = {name: record.checksum for name, record in manifest.tables.items() if name != "version_stages"}
    return tables, manifest.arrays


PAGES = {f"p{n}": (f"Town {n}", f"Town {n} lies near Mount Tall.") for n in range(9)}
BURNT = {**PAGES, "p3": ("Town 3", "Town 3 burnt down.")}


@pytest.fixture
def tokenised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts of which tokens were made for postings."""
    texts: list[str] = []
    tokens = ANALYSERS["plain"]
    monkeypatch.setitem(ANALYSERS, "plain", lambda text: texts.append(text) or tokens(text))  # type: ignore[func-returns-value]
    return texts


@pytest.mark.rare
def test_an_edited_passage_is_read_and_for_extraction_those_that_a_new_title_occurs_in(
    tmp_path: Path, tokenised: list[str]
) -> None:
    assert index(tmp_path, PAGES).computed["extract"] == len(tokenised) == 9
    assert index(tmp_path, BURNT).computed["extract"] == 1
    assert tokenised[9:] == ["\n".join(BURNT["p3"])]
    for full, read in ((False, 2), (True, 9)):
        tokenised.clear()
        assert index(tmp_path, {**PAGES, "p8": ("Lies near", "A book.")}, full=full).computed["extract"] == 9
        assert len(tokenised) == read


@pytest.mark.rare
def test_parts_of_a_killed_run_serve_one_that_keeps_no_rows(tmp_path: Path) -> None:
    index(tmp_path, PAGES)
    edited = {**PAGES, **{f"p{n}": (f"Town {n}", f"Town {n} burnt down.") for n in (1, 4, 8)}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("polyhop.tasks.resolution.stage.resolve", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            index(tmp_path, edited)
    assert index(tmp_path, edited, full=True).computed["extract"] == 9
    (fresh := tmp_path / "fresh").mkdir()
    index(fresh, edited)
    assert content(tmp_path) == content(fresh)


@pytest.mark.rare
@pytest.mark.parametrize(
    ("name", "read"),
    [("extraction_passages.parquet", (9, 1)), ("extraction_triples.parquet", (9, 1)), ("lexical-plain_tf.npy", (1, 9))],
)
def test_rows_of_a_damaged_file_are_not_kept(
    tmp_path: Path, name: str, read: tuple[int, int], tokenised: list[str]
) -> None:
    index(tmp_path, PAGES)
    tokenised.clear()
    folder = Layout(tmp_path).index("one")
    path = folder.version(1).arrays / name
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.unlink()
    path.write_bytes(damaged)
    report = index(tmp_path, BURNT)
    assert (report.computed["extract"], len(tokenised)) == read
    assert report.damaged == [f"file '{name}' has another content than was published"]
    after = content(tmp_path)
    index(tmp_path, BURNT, full=True)
    assert content(tmp_path) == after


def test_another_revision_keeps_no_row(tmp_path: Path, tokenised: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    index(tmp_path, PAGES)
    tokenised.clear()
    for stage in ("extraction.stage.Extract", "lexical.stage.LexicalStage"):
        monkeypatch.setattr(f"polyhop.tasks.{stage}.revision", 999)
    assert index(tmp_path, BURNT).computed["extract"] == len(tokenised) == 9


BILLS = {f"b{n}": (f"Bill {n}", f"Payment of bill {n} is due to Tarnwick Engineering in {n} days.") for n in range(20)}


def entity_keys(root: Path) -> set[str]:
    folder = Layout(root).index("one")
    with connect(folder.version(int(folder.current.read_text())).tables, read_only=True) as connection:
        return {key for (key,) in connection.execute("SELECT key FROM entities").fetchall()}


@pytest.mark.rare
def test_what_a_new_title_makes_a_name_is_one_everywhere_and_no_longer_once_it_goes(tmp_path: Path) -> None:
    index(tmp_path, BILLS, strategy="bridge")
    assert "payment" not in entity_keys(tmp_path)
    titled = {**BILLS, "c0": ("Payment", "It is what a buyer owes.")}
    for corpus, is_name in ((titled, True), (BILLS, False)):
        index(tmp_path, corpus, strategy="bridge")
        after = content(tmp_path)
        assert ("payment" in entity_keys(tmp_path)) is is_name
        index(tmp_path, corpus, full=True, strategy="bridge")
        assert content(tmp_path) == after


@pytest.mark.rare
def test_votes_of_an_added_passage_count_for_names_of_all_others(tmp_path: Path) -> None:
    index(tmp_path, BILLS, strategy="bridge")
    edited = {
        **BILLS,
        "b20": ("Order 20", "Payment Partners Ltd sent Payment to Ines Falkner at Tarnwick Engineering."),
    }
    report = index(tmp_path, edited, strategy="bridge")
    assert report.computed["extract"] == 1
    after = content(tmp_path)[0]
    index(tmp_path, edited, full=True, strategy="bridge")
    assert content(tmp_path)[0] == after
