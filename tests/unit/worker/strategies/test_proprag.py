"""What people and programs read of a search for proposition paths, every number by hand; parameters and presets.

Two passages m and n; propositions 4 "Ann met Bo." (of m), 7 "Bob fell." (of n), 9 "Rain." (of both).
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from memory_index import propositions_from, texts_of

from polyhop.pages.drawing import DrawnEdge, evidence_graph
from polyhop.schemas.evidence import Evidence, as_row, evidence_of
from polyhop.terminal import evidence_lines
from polyhop.warehouse.propositions import StoredPropositions
from polyhop.worker.ranking.proposition_paths import (
    FoundPaths,
    PathSeed,
    PropositionLink,
    PropositionPath,
    PropositionRanking,
)
from polyhop.worker.ranking.proposition_walks import PRESETS, PathRule
from polyhop.worker.strategies.proprag import PathEvidence
from polyhop.worker.strategies.registry import parse_parameters, spec_of

ANN, BO, BOB = range(3)
TEXTS = {4: "Ann met Bo.", 7: "Bob fell.", 9: "Rain."}
JUMP = PropositionLink("jump", None, None)
RAIN = PropositionPath((9,), (), 0.9)
MET = PropositionPath((4,), (), 0.5)
SIMILAR = PropositionPath((4, 7), (PropositionLink("synonym", BO, BOB),), 0.75)
AWAY = PropositionPath((4, 7, 9), (PropositionLink("exact", BO, BO), JUMP), 0.25)
FOUND = FoundPaths((RAIN,), ((RAIN, MET), (SIMILAR,), (AWAY,)), (RAIN, SIMILAR, MET, AWAY))


@pytest.fixture
def stored() -> StoredPropositions:
    members = [[], [], [], [], [ANN, BO], [], [], [BOB], [], []]
    sources = [[], [], [], [], [0], [], [], [1], [], [0, 1]]
    texts = texts_of(TEXTS.get(number, "") for number in range(10))
    graph = propositions_from(members, sources, {}, (10, 3, 2))
    return StoredPropositions(graph, texts, ("ann", "bo", "bob"), ("Ann", "Bo", "Bob"))


@pytest.fixture
def evidence(stored: StoredPropositions) -> Evidence:
    seeds = (PathSeed(ANN, 0.25, 1.0), PathSeed(BO, 0.5, 0.0), PathSeed(BOB, 0.0, 0.125))
    nothing = np.empty(0)
    ranking = PropositionRanking(nothing.astype(np.intp), nothing, found=FOUND, seeds=seeds)
    return evidence_of(as_row(PathEvidence(stored, ["m", "n"]).of(ranking)))


def test_a_terminal_shows_seeds_paths_and_every_beam(evidence: Evidence) -> None:
    assert evidence_lines(evidence, {}) == [
        "The search began at",
        "  1.000  Ann",
        "  0.500  Bo",
        "  0.125  Bob",
        "Reached  (3, by path score)",
        "          p1: Rain. 0.900 · p2: Ann met Bo. 0.750 · p3: Bob fell. 0.750",
        "Paths",
        "  0.900  Rain.",
        "  0.750  Ann met Bo. —Bo ≈ Bob→ Bob fell.",
        "  0.500  Ann met Bo.",
        "  0.250  Ann met Bo. —Bo→ Bob fell. —jump→ Rain.",
        "Explored  entities of the most similar propositions  Bo 0.500, Ann 0.250",
        "Exploited  entities of the best paths  Ann 1.000, Bob 0.125",
        "Beam of length 1  p1 0.9000 · p2 0.5000",
        "Beam of length 2  p2≈p3 0.7500",
        "Beam of length 3  p2→p3⇢p1 0.2500",
        "Signs  → by an entity that both name, ≈ by entities with similar names, ⇢ by a jump",
    ]


def test_programs_read_how_every_path_of_a_beam_goes_on(evidence: Evidence) -> None:
    links = (("synonym", "bo", "bob"), ("exact", "bo", "bo"), ("jump", None, None))
    similar, exact, jump = ({"type": kind, "e1": source, "e2": target} for kind, source, target in links)
    first: list[Any] = [("p1", [], 0.9), ("p2", [], 0.5)]
    beams = [first, [("p2 p3", [similar], 0.75)], [("p2 p3 p1", [exact, jump], 0.25)]]
    expected = [
        [{"nodes": p.split(), "connections": ways, "score": score} for p, ways, score in beam] for beam in beams
    ]
    assert evidence.data["beams"] == expected
    assert evidence.context == "Rain.\nAnn met Bo.\nBob fell."


def test_a_drawing_ties_passages_to_the_propositions_that_they_state(evidence: Evidence) -> None:
    rows = [{"id": name, "title": name, "score": 1.0, "rank": rank} for rank, name in enumerate("mn", start=1)]
    graph = evidence_graph({"evidence": as_row(evidence), "passages": rows}, {}, ())
    stated = (("p1", "m"), ("p2", "m"), ("p1", "n"), ("p3", "n"))
    ways = {DrawnEdge("entity p2", "entity p3", ("Bo ≈ Bob", "Bo")), DrawnEdge("entity p3", "entity p1", ("jump",))}
    assert set(graph.edges) == ways | {DrawnEdge(f"entity {one}", f"passage {passage}") for one, passage in stated}
    assert graph.roots == {"entity p1": 0, "entity p2": 0}


def test_a_search_without_paths_says_what_ranks_instead(stored: StoredPropositions) -> None:
    nothing = np.empty(0)
    ranking = PropositionRanking(nothing.astype(np.intp), nothing, "stage1")
    found = PathEvidence(stored, ["m", "n"]).of(ranking)
    assert (found.nodes, found.data, found.stated, found.fallback is not None) == ((), {}, {}, True)


HIPPORAG2 = PathRule(**PRESETS["hipporag2"])


@pytest.mark.parametrize(
    ("strategy", "given", "expected"),
    [
        ("proprag", {}, PathRule()),
        ("proprag", {"edge_weights": "ones"}, PathRule(entity_edge_factor=1, edge_weights="ones")),
        ("triple-ppr", {}, HIPPORAG2),
        ("triple-ppr", {"preset": "proprag"}, PathRule()),
        (
            "proprag",
            {"preset": "hipporag2", "seed_propositions": "7", "stage1_only": "false", "beam_width": "2"},
            replace(HIPPORAG2, seed_propositions=7, stage1_only=False, beam_width=2),
        ),
    ],
)
def test_what_is_given_wins_over_the_preset(strategy: str, given: dict[str, object], expected: PathRule) -> None:
    spec = spec_of(strategy)
    parsed: Any = parse_parameters(spec, given)
    assert parsed.rule() == expected
    assert parse_parameters(spec, parsed.model_dump()) == parsed  # written down it means the same
