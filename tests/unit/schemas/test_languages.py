"""Words and stems of languages other than English."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.languages import ANALYSERS, AUTO, CODES, ENGLISH, analyser_of, detected, language
from polyhop.schemas.settings import parse_settings

OTHERS = [code for code in CODES if code != ENGLISH]


@pytest.mark.parametrize(
    ("code", "one", "other"),
    [
        ("de", "die Häuser", "das Haus"),
        ("fr", "les rivières", "la rivière"),
        ("es", "las novelas", "la novela"),
        ("ru", "в Марвальске", "Марвальск"),
        ("ar", "الجسور", "جسور"),
    ],
)
def test_forms_of_one_word_have_one_stem_and_function_words_none(code: str, one: str, other: str) -> None:
    tokens = analyser_of("stems", code)
    assert tokens(one) == tokens(other) != []


@pytest.mark.parametrize("text", ["伊尔河畔的小镇", "ｶﾀｶﾅ", "서울에서"])
def test_scripts_without_blanks_are_pairs_of_characters(text: str) -> None:
    found = analyser_of("plain", "zh")(text)
    assert all(len(pair) == 2 for pair in found)
    assert found[0][1:] + found[-1][1:] == found[1][:1] + found[-1][1:]


def test_latin_words_and_numbers_in_chinese_text_are_words() -> None:
    assert analyser_of("plain", "zh")("曙光号于2011年 ESA 飞") == ["曙光", "光号", "号于", "2011", "年", "esa", "飞"]


def test_arabic_is_equal_with_and_without_vowel_marks() -> None:
    tokens = analyser_of("stems", "ar")
    assert tokens("درّست عِلم") == tokens("درست علم") != []


def test_marks_of_direction_and_accents_written_apart_change_nothing() -> None:
    tokens = analyser_of("stems", "fr")
    assert tokens("\u202bune rivie\u0300re\u202c \u200fgele\u0301e\u200e") == tokens("une rivière gelée") != []
    assert analyser_of("stems", "de")("Bru\u0308cke") == analyser_of("stems", "de")("Brücke")


def test_english_is_as_it_was() -> None:
    assert analyser_of("plain", ENGLISH) is ANALYSERS["plain"]
    assert analyser_of("stems", ENGLISH) is ANALYSERS["stems"]


@given(text=st.text(max_size=60), code=st.sampled_from(OTHERS))
def test_any_text_in_any_language_has_tokens_without_blanks(text: str, code: str) -> None:
    assert all(token and not any(map(str.isspace, token)) for token in language(code).tokens(text))


@pytest.mark.parametrize("code", OTHERS)
def test_every_language_stems_and_has_its_stop_words(code: str) -> None:
    spoken = language(code)
    assert spoken.stem("Berlin")
    assert spoken.stop_words or code in {"ja", "ko", "zh"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Die Brücke überspannt den Hafen von Torvik.", "de"),
        ("Мост перекинут через гавань.", "ru"),
        ("蓝桥横跨托维克港，由建筑师设计。", "zh"),
        ("The bridge crosses the harbour of Torvik.", ENGLISH),
    ],
)
def test_the_language_of_a_text_is_detected(text: str, code: str) -> None:
    assert detected(text) == code
    assert analyser_of("stems", AUTO)(text) == analyser_of("stems", code)(text)


@pytest.mark.parametrize("text", ["", " ", "1234", "\u200f", "!?"])
def test_a_text_without_words_has_a_language_too(text: str) -> None:
    assert detected(text) in CODES


def test_an_unknown_language_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"no language 'deu'; did you mean 'de'\?") as caught:
        parse_settings({"flags": {"corpus.language": "deu"}})
    assert "auto" in str(caught.value)
    assert "zh" in str(caught.value)
