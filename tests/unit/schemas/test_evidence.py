"""Evidence and readings to JSON and back, and arrays of the passages that a filter leaves."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from memory_index import graph_from, lexical_from

from polyhop.schemas import evidence
from polyhop.schemas.chat import Usage
from polyhop.schemas.graph import gathered, new_numbers
from polyhop.schemas.query import Citation, ModelUse, ReaderResult, Sentence, reading_row, summed_use

words = st.text(max_size=8)
numbers = st.floats(-5, 5).map(lambda value: round(value, 6))
optional = st.none() | numbers
many_words = st.lists(words, max_size=3).map(tuple)
edges = st.builds(evidence.Edge, words, words, many_words, many_words)
nodes = st.builds(evidence.Node, words, words, optional, words, words, words, st.none() | st.integers(0, 9))
notes = st.builds(evidence.Note, words, words, st.lists(st.tuples(words, numbers), max_size=2).map(tuple))
paths = st.builds(evidence.Path, words, many_words, many_words, st.lists(edges, max_size=2).map(tuple), optional)
evidences = st.builds(
    evidence.Evidence,
    names=st.none() | st.builds(evidence.QuestionNames, many_words, many_words, st.sampled_from(["entities", "terms"])),
    seeds=st.lists(st.builds(evidence.Seed, words, words, numbers, words, words, optional), max_size=3).map(tuple),
    nodes=st.lists(nodes, max_size=3).map(tuple),
    edges=st.lists(edges, max_size=3).map(tuple),
    paths=st.lists(paths, max_size=3).map(tuple),
    notes=st.lists(notes, max_size=3).map(tuple),
    fallback=st.none() | st.builds(evidence.Fallback, words, words),
    measure=words,
    node_count=st.integers(0, 99),
    stated=st.dictionaries(words, st.lists(words, max_size=2).map(tuple), max_size=2),
    context=words,
    data=st.dictionaries(st.sampled_from(["beams", "depth"]), st.integers() | words, max_size=2),
)


@given(evidences)
def test_json_and_back_gives_the_same_evidence(one: evidence.Evidence) -> None:
    assert evidence.evidence_of(json.loads(json.dumps(evidence.as_row(one)))) == one
    assert evidence.as_row(evidence.Evidence()) == {}
    assert evidence.evidence_of({"links": [], "sentences": []}) == evidence.Evidence()


def test_edges_of_paths_come_first_and_a_pair_walked_back_keeps_its_direction() -> None:
    there = evidence.Path("", ("a", "b"), ("A", "B"), (evidence.Edge("a", "b", ("born in",)),))
    back = evidence.Path("", ("b", "a"), ("B", "A"), (evidence.Edge("b", "a", ("home of",), ("lived in",)),))
    near = evidence.Edge("c", "a", ("near",))
    found = evidence.Evidence(paths=(there, back), edges=(near, evidence.Edge("a", "b", ("born in",))))
    assert found.all_edges() == (evidence.Edge("a", "b", ("born in", "lived in"), ("home of",)), near)


PARTIAL = ModelUse("m", "hub.partial", "h1", usage=Usage(1, 100, 10, 0.5, 2.0))
CACHED = replace(PARTIAL, is_cached=True)
FINAL = ModelUse("m", "hub.final", "h2", usage=Usage(1, 50, 5, 0.25, 1.0), repair="as_is")


def test_a_sum_counts_what_was_paid_now_apart_from_what_the_replies_took_and_keeps_its_parts() -> None:
    failed = replace(PARTIAL, error_class="MalformedReplyError", error="No JSON.")
    use = summed_use([CACHED, failed, replace(failed, error="Another."), FINAL])
    all_cached = summed_use([CACHED, CACHED])
    assert use is not None
    assert all_cached is not None
    assert (use.usage, use.spent) == (Usage(4, 350, 35, 1.75, 7.0), Usage(3, 250, 25, 1.25, 5.0))
    assert (use.prompt, use.is_cached, use.repair) == ("hub.final", False, "as_is")
    assert (use.error_class, use.error) == ("MalformedReplyError", "No JSON.")  # the first failure
    assert use.parts[::3] == (CACHED, FINAL)
    assert (all_cached.is_cached, all_cached.spent) == (True, Usage())
    whole = summed_use([all_cached, FINAL])
    assert whole is not None
    assert (whole.parts, whole.spent) == ((CACHED, CACHED, FINAL), FINAL.usage)
    assert (summed_use([FINAL]), summed_use([])) == (FINAL, None)
    row = reading_row(ReaderResult("a", use=whole))
    parts = [(part["prompt"]["name"], part["cached"]) for part in row["parts"]]
    assert parts == [("hub.partial", True), ("hub.partial", True), ("hub.final", False)]
    assert "parts" not in reading_row(ReaderResult("a", use=FINAL))


def test_a_cited_hub_has_its_id_beside_the_fields_of_a_passage() -> None:
    quoted = Citation("p1", Sentence("p1", "Said.", 0, 5), number=1)
    row = reading_row(ReaderResult("a", citations=(quoted, Citation("", hub_id="H1", name="Paper One", number=2))))
    assert row["citations"] == [
        {"passage_id": "p1", "quote": "Said.", "start": 0, "end": 5, "number": 1},
        {"passage_id": "", "quote": "", "start": None, "end": None, "hub_id": "H1", "name": "Paper One", "number": 2},
    ]


MENTIONS = [{"ada": 2.0, "bo": 1.0}, {"bo": 1.0}, {}, {"cy": 3.0, "ada": 1.0}, {"dan": 1.0}]
TITLES = {0: ["ada"], 3: ["cy"]}
TOKENS = [["x", "x", "y"], ["y"], [], ["z", "x"], ["w"]]
SOME = st.sets(st.integers(0, len(MENTIONS) - 1)).map(sorted)


def lists(arrays: object, *names: str) -> list[Any]:
    return [(getattr(arrays, name).tolist(), getattr(arrays, name).dtype) for name in names]


@given(SOME)
def test_a_graph_is_that_of_the_passages_left(allowed: list[int]) -> None:
    found = graph_from(MENTIONS, TITLES).restricted(np.array(allowed, np.int64))
    titles = {new: TITLES[old] for new, old in enumerate(allowed) if old in TITLES}
    expected = graph_from([MENTIONS[number] for number in allowed], titles)
    assert found.keys == expected.keys
    names = ("indptr", "indices", "tf", "is_title")
    assert lists(found, *names) == lists(expected, *names)
    assert found.df.tolist() == expected.df.tolist()


@given(SOME)
def test_postings_are_those_of_the_passages_left(allowed: list[int]) -> None:
    found = lexical_from(TOKENS).restricted(np.array(allowed, np.int64))
    expected = lexical_from([TOKENS[number] for number in allowed])
    assert dict(found.terms) == dict(expected.terms)
    names = ("indptr", "passages", "tf", "lengths")
    assert lists(found, *names) == lists(expected, *names)


def test_entities_that_are_given_stay_and_no_others() -> None:
    graph = graph_from(MENTIONS, TITLES)
    found = graph.restricted(np.array([0, 3]), np.array([graph.number_of["ada"], graph.number_of["dan"]]))
    assert found.keys == ("ada", "dan")
    assert (found.indptr.tolist(), found.indices.tolist(), found.tf.tolist()) == ([0, 1, 2], [0, 0], [2.0, 1.0])


@given(st.lists(st.integers(0, 3), max_size=6), st.data())
def test_rows_are_gathered_in_the_order_given(lengths: list[int], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.sampled_from(range(len(lengths))), max_size=6)) if lengths else []
    indptr = np.cumsum([0, *lengths])
    starts, offsets = gathered(indptr, np.array(rows, np.int64))
    assert offsets.tolist() == [offset for row in rows for offset in range(indptr[row], indptr[row + 1])]
    assert np.diff(starts).tolist() == [lengths[row] for row in rows]
    for kept, moved in ([], [-1, -1, -1]), ([1], [-1, 0, -1]), ([0, 2], [0, -1, 1]):
        assert new_numbers(np.array(kept, np.int64), 3).tolist() == moved
