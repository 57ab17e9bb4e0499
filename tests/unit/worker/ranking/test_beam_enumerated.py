"""Beam search against a plain enumerating version of algorithms.md 3.6, on random small graphs, for every option."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_index import propositions_from
from numpy.typing import NDArray

from polyhop.schemas.propositions import PropositionGraph
from polyhop.worker.ranking.proposition_paths import Connection, PathSearch, search_paths
from polyhop.worker.ranking.proposition_walks import PathRule

Vector = NDArray[np.float64]
Ids = tuple[int, ...]
Links = tuple[tuple[str, int | None, int | None], ...]
ENTITIES = 6


@dataclass(frozen=True)
class Case:
    """Propositions with entities in stored order, cosines by pair of entities, and those that are searched."""

    members: list[list[int]]
    cosines: dict[tuple[int, int], float]
    universe: list[int]
    vectors: Vector
    question: Vector

    @property
    def graph(self) -> PropositionGraph:
        return propositions_from(self.members, [], self.cosines, (len(self.members), ENTITIES, 0))

    @property
    def search(self) -> PathSearch:
        numbers = np.array(self.universe, dtype=np.intp)
        return PathSearch(numbers, self.vectors[numbers], self.question)

    def texts_of(self, numbers: Sequence[int]) -> list[str]:
        return [f"t{number}" for number in numbers]

    def encode(self, texts: Sequence[str]) -> Vector:
        """A vector that depends on the order of a path."""
        return np.array([self.joined([int(word[1:]) for word in text.split(" ")]) for text in texts])

    def joined(self, numbers: Sequence[int]) -> Vector:
        weighted = [(position + 1) * self.vectors[number] for position, number in enumerate(numbers)]
        given: Vector = np.sum(weighted, axis=0)
        return given


class Enumerated:
    """The search as written in the specification, with lists and dictionaries, one path at a time."""

    def __init__(self, case: Case, rule: PathRule) -> None:
        self.case, self.rule = case, rule
        self.scores: list[float] = []
        self.beams: list[list[tuple[float, Ids, Links]]] = []

    def run(self) -> list[tuple[float, Ids, Links]]:
        """All paths in order."""
        rule = self.rule
        similarity = {p: self.cosine(self.case.vectors[p]) for p in self.case.universe}
        order = sorted(self.case.universe, key=lambda p: (-round(similarity[p], 12), p))
        jumps = order if rule.allow_unconnected else order[: rule.jump_points]
        self.beams = [[(similarity[p], (p,), ()) for p in order[: rule.beam_width]]]
        for _ in range(2, rule.max_length + 1):
            candidates = self.candidates(jumps)
            if not candidates:
                break
            by_mean = [(self.mean(ids), ids, links) for ids, links in candidates]
            kept = sorted(by_mean, key=self.rank)[: rule.rescored]
            if rule.exact and (rule.exact_when_few or len(candidates) > rule.beam_width):
                kept = [(self.cosine(self.case.joined(ids)), ids, links) for _, ids, links in kept]
                self.scores += [score for score, _, _ in kept]
            self.beams.append(sorted(kept, key=self.rank)[: rule.beam_width])
        paths = [path for beam in self.beams for path in beam]
        return sorted(paths, key=lambda path: (-round(path[0], 12), len(path[1]), path[1]))

    def candidates(self, jumps: list[int]) -> list[tuple[Ids, Links]]:
        generated: set[frozenset[int]] = set()
        found = []
        for _, ids, links in self.beams[-1]:
            connected = self.connected(ids[-1])
            for jump in jumps:
                if jump != ids[-1]:
                    connected.setdefault(jump, ("jump", None, None))
            for target, link in connected.items():
                members = frozenset((*ids, target))
                if target in ids or members in generated:
                    continue
                generated.add(members)
                found.append(((*ids, target), (*links, link)))
        return found

    def connected(self, last: int) -> dict[int, tuple[str, int | None, int | None]]:
        """How each connected proposition was first reached, in the order in which that happened."""
        found: dict[int, tuple[str, int | None, int | None]] = {}
        for entity in dict.fromkeys(self.case.members[last]):
            ways = [("exact", entity)] + [("synonym", other) for other in self.synonyms(entity)]
            for kind, other in ways:
                for p in sorted(self.case.universe):
                    if p != last and other in self.case.members[p]:
                        found.setdefault(p, (kind, entity, other))
        return found

    def synonyms(self, entity: int) -> list[int]:
        near = {}
        for (left, right), cosine in self.case.cosines.items():
            if cosine >= self.rule.synonym_threshold and entity in (left, right):
                near[right if entity == left else left] = cosine
        return sorted(near, key=lambda other: (-near[other], other))

    def mean(self, ids: Ids) -> float:
        score = self.cosine(np.mean([self.case.vectors[p] for p in ids], axis=0))
        self.scores.append(score)
        return score

    def cosine(self, vector: Vector) -> float:
        return float(vector @ self.case.question) / float(np.linalg.norm(vector))

    def rank(self, path: tuple[float, Ids, Links]) -> tuple[float, Ids]:
        return (-round(path[0], 12), path[1])

    def is_stable(self) -> bool:
        """Whether no score lies where its last digits, which depend on the order of summation, decide the rounding."""
        return all(abs(score * 1e12 - floor(score * 1e12) - 0.5) > 2e-3 for score in self.scores)


def case_of(seed: int) -> Case:
    """Some vectors are shared, so that scores tie; some propositions are not searched, some name nothing."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 13))
    members = [rng.integers(0, ENTITIES, rng.integers(0, 4)).tolist() for _ in range(count)]
    pairs = {tuple(sorted(rng.integers(0, ENTITIES, 2).tolist())) for _ in range(int(rng.integers(0, 7)))}
    cosines = {pair: float(rng.choice([0.8, 0.85, 0.9, 0.95])) for pair in sorted(pairs) if pair[0] < pair[1]}
    pool = rng.normal(np.array([1.5, 0, 0, 0]), 1.0, (int(rng.integers(2, 10)), 4))
    vectors = pool[rng.integers(0, len(pool), count)]
    question = rng.normal(size=4)
    universe = np.flatnonzero(rng.random(count) < 0.85).tolist() or [0]
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return Case(members, cosines, universe, vectors / length, question / np.linalg.norm(question))


