"""A corpus named as a graph, a graph named as a corpus: one sentence that says what to do."""

import json
from pathlib import Path

import pytest

from polyhop.schemas.errors import ConfigurationError, SourceError
from polyhop.schemas.records import GraphServer, source_of
from polyhop.warehouse.files.corpora import read_corpus, read_graph_sources
from polyhop.warehouse.files.graph_files import read_graph

TEXT = json.dumps({"id": "a", "title": "Ada", "text": "Ada wrote notes."}) + "\n"
TRIPLE = json.dumps({"subject": {"id": "a"}, "predicate": "p", "object": "o"}) + "\n"
BOTH = json.dumps({"subject": "a", "predicate": "p", "object": "o", "text": "a p o"}) + "\n"


def write(folder: Path, text: str, name: str = "x.jsonl") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("before", ["", "{\n", "\n"])
def test_texts_are_no_graph(tmp_path: Path, before: str) -> None:
    with pytest.raises(SourceError, match=r"x\.jsonl holds texts, not triples .*; name it without --graph"):
        list(read_graph(write(tmp_path, before + TEXT)))
    assert len(list(read_graph(write(tmp_path, TRIPLE + TEXT)))) == 2


@pytest.mark.parametrize("before", ["", "{\n"])
def test_triples_are_no_corpus_and_no_texts_for_nodes(tmp_path: Path, before: str) -> None:
    for read in (read_corpus, read_graph_sources):
        with pytest.raises(SourceError, match=r"x\.jsonl holds triples of a knowledge graph, .*; name it with --graph"):
            list(read(write(tmp_path, before + TRIPLE)))
        assert len(list(read(write(tmp_path, BOTH + TRIPLE)))) == 2


@pytest.mark.parametrize("name", ["g.nt", "g.ttl.gz"])
def test_rdf_is_no_corpus(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match="is a knowledge graph, not a corpus; name it with --graph"):
        read_corpus(write(tmp_path, "x", name))


def test_a_graph_needs_a_known_format(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"has an unknown format; known formats are \.jsonl"):
        read_graph(write(tmp_path, "a,b\n", "g.csv"))
    with pytest.raises(SourceError, match="is a folder; name a file in it"):
        read_graph(tmp_path)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("neo4j://localhost:7687", GraphServer("neo4j://localhost:7687")),
        ("bolt+s://db", GraphServer("bolt+s://db")),
        ("a/b.jsonl", Path("a/b.jsonl")),
        ("neo4j.jsonl", Path("neo4j.jsonl")),
        ("s3://a/b", Path("s3://a/b")),
    ],
)
def test_addresses_of_databases_are_told_from_files(text: str, source: Path | GraphServer) -> None:
    assert source_of(text) == source


@pytest.mark.parametrize("address", ["neo4j://ada:hush-hush@db:7687", "bolt://hush-hush@db"])
def test_an_address_with_a_password_is_refused_without_repeating_it(address: str) -> None:
    with pytest.raises(ConfigurationError, match="set NEO4J_USER and NEO4J_PASSWORD") as caught:
        source_of(address)
    assert "hush" not in str(caught.value)
