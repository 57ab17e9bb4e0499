"""`bridge-masked` on published versions: an independent plain version ranks alike, and nobody else sees its edges."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from plain_bridge_masked import PlainBridgeMasked
from small_indexes import indexed, write_rows

from polyhop.api import Index, open_index
from polyhop.flows.evaluate import run_evaluation
from polyhop.schemas.languages import ANALYSERS
from polyhop.schemas.requests import EvaluationRequest
from polyhop.schemas.settings import ReaderSettings, Settings
from polyhop.warehouse.artefacts import ALIASES, NAMES, vectors_of
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.files.versions import read_manifest, require_version

NAME = "bridge-masked"
OF_THE_GRAPH = ("bridge", "bridge-lexical", "graph", "graph-hybrid", "graph-dense", "rrf-ppr", "fusion", "bm25-rm3")
FIRST = 20
QUESTIONS, OTHERS = 40, 8
"""Of MuSiQue: the first questions, and every eighth passage beside their gold."""
_PASSAGES = "SELECT passage_id, title, text FROM passages"
_MENTIONS = """
SELECT unit_id, key, sum(tf)::DOUBLE, bool_or(is_title)
FROM mentions JOIN entities USING (entity_id) WHERE level = 'passage' AND is_named GROUP BY unit_id, key
"""


def plain_on(index: Index) -> PlainBridgeMasked:
    """The plain version on an open index."""
    published, services = index.session.published, index.session.services
    finder, aliases = published.artefact(NAMES), published.artefact(ALIASES)
    keys = {row["key"] for row in index.sql("SELECT key FROM entities WHERE is_named").to_pylist()}

    def names(text: str) -> list[tuple[str, int, int]]:
        return [(m.key if m.key in keys else aliases.get(m.key, m.key), m.start, m.end) for m in finder.find(text)]

    matrix = published.artefact(vectors_of("passage"))
    return PlainBridgeMasked(
        [tuple(row.values()) for row in index.sql(_PASSAGES).to_pylist()],
        [tuple(row.values()) for row in index.sql(_MENTIONS).to_pylist()],
        dict(zip(published.passage_ids, matrix, strict=True)),
        names,
        ANALYSERS["stems"],
        lambda text: services.encode([text])[0],
    )


def differing(root: Path, name: str, questions: Path, step: int = 1) -> tuple[list[str], int]:
    """Of every `step`-th question those whose first passages, or masks, are not the plain version's; and all masks."""
    texts = [record.question for record in read_questions(questions)[0]][::step]
    with open_index(name, settings=Settings(root=root, reader=ReaderSettings(reads=False))) as index:
        answers, plain = index.ask_batch(texts, strategy=NAME, limit=FIRST), plain_on(index)
        found, masks = [], 0
        for text, answer in zip(texts, answers, strict=True):
            expected, masked = plain.ask(text, FIRST)
            notes = {note["label"]: note["text"] for note in answer.evidence["notes"]}
            masks += bool(masked)
            if [p["id"] for p in answer.passages] != expected or notes["Masked question"] != (masked or "none"):
                found.append(text)
        return found, masks


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, demo_folder: Path) -> Path:
    """A root with two indexes of the demo for strategies that walk its graph; one is for bridge-masked, too."""
    root = tmp_path_factory.mktemp("masked")
    for name, strategies in (("without", OF_THE_GRAPH), ("with", (*OF_THE_GRAPH, NAME))):
        indexed(Settings(root=root, strategies=strategies), demo_folder / "corpus.jsonl", name)
    return root


@pytest.mark.rare
def test_a_plain_version_ranks_the_demo_alike(demo: Path, demo_folder: Path) -> None:
    differs, masks = differing(demo, "with", demo_folder / "questions.jsonl")
    assert differs == []
    assert masks > 10


