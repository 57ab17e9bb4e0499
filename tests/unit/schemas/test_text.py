import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.text import fold, norm_answer, norm_lower, norm_simple, norm_ws, passage_text


@pytest.mark.parametrize(
    ("text", "ws", "simple"),
    [
        ("  The\tBig\n Apple ", "the big apple", "the big apple"),
        ("O'Neill", "o'neill", "o neill"),
        ("Spider-Man", "spider-man", "spider man"),
        ("hub_path--x", "hub_path--x", "hub path x"),
        ("Cafe\u0301 Ünal", "café ünal", "cafe unal"),
        ("A\u00a0B\u2003C", "a b c", "a b c"),
        ("", "", ""),
    ],
)
def test_each_normaliser_keeps_its_own_rule(text: str, ws: str, simple: str) -> None:
    assert norm_ws(text) == ws
    assert norm_lower(text) == ws
    if text.isascii() or "é" not in ws:
        assert norm_simple(text) == simple


def test_norm_simple_keeps_letters_of_every_script() -> None:
    assert norm_simple("Größe: 北京 (city)") == "größe 北京 city"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Eiffel Tower!", "eiffel tower"),
        ("a an the", ""),
        ("U.S.A.", "usa"),
        ("rock-and-roll", "rockandroll"),
        ("1,952", "1952"),
        ("São Paulo", "são paulo"),
        ("Athens the Greek", "athens greek"),
    ],
)
def test_norm_answer_is_squads(text: str, expected: str) -> None:
    assert norm_answer(text) == expected


def test_fold_drops_accents_and_straightens_apostrophes() -> None:
    assert fold("Antoni Gaudí’s Família") == "Antoni Gaudi's Familia"


@given(st.text())
def test_normalisers_are_idempotent(text: str) -> None:
    for normalise in (norm_ws, norm_simple, norm_answer, fold):
        once = normalise(text)
        assert normalise(once) == once


def test_a_passage_without_title_is_its_text() -> None:
    assert passage_text("", "x") == "x"
    assert passage_text("T", "x") == "T\nx"
