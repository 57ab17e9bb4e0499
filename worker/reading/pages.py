"""Passages of a context as the rules read them: sentences, words with their stems, names, title keys.

Scores nothing. At most `MOST_CHARACTERS` of a passage and `MOST_SENTENCES` of its sentences are read, so that a text
without a full stop costs no more than a page; offsets hold in the whole passage, because only its end is cut.
Source: reader.md 6.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

from polyhop.schemas.graph import Mention
from polyhop.schemas.names import NameFinder, name_tokens, title_keys
from polyhop.schemas.query import ContextPassage, Sentence
from polyhop.schemas.sentences import split_sentences
from polyhop.schemas.text import fold
from polyhop.worker.reading.clauses import defining_words, first_pronoun
from polyhop.worker.reading.parsing import stem_of

MOST_CHARACTERS = 4_000  # see above; chosen: some 600 words, several times a passage of the corpora here
MOST_SENTENCES = 60  # see above; chosen: of some 65 characters, as many as MOST_CHARACTERS hold
LEAD_SENTENCES = 2  # reader.md, steps (6).
LEAD_CHARACTERS = 600  # chosen: two long sentences; bounds a lead without a full stop
_LINES = re.compile(r"[^\n]+")
_WORD = re.compile(r"[^\W_]+")
_MOST_STEMS, _LONGEST_KEPT = 200_000, 40  # words, letters; chosen: bounds the memory, as schemas/stems.py does
_RUNS = NameFinder(())
_KEPT_PAGES = 2_000
"""Passages whose sentences, words and names are kept: questions of one batch, and of one corpus, read the same
passages; one of HubLink's hubs is read for each of many questions, and all its paths have its title."""


class _Stems(dict[str, tuple[str, ...]]):
    """Stems by word as written, filled on demand and bounded; a word's stems never change, so threads may share it."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        stems = tuple(stem for part in name_tokens(word) if (stem := stem_of(part)))
        if len(self) < _MOST_STEMS and len(word) <= _LONGEST_KEPT:
            self[word] = stems
        return stems


_STEMS = _Stems()


class PageSentence:
    """A sentence of a passage; `start` and `end` are offsets into the passage's text, `number` counts from 0."""

    def __init__(self, text: str, start: int, end: int, number: int) -> None:
        self.text = text
        self.start = start
        self.end = end
        self.number = number

    @cached_property
    def words(self) -> Sequence[tuple[int, int]]:
        """(start, end) of each word within the sentence."""
        return [match.span() for match in _WORD.finditer(self.text)]

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Word numbers by stem, ascending."""
        places: dict[str, list[int]] = {}
        for number, (start, end) in enumerate(self.words):
            for stem in _STEMS[self.text[start:end]]:
                places.setdefault(stem, []).append(number)
        return places

    @cached_property
    def key_text(self) -> str:
        """The sentence as a name's key would write it, between spaces."""
        return f" {' '.join(name_tokens(self.text))} "

    @cached_property
    def names(self) -> Sequence[Mention]:
        """Capitalised runs, offsets within the sentence."""
        return _RUNS.find(self.text)


