"""Connections on a real index: relations with their passages, passages alone, names that nobody has."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from polyhop.api import Index, open_index
from polyhop.commands.ask import connect
from polyhop.schemas.errors import ConfigurationError, MissingArtefactError, UnknownIdError
from polyhop.schemas.settings import Settings

Run = Callable[..., subprocess.CompletedProcess[str]]

CORPUS: list[Any] = [
    {"id": "p1", "title": "Ada Lovelace", "text": "Ada Lovelace worked with Charles Babbage."},
    {"id": "p2", "title": "Charles Babbage", "text": "Charles Babbage was born in London."},
    {"id": "p3", "title": "Charles Babbage", "text": "London honoured Charles Babbage."},
    {"id": "p4", "title": "Lists", "text": "Vistula. Then: Warsaw. Then: Krakow."},
    {"id": "p6", "title": "Byron", "text": "Byron was an English poet."},
    {"id": "p7", "title": "Thames", "text": "Thames is an English river."},
    {"id": "p5", "title": "Nowhere", "text": "Nowhere is far from Atlantis."},
    *({"id": f"r{n}", "title": "Rome", "text": "Rome is the capital of Italy."} for n in range(5)),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the index `people`, built for graph search alone."""
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest

    folder = tmp_path_factory.mktemp("people")
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(record) + "\n" for record in CORPUS), encoding="utf-8")
    settings = Settings(root=folder / "root", strategies=("graph-search",))
    run_index(settings, IndexRequest("people", corpus), DirectRunner())
    return folder / "root"


@pytest.fixture(scope="module")
def people(root: Path) -> Iterator[Index]:
    with open_index("people", root=root) as index:
        yield index


def test_the_command_shows_the_way_and_where_it_is_stated(polyhop: Run, root: Path) -> None:
    done = polyhop("connect", "Ada Lovelace", "london", "--index", "people", "--root", root)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "Ada Lovelace and london are 2 relations apart:"
    assert lines[1].startswith("  Ada Lovelace --[")
    assert "Charles Babbage" in lines[1]
    assert lines[2].startswith("    ")
    assert lines[2].endswith("[p1] Ada Lovelace")


@pytest.mark.parametrize(
    ("names", "max_length", "said"),
    [
        (("London", "Atlantis"), 4, "London and Atlantis are not connected by up to 4 relations, and no passage"),
        (("Ada Lovelace", "Charles Babbage"), 1, "Ada Lovelace and Charles Babbage are 1 relation apart:"),
        (("London", "london"), 4, "London and london are one entity:"),
    ],
)
def test_what_people_and_scripts_read_agrees(
    root: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, str], max_length: int, said: str
) -> None:
    connect(*names, index="people", max_length=max_length, root=root)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(said)
    connect(*names, index="people", max_length=max_length, root=root, json=True)
    document = json.loads(capsys.readouterr().out)
    assert [f"  {path['text']}" for path in document["paths"]] == [line for line in lines[1:] if line[2] != " "]
    assert (document["index"], document["version"], document["a"], document["b"]) == ("people", 1, *names)


def test_of_many_passages_the_first_are_named_and_the_others_counted(
    people: Index, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = people.graph.connect("Rome", "Italy").paths
    relations = {r.relation: ([p.id for p in r.passages], r.passage_count) for hop in path.hops for r in hop}
    assert relations["is the capital of"] == (["r0", "r1", "r2"], 5)
    connect("Rome", "Italy", index="people", max_length=4, root=root)
    assert "    is the capital of: [r0] Rome, [r1] Rome, [r2] Rome and 2 more\n" in capsys.readouterr().out


def test_a_connection_names_the_passages_of_its_relations_in_their_direction(people: Index) -> None:
    document = people.graph.connect("London", "Ada Lovelace").to_json()
    (path,) = document["paths"]
    assert [entity["name"] for entity in path["entities"]] == ["London", "Charles Babbage", "Ada Lovelace"]
    back = [relation for relation in path["hops"][0] if not relation["forward"]]
    assert [passage["id"] for relation in back for passage in relation["passages"]] == ["p2"] * len(back)
    forward = [relation for relation in path["hops"][0] if relation["forward"]]
    assert {passage["id"] for relation in forward for passage in relation["passages"]} <= {"p3"}
    assert all(relation["passage_count"] == 1 for hop in path["hops"] for relation in hop)
    stored = people.sql("SELECT DISTINCT relation FROM relation_provenance").to_pydict()["relation"]
    assert {relation["relation"] for hop in path["hops"] for relation in hop} <= set(stored)
    assert json.loads(json.dumps(document)) == json.loads(
        json.dumps(people.graph.connect("london", "ADA LOVELACE").to_json() | {"a": "London", "b": "Ada Lovelace"})
    )


def test_one_entity_is_connected_with_itself(people: Index) -> None:
    (path,) = people.graph.connect("London", "LONDON").paths
    assert (path.text, path.hops, len(path.entities)) == ("London", (), 1)


def test_too_short_a_length_leaves_only_passages(people: Index) -> None:
    assert people.graph.connect("Ada Lovelace", "London", max_length=1).paths == ()
    (both,) = people.graph.connect("London", "Ada Lovelace", max_length=2).paths
    assert both.via == "relation"


def test_passages_that_mention_both_stand_in_for_relations(people: Index) -> None:
    found = people.graph.connect("Ada Lovelace", "Charles Babbage", max_length=0)
    assert [(path.via, path.text) for path in found.paths] == [
        ("passage", "Ada Lovelace --(both in passage p1)-- Charles Babbage")
    ]
    assert found.paths[0].passages[0].title == "Ada Lovelace"


def test_entities_that_do_not_connect_give_no_paths(people: Index) -> None:
    assert people.graph.connect("London", "Atlantis").paths == ()


def test_an_unknown_name_is_one_sentence_with_similar_names(people: Index) -> None:
    with pytest.raises(UnknownIdError, match="no entity 'Babbage'; did you mean 'Charles Babbage'"):
        people.graph.connect("Babbage", "London")
    with pytest.raises(UnknownIdError, match="no entity 'Londom'; did you mean 'London'"):
        people.graph.connect("London", "Londom")
    with pytest.raises(ConfigurationError, match="'!!!' is not a name"):
        people.graph.connect("!!!", "London")


def test_a_question_searches_with_the_graph_only_where_there_are_vectors(people: Index) -> None:
    with pytest.raises(MissingArtefactError, match="'fusion' needs 'vectors:passage'"):
        people.graph.search_with_graph("Where was Charles Babbage born?")
    answer = people.ask("Where was Charles Babbage born?", strategy="graph-search", limit=3)
    assert {passage["id"] for passage in answer.passages} == {"p1", "p2", "p3"}
    assert answer.evidence["names"]["matched"] == ["charles babbage"]


def test_a_demonym_connects_nothing_but_may_be_an_end(people: Index) -> None:
    assert people.graph.connect("Byron", "Thames").paths == ()
    (path,) = people.graph.connect("Byron", "English").paths
    assert path.via == "relation"
