"""Hubs and their paths: definition, search, levels, coverage, texts, restricted graphs, invariants of the tables."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pytest
from memory_index import hubs_of, written

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import NamedTriple, new_numbers
from polyhop.schemas.hubs import END_KINDS, LEVELS, HubGraph
from polyhop.schemas.records import SourceKind
from polyhop.schemas.settings import DOCUMENT, HubMode, HubSettings
from polyhop.schemas.tables import ENTITIES
from polyhop.tasks.hubs.paths import (
    ALL,
    DEFINITIONS,
    SPLIT,
    TYPES,
    Adjacency,
    Covered,
    HubSearch,
    NamedGraph,
    PathsOfHub,
    RootWalk,
    SearchLimits,
    find_paths_in_hub,
    hub_rules,
    humanised,
    layer_at,
    nodes_beside,
    passages_left,
    path_arrays,
    path_hash,
    path_rows,
    path_text,
    paths_left,
    row,
    search_hubs,
    signature_texts,
    splits,
    triples_left,
)
from polyhop.tasks.hubs.stage import (
    HUB_CANDIDATES,
    HUB_PATHS,
    DistinctTexts,
    HubRule,
    RowCollector,
    distinct_lines,
    path_lines,
    path_request,
    value_texts,
)
from polyhop.tasks.hubs.stage import HUBS_TABLE as HUBS
from polyhop.warehouse.statements import statements
from polyhop.warehouse.tables.connection import create_statement

MakeGraph = Callable[[str], NamedGraph]

STATED = """P1 author A1; P1 author A2; P1 year "1; P2 author A1; P3 cites P3; P3 cites P1; A1 in U1; A2 in U1"""


def hubs(graph_of: MakeGraph, mode: HubMode, min_edges: int, *typed: str, stated: str = STATED) -> dict[str, str]:
    """Own ids of hubs and why they are."""
    named = graph_of(stated)
    rules = hub_rules(named.graph, [named.own_ids.index(name) for name in typed], mode, min_edges)
    return {named.own_ids[node]: DEFINITIONS[rule] for node, rule in enumerate(rules.tolist()) if rule}


def test_types_alone_need_no_edges(graph_of: MakeGraph) -> None:
    assert hubs(graph_of, "types", 99, "P1", "P2") == {"P1": "types", "P2": "types"}


def test_edges_of_both_directions_count_a_self_loop_twice_and_those_to_literals_too(graph_of: MakeGraph) -> None:
    assert hubs(graph_of, "edges", 4) == {"P1": "edges"}
    assert hubs(graph_of, "edges", 3) == {"P1": "edges", "P3": "edges", "A1": "edges"}


def test_parallel_edges_of_other_predicates_count(graph_of: MakeGraph) -> None:
    assert hubs(graph_of, "edges", 3, stated="a p b; a q b; a r b") == {"a": "edges", "b": "edges"}


def test_both_rules_or_either(graph_of: MakeGraph) -> None:
    assert hubs(graph_of, "both", 4, "P1", "P2") == {"P1": "types and edges"}
    assert hubs(graph_of, "either", 4, "P1", "P2") == {"P1": "types and edges", "P2": "types"}
    assert hubs(graph_of, "either", 3, "P2") == {"P1": "edges", "P2": "types", "P3": "edges", "A1": "edges"}


def test_a_literal_is_never_a_hub(graph_of: MakeGraph) -> None:
    assert hubs(graph_of, "either", 1, '"1', stated='a p "1; b p "1') == {"a": "edges", "b": "edges"}


def test_a_pair_of_predicate_and_label_means_either_direction(graph_of: MakeGraph) -> None:
    named = graph_of("P1 type Paper; P2 type Paper; List type P3; P4 kind Paper")
    labelled = [named.own_ids.index("Paper"), named.own_ids.index("List")]
    found = nodes_beside(named.graph, named.predicates.index("type"), labelled)
    assert [named.own_ids[node] for node in found] == ["P1", "P2", "P3"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [("Paper", []), ("type=Paper", [("type", "Paper")]), ("a=b=c", [("a", "b=c"), ("a=b", "c")])],
)
def test_an_entry_with_an_equals_sign_may_be_a_pair(entry: str, expected: list[tuple[str, str]]) -> None:
    assert splits(entry) == expected


