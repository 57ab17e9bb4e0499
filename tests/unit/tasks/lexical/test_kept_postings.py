"""Texts that the version before has are not tokenised again, and the postings are those of a fresh build."""

import json
import shutil
from pathlib import Path

import pytest

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.languages import ANALYSERS
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.build import chain_fingerprint
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import document_checksum, read_manifest, require_version

pytestmark = pytest.mark.slow

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
    run_index(
        Settings(root=root, strategies=("bm25",)), IndexRequest("one", corpus, full=full, replaces=True), DirectRunner()
    )
    return read_manifest(require_version(Layout(root), "one")[1])


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("published") / "root"
    index(root, TEXTS)
    return root


@pytest.fixture
def root(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "root"))


def arrays_of(manifest: Manifest) -> dict[str, str]:
    return {name: checksum for name, checksum in manifest.arrays.items() if name.startswith("lexical-")}


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


@pytest.mark.parametrize("change", [damage, give_another_revision, None])
def test_postings_that_cannot_be_trusted_are_made_of_all_texts(
    root: Path, tmp_path: Path, tokenised: list[str], change: object
) -> None:
    if callable(change):
        change(root)
    edited = index(root, EDITED, full=change is None)
    assert len(tokenised) == len(EDITED)
    assert arrays_of(edited) == arrays_of(index(tmp_path / "fresh", EDITED))
