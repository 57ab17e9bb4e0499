"""Evidence on a terminal: every part that a strategy may fill, and nothing where it fills nothing."""

from polyhop.schemas.evidence import PASSAGES_ONLY, Edge, Evidence, Node, Note, Path, QuestionNames, Seed
from polyhop.terminal import SHOWN, evidence_lines

TITLES = {"p1": "Rosetta", "p2": ""}


_OTHERS = (Node("d", "D", 0.3), Node("z", "Z", 0.1))


def _evidence(**changed: object) -> Evidence:
    edges = (Edge("a", "c", ("r",)), Edge("c", "d", ("r",)))
    parts: dict[str, object] = {
        "seeds": (Seed("entity", "a", 1.0, "A", "exact", 1.0), Seed("entity", "b", 0.5, "B", "vector", 0.5)),
        "nodes": (Node("a", "A", 1.0), Node("b", "B", 0.5), Node("c", "C", 0.4), *_OTHERS),
        "paths": (Path("A -\n C - D", ("a", "c", "d"), ("A", "C", "D"), edges, 0.25),),
        "measure": "activation",
        "node_count": 12,
    }  # fmt: skip
    return Evidence(**(parts | changed))  # type: ignore[arg-type]


def test_seeds_nodes_by_distance_and_paths_are_lines() -> None:
    assert evidence_lines(_evidence(), {}) == [
        "The search began at",
        "  1.000  A  (exact)",
        "  0.500  B  (vector, similarity 0.500)",
        "Reached  (12 in all, by activation)",
        "  seeds   A 1.000 · B 0.500",
        "  1 hop   C 0.400",
        "  2 hops  D 0.300",
        "  others  Z 0.100",
        "Paths",
        "  0.250  A - C - D",
    ]


def test_many_nodes_are_wrapped_under_each_other() -> None:
    names = [f"NAME{n:02d}" for n in range(40)]
    nodes = (*_evidence().nodes, *(Node(name.lower(), name, 0.05) for name in names))
    lines = evidence_lines(_evidence(nodes=nodes), {})
    assert max(map(len, lines)) <= 118
    assert all(any(name in line for line in lines) for name in names)
    assert any(line.startswith(" " * 10 + "NAME") for line in lines)


def test_names_fallback_and_passages_where_a_walk_began() -> None:
    evidence = Evidence(
        names=QuestionNames((), ("john doe",)),
        seeds=(Seed("passage", "p1", 0.9), Seed("passage", "p2", 0.1)),
        fallback=PASSAGES_ONLY,
    )
    assert evidence_lines(evidence, TITLES) == [
        "Question names  unmatched: john doe",
        "Fallback  the walk began at passages only",
        "The search began at",
        "  0.900  passage Rosetta",
        "  0.100  passage p2",
    ]


def test_terms_are_called_terms_and_nothing_found_is_said() -> None:
    assert evidence_lines(Evidence(names=QuestionNames(noun="terms")), {}) == ["Question terms  none found"]


def test_long_lists_are_cut_and_counted() -> None:
    seeds = tuple(Seed("passage", f"p{n}", 0.1) for n in range(SHOWN + 3))
    items = tuple((f"word {n}", 0.5) for n in range(SHOWN + 2))
    lines = evidence_lines(Evidence(seeds=seeds, notes=(Note("Terms added", items=items),)), {})
    assert lines[-2] == "  and 3 more"
    assert lines[-1].startswith("Terms added  word 0 0.500, word 1 0.500")
    assert lines[-1].endswith("word 9 0.500, 2 more")


def test_nodes_without_edges_or_distances_are_one_list() -> None:
    nodes = (Node("oak", "Oak", 0.9), Node("elm", "Elm", 0.8))
    lines = evidence_lines(Evidence(nodes=nodes, measure="similarity", node_count=2), {})
    assert lines == ["Reached  (2, by similarity)", "          Oak 0.900 · Elm 0.800"]


def test_distances_that_a_search_knows_are_shown_as_they_are() -> None:
    nodes = (Node("oak", "Oak", distance=0), Node("elm", "Elm", distance=2))
    assert evidence_lines(Evidence(nodes=nodes, node_count=2), {})[1:] == ["  seeds   Oak", "  2 hops  Elm"]


def test_a_ranking_without_evidence_has_no_lines() -> None:
    assert evidence_lines(Evidence(), {}) == []