@pytest.mark.parametrize(
    ("given", "kind", "mode", "types"),
    [
        ({}, "corpus", "types", (DOCUMENT,)),
        ({}, "graph", "edges", ()),
        ({"types": ("Paper",)}, "graph", "types", ("Paper",)),
        ({"types": ("Paper",)}, "corpus", "types", ("Paper",)),
        ({"mode": "edges"}, "corpus", "edges", ()),
        ({"mode": "edges", "types": ("Paper",)}, "graph", "edges", ()),
        ({"mode": "types", "types": ("A", "B")}, "graph", "types", ("A", "B")),
    ],
)
def test_a_mode_is_found_from_types_and_source(
    given: dict[str, Any], kind: SourceKind, mode: str, types: tuple[str, ...]
) -> None:
    rule = HubRule.of(HubSettings(**given), kind)
    assert (rule.mode, rule.types, rule.min_edges) == (mode, types, HubSettings().min_edges)


def test_a_mode_that_needs_types_says_so() -> None:
    with pytest.raises(
        ConfigurationError, match=r"hubs\.mode = types needs the types of hubs; name them in hubs\.types"
    ):
        HubRule.of(HubSettings(mode="types"), "graph")


def test_a_split_needs_a_length() -> None:
    with pytest.raises(ConfigurationError, match=r"hubs\.split needs a length"):
        HubRule.of(HubSettings(split=True, max_path_length=0), "graph")


COVERED_GRAPH = hubs_of(written("P author A; P venue V; Q author B"), {"P", "Q"}, {})[0].graph


def test_a_node_is_covered_by_a_triple_that_begins_or_ends_in_it() -> None:
    """Triples are numbered by subject, predicate, object: P author A, P venue V, Q author B."""
    found = Covered.by(np.array([0, 0]), COVERED_GRAPH)
    assert found.triples.tolist() == [True, False, False]
    assert int(found.nodes.sum()) == 2
    assert list(found.rows()) == [("nodes", ALL, 2, 3, 0.4), ("triples", ALL, 1, 2, 1 / 3)]


def test_no_path_covers_nothing() -> None:
    assert [covered for _, _, covered, _, _ in Covered.by(np.array([], np.int64), COVERED_GRAPH).rows()] == [0, 0]


def test_nothing_of_nothing_is_no_share() -> None:
    assert row("what", "part", 0, 0) == ("what", "part", 0, 0, None)
    assert row("what", "a", 1, 3) == ("what", "a", 1, 3, 0.25)
    assert row("what", "b", 0, 2) == ("what", "b", 0, 2, 0.0)


def test_hubs_and_paths_are_counted_by_length_and_end() -> None:
    """Three hubs with 2, 0 and 1 paths, of lengths 1, 2, 1; one hub that no search found, four paths left out."""
    arrays = {
        "path-starts": np.array([0, 2, 2, 3]),
        "triple-starts": np.array([0, 1, 3, 4]),
        "end-kinds": np.array([0, 1, 0], np.int8),
    }
    assert list(path_rows(arrays, 4, 1)) == [
        ("hubs", ALL, 2, 2, 0.5),
        ("paths", ALL, 3, 4, 3 / 7),
        ("hubs with paths", "0", 1, 0, 1.0),
        ("hubs with paths", "1", 1, 0, 1.0),
        ("hubs with paths", "2", 1, 0, 1.0),
        ("paths of length", "1", 2, 0, 1.0),
        ("paths of length", "2", 1, 0, 1.0),
        ("paths that end in", "leaf", 2, 0, 1.0),
        ("paths that end in", "hub", 1, 0, 1.0),
        ("paths that end in", "limit", 0, 0, None),
        ("paths that end in", "revisit", 0, 0, None),
    ]


CHAIN = "S to H1; H1 a x1; x1 b H2; H2 a x2; x2 b H3; H3 a x3"


def search(named: NamedGraph, hubs: str, starts: Sequence[str] | None, limits: SearchLimits) -> HubSearch:
    rules = np.zeros(named.graph.node_count, dtype=np.uint8)
    rules[[named.own_ids.index(name) for name in hubs.split()]] = TYPES
    roots = None if starts is None else [named.own_ids.index(name) for name in starts]
    return search_hubs(named.graph, rules, roots, limits)


def levels(named: NamedGraph, found: HubSearch) -> dict[str, int]:
    return {named.own_ids[node]: hub.level for node, hub in found.hubs.items()}


