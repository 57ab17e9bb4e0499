"""Languages of corpora: words, stems and stop words, names, and which language a text is likely in.

English is not among them: its words are stems.py's and names.py's, as published.
Decided here (decision 0032): Snowball stems of the lower-case word, then the accents dropped, so that stemmers see
the
letters that they know; stop words of the package `stop-words`; Chinese, Japanese and Korean by overlapping pairs of
characters, as Lucene's CJK analyser has them.
"""

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import Stemmer

from polyhop.schemas.errors import ConfigurationError, nearest_name
from polyhop.schemas.graph import Mention
from polyhop.schemas.names import FUNCTION_WORDS, MAX_NAME_TOKENS, STOP_WORDS, NameFinder, name_tokens, title_forms
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
    """A language other than English.

    Attributes:
        code: ISO 639-1.
    """

    code: str

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
    """The code, if it is one.

    Raises:
        ValueError: If there is no such language; names those that there are.
    """
    if code in CODES or code == AUTO:
        return code
    near = nearest_name(code, [*CODES, AUTO])
    advice = f"did you mean '{near}'? " if near else ""
    raise ValueError(f"there is no language '{code}'; {advice}write auto or one of {', '.join(CODES)}")


def detected(text: str) -> str:
    """The code of the language of a text; English if it is none of ours.

    Raises:
        ConfigurationError: If the detector is not installed.
    """
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


# Source: algorithms.md 2.4 ("plain", SPRIG), 2B.2 ("stems", bridge).

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


_QUOTED = re.compile(r"[«„“”《「『]\s*([^«»„“”《》「」『』]{2,60}?)\s*[»“”》」』]")
_MOST_QUOTED_WORDS = 8  # chosen: longer quotations are sentences more often than names
_SHORTEST_TITLE = 3
"""Letters of a title of one word, as in English."""
_JOINS = re.compile(r"[ \t]*|[-'’]|\. ?")
"""Between words of one run: blanks, a hyphen or apostrophe, the stop of an initial."""
_PARTICLES = frozenset(
    (
        "de",
        "la",
        "du",
        "des",
        "le",
        "les",
        "von",
        "van",
        "der",
        "den",
        "zu",
        "del",
        "della",
        "di",
        "da",
        "dos",
        "y",
        "e",
    )
)
"""Small words inside names, of all languages: they end no run."""
_BEFORE_NAMES = frozenset(("in", "aus", "nach", "bei", "von", "bis", "gegen", "für", "mit", "durch", "über", "um"))
"""In German, where nouns have capitals: a single capitalised word without an article is a name behind one of these."""


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int
    form: str


class LanguageNames:
    """Finds names in one language, or in the language of each text.

    Immutable after construction; may be pickled and shared between threads.

    Args:
        titles: Of the corpus, in any order.
        code: `corpus.language`, not English.
    """

    def __init__(self, titles: Iterable[str], code: str) -> None:
        self._code = code
        self._english = NameFinder(titles := sorted(set(titles))) if code == AUTO else None
        self._phrases: dict[tuple[str, ...], str] = {}
        self._runs: set[str] = set()
        for key, spelling in sorted({form for title in titles for form in title_forms(title)}):
            forms = tuple(word.form for word in _words(spelling, self._one))
            if len(forms) == 1 and is_cjk(key):
                self._runs.add(key)
            elif forms and (len(forms) > 1 or sum(map(str.isalpha, key)) >= _SHORTEST_TITLE):
                self._phrases.setdefault(forms, key)
        self._lengths = _lengths(self._phrases)
        self._run_lengths = _lengths(map(tuple, self._runs))

    @property
    def _one(self) -> Language | None:
        """The language, None where it differs from text to text."""
        return None if self._code == AUTO else language(self._code)

    def find(self, text: str) -> list[Mention]:
        """Names in a text, each place and key once, in order of start, end, key. Cost: O(characters)."""
        code = detected(text) if self._code == AUTO else self._code
        if code == ENGLISH and self._english is not None:
            return self._english.find(text)
        spoken, words = language(code), _words(text, self._one)
        found = {(start, end): key for start, end, key in _quoted(text)}
        if spoken.has_case:
            for first, last in _capitals(text, words, spoken):
                found[words[first].start, words[last].end] = self._key(words[first : last + 1])
        found |= {(words[a].start, words[b].end): key for a, b, key in self._titles(words, spoken)}
        for word in words:
            if is_cjk(word.text):
                found |= {(word.start + a, word.start + b): key for a, b, key in self._inside(word.text)}
        return [Mention(key, text[start:end], start, end) for (start, end), key in sorted(found.items()) if key]

    def _key(self, words: Sequence[_Word]) -> str:
        return self._phrases.get(tuple(word.form for word in words)) or " ".join(
            name_tokens(" ".join(word.text for word in words))
        )

    def _titles(self, words: Sequence[_Word], spoken: Language) -> list[tuple[int, int, str]]:
        """(first, last, key) of each title of words with blanks, longest match from left to right."""
        found = []
        place = 0
        while place < len(words):
            length = self._longest(words, place, spoken)
            if length:
                forms = tuple(word.form for word in words[place : place + length])
                found.append((place, place + length - 1, self._phrases[forms]))
            place += length or 1
        return found

    def _longest(self, words: Sequence[_Word], place: int, spoken: Language) -> int:
        for length in self._lengths.get(words[place].form, ()):
            forms = tuple(word.form for word in words[place : place + length])
            if len(forms) == length and forms in self._phrases:
                word = words[place].text
                is_said = not spoken.has_case or not word[0].islower()
                if length > 1 or (is_said and word.lower() not in spoken.stop_words):
                    return length
        return 0

    def _inside(self, run: str) -> list[tuple[int, int, str]]:
        """(start, end, key) of titles inside a run of characters without blanks, longest match from left to right."""
        folded = fold(run)
        folded = folded if len(folded) == len(run) else run  # so that places are those of the text
        found, place = [], 0
        while place < len(folded):
            for length in self._run_lengths.get(folded[place], ()):
                if folded[place : place + length] in self._runs:
                    found.append((place, place + length, folded[place : place + length]))
                    place += length
                    break
            else:
                place += 1
        return found


