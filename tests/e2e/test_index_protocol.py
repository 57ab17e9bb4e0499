"""One contract of an index, open in this process or asked over HTTP: the same calls, values and errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_indexes import Call, publish

import polyhop
from polyhop import IndexLike
from polyhop.schemas import errors

RECORDS = [
    {"id": "f", "title": "Ines Falkner", "text": "Ines Falkner was born in Vienna. Ines Falkner designed Mill Bridge."},
    {
        "id": "g",
        "title": "Mill Bridge",
        "text": "Mill Bridge crosses the River Enns. Karl Falkner painted it.",
    },
    {"id": "b", "title": "Bert Falk", "text": "Bert Falk was born in Graz. Falkner Street lies in Graz."},
]
QUESTION = "Who designed Mill Bridge?"


@pytest.fixture(scope="module", params=["open", "of a server"])
def index(request: pytest.FixtureRequest, serve: Call, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexLike]:
    root = publish(tmp_path_factory.mktemp("protocol"), RECORDS, "people", "bm25,bridge,graph-search")
    opened: IndexLike
    if request.param == "open":
        opened = polyhop.open_index("people", root=root)
    else:
        opened = polyhop.connect(serve(root, "--allow-changes").url, "people")
    with opened:
        yield opened


def names(index: IndexLike, name: str, **options: Any) -> list[str]:
    return [entity.name for entity in index.find_entities(name, **options)]


def test_an_index_says_its_name_version_and_strategy(index: IndexLike) -> None:
    assert (index.name, index.version > 0, index.default_strategy) == ("people", True, "bridge")


def test_a_part_of_a_name_finds_its_entity(index: IndexLike) -> None:
    assert "Ines Falkner" in names(index, "falkner")


def test_entities_of_the_full_name_come_first(index: IndexLike) -> None:
    found = names(index, "Mill Bridge")
    assert found[0] == "Mill Bridge"


def test_a_part_of_a_name_finds_nothing_where_full_names_are_asked_for(index: IndexLike) -> None:
    assert (names(index, "falkner", fuzzy=False), names(index, "ines FALKNER", fuzzy=False)) == ([], ["Ines Falkner"])


@pytest.mark.parametrize("name", ["", "?!", "Zebra"])
def test_a_name_that_no_entity_has_finds_nothing(index: IndexLike, name: str) -> None:
    assert index.find_entities(name) == []


def test_neighbours_are_entities_with_their_hops(index: IndexLike) -> None:
    (entity,) = index.find_entities("Ines Falkner")
    assert ("Mill Bridge", 1) in [(reached.entity.name, reached.hop) for reached in index.neighbours(entity.id)]


def test_more_hops_reach_more_entities(index: IndexLike) -> None:
    (entity,) = index.find_entities("Ines Falkner")
    assert len(index.neighbours(entity.id, depth=2)) > len(index.neighbours(entity.id))


def test_an_unknown_id_has_no_neighbours_but_an_error(index: IndexLike) -> None:
    with pytest.raises(errors.UnknownIdError, match="has no entity with the id 'none'"):
        index.neighbours("none")


def test_a_depth_below_one_is_refused(index: IndexLike) -> None:
    (entity,) = index.find_entities("Ines Falkner")
    with pytest.raises(errors.PolyhopError):
        index.neighbours(entity.id, depth=0)


def test_two_names_are_connected(index: IndexLike) -> None:
    found = index.connect("Ines Falkner", "Mill Bridge")
    assert [entity.name for entity in found.paths[0].entities] == ["Ines Falkner", "Mill Bridge"]


def test_connections_are_as_many_as_asked_for(index: IndexLike) -> None:
    assert index.connect("Ines Falkner", "Mill Bridge", paths=0).paths == ()


def test_a_connection_to_an_unknown_name_is_an_error(index: IndexLike) -> None:
    with pytest.raises(errors.UnknownIdError, match="has no entity 'Zebra'"):
        index.connect("Ines Falkner", "Zebra")


def test_a_question_is_answered(index: IndexLike) -> None:
    answer = index.ask(QUESTION, strategy="bm25", limit=2, parameters={"k1": 1.1}, where="title != 'Bert Falk'")
    assert (answer.question, answer.strategy, [row["id"] for row in answer.passages]) == (QUESTION, "bm25", ["f", "g"])


def test_a_batch_of_questions_is_answered_in_order(index: IndexLike) -> None:
    asked = [QUESTION, "Where was Bert Falk born?"]
    assert [answer.question for answer in index.ask_batch(asked, limit=1)] == asked


def test_a_search_reads_no_answer(index: IndexLike) -> None:
    found = index.search(QUESTION, limit=1)
    assert (found.answer, found.reading["by"], len(found.passages)) == ("", "none", 1)


def test_an_unknown_strategy_is_an_error(index: IndexLike) -> None:
    with pytest.raises(errors.UnknownStrategyError):
        index.ask(QUESTION, strategy="none")


def test_words_find_passages(index: IndexLike) -> None:
    assert index.search_text("Graz", limit=1) == ["b"]


def test_sql_reads_tables(index: IndexLike) -> None:
    query = "SELECT passage_id, title FROM passages WHERE passage_id IN ('b', 'f') ORDER BY passage_id"
    rows = index.sql(query).to_pylist()
    assert rows == [{"passage_id": "b", "title": "Bert Falk"}, {"passage_id": "f", "title": "Ines Falkner"}]


def test_sql_that_writes_is_an_error(index: IndexLike) -> None:
    with pytest.raises(errors.StatementRejectedError):
        index.sql("DROP TABLE passages")


@pytest.mark.parametrize("records", [[], [{"title": "without a text"}], ["/no/such/file.txt"], [7]])
def test_a_record_that_cannot_be_added_is_an_error(index: IndexLike, records: Any) -> None:
    with pytest.raises(errors.SourceError):
        index.add(records)


def test_records_and_files_are_in_the_version_of_their_run(index: IndexLike, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("The Salzach flows through Salzburg.", encoding="utf-8")
    run = index.add([{"id": "s", "title": "Styria", "text": "Styria lies in Austria."}, notes])
    assert (run.state, run.error, run.version is not None and run.version > 1) == ("done", None, True)


def test_a_run_that_is_not_waited_for_ends_by_itself(index: IndexLike) -> None:
    run = index.add({"id": "t", "title": "Tyrol", "text": "Tyrol lies in Austria."}, wait=False)
    assert run.wait(120)
    assert (run.state, run.error) == ("done", None)