def paths(named: NamedGraph, found: HubSearch, hub: str) -> list[str]:
    """Predicates and objects of a hub's paths, and why they end."""
    arrays = path_arrays(found)
    number = arrays["hubs"].tolist().index(named.own_ids.index(hub))
    first, end = arrays["path-starts"][number : number + 2].tolist()
    words = list(named.paths(arrays["triple-starts"], arrays["path-triples"]))  # type: ignore[arg-type]
    kinds = arrays["end-kinds"].tolist()
    return [
        f"{', '.join(f'{t.predicate} {t.object}' for t in words[path])} {END_KINDS[kinds[path]]}"
        for path in range(first, end)
    ]


def test_every_hub_is_a_start_by_default(graph_of: MakeGraph) -> None:
    named = graph_of(CHAIN)
    found = search(named, "H1 H2 H3", None, SearchLimits())
    assert levels(named, found) == {"H1": 0, "H2": 0, "H3": 0}
    assert list(found.unreached) == []


def test_from_a_start_further_hubs_are_found_through_those_before(graph_of: MakeGraph) -> None:
    named = graph_of(CHAIN)
    found = search(named, "H1 H2 H3", ["S"], SearchLimits())
    assert levels(named, found) == {"H1": 0, "H2": 1, "H3": 2}
    assert paths(named, found, "H1") == ["a x1, b H2 hub"]
    assert paths(named, found, "H3") == ["a x3 leaf"]


def test_a_start_leads_against_the_direction_of_edges_too(graph_of: MakeGraph) -> None:
    named = graph_of("H1 a x; y a x; H2 b y")
    assert levels(named, search(named, "H1 H2", ["x"], SearchLimits())) == {"H1": 0, "H2": 0}


def test_mutual_hubs_and_self_loops_end(graph_of: MakeGraph) -> None:
    named = graph_of("H1 cites H2; H2 cites H1; H1 same H1; H2 a t")
    found = search(named, "H1 H2", ["H1"], SearchLimits())
    assert levels(named, found) == {"H1": 0, "H2": 0}
    assert paths(named, found, "H1") == ["cites H2 hub"]
    assert paths(named, found, "H2") == ["cites H1 hub", "a t leaf"]


def test_a_hub_without_edges_that_leave_it_has_no_path(graph_of: MakeGraph) -> None:
    named = graph_of("a to H1; H2 to b")
    found = search(named, "H1 H2", None, SearchLimits())
    assert levels(named, found) == {"H1": 0, "H2": 0}
    assert paths(named, found, "H1") == []


LONG = 'H a x; x b y; y c z; z d "1'


def test_without_a_split_what_lies_beyond_the_limit_is_in_no_path(graph_of: MakeGraph) -> None:
    named = graph_of(LONG)
    found = search(named, "H", None, SearchLimits(max_path_length=2))
    assert paths(named, found, "H") == ["a x, b y limit"]
    assert levels(named, found) == {"H": 0}


def test_a_split_makes_the_ends_of_long_paths_hubs_of_the_next_level(graph_of: MakeGraph) -> None:
    named = graph_of(LONG)
    found = search(named, "H", None, SearchLimits(split=True, max_path_length=2))
    assert levels(named, found) == {"H": 0, "y": 1}
    assert found.rules[named.own_ids.index("y")] == SPLIT
    assert paths(named, found, "H") == ["a x, b y limit"]
    assert paths(named, found, "y") == ['c z, d "1 leaf']


def test_a_literal_at_the_limit_is_no_hub(graph_of: MakeGraph) -> None:
    named = graph_of('H a x; x b "1; "1 c y')
    found = search(named, "H", None, SearchLimits(split=True, max_path_length=2))
    assert levels(named, found) == {"H": 0}


def test_a_level_is_not_changed_by_its_own_splits(graph_of: MakeGraph) -> None:
    """H2's path over x goes on past it, although H1's path ends at x: x is a hub from the next level on."""
    named = graph_of("H1 a m; m b x; H2 c x; x d y")
    found = search(named, "H1 H2", None, SearchLimits(split=True, max_path_length=2))
    assert paths(named, found, "H1") == ["a m, b x limit"]
    assert paths(named, found, "H2") == ["c x, d y leaf"]
    assert levels(named, found) == {"H1": 0, "H2": 0, "x": 1}


