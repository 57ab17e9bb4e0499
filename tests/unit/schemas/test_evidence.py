"""Evidence as types: to JSON and back without loss, and what earlier releases stored still reads."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.evidence import (
    BY_VECTOR,
    UNIFORM,
    Edge,
    Evidence,
    Fallback,
    Node,
    Note,
    Path,
    QuestionNames,
    Seed,
    as_row,
    evidence_of,
)

words = st.text(max_size=8)
numbers = st.floats(-5, 5).map(lambda value: round(value, 6))
optional = st.none() | numbers
many_words = st.lists(words, max_size=3).map(tuple)
edges = st.builds(Edge, words, words, many_words, many_words)
nodes = st.builds(Node, words, words, optional, words, words, words, st.none() | st.integers(0, 9))
notes = st.builds(Note, words, words, st.lists(st.tuples(words, numbers), max_size=2).map(tuple))
evidences = st.builds(
    Evidence,
    names=st.none() | st.builds(QuestionNames, many_words, many_words, st.sampled_from(["entities", "terms"])),
    seeds=st.lists(st.builds(Seed, words, words, numbers, words, words, optional), max_size=3).map(tuple),
    nodes=st.lists(nodes, max_size=3).map(tuple),
    edges=st.lists(edges, max_size=3).map(tuple),
    paths=st.lists(
        st.builds(Path, words, many_words, many_words, st.lists(edges, max_size=2).map(tuple), optional), max_size=3
    ).map(tuple),
    notes=st.lists(notes, max_size=3).map(tuple),
    fallback=st.none() | st.builds(Fallback, words, words),
    measure=words,
    node_count=st.integers(0, 99),
    stated=st.dictionaries(words, st.lists(words, max_size=2).map(tuple), max_size=2),
    context=words,
    data=st.dictionaries(st.sampled_from(["beams", "depth"]), st.integers() | words, max_size=2),
)  # fmt: skip


@given(evidences)
def test_json_and_back_gives_the_same_evidence(evidence: Evidence) -> None:
    assert evidence_of(json.loads(json.dumps(as_row(evidence)))) == evidence


def test_nothing_is_an_empty_document() -> None:
    assert as_row(Evidence()) == {}
    assert evidence_of({"links": [], "sentences": []}) == Evidence()


def test_edges_of_paths_come_first_and_a_pair_walked_back_keeps_its_direction() -> None:
    there = Path("", ("a", "b"), ("A", "B"), (Edge("a", "b", ("born in",)),))
    back = Path("", ("b", "a"), ("B", "A"), (Edge("b", "a", ("home of",), ("lived in",)),))
    evidence = Evidence(paths=(there, back), edges=(Edge("c", "a", ("near",)), Edge("a", "b", ("born in",))))
    assert evidence.all_edges() == (Edge("a", "b", ("born in", "lived in"), ("home of",)), Edge("c", "a", ("near",)))


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (
            {
                "question_entities": {"matched": ["esa"], "unmatched": ["x"]},
                "seeds": {"passages": {"p1": 0.9}, "entities": {"esa": 0.5}},
                "n_e": 1,
                "n_d": 1,
                "fallback": "none",
                "links": [],
            },
            Evidence(QuestionNames(("esa",), ("x",)), (Seed("passage", "p1", 0.9), Seed("entity", "esa", 0.5))),
        ),
        (
            {"question_terms": {"matched": ["a"], "unmatched": []}, "seeds": {"terms": {}}, "fallback": "uniform"},
            Evidence(QuestionNames(("a",), (), "terms"), fallback=UNIFORM),
        ),
        (
            {"nearest_entities": {"oak": 0.9, "elm": 0.8}},
            Evidence(nodes=(Node("oak", "oak", 0.9), Node("elm", "elm", 0.8)), measure="similarity", node_count=2),
        ),
        (
            {"feedback": {"passages": ["p1", "p2"], "terms": {"war": 0.5}}},
            Evidence(notes=(Note("Terms suggested by the top 2 passages", items=(("war", 0.5),)),)),
        ),
        (
            {"ce": "lexical", "reranked": 7},
            Evidence(notes=(Note("Re-ranked", "the top 7 passages, by lexical"),)),
        ),
        (
            {
                "question_entities": {"matched": ["birch"], "unmatched": []},
                "reached": 4,
                "entities": [{"key": "alder", "name": "Alder", "hop": 1, "path": "Birch --[by]--> Alder"}],
                "fallback": "vector",
                "novelty": 3,
            },
            Evidence(
                QuestionNames(("birch",)),
                nodes=(Node("alder", "Alder", distance=1),),
                paths=(Path("Birch --[by]--> Alder"),),
                fallback=BY_VECTOR,
                node_count=4,
                data={"novelty": 3},
            ),
        ),
    ],
)
def test_what_earlier_releases_stored_still_reads(stored: dict[str, Any], expected: Evidence) -> None:
    assert evidence_of(stored) == expected
