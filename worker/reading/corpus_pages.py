"""What the corpus says about a name by the page of its own: whether it is a person, and how it is defined.

Reads the first characters of pages, never whole passages, and keeps what it read.
Source: reader.md 6.3 (ownhead, person, place).
Decided here: first names are collected from at most `MOST_SAMPLED` pages, evenly spread over the corpus, so that a
large index is ready as soon as a small one; definitions are kept for the last `MOST_KEPT` pages.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from polyhop.schemas.names import name_tokens, title_keys
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.type_words import PERSON
from polyhop.schemas.types import title_type
from polyhop.worker.reading.parsing import stem_of

MOST_SAMPLED = 20_000  # see above; chosen, not tuned: persons of a larger corpus share most of their first names
MOST_KEPT = 50_000  # see above; 20 MB of ASCII (`_LEAD` characters each); chosen
_STEP = 2_000  # texts fetched at once; chosen: bounds memory, and any number gives the same names
_LEAD = 400  # characters; reader.md 6.3, ownhead.
_DEFINITION_CHARACTERS = 160  # reader.md 6.3, ownhead.
_PARENTHESES = re.compile(r"\([^()]*\)")
_IN_TITLE = re.compile(r"\(([^()]*)\)")
_DEFINITION = re.compile(r"\b(?:is|was|are|were)\b(?:\s+(?:an?|the|one\s+of)\b)?")
_KIND_ENDS = re.compile(
    r"[.,;:]|\b(?:of|in|on|at|by|for|with|from|to|near|between|that|which|who|whose|where|built|born|located|situated)\b"
)
"""Where a definition stops to say what something is (`is a bridge in New York over the East River`)."""
_LIFE = re.compile(r"\([^()]*(?:\bborn\b|\b[12]\d{3}\b)")
_IS_A = re.compile(r" (?:is|was) an? ")
_SURE = 0.9  # as `DEFINED` of schemas/types.py: a definition of its own, not a cue
_NAME_LENGTHS = range(2, 5)


@dataclass(frozen=True, slots=True)
class OwnPage:
    """What a name's own page says: whether it is a person's, the words that define it, and which say its kind."""

    is_person: bool
    definition: frozenset[str]
    definition_stems: frozenset[str]
    kinds: frozenset[str]


def is_person_page(text: str) -> bool:
    """Whether a page begins like a person's: a parenthesis with `born` or a year, and `is a`."""
    return bool(_LIFE.search(text[:200]) and _IS_A.search(text[:300]))


@lru_cache(maxsize=1 << 14)
def own_page(title: str, lead: str) -> OwnPage:
    """What a page's title and first characters say."""
    plain = _PARENTHESES.sub(" ", lead)
    match = _DEFINITION.search(plain)
    definition = plain[match.end() :][:_DEFINITION_CHARACTERS] if match else ""
    in_title = " ".join(_IN_TITLE.findall(title))
    words = frozenset(name_tokens(f"{definition} {in_title}"))
    kinds = frozenset(name_tokens(f"{_KIND_ENDS.split(definition, maxsplit=1)[0]} {in_title}"))
    return OwnPage(_is_person(title, lead), words, frozenset(stem for word in words if (stem := stem_of(word))), kinds)


def _is_person(title: str, lead: str) -> bool:
    """By the look of the page, or because its definition says so (`was a Czech composer born in 1824`)."""
    if is_person_page(lead):
        return True
    keys = title_keys(title)
    if not keys:
        return False
    kind, sureness = title_type(title, keys[-1], lead)
    return kind == PERSON and sureness >= _SURE


class CorpusPages:
    """The pages of an open version by title key; thread-safe as far as its answers go, they never change."""

    def __init__(self, index: IndexReader) -> None:
        self._index = index
        self._leads: dict[int, str] = {}

    @cached_property
    def _first(self) -> dict[str, int]:
        """Number of the first passage with each title key."""
        first: dict[str, int] = {}
        for number, title in enumerate(self._index.passage_titles):
            for key in title_keys(title):
                first.setdefault(key, number)
        return first

    @cached_property
    def first_names(self) -> frozenset[str]:
        """First words of the titles of persons' pages, among the sampled ones."""
        titles = self._index.passage_titles
        names = set()
        for begin in range(0, len(self._sampled), _STEP):
            part = self._sampled[begin : begin + _STEP]
            for number, (_, _, text) in zip(part, self._index.passages(part), strict=True):
                self._keep(number, text)
                words = name_tokens(titles[number])
                if len(words) in _NAME_LENGTHS and is_person_page(text):
                    names.add(words[0])
        return frozenset(names)

    @cached_property
    def _sampled(self) -> range:
        count = len(self._index.passage_titles)
        return range(0, count, max(1, -(-count // MOST_SAMPLED)))

    def prepare(self, keys: Iterable[str]) -> None:
        """Reads the pages of these names that were not read yet, all at once."""
        numbers = {self._first[key] for key in keys if key in self._first}
        missing = self._not_kept(numbers)
        # The first names are read from the sampled pages, which are kept: some of the missing ones may be among them.
        if missing and self.first_names:
            missing = self._not_kept(missing)
        if missing:
            for number, (_, _, text) in zip(missing, self._index.passages(missing), strict=True):
                self._keep(number, text)

    def find(self, key: str) -> OwnPage | None:
        """What the page of a name says, None if there is none."""
        number = self._first.get(key)
        if number is None:
            return None
        lead = self._leads.get(number)
        if lead is None:
            lead = self._index.passages([number])[0][2][:_LEAD]
        return own_page(self._index.passage_titles[number], lead)

    def _not_kept(self, numbers: Iterable[int]) -> list[int]:
        return sorted(number for number in numbers if number not in self._leads)

    def _keep(self, number: int, text: str) -> None:
        if len(self._leads) >= MOST_KEPT:
            self._leads.clear()
        self._leads[number] = text[:_LEAD]


def has_person_name(key: str, first_names: frozenset[str]) -> bool:
    """Whether a name of two to four words begins like a person's in the corpus."""
    words: Sequence[str] = key.split()
    return len(words) in _NAME_LENGTHS and words[0] in first_names
