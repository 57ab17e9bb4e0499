"""Words of texts, in English and in the languages of `corpus.language`: stems, stop words, analysers, and detection.

An analyser says what a text's terms are, for BM25 at build time and at question time. Source: algorithms.md 2.4
("plain", SPRIG), 2B.2 ("stems", bridge). Finds no names and scores nothing.
English is none of the class `Language`: its stems and stop words are as published. Decided here (decision 0032):
Snowball stems of the lower-case word, then the accents dropped, so that stemmers see the letters that they know; stop
words of the package `stop-words`; Chinese, Japanese and Korean by overlapping pairs of characters, as Lucene's CJK
analyser has them.
"""

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from polyhop.schemas.errors import ConfigurationError, install_words, nearest_name
from polyhop.schemas.text import fold

ENGLISH, AUTO = "en", "auto"
_STOP = (
    "a about after all also an and any are as at be been before being between both but by can could did do does done "
    "down during each for from had has have he her here him his how i if in into is it its just may me might more most "
    "must my no not of off on only or other our out over own s same she should so some such t than that the their them "
    "then there these they this those to too under up us very was we were what when where which who whom whose why "
    "will with would you your"
)
STOP_WORDS = frozenset(_STOP.split())  # English function words of names and of BM25 alike.
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
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "es": "spanish",
    "fa": "persian", "fi": "finnish", "fr": "french", "hi": "hindi", "hu": "hungarian", "id": "indonesian",
    "it": "italian", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sv": "swedish", "tr": "turkish",
}  # fmt: skip
"""Those for which PyStemmer has a stemmer and `stop-words` a list, by ISO 639-1 code."""
_PAIRS = {"ja": "japanese", "ko": "korean", "zh": "chinese"}
CODES = (ENGLISH, *sorted((*_SNOWBALL, *_PAIRS)))


@dataclass(frozen=True)
class Language:
    """A language other than English."""

    code: str  # ISO 639-1.

    @property
    def has_case(self) -> bool:
        """Returns whether the language has upper case."""
        return self.code not in _CASELESS

    @property
    def capitalises_nouns(self) -> bool:
        """Returns whether common nouns are capitalised."""
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
        """Terms for BM25: stems without stop words; pairs of characters for scripts without spaces."""
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


class _Stemmers(threading.local):
    """Snowball stemmers of one thread: PyStemmer's are not safe to share."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def of(self, name: str) -> Any:
        if name not in self._known:
            import Stemmer  # here, so that commands that stem nothing do without it

            self._known[name] = Stemmer.Stemmer(name, 0 if name == "english" else 100_000)
        return self._known[name]


_STEMMERS = _Stemmers()


def words_of(text: str) -> list[str]:
    """Lower-case words in order, composed; a run of characters without blanks is one word."""
    return WORD.findall(_UNWRITTEN.sub("", unicodedata.normalize("NFKC", text)).lower())


def is_cjk(word: str) -> bool:
    """Returns whether a word begins with a character of a script that is split into pairs."""
    return _IS_CJK.match(word) is not None


def pairs(run: str) -> Iterator[str]:
    """Overlapping pairs of its characters; of one character itself."""
    if len(run) == 1:
        yield run
    yield from (run[start : start + 2] for start in range(len(run) - 1))


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
            f"corpus.language=auto needs the package py3langid; {install_words('languages')}, or name the language."
        ) from error
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    known = [code for code in CODES if code in set(identifier.labels)]
    identifier.set_languages(known)
    return lambda text: str(identifier.classify(text)[0])


MIN_WORDS = 10  # Function words that a language needs before it is named; chosen: a text of two sentences has as many.

MIN_SHARE = 0.1  # Of all words; in texts of the right language 15 % (Arabic) to 49 % (English) are function words.

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
    least = _SHARE_OF_SCRIPT * len(_LETTER.findall(whole))
    for code, script in _OWN_SCRIPTS.items():
        count = len(script.findall(whole))
        if count > least:
            is_japanese = code == "zh" and len(_KANA.findall(whole)) > _SHARE_OF_KANA * count
            return "ja" if is_japanese else code
    words = words_of(whole)
    counts = Counter(code for word in words for code in _languages_of().get(word, ()))
    of_english = counts.pop(ENGLISH, 0)
    if not counts:
        return ""
    code, count = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
    return code if count >= max(MIN_WORDS, MIN_SHARE * len(words), MIN_RATIO * of_english) else ""


@cache
def _languages_of() -> dict[str, list[str]]:
    """Codes of the languages, English among them, that have a word as a function word."""
    from stop_words import get_stop_words

    found: dict[str, list[str]] = {word.lower(): [ENGLISH] for word in get_stop_words("english")}
    for code in _SNOWBALL:
        for word in language(code).stop_words:
            found.setdefault(word, []).append(code)
    return found


_WIDE = re.compile("[\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]+")
_PLAIN = re.compile(r"[a-z0-9]+")
_TOKEN = re.compile(r"[^\W_]+")
# words; chosen: those that texts use often, in at most 70 MB (two strings of 89 bytes and an entry each)
_CACHE_LIMIT = 300_000
_LONGEST_CACHED = 40  # letters; chosen: longer ones are hashes and addresses, which hardly come again


class _Stems(dict[str, str]):
    """Stem by word, filled on demand; a word's stem never changes, so threads may share it."""

    def __missing__(self, word: str) -> str:
        stem: str = _STEMMERS.of("english").stemWord(word)
        if len(self) < _CACHE_LIMIT and len(word) <= _LONGEST_CACHED:
            self[word] = stem
        return stem


_STEMS = _Stems()


def plain_tokens(text: str) -> list[str]:
    """Runs of ASCII letters and digits of the lower-cased text. Source: algorithms.md 2.4 (SPRIG).

    Ligatures and full-width letters are those that they stand for (NFKC).
    """
    if not text.isascii():
        text = _WIDE.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
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
