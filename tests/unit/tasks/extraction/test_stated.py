"""Statements about a document, located in its passages: by hand."""

from polyhop.schemas.records import Passage
from polyhop.tasks.extraction.rows import bundle_of
from polyhop.tasks.extraction.stated import Stated, clean, distribute, named, stated_page


def passage(text: str, passage_id: str = "p", title: str = "Ann Roe") -> Passage:
    return Passage(passage_id, "p", "d", 0, title, text, 0, len(text))


def test_a_page_by_hand() -> None:
    stated = Stated(
        [named("Rome"), named("Ann Roe", "PERSON", "Ann Roe is a poet."), named("growth"), named("2 May 1990")],
        [("ann roe", "born in", "rome"), ("ann roe", "born in", "rome")],
        [("Ann Roe born in Rome.", ["ann roe", "rome"]), ("Ann Roe born in Rome.", ["date:1990-05-02"])],
    )
    bundle = bundle_of([stated_page(passage("ANN ROE came. She, Ann Roe, saw ROME on May 2, 1990."), stated, "import")])
    second = "She, Ann Roe, saw ROME on May 2, 1990."
    assert [tuple(row.values())[1:] for row in bundle.mentions.to_pylist()] == [
        ("ann roe", "import", "Ann Roe", 3, True, "[[0,7],[19,26]]", "PERSON", 1.0, "Ann Roe is a poet."),
        ("date:1990-05-02", "import", "May 2, 1990", 1, False, "[[40,51]]", "DATE", 1.0, second),
        ("growth", "import", "growth", 1, False, "[]", None, None, "ANN ROE came."),
        ("rome", "import", "ROME", 1, False, "[[32,36]]", "LOCATION", 0.9, second),
    ]
    assert [tuple(row.values()) for row in bundle.relations.to_pylist()] == [
        ("p", 0, "ann roe", "born in", "rome", "import")
    ]
    assert [tuple(row.values()) for row in bundle.propositions.to_pylist()] == [
        ("p", 0, "Ann Roe born in Rome.", ["ann roe", "rome", "date:1990-05-02"], "import")
    ]


def test_the_first_given_type_counts_and_dates_keep_theirs() -> None:
    stated = Stated([named("Bo", "WORK"), named("Bo", "EVENT"), named("1990", "EVENT")])
    rows = stated_page(passage("Bo in 1990"), stated, "model").rows
    assert (rows["bo"].type, rows["date:1990"].type) == ("WORK", "DATE")


def test_names_go_where_they_stand_and_else_to_the_first_passage() -> None:
    pages = [passage("Bo left.", "p#0"), passage("Bo saw Al in Rome.", "p#1"), passage("Rome fell.", "p#2")]
    stated = Stated(
        [named("Bo"), named("Al"), named("Rome"), named("Nobody")],
        [("bo", "saw", "al"), ("al", "fled", "nobody"), ("rome", "is", "rome")],
        [("Rome fell.", ["rome"]), ("All ended.", []), ("Bo fled.", ["bo"])],
        [("Bo saw Al.", ["bo", "al"]), ("Al fled nobody.", ["al", "nobody"]), ("Rome is Rome.", ["rome"])],
    )
    parts = distribute(stated, pages)
    assert [[name.key for name in part.names] for part in parts] == [["bo", "nobody"], ["bo", "al", "rome"], ["rome"]]
    assert [part.relations for part in parts] == [
        [("al", "fled", "nobody")],
        [("bo", "saw", "al"), ("rome", "is", "rome")],
        [],
    ]
    assert [[text for text, _ in part.propositions] for part in parts] == [
        ["All ended.", "Bo fled."],
        ["Rome fell."],
        [],
    ]
    assert [[text for text, _ in part.triples] for part in parts] == [
        ["Al fled nobody."],
        ["Bo saw Al.", "Rome is Rome."],
        [],
    ]


def test_one_passage_gets_everything() -> None:
    stated = Stated([named("Nobody")])
    assert distribute(stated, [passage("x")]) == [stated]


def test_what_no_file_can_hold_is_cleaned_away() -> None:
    assert clean(" a\0b\ud800\n c ") == "a b c"
