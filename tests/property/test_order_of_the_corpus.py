"""No strategy may profit from the order of passages: shuffled, a corpus gives the same tables, arrays and rankings."""

import random
from pathlib import Path

import pytest

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.files.versions import read_manifest

STRATEGIES = (
    "bridge", "bridge-lexical", "bridge-masked", "bm25", "dense", "graph", "graph-hybrid", "graph-dense", "graph-rrf",
    "rrf", "qasa",
)  # fmt: skip


def _build(root: Path, corpus: Path, strategies: tuple[str, ...]) -> Manifest:
    run_index(Settings(root=root, strategies=strategies), IndexRequest("one", corpus), DirectRunner())
    return read_manifest(Layout(root).index("one").version(1))


def _shuffled(corpus: Path, folder: Path) -> Path:
    lines = corpus.read_text(encoding="utf-8").splitlines(keepends=True)
    random.Random(13).shuffle(lines)
    (folder / "shuffled").mkdir()
    path = folder / "shuffled" / corpus.name
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def demo_root(tmp_path_factory: pytest.TempPathFactory, demo_folder: Path) -> Path:
    """A root with the demo in its own order, which the tests only read."""
    folder: Path = tmp_path_factory.mktemp("demo")
    _build(folder, demo_folder / "corpus.jsonl", STRATEGIES)
    return folder


@pytest.mark.rare
def test_shuffling_the_demo_changes_no_ranking(tmp_path: Path, demo_folder: Path, demo_root: Path) -> None:
    first = read_manifest(Layout(demo_root).index("one").version(1))
    second = _build(tmp_path, _shuffled(demo_folder / "corpus.jsonl", tmp_path), STRATEGIES)
    assert first.tables == second.tables
    assert first.arrays == second.arrays
    questions, _ = read_questions(demo_folder / "questions.jsonl")
    with open_index("one", root=demo_root) as a, open_index("one", root=tmp_path) as b:
        for strategy in STRATEGIES:
            asked = [question.question for question in questions]
            rankings = [
                [
                    [(p["id"], p["score"]) for p in answer.passages]
                    for answer in index.ask_batch(asked, strategy=strategy)
                ]
                for index in (a, b)
            ]
            assert rankings[0] == rankings[1], strategy


@pytest.mark.rare
@pytest.mark.shared_data
def test_shuffling_musique_changes_no_table_and_no_array(tmp_path: Path, shared_data: Path) -> None:
    corpus = shared_data / "musique100" / "corpus.jsonl"
    lexical = ("bridge-lexical", "bm25")
    first = _build(tmp_path / "a", corpus, lexical)
    second = _build(tmp_path / "b", _shuffled(corpus, tmp_path), lexical)
    assert first.tables == second.tables
    assert first.arrays == second.arrays


@pytest.mark.rare
def test_a_question_gets_the_same_result_in_any_batch(demo_root: Path, demo_folder: Path) -> None:
    questions = [question.question for question in read_questions(demo_folder / "questions.jsonl")[0]]
    with open_index("one", root=demo_root) as index:
        for strategy in STRATEGIES:
            together = index.ask_batch(questions, strategy=strategy)
            for question, one in zip(questions, together, strict=True):
                alone = index.ask(question, strategy=strategy)
                assert (alone.passages, alone.answer, alone.evidence) == (one.passages, one.answer, one.evidence)
