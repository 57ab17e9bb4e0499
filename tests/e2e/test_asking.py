"""Asking with a filter, asking several indexes, asking how two entities are connected."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_indexes import Call, publish, record, write_rows

import polyhop
from polyhop.api import Index, open_index
from polyhop.schemas import errors

TEXT = "Town {0} lies on the River {1}. A mill stands in Town {0}. It was built in {2}."
TOWNS = [
    record(f"p{n:02d}", f"Town {n}", TEXT.format(n, n % 7, 1800 + n))
    | {"metadata": {"year": 2000 + n, "kind": "old" if n < 10 else "new", "checked": n % 2 == 0}}
    for n in range(20)
]
QUESTIONS = [
    {"id": f"q{n}", "question": f"Which river does Town {n} lie on?", "supporting": [f"p{n:02d}"]} for n in (3, 15)
]
SHARED = "Thames", "The River Thames flows through London."
PEOPLE = [
    record("ada", "Ada Lovelace", "Ada Lovelace was born in London in 1815."),
    record("common", *SHARED),
    record("same", "Charles Babbage", "Charles Babbage was born in London in 1791."),
]
PLACES = [record("river", *SHARED), record("same", "London", "London is the capital of England, on the Thames.")]
CONNECTED = [
    record("p1", "Ada Lovelace", "Ada Lovelace worked with Charles Babbage."),
    record("p2", "Charles Babbage", "Charles Babbage was born in London."),
    record("p3", "Charles Babbage", "London honoured Charles Babbage."),
    record("p4", "Lists", "Vistula. Then: Warsaw. Then: Krakow."),
    record("p6", "Byron", "Byron was an English poet."),
    record("p7", "Thames", "Thames is an English river."),
    record("p5", "Nowhere", "Nowhere is far from Atlantis."),
    *(record(f"r{n}", "Rome", "Rome is the capital of Italy.") for n in range(5)),
]
MILL = "In which town does a mill stand?"
BORN = "Where was Ada Lovelace born?"
BOTH = "ask --index people,places --strategy bm25"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a root of four indexes, and questions."""
    folder = tmp_path_factory.mktemp("asking")
    for name, records in (("towns", TOWNS), ("people", PEOPLE), ("places", PLACES)):
        publish(folder, records, name)
    publish(folder, CONNECTED, "connected", "graph-search")
    write_rows(folder / "questions.jsonl", QUESTIONS)
    return folder


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("metadata.year >= 2018", ["p18", "p19"]),
        ("metadata.kind = 'new' AND metadata.year < 2013", ["p10", "p11", "p12"]),
        ("id IN ('p01', 'p02') OR title = 'Town 7'", ["p01", "p02", "p07"]),
        ("NOT metadata.kind = 'old' AND metadata.checked = TRUE", ["p10", "p12", "p14", "p16", "p18"]),
        ("date.building < 1802 AND date BETWEEN 1801 AND 1900", ["p01"]),
        ("date.building >= '1818-01' OR date.birth = 1803", ["p18", "p19"]),
        ("metadata.year IS NOT NULL AND source ~ 'towns' AND metadata.year BETWEEN 2004 AND 2005", ["p04", "p05"]),
        ("metadata.year > 3000", []),
    ],
)
def test_all_that_matches_is_ranked_and_nothing_else(published: Path, where: str, ids: list[str]) -> None:
    with open_index("towns", root=published / "root") as index:
        answer = index.ask(MILL, strategy="bridge-lexical", limit=20, where=where).to_json()
    assert sorted(passage["id"] for passage in answer["passages"]) == ids
    assert (answer["filter"]["passages"], answer["filter"]["of"]) == (len(ids), 20)
    assert {passage["metadata"]["year"] for passage in answer["passages"]} == {2000 + int(one[1:]) for one in ids}
    assert ids or not answer["answer"]


def test_two_large_filters_stay_ready_and_a_third_takes_the_place_of_the_older(published: Path) -> None:
    with open_index("towns", root=published / "root") as index:
        first, second, third = (f"metadata.year >= {year}" for year in (2001, 2002, 2003))
        ready = [index.session.where(text) for text in (first, second)]
        assert [index.session.where(text) for text in (first, second)] == ready
        index.session.where(third)
        assert index.session.where(second) is ready[1]
        assert index.session.where(first) is not ready[0]