def test_paths_beyond_the_limit_of_a_hub_are_counted_and_their_candidates_kept(graph_of: MakeGraph) -> None:
    named = graph_of("H a x1; H a x2; H b H2; H2 c y")
    found = search(named, "H H2", ["H"], SearchLimits(max_paths_per_hub=1))
    assert paths(named, found, "H") == ["b H2 hub"]
    assert found.hubs[named.own_ids.index("H")].left_out == 2
    assert levels(named, found) == {"H": 0, "H2": 1}


WHOLE_HUBS, _ = hubs_of(
    written("P1 author A1; P1 venue V; A1 born V; P2 author A2; P2 cites P1; A2 knows A1"), {"P1", "P2"}, {}
)


def test_a_triple_goes_only_if_all_that_state_it_go() -> None:
    stated = np.array([[0, 0], [0, 1], [1, 1], [3, 0]])
    assert triples_left(stated, 5, np.array([True, False])).tolist() == [0, 2, 3, 4]
    assert triples_left(stated, 5, np.array([False, False])).tolist() == [2, 4]
    assert triples_left(stated, 5, np.array([True, True])).tolist() == [0, 1, 2, 3, 4]


def test_a_pair_goes_with_either_of_its_ends() -> None:
    pairs, things, passages = np.array([[0, 0], [1, 2], [2, 2]]), np.array([0, -1, 1]), np.array([-1, 0, 1])
    assert passages_left(pairs, things, passages).tolist() == [[1, 1]]
    assert passages_left(np.empty((0, 2), np.int64), things, passages).shape == (0, 2)


@pytest.mark.parametrize("gone", [[], [0], [1, 4], list(range(len(WHOLE_HUBS.graph.subjects)))])
def test_paths_are_left_whole_and_in_order(gone: list[int]) -> None:
    before, count = WHOLE_HUBS.paths, len(WHOLE_HUBS.graph.subjects)
    moved = new_numbers(np.array([n for n in range(count) if n not in gone], np.int64), count)
    after, numbers = paths_left(before, moved)
    triples = [before.triples_of(path).tolist() for path in range(before.path_count)]
    expected = [path for path in range(before.path_count) if not set(triples[path]) & set(gone)]
    assert numbers.tolist() == expected
    assert after.path_count == len(expected)
    assert [after.triples_of(new).tolist() for new in range(after.path_count)] == [
        moved[triples[old]].tolist() for old in expected
    ]
    assert after.hashes.tolist() == before.hashes[expected].tolist()
    hub_of = np.searchsorted(before.path_starts, expected, side="right") - 1
    assert np.diff(after.path_starts).tolist() == np.bincount(hub_of, minlength=len(before.path_starts) - 1).tolist()


LOOP = [NamedTriple("A", "Ada", "knows", "B", "Bob"), NamedTriple("B", "Bob", "knows", "A", "Ada")]


def test_a_predicate_of_more_than_30_percent_of_ten_signatures_is_left_out_unless_it_comes_last() -> None:
    signatures = [("hasPart", f"field{n}") for n in range(4)] + [(f"kind{n}",) for n in range(5)] + [("hasPart",)]
    texts = signature_texts(signatures)
    assert texts["hasPart", "field0"] == "field0"
    assert texts[("hasPart",)] == "has part"


@pytest.mark.parametrize(("with_part", "others"), [(3, 7), (4, 5)])
def test_a_predicate_stays_up_to_30_percent_and_among_fewer_than_ten_signatures(with_part: int, others: int) -> None:
    signatures = [("hasPart", f"field{n}") for n in range(with_part)] + [(f"kind{n}",) for n in range(others)]
    assert signature_texts(signatures)["hasPart", "field0"] == "has part field0"


def test_values_of_the_same_words_share_a_text() -> None:
    distinct = DistinctTexts()
    numbers = value_texts([("hasYear",), ("has_year",), ("hasYear",)], ["2024", "2024", ""], distinct)
    assert (numbers.tolist(), distinct.texts) == ([0, 0, 1], ["has year 2024", "has year"])


