"""The candidate loop and the scores of hubs: algorithms.md G-HUB-3 and G-HUB-4."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubPaths
from polyhop.worker.ranking.hubs import ChoiceRule, HubChoice, diversified, weighted_score

STORE = {
    "H1": {"h1p1": 0.82, "h1p2": 0.80, "h1p3": 0.79, "h1p4": 0.10},
    "H2": {"h2p1": 0.70, "h2p2": 0.30},
    "H3": {"h3p1": 0.75, "h3p2": 0.20, "h3p3": 0.15},
}
Store = Mapping[str, Mapping[str, float]]


def paths_of(counts: Sequence[int], names: Sequence[str]) -> HubPaths:
    """Hubs with so many paths of one triple each; hashes are those of the names."""
    none = np.empty(0, dtype=np.int32)
    starts = np.cumsum([0, *counts]).astype(np.int64)
    total = int(starts[-1])
    return HubPaths(
        np.arange(len(counts), dtype=np.int32),
        starts,
        np.arange(total + 1, dtype=np.int64),
        np.arange(total, dtype=np.int32),
        np.zeros(total, dtype=np.uint8),
        np.array([list(sha256(name.encode()).digest()) for name in names], dtype=np.uint8).reshape(-1, 32),
        np.arange(total, dtype=np.int32),
        np.zeros(len(counts) + 1, dtype=np.int64),
        none,
        none.astype(np.uint8),
        np.zeros(1, dtype=np.int64),
        none,
    )


def chosen(store: Store, rule: ChoiceRule) -> dict[str, tuple[list[str], float]]:
    """Paths and score of the chosen hubs, in their order."""
    hubs, names = list(store), [name for paths in store.values() for name in paths]
    scores = np.array([score for paths in store.values() for score in paths.values()])
    found = HubChoice(paths_of([len(store[hub]) for hub in hubs], names)).by_candidates(scores, rule)
    return {hubs[one.hub]: ([names[path] for path in one.paths], round(one.score, 6)) for one in found}


def test_two_hubs_with_two_paths_each() -> None:
    """The four best paths are of H1 and H3; H3 gets its second path afterwards. H2 is not chosen."""
    assert chosen(STORE, ChoiceRule(2, 2, 0.0)) == {"H1": (["h1p1", "h1p2"], 0.81), "H3": (["h3p1", "h3p2"], 0.475)}


@pytest.mark.parametrize(("gamma", "hubs"), [(3, {"H1", "H2", "H3"}), (5, {"H1", "H2", "H3"})])
def test_a_round_that_finds_no_more_hub_ends_the_loop(gamma: int, hubs: set[str]) -> None:
    assert chosen(STORE, ChoiceRule(gamma, 2, 0.0)).keys() == hubs


def test_a_hub_may_take_a_whole_round_and_the_next_one_asks_for_fewer() -> None:
    """gamma 2, alpha_paths 1: the two best paths are H1's; the next round asks for one path, of H3."""
    assert list(chosen(STORE, ChoiceRule(2, 1, 0.0)).values()) == [(["h1p1"], 0.82), (["h3p1"], 0.75)]


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        (0.0, {"H1": 0.81, "H2": 0.5, "H3": 0.475}),
        (5.0, {"H1": 0.8105, "H3": 0.716952, "H2": 0.652319}),
    ],
)
def test_hubs_stand_in_order_of_their_weighted_score(weight: float, expected: dict[str, float]) -> None:
    found = {hub: score for hub, (_, score) in chosen(STORE, ChoiceRule(3, 2, weight)).items()}
    assert list(found.items()) == list(expected.items())


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.9, 0.1], (0.5, 0.885611, 0.899403)),
        ([0.5, 0.5, 0.5], (0.5, 0.5, 0.5)),
        ([0.6, 0.55, 0.2], (0.45, 0.551375, 0.574287)),
        ([], (0.0, 0.0, 0.0)),
    ],
)
def test_the_weighted_mean(scores: list[float], expected: tuple[float, ...]) -> None:
    assert tuple(round(weighted_score(scores, weight), 6) for weight in (0, 5, 9)) == expected


