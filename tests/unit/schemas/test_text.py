"""Text: normal forms and ids, stems, and where sentences end."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.languages import ANALYSERS, STOP_WORDS, plain_tokens, stem_tokens
from polyhop.schemas.names import split_sentences
from polyhop.schemas.text import fold, norm_answer, norm_lower, norm_simple, norm_ws, passage_text


@pytest.mark.parametrize(
    ("text", "ws", "simple"),
    [
        ("  The\tBig\n Apple ", "the big apple", "the big apple"),
        ("O'Neill", "o'neill", "o neill"),
        ("Spider-Man", "spider-man", "spider man"),
        ("hub_path--x", "hub_path--x", "hub path x"),
        ("A\u00a0B\u2003C", "a b c", "a b c"),
        ("Größe: 北京 (city)", "größe: 北京 (city)", "größe 北京 city"),
    ],
)
def test_each_normaliser_keeps_its_own_rule(text: str, ws: str, simple: str) -> None:
    assert (norm_ws(text), norm_lower(text), norm_simple(text)) == (ws, ws, simple)
    assert norm_answer("Athens the Greek") == "athens greek"  # more cases: golden answers of test_metrics.py


@given(st.text())
def test_normalisers_are_idempotent(text: str) -> None:
    for normalise in (norm_ws, norm_simple, norm_answer, fold):
        once = normalise(text)
        assert normalise(once) == once


def test_normal_forms_and_tokens_of_single_texts() -> None:
    assert norm_ws("Cafe\u0301 Ünal") == "café ünal"
    assert fold("Antoni Gaudí’s Família") == "Antoni Gaudi's Familia"
    assert (passage_text("", "x"), passage_text("T", "x")) == ("x", "T\nx")
    assert plain_tokens("The O'Neill café, 1984!") == ["the", "o", "neill", "caf", "1984"]
    assert stem_tokens("The Gaudí’s churches were running, 1984") == ["gaudi", "church", "run", "1984"]
    assert stem_tokens(" -- ") == plain_tokens("é") == []
    assert {"plain": plain_tokens, "stems": stem_tokens} == ANALYSERS


@given(st.lists(st.from_regex(r"[a-z]{1,12}", fullmatch=True)))
def test_stems_are_those_of_a_fresh_stemmer(words: list[str]) -> None:
    fresh = Stemmer.Stemmer("english")
    assert stem_tokens(" ".join(words)) == [fresh.stemWord(word) for word in words if word not in STOP_WORDS]


def test_threads_agree() -> None:
    texts = [f"running{n} walked{n} nationalities{n} hopping" for n in range(500)]
    alone = [stem_tokens(text.replace("hopping", "hoping")) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda text: stem_tokens(text.replace("hopping", "hoping")), texts))
    assert together == alone


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Mr. Smith met J. R. R. Tolkien vs. Foo.", ["Mr. Smith met J. R. R. Tolkien vs. Foo."]),
        ("No. 5 is in the U.S. Army list, e.g. This.", ["No. 5 is in the U.S. Army list, e.g. This."]),
        ("It was World War I. It left the U.S. It ended.", ["It was World War I.", "It left the U.S.", "It ended."]),
        ("Acme Inc. The firm of Dr. No", ["Acme Inc.", "The firm of Dr. No"]),
        ('He said "Hi." Then (Yes.) she left.', ['He said "Hi."', "Then (Yes.) she left."]),
        ("Born 1950. 12 came. “Who?” (It)", ["Born 1950.", "12 came.", "“Who?”", "(It)"]),
        ("ok... then. and so", ["ok... then. and so"]),
        ("Version 3.5 is out.Now", ["Version 3.5 is out.Now"]),
        ("A heading\n\nA text\ngoes on\n \nEnd", ["A heading", "A text\ngoes on", "End"]),
        ("今日は。明日は？", ["今日は。", "明日は？"]),
        ("جملة. جملة", ["جملة.", "جملة"]),
        (" \n ", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in split_sentences(text)] == expected


@given(st.text(alphabet="aA.!?\"'( \n1é。"))
def test_sentences_are_trimmed_in_order_and_lose_only_white_space(text: str) -> None:
    found = split_sentences(text)
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    assert "".join("".join(text[start:end] for start, end in found).split()) == "".join(text.split())