def test_a_label_that_comes_twice_in_a_path_is_one_row_of_it_and_one_text_of_all_paths() -> None:
    collector = RowCollector(("entity", "triple"))
    collector.add([7, 8], LOOP, "unused")
    collector.add([9], [NamedTriple("A", "Ada", "likes", "C", "")], "unused")
    rows = collector.rows()
    texts = collector.texts.texts
    shown = [
        (path, LEVELS[level], texts[text], triple)
        for path, level, text, triple in zip(
            rows.row_paths.tolist(), rows.row_levels.tolist(), rows.row_texts.tolist(), rows.row_triples.tolist(),
            strict=True,
        )
    ]  # fmt: skip
    assert shown == [
        (0, "triple", "(Ada, knows, Bob)", 7),
        (0, "triple", "(Bob, knows, Ada)", 8),
        (0, "entity", "Ada", -1),
        (0, "entity", "knows", -1),
        (0, "entity", "Bob", -1),
        (1, "triple", "(Ada, likes, C)", 9),
        (1, "entity", "Ada", -1),
        (1, "entity", "likes", -1),
        (1, "entity", "C", -1),
    ]
    assert len(texts) == len(set(texts)) == 8


def test_two_triples_of_a_path_with_the_same_words_are_one_row() -> None:
    collector = RowCollector(("triple",))
    collector.add(
        [3, 5], [NamedTriple("A", "Ada", "is", "B", "Ada"), NamedTriple("B", "Ada", "is", "C", "Ada")], "unused"
    )
    assert collector.rows().row_triples.tolist() == [3]


def test_a_model_is_shown_labels_and_no_ids() -> None:
    lines = path_lines(LOOP)
    assert lines == '["Ada", "knows", "Bob"]\n["Bob", "knows", "Ada"]'
    assert lines in path_request(lines, "hash").text
    assert distinct_lines([LOOP, LOOP[:1], LOOP]) == {lines: 0, '["Ada", "knows", "Bob"]': 1}


WORKED_TRIPLES = """H1 title t1; H1 author A1; H1 venue V1; H1 cites H2; H1 same-as H1; A1 affiliation U1; A1 wrote H2;
U1 place C1; U1 employs A1; V1 place C1; C1 part-of K1; H2 title t2; H2 author A2; H2 cites H1; A2 affiliation U1;
R contains H1; R contains H2; F parent-of R"""
TRIPLES = [tuple(triple.split()) for triple in WORKED_TRIPLES.split(";")]
NODES = sorted({triple[0] for triple in TRIPLES} | {triple[2] for triple in TRIPLES})
PREDICATES = sorted({triple[1] for triple in TRIPLES})
ROWS = sorted((NODES.index(s), PREDICATES.index(p), NODES.index(o)) for s, p, o in TRIPLES)
WORKED_GRAPH = HubGraph.from_triples(*np.array(ROWS).T, np.zeros(len(NODES), dtype=bool))  # type: ignore[call-arg]
ADJACENT = Adjacency(WORKED_GRAPH)
IS_HUB = bytearray(name in {"H1", "H2"} for name in NODES)


def path_words(path: tuple[int, ...]) -> str:
    """Predicates and objects of a path."""
    return ", ".join(f"{PREDICATES[ROWS[triple][1]]} {NODES[ROWS[triple][2]]}" for triple in path)


def stated(path: tuple[int, ...]) -> str:
    """Whole triples of a path."""
    return ", ".join(f"{NODES[s]} {PREDICATES[p]} {NODES[o]}" for s, p, o in (ROWS[triple] for triple in path))


def paths_of(hub: str, max_length: int) -> PathsOfHub:
    return find_paths_in_hub(ADJACENT, IS_HUB, NODES.index(hub), max_length)


def shown(found: PathsOfHub) -> list[tuple[str, str]]:
    return [(path_words(path), END_KINDS[kind]) for path, kind in zip(found.paths, found.end_kinds, strict=True)]


def candidates(found: PathsOfHub) -> dict[str, tuple[str, str]]:
    return {NODES[node]: (END_KINDS[kind], path_words(path)) for node, (kind, path) in found.candidates.items()}


def test_all_paths_of_a_hub_in_emission_order() -> None:
    found = paths_of("H1", -1)
    assert shown(found) == [
        ("cites H2", "hub"),
        ("author A1, wrote H2", "hub"),
        ("title t1", "leaf"),
        ("author A1, affiliation U1, employs A1", "revisit"),
        ("author A1, affiliation U1, place C1", "revisit"),
        ("venue V1, place C1, part-of K1", "leaf"),
    ]
    assert candidates(found) == {"H2": ("hub", "cites H2")}
    assert len({triple for path in found.paths for triple in path}) == 10


