"""Which passages mean which bearer of a shared name."""

from polyhop.tasks.resolution.namesakes import (
    Bearer,
    disjoint,
    qualified_bearers,
    senses_of,
    titled_bearers,
    typed_bearers,
)

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
