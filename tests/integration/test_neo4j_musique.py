"""Both engines of spreading activation agree on all 100 questions of MuSiQue, on the graph of real extractions.

Encoding 18,000 names would take half a minute, and vectors of 384 numbers as long to write: their words make short
vectors here instead. benchmarks/neo4j_latency.py compares on the encoder's own.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_fixture import Arrays, SmallGraph, connect_to, disagreement
from numpy.typing import NDArray

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.graph import SeedName, SpreadQuestion
from polyhop.schemas.query import Question
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import ExtractionSettings, Settings
from polyhop.warehouse.artefacts import GRAPH, NAMES
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.graph.neo4j_store import Neo4jGraph
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.open import open_published
from polyhop.worker.questions.parts import RuleNaming
from polyhop.worker.strategies.entities import NameLookup
from polyhop.worker.strategies.qasa import EmbeddedEngine, Neo4jEngine, QasaParameters, rules_of

pytestmark = [pytest.mark.rare, pytest.mark.neo4j, pytest.mark.shared_data]
WIDTH = 48
MISSED = 2
"""Questions of the hundred whose seeds may differ: one did, by a neighbour of rank 4, in one of several runs."""
_ENTITIES = "SELECT key, name || ' ' || coalesce(description, '') AS text FROM entities WHERE is_named"
_RELATIONS = (
    "SELECT s.key AS source, r.relation AS label, t.key AS target FROM relations AS r "
    "JOIN entities AS s ON s.entity_id = r.source_id JOIN entities AS t ON t.entity_id = r.target_id "
    "WHERE s.is_named AND t.is_named"
)


@cache
def _of_word(word: str) -> NDArray[np.float64]:
    return np.random.default_rng(zlib.crc32(word.encode())).normal(size=WIDTH)


def vector_of(text: str) -> NDArray[np.float32]:
    """A vector that texts with the same words share in part: every word adds one of its own. Length 1."""
    words = sorted({word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}) or [text]
    total = np.sum([_of_word(word) for word in words], axis=0)
    made: NDArray[np.float32] = (total / np.linalg.norm(total)).astype(np.float32)
    return made


def spread_questions(published: PublishedIndex, questions: Iterable[str]) -> list[SpreadQuestion]:
    """The questions as engines get them: named by rules, looked up in the index."""
    asked = [Question(text, str(number)) for number, text in enumerate(questions)]
    lookup = NameLookup(published)
    made = []
    for question, naming in zip(asked, RuleNaming(published.artefact(NAMES)).name(asked), strict=True):
        found = [(name, *lookup.find(name)) for name in naming.names]
        names = [
            SeedName(name.key, match, entities, None if entities else vector_of(name.search_hint))
            for name, match, entities in found
        ]
        vector = vector_of(question.text)
        made.append(SpreadQuestion(vector, tuple(names) or (SeedName("", "vector", vector=vector),)))
    return made


@pytest.fixture(scope="module")
def musique(
    tmp_path_factory: pytest.TempPathFactory, shared_data: Path, neo4j_server: Any
) -> Iterator[tuple[Arrays, Neo4jGraph, list[SpreadQuestion]]]:
    """The graph as arrays and in the database, and the questions."""
    folder, root = shared_data / "musique100", tmp_path_factory.mktemp("musique")
    extraction = ExtractionSettings(extractor=f"import:{folder / 'openie.jsonl'}")
    settings = Settings(root=root, strategies=("graph",), extraction=extraction)
    run_index(settings, IndexRequest("musique", folder / "corpus.jsonl"), DirectRunner())
    with open_index("musique", root=root) as index:
        texts = {row["key"]: row["text"] for row in index.sql(_ENTITIES).to_pylist()}
        edges = [(row["source"], row["label"], row["target"]) for row in index.sql(_RELATIONS).to_pylist()]
    graph = SmallGraph({key: vector_of(text).tolist() for key, text in texts.items()}, edges)
    published = open_published(root, "musique")
    assert graph.keys == list(published.artefact(GRAPH).keys)
    questions = spread_questions(published, [q.question for q in read_questions(folder / "questions.jsonl")[0]])
    published.close()
    connection = connect_to(neo4j_server)
    yield Arrays(graph.arrays, graph.matrix), graph.load(connection, "musique"), questions
    connection.close()


@pytest.mark.parametrize("parameters", [{}, {"gate": "none", "steps": 2, "edge_multiplicity": "per_edge"}], ids=str)
def test_both_engines_agree_on_all_questions_of_musique(
    musique: tuple[Arrays, Neo4jGraph, list[SpreadQuestion]], parameters: dict[str, Any]
) -> None:
    arrays, database, questions = musique
    rules = rules_of(QasaParameters(**parameters))
    local = [*map(EmbeddedEngine(arrays, rules).activate, questions)]  # type: ignore[arg-type]
    remote = [*map(Neo4jEngine(database, rules).activate, questions)]
    assert len(questions) == 100
    found = {number: disagreement(*pair) for number, pair in enumerate(zip(local, remote, strict=True))}
    differing = {number: words for number, words in found.items() if words}
    # Neo4j's vector search is approximate: now and then it misses a neighbour, and the seeds are others
    assert len(differing) <= MISSED, differing
    assert all(words.startswith("seeds ") for words in differing.values()), differing
    matches = {seed.match for activation in local for seed in activation.seeds}
    assert {"exact", "vector"} <= matches
    assert sum(bool(activation.chains) for activation in local) > 90
