"""Which names mean the same thing: titles, candidates, clusters, namesakes, types."""

import random

import duckdb
import pytest

from polyhop.schemas.types import DEFAULT, DEFINED
from polyhop.tasks.resolution.candidates import DisjointSets, Name, candidate_pairs, clusters_of, pairs_across_types
from polyhop.tasks.resolution.namesakes import (
    Bearer,
    disjoint,
    qualified_bearers,
    senses_of,
    titled_bearers,
    typed_bearers,
)
from polyhop.tasks.resolution.stage import title_aliases
from polyhop.warehouse.statements import statement


def test_golden_title_aliases() -> None:
    """G-SPRIG-6: two Mercury titles make `mercury` ambiguous; Blur and Blur (band) make `blur` so."""
    titles = ["Mercury (planet)", "Mercury (element)", "Ada Lovelace", "Paris (Texas)", "Blur (band)", "Blur"]
    found: dict[str, set[str]] = {}
    for alias, key in title_aliases(titles):
        found.setdefault(alias, set()).add(key)
    kept = {alias: next(iter(keys)) for alias, keys in found.items() if len(keys) == 1}
    assert kept == {
        "ada lovelace": "ada lovelace",
        "blur band": "blur band",
        "mercury element": "mercury element",
        "mercury planet": "mercury planet",
        "paris texas": "paris texas",
        "paris": "paris texas",
    }
    assert {alias for alias, keys in found.items() if len(keys) > 1} == {"mercury", "blur"}


def test_equal_titles_count_once_and_order_does_not_matter() -> None:
    assert title_aliases(["B", "Ax (y)", "Ax (y)"]) == title_aliases(["Ax (y)", "B"])


PERSONS = (
    "louis xiii",
    "louis xiii of france",
    "king louis xiii",
    "louis xiv",
    "marie curie",
    "marie",
    "pierre curie",
    "curie, marie",
)
ORGANIZATIONS = ("paris saint-germain", "saint-germain", "acme", "acme corp", "acme corp.")
LOCATIONS = ("paris", "paris, texas", "texas")


def clusters(names: tuple[str, ...], kind: str) -> tuple[list[list[str]], int]:
    listed = [Name(name, name, kind) for name in sorted(names)]
    found = candidate_pairs(listed)
    grouped = clusters_of(len(listed), found.pairs, 40)
    assert grouped.left_out == []
    return [[listed[number].name for number in cluster] for cluster in grouped.clusters], found.comparisons


def test_golden_candidate_clusters_of_persons() -> None:
    """G-ER-1."""
    found, comparisons = clusters(PERSONS, "PERSON")
    assert found == [
        ["curie, marie", "marie", "marie curie"],
        ["king louis xiii", "louis xiii", "louis xiii of france"],
    ]
    assert comparisons == 8


def test_golden_candidate_clusters_of_organizations() -> None:
    """G-ER-2."""
    found, comparisons = clusters(ORGANIZATIONS, "ORGANIZATION")
    assert found == [["acme", "acme corp", "acme corp."], ["paris saint-germain", "saint-germain"]]
    assert comparisons == 5


def test_golden_candidate_cluster_of_locations() -> None:
    """G-ER-3."""
    assert clusters(LOCATIONS, "LOCATION")[0] == [["paris", "paris, texas", "texas"]]


def test_words_lose_punctuation_around_them_and_accents() -> None:
    assert Name("", '"Curie", (Marie)  É.').tokens == {"curie", "marie", "e"}
    assert Name("", "Saint-Germain").tokens == {"saint-germain"}
    assert Name("", "— ... !").tokens == {"—"}


def test_names_without_words_or_type_take_no_part() -> None:
    names = [Name("a", "...", "WORK"), Name("b", "b", None), Name("c", "b c", "WORK"), Name("d", "b", "WORK")]
    assert candidate_pairs(names).pairs == [(3, 2)]


def test_names_of_different_types_are_no_candidates() -> None:
    assert candidate_pairs([Name("a", "paris", "PERSON"), Name("b", "paris x", "LOCATION")]).pairs == []


def test_names_of_two_types_with_the_same_words_are_candidates_both_ways_if_one_type_is_a_guess() -> None:
    names = [Name("liang ji", "liang ji", "PERSON"), Name("ji liang", "ji liang", "LOCATION", is_guess=True)]
    assert pairs_across_types(names) == [(0, 1), (1, 0)]


def test_overlapping_pairs_make_one_set() -> None:
    sets = DisjointSets(6)
    for a, b in ((1, 2), (4, 3), (3, 2)):
        sets.union(a, b)
    assert sets.groups(range(6)) == [[0], [1, 2, 3, 4], [5]]
    assert {sets.find(item) for item in (1, 2, 3, 4)} == {1}


