"""Postings of an index, built from scratch and kept from the version before."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.languages import ANALYSERS
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.tasks.lexical.postings import build_postings, merged_postings
from polyhop.warehouse.build import chain_fingerprint
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import document_checksum, read_manifest, require_version

TERMS = st.lists(st.sampled_from(["a", "b", "zz", "é"]), max_size=8)


def test_terms_are_numbered_in_ascending_order() -> None:
    index = build_postings([["b", "a", "b"], [], ["c", "a"]])
    assert index.terms == {"a": 0, "b": 1, "c": 2}
    assert index.indptr.tolist() == [0, 2, 3, 4]
    assert index.passages.tolist() == [0, 2, 0, 2]
    assert index.tf.tolist() == [1, 1, 2, 1]
    assert index.lengths.tolist() == [3, 0, 2]
    assert (build_postings([]).terms, build_postings([]).indptr.tolist()) == ({}, [0])


@given(st.lists(TERMS, max_size=8))
def test_postings_count_every_token_once(passages: list[list[str]]) -> None:
    index = build_postings(passages)
    found: dict[int, Counter[str]] = {n: Counter() for n in range(len(passages))}
    for term, number in index.terms.items():
        begin, end = index.indptr[number], index.indptr[number + 1]
        assert (np.diff(index.passages[begin:end]) > 0).all()
        for passage, tf in zip(index.passages[begin:end], index.tf[begin:end], strict=True):
            found[int(passage)][term] = int(tf)
    assert found == {n: Counter(tokens) for n, tokens in enumerate(passages)}


@given(st.lists(st.tuples(TERMS, st.sampled_from(["keep", "drop", "add"])), max_size=8))
def test_postings_from_those_before_are_those_of_all_passages(edits: list[tuple[list[str], str]]) -> None:
    before = [tokens for tokens, edit in edits if edit != "add"]
    after = [(tokens, edit) for tokens, edit in edits if edit != "drop"]
    rows = np.cumsum([edit != "add" for _, edit in edits]) - 1
    numbers = [row if edit == "keep" else -1 for row, (_, edit) in zip(rows, edits, strict=True) if edit != "drop"]
    changed = build_postings(tokens for tokens, edit in after if edit == "add")
    found = merged_postings(build_postings(before), np.array(numbers, dtype=np.int64), changed)
    wanted = build_postings(tokens for tokens, _ in after)
    assert list(found.terms.items()) == list(wanted.terms.items())
    for name in ("indptr", "passages", "tf", "lengths"):
        array, expected = getattr(found, name), getattr(wanted, name)
        assert array.dtype == expected.dtype
        assert array.tolist() == expected.tolist()


TEXTS = {f"p{n}": f"Town {n} lies on River {n % 3}." for n in range(6)}
EDITED = {**TEXTS, "p2": "Town 2 moved to another valley.", "p22": "River 1 is long."}
del EDITED["p4"]
LATER = {**EDITED, "p0": "Nobody knows Town 0."}


@pytest.fixture
def tokenised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts of which tokens were made."""
    texts: list[str] = []
    tokens = ANALYSERS["plain"]
    monkeypatch.setitem(ANALYSERS, "plain", lambda text: texts.append(text) or tokens(text))  # type: ignore[func-returns-value]
    return texts


def index(root: Path, texts: dict[str, str], *, full: bool = False) -> Manifest:
    corpus = root.with_suffix(".jsonl")
    rows = ({"id": name, "title": "", "text": text} for name, text in texts.items())
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    request = IndexRequest("one", corpus, full=full, replaces=True)
    run_index(Settings(root=root, strategies=("bm25",)), request, DirectRunner())
    return read_manifest(require_version(Layout(root), "one")[1])


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("published") / "root"
    index(root, TEXTS)
    return root


@pytest.fixture(scope="module")
def of_edited(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Arrays of an index of the edited texts that has no version before."""
    return arrays_of(index(tmp_path_factory.mktemp("edited") / "root", EDITED))


@pytest.fixture
def root(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "root"))


def arrays_of(manifest: Manifest) -> dict[str, str]:
    return {name: checksum for name, checksum in manifest.arrays.items() if name.startswith("lexical-")}


@pytest.mark.slow
def test_only_changed_texts_are_tokenised(root: Path, tmp_path: Path, tokenised: list[str]) -> None:
    index(root, EDITED)
    edited = index(root, LATER)
    assert tokenised == [EDITED["p2"], EDITED["p22"], LATER["p0"]]
    fresh = index(tmp_path / "fresh", LATER)
    assert arrays_of(edited) == arrays_of(fresh)
    assert edited.stages["lexical-plain"].counts == fresh.stages["lexical-plain"].counts


def damage(root: Path) -> None:
    path = require_version(Layout(root), "one")[1].arrays / "lexical-plain_tf.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def give_another_revision(root: Path) -> None:
    """The manifest of postings that earlier code made."""
    path = require_version(Layout(root), "one")[1].manifest
    document = json.loads(path.read_bytes())
    document["stages"]["lexical-plain"]["recipe"] = chain_fingerprint("lexical-plain", 0, {}, {})
    del document["checksum"]
    path.write_text(json.dumps({**document, "checksum": document_checksum(document)}), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("change", [damage, give_another_revision, None])
def test_postings_that_cannot_be_trusted_are_made_of_all_texts(
    root: Path, of_edited: dict[str, str], tokenised: list[str], change: object
) -> None:
    if callable(change):
        change(root)
    edited = index(root, EDITED, full=change is None)
    assert len(tokenised) == len(EDITED)
    assert arrays_of(edited) == of_edited
