"""Spreading activation and chains: the golden vectors of QASA, and laws on random graphs."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_index import relations_from

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.graph import (
    BipartiteGraph,
    ChainRule,
    Entity,
    Hop,
    RelationGraph,
    SeedName,
    SeedRule,
    SpreadQuestion,
    SpreadRule,
)
from polyhop.worker.ranking.activation import (
    entities_per_name,
    find_seeds,
    nearest,
    next_seeds,
    normalised,
    seed_scores,
    spread,
    with_passages,
)
from polyhop.worker.ranking.chains import best_chains, chain_line, context_text, search_paths, without_duplicates
from polyhop.worker.strategies.base import entity_line

STATED = "a wrote c; c located in d; d capital of e; b studied at c; e part of f; a born in d; c mentions g; d near h"


@pytest.fixture(scope="module")
def qasa_graph() -> RelationGraph:
    """G-QASA-1: the entities a to h."""
    triples = [*STATED.split("; "), "c written by a"]
    return relations_from("abcdefgh", [(triple[0], triple[2:-2], triple[-1]) for triple in triples])


ASKED = np.array([1, 0], dtype=np.float32)
DEFAULTS = SpreadRule()
KEYS = "abcdefgh"
COSINES = {"a": 0.5, "b": 0.4, "c": 0.8, "d": 0.6, "e": 0.7, "f": 0.3, "g": None, "h": -0.2}


def vectors_of(cosines: Any) -> Any:
    """Unit vectors with these cosines to the question; None is a missing vector."""
    rows = [(0.0, 0.0) if cosine is None else (cosine, (1 - cosine**2) ** 0.5) for cosine in cosines]
    return np.array(rows, dtype=np.float32).reshape(len(rows), 2)


PER_EDGE = {"edge_multiplicity": "per_edge"}
UNGATED_3 = {"a": 3.3128, "b": 1.384, "c": 4.8664, "d": 2.184, "e": 2.0188, "f": 0.343, "h": 2.0188}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"steps": 0}, {"a": 1, "b": 0.6}),
        ({"steps": 1}, {"a": 1, "b": 0.6, "c": 0.896, "d": 0.42}),
        ({"steps": 2}, {"a": 1, "b": 0.85088, "c": 1.456, "d": 1.21632, "e": 0.2058}),
        ({}, {"a": 1.935312, "b": 1.25856, "c": 1.456, "d": 1.82784, "e": 0.801797, "f": 0.043218}),
        ({"steps": 4}, {"a": 1.935312, "b": 1.66624, "c": 3.563365, "d": 2.640671, "e": 1.697438, "f": 0.211595}),
        ({"decay": 0.3}, {"a": 1, "b": 0.69216, "c": 1.008, "d": 0.74736, "e": 0.127915}),
        ({"decay": 0.5}, {"a": 1.26, "b": 0.936, "c": 1.04, "d": 1.404, "e": 0.3822, "f": 0.01575}),
        ({"decay": 0.9}, {"a": 2.284336, "b": 1.42944, "c": 3.470746, "d": 1.70208, "e": 1.41251, "f": 0.091854}),
        ({"decay": 1.0}, {"a": 2.624, "b": 1.624, "c": 4.1664, "d": 1.968, "e": 1.7976, "f": 0.126}),
        ({"threshold": 0.2}, {"a": 1.935312, "b": 1.25856, "c": 1.456, "d": 1.82784, "e": 0.801797}),
        ({"steps": 1, **PER_EDGE}, {"a": 1, "b": 0.6, "c": 1.456, "d": 0.42}),
        ({"steps": 2, **PER_EDGE}, {"a": 2.0192, "b": 1.00768, "c": 1.456, "d": 1.45152, "e": 0.2058}),
        (PER_EDGE, {"a": 2.0192, "b": 1.41536, "c": 3.717504, "d": 2.911104, "e": 0.917045, "f": 0.043218}),
        ({"steps": 1, "gate": "none"}, {"a": 1, "b": 0.6, "c": 1.12, "d": 0.7}),
        ({"steps": 2, "gate": "none"}, {"a": 1.784, "b": 1.384, "c": 1.12, "d": 2.184, "e": 0.49, "h": 0.49}),
        ({"gate": "none"}, UNGATED_3),
        ({"gate": "none", "uniform_requires_embedding": False}, {**UNGATED_3, "g": 1.568}),
    ],
)
def test_golden_propagation(qasa_graph: RelationGraph, changes: Any, expected: dict[str, float]) -> None:
    """G-QASA-1."""
    rule = replace(DEFAULTS, **changes)
    entities, values = spread(qasa_graph, vectors_of(COSINES.values()), ASKED, {0: 1.0, 1: 0.6}, rule)
    found = {KEYS[entity]: value for entity, value in zip(entities.tolist(), values.tolist(), strict=True)}
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("labels", "seeds", "changes", "expected"),
    [
        # Three relations carry 3 * 0.5 = 1.5, far above tau, but the source itself must be above it.
        ("rst", {0: 0.5}, {"decay": 1.0, "threshold": 0.5, **PER_EDGE}, {0: 0.5}),
        ("rst", {0: 0.5}, {"decay": 1.0, "threshold": 0.49, **PER_EDGE}, {0: 0.5, 1: 1.5}),
        # One relation carries 0.5 * 1.0 = 0.5, which must be above tau as well.
        ("r", {0: 1.0}, {"decay": 0.5, "threshold": 0.5}, {0: 1.0}),
        ("r", {0: 1.0}, {"decay": 0.5, "threshold": 0.49}, {0: 1.0, 1: 0.5}),
        # Two equal neighbours exchange nothing.
        ("r", {0: 1.0, 1: 1.0}, {}, {0: 1.0, 1: 1.0}),
    ],
)
def test_what_is_above_threshold_and_target_is_sent(labels: str, seeds: Any, changes: Any, expected: Any) -> None:
    """By hand."""
    graph = relations_from("ab", [("a", label, "b") for label in labels])
    entities, values = spread(graph, vectors_of([1, 1]), ASKED, seeds, SpreadRule(steps=1, gate="none", **changes))
    assert dict(zip(entities.tolist(), values.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(1, {0: 1.0, 1: 0.5}), (2, {0: 1.0, 1: 1.0, 2: 0.25})], ids=["strongest", "two strongest"]
)
def test_a_second_pass_starts_from_the_strongest_of_the_first(count: int, expected: Any) -> None:
    """By hand: a to b to c, one step of decay .5 each."""
    graph, rule = relations_from("abc", [("a", "r", "b"), ("b", "r", "c")]), SpreadRule(1, 0.5, gate="none")
    vectors = vectors_of([1, 1, 1])
    entities, values = spread(graph, vectors, ASKED, {0: 2.0}, rule)
    again, final = spread(graph, vectors, ASKED, next_seeds(entities, values, [0], count), rule)
    assert dict(zip(again.tolist(), final.tolist(), strict=True)) == expected


def test_a_further_pass_keeps_the_seeds_of_the_question_and_nothing_starts_from_nothing() -> None:
    assert next_seeds(np.array([1, 4, 7]), np.array([0.2, 2.0, 0.5]), [1], 1) == {1: 0.1, 4: 1.0}
    assert next_seeds(np.array([], dtype=np.intp), np.array([]), [], 3) == {}


@pytest.mark.parametrize(
    ("steps", "gates", "expected"),
    [
        (1, [0.8, 0.0], {0: 1, 2: 0.4}),  # p0 gets .5 * .8 * 1; the gate of p1 is closed
        (2, [0.8, 0.0], {0: 1, 1: 0.2, 2: 0.8}),  # p0 the same again; b, of cosine 1, gets .5 * .4
        (1, [1.0, 1.0], {0: 1, 2: 0.5, 3: 0.5}),
    ],
)
def test_activation_spreads_over_passages_as_over_entities(steps: int, gates: Any, expected: Any) -> None:
    """By hand: a and b have no relation; p0 mentions both, p1 mentions a."""
    mentions = BipartiteGraph(
        np.array([0, 2, 3]), np.array([0, 1, 0], np.int32), np.ones(3), np.zeros(3, dtype=bool), ("a", "b")
    )
    graph = with_passages(relations_from("ab", []), mentions)
    rule = SpreadRule(steps, 0.5)
    nodes, values = spread(graph, vectors_of([1, 1]), ASKED, {0: 1.0}, rule, np.array(gates))
    assert dict(zip(nodes.tolist(), values.tolist(), strict=True)) == pytest.approx(expected)


def test_passages_as_nodes_leave_the_relations_of_entities_as_they_are(qasa_graph: RelationGraph) -> None:
    mentions = BipartiteGraph(
        np.array([0, 2]), np.array([0, 7], np.int32), np.ones(2), np.zeros(2, dtype=bool), tuple(KEYS)
    )
    graph = with_passages(qasa_graph, mentions)
    for source, target in ((0, 2), (2, 0), (2, 3), (0, 7)):
        assert graph.labels_from(source, target) == qasa_graph.labels_from(source, target)
    assert (graph.labels_from(8, 7), graph.labels_from(7, 8)) == (("mentions",), ())
    assert graph.multiplicity[graph.indptr[8] :].tolist() == [1, 1]


def relations_of(triples: Any, count: int) -> RelationGraph:
    """Of entities that are numbers."""
    numbers: Any = range(count)
    return relations_from(numbers, triples)


def written_out(
    triples: list[tuple[int, int]], cosines: list[float | None], seeds: dict[int, float], rule: SpreadRule
) -> dict[int, float]:
    """The formula of algorithms.md 1.5 step 3 with dictionaries, entity by entity."""
    r = dict(seeds)
    for _ in range(rule.steps):
        increments = {}
        for v, cosine in enumerate(cosines):
            around = [t if s == v else s for s, t in triples if v in (s, t) and s != t]
            if rule.edge_multiplicity == "set":
                around = sorted(set(around))
            flow = sum(r[u] for u in sorted(around) if r.get(u, 0) > rule.threshold and r[u] - r.get(v, 0) > 1e-12)
            needed = rule.gate == "cosine" or rule.uniform_requires_embedding
            sigma = 0.0 if needed and cosine is None else max(cosine or 0.0, 0.0) if rule.gate == "cosine" else 1.0
            increments[v] = rule.decay * sigma * flow
        for v, increment in increments.items():
            if increment > rule.threshold:
                r[v] = r.get(v, 0.0) + increment
    return r


@given(data=st.data())
def test_spreading_is_the_formula_written_out(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 8))
    node = st.integers(0, n - 1)
    drawn = data.draw(st.lists(st.tuples(node, node), max_size=16, unique=True))
    triples = [pair for pair in drawn if pair[0] != pair[1]]
    cosine = st.none() | st.sampled_from([-0.5, 0.1, 0.5, 0.75, 1.0])
    cosines = data.draw(st.lists(cosine, min_size=n, max_size=n))
    seeds = data.draw(st.dictionaries(node, st.sampled_from([0.005, 0.25, 0.5, 1.0]), max_size=4))
    rule = SpreadRule(
        steps=data.draw(st.integers(0, 5)),
        decay=data.draw(st.sampled_from([0.3, 0.7, 1.0])),
        threshold=data.draw(st.sampled_from([0.0, 0.0137, 0.2137])),
        gate=data.draw(st.sampled_from(["cosine", "none"])),
        edge_multiplicity=data.draw(st.sampled_from(["set", "per_edge"])),
        uniform_requires_embedding=data.draw(st.booleans()),
    )
    graph = relations_of([(s, f"r{place}", t) for place, (s, t) in enumerate(triples)], n)
    vectors = vectors_of(cosines)
    rows = zip(cosines, vectors.astype(float), strict=True)
    exact = [None if c is None else float(row[0] / np.hypot(*row)) for c, row in rows]
    entities, values = spread(graph, vectors, ASKED, seeds, rule)
    expected = written_out(triples, exact, seeds, rule)
    assert dict(zip(entities.tolist(), values.tolist(), strict=True)) == pytest.approx(expected, rel=1e-9)
    assert entities.tolist() == sorted(expected)


@pytest.mark.parametrize(("names", "count"), [(0, 5), (1, 5), (2, 2), (3, 1), (5, 1), (6, 1), (7, 1)])
def test_golden_entities_per_name(names: int, count: int) -> None:
    """G-QASA-3."""
    assert entities_per_name(5, names) == count


def test_golden_normalisation() -> None:
    """G-QASA-3: the largest is 1, with and without an exact match; .81 and .655 are the cosines .62 and .31."""
    found: list[Any] = [(0, 1.0, "exact"), (1, 0.62, "vector"), (2, 0.31, "vector")]
    assert [seed.activation for seed in normalised(found)] == pytest.approx([1, 0.62, 0.31])
    assert [seed.activation for seed in normalised(found[1:])] == pytest.approx([1, 0.5])
    raw = seed_scores(vectors_of([0.62, 0.31]), ASKED, ASKED, "neo4j")
    assert raw == pytest.approx([0.81, 0.655], abs=1e-6)
    found = [(number, float(value), "vector") for number, value in enumerate(raw)]
    assert [seed.activation for seed in normalised(found)] == pytest.approx([1, 0.808642], abs=1e-6)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([(4, 0.4, "vector"), (4, 1.0, "alias"), (4, 1.0, "exact"), (4, 1.0, "vector")], [(4, 1.0, "exact")]),
        ([(1, 0.0, "vector"), (2, -0.3, "vector")], []),
        (
            [(7, 1.0, "exact"), (3, 0.5, "vector"), (2, 1, "exact")],
            [(2, 1, "exact"), (7, 1, "exact"), (3, 0.5, "vector")],
        ),
    ],
)
def test_an_entity_is_found_once_with_its_larger_score_and_surer_match(found: Any, expected: Any) -> None:
    assert [(seed.entity, seed.score, seed.match) for seed in normalised(found)] == expected


def test_a_known_name_is_not_searched_by_similarity() -> None:
    names = (SeedName("x", "exact", (2,)), SeedName("y", "vector", vector=ASKED))
    seeds = find_seeds(vectors_of([1.0, 0.9, 0.1, 0.8]), SpreadQuestion(ASKED, names), SeedRule())
    assert [(seed.entity, seed.match) for seed in seeds] == [(0, "vector"), (2, "exact"), (1, "vector")]


def test_of_what_a_search_finds_the_nearest_count_and_none_without_vector() -> None:
    vectors = vectors_of([0.9, 0.6, 0.8, 1.0]) * np.array([[1], [1], [1], [0]], np.float32)
    assert nearest(vectors, ASKED, 2, lambda _, count: np.arange(count)[[3, 1, 2, 1]]).tolist() == [2, 1]


def test_candidates_are_found_by_the_hint_and_scored_by_the_question() -> None:
    hint = np.array([0, 1], dtype=np.float32)
    question = SpreadQuestion(ASKED, (SeedName("y", "vector", vector=hint),))
    vectors = vectors_of([0.9, 0.6, 0.0])
    seeds = {score: find_seeds(vectors, question, SeedRule(1, score)) for score in ("question", "entity", "neo4j")}
    assert seeds["question"] == ()  # the nearest to the hint has nothing of the question
    assert seeds["entity"][0].entity == 2
    assert seeds["entity"][0].score == pytest.approx(1)
    assert seeds["neo4j"][0].score == pytest.approx(1)


def test_a_name_without_vector_and_a_vector_of_another_length_are_refused(qasa_graph: RelationGraph) -> None:
    with pytest.raises(AlgorithmError, match="'y'"):
        find_seeds(vectors_of([1.0]), SpreadQuestion(ASKED, (SeedName("y", "vector"),)), SeedRule())
    with pytest.raises(AlgorithmError, match="shape"):
        spread(qasa_graph, vectors_of(COSINES.values()), np.ones(3, dtype=np.float32), {0: 1.0}, DEFAULTS)


ALL_CHAINS = ChainRule()
ACTIVE = np.arange(6)
VALUES = np.array([1.935312, 1.25856, 1.456, 1.82784, 0.801797, 0.043218])


def lettered(paths: Any) -> list[str]:
    return ["-".join(KEYS[entity] for entity in path) for path in paths]


def test_golden_simple_paths(qasa_graph: RelationGraph) -> None:
    """G-QASA-4: all 18, in descending order of score."""
    found = search_paths(qasa_graph, ACTIVE, VALUES, [0, 1], ALL_CHAINS)
    paths = "a-d a-c-d a-d-c a-c a-d-c-b b-c-a-d b-c-d-a a-c-b b-c-a a-d-e b-c-d a-c-d-e b-c-a-d-e b-c b-c-d-e "
    paths += "a-c-d-e-f a-d-e-f b-c-d-e-f"
    scores = [1.881576, 1.739717, 1.739717, 1.695656, 1.619428, 1.619428, 1.619428, 1.549957, 1.549957, 1.52165]
    scores += [1.514133, 1.505237, 1.455902, 1.35728, 1.336049, 1.212833, 1.152042, 1.077483]
    assert lettered(chain.entities for chain in found.chains) == paths.split()
    assert [chain.score for chain in found.chains] == pytest.approx(scores, abs=1e-5)
    assert not found.is_cut


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["a-d-c-b", "b-c-a-d-e", "a-c-d-e-f", "a-d-e-f", "b-c-d-e-f"]),
        ({"limit": 5}, ["a-c-d", "a-d-c-b"]),
        ({"limit": 2, "dedupe": "before_limit"}, ["a-d-c-b", "b-c-a-d-e"]),
        ({"max_length": 1}, ["a-d", "a-c", "b-c"]),
    ],
)
def test_golden_chains_without_duplicates(qasa_graph: RelationGraph, changes: Any, expected: list[str]) -> None:
    """G-QASA-4."""
    found = best_chains(qasa_graph, ACTIVE, VALUES, [0, 1], replace(ALL_CHAINS, **changes))
    assert lettered(chain.entities for chain in found.chains) == expected


@pytest.mark.parametrize(
    ("paths", "left"),
    [
        ([(1, 2, 3), (3, 2, 1), (1, 2, 3)], [(1, 2, 3)]),  # G-QASA-4: b-c-d-a is a-d-c-b, b-c-a is a-c-b
        ([(2, 1), (1, 2, 3), (3, 2), (4, 5)], [(1, 2, 3), (4, 5)]),  # prefixes read backwards go too
        # compared with all that are left after the reversals, not only with survivors
        ([(1, 2), (1, 2, 3), (1, 2, 3, 4)], [(1, 2, 3, 4)]),
    ],
)
def test_reversals_and_prefixes_go(paths: list[tuple[int, ...]], left: list[tuple[int, ...]]) -> None:
    assert without_duplicates(paths) == left


def test_a_search_that_stops_early_says_so_and_a_seed_alone_makes_no_chain(qasa_graph: RelationGraph) -> None:
    found = best_chains(qasa_graph, ACTIVE, VALUES, [0, 1], replace(ALL_CHAINS, max_paths=3))
    assert (found.is_cut, found.looked_at) == (True, 3)
    assert not best_chains(qasa_graph, ACTIVE, VALUES, [0, 1], replace(ALL_CHAINS, max_paths=18)).is_cut
    for count in (0, 1):
        assert best_chains(qasa_graph, ACTIVE[:count], np.ones(count), [0][:count], ALL_CHAINS).chains == ()


def test_the_bound_saves_work_on_a_hub() -> None:
    """A hub with 60 neighbours has some 200,000 paths of four relations through five of them."""
    keys = [f"n{number:02}" for number in range(60)]
    spokes, rim = ((keys[0], key) for key in keys[1:]), pairwise(keys[1:])
    graph = relations_from(keys, [(one, "r", other) for one, other in (*spokes, *rim)])
    values = np.linspace(2.0, 0.1, 60)
    bounded = search_paths(graph, np.arange(60), values, [0, 59], replace(ALL_CHAINS, limit=10))
    full = search_paths(graph, np.arange(60), values, [0, 59], replace(ALL_CHAINS, limit=0))
    assert bounded.chains == full.chains[:10]
    assert bounded.looked_at < full.looked_at / 10


def enumerated(graph: RelationGraph, active: set[int], seed: int, length: int) -> Iterator[tuple[int, ...]]:
    """Every simple path from a seed, the plain way."""
    paths = [(seed,)]
    for _ in range(length):
        paths = [
            (*path, int(node))  # type: ignore[misc]
            for path in paths
            for node in graph.indices[graph.indptr[path[-1]] : graph.indptr[path[-1] + 1]]
            if int(node) in active and int(node) not in path
        ]
        yield from paths


@given(data=st.data())
def test_bounded_search_is_full_enumeration(data: st.DataObject) -> None:
    """Few different values, so that many paths tie."""
    n = data.draw(st.integers(2, 9))
    node = st.integers(0, n - 1)
    pairs = [pair for pair in data.draw(st.lists(st.tuples(node, node), max_size=24, unique=True)) if len({*pair}) == 2]
    graph = relations_of([(s, "r", t) for s, t in pairs], n)
    active = np.array(data.draw(st.lists(node, min_size=1, unique=True).map(sorted)), dtype=np.intp)
    choice = st.one_of(st.sampled_from([0.1, 0.3, 0.7, 1.0]), st.floats(0.01, 50))
    values = np.array(data.draw(st.lists(choice, min_size=len(active), max_size=len(active))))
    seeds = data.draw(st.lists(st.sampled_from(active.tolist()), min_size=1, max_size=3, unique=True))
    rule = ChainRule(data.draw(st.integers(1, 12)), data.draw(st.integers(1, 5)))
    value_of = dict(zip(active.tolist(), values.tolist(), strict=True))
    scored = []
    for seed in seeds:
        for path in enumerated(graph, set(active.tolist()), seed, rule.max_length):
            score = sum(sorted(value_of[entity] for entity in path)) / len(path)
            scored.append((-np.rint(score * 1e12), len(path), path))
    expected = [path for _, _, path in sorted(scored)][: rule.limit]
    found = search_paths(graph, active, values, seeds, rule)
    assert [chain.entities for chain in found.chains] == expected
    everything = search_paths(graph, active, values, seeds, replace(rule, limit=0))
    assert [chain.entities for chain in everything.chains] == [path for _, _, path in sorted(scored)]
    assert search_paths(graph, active, values, seeds[::-1], rule).chains == found.chains


def test_chains_and_entities_as_the_model_reads_them() -> None:
    """Arrows point as relations are stored, G-QASA-4; empty sections say so."""
    hops = (Hop(("directed",), ()), Hop((), ("capital of", "near")))
    assert chain_line(["A", "B", "C"], hops) == "A --[directed]--> B <--[capital of | near]-- C"
    assert chain_line("ac", [Hop(("wrote",), ("written by",))]) == "a --[wrote]--> <--[written by]-- c"
    given = (("PERSON", "Ada wrote\n notes."), ("", "Ada wrote."), ("PERSON", ""))
    lines = [entity_line(Entity("ada", "Ada", kind, text)) for kind, text in given]
    assert lines == ["Ada (PERSON): Ada wrote notes.", "Ada: Ada wrote.", "Ada (PERSON)"]
    assert context_text(["A --[r]--> B"], []) == "Chains:\nA --[r]--> B\n\nEntities:\n(none)"
    assert context_text([], ["A: a"]) == "Chains:\n(none)\n\nEntities:\nA: a"