@pytest.mark.parametrize(
    ("first", "where", "said"),
    [
        ("ask Where? --strategy bm25", "metadata.yaer > 2000", "metadata.year"),
        ("submit questions.jsonl --strategy bm25", "date.berth = 1900", "did you mean date.birth?"),
        ("eval questions.jsonl", "date.birth > 'soon'", "holds dates; write one as '2020'"),
    ],
)
def test_a_wrong_filter_is_told_and_does_nothing(command: Call, good: Call, first: str, where: str, said: str) -> None:
    done = command(f"{first} --index towns --where", where)
    assert isinstance(done.exception, errors.FilterError)
    assert (said in str(done.exception), "\n" in str(done.exception), done.stdout) == (True, False, "")
    assert good("jobs --json") == [[]]


def test_a_job_keeps_its_filter_to_the_end(command: Call, good: Call) -> None:
    where, submit = "metadata.kind = 'old'", "submit questions.jsonl --index towns --strategy bridge-lexical --json"
    jobs = [good(submit, *more)[0]["job_id"] for more in (("--where", where), ("--key", "plain"))]
    assert command("worker --until-empty").exit_code == 0
    rows, others = ({row["id"]: row for row in good(f"results {job}")} for job in jobs)
    for row in rows.values():
        assert row["filter"]["where"] == where
        assert {passage["metadata"]["kind"] for passage in row["passages"]} == {"old"}
    assert rows["q3"]["passages"][0]["id"] == "p03"
    assert others["q15"]["passages"][0]["id"] == "p15"
    assert not others["q15"].get("filter")
    assert good(f"replay {jobs[0]} q15 --json")


@pytest.mark.parametrize(("options", "recall"), [((), 1.0), (("--where", "metadata.kind = 'old'"), 0.5)])
def test_an_evaluation_counts_what_the_filter_leaves(good: Call, options: tuple[str, ...], recall: float) -> None:
    (report,) = good("eval questions.jsonl --index towns --strategies bm25 --json --no-store", *options)
    assert report["strategies"]["bm25"]["recall@5"] == recall


def test_passages_of_indexes_are_fused_by_rank_and_name_their_index(good: Call, root: Path) -> None:
    (found,) = good(f"{BOTH} --json", "river thames london")
    ranks = {}
    for name in ("people", "places"):
        with polyhop.open_index(name, root=root) as index:
            ranks[name] = {row["id"]: row["rank"] for row in index.ask("river thames london", strategy="bm25").passages}
    first, *others = found["passages"]
    assert (first["index"], first["id"], first["also_in"]) == ("people", "common", ["places"])
    both = 1 / (60 + ranks["people"]["common"]) + 1 / (60 + ranks["places"]["river"])
    assert first["score"] == pytest.approx(both, abs=1e-6)
    assert {(row["index"], row["id"]) for row in others} == {("people", "ada"), ("people", "same"), ("places", "same")}
    for row in others:
        assert "also_in" not in row
        assert row["score"] == pytest.approx(1 / (60 + ranks[row["index"]][row["id"]]), abs=1e-6)
    assert [row["rank"] for row in found["passages"]] == [1, 2, 3, 4]
    scores = [row["score"] for row in found["passages"]]
    assert scores == sorted(scores, reverse=True)


