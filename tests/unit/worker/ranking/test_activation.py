"""Spreading activation: the golden vectors of QASA, and laws on random graphs against the formula written out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.graph import RelationGraph, SeedName, SeedRule, SpreadQuestion, SpreadRule
from polyhop.worker.ranking.activation import entities_per_name, find_seeds, nearest, normalised, seed_scores, spread

ASKED = np.array([1, 0], dtype=np.float32)
DEFAULTS = SpreadRule()
KEYS = "abcdefgh"
COSINES = {"a": 0.5, "b": 0.4, "c": 0.8, "d": 0.6, "e": 0.7, "f": 0.3, "g": None, "h": -0.2}


def vectors_of(cosines: Any) -> Any:
    """Unit vectors with these cosines to the question; None is a missing vector."""
    rows = [(0.0, 0.0) if cosine is None else (cosine, (1 - cosine**2) ** 0.5) for cosine in cosines]
    return np.array(rows, dtype=np.float32).reshape(len(rows), 2)


def after(graph: RelationGraph, rule: SpreadRule) -> dict[str, float]:
    """Activation by letter on G-QASA-1."""
    entities, values = spread(graph, vectors_of(COSINES.values()), ASKED, {0: 1.0, 1: 0.6}, rule)
    return {KEYS[entity]: value for entity, value in zip(entities.tolist(), values.tolist(), strict=True)}


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
    assert after(qasa_graph, replace(DEFAULTS, **changes)) == pytest.approx(expected, abs=1e-5)


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
def test_what_is_not_above_the_threshold_or_the_target_is_not_sent(
    make_relations: Any, labels: str, seeds: dict[int, float], changes: Any, expected: dict[int, float]
) -> None:
    """By hand."""
    graph = make_relations("ab", [("a", label, "b") for label in labels])
    entities, values = spread(graph, vectors_of([1, 1]), ASKED, seeds, SpreadRule(steps=1, gate="none", **changes))
    assert dict(zip(entities.tolist(), values.tolist(), strict=True)) == expected


def test_a_question_s_vector_of_another_length_is_refused(qasa_graph: RelationGraph) -> None:
    with pytest.raises(AlgorithmError, match="shape"):
        spread(qasa_graph, vectors_of(COSINES.values()), np.ones(3, dtype=np.float32), {0: 1.0}, DEFAULTS)


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
def test_spreading_is_the_formula_written_out(make_relations: Any, data: st.DataObject) -> None:
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
    graph = make_relations(list(range(n)), [(s, f"r{place}", t) for place, (s, t) in enumerate(triples)])
    vectors = vectors_of(cosines)
    exact = [
        None if c is None else float(row[0] / np.hypot(*row))
        for c, row in zip(cosines, vectors.astype(float), strict=True)
    ]
    entities, values = spread(graph, vectors, ASKED, seeds, rule)
    expected = written_out(triples, exact, seeds, rule)
    assert dict(zip(entities.tolist(), values.tolist(), strict=True)) == pytest.approx(expected, rel=1e-9)
    assert entities.tolist() == sorted(expected)


@pytest.mark.parametrize(("names", "count"), [(0, 5), (1, 5), (2, 2), (3, 1), (5, 1), (6, 1), (7, 1)])
def test_golden_entities_per_name(names: int, count: int) -> None:
    """G-QASA-3."""
    assert entities_per_name(5, names) == count


def test_golden_normalisation() -> None:
    """G-QASA-3: the largest score is 1, with and without an exact match."""
    found: list[Any] = [(0, 1.0, "exact"), (1, 0.62, "vector"), (2, 0.31, "vector")]
    assert [seed.activation for seed in normalised(found)] == pytest.approx([1, 0.62, 0.31])
    assert [seed.activation for seed in normalised(found[1:])] == pytest.approx([1, 0.5])


def test_golden_neo4j_scores_normalise_otherwise_than_cosines() -> None:
    """G-QASA-3: 0.81 and 0.655 are the cosines 0.62 and 0.31."""
    near = vectors_of([0.62, 0.31])
    raw = seed_scores(near, ASKED, ASKED, "neo4j")
    assert raw == pytest.approx([0.81, 0.655], abs=1e-6)
    assert [s.activation for s in normalised([(n, float(v), "vector") for n, v in enumerate(raw)])] == pytest.approx(
        [1, 0.808642], abs=1e-6
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([(4, 0.4, "vector"), (4, 1.0, "alias"), (4, 1.0, "exact"), (4, 1.0, "vector")], [(4, 1.0, "exact")]),
        ([(1, 0.0, "vector"), (2, -0.3, "vector")], []),
        # by activation, then number
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


def test_candidates_are_found_by_the_hint_and_scored_by_the_question() -> None:
    hint = np.array([0, 1], dtype=np.float32)
    question = SpreadQuestion(ASKED, (SeedName("y", "vector", vector=hint),))
    vectors = vectors_of([0.9, 0.6, 0.0])
    seeds = {score: find_seeds(vectors, question, SeedRule(1, score)) for score in ("question", "entity", "neo4j")}
    assert seeds["question"] == ()  # the nearest to the hint has nothing of the question
    assert seeds["entity"][0].entity == 2
    assert seeds["entity"][0].score == pytest.approx(1)
    assert seeds["neo4j"][0].score == pytest.approx(1)


def test_a_searched_name_without_vector_is_refused() -> None:
    with pytest.raises(AlgorithmError, match="'y'"):
        find_seeds(vectors_of([1.0]), SpreadQuestion(ASKED, (SeedName("y", "vector"),)), SeedRule())


def test_entities_without_vector_are_never_near_and_equally_near_ones_come_by_number() -> None:
    assert nearest(vectors_of([None, -0.5, None, -0.9]), ASKED, 3).tolist() == [1, 3]
    assert nearest(vectors_of([0.5] * 70 + [0.9]), ASKED, 4).tolist() == [70, 0, 1, 2]