def test_a_length_limit_ends_paths_and_names_where_they_would_go_on() -> None:
    assert shown(paths_of("H1", 2)) == [
        ("cites H2", "hub"),
        ("author A1, wrote H2", "hub"),
        ("title t1", "leaf"),
        ("author A1, affiliation U1", "limit"),
        ("venue V1, place C1", "limit"),
    ]
    assert candidates(paths_of("H1", 2)) == {
        "H2": ("hub", "cites H2"),
        "U1": ("limit", "author A1, affiliation U1"),
        "C1": ("limit", "venue V1, place C1"),
    }
    found = paths_of("H1", 1)
    assert {path for path, _ in shown(found)} == {"cites H2", "author A1", "title t1", "venue V1"}
    assert set(candidates(found)) == {"H2", "A1", "V1"}


def test_paths_of_the_other_hub() -> None:
    found = paths_of("H2", 0)
    assert shown(found) == [
        ("cites H1", "hub"),
        ("title t2", "leaf"),
        ("author A2, affiliation U1, employs A1, affiliation U1", "revisit"),
        ("author A2, affiliation U1, place C1, part-of K1", "leaf"),
    ]
    assert candidates(found) == {"H1": ("hub", "cites H1")}


def test_paths_beyond_the_limit_of_a_hub_are_counted() -> None:
    found = find_paths_in_hub(ADJACENT, IS_HUB, NODES.index("H1"), -1, max_paths=2)
    assert [path_words(path) for path in found.paths] == ["cites H2", "author A1, wrote H2"]
    assert found.left_out == 4


def levels_of_topic(topic: str, count: int, *, until_hub: bool) -> list[list[tuple[str, str]]]:
    """The hubs of each level with their paths to the topic."""
    search, starts = (
        RootWalk(WORKED_GRAPH, np.array(IS_HUB, dtype=bool)),
        layer_at([NODES.index(topic)], both_ways=True),
    )
    found = []
    for _ in range(count):
        hubs, places, starts = search.level(starts, until_hub=until_hub)
        ways = map(search.triples_to, places.tolist())
        found.append([(NODES[hub], stated(way)) for hub, way in zip(hubs.tolist(), ways, strict=True)])
    return found


LEFT_OF_U1 = [
    ("H1", "A1 affiliation U1, H1 author A1"),
    ("H2", "A2 affiliation U1, H2 author A2"),
]


@pytest.mark.parametrize(
    ("topic", "until_hub", "expected"),
    [
        ("R", True, [[("H1", "R contains H1"), ("H2", "R contains H2")]]),
        ("R", False, [[], [("H1", "R contains H1"), ("H2", "R contains H2")]]),
        ("F", True, [[("H1", "F parent-of R, R contains H1"), ("H2", "F parent-of R, R contains H2")]]),
        ("U1", True, [LEFT_OF_U1]),
        ("U1", False, [[], [], LEFT_OF_U1]),
        ("H2", True, [[("H2", ""), ("H1", "H1 cites H2")]]),
        ("C1", False, [[], [], [("H1", "V1 place C1, H1 venue V1")], None]),
    ],
)
def test_hubs_that_a_topic_leads_to(topic: str, until_hub: bool, expected: list[list[tuple[str, str]] | None]) -> None:
    found = levels_of_topic(topic, len(expected), until_hub=until_hub)
    for level, wanted in zip(found, expected, strict=True):
        if wanted is None:
            assert [hub for hub, _ in level] == ["H2"]
        else:
            assert level == wanted


TWO_STEPS = [
    NamedTriple("H1", "Paper One", "author", "A1", "Jane Doe"),
    NamedTriple("A1", "Jane Doe", "affiliation", "U1", "Uni Y"),
]


def test_golden_hash_and_text() -> None:
    assert path_hash(TWO_STEPS).hex() == "2e70baf4d6387e939127f86c6d68acbb239de4a45ee4aed2e08393b7233351d7"
    assert path_text(TWO_STEPS) == "Paper One author Jane Doe; Jane Doe affiliation Uni Y."
    venue = NamedTriple("H1", "Paper One", "hasVenue", "V", "ICSA")
    place = NamedTriple("V", "ICSA", "located_in", "O", "Oslo")
    assert path_text([venue, place]) == "Paper One has venue ICSA; ICSA located in Oslo."


