"""Vectors of entities in Neo4j: exported, indexed, verified; retrieval refuses a database that lacks them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_fixture import address_of, connect_to
from neo4j_process import Neo4jServer

from polyhop.flows.export import Published, run_export
from polyhop.flows.index import run_index
from polyhop.flows.maintain import repair, run_verify
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ContractError, MissingArtefactError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import EncoderSettings, Settings
from polyhop.warehouse.artefacts import GRAPH, vectors_of
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection, vector_index
from polyhop.warehouse.graph.neo4j_store import Neo4jStore
from polyhop.warehouse.open import open_published

pytestmark = pytest.mark.neo4j
TEXTS = [
    ("Oslo", "Oslo lies on the Oslo Fjord in Norway."),
    ("Bergen", "Bergen is a city in Norway near Mount Ulriken."),
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A root with an index that has vectors, and one that has none."""
    folder = tmp_path_factory.mktemp("vectors")
    path = folder / "corpus.jsonl"
    rows = [{"id": title, "title": title, "text": text} for title, text in TEXTS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for index, strategies in (("with", ("naive-vector",)), ("without", ("bm25", "graph"))):
        chosen = Settings(root=folder / "root", strategies=strategies)
        run_index(chosen, IndexRequest(index, path), DirectRunner())
    return Settings(root=folder / "root")


@pytest.fixture(scope="module")
def connection(neo4j_server: Neo4jServer, settings: Settings) -> Iterator[Neo4jConnection]:
    """A database that holds both indexes; whoever damages it repairs it."""
    opened = connect_to(neo4j_server)
    opened.write([("MATCH (n) DETACH DELETE n", {})])
    for index in ("with", "without"):
        run_export(settings, index, opened.address, DirectRunner())
    yield opened
    opened.close()


@pytest.mark.rare
def test_vectors_of_another_encoder_with_1536_dimensions_replace_those_before(
    neo4j_server: Neo4jServer, settings: Settings, model_server: Any, tmp_path: Path
) -> None:
    """The export follows the dimension of the version, both ways."""
    corpus, opened = settings.root.parent / "corpus.jsonl", connect_to(neo4j_server)
    served = EncoderSettings(name="litellm:openai/scripted", dimension=1536, api_base=model_server.url)
    for encoder, dimension in ((served, 1536), (EncoderSettings(name="local"), 384)):
        chosen = Settings(root=tmp_path, strategies=("naive-vector",), encoder=encoder)
        run_index(chosen, IndexRequest("served", corpus), DirectRunner())
        run_export(chosen, "served", opened.address, DirectRunner())
        rows = opened.read("MATCH (e:Entity {index: 'served'}) WHERE e.is_named RETURN DISTINCT size(e.embedding) AS d")
        assert rows == [{"d": dimension}]
        assert Neo4jStore(opened, "served").has_vector_index(dimension)
        assert run_verify(chosen, "served", opened.address).ok
    opened.close()


def test_every_named_entity_has_the_vector_of_the_index(settings: Settings, connection: Neo4jConnection) -> None:
    rows = connection.read(
        "MATCH (e:Entity {index: 'with'}) WHERE e.is_named RETURN e.folded_key AS key, e.embedding AS v ORDER BY key"
    )
    published = open_published(settings.root, "with")
    assert [row["key"] for row in rows] == list(published.artefact(GRAPH).keys)
    vectors = np.asarray(published.artefact(vectors_of("entity")))
    assert np.array([row["v"] for row in rows]) == pytest.approx(vectors, abs=1e-6)
    published.close()
    assert connection.read("MATCH (e:Entity {index: 'without'}) WHERE e.embedding IS NOT NULL RETURN e") == []


def test_the_vector_index_searches_one_index_only(settings: Settings, connection: Neo4jConnection) -> None:
    with Published(settings, "with") as published:
        vector = published.vectors()[0].tolist()
    found = connection.read(
        "CALL db.index.vector.queryNodes($name, 50, $vector) YIELD node, score RETURN node.index AS index, score",
        {"name": vector_index("with"), "vector": vector},
    )
    assert {row["index"] for row in found} == {"with"}
    assert max(row["score"] for row in found) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    "damage",
    [
        "MATCH (e:Entity {index: 'with'}) WHERE e.is_named WITH e LIMIT 1 REMOVE e.embedding",
        "MATCH (e:Entity {index: 'with'}) WHERE e.is_named WITH e LIMIT 1 SET e.embedding = [i IN range(1, 384) | 1]",
        f"DROP INDEX {vector_index('with')}",
    ],
)
def test_verify_finds_and_mends_vectors(
    settings: Settings, connection: Neo4jConnection, neo4j_server: Neo4jServer, damage: str
) -> None:
    address = address_of(neo4j_server)
    repair(settings, run_verify(settings, "with", address), address)  # after a try of this test that did not end
    assert run_verify(settings, "with", address).ok
    connection.alter(damage)
    report = run_verify(settings, "with", address)
    assert report.differences["neo4j"] != []
    repair(settings, report, address)
    assert run_verify(settings, "with", address).ok


def test_retrieval_wants_the_version_and_its_vectors(settings: Settings, connection: Neo4jConnection) -> None:
    Neo4jStore(connection, "with").spreading(1, ())
    with pytest.raises(ContractError, match="holds version 1 of index 'with', not version 2; run: polyhop export"):
        Neo4jStore(connection, "with").spreading(2, ())
    with pytest.raises(MissingArtefactError, match="vectors:entity"):
        Neo4jStore(connection, "without").spreading(1, ())