@pytest.mark.rare
def test_all_other_tables_arrays_and_counts_are_as_without_it(demo: Path) -> None:
    ours, theirs = (read_manifest(require_version(Layout(demo), name)[1]) for name in ("with", "without"))
    assert set(ours.tables) - set(theirs.tables) == {"title_chunks"}
    ignored = {"title_chunks", "version_stages"}
    assert {n: t for n, t in ours.tables.items() if n not in ignored} == {
        n: t for n, t in theirs.tables.items() if n not in ignored
    }
    assert {n: s for n, s in ours.arrays.items() if not n.startswith("title-chunks_")} == theirs.arrays
    assert {name: record.counts for name, record in ours.stages.items() if name != "title-chunks"} == {
        name: record.counts for name, record in theirs.stages.items()
    }
    with open_index("with", root=demo) as index:
        (found,) = index.sql("SELECT count(*) AS n FROM title_chunks").to_pylist()
        doubled = index.sql(
            "SELECT count(*) AS n FROM title_chunks AS c JOIN mentions AS m ON m.unit_id = c.passage_id "
            "AND m.entity_id = c.entity_id"
        ).to_pylist()
    assert found["n"] == ours.stages["title-chunks"].counts["title_chunks"] > 0
    assert doubled == [{"n": 0}]


@pytest.mark.rare
def test_all_other_strategies_rank_as_without_it(demo: Path, demo_folder: Path) -> None:
    texts = [record.question for record in read_questions(demo_folder / "questions.jsonl")[0]]
    rankings: dict[str, list[Any]] = {}
    for name in ("with", "without"):
        with open_index(name, settings=Settings(root=demo, reader=ReaderSettings(reads=False))) as index:
            rankings[name] = [
                [(answer.passages, answer.evidence) for answer in index.ask_batch(texts, strategy=strategy)]
                for strategy in OF_THE_GRAPH
            ]
    assert rankings["with"] == rankings["without"]


@dataclass(frozen=True)
class Musique:
    """An index of MuSiQue's first questions: their gold passages, and a part of the others.

    `whole`: all 100 questions and 1,879 passages (POLYHOP_WHOLE_MUSIQUE=1), whose vectors take most of a minute.
    """

    root: Path
    questions: Path
    whole: bool


@pytest.fixture(scope="module")
def musique(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Musique:
    folder, data = tmp_path_factory.mktemp("musique"), shared_data / "musique100"
    whole = bool(os.environ.get("POLYHOP_WHOLE_MUSIQUE"))
    questions = (data / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    passages = (data / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    if not whole:
        questions = questions[:QUESTIONS]
        gold = {passage for line in questions for passage in json.loads(line)["supporting"]}
        passages = [line for n, line in enumerate(passages) if n % OTHERS == 0 or json.loads(line)["id"] in gold]
    for name, lines in (("questions", questions), ("corpus", passages)):
        write_rows(folder / f"{name}.jsonl", [], *lines)
    indexed(Settings(root=folder / "root", strategies=("bridge", NAME)), folder / "corpus.jsonl", "musique")
    return Musique(folder / "root", folder / "questions.jsonl", whole)


@pytest.mark.rare
@pytest.mark.shared_data
def test_a_plain_version_ranks_musique_alike(musique: Musique) -> None:
    """Every second of the first questions; of the whole set all, of which 91 have a mask."""
    step = 1 if musique.whole else 2
    differs, masks = differing(musique.root, "musique", musique.questions, step)
    assert differs == []
    assert masks > (80 if musique.whole else QUESTIONS // step * 0.8)


@pytest.mark.rare
@pytest.mark.shared_data
def test_musique_s_gold_passages_are_found_as_ever(musique: Musique) -> None:
    """Of the whole set the floors of bridge-masked.md 6 (measured .872, .911); of the part just below .910, .952."""
    settings = Settings(root=musique.root, reader=ReaderSettings(reads=False))
    report = run_evaluation(settings, EvaluationRequest(musique.questions, "musique", (NAME, "bridge"))).report
    means = report["strategies"]
    masked_5, masked_10, bridge_5 = (0.855, 0.89, 0.827) if musique.whole else (0.9, 0.94, 0.91875)
    assert means[NAME]["recall@5"] >= masked_5
    assert means[NAME]["recall@10"] >= masked_10
    assert means["bridge"]["recall@5"] == pytest.approx(bridge_5, abs=5e-4), means
