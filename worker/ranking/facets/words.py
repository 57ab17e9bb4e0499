"""Words of questions and labels as hub facets compare them: stems with stop words kept and marked, negation.

Scores nothing. Source: algorithms.md 4B (units, rules 1 and 4).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from polyhop.schemas.stems import stem
from polyhop.schemas.text import fold

_WORD = re.compile(r"[^\W_]+")

_STOP = """
a about above after again against ain all am an and any are aren as at be because been before being below between
both but by can couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn
have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m ma me
mightn more most mustn my myself needn no nor not now o of off on once only or other our ours ourselves out over own
re s same shan she should shouldn so some such t than that the their theirs them themselves then there these they
this those through to too under until up ve very was wasn we were weren what when where which while who whom why
will with won wouldn y you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP.split())
"""bm25s' STOPWORDS_EN_PLUS as words are split here: its forms with an apostrophe come as two words of the list."""

_NEGATION = "no not non none never neither nor without lack lacks lacked lacking cannot"
_NEGATIONS = frozenset(_NEGATION.split())
_REFUSAL = "fail fails failed refuse refuses refused omit omits omitted withhold withholds withheld"
_REFUSALS = frozenset(_REFUSAL.split())
"""Negate in questions only: labels say them of what a value is about."""
_APOSTROPHES = "'’ʼ"

_REQUEST = "compare count find give list name order rank show sort tell"
_REQUESTS = frozenset(_REQUEST.split())
_SENTENCE_ENDS = ".?!"
_CLAUSE_ENDS = ".?!,:;"
_JOINED = frozenset(("and", "but"))


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text.

    Attributes:
        text: As written.
        stem: Of its folded lower-case form.
        is_stop: Whether it is a stop word.
        is_negation: Whether it negates what follows.
        begins_clause: Whether it begins a question's clause: its first word, or one after a mark or after `and`, `but`.
    """

    text: str
    stem: str
    is_stop: bool
    is_negation: bool
    begins_clause: bool = False

    @property
    def is_capitalised(self) -> bool:
        """Whether it begins with a capital letter."""
        return self.text[0].isupper()


def words_of(text: str) -> list[Word]:
    """The words of a text in order; stop words are among them."""
    folded = fold(text)
    words = []
    for match in _WORD.finditer(folded):
        word, begin = match.group().lower(), match.start()
        is_contraction = word == "t" and begin > 1 and folded[begin - 1] in _APOSTROPHES and folded[begin - 2] in "nN"
        words.append(Word(match.group(), stem(word), word in STOP_WORDS, word in _NEGATIONS or is_contraction))
    return words


def question_words(text: str) -> list[Word]:
    """The words of a question in order; a verb that opens a sentence and says how to answer is a stop word.

    Source: algorithms.md 4B, requests and kinds of values.
    """
    words = words_of(text)
    for number, match in enumerate(_WORD.finditer(folded := fold(text))):
        before = folded[: match.start()].rstrip()
        is_request = match.group().lower() in _REQUESTS and (not before or before[-1] in _SENTENCE_ENDS)
        is_joined = number > 0 and words[number - 1].text.lower() in _JOINED
        words[number] = replace(
            words[number],
            is_stop=words[number].is_stop or is_request,
            is_negation=words[number].is_negation or match.group().lower() in _REFUSALS,
            begins_clause=not before or before[-1] in _CLAUSE_ENDS or is_joined,
        )
    return words


def content_stems(words: Iterable[Word]) -> list[str]:
    """Stems without those of stop words."""
    return [word.stem for word in words if not word.is_stop]


def trigrams(word: str) -> set[str]:
    """Character trigrams of a stem with a blank at both ends."""
    padded = f" {word} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}


def are_family(one: str, other: str) -> bool:
    """Whether two stems of letters share a prefix of at least 4 that covers 66 % of the longer one (evolv, evolut).

    Source: algorithms.md 4B, word families.
    """
    longest = max(len(one), len(other))
    shared = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        shared += 1
    return shared >= 4 and shared >= 0.66 * longest and one.isalpha() and other.isalpha()
