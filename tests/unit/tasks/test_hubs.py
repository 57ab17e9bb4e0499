"""Hubs and their paths: definition, search, levels, texts, restricted graphs, invariants of the tables."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pytest
from memory_index import hubs_of, written

from polyhop.schemas import hub_paths as paths
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import NamedTriple, new_numbers
from polyhop.schemas.hub_paths import SearchLimits
from polyhop.schemas.hubs import END_KINDS, LEVELS, HubGraph
from polyhop.schemas.records import SourceKind
from polyhop.schemas.settings import DOCUMENT, HubMode, HubSettings
from polyhop.schemas.tables import ENTITIES
from polyhop.tasks.hubs import stage
from polyhop.tasks.hubs.stage import HUBS_TABLE as HUBS
from polyhop.warehouse.statements import statements
from polyhop.warehouse.tables.connection import create_statement

STATED = """P1 author A1; P1 author A2; P1 year "1; P2 author A1; P3 cites P3; P3 cites P1; A1 in U1; A2 in U1"""


def named_graph(stated: str) -> paths.NamedGraph:
    """Triples separated by `;`; own ids are labels, and what begins with `"` is a literal."""
    triples = [tuple(triple.split()) for triple in stated.split(";")]
    nodes = sorted({end for triple in triples for end in triple[::2]})
    predicates = sorted({triple[1] for triple in triples})
    rows = sorted((nodes.index(s), predicates.index(p), nodes.index(o)) for s, p, o in triples)
    is_literal = np.array([node.startswith('"') for node in nodes])
    graph = HubGraph.from_triples(*np.array(rows).T, is_literal)  # type: ignore[call-arg]
    return paths.NamedGraph(graph, nodes, nodes, predicates)


@pytest.mark.parametrize(
    ("mode", "min_edges", "typed", "expected", "stated"),
    [
        ("types", 99, "P1 P2", "P1: types, P2: types", STATED),
        ("edges", 4, "", "P1: edges", STATED),
        ("edges", 3, "", "P1: edges, P3: edges, A1: edges", STATED),  # a self loop counts twice
        ("edges", 3, "", "a: edges, b: edges", "a p b; a q b; a r b"),
        ("both", 4, "P1 P2", "P1: types and edges", STATED),
        ("either", 4, "P1 P2", "P1: types and edges, P2: types", STATED),
        ("either", 3, "P2", "P1: edges, P2: types, P3: edges, A1: edges", STATED),
        ("either", 1, '"1', "a: edges, b: edges", 'a p "1; b p "1'),  # a literal is never a hub
    ],
)
def test_hubs_by_types_and_edges(mode: HubMode, min_edges: int, typed: str, expected: str, stated: str) -> None:
    named = named_graph(stated)
    rules = paths.hub_rules(named.graph, [named.own_ids.index(name) for name in typed.split()], mode, min_edges)
    found = {f"{named.own_ids[node]}: {paths.DEFINITIONS[rule]}" for node, rule in enumerate(rules.tolist()) if rule}
    assert found == set(expected.split(", "))


def test_a_pair_of_predicate_and_label_means_either_direction() -> None:
    named = named_graph("P1 type Paper; P2 type Paper; List type P3; P4 kind Paper")
    labelled = [named.own_ids.index("Paper"), named.own_ids.index("List")]
    found = paths.neighbours_of(named.graph, named.predicates.index("type"), labelled)
    assert [named.own_ids[node] for node in found] == ["P1", "P2", "P3"]


def test_an_entry_with_an_equals_sign_may_be_a_pair() -> None:
    pairs = {"Paper": [], "type=Paper": [("type", "Paper")], "a=b=c": [("a", "b=c"), ("a=b", "c")]}
    assert {entry: paths.splits(entry) for entry in pairs} == pairs


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
    rule = stage.HubRule.of(HubSettings(**given), kind)
    assert (rule.mode, rule.types, rule.min_edges) == (mode, types, HubSettings().min_edges)


def test_a_mode_that_needs_types_and_a_split_that_needs_a_length_say_so() -> None:
    refused = r"hubs\.mode = types needs the types of hubs; name them in hubs\.types"
    with pytest.raises(ConfigurationError, match=refused):
        stage.HubRule.of(HubSettings(mode="types"), "graph")
    with pytest.raises(ConfigurationError, match=r"hubs\.split needs a length"):
        stage.HubRule.of(HubSettings(split=True, max_path_length=0), "graph")


def path_words(path: Iterable[NamedTriple]) -> str:
    """Predicates and objects of a path."""
    return ", ".join(f"{triple.predicate} {triple.object}" for triple in path)