class PageContent:
    """Title and text of a passage, taken apart once for all questions that read it.

    Attributes:
        title: The passage's title.
        text: The part of the text that is read.
    """

    def __init__(self, title: str, text: str) -> None:
        self.title = title
        self.text = text

    @cached_property
    def sentences(self) -> Sequence[PageSentence]:
        """Sentences, lines apart."""
        return [PageSentence(self.text[start:end], start, end, n) for n, (start, end) in enumerate(_parts(self.text))]

    @cached_property
    def title_keys(self) -> tuple[str, ...]:
        """Keys that the title is known under, the whole title first."""
        return _title_keys(self.title)

    @cached_property
    def title_stems(self) -> frozenset[str]:
        """Stems of the title."""
        return _title_stems(self.title)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Stems of the title and all sentences."""
        return self.title_stems.union(*(sentence.places for sentence in self.sentences))

    @cached_property
    def pronoun(self) -> str:
        """The pronoun that stands for the page's subject."""
        return first_pronoun(sentence.text for sentence in self.sentences)

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Words that the title and the first definition call the page's subject by."""
        defined = defining_words(self.sentences[0].text) if self.sentences else frozenset()
        return defined.union(*(key.split() for key in self.title_keys))

    @cached_property
    def lead(self) -> str:
        """The first sentences as one text, at most `LEAD_CHARACTERS` of it."""
        first = self.sentences[:LEAD_SENTENCES]
        return self.text[first[0].start : first[-1].end][:LEAD_CHARACTERS] if first else ""

    def mentions(self, keys: Sequence[str]) -> bool:
        """Whether the text mentions one of these titles; one of a single word needs a capital."""
        lower, capitalised = self._tokens
        return any(f" {key} " in (lower if " " in key else capitalised) for key in keys)

    @cached_property
    def _tokens(self) -> tuple[str, str]:
        """The words in lower case, and those with a capital, each between spaces."""
        words = _WORD.findall(fold(self.text))
        capitalised = [word for word in words if not word[0].islower()]
        return f" {' '.join(words)} ".lower(), f" {' '.join(capitalised)} ".lower()


class Page:
    """A passage of the context; `place` is its rank from 0. What does not depend on the question is kept.

    Attributes:
        passage: As it was retrieved.
        place: Its rank.
        content: Its title and text, shared with the other questions that read it.
    """

    def __init__(self, passage: ContextPassage, place: int) -> None:
        self.passage = passage
        self.place = place
        self.content = content = _content(passage.title, passage.text[:MOST_CHARACTERS])
        self.text = content.text
        self.sentences = content.sentences
        self.title_keys = content.title_keys
        self.title_stems = content.title_stems
        self.mentions = content.mentions

    @property
    def lead_sentences(self) -> Sequence[PageSentence]:
        """The first two sentences."""
        return self.sentences[:LEAD_SENTENCES]

    @property
    def lead_start(self) -> int:
        """Offset of the lead in the text."""
        return self.sentences[0].start if self.sentences else 0

    @property
    def lead(self) -> str:
        """The first sentences as one text, at most `LEAD_CHARACTERS` of it."""
        return self.content.lead

    @property
    def stems(self) -> frozenset[str]:
        """Stems of the title and all sentences."""
        return self.content.stems

    @property
    def pronoun(self) -> str:
        """The pronoun that stands for the page's subject."""
        return self.content.pronoun

    @property
    def kinds(self) -> frozenset[str]:
        """Words that the title and the first definition call the page's subject by."""
        return self.content.kinds

    def sentence_at(self, offset: int) -> PageSentence | None:
        """The sentence that holds an offset."""
        return next((one for one in self.sentences if one.start <= offset < one.end), None)

    def cite(self, sentence: PageSentence | None) -> Sentence | None:
        """A sentence as evidence, the first one if none is named."""
        shown = sentence or (self.sentences[0] if self.sentences else None)
        return None if shown is None else Sentence(self.passage.passage_id, shown.text, shown.start, shown.end)


@lru_cache(maxsize=_KEPT_PAGES)
def _content(title: str, text: str) -> PageContent:
    return PageContent(title, text)


@lru_cache(maxsize=_KEPT_PAGES)
def _title_keys(title: str) -> tuple[str, ...]:
    return title_keys(title)


@lru_cache(maxsize=_KEPT_PAGES)
def _title_stems(title: str) -> frozenset[str]:
    return frozenset(stem for word in name_tokens(title) if (stem := stem_of(word)))


def _parts(text: str) -> Sequence[tuple[int, int]]:
    """Sentences, ended by a line's end too."""
    found = []
    for start, end in split_sentences(text):
        for line in _LINES.finditer(text, start, end):
            piece = line[0]
            first = line.start() + len(piece) - len(piece.lstrip())
            last = line.start() + len(piece.rstrip())
            if first < last:
                found.append((first, last))
            if len(found) == MOST_SENTENCES:
                return found
    return found


def pages_of(context: Sequence[ContextPassage]) -> list[Page]:
    """The passages of a context in ranked order."""
    return [Page(passage, place) for place, passage in enumerate(context)]
