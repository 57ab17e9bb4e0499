from polyhop.tasks.resolution.candidates import Name, candidate_pairs, clusters_of, pairs_across_types

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