def search(named: paths.NamedGraph, hubs: str, starts: Sequence[str] | None, limits: SearchLimits) -> paths.HubSearch:
    rules = np.zeros(named.graph.node_count, dtype=np.uint8)
    rules[[named.own_ids.index(name) for name in hubs.split()]] = paths.TYPES
    roots = None if starts is None else [named.own_ids.index(name) for name in starts]
    return paths.search_hubs(named.graph, rules, roots, limits)


def paths_from(named: paths.NamedGraph, found: paths.HubSearch, hub: str) -> list[str]:
    """Predicates and objects of a hub's paths, and why they end."""
    arrays = paths.path_arrays(found)
    number = arrays["hubs"].tolist().index(named.own_ids.index(hub))
    first, end = arrays["path-starts"][number : number + 2].tolist()
    named_paths = list(named.paths(arrays["triple-starts"], arrays["path-triples"]))  # type: ignore[arg-type]
    kinds = [END_KINDS[kind] for kind in arrays["end-kinds"].tolist()]
    return [f"{path_words(named_paths[path])} {kinds[path]}" for path in range(first, end)]


CHAIN = "S to H1; H1 a x1; x1 b H2; H2 a x2; x2 b H3; H3 a x3"
OF_CHAIN = {"H1": ["a x1, b H2 hub"], "H3": ["a x3 leaf"]}
LONG = 'H a x; x b y; y c z; z d "1'
MUTUAL = "H1 cites H2; H2 cites H1; H1 same H1; H2 a t"  # with a self loop
OF_MUTUAL = {"H1": ["cites H2 hub"], "H2": ["cites H1 hub", "a t leaf"]}
# H2's path over x goes on past it, although H1's path ends at x: x is a hub from the next level on
SHARED = "H1 a m; m b x; H2 c x; x d y"
OF_SHARED = {"H1": ["a m, b x limit"], "H2": ["c x, d y leaf"]}
BOTH = {"H1": 0, "H2": 0}
ALL, SPLITS = SearchLimits(), SearchLimits(split=True, max_path_length=2)


@pytest.mark.parametrize(
    ("stated", "starts", "limits", "levels", "expected"),
    [
        (CHAIN, None, ALL, {"H1": 0, "H2": 0, "H3": 0}, OF_CHAIN),
        (CHAIN, ["S"], ALL, {"H1": 0, "H2": 1, "H3": 2}, OF_CHAIN),
        ("H1 a x; y a x; H2 b y", ["x"], ALL, BOTH, {}),  # against the direction of edges
        (MUTUAL, ["H1"], ALL, BOTH, OF_MUTUAL),
        ("a to H1; H2 to b", None, ALL, BOTH, {"H1": []}),
        (LONG, None, SearchLimits(max_path_length=2), {"H": 0}, {"H": ["a x, b y limit"]}),
        (LONG, None, SPLITS, {"H": 0, "y": 1}, {"H": ["a x, b y limit"], "y": ['c z, d "1 leaf']}),
        ('H a x; x b "1; "1 c y', None, SPLITS, {"H": 0}, {}),  # a literal is no hub
        (SHARED, None, SPLITS, {**BOTH, "x": 1}, OF_SHARED),
    ],
    ids=["every hub", "start", "backwards", "mutual", "no edges", "limit", "split", "literal", "own splits"],
)
def test_hubs_are_found_level_by_level_with_their_paths(
    stated: str, starts: list[str] | None, limits: SearchLimits, levels: dict[str, int], expected: dict[str, list[str]]
) -> None:
    """Own ids that begin with H are hubs."""
    named = named_graph(stated)
    found = search(named, " ".join(name for name in named.own_ids if name.startswith("H")), starts, limits)
    assert {named.own_ids[node]: hub.level for node, hub in found.hubs.items()} == levels
    assert list(found.unreached) == []
    assert {hub: paths_from(named, found, hub) for hub in expected} == expected
    assert all(found.rules[named.own_ids.index(name)] == paths.SPLIT for name in levels if not name.startswith("H"))


def test_paths_beyond_the_limit_of_a_hub_are_counted_and_their_candidates_kept() -> None:
    named = named_graph("H a x1; H a x2; H b H2; H2 c y")
    found = search(named, "H H2", ["H"], SearchLimits(max_paths_per_hub=1))
    assert paths_from(named, found, "H") == ["b H2 hub"]
    assert found.hubs[named.own_ids.index("H")].left_out == 2
    assert {named.own_ids[node]: hub.level for node, hub in found.hubs.items()} == {"H": 0, "H2": 1}


PAPERS = written("P1 author A1; P1 venue V; A1 born V; P2 author A2; P2 cites P1; A2 knows A1")
WHOLE_HUBS, _ = hubs_of(PAPERS, {"P1", "P2"}, {})


