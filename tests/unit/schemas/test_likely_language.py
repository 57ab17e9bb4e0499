"""What language texts look like by their script and function words, and what looks like none."""

import json
from pathlib import Path

import pytest

from polyhop.schemas.languages import likely_language

CORPORA = Path(__file__).parents[3] / "benchmarks" / "data" / "languages"


def texts_of(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("code", ["ar", "de", "es", "fr", "ru", "zh"])
def test_a_corpus_looks_like_its_language_whole_and_in_fives(code: str) -> None:
    texts = texts_of(CORPORA / f"{code}-corpus.jsonl")
    assert likely_language(texts) == code
    assert {likely_language(texts[start : start + 5]) for start in range(0, 30, 5)} <= {code, ""}


def test_an_english_corpus_looks_like_no_other_language(demo_folder: Path) -> None:
    texts = texts_of(demo_folder / "corpus.jsonl")
    assert [likely_language(texts[start : start + 5]) for start in range(0, len(texts), 5)] == [""] * 18


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("青葉山は長野県にある山である。標高は1,204メートル。", "ja"),
        ("北山县位于长江以南，县城设在青河镇。", "zh"),
        ("한강은 서울을 지나는 강이다. 길이는 494 킬로미터이다.", "ko"),
        ("Il monte è alto 2104 metri e fu scalato per la prima volta da una guida che non era del comune.", "it"),
        ("Η λίμνη είναι στο βουνό και το χωριό είναι από την άλλη πλευρά, με τον δρόμο που πάει στη θάλασσα.", "el"),
        ("यह झील पहाड़ के पास है और गाँव से दूर नहीं है।", "hi"),
        ("The emperor is called 天皇 in Japanese, and the palace is called 皇居.", ""),
        ("de la", ""),
        ("M8x40 DIN 933 A2; M10x60 DIN 931 A4; SKU 4411-99 de 12 V, la 5 A", ""),
        ("def walk(graph):\n    for node in graph:\n        yield node.id, node.to_json()\n" * 9, ""),
        ("", ""),
        ("1 2 3 … !", ""),
    ],
)
def test_scripts_and_function_words_decide_and_too_few_do_not(text: str, code: str) -> None:
    assert likely_language([text]) == code


def test_a_corpus_of_two_languages_looks_like_the_larger_part() -> None:
    german, english = (
        "Der See liegt bei dem Dorf und ist nicht tief. ",
        "The lake is near the village and is not deep. ",
    )
    assert likely_language([german] * 8 + [english] * 2) == "de"
    assert likely_language([german] * 2 + [english] * 8) == ""