def test_repeated_subjects_come_later() -> None:
    """(A,x,b) .80, (A,y,c) .78, (A,z,d) .77, a text .76, (B,x,c) .74, with a penalty of .05."""
    scores, subjects = [0.80, 0.78, 0.77, 0.76, 0.74], [0, 0, 0, -1, 1]
    assert diversified(scores, subjects, 0.05) == [0, 3, 4, 1, 2]
    assert diversified(scores, subjects, 0.0) == [0, 1, 2, 3, 4]
    assert diversified(scores, [-1] * 5, 0.05) == [0, 1, 2, 3, 4]


def test_equal_paths_stand_by_hash_and_equal_hubs_by_id() -> None:
    store = {"H1": {"a": 0.5, "b": 0.5, "c": 0.5}, "H2": {"d": 0.5, "e": 0.5}}
    by_hash = sorted("abc", key=lambda name: sha256(name.encode()).digest())
    found = chosen(store, ChoiceRule(2, 2, 5.0))
    assert found == {"H1": (by_hash[:2], 0.5), "H2": (found["H2"][0], 0.5)}


def test_paths_at_minus_infinity_are_not_seen() -> None:
    paths = paths_of([2, 1], "abc")
    choice, rule = HubChoice(paths), ChoiceRule(2, 2, 0.0)
    scores = np.array([0.5, -np.inf, -np.inf])
    assert [(hub.hub, hub.paths) for hub in choice.by_candidates(scores, rule)] == [(0, (0,))]
    assert [(hub.hub, hub.paths) for hub in choice.best_of(scores, np.arange(2), rule)] == [(0, (0,)), (1, ())]


@given(
    counts=st.lists(st.integers(0, 4), min_size=1, max_size=12),
    data=st.data(),
    gamma=st.integers(1, 4),
    alpha=st.integers(1, 3),
)
def test_the_loop_is_that_of_the_specification(counts: list[int], data: st.DataObject, gamma: int, alpha: int) -> None:
    """Against the rule written out over all paths, for scores with many ties."""
    names = [f"path {n}" for n in range(sum(counts))]
    steps = st.sampled_from([-np.inf, 0.0, 0.25, 0.5, 0.75])
    scores = np.array(data.draw(st.lists(steps, min_size=len(names), max_size=len(names))), dtype=np.float64)
    paths = paths_of(counts, names)
    rule = ChoiceRule(gamma, alpha, 5.0)
    found = HubChoice(paths).by_candidates(scores, rule)
    assert {hub.hub for hub in found} == plainly_chosen(paths, scores, rule)
    best = HubChoice(paths).best_of(scores, np.arange(len(counts)), rule)
    assert [hub.hub for hub in best] == plainly_ranked(paths, scores, rule)


def in_order(paths: HubPaths, scores: NDArray[np.float64], numbers: Sequence[int]) -> list[int]:
    seen = [number for number in numbers if scores[number] > -np.inf]
    return sorted(seen, key=lambda number: (-scores[number], paths.hashes[number].tobytes()))


def plainly_chosen(paths: HubPaths, scores: NDArray[np.float64], rule: ChoiceRule) -> set[int]:
    owner, chosen_hubs = paths.path_hubs().tolist(), list[int]()
    while len(chosen_hubs) < rule.hubs:
        free = [number for number in range(len(scores)) if owner[number] not in chosen_hubs]
        first = in_order(paths, scores, free)[: (rule.hubs - len(chosen_hubs)) * rule.paths]
        if not first:
            break
        for number in first:
            if owner[number] not in chosen_hubs and len(chosen_hubs) < rule.hubs:
                chosen_hubs.append(owner[number])
    return set(chosen_hubs)


def plainly_ranked(paths: HubPaths, scores: NDArray[np.float64], rule: ChoiceRule) -> list[int]:
    owner = paths.path_hubs().tolist()
    rows = []
    for hub in range(len(paths.hubs)):
        kept = in_order(paths, scores, [n for n in range(len(scores)) if owner[n] == hub])[: rule.paths]
        rows.append((not kept, -round(weighted_score(scores[kept], rule.weight), 12), hub))
    return [hub for _, _, hub in sorted(rows)][: rule.hubs]
