"""Text in English and other languages: normal forms, tokens, stems, sentences, names; the likely language of a text."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
import Stemmer
from hypothesis import example, given
from hypothesis import strategies as st

from polyhop.schemas import languages
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.names import NameFinder, split_sentences, title_keys
from polyhop.schemas.settings import parse_settings
from polyhop.schemas.text import fold, norm_answer, norm_lower, norm_simple, norm_ws, passage_text
from polyhop.warehouse.names import LanguageNames

OTHERS = [code for code in languages.CODES if code != languages.ENGLISH]


@pytest.mark.parametrize(
    ("code", "one", "other"),
    [
        ("de", "die Häuser", "das Haus"),
        ("ru", "в Марвальске", "Марвальск"),
        ("ar", "الجسور", "جسور"),
    ],
)
def test_forms_of_one_word_have_one_stem_and_function_words_none(code: str, one: str, other: str) -> None:
    tokens = languages.analyser_of("stems", code)
    assert tokens(one) == tokens(other) != []


@pytest.mark.parametrize(
    ("text", "pairs"),
    [("伊尔河畔", ["伊尔", "尔河", "河畔"]), ("ｶﾀｶﾅ", ["カタ", "タカ", "カナ"]), ("서울에", ["서울", "울에"])],
)
def test_scripts_without_blanks_are_pairs_of_characters(text: str, pairs: list[str]) -> None:
    assert languages.analyser_of("plain", "zh")(text) == pairs


@pytest.mark.parametrize(
    ("name", "code", "text", "other"),
    [
        ("stems", "ar", "درّست عِلم", "درست علم"),  # vowel marks
        ("stems", "fr", "\u202bune rivie\u0300re\u202c \u200fgele\u0301e\u200e", "une rivière gelée"),  # direction
        ("stems", "de", "Bru\u0308cke", "Brücke"),  # accents written apart
        ("plain", "zh", "曙光号于2011年 ESA 飞", "曙光 光号 号于 2011 年 esa 飞"),  # Latin words and numbers in Chinese
    ],
    ids=["marks", "direction", "accents", "chinese"],
)
def test_ways_of_writing_a_text_that_have_the_same_tokens(name: str, code: str, text: str, other: str) -> None:
    tokens = languages.analyser_of(name, code)
    assert tokens(text) == tokens(other) != []


@given(text=st.text(max_size=60), code=st.sampled_from(OTHERS))
def test_any_text_in_any_language_has_tokens_without_blanks(text: str, code: str) -> None:
    assert all(token and not any(map(str.isspace, token)) for token in languages.language(code).tokens(text))


def test_every_language_stems_and_has_its_stop_words_and_english_is_as_it_was() -> None:
    assert all(languages.language(code).stem("Berlin") for code in OTHERS)
    assert [code for code in OTHERS if not languages.language(code).stop_words] == ["ja", "ko", "zh"]
    assert {name: languages.analyser_of(name, languages.ENGLISH) for name in languages.ANALYSERS} == languages.ANALYSERS


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Die Brücke überspannt den Hafen von Torvik.", "de"),
        ("Мост перекинут через гавань.", "ru"),
        ("蓝桥横跨托维克港，由建筑师设计。", "zh"),
        ("The bridge crosses the harbour of Torvik.", languages.ENGLISH),
    ],
)
def test_the_language_of_a_text_is_detected(text: str, code: str) -> None:
    assert languages.detected(text) == code
    assert languages.analyser_of("stems", languages.AUTO)(text) == languages.analyser_of("stems", code)(text)
    assert {languages.detected(wordless) for wordless in ("", "1234", "\u200f", "!?")} <= {*languages.CODES}


def test_an_unknown_language_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"no language 'deu'; did you mean 'de'\?.* auto or .*zh"):
        parse_settings({"flags": {"corpus.language": "deu"}})


TITLES = ["Марвальск", "Иван Рутов", "الجسر الأزرق", "فلمار", "伊尔河", "《寂静的港湾》"]
TITLES += ["Ilse (Fluss)", "Porto Lume", "The Nile"]


@pytest.mark.parametrize(
    ("code", "text", "found"),
    [
        ("ru", "Она родилась в Марвальске.", ["марвальск"]),
        ("ru", "Роман Ивана Рутова вышел.", ["роман ивана рутова", "иван рутов"]),
        ("ar", "يقع بالقرب من الجسر الأزرق في فلمار.", ["الجسر الازرق", "فلمار"]),
        ("zh", "马尔镇是伊尔河畔的小镇。", ["伊尔河"]),
        ("zh", "他写了《寂静的港湾》和《红房子》。", ["寂静的港湾", "红房子"]),
        ("fr", "Le roman « Le Port silencieux » est de Jean Routier.", ["le port silencieux", "port", "jean routier"]),
        ("es", "Nació en Puerto Lumbre.", ["nacio", "puerto lumbre"]),
        # German nouns are no names by their capital alone
        ("de", "Die Stadt liegt an der Ilse.", ["ilse"]),
        ("de", "Anna Belling malte in Torvik eine Brücke.", ["anna belling", "torvik"]),
    ],
)
def test_names_of_a_text(code: str, text: str, found: list[str]) -> None:
    for titles in (TITLES, TITLES[::-1]):
        assert [mention.key for mention in LanguageNames(titles, code).find(text)] == found


def test_with_auto_each_text_is_read_in_its_language() -> None:
    finder = LanguageNames(TITLES, languages.AUTO)
    english = "A boat sails down the Nile to Port Said every day."
    assert finder.find(english) == NameFinder(TITLES).find(english)
    assert [one.key for one in finder.find("马尔镇是伊尔河畔的一座小镇。")] == ["伊尔河"]


@given(text=st.text(max_size=80), code=st.sampled_from([*OTHERS, languages.AUTO]))
def test_a_mention_is_a_piece_of_the_text(text: str, code: str) -> None:
    for mention in LanguageNames(TITLES, code).find(text):
        assert text[mention.start : mention.end] == mention.surface
        assert mention.key


@pytest.mark.parametrize("code", ["ru", "ar", "zh", "de", languages.AUTO])
def test_a_title_itself_is_found_under_its_key_in_any_language(code: str) -> None:
    finder = pickle.loads(pickle.dumps(LanguageNames(TITLES, code)))
    for title in ("Марвальск", "فلمار", "伊尔河", "Porto Lume", "Иван Рутов"):
        assert title_keys(title)[0] in [mention.key for mention in finder.find(title)], title


CORPORA = Path(__file__).parents[3] / "benchmarks" / "data" / "languages"


def texts_of(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("code", ["ar", "de", "es", "fr", "ru", "zh"])
def test_a_corpus_looks_like_its_language_whole_and_in_fives(code: str) -> None:
    texts = texts_of(CORPORA / f"{code}-corpus.jsonl")
    assert languages.likely_language(texts) == code
    assert {languages.likely_language(texts[start : start + 5]) for start in range(0, 30, 5)} <= {code, ""}


def test_an_english_corpus_looks_like_no_other_language(demo_folder: Path) -> None:
    texts = texts_of(demo_folder / "corpus.jsonl")
    assert [languages.likely_language(texts[start : start + 5]) for start in range(0, len(texts), 5)] == [""] * 18


def test_scripts_and_function_words_decide_and_too_few_do_not() -> None:
    expected = {
        "青葉山は長野県にある山である。標高は1,204メートル。": "ja",
        "北山县位于长江以南，县城设在青河镇。": "zh",
        "한강은 서울을 지나는 강이다. 길이는 494 킬로미터이다.": "ko",
        "Il monte è alto 2104 metri e fu scalato per la prima volta da una guida che non era del comune.": "it",
        "Η λίμνη είναι στο βουνό και το χωριό είναι από την άλλη πλευρά, με τον δρόμο που πάει στη θάλασσα.": "el",
        "यह झील पहाड़ के पास है और गाँव से दूर नहीं है।": "hi",
        "The emperor is called 天皇 in Japanese, and the palace is called 皇居.": "",
        "de la": "",
        "M8x40 DIN 933 A2; M10x60 DIN 931 A4; SKU 4411-99 de 12 V, la 5 A": "",
        "def walk(graph):\n    for node in graph:\n        yield node.id, node.to_json()\n" * 9: "",
        "1 2 3 … !": "",
    }
    assert {text: languages.likely_language([text]) for text in expected} == expected


def test_a_corpus_of_two_languages_looks_like_the_larger_part() -> None:
    german = "Der See liegt bei dem Dorf und ist nicht tief. "
    english = "The lake is near the village and is not deep. "
    assert languages.likely_language([german] * 8 + [english] * 2) == "de"
    assert languages.likely_language([german] * 2 + [english] * 8) == ""


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
    assert languages.plain_tokens("The O'Neill café, 1984!") == ["the", "o", "neill", "caf", "1984"]
    assert languages.stem_tokens("The Gaudí’s churches were running, 1984") == ["gaudi", "church", "run", "1984"]
    assert languages.stem_tokens(" -- ") == languages.plain_tokens("é") == []
    assert languages.plain_tokens("Gri\ufb03th \uff21\uff22\uff11 10⁶™") == ["griffith", "ab1", "10"]
    assert {"plain": languages.plain_tokens, "stems": languages.stem_tokens} == languages.ANALYSERS


@given(st.lists(st.from_regex(r"[a-z]{1,12}", fullmatch=True)))
@example(["a" * 41])  # too long to be kept
def test_stems_are_those_of_a_fresh_stemmer(words: list[str]) -> None:
    fresh = Stemmer.Stemmer("english")
    stems = [fresh.stemWord(word) for word in words if word not in languages.STOP_WORDS]
    assert languages.stem_tokens(" ".join(words)) == stems


def test_threads_agree() -> None:
    texts = [f"running{n} walked{n} nationalities{n} hopping" for n in range(500)]
    alone = [languages.stem_tokens(text.replace("hopping", "hoping")) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda text: languages.stem_tokens(text.replace("hopping", "hoping")), texts))
    assert together == alone


def test_sentences() -> None:
    expected = {
        "One. Two! Three? Four": ["One.", "Two!", "Three?", "Four"],
        "Mr. Smith met J. R. R. Tolkien vs. Foo.": ["Mr. Smith met J. R. R. Tolkien vs. Foo."],
        "No. 5 is in the U.S. Army list, e.g. This.": ["No. 5 is in the U.S. Army list, e.g. This."],
        "It was World War I. It left the U.S. It ended.": ["It was World War I.", "It left the U.S.", "It ended."],
        "Acme Inc. The firm of Dr. No": ["Acme Inc.", "The firm of Dr. No"],
        'He said "Hi." Then (Yes.) she left.': ['He said "Hi."', "Then (Yes.) she left."],
        "Born 1950. 12 came. “Who?” (It)": ["Born 1950.", "12 came.", "“Who?”", "(It)"],
        "ok... then. and so": ["ok... then. and so"],
        "Version 3.5 is out.Now": ["Version 3.5 is out.Now"],
        "A heading\n\nA text\ngoes on\n \nEnd": ["A heading", "A text\ngoes on", "End"],
        "今日は。明日は？": ["今日は。", "明日は？"],
        "جملة. جملة": ["جملة.", "جملة"],
        " \n ": [],
    }
    assert {text: [text[start:end] for start, end in split_sentences(text)] for text in expected} == expected


@given(st.text(alphabet="aA.!?\"'( \n1é。"))
def test_sentences_are_trimmed_in_order_and_lose_only_white_space(text: str) -> None:
    found = split_sentences(text)
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    assert "".join("".join(text[start:end] for start, end in found).split()) == "".join(text.split())
