"""Names in texts of languages other than English, and which language texts are likely in.

A title counts in every form that has its stems; what has a title's stems gets the title's key, so that
`в Марвальске` is Марвальск. Decided here, with
the reasons, in decisions/0032-languages.md.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import (
    AUTO,
    CJK,
    ENGLISH,
    WORD,
    Language,
    detected,
    function_words,
    is_cjk,
    language,
    words_of,
)
from polyhop.schemas.names import FUNCTION_WORDS, MAX_NAME_TOKENS, NameFinder, name_tokens, title_forms
from polyhop.schemas.text import fold

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
