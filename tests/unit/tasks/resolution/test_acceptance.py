import pytest

from polyhop.tasks.resolution.candidates import Name, Verdict, candidate_pairs
from polyhop.tasks.resolution.resolve import Links, accept, preferred, resolve


def merged(names: list[str], kind: str, **mentions: int) -> dict[str, str]:
    """Key to canonical key, by rules alone."""
    listed = [Name(name, name, kind, mentions.get(name, 1)) for name in names]
    return resolve(listed, Links(), lambda every, pairs, _: accept(every, pairs), 40).canonical_of


def judge(names: list[Name]) -> Verdict:
    return accept(names, candidate_pairs(names).pairs)


def test_golden_acceptance_of_persons() -> None:
    """G-ER-1: one group, louis xiii has two incomparable longer forms, marie is nobody's form."""
    names = ["louis xiii", "louis xiii of france", "king louis xiii", "louis xiv", "marie curie", "marie"]
    names += ["pierre curie", "curie, marie"]
    assert merged(names, "PERSON") == {"curie, marie": "marie curie"}
    verdict = judge([Name(name, name, "PERSON") for name in names])
    assert verdict.ambiguous == {0}
    assert "'louis xiii of france', 'king louis xiii'" in verdict.refusals[0]
    assert "adds curie" in verdict.refusals[5]


def test_golden_acceptance_of_organizations() -> None:
    """G-ER-2."""
    names = ["paris saint-germain", "saint-germain", "acme", "acme corp", "acme corp."]
    assert merged(names, "ORGANIZATION") == {"acme": "acme corp.", "acme corp": "acme corp."}


def test_golden_acceptance_of_locations() -> None:
    """G-ER-3: nothing; places need the same words."""
    assert merged(["paris", "paris, texas", "texas"], "LOCATION") == {}
    assert merged(["city of bath", "bath, city of", "the city of bath"], "LOCATION") == {
        "bath, city of": "city of bath"
    }


@pytest.mark.parametrize(
    ("shorter", "longer", "kind", "is_one"),
    [
        ("louis xiii", "louis xiii of france", "PERSON", True),
        ("louis", "louis of france", "PERSON", False),
        ("louis xiii", "france of louis xiii", "PERSON", False),
        ("bank america", "bank america of texas", "ORGANIZATION", False),
        ("beatles", "the beatles", "ORGANIZATION", True),
        ("martin king", "dr martin king", "PERSON", True),
        ("martin king", "martin luther king", "PERSON", False),
    ],
)
def test_only_harmless_additions_are_accepted(shorter: str, longer: str, kind: str, is_one: bool) -> None:
    assert merged([shorter, longer], kind) == ({shorter: longer} if is_one else {})


def test_the_preferred_name_has_most_words_then_mentions_then_no_comma_then_length() -> None:
    def best(*names: Name) -> str:
        return names[preferred(names, range(len(names)))].key

    assert best(Name("a b", "a b", "WORK", 1), Name("a", "a", "WORK", 9)) == "a b"
    assert best(Name("a b", "a b", "WORK", 1), Name("c d", "c d", "WORK", 2)) == "c d"
    assert best(Name("1", "curie, marie", "PERSON"), Name("2", "marie curie", "PERSON")) == "2"
    assert best(Name("1", "acme corp", "WORK"), Name("2", "acme corp.", "WORK")) == "2"
    assert best(Name("2", "b a", "WORK"), Name("1", "a b", "WORK")) == "1"


@pytest.mark.parametrize(
    ("short", "guess", "long", "kind", "are_one"),
    [
        ("brightwater pumps", "PERSON", "brightwater pumps ltd", "ORGANIZATION", True),
        ("brightwater pumps", "LOCATION", "brightwater pumps ltd", "ORGANIZATION", True),
        ("acme", "WORK", "acme corp", "ORGANIZATION", True),
        ("twilight zone", "", "the twilight zone", "WORK", True),
        ("emma", "PERSON", "emma film", "WORK", False),
        ("jones", "", "mr jones", "PERSON", False),
        ("victoria", "LOCATION", "queen victoria", "PERSON", False),
    ],
)
def test_a_guessed_type_separates_no_two_forms_of_a_name(
    short: str, guess: str, long: str, kind: str, are_one: bool
) -> None:
    for is_guess in (True, False):
        names = [Name(short, short, guess, is_guess=is_guess), Name(long, long, kind)]
        found = resolve(names, Links(), lambda every, pairs, _: accept(every, pairs), 40).canonical_of
        assert found == ({short: long} if are_one and is_guess else {})


def test_a_guess_joins_no_two_names_of_certain_types() -> None:
    names = [
        Name("x y", "x y", "WORK", is_guess=True),
        Name("x, y", "x, y", "PERSON"),
        Name("the x y", "the x y", "EVENT"),
    ]
    found = resolve(names, Links(), lambda every, pairs, _: accept(every, pairs), 40)
    assert len(found.canonical_of) == 1
