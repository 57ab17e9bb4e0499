"""Examples and laws of the analysers."""

from concurrent.futures import ThreadPoolExecutor

import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.languages import ANALYSERS, STOP_WORDS, plain_tokens, stem_tokens


def test_plain_tokens_are_runs_of_ascii_letters_and_digits() -> None:
    assert plain_tokens("The O'Neill café, 1984!") == ["the", "o", "neill", "caf", "1984"]


def test_stems_fold_accents_and_drop_stop_words_and_possessives() -> None:
    assert stem_tokens("The Gaudí’s churches were running, 1984") == ["gaudi", "church", "run", "1984"]


def test_empty_texts_have_no_terms() -> None:
    assert stem_tokens(" -- ") == plain_tokens("é") == []


def test_analysers_are_known_by_name() -> None:
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
