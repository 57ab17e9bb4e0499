"""Filters through every command that takes one: what is ranked, what is stored, what is said of mistakes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyhop.api import open_index
from polyhop.schemas.errors import FilterError

RECORDS: list[dict[str, object]] = [
    {
        "id": f"p{n:02d}",
        "title": f"Town {n}",
        "text": f"Town {n} lies on the River {n % 7}. A mill stands in Town {n}. It was built in {1800 + n}.",
        "metadata": {"year": 2000 + n, "kind": "old" if n < 10 else "new", "checked": n % 2 == 0},
    }
    for n in range(20)
]
QUESTIONS: list[dict[str, object]] = [
    {
        "id": f"q{n}",
        "question": f"Which river does Town {n} lie on?",
        "answers": [f"River {n % 7}"],
        "supporting": [f"p{n:02d}"],
    }
    for n in (3, 15)
]
QUESTION = "In which town does a mill stand?"
ASKED = ("--index", "towns", "--strategy", "bridge-lexical", "--json")

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, publish: Callable[..., Path]) -> Path:
    return publish(tmp_path_factory.mktemp("filtered"), RECORDS, questions=QUESTIONS)


def good(command: Command, *arguments: str) -> Any:
    done = command(*arguments)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("metadata.year >= 2018", ["p18", "p19"]),
        ("metadata.kind = 'new' AND metadata.year < 2013", ["p10", "p11", "p12"]),
        ("id IN ('p01', 'p02') OR title = 'Town 7'", ["p01", "p02", "p07"]),
        ("NOT metadata.kind = 'old' AND metadata.checked = TRUE", ["p10", "p12", "p14", "p16", "p18"]),
        ("date.building < 1802 AND date BETWEEN 1801 AND 1900", ["p01"]),
        ("date.building >= '1818-01' OR date.birth = 1803", ["p18", "p19"]),
        ("metadata.year IS NOT NULL AND source ~ 'corpus' AND metadata.year BETWEEN 2004 AND 2005", ["p04", "p05"]),
    ],
)
def test_all_that_matches_is_ranked_and_nothing_else(command: Command, where: str, ids: list[str]) -> None:
    (answer,) = good(command, "ask", QUESTION, *ASKED, "--limit", "20", "--where", where)
    assert sorted(passage["id"] for passage in answer["passages"]) == ids
    assert (answer["filter"]["passages"], answer["filter"]["of"]) == (len(ids), 20)
    assert {passage["metadata"]["year"] for passage in answer["passages"]} == {2000 + int(one[1:]) for one in ids}


def test_two_large_filters_stay_ready_and_a_third_takes_the_place_of_the_older(published: Path) -> None:
    with open_index("towns", root=published / "root") as index:
        first, second, third = (f"metadata.year >= {year}" for year in (2001, 2002, 2003))
        ready = [index.session.where(text) for text in (first, second)]
        assert [index.session.where(text) for text in (first, second)] == ready
        index.session.where(third)
        assert index.session.where(second) is ready[1]
        assert index.session.where(first) is not ready[0]


def test_without_a_match_the_answer_is_empty_and_says_so(command: Command) -> None:
    (answer,) = good(command, "ask", QUESTION, *ASKED, "--where", "metadata.year > 3000")
    assert (answer["passages"], answer["answer"]) == ([], "")
    shown = command("ask", QUESTION, "--index", "towns", "--strategy", "bm25", "--where", "metadata.year > 3000")
    assert shown.exit_code == 0
    assert "no passage matches the filter metadata.year > 3000" in shown.stdout


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("metadata.yaer > 2000", "metadata.year"),
        ("metadata.year > ", "column"),
        ("metadata.year > 2000; DROP TABLE passages", "Only SELECT"),
        ("metadata.kind > 2000", "column"),
        ("date.berth = 1900", "did you mean date.birth?"),
        ("date.birth > 'soon'", "holds dates; write one as '2020'"),
        ("(" * 100 + "id = 'a'", "column"),
    ],
)
@pytest.mark.parametrize(
    "first",
    [
        ("ask", QUESTION, "--strategy", "bm25"),
        ("submit", "questions.jsonl", "--strategy", "bm25"),
        ("eval", "questions.jsonl", "--strategies", "bm25"),
    ],
    ids=lambda first: first[0],
)
def test_a_mistake_is_one_sentence_and_nothing_is_done(
    command: Command, first: tuple[str, ...], where: str, said: str
) -> None:
    done = command(*first, "--index", "towns", "--where", where)
    assert isinstance(done.exception, FilterError)
    assert said in str(done.exception)
    assert "\n" not in str(done.exception)
    assert done.stdout == ""
    assert good(command, "jobs", "--json") == [[]]


def test_a_job_keeps_its_filter_to_the_end(command: Command) -> None:
    where = "metadata.kind = 'old'"
    submitted = good(command, "submit", "questions.jsonl", *ASKED, "--where", where)
    plain = good(command, "submit", "questions.jsonl", *ASKED, "--key", "plain")
    assert command("worker", "--until-empty").exit_code == 0
    rows = {row["id"]: row for row in good(command, "results", str(submitted[0]["job_id"]))}
    for row in rows.values():
        assert row["filter"]["where"] == where
        assert {passage["metadata"]["kind"] for passage in row["passages"]} == {"old"}
    assert rows["q3"]["passages"][0]["id"] == "p03"
    others = {row["id"]: row for row in good(command, "results", str(plain[0]["job_id"]))}
    assert others["q15"]["passages"][0]["id"] == "p15"
    assert "filter" not in others["q15"] or others["q15"]["filter"] is None
    replayed = command("replay", str(submitted[0]["job_id"]), "q15", "--json")
    assert replayed.exit_code == 0, replayed.output


def test_an_evaluation_counts_what_the_filter_leaves(command: Command) -> None:
    whole = good(command, "eval", "questions.jsonl", "--index", "towns", "--strategies", "bm25", "--json", "--no-store")
    old = good(
        command, "eval", "questions.jsonl", "--index", "towns", "--strategies", "bm25", "--json", "--no-store",
        "--where", "metadata.kind = 'old'",
    )  # fmt: skip
    assert recall(whole) == 1.0
    assert recall(old) == 0.5


def recall(printed: Any) -> float:
    return float(printed[0]["strategies"]["bm25"]["recall@5"])
