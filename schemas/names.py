"""Names in a text: capitalised runs and known titles, the same code for passages and questions.

Gives no types and links no names (types.py and the resolution stage do); SPRIG's own pattern is warehouse/names.py's.
Source: algorithms.md 2B.1. Decided here, where 2B.1 is silent (with these, `bridge-lexical` on MuSiQue-100 has
R@5 .7025, R@10 .8358, and .827 of the capitalised names that gpt-3.5 extracted are found; one question is .005):

* A single capital letter other than `A` and `I` is not a function word, and these two are none before a full stop, so
  that `T. S. Eliot` and `A. J. Foyt` stay whole.
* A gap has one of the allowed signs, whitespace only around `&` and after `.`; freer gaps find fewer names (.825).
* Behind `. ` a function word ends the run (`World War I. It`); without this rule .823 of the names.
* Titles of several words count in lower case too, even within a run; asking for a capital lost .005 of both.
* Lower-case particles in front are dropped, as after a dropped `After` in `After van Gogh`.
* A title made of function words only (`What If`) counts where its last word is capitalised.
* A letter of a script without case counts as capitalised for titles of one word.
* Names end after `MAX_NAME_TOKENS` words, so that capitals without punctuation stay linear.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, pairwise

from polyhop.schemas.graph import Mention
from polyhop.schemas.text import fold

_STOP = (
    "a about after all also an and any are as at be been before being between both but by can could did do does done "
    "down during each for from had has have he her here him his how i if in into is it its just may me might more most "
    "must my no not of off on only or other our out over own s same she should so some such t than that the their them "
    "then there these they this those to too under up us very was we were what when where which who whom whose why "
    "will with would you your"
)
_LEADING = (
    "although however while because since according despite following additionally furthermore among within currently "
    "today born"
)
STOP_WORDS = frozenset(_STOP.split())
"""Function words of names and of BM25 alike."""

FUNCTION_WORDS = STOP_WORDS | frozenset(_LEADING.split())
"""Words that never begin a capitalised run."""

_MONTHS = "january february march april may june july august september october november december"
_NO_KEY = frozenset(_MONTHS.split())
_PARTICLES = frozenset(("of", "de", "la", "van", "von", "der", "den", "di", "da", "du", "le", "el", "al", "bin", "ibn"))
_ARTICLES = frozenset(("a", "i"))
MAX_NAME_TOKENS = 24  # chosen: longer than names are; see above
_MAX_KEY_TOKENS = 40  # of a title that is looked for in texts; chosen: longer ones are sentences, hardly repeated

_TOKEN_SPLIT = re.compile(r"([^\W_]+)")
_TOKEN = re.compile(r"[^\W_]+")
_PARENTHESES = re.compile(r"[(（][^()（）]*[)）]")
_COMMA = re.compile(r"[,，]")
_SPLITS = re.compile(r"[(（,，]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def name_tokens(text: str) -> list[str]:
    """Folded lower-case words of `text`: joined by one space they are its key."""
    return [word.lower() for word in _TOKEN.findall(fold(text))]


def title_keys(title: str) -> tuple[str, ...]:
    """Keys under which a title is known: whole, without `(...)`, and of that the part before the first comma.

    Args:
        title: A title as written.

    Returns:
        Distinct keys in that order; stop words, months and single letters are left out, so there may be none.
    Source: algorithms.md 2B.1 (b), (c).
    """
    return tuple(key for key, _ in title_forms(title))


def title_forms(title: str) -> list[tuple[str, str]]:
    """Each of `title_keys` with its spelling. Source: algorithms.md 2B.1 (b)."""
    spellings = [title]
    if _SPLITS.search(title):
        outside = " ".join(_PARENTHESES.sub(" ", title).split())
        spellings += [outside, _COMMA.split(outside, maxsplit=1)[0]]
    forms: dict[str, str] = {}
    for spelling in spellings:
        words = _TOKEN.findall(fold(spelling))
        key = " ".join([word.lower() for word in words])
        if key not in forms and _is_key(key, words):
            forms[key] = spelling.strip()
    return list(forms.items())


def _is_key(key: str, words: list[str]) -> bool:
    if len(key) < 2 or key in _NO_KEY:
        return False
    return key not in STOP_WORDS or words[0].isupper()


class NameFinder:
    """Finds names: capitalised runs, and the titles of a corpus wherever they occur.

    Equal whatever the order of titles; immutable after construction, may be pickled and shared between threads.
    """

    def __init__(self, titles: Iterable[str]) -> None:
        keys = {key for title in set(titles) for key in title_keys(title)}
        self._singles: set[str] = set()
        self._phrases: set[str] = set()
        self._function_phrases: set[str] = set()
        lengths: dict[tuple[str, ...], set[int]] = {}
        for key in keys:
            words = key.split()
            if len(words) == 1:
                if sum(map(str.isalpha, key)) >= 3:
                    self._singles.add(key)
            elif len(words) <= _MAX_KEY_TOKENS:
                self._phrases.add(key)
                lengths.setdefault((words[0], words[1]), set()).add(len(words))
                if FUNCTION_WORDS.issuperset(words):
                    self._function_phrases.add(key)
        self._lengths = {pair: tuple(sorted(found, reverse=True)) for pair, found in lengths.items()}

    def find(self, text: str) -> list[Mention]:
        """Names in `text`, each place and key once.

        Args:
            text: Any text; offsets refer to it as given, not to its folded form.

        Returns:
            Mentions in order of start, end, key; two may overlap (`beatles` and `the beatles`).
        Source: algorithms.md 2B.1.
        Cost: O(characters), whatever the number of titles.
        """
        folded, places = _fold_places(text)
        parts = _TOKEN_SPLIT.split(folded)
        words = parts[1::2]
        if not words:
            return []
        gaps = parts[2::2]
        lows = [word.lower() for word in words]
        found = set(_runs(words, lows, gaps))
        found.update(self._known(words, lows))
        edges = list(accumulate(map(len, parts)))
        named = sorted((edges[2 * first], edges[2 * last + 1], first, last) for first, last in found)
        mentions = []
        for folded_start, folded_end, first, last in named:
            start, end = (folded_start, folded_end) if places is None else places.original(folded_start, folded_end)
            mentions.append(Mention(" ".join(lows[first : last + 1]), text[start:end], start, end))
        return mentions

    def _known(self, words: list[str], lows: list[str]) -> list[tuple[int, int]]:
        """(first, last) word of each title, longest match left to right."""
        starts = [place for place, pair in enumerate(pairwise(lows)) if pair in self._lengths]
        starts += [place for place, low in enumerate(lows) if low in self._singles]
        found: list[tuple[int, int]] = []
        free = 0
        for place in sorted(set(starts)):
            if place < free:
                continue
            length = self._longest(words, lows, place)
            if length:
                found.append((place, place + length - 1))
                free = place + length
        return found

    def _longest(self, words: list[str], lows: list[str], place: int) -> int:
        """Words of the longest title that begins at `place`, 0 if none does."""
        for length in self._lengths.get(tuple(lows[place : place + 2]), ()):
            key = " ".join(lows[place : place + length])
            if place + length > len(lows) or key not in self._phrases:
                continue
            if key not in self._function_phrases or words[place + length - 1][0].isupper():
                return length
        word = words[place]
        if lows[place] not in self._singles or word[0].islower() or not word[0].isalpha():
            return 0
        return int(lows[place] not in FUNCTION_WORDS or word.isupper())


def _runs(words: list[str], lows: list[str], gaps: list[str]) -> list[tuple[int, int]]:
    """(first, last) word of each capitalised run that is a name."""
    found = []
    free = 0
    for place in [place for place, word in enumerate(words) if word[0].isupper()]:
        if place < free:
            continue
        if lows[place] == "s" and place and gaps[place - 1] == "'":
            continue
        last = _run_end(words, lows, gaps, place)
        free = last + 1
        first = place
        while first <= last and _is_function(words[first], lows[first], gaps[first]):
            first += 1
        if first > last or (first == last and (len(lows[first]) < 2 or lows[first] in _NO_KEY)):
            continue
        found.append((first, last))
    return found


def _run_end(words: list[str], lows: list[str], gaps: list[str], first: int) -> int:
    """Last capitalised word of the run that begins at `first`."""
    last = first
    for place in range(first + 1, min(len(words), first + MAX_NAME_TOKENS)):
        gap = gaps[place - 1]
        if gap != " " and not _joins(gap, words[place - 1], lows[place]):
            break
        if words[place][0].isupper():
            last = place
        elif words[place] not in _PARTICLES and not (words[place] == "the" and words[place - 1] == "of"):
            break
    return last


def _joins(gap: str, before: str, after: str) -> bool:
    """Whether two words with this gap between them may stand in one run."""
    inner = gap.strip(" \t")
    if inner in ("", "&"):
        return True
    if inner == "'":
        return gap == inner and after != "s"
    if inner == ".":
        return gap == inner or (gap[0] == "." and len(before) <= 3 and (len(after) == 1 or after not in FUNCTION_WORDS))
    return inner == "-" and gap == inner


def _is_function(word: str, low: str, gap: str) -> bool:
    """Whether a word at the head of a run is a function word there; lower-case particles are."""
    if word[0].islower():
        return True
    if low not in FUNCTION_WORDS:
        return False
    if len(word) == 1:
        return low in _ARTICLES and gap[:1] != "."
    return not word.isupper()


class _Places:
    """Offsets of a folded text in its original, kept only where folding changed the length."""

    def __init__(self, steps: list[tuple[int, int]]) -> None:
        self._folded_after = []
        self._shift_after = []
        self._dropped = {place for place, size in steps if size == 0}
        self._wide = []
        shift = 0
        for place, size in steps:
            self._wide.append((place + shift, size, place))
            shift += size - 1
            self._folded_after.append(place + 1 + shift)
            self._shift_after.append(shift)

    def _origin(self, folded: int) -> int:
        step = bisect_right(self._folded_after, folded)
        if step < len(self._wide):
            begin, size, place = self._wide[step]
            if begin <= folded < begin + size:
                return place
        return folded - (self._shift_after[step - 1] if step else 0)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The original's range of a folded range; it includes marks after its last letter."""
        last = self._origin(end - 1) + 1
        while last in self._dropped:
            last += 1
        return self._origin(start), last


def _fold_places(text: str) -> tuple[str, _Places | None]:
    """`fold(text)`, and where its characters come from unless each comes from one."""
    if text.isascii():
        return text, None
    size_of = {char: len(fold(char)) for char in set(_NOT_ASCII.findall(text))}
    if all(size == 1 for size in size_of.values()):
        return fold(text), None
    steps = [(hit.start(), size_of[hit[0]]) for hit in _NOT_ASCII.finditer(text) if size_of[hit[0]] != 1]
    return fold(text), _Places(steps)