def test_a_lone_first_name_that_links_everybody_is_left_out() -> None:
    star = [(0, n) for n in range(1, 8)]
    found = clusters_of(8, [*star, (1, 2)], 3)
    assert (found.clusters, found.left_out) == ([[1, 2]], [0])


def test_ties_between_equal_degrees_go_to_the_smaller_number() -> None:
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    found = clusters_of(4, ring, 3)
    assert (found.clusters, found.left_out) == ([[1, 2, 3]], [0])


def test_small_components_beside_a_large_one_lose_nobody() -> None:
    found = clusters_of(9, [(0, n) for n in range(1, 6)] + [(7, 8), (8, 7)], 2)
    assert (found.clusters, found.left_out) == ([[7, 8]], [0])


def test_peeling_equals_the_rule_taken_literally() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        count, limit = chance.randrange(4, 25), chance.randrange(2, 6)
        pairs = [(chance.randrange(count), chance.randrange(count)) for _ in range(chance.randrange(2 * count))]
        pairs = [(a, b) for a, b in pairs if a != b]
        found = clusters_of(count, pairs, limit)
        assert (found.clusters, found.left_out) == literal(count, pairs, limit), seed


def literal(count: int, pairs: list[tuple[int, int]], limit: int) -> tuple[list[list[int]], list[int]]:
    """While a piece is too large, its member with most neighbours in it goes."""
    left_out: list[int] = []
    done: list[list[int]] = []
    waiting = pieces(set(range(count)), pairs)
    while waiting:
        piece = waiting.pop()
        if len(piece) <= limit:
            done.append(sorted(piece))
            continue
        degree = {m: len({a + b - m for a, b in pairs if m in (a, b) and {a, b} <= piece}) for m in piece}
        gone = min(piece, key=lambda m: (-degree[m], m))
        left_out.append(gone)
        waiting += pieces(piece - {gone}, pairs)
    return sorted(piece for piece in done if len(piece) > 1), sorted(left_out)


def pieces(members: set[int], pairs: list[tuple[int, int]]) -> list[set[int]]:
    found: list[set[int]] = [{member} for member in members]
    for a, b in pairs:
        if a in members and b in members:
            touching = [piece for piece in found if a in piece or b in piece]
            found = [piece for piece in found if piece not in touching] + [set().union(*touching)]
    return found


PLANET = Bearer("mercury planet", "Mercury (planet)", frozenset({"p1"}), "the title")
GOD = Bearer("mercury mythology", "Mercury (mythology)", frozenset({"p2"}), "the title")
AROUND = {
    "p1": frozenset({"mercury", "venus"}),
    "p2": frozenset({"mercury", "jupiter"}),
    "p3": frozenset({"mercury", "venus"}),
    "p4": frozenset({"mercury", "venus", "jupiter"}),
    "p5": frozenset({"mercury"}),
}
COUNTS = {"mercury": 5, "venus": 3, "jupiter": 2}


def senses(group: list[Bearer]) -> dict[str, str]:
    found = senses_of({"mercury": group}, AROUND, COUNTS, {"mercury": list(AROUND)})
    return {passage: bearer for passage, _, bearer, _ in found.rows}


def test_a_page_means_its_own_title_and_others_the_bearer_whose_neighbours_they_name() -> None:
    assert senses([GOD, PLANET]) == {"p1": "mercury planet", "p2": "mercury mythology", "p3": "mercury planet"}


def test_a_passage_that_two_bearers_claim_keeps_the_name() -> None:
    assert "p1" not in senses([GOD._replace(passages=frozenset({"p1", "p2"})), PLANET])


def test_every_bearer_has_a_decision_that_counts_its_passages() -> None:
    found = senses_of({"mercury": [GOD, PLANET]}, AROUND, COUNTS, {"mercury": list(AROUND)})
    assert [(d.key, d.kind, d.scope) for d in found.decisions] == [
        ("mercury", "identity", "mercury mythology"),
        ("mercury", "identity", "mercury planet"),
    ]
    assert "2 passages mean 'mercury planet'" in found.decisions[1].reason
    assert found.families["mercury planet"] == frozenset({"mercury"})


def test_titles_share_a_name_without_their_parentheses_but_not_a_piece_of_a_list() -> None:
    titles = {
        "Mercury (planet)": ["p1"],
        "Mercury (mythology)": ["p2"],
        "Mercury": ["p3"],
        "Red, White and Blue (film)": ["p4"],
        "Red, White and Blue (song)": ["p5"],
        "Venus (planet)": ["p6"],
    }
    found = titled_bearers(titles)
    assert sorted(found) == ["mercury", "red white and blue"]
    assert [bearer.key for bearer in found["mercury"]] == ["mercury", "mercury mythology", "mercury planet"]