cases = st.builds(case_of, st.integers(0, 2**32 - 1))
rules = st.builds(
    PathRule,
    beam_width=st.integers(1, 5),
    max_length=st.sampled_from([2, 3, 4, 1]),
    rescored=st.integers(1, 8),
    jump_points=st.integers(0, 3),
    exact=st.booleans(),
    exact_when_few=st.booleans(),
    allow_unconnected=st.booleans(),
    synonym_threshold=st.sampled_from([0.8, 0.9]),
    explore_propositions=st.none() | st.integers(0, 9),
)


def as_plain(path: Any) -> tuple[Ids, Links]:
    return path.propositions, tuple((link.kind, link.source, link.target) for link in path.connections)


@given(st.integers(0, 2**32 - 1), rules)
def test_the_search_is_the_enumerated_one(seed: int, rule: PathRule) -> None:
    """Paths, their order, their connections and scores, and the beam after every depth, on five graphs per rule."""
    for number in range(5):
        case = case_of(seed + number)
        judge = Enumerated(case, rule)
        expected = judge.run()
        if not judge.is_stable():
            continue
        found = search_paths(case.graph, [case.search], rule, case.texts_of, case.encode)[0]
        assert [as_plain(path) for path in found.paths] == [path[1:] for path in expected]
        assert np.allclose(
            [path.score for path in found.paths], [score for score, _, _ in expected], rtol=0, atol=1e-12
        )
        assert [[as_plain(path) for path in beam] for beam in found.beams] == [
            [path[1:] for path in beam] for beam in judge.beams
        ]
        first = rule.beam_width if rule.explore_propositions is None else rule.explore_propositions
        alone = Enumerated(case, PathRule(beam_width=first, max_length=1)).run()
        assert [as_plain(path) for path in found.initial] == [path[1:] for path in alone]


@given(st.lists(cases, max_size=4), rules)
def test_a_batch_is_searched_as_its_questions_are(batch: list[Case], rule: PathRule) -> None:
    """One call of the encoder per depth, with distinct texts of ascending propositions; one graph for all questions."""
    if not batch:
        nothing = propositions_from([], [], {}, (0, 0, 0))
        assert search_paths(nothing, [], rule, list, np.array) == []  # type: ignore[arg-type]
        return
    shared = batch[0]
    questions = [
        Case(shared.members, shared.cosines, shared.universe[n:] or [0], shared.vectors, case.question)
        for n, case in enumerate(batch)
    ]
    calls: list[list[str]] = []
    asked: list[list[int]] = []

    def encode(texts: Sequence[str]) -> Vector:
        calls.append(list(texts))
        return shared.encode(texts)

    def texts_of(numbers: Sequence[int]) -> list[str]:
        asked.append(list(numbers))
        return shared.texts_of(numbers)

    together = search_paths(shared.graph, [case.search for case in questions], rule, texts_of, encode)
    assert len(asked) == len(calls)
    assert all(numbers == sorted(set(numbers)) for numbers in asked)
    assert len(calls) <= rule.max_length - 1
    assert all(texts and len(set(texts)) == len(texts) for texts in calls)
    alone = [search_paths(shared.graph, [case.search], rule, shared.texts_of, shared.encode)[0] for case in questions]
    assert together == alone


@pytest.mark.parametrize(("angle", "expected"), [(0.0, 0.0), (1e-3, 0.8), (1e-8, 0.8)])
def test_opposite_vectors_have_no_mean_direction_and_almost_opposite_ones_have(angle: float, expected: float) -> None:
    """The cosine of a vector without length is 0 (algorithms.md 0.1); the mean of these two points along (0, 1)."""
    vectors = np.array([[1.0, 0.0], [-np.cos(angle), np.sin(angle)]])
    case = Case([[0], [0]], {}, [0, 1], vectors, np.array([0.6, 0.8]))
    rule = PathRule(exact=False, max_length=2)
    found = search_paths(case.graph, [case.search], rule, case.texts_of, case.encode)[0]
    assert found.beams[1][0].score == pytest.approx(expected, abs=1e-3)
    assert found.beams[1][0].connections == (Connection("exact", 0, 0),)
