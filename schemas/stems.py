"""Analysers: what a text's terms are, for BM25 at build time and at question time.

Counts nothing and scores nothing. Source: algorithms.md 2.4 ("plain", SPRIG), 2B.2 ("stems", bridge).
"""

import re
import threading
from collections.abc import Callable

import Stemmer

from polyhop.schemas.languages import AUTO, ENGLISH, detected, language
from polyhop.schemas.names import STOP_WORDS
from polyhop.schemas.text import fold

_PLAIN = re.compile(r"[a-z0-9]+")
_TOKEN = re.compile(r"[^\W_]+")
# words; chosen: those that texts use often, in at most 70 MB (two strings of 89 bytes and an entry each)
_CACHE_LIMIT = 300_000
_LONGEST_CACHED = 40  # letters; chosen: longer ones are hashes and addresses, which hardly come again


class _ThreadStemmer(threading.local):
    """A Snowball stemmer of one thread: PyStemmer's are not safe to share."""

    def __init__(self) -> None:
        self.stemmer = Stemmer.Stemmer("english", 0)


class _Stems(dict[str, str]):
    """Stem by word, filled on demand; a word's stem never changes, so threads may share it."""

    def __missing__(self, word: str) -> str:
        stem: str = _STEMMER.stemmer.stemWord(word)
        if len(self) < _CACHE_LIMIT and len(word) <= _LONGEST_CACHED:
            self[word] = stem
        return stem


_STEMMER = _ThreadStemmer()
_STEMS = _Stems()


def plain_tokens(text: str) -> list[str]:
    """Runs of ASCII letters and digits of the lower-cased text. Source: algorithms.md 2.4 (SPRIG)."""
    return _PLAIN.findall(text.lower())


def stem_tokens(text: str) -> list[str]:
    """English Snowball stems of the folded lower-case words, stop words left out.

    Source: algorithms.md 2B.2. Cost: O(characters); each distinct word is stemmed once per process.
    """
    words = _TOKEN.findall(fold(text).lower())
    return [_STEMS[word] for word in words if word not in STOP_WORDS]


def stem(word: str) -> str:
    """English Snowball stem of a folded lower-case word. Cost: as `stem_tokens`."""
    return _STEMS[word]


Tokens = Callable[[str], list[str]]
ANALYSERS: dict[str, Tokens] = {"plain": plain_tokens, "stems": stem_tokens}
"""Analyser by the name it has in settings and in stored indexes."""


def analyser_of(name: str, code: str) -> Tokens:
    """An analyser in the language of an index: `plain` and `stems` differ in English only.

    Args:
        name: One of `ANALYSERS`.
        code: `corpus.language`; with `auto` each text is taken apart in the language that is detected in it.
    """
    if code == ENGLISH:
        return ANALYSERS[name]
    if code == AUTO:
        return lambda text: analyser_of(name, detected(text))(text)
    return language(code).tokens
