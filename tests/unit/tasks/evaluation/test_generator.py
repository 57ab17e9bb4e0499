"""The generated corpus: the same in every process, Zipf's law at every size, questions that its pages answer."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.schemas.corpus import Passage
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.names import NameFinder, name_tokens
from polyhop.tasks.evaluation.generated_names import Kind, Thing, name_of
from polyhop.tasks.evaluation.generator import MIN_PASSAGES, World, generate
from polyhop.tasks.extraction.rules import extract

SIZES = st.integers(MIN_PASSAGES, 240)
SEEDS = st.integers(-3, 3)
BORN = re.compile(r"[Bb]orn in \w+ in (\d+)")
INHABITANTS = re.compile(r"([\d,]+) inhabitants")
_DIGEST = (
    "import hashlib, json, sys\n"
    "from polyhop.tasks.evaluation.generator import generate\n"
    "records, questions = generate(300, 60, 13)\n"
    "print(hashlib.sha256(json.dumps([*records, *questions]).encode()).hexdigest())\n"
)


def _world(passages: int, questions: int, seed: int = 13) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    records, asked = generate(passages, questions, seed)
    return list(records), list(asked)


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_every_process_generates_the_same_bytes(hash_seed: str) -> None:
    records, questions = _world(300, 60)
    expected = hashlib.sha256(json.dumps([*records, *questions]).encode()).hexdigest()
    done = subprocess.run(
        [sys.executable, "-c", _DIGEST],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected


def test_another_seed_gives_another_corpus_and_other_questions() -> None:
    one, other = _world(60, 12, 1), _world(60, 12, 2)
    assert one[0] != other[0]
    assert one[1] != other[1]


@settings(max_examples=12, deadline=None)
@given(passages=SIZES, seed=SEEDS)
def test_ids_titles_and_questions_are_distinct_and_every_page_names_itself(passages: int, seed: int) -> None:
    records, questions = _world(passages, passages, seed)
    assert (len(records), len(questions)) == (passages, passages)
    assert len({record["id"] for record in records}) == passages
    assert len({record["title"] for record in records}) == passages
    assert len({question["question"] for question in questions}) == passages
    assert all(record["title"] in record["text"] for record in records)
    assert not any("{" in record["text"] for record in records)


@settings(max_examples=12, deadline=None)
@given(passages=SIZES, seed=SEEDS)
def test_every_hop_leads_from_a_gold_page_to_the_next_and_to_the_answer(passages: int, seed: int) -> None:
    records, questions = _world(passages, min(passages, 36), seed)
    record_of = {record["id"]: record for record in records}
    for question in questions:
        gold = [record_of[passage_id] for passage_id in question["supporting"]]
        assert len(gold) == question["hops"] == len({record["id"] for record in gold})
        if question["type"] == "bridge":
            assert gold[0]["title"] in question["question"]
            assert all(after["title"] in before["text"] for before, after in pairwise(gold))
            assert all(answer in gold[-1]["text"] for answer in question["answers"])


def test_a_comparison_is_decided_by_what_the_two_pages_say() -> None:
    records, questions = _world(400, 400)
    record_of = {record["id"]: record for record in records}
    compared = [question for question in questions if question["type"] == "comparison"]
    assert len(compared) == 66
    for question in compared:
        pages = [record_of[passage_id] for passage_id in question["supporting"]]
        stated, choose = (BORN, min) if question["question"].startswith("Who") else (INHABITANTS, max)
        values = {page["title"]: int(stated.findall(page["text"])[0].replace(",", "")) for page in pages}
        assert len(set(values.values())) == 2
        assert question["answers"] == [choose(values, key=lambda title: values[title])]


def test_hops_are_two_to_four_and_types_bridge_and_comparison() -> None:
    _, questions = _world(240, 240)
    assert Counter((question["type"], question["hops"]) for question in questions) == {
        ("bridge", 2): 60,
        ("bridge", 3): 80,
        ("bridge", 4): 60,
        ("comparison", 2): 40,
    }


@pytest.mark.parametrize("passages", [2_000, 20_000])
def test_names_are_mentioned_by_zipfs_law_whatever_the_size(passages: int) -> None:
    world = World(passages, 13)
    counts = Counter(
        target.number
        for index in range(passages)
        for target in world.page(world.thing(index)).links.values()
        if target.kind is Kind.TOWN
    )
    ranks = np.array([1, 2, 3, 5, 8, 13, 21, 34, 55])
    mentions = np.array([counts[rank - 1] for rank in ranks])
    slope, _ = np.polyfit(np.log(ranks), np.log(mentions), 1)
    assert slope == pytest.approx(-1, abs=0.15)


@settings(max_examples=100)
@given(kind=st.sampled_from(Kind), numbers=st.lists(st.integers(0, 10**7), min_size=2, max_size=40, unique=True))
def test_no_two_things_have_the_same_name_or_key(kind: Kind, numbers: list[int]) -> None:
    names = [name_of(Thing(kind, number)) for number in numbers]
    assert len({" ".join(name_tokens(name)) for name in names}) == len(numbers)


def test_the_rules_find_every_gold_name_on_the_page_before() -> None:
    records, questions = _world(400, 100)
    passages = [Passage(r["id"], r["id"], r["id"], 0, r["title"], r["text"], 0, len(r["text"])) for r in records]
    bundle = extract(passages, NameFinder(record["title"] for record in records))
    mentioned: dict[str, set[str]] = {}
    for row in bundle.mentions.to_pylist():
        mentioned.setdefault(row["passage_id"], set()).add(row["key"])
    title_of = {record["id"]: record["title"] for record in records}
    hops = [hop for q in questions if q["type"] == "bridge" for hop in pairwise(q["supporting"])]
    keys = [(before, " ".join(name_tokens(title_of[after]))) for before, after in hops]
    assert len(keys) > 100
    assert [pair for pair in keys if pair[1] not in mentioned[pair[0]]] == []
    assert bundle.relations.num_rows > 400


@pytest.mark.parametrize(("passages", "questions"), [(MIN_PASSAGES - 1, 1), (20, 21), (20, -1)])
def test_numbers_out_of_range_are_refused_before_anything_is_drawn(passages: int, questions: int) -> None:
    with pytest.raises(ConfigurationError, match=f"not {passages} and {questions}"):
        generate(passages, questions, 13)
