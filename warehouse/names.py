"""The configured name finder: rules, SPRIG's regular expression, or a spaCy model; the rules of English are not here.

The only module that decides which one; builder and reader both come here, so both find the same names. The rules of
English are schemas/names.py. In other languages a title counts in every form that has its stems; what has a title's
stems gets the title's key, so that `в Марвальске` is Марвальск; decided, with the reasons, in
decisions/0032-languages.md. spaCy is an optional dependency, and its models are not on PyPI.
Source: algorithms.md 2.3.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from polyhop.schemas.errors import ConfigurationError, import_extra
from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import AUTO, ENGLISH, STOP_WORDS, WORD, Language, detected, is_cjk, language
from polyhop.schemas.names import FUNCTION_WORDS, MAX_NAME_TOKENS, NameFinder, StoredTitleKeys, name_tokens, title_forms
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.text import fold, norm_simple

_CAPITALISED = re.compile(r"\b[A-Z][a-z]+(\s+[A-Z][a-z]+){0,3}\b")


def open_finder(
    ner: str, titles: Iterable[str], code: str = ENGLISH, keys: StoredTitleKeys | None = None
) -> NameFinding:
    """The name finder of `extraction.ner`.

    Args:
        ner: "rules", "regex", "spacy" or "spacy:MODEL".
        titles: Titles of the corpus, the gazetteer of the rules.
        code: `corpus.language`, of which the rules know the words; a spaCy model knows its own.
        keys: Keys of the titles where English rules need no titles any more.
    """
    if ner == "regex":
        return RegexNames()
    if ner != "rules":
        return SpacyNames(ner.partition(":")[2] or SPACY_MODEL)
    return NameFinder(titles, keys) if code == ENGLISH else LanguageNames(titles, code)


SPACY_MODEL = "en_core_web_sm"


class SpacyNames:
    """Finds the entities of a spaCy model, as SPRIG's main runs have them; keys are `norm_simple` of their text."""

    def __init__(self, model: str = SPACY_MODEL) -> None:
        spacy = import_extra("Names by spaCy need", "spacy", "spacy")
        try:
            self._pipeline: Any = spacy.load(model)
        except OSError as error:
            message = f"spaCy has no model '{model}'. Install it with: uv run python -m spacy download {model}"
            raise ConfigurationError(message) from error

    def find(self, text: str) -> list[Mention]:
        """Entities of every label, in order of position."""
        found = []
        for entity in self._pipeline(text).ents:
            key = norm_simple(entity.text)
            if key:
                found.append(Mention(key, entity.text, entity.start_char, entity.end_char))
        return found


class RegexNames:
    """Finds SPRIG's names, one to four capitalised ASCII words; keys are `norm_simple` of the match.

    Kept to reproduce the paper; it misses NASA, XIII, McDonald and every accent (the rules do not).

    Args:
        drop_stopwords: Leave out matches that are one stop word; False reproduces the paper.
    """

    def __init__(self, *, drop_stopwords: bool = True) -> None:
        self._dropped = STOP_WORDS if drop_stopwords else frozenset[str]()

    def find(self, text: str) -> list[Mention]:
        """Names in `text` from left to right, without overlap. Source: algorithms.md 2.3."""
        found = []
        for match in _CAPITALISED.finditer(text):
            key = norm_simple(match[0])
            if key not in self._dropped:
                found.append(Mention(key, match[0], match.start(), match.end()))
        return found


