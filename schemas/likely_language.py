"""Which language texts are likely in, without a model: by their script, else by their function words.

For advice only: `corpus.language=auto` asks a trained detector (languages.py). Decided here (decision 0032).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from polyhop.schemas.languages import CJK, ENGLISH, function_words, words_of

MIN_WORDS = 10
"""Function words that a language needs before it is named; chosen: a text of two sentences has as many."""

MIN_SHARE = 0.1
"""Of all words; in texts of their own language 15 % (Arabic) to 49 % (English) are function words."""

MIN_RATIO = 1.5
"""How many times more function words than English has: Spanish, whose list shares most with English, has 1.9."""

_SHARE_OF_SCRIPT, _SHARE_OF_KANA = 1 / 3, 0.05
"""Of all letters, and of those; chosen: Latin names fill at most half of a text, Japanese is a third kana."""

_LETTER, _KANA = re.compile(r"[^\W\d_]"), re.compile("[\u3040-\u30ff]")
_OWN_SCRIPTS = {
    "el": re.compile("[\u0370-\u03ff\u1f00-\u1fff]"),
    "hi": re.compile("[\u0900-\u097f]"),
    "ko": re.compile("[\uac00-\ud7af]"),
    "zh": re.compile(f"[{CJK}]"),
}
"""Scripts that one of our languages is written in; Chinese stands for Japanese, too, which kana tell apart."""


def likely_language(texts: Iterable[str]) -> str:
    """The code of the language, other than English, that texts look like; "" if they look English or like none.

    Args:
        texts: Sentences, not titles or names alone: where the script does not decide, function words are counted.
    """
    whole = "\n".join(texts)
    return _by_script(whole) or _by_function_words(words_of(whole))


def _by_script(text: str) -> str:
    least = _SHARE_OF_SCRIPT * len(_LETTER.findall(text))
    for code, script in _OWN_SCRIPTS.items():
        count = len(script.findall(text))
        if count > least:
            is_japanese = code == "zh" and len(_KANA.findall(text)) > _SHARE_OF_KANA * count
            return "ja" if is_japanese else code
    return ""


def _by_function_words(words: Sequence[str]) -> str:
    counts = Counter(code for word in words for code in _languages_of().get(word, ()))
    of_english = counts.pop(ENGLISH, 0)
    if not counts:
        return ""
    code, count = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
    least = max(MIN_WORDS, MIN_SHARE * len(words), MIN_RATIO * of_english)
    return code if count >= least else ""


@cache
def _languages_of() -> dict[str, list[str]]:
    """Codes of the languages that have a word as a function word."""
    found: dict[str, list[str]] = {}
    for code, words in function_words().items():
        for word in words:
            found.setdefault(word, []).append(code)
    return found