def rows(qualifier: str, *passages: str) -> list[tuple[str, str, str, str, str]]:
    return [(passage, "cambridge", "Cambridge", qualifier.lower(), qualifier) for passage in passages]


def test_a_place_in_two_larger_ones_is_two_places() -> None:
    found = qualified_bearers([*rows("England", "a", "b"), *rows("Massachusetts", "c", "d")], set())
    assert [bearer.name for bearer in found["cambridge"]] == ["Cambridge (England)", "Cambridge (Massachusetts)"]


def test_qualifiers_of_which_one_lies_in_the_other_are_one_place() -> None:
    said = [*rows("Massachusetts", "a", "b"), *rows("USA", "c", "d")]
    assert qualified_bearers(said, {("massachusetts", "usa")}) == {}
    assert qualified_bearers([*rows("China", "a", "b"), *rows("PR China", "c", "d")], set()) == {}


def test_a_qualifier_of_a_single_passage_does_not_count() -> None:
    assert qualified_bearers([*rows("England", "a", "b"), *rows("Oxford", "c")], set()) == {}


def test_the_most_frequent_type_keeps_the_name_where_types_decide_alone() -> None:
    types = [(p, "ford", "Ford", "PERSON") for p in "abc"] + [(p, "ford", "Ford", "ORGANIZATION") for p in "de"]
    kept = typed_bearers(types, keeps_name=True)["ford"]
    assert [(bearer.key, bearer.name) for bearer in kept] == [
        ("ford", "Ford"),
        ("ford organization", "Ford (organization)"),
    ]
    assert typed_bearers(types[:4], keeps_name=True) == {}


def test_bearers_with_a_neighbour_in_common_are_not_told_apart() -> None:
    around = {"p1": frozenset({"venus"}), "p2": frozenset({"jupiter"})}
    assert list(disjoint({"mercury": [GOD, PLANET]}, around)) == ["mercury"]
    assert disjoint({"mercury": [GOD, PLANET]}, around | {"p2": frozenset({"venus"})}) == {}


def test_passages_that_are_decided_decide_others_by_the_names_in_them() -> None:
    around = {
        "p1": frozenset({"mercury", "venus"}),
        "p2": frozenset({"mercury", "jupiter"}),
        "p3": frozenset({"mercury", "venus", "mariner"}),
        "p4": frozenset({"mercury", "mariner"}),
        "p5": frozenset({"mercury", "nasa"}),
    }
    found = senses_of(
        {"mercury": [GOD, PLANET]}, around, dict.fromkeys(("venus", "mariner"), 2), {"mercury": [*around]}
    )
    assert {passage for passage, _, bearer, _ in found.rows if bearer == PLANET.key} == {"p1", "p3", "p4"}


Vote = tuple[str | None, float | None, int, bool]
"""Type, confidence, mentions, whether it is of the name's own page."""


def type_of(*votes: Vote) -> tuple[str | None, float] | None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE resolved_mentions (key VARCHAR, type VARCHAR, type_confidence DOUBLE, tf INTEGER, "
            "is_title BOOLEAN)"
        )
        connection.executemany(
            "INSERT INTO resolved_mentions VALUES ('roe', ?, ?, ?, ?)", [list(vote) for vote in votes]
        )
        connection.execute(statement("resolve", "types_of_keys"))
        return connection.execute("SELECT type, confidence FROM types_of_keys").fetchone()


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([("PERSON", DEFAULT, 50, False), ("WORK", 0.5, 1, False)], ("WORK", 1.0)),
        ([("PERSON", 0.85, 50, False), ("LOCATION", DEFINED, 1, True)], ("LOCATION", 1.0)),
        ([("PERSON", 0.85, 50, False), ("LOCATION", DEFINED, 1, False)], ("PERSON", 0.979263)),
        ([("PERSON", 0.85, 50, False), ("LOCATION", 0.8, 1, True)], ("PERSON", 0.981524)),
        ([("PERSON", 0.85, 50, False), (None, DEFINED, 1, True)], (None, 1.0)),
        ([("PERSON", 0.5, 2, False), (None, 0.9, 1, False)], ("PERSON", 0.526316)),
        ([("PERSON", DEFAULT, 2, False), (None, 0.2, 1, False)], ("PERSON", 0.75)),
        ([("PERSON", 0.5, 1, False), (None, 0.5, 1, False)], ("PERSON", 0.5)),
        ([("PERSON", None, 1, False), ("WORK", DEFAULT, 1, False)], ("WORK", 1.0)),
        ([(None, None, 1, False)], None),
    ],
)
def test_surer_ways_to_know_come_first(votes: list[Vote], expected: tuple[str | None, float] | None) -> None:
    assert type_of(*votes) == expected
