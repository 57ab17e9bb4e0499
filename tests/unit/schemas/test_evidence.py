"""Evidence as types: to JSON and back without loss."""

import json

from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.evidence import (
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
