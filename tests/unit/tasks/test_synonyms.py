"""Synonyms of entities: the exact definition on small sets, and the search in lists against it on larger ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polyhop.tasks.propositions import stage as synonyms
from polyhop.tasks.propositions.stage import SynonymRule, find_synonyms

Vectors = NDArray[np.float32]


def unit(rows: NDArray[np.floating]) -> Vectors:
    given: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return given


def clustered(count: int, groups: int, seed: int, spread: float = 0.35) -> Vectors:
    """Vectors around some centres, so that many pairs are near the threshold."""
    draw = np.random.default_rng(seed)
    centres = unit(draw.normal(size=(groups, 24)))
    noise = unit(draw.normal(size=(count, 24))) * draw.uniform(0, 2 * spread, size=(count, 1))
    return unit(centres[draw.integers(0, groups, count)] + noise)


def by_definition(vectors: Vectors, names: list[str], rule: SynonymRule) -> dict[tuple[int, int], float]:
    """Every pair looked at, one by one."""
    wide = vectors.astype(np.float64)
    pairs = {}
    for number, name in enumerate(names):
        if sum(map(str.isalnum, name)) <= 2:
            continue
        near = [(-round(float(wide[number] @ wide[other]), 12), other) for other in range(len(wide)) if other != number]
        for cosine, other in sorted(near)[: rule.neighbours]:
            if -cosine >= rule.threshold:
                pairs[min(number, other), max(number, other)] = -cosine
    return pairs


@given(
    count=st.integers(1, 60),
    groups=st.integers(1, 8),
    seed=st.integers(0, 1000),
    short=st.sets(st.integers(0, 59)),
    neighbours=st.sampled_from([1, 3, 100]),
    threshold=st.sampled_from([0.6, 0.8, 0.95]),
)
def test_pairs_are_those_of_the_definition(
    count: int, groups: int, seed: int, short: set[int], neighbours: int, threshold: float
) -> None:
    vectors = clustered(count, groups, seed)
    names = ["EU" if number in short else f"Entity {number}" for number in range(count)]
    rule = SynonymRule(threshold, neighbours)
    found = find_synonyms(vectors, names, rule)
    expected = by_definition(vectors, names, rule)
    assert [tuple(pair) for pair in found.pairs.tolist()] == sorted(expected)
    assert found.cosines == pytest.approx([expected[pair] for pair in sorted(expected)], abs=1e-9)
    assert found.recall == 1.0


def test_two_names_of_two_letters_are_never_synonyms_but_others_find_them() -> None:
    vectors = unit(np.array([[1.0, 0.0], [1.0, 0.01], [1.0, 0.02]]))
    assert find_synonyms(vectors, ["U.K.", "UK", "United Kingdom"], SynonymRule()).pairs.tolist() == [[0, 2], [1, 2]]
    assert find_synonyms(vectors[:2], ["U.K.", "UK"], SynonymRule()).pairs.tolist() == []


def test_the_search_in_lists_finds_nearly_all_and_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(6000, 900, 5)
    names = [f"Entity {number}" for number in range(6000)]
    exact = find_synonyms(vectors, names, SynonymRule())
    monkeypatch.setattr(synonyms, "_EXACT_UP_TO", 100)
    listed = find_synonyms(vectors, names, SynonymRule())
    all_pairs, found = ({tuple(pair) for pair in each.pairs.tolist()} for each in (exact, listed))
    assert found <= all_pairs
    assert len(all_pairs) > 5000
    share = len(found) / len(all_pairs)
    assert share >= 0.97
    assert listed.recall == pytest.approx(share, abs=0.02)
    again = find_synonyms(vectors, names, SynonymRule())
    assert np.array_equal(listed.pairs, again.pairs)
    assert np.array_equal(listed.cosines, again.cosines)


def test_no_entities_have_no_synonyms() -> None:
    found = find_synonyms(np.zeros((0, 384), dtype=np.float32), [], SynonymRule())
    assert (found.pairs.shape, found.cosines.shape, found.recall) == ((0, 2), (0,), 1.0)