def test_the_most_certain_index_answers_and_every_answer_is_whole(command: Call, good: Call, root: Path) -> None:
    (found,) = good(f"{BOTH} --json", BORN)
    assert (found["answer"], found["index"]) == ("London", "people")
    assert [one["index"] for one in found["answers"]] == ["people", "places"]
    with polyhop.open_index("people", root=root) as index:
        alone = index.ask(BORN, strategy="bm25").to_json()
    assert {**found["answers"][0], "seconds": 0} == {"index": "people", **alone, "seconds": 0}
    with polyhop.open_indexes(["places", "people"], root=root) as indexes:
        answer = indexes.ask(BORN, limit=1, strategy="bm25")
        assert (indexes.names, [*answer.answers]) == (("places", "people"), ["places", "people"])
        assert (answer.answer, answer.index, len(answer.passages)) == ("London", "people", 1)
    question, shown, *lines = command(f"{BOTH} --limit 2", BORN).stdout.splitlines()
    assert question == f"Question  {BORN}"
    assert shown.startswith("Answer    London  (possible, confidence 0.")
    assert shown.endswith("(from the index people)")
    assert "Passages  (people: bm25, version 1, places: bm25, version 1)" in lines
    assert sum(line.endswith("  in people") for line in lines) == 2
    assert command(BOTH, "Which colour?").stdout.splitlines()[1].startswith("Answer    (n")
    assert dir(polyhop) == sorted(polyhop.__all__)
    with pytest.raises(errors.ConfigurationError, match="Name at least one index"):
        polyhop.open_indexes([], root=root)
    for options, words in (
        ("people,people", "'people' is named twice"),
        ("people,places --explain", "need a single index"),
    ):
        done = command(f"ask Where? --strategy bm25 --index {options}")
        assert isinstance(done.exception, errors.ConfigurationError)
        assert words in str(done.exception)


@pytest.fixture(scope="module")
def connected(published: Path) -> Iterator[Index]:
    with open_index("connected", root=published / "root") as index:
        yield index


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (("Ada Lovelace", "london"), "", "Ada Lovelace and london are 2 relations apart:"),
        (("London", "Atlantis"), "", "London and Atlantis are not connected by up to 4 relations, and no passage"),
        (
            ("Ada Lovelace", "Charles Babbage"),
            "--max-length 1",
            "Ada Lovelace and Charles Babbage are 1 relation apart",
        ),
        (("London", "london"), "", "London and london are one entity:"),
    ],
)
def test_what_people_and_scripts_read_of_a_connection_agrees(
    command: Call, good: Call, names: tuple[str, str], options: str, said: str
) -> None:
    lines = command(f"connect --index connected {options}", *names).stdout.splitlines()
    assert lines[0].startswith(said)
    (document,) = good(f"connect --index connected --json {options}", *names)
    assert [f"  {path['text']}" for path in document["paths"]] == [line for line in lines[1:] if line[2] != " "]
    assert (document["index"], document["version"], document["a"], document["b"]) == ("connected", 1, *names)


def test_a_connection_names_the_passages_of_its_relations_in_their_direction(connected: Index, command: Call) -> None:
    document = connected.graph.connect("London", "Ada Lovelace").to_json()
    (path,) = document["paths"]
    assert [entity["name"] for entity in path["entities"]] == ["London", "Charles Babbage", "Ada Lovelace"]
    for relation in path["hops"][0]:
        assert [passage["id"] for passage in relation["passages"]] == ["p3" if relation["forward"] else "p2"]
    stored = connected.sql("SELECT DISTINCT relation FROM relation_provenance").to_pydict()["relation"]
    assert {relation["relation"] for hop in path["hops"] for relation in hop} <= set(stored)
    shown = command("connect Rome Italy --index connected").stdout
    assert "    capital of: [r0] Rome, [r1] Rome, [r2] Rome and 2 more\n" in shown


@pytest.mark.parametrize(
    ("a", "b", "length", "found"),
    [
        ("London", "LONDON", 4, [("relation", "London")]),
        ("Ada Lovelace", "London", 1, []),
        ("Ada Lovelace", "Charles Babbage", 0, [("passage", "Ada Lovelace --(both in passage p1)-- Charles Babbage")]),
        ("London", "Atlantis", 4, []),
        ("Byron", "Thames", 4, []),  # both are English: a demonym connects nothing, but may be an end
        ("Byron", "English", 2, [("relation", "Byron --[is]--> English")]),
    ],
)
def test_what_connects_two_entities(connected: Index, a: str, b: str, length: int, found: list[object]) -> None:
    paths = connected.graph.connect(a, b, max_length=length).paths
    assert [(path.via, path.text) for path in paths] == found


def test_an_unknown_name_is_one_sentence_with_similar_names(connected: Index) -> None:
    with pytest.raises(errors.UnknownIdError, match="no entity 'Babbage'; did you mean 'Charles Babbage'"):
        connected.graph.connect("Babbage", "London")
    with pytest.raises(errors.ConfigurationError, match="'!!!' is not a name"):
        connected.graph.connect("!!!", "London")