_QUOTED = re.compile(r"[«„“”《「『]\s*([^«»„“”《》「」『』]{2,60}?)\s*[»“”》」』]")
_MOST_QUOTED_WORDS = 8  # chosen: longer quotations are sentences more often than names
_SHORTEST_TITLE = 3  # Letters of a title of one word, as in English.
_JOINS = re.compile(r"[ \t]*|[-'’]|\. ?")
"""Between words of one run: blanks, a hyphen or apostrophe, the stop of an initial."""
_SMALL = "de la du des le les von van der den zu del della di da dos y e"
_PARTICLES = frozenset(_SMALL.split())  # Small words inside names, of all languages: they end no run.
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
        """Names in a text, each span and key once, in order of start, end, key. Cost: O(characters)."""
        code = detected(text) if self._code == AUTO else self._code
        if code == ENGLISH and self._english is not None:
            return self._english.find(text)
        spoken, words = language(code), _words(text, self._one)
        # what occurs in quotes, if it is short enough to be a name
        quoted = {hit.span(1): " ".join(name_tokens(hit[1])) for hit in _QUOTED.finditer(text)}
        found = {span: key for span, key in quoted.items() if 0 < len(key.split()) <= _MOST_QUOTED_WORDS}
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
        position = 0
        while position < len(words):
            word = words[position].text
            is_name = (not spoken.has_case or not word[0].islower()) and word.lower() not in spoken.stop_words
            for length in self._lengths.get(words[position].form, ()):
                forms = tuple(one.form for one in words[position : position + length])
                if len(forms) == length and forms in self._phrases and (length > 1 or is_name):
                    found.append((position, position + length - 1, self._phrases[forms]))
                    position += length
                    break
            else:
                position += 1
        return found

    def _inside(self, run: str) -> list[tuple[int, int, str]]:
        """(start, end, key) of titles inside a run of characters without blanks, longest match from left to right."""
        folded = fold(run)
        folded = folded if len(folded) == len(run) else run  # so that offsets are those of the text
        found, position = [], 0
        while position < len(folded):
            for length in self._run_lengths.get(folded[position], ()):
                if folded[position : position + length] in self._runs:
                    found.append((position, position + length, folded[position : position + length]))
                    position += length
                    break
            else:
                position += 1
        return found


def _words(text: str, spoken: Language | None) -> list[_Word]:
    """Words with their offsets and forms: the stem's stem, for endings of names (Рутов, Рутова) hide in stems."""
    return [
        _Word(hit[0], hit.start(), hit.end(), spoken.stem(spoken.stem(hit[0])) if spoken else fold(hit[0]).lower())
        for hit in WORD.finditer(text)
    ]


def _lengths(phrases: Iterable[tuple[str, ...]]) -> dict[str, list[int]]:
    """By first word: lengths, longest first."""
    found: dict[str, set[int]] = {}
    for phrase in phrases:
        if phrase:
            found.setdefault(phrase[0], set()).add(len(phrase))
    return {first: sorted(lengths, reverse=True) for first, lengths in found.items()}


def _capitals(text: str, words: Sequence[_Word], spoken: Language) -> list[tuple[int, int]]:
    """(first, last) word of each run of capitalised words that is a name."""
    found = []
    after = 0
    for position, word in enumerate(words):
        if position < after or not word.text[0].isupper():
            continue
        last = _run_end(text, words, position)
        first, after = position, last + 1
        while first <= last and (words[first].text.lower() in spoken.stop_words or words[first].text[0].islower()):
            first += 1
        if first < last or (first == last and _is_name(words, first, spoken)):
            found.append((first, last))
    return found


def _run_end(text: str, words: Sequence[_Word], first: int) -> int:
    last = first
    for before, position in pairwise(range(first, min(len(words), first + MAX_NAME_TOKENS))):
        gap = text[words[before].end : words[position].start]
        is_initial = gap.startswith(".") and len(words[before].text) == 1
        if not _JOINS.fullmatch(gap) or (gap.startswith(".") and not is_initial):
            break
        if words[position].text[0].isupper():
            last = position
        elif words[position].text not in _PARTICLES:
            break
    return last


def _is_name(words: Sequence[_Word], position: int, spoken: Language) -> bool:
    """Returns whether a capitalised word alone is a name."""
    word = words[position].text
    if len(word) < _SHORTEST_TITLE - 1 or word.lower() in FUNCTION_WORDS:
        return False
    return not spoken.capitalises_nouns or (position > 0 and words[position - 1].text in _BEFORE_NAMES)