def _words(text: str, spoken: Language | None) -> list[_Word]:
    """Words with their places and forms."""
    return [_Word(hit[0], hit.start(), hit.end(), _form(hit[0], spoken)) for hit in WORD.finditer(text)]


def _form(word: str, spoken: Language | None) -> str:
    """What two forms of a word have in common: the stem's stem, for endings of names (Рутов, Рутова) hide in stems."""
    return spoken.stem(spoken.stem(word)) if spoken else fold(word).lower()


def _lengths(phrases: Iterable[tuple[str, ...]]) -> dict[str, list[int]]:
    """By first word: lengths, longest first."""
    found: dict[str, set[int]] = {}
    for phrase in phrases:
        if phrase:
            found.setdefault(phrase[0], set()).add(len(phrase))
    return {first: sorted(lengths, reverse=True) for first, lengths in found.items()}


def _quoted(text: str) -> list[tuple[int, int, str]]:
    """(start, end, key) of what stands in quotes, if it is short enough to be a name."""
    spans = [(hit.start(1), hit.end(1), " ".join(name_tokens(hit[1]))) for hit in _QUOTED.finditer(text)]
    return [span for span in spans if 0 < len(span[2].split()) <= _MOST_QUOTED_WORDS]


def _capitals(text: str, words: Sequence[_Word], spoken: Language) -> list[tuple[int, int]]:
    """(first, last) word of each run of capitalised words that is a name."""
    found = []
    place = 0
    while place < len(words):
        if not words[place].text[0].isupper():
            place += 1
            continue
        last = _run_end(text, words, place)
        first, after = place, last + 1
        while first <= last and (words[first].text.lower() in spoken.stop_words or words[first].text[0].islower()):
            first += 1
        if first <= last and _is_name(words, first, last, spoken):
            found.append((first, last))
        place = after
    return found


def _run_end(text: str, words: Sequence[_Word], first: int) -> int:
    last = first
    for before, place in pairwise(range(first, min(len(words), first + MAX_NAME_TOKENS))):
        gap = text[words[before].end : words[place].start]
        is_initial = gap.startswith(".") and len(words[before].text) == 1
        if not _JOINS.fullmatch(gap) or (gap.startswith(".") and not is_initial):
            break
        if words[place].text[0].isupper():
            last = place
        elif words[place].text not in _PARTICLES:
            break
    return last


def _is_name(words: Sequence[_Word], first: int, last: int, spoken: Language) -> bool:
    if first < last:
        return True
    word = words[first].text
    if len(word) < _SHORTEST_TITLE - 1 or word.lower() in FUNCTION_WORDS:
        return False
    if not spoken.capitalises_nouns:
        return True
    return first > 0 and words[first - 1].text in _BEFORE_NAMES