def test_a_triple_goes_only_if_all_that_state_it_go() -> None:
    stated = np.array([[0, 0], [0, 1], [1, 1], [3, 0]])
    assert paths.triples_left(stated, 5, np.array([True, False])).tolist() == [0, 2, 3, 4]
    assert paths.triples_left(stated, 5, np.array([False, False])).tolist() == [2, 4]
    assert paths.triples_left(stated, 5, np.array([True, True])).tolist() == [0, 1, 2, 3, 4]


def test_a_pair_goes_with_either_of_its_ends() -> None:
    pairs, things, passages = np.array([[0, 0], [1, 2], [2, 2]]), np.array([0, -1, 1]), np.array([-1, 0, 1])
    assert paths.passages_left(pairs, things, passages).tolist() == [[1, 1]]
    assert paths.passages_left(np.empty((0, 2), np.int64), things, passages).shape == (0, 2)


@pytest.mark.parametrize("gone", [[], [0], [1, 4], list(range(len(WHOLE_HUBS.graph.subjects)))])
def test_paths_are_left_whole_and_in_order(gone: list[int]) -> None:
    before, count = WHOLE_HUBS.paths, len(WHOLE_HUBS.graph.subjects)
    moved = new_numbers(np.array([n for n in range(count) if n not in gone], np.int64), count)
    after, numbers = paths.paths_left(before, moved)
    triples = [before.triples_of(path).tolist() for path in range(before.path_count)]
    expected = [path for path in range(before.path_count) if not set(triples[path]) & set(gone)]
    assert numbers.tolist() == expected
    assert after.path_count == len(expected)
    found = [after.triples_of(new).tolist() for new in range(after.path_count)]
    assert found == [moved[triples[old]].tolist() for old in expected]
    assert after.hashes.tolist() == before.hashes[expected].tolist()
    hub_of = np.searchsorted(before.path_starts, expected, side="right") - 1
    assert np.diff(after.path_starts).tolist() == np.bincount(hub_of, minlength=len(before.path_starts) - 1).tolist()


LOOP = [NamedTriple("A", "Ada", "knows", "B", "Bob"), NamedTriple("B", "Bob", "knows", "A", "Ada")]


@pytest.mark.parametrize(
    ("with_part", "others", "text"), [(4, 6, "field0"), (3, 7, "has part field0"), (4, 5, "has part field0")]
)
def test_a_predicate_of_over_30_percent_is_left_out_unless_last(with_part: int, others: int, text: str) -> None:
    signatures = [("hasPart", f"field{n}") for n in range(with_part)] + [(f"kind{n}",) for n in range(others - 1)]
    texts = paths.signature_texts([*signatures, ("hasPart",) if with_part == 4 else ("kind",)])
    assert texts["hasPart", "field0"] == text
    assert texts.get(("hasPart",), "has part") == "has part"


def test_values_of_the_same_words_share_a_text() -> None:
    distinct = stage.DistinctTexts()
    numbers = stage.value_texts([("hasYear",), ("has_year",), ("hasYear",)], ["2024", "2024", ""], distinct)
    assert (numbers.tolist(), distinct.texts) == ([0, 0, 1], ["has year 2024", "has year"])


