from pathlib import Path

import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.records import NamePair
from polyhop.tasks.resolution.candidates import Name
from polyhop.tasks.resolution.resolve import Links, Resolution, accept, resolve
from polyhop.warehouse.user_files import links_hash, read_links


def decide(names: list[Name], must: tuple[NamePair, ...] = (), cannot: tuple[NamePair, ...] = ()) -> Resolution:
    return resolve(names, Links(must, cannot), lambda every, pairs, _: accept(every, pairs), 40)


def pair(a: str, b: str, kind: str = "", line: int = 2) -> NamePair:
    return NamePair(a, b, kind, f"links.csv line {line}")


ACME = [Name(name, name, "ORGANIZATION") for name in ("acme", "acme corp", "big blue")]


def test_overlapping_must_links_make_one_entity() -> None:
    names = [Name(str(n), str(n), "WORK") for n in range(1, 5)]
    found = decide(names, (pair("1", "2"), pair("3", "4"), pair("2", "3")))
    assert found.canonical_of == {"2": "1", "3": "1", "4": "1"}


def test_a_must_link_crosses_types_and_a_typed_one_does_not() -> None:
    names = [Name("usa", "USA", "LOCATION"), Name("united states", "United States", "ORGANIZATION")]
    assert decide(names, (pair("USA", "United States"),)).canonical_of == {"usa": "united states"}
    typed = decide(names, (pair("USA", "United States", "LOCATION"),))
    assert typed.canonical_of == {}
    assert {d.reason.partition(", ")[2] for d in typed.decisions} == {
        "not used, because 'united states' is of type ORGANIZATION"
    }


def test_a_cannot_link_stops_what_the_rules_would_merge() -> None:
    found = decide(ACME, cannot=(pair("Acme", "ACME Corp"),))
    assert found.canonical_of == {}
    reason = next(d.reason for d in found.decisions if d.kind == "er")
    assert reason.startswith("links.csv line 2 keeps it apart, although 'acme corp' only adds corp to 'acme'")


def test_a_pair_that_is_kept_apart_twice_names_one_line_in_either_order() -> None:
    twice = (pair("Acme", "ACME Corp"), pair("ACME Corp", "Acme", line=3))
    assert decide(ACME, cannot=twice) == decide(ACME, cannot=twice[::-1])


def test_a_cannot_link_holds_through_a_chain_of_merges() -> None:
    found = decide(ACME, (pair("Acme", "Big Blue"),), (pair("Big Blue", "Acme Corp", line=3),))
    assert found.canonical_of == {"acme": "big blue"}


def test_contradicting_links_are_refused_with_their_names() -> None:
    must = (pair("Acme", "Big Blue"), pair("Big Blue", "Acme Corp", line=3))
    with pytest.raises(ConfigurationError) as caught:
        decide(ACME, must, (pair("Acme Corp", "Acme", line=4),))
    assert "line 4 keeps 'acme' and 'acme corp' apart" in str(caught.value)
    assert "must-link 'acme' = 'big blue' (links.csv line 2); must-link 'big blue' = 'acme corp'" in str(caught.value)


def test_one_name_cannot_be_kept_apart_from_itself() -> None:
    with pytest.raises(ConfigurationError, match="same name \\('beyonce'\\)"):
        decide([], cannot=(pair("Beyoncé", "BEYONCE"),))


def test_a_name_that_no_passage_has_leads_to_its_entity() -> None:
    found = decide([Name("new york city", "New York City", "LOCATION")], (pair("Big Apple", "New York City"),))
    assert found.canonical_of == {}
    assert {d.key: d.canonical for d in found.decisions} == {
        "big apple": "new york city",
        "new york city": "new york city",
    }
    alone = decide([], (pair("Big Apple", "Gotham"),))
    assert {d.canonical for d in alone.decisions} == {None}


def test_a_file_of_pairs_is_read(tmp_path: Path) -> None:
    file = tmp_path / "links.csv"
    file.write_text('\ufeffa,b,type,same\n"Curie, Marie", Marie Curie ,person,\n\nA,B,, No\n', encoding="utf-8")
    assert read_links(str(file)) == (
        NamePair("Curie, Marie", "Marie Curie", "PERSON", "links.csv line 2"),
        NamePair("A", "B", "", "links.csv line 4", are_same=False),
    )
    assert read_links("") == ()
    before = links_hash(str(file))
    file.write_text("a,b\nA,B\n", encoding="utf-8")
    assert links_hash(str(file)) != before
    assert links_hash("") == ""


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("x,y\nA,B\n", "line 1: the header must be a,b, with type or same after them, not 'x,y'"),
        ("a,b,same,same\n", "line 1: the header must be a,b, with type or same after them"),
        ("", "line 1: the header must be a,b, with type or same after them"),
        ("a,b,same\nA,B,maybe\n", "line 2: same must be yes or no, not 'maybe'"),
        ("a,b\nA,B\nA\n", "line 3: 1 columns instead of 2"),
        ("a,b\nA,!!!\n", "line 2: '!!!' is not a name"),
        ('a,b\n"A,B\n', "line 2: unexpected end of data"),
    ],
)
def test_a_bad_row_is_one_sentence_with_file_and_line(tmp_path: Path, content: str, sentence: str) -> None:
    file = tmp_path / "links.csv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        read_links(str(file))
    assert f"{file} {sentence}" in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Cannot read the name pairs"):
        links_hash(str(tmp_path / "missing.csv"))
    (tmp_path / "latin.csv").write_bytes(b"a,b\n\xe9,B\n")
    with pytest.raises(ConfigurationError, match="it is not UTF-8"):
        read_links(str(tmp_path / "latin.csv"))