def test_any_changed_id_label_or_predicate_changes_the_hash() -> None:
    before = path_hash(TWO_STEPS)
    for part in NamedTriple._fields:
        assert path_hash([TWO_STEPS[0]._replace(**{part: "other"}), TWO_STEPS[1]]) != before
    assert path_hash(TWO_STEPS[:1]) != before


@pytest.mark.parametrize(
    ("predicate", "words"),
    [
        ("http://example.org/ns#hasVenue", "has venue"),
        ("https://example.org/prop/located_in", "located in"),
        ("https://example.org/prop/", "prop"),
        ("Threats to  Validity", "threats to validity"),
        ("input/output", "input/output"),
        ("P2Type-of", "p2 type of"),
    ],
)
def test_predicates_in_words(predicate: str, words: str) -> None:
    assert humanised(predicate) == words


def test_addresses_are_left_out_of_the_text_and_empty_labels_are_ids() -> None:
    link = NamedTriple("H1", "", "sourceUrl", "L1", "https://example.org/x")
    assert path_text([link]) == "H1 source url."


INVARIANTS = statements("hub_invariants") | statements("hub_path_invariants")
SOUND = [
    "INSERT INTO hubs VALUES ('h', 'types', 0, 2, 0, ''), ('i', 'types', 1, 0, 0, ''), ('u', 'types', NULL, 0, 0, '')",
    "INSERT INTO hub_candidates VALUES ('h', 'i', 'hub', '[]'), ('h', 'u', 'hub', '[]'), ('h', 'x', 'limit', '[]')",
    "INSERT INTO hub_paths VALUES ('h', 'a', 0, 1, '[[]]', 'text', 'template', 'hub', 'i')",
    "INSERT INTO hub_paths VALUES ('h', 'b', 1, 1, '[[]]', 'text', 'template', 'leaf', 'x')",
]
BREACHES = {
    "hub_is_no_entity": "INSERT INTO hubs VALUES ('nothing', 'types', 0, 0, 0, '')",
    "literal_is_hub": "INSERT INTO hubs VALUES ('v', 'types', 0, 0, 0, '')",
    "candidate_of_no_hub": "INSERT INTO hub_candidates VALUES ('u', 'x', 'limit', '[]')",
    "candidate_is_no_entity": "INSERT INTO hub_candidates VALUES ('h', 'nothing', 'limit', '[]')",
    "hub_candidate_is_no_hub": "UPDATE hub_candidates SET kind = 'hub' WHERE next_entity_id = 'x'",
    "hub_without_its_paths": "UPDATE hubs SET path_count = 3 WHERE hub_id = 'h'",
    "path_of_no_hub": "UPDATE hub_paths SET end_entity_id = 'nothing' WHERE path_hash = 'a'",
    "path_without_text": "UPDATE hub_paths SET length = 0 WHERE path_hash = 'a'",
}


@pytest.fixture
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    for table in (ENTITIES, HUBS, HUB_CANDIDATES, HUB_PATHS):
        connection.execute(create_statement(table))
    columns = ", ".join(ENTITIES.column_names)
    values = [
        f"'{name}'" if column in {"entity_id", "key"} else str(name == "v").lower() if column == "is_literal" else "0"
        for name in "hiuxv"
        for column in ENTITIES.column_names
    ]
    width = len(ENTITIES.column_names)
    rows = ", ".join(f"({', '.join(values[first : first + width])})" for first in range(0, len(values), width))
    connection.execute(f"INSERT INTO entities ({columns}) VALUES {rows}")
    for sql in SOUND:
        connection.execute(sql)
    yield connection
    connection.close()


def broken(connection: duckdb.DuckDBPyConnection) -> set[str]:
    return {name for name, sql in INVARIANTS.items() if (connection.execute(sql).fetchone() or (0,))[0]}


def test_sound_tables_break_nothing(tables: duckdb.DuckDBPyConnection) -> None:
    assert broken(tables) == set()
    assert BREACHES.keys() == INVARIANTS.keys()


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_found(tables: duckdb.DuckDBPyConnection, name: str) -> None:
    tables.execute(BREACHES[name])
    assert name in broken(tables)
