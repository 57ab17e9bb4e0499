"""Languages of corpora: their words, stems and stop words, as the setting `corpus.language` names them.

English is not among them: its stems and stop words are as published. Finds no names (language_names.py).
Decided here (decision 0032): Snowball stems of the lower-case word, then the accents dropped, so that stemmers see the
letters that they know; stop words of the package `stop-words`; Chinese, Japanese and Korean by overlapping pairs of
characters, as Lucene's CJK analyser has them.
"""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from polyhop.schemas.errors import ConfigurationError, nearest_name
from polyhop.schemas.text import fold

ENGLISH, AUTO = "en", "auto"
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff"
"""Ranges of characters that are written without blanks, or (Korean) with endings that pairs of characters absorb."""
_SIGNS = "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
"""Vowel signs of Devanagari, which are no letters to Python."""
WORD = re.compile(rf"[{CJK}]+|(?:[^\W_{CJK}]|[{_SIGNS}])+")
_UNWRITTEN = re.compile("[\u0640\u064b-\u0652\u0670]")
"""Arabic vowel marks, and the line that stretches words; mostly left out."""
_IS_CJK = re.compile(rf"[{CJK}]")

_CASELESS = frozenset(("ar", "fa", "hi", "zh", "ja", "ko"))
_SNOWBALL = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "es": "spanish",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "hi": "hindi",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
"""Those for which PyStemmer has a stemmer and `stop-words` a list, by ISO 639-1 code."""
_PAIRS = {"ja": "japanese", "ko": "korean", "zh": "chinese"}
CODES = (ENGLISH, *sorted((*_SNOWBALL, *_PAIRS)))


@dataclass(frozen=True)
class Language:
    """A language other than English."""

    code: str  # ISO 639-1.

    @property
    def has_case(self) -> bool:
        """Whether it writes capitals."""
        return self.code not in _CASELESS

    @property
    def capitalises_nouns(self) -> bool:
        """Whether common nouns have capitals too."""
        return self.code == "de"

    @cached_property
    def stop_words(self) -> frozenset[str]:
        """Function words in lower case, with their accents and without."""
        name = _SNOWBALL.get(self.code)
        if name is None:
            return frozenset()
        from stop_words import get_stop_words

        words = frozenset(word.lower() for word in get_stop_words(name))
        return words | frozenset(map(fold, words))

    def stem(self, word: str) -> str:
        """The stem of a word, folded; of a language without a stemmer the folded word."""
        low = unicodedata.normalize("NFC", word).lower()
        name = _SNOWBALL.get(self.code)
        return fold(low) if name is None else fold(_STEMMERS.of(name).stemWord(low))

    def tokens(self, text: str) -> list[str]:
        """What BM25 counts: stems without stop words; of scripts without blanks pairs of characters."""
        found: list[str] = []
        for run in words_of(text):
            if is_cjk(run):
                found += pairs(run)
            elif run not in self.stop_words:
                found.append(self.stem(run))
        return found


def language_name(code: str) -> str:
    """The English name of a language of `CODES` other than `en`."""
    return (_SNOWBALL | _PAIRS)[code].capitalize()


def recorded_language(settings: Mapping[str, Any]) -> str:
    """`corpus.language` in the settings that a manifest keeps; English in versions from before there was a choice."""
    return str(settings.get("corpus", {}).get("language", ENGLISH))


def function_words() -> dict[str, frozenset[str]]:
    """Stop words by code, of all languages that have a list, English among them."""
    from stop_words import get_stop_words

    english = frozenset(word.lower() for word in get_stop_words("english"))
    return {ENGLISH: english} | {code: language(code).stop_words for code in _SNOWBALL}


class _Stemmers(threading.local):
    """Snowball stemmers of one thread: PyStemmer's are not safe to share."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def of(self, name: str) -> Any:
        if name not in self._known:
            import Stemmer

            self._known[name] = Stemmer.Stemmer(name, 100_000)
        return self._known[name]


_STEMMERS = _Stemmers()


def words_of(text: str) -> list[str]:
    """Lower-case words in order, composed; a run of characters without blanks is one word."""
    return WORD.findall(_UNWRITTEN.sub("", unicodedata.normalize("NFKC", text)).lower())


def is_cjk(word: str) -> bool:
    """Whether a word begins with a character of a script that is cut into pairs."""
    return _IS_CJK.match(word) is not None


def pairs(run: str) -> Iterator[str]:
    """Overlapping pairs of its characters; of one character itself."""
    if len(run) == 1:
        yield run
    yield from (run[place : place + 2] for place in range(len(run) - 1))


@cache
def language(code: str) -> Language:
    """The language of a code of `CODES` other than `en`."""
    return Language(code)


def known_code(code: str) -> str:
    """The code, if it is one."""
    if code in CODES or code == AUTO:
        return code
    near = nearest_name(code, [*CODES, AUTO])
    advice = f"did you mean '{near}'? " if near else ""
    raise ValueError(f"there is no language '{code}'; {advice}write auto or one of {', '.join(CODES)}")


def detected(text: str) -> str:
    """The code of the language of a text; English if it is none of ours."""
    return _detector()(text)


@cache
def _detector() -> Callable[[str], str]:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise ConfigurationError(
            "corpus.language=auto needs the extra 'languages': pip install 'polyhop[languages]'; or name the language."
        ) from error
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    known = [code for code in CODES if code in set(identifier.labels)]
    identifier.set_languages(known)
    return lambda text: str(identifier.classify(text)[0])