def test_a_label_that_comes_twice_in_a_path_is_one_row_of_it_and_one_text_of_all_paths() -> None:
    collector = stage.RowCollector(("entity", "triple"))
    collector.add([7, 8], LOOP, "unused")
    collector.add([9], [NamedTriple("A", "Ada", "likes", "C", "")], "unused")
    rows = collector.rows()
    texts = collector.texts.texts
    columns = (rows.row_paths, rows.row_levels, rows.row_texts, rows.row_triples)
    found = zip(*(column.tolist() for column in columns), strict=True)
    assert [(path, LEVELS[level], texts[text], triple) for path, level, text, triple in found] == [
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
    collector = stage.RowCollector(("triple",))
    same = [NamedTriple("A", "Ada", "is", "B", "Ada"), NamedTriple("B", "Ada", "is", "C", "Ada")]
    collector.add([3, 5], same, "unused")
    assert collector.rows().row_triples.tolist() == [3]


def test_a_model_is_shown_labels_and_no_ids() -> None:
    lines = stage.path_lines(LOOP)
    assert lines == '["Ada", "knows", "Bob"]\n["Bob", "knows", "Ada"]'
    assert lines in stage.path_request(lines, "hash").text
    assert stage.distinct_lines([LOOP, LOOP[:1], LOOP]) == {lines: 0, '["Ada", "knows", "Bob"]': 1}


WORKED_TRIPLES = """H1 title t1; H1 author A1; H1 venue V1; H1 cites H2; H1 same-as H1; A1 affiliation U1; A1 wrote H2;
U1 place C1; U1 employs A1; V1 place C1; C1 part-of K1; H2 title t2; H2 author A2; H2 cites H1; A2 affiliation U1;
R contains H1; R contains H2; F parent-of R"""
WORKED = named_graph(WORKED_TRIPLES)
NODES = WORKED.own_ids
ADJACENT = paths.Adjacency(WORKED.graph)
IS_HUB = bytearray(name in {"H1", "H2"} for name in NODES)


def words(path: Sequence[int]) -> list[NamedTriple]:
    (triples,) = WORKED.paths(np.array([0, len(path)]), np.array(path, np.int32))
    return list(triples)


def paths_of(hub: str, max_length: int) -> paths.PathsOfHub:
    return paths.find_paths_in_hub(ADJACENT, IS_HUB, NODES.index(hub), max_length)


def shown(found: paths.PathsOfHub) -> list[tuple[str, str]]:
    return [(path_words(words(path)), END_KINDS[kind]) for path, kind in zip(found.paths, found.end_kinds, strict=True)]


def candidates(found: paths.PathsOfHub) -> dict[str, tuple[str, str]]:
    return {NODES[node]: (END_KINDS[kind], path_words(words(path))) for node, (kind, path) in found.candidates.items()}


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
    first = paths.find_paths_in_hub(ADJACENT, IS_HUB, NODES.index("H1"), -1, max_paths=2)
    assert (first.paths, first.left_out) == (found.paths[:2], 4)


def test_a_length_limit_ends_paths_and_names_where_they_would_go_on() -> None:
    to_u1, to_c1 = "author A1, affiliation U1", "venue V1, place C1"
    whole = [("cites H2", "hub"), ("author A1, wrote H2", "hub"), ("title t1", "leaf")]
    assert shown(paths_of("H1", 2)) == [*whole, (to_u1, "limit"), (to_c1, "limit")]
    further = {"H2": ("hub", "cites H2"), "U1": ("limit", to_u1), "C1": ("limit", to_c1)}
    assert candidates(paths_of("H1", 2)) == further
    found = paths_of("H1", 1)
    assert {path for path, _ in shown(found)} == {"cites H2", "author A1", "title t1", "venue V1"}
    assert set(candidates(found)) == {"H2", "A1", "V1"}


AUTHOR = NamedTriple("H1", "Paper One", "author", "A1", "Jane Doe")
TWO_STEPS = [AUTHOR, NamedTriple("A1", "Jane Doe", "affiliation", "U1", "Uni Y")]


def test_golden_hash_and_text() -> None:
    assert paths.path_hash(TWO_STEPS).hex() == "2e70baf4d6387e939127f86c6d68acbb239de4a45ee4aed2e08393b7233351d7"
    assert paths.path_text(TWO_STEPS) == "Paper One author Jane Doe; Jane Doe affiliation Uni Y."
    venue = NamedTriple("H1", "Paper One", "hasVenue", "V", "ICSA")
    place = NamedTriple("V", "ICSA", "located_in", "O", "Oslo")
    assert paths.path_text([venue, place]) == "Paper One has venue ICSA; ICSA located in Oslo."
    link = NamedTriple("H1", "", "sourceUrl", "L1", "https://example.org/x")
    assert paths.path_text([link]) == "H1 source url."  # no address, and the id of what has no label


def test_any_changed_id_label_or_predicate_changes_the_hash() -> None:
    before = paths.path_hash(TWO_STEPS)
    for part in NamedTriple._fields:
        assert paths.path_hash([TWO_STEPS[0]._replace(**{part: "other"}), TWO_STEPS[1]]) != before
    assert paths.path_hash(TWO_STEPS[:1]) != before


def test_predicates_in_words() -> None:
    expected = {
        "http://example.org/ns#hasVenue": "has venue",
        "https://example.org/prop/located_in": "located in",
        "https://example.org/prop/": "prop",
        "Threats to  Validity": "threats to validity",
        "input/output": "input/output",
        "P2Type-of": "p2 type of",
    }
    assert {predicate: paths.humanised(predicate) for predicate in expected} == expected


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
    for table in (ENTITIES, HUBS, stage.HUB_CANDIDATES, stage.HUB_PATHS):
        connection.execute(create_statement(table))
    zeros = dict.fromkeys(ENTITIES.column_names, "0")
    for name in "hiuxv":
        values = {**zeros, "entity_id": name, "key": name, "is_literal": name == "v"}
        connection.execute(f"INSERT INTO entities VALUES ({', '.join('?' * len(values))})", list(values.values()))
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
