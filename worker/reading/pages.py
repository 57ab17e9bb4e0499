"""Passages of a context as the reader reads them: sentences, names, kinds of pages, and the sentences that say most.

At most `MOST_CHARACTERS` of a passage and `MOST_SENTENCES` of its sentences are read, so that a text without a full
stop costs no more than a page; offsets hold in the whole passage, because only its end is cut. Source: reader.md.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import fsum, log1p
from typing import NamedTuple

import numpy as np

from polyhop.schemas.graph import LexicalIndex, Mention
from polyhop.schemas.names import NameFinder, name_tokens, split_sentences, title_keys
from polyhop.schemas.ports import Encode, IndexReader
from polyhop.schemas.query import ContextPassage, Question, Sentence
from polyhop.schemas.text import fold
from polyhop.schemas.types import PERSON, title_type
from polyhop.worker.reading.question import stem_of, stems_of

MOST_CHARACTERS = 4_000  # see above; chosen: some 600 words, several times a passage of the corpora here
MOST_SENTENCES = 60  # see above; chosen: of some 65 characters, as many as MOST_CHARACTERS hold
LEAD_SENTENCES = 2  # of a page that say what it is about; chosen
LEAD_CHARACTERS = 600  # chosen: two long sentences; bounds a lead without a full stop
_LINES = re.compile(r"[^\n]+")
_ROW = re.compile(r"^(?:\| )*([^|\n]*[^|\s]) \| ", re.MULTILINE)
_LONGEST_HEADING = 60  # characters; chosen
_SIGNATURE = re.compile(r"^-- ?\n(?:[^\n]+(?:\n|\Z)){1,10}(?=\n|\Z)", re.MULTILINE)  # RFC 3676, 4.3; ten lines: chosen
_WORD = re.compile(r"[^\W_]+")
_MOST_STEMS, _LONGEST_KEPT = 200_000, 40  # words, letters; chosen: bounds the memory, as schemas/languages.py does
_RUNS = NameFinder(())
_KEPT_PAGES = 2_000
"""Passages whose sentences, words and names are kept: questions of one batch, and of one corpus, read the same
passages; one of HubLink's hubs is read for each of many questions, and all its paths have its title."""


class _WordStems(dict[str, tuple[str, ...]]):
    """Stems by word as written, filled on demand and bounded; a word's stems never change, so threads may share it."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        stems = tuple(stem for part in name_tokens(word) if (stem := stem_of(part)))
        if len(self) < _MOST_STEMS and len(word) <= _LONGEST_KEPT:
            self[word] = stems
        return stems


_STEMS = _WordStems()


@dataclass(eq=False)
class PassageSentence:
    """A sentence of a passage; `start` and `end` are offsets into the passage's text, `number` counts from 0."""

    text: str
    start: int
    end: int
    number: int

    @cached_property
    def words(self) -> Sequence[tuple[int, int]]:
        """(start, end) of each word within the sentence."""
        return [match.span() for match in _WORD.finditer(self.text)]

    @cached_property
    def word_indices(self) -> Mapping[str, Sequence[int]]:
        """Word indices by stem, ascending."""
        indices: dict[str, list[int]] = {}
        for number, (start, end) in enumerate(self.words):
            for stem in _STEMS[self.text[start:end]]:
                indices.setdefault(stem, []).append(number)
        return indices

    @cached_property
    def key_text(self) -> str:
        """The sentence as a name's key would write it, between spaces."""
        return f" {' '.join(name_tokens(self.text))} "

    @cached_property
    def names(self) -> Sequence[Mention]:
        """Capitalised runs, offsets within the sentence."""
        return _RUNS.find(self.text)

    def has_any(self, keys: Iterable[str]) -> bool:
        """Returns whether it contains one of these names."""
        return any(f" {key} " in self.key_text for key in keys)


@dataclass(eq=False)
class PassageContent:
    """Title and text (as much as is read) of a passage, taken apart once for all questions that read it."""

    title: str
    text: str

    @cached_property
    def sentences(self) -> Sequence[PassageSentence]:
        """Sentences, ended by a line's end too; no headings, no signatures, no rows that are sentences as well."""
        found: list[PassageSentence] = []
        signatures = [signature.span() for signature in _SIGNATURE.finditer(self.text)]
        row = _ROW.search(self.text)
        has_sentences = row is not None and f"\n{row[1]}: " in self.text
        for start, end in split_sentences(self.text):
            for line in _LINES.finditer(self.text, start, end):
                piece = line[0].strip()
                first = line.start() + len(line[0]) - len(line[0].lstrip())
                is_row = has_sentences and " | " in piece
                is_signature = any(begin <= first < stop for begin, stop in signatures)
                if piece and not is_row and not is_signature and not self._is_heading(first, piece):
                    found.append(PassageSentence(piece, first, first + len(piece), len(found)))
                if len(found) == MOST_SENTENCES:
                    return found
        return found

    def _is_heading(self, start: int, line: str) -> bool:
        """Returns whether a short line without a stop stands alone above another paragraph."""
        end = start + len(line)
        is_alone = (
            not self.text[max(0, start - _LONGEST_HEADING) : start].rstrip(" ")[-2:].strip("\n")
            and self.text[end : end + _LONGEST_HEADING].lstrip(" ")[:2] == "\n\n"
        )
        return is_alone and len(line) <= _LONGEST_HEADING and line[-1].isalnum()

    @cached_property
    def title_keys(self) -> tuple[str, ...]:
        """Keys that the title is known under, the whole title first."""
        return _title_keys(self.title)

    @cached_property
    def title_stems(self) -> frozenset[str]:
        """Stems of the title."""
        return stems_of(self.title)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Stems of the title and all sentences."""
        return self.title_stems.union(*(sentence.word_indices for sentence in self.sentences))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Words that the title and the first definition (`is a suspension bridge`) call the page's subject by."""
        return own_page(self.title, self.lead).kinds.union(*(key.split() for key in self.title_keys))

    @cached_property
    def lead(self) -> str:
        """The first sentences as one text, at most `LEAD_CHARACTERS` of it."""
        first = self.sentences[:LEAD_SENTENCES]
        return self.text[first[0].start : first[-1].end][:LEAD_CHARACTERS] if first else ""

    @cached_property
    def is_person(self) -> bool:
        """Returns whether it is about a person."""
        return own_page(self.title, self.lead).is_person

    def mentions(self, keys: Sequence[str]) -> bool:
        """Returns whether the text mentions one of these titles; one of a single word needs a capital."""
        lower, capitalised = self._tokens
        return any(f" {key} " in (lower if " " in key else capitalised) for key in keys)

    @cached_property
    def _tokens(self) -> tuple[str, str]:
        """The words in lower case, and those with a capital, each between spaces."""
        words = _WORD.findall(fold(self.text))
        capitalised = [word for word in words if not word[0].islower()]
        return f" {' '.join(words)} ".lower(), f" {' '.join(capitalised)} ".lower()


class ParsedPassage:
    """A passage of the context; `rank` counts from 0, `content` is shared with other questions that read it."""

    def __init__(self, passage: ContextPassage, rank: int) -> None:
        self.passage = passage
        self.rank = rank
        self.content = content = _content(passage.title, passage.text[:MOST_CHARACTERS])
        self.sentences = content.sentences
        self.title_keys = content.title_keys
        self.title_stems = content.title_stems
        self.mentions = content.mentions

    def cite(self, sentence: PassageSentence) -> Sentence:
        """A sentence as evidence."""
        return Sentence(self.passage.passage_id, sentence.text, sentence.start, sentence.end)


_content = lru_cache(maxsize=_KEPT_PAGES)(PassageContent)
_title_keys = lru_cache(maxsize=_KEPT_PAGES)(title_keys)


def pages_of(context: Sequence[ContextPassage]) -> list[ParsedPassage]:
    """The passages of a context in ranked order."""
    return [ParsedPassage(passage, rank) for rank, passage in enumerate(context)]


def on_subject(pages: Sequence[ParsedPassage], names: Sequence[Mention]) -> frozenset[int]:
    """Ranks of the passages that say a name of the question, or whose title one of these says; all if none does.

    A passage about another project of the same kind is none of them. Source: reader.md, Subject.
    """
    keys = [name.key for name in names]
    reached = {page.rank: page for page in pages if not set(keys).isdisjoint(page.title_keys) or page.mentions(keys)}
    if not reached:
        return frozenset(page.rank for page in pages)
    latest = list(reached.values())
    while latest:
        named = [
            page for page in pages if page.rank not in reached and any(p.mentions(page.title_keys) for p in latest)
        ]
        reached |= {page.rank: page for page in named}
        latest = named
    return frozenset(reached)


# Source: reader.md, Computed answers. Decided here: definitions are kept for the last `MOST_KEPT` pages.

MOST_KEPT = 50_000  # see above; 20 MB of ASCII (`_LEAD` characters each); chosen
_LEAD = 400  # characters of a page that may define its subject; chosen
_DEFINITION_CHARACTERS = 160  # of a definition that are read; chosen
_PARENTHESES = re.compile(r"\([^()]*\)")
_IN_TITLE = re.compile(r"\(([^()]*)\)")
_DEFINITION = re.compile(r"\b(?:is|was|are|were)\b(?:\s+(?:an?|the|one\s+of)\b)?")
_KIND_ENDS = re.compile(
    r"[.,;:]|\b(?:of|in|on|at|by|for|with|from|to|near|between|that|which|who|whose|where|built|born|located|situated)\b"
)
"""Where a definition stops to say what something is (`is a bridge in New York over the East River`)."""
_LIFE = re.compile(r"\([^()]*(?:\bborn\b|\b[12]\d{3}\b)")
_IS_A = re.compile(r" (?:is|was) an? ")
_SURE = 0.9  # as `DEFINED` of schemas/types.py: an explicit definition, not a cue


@dataclass(frozen=True, slots=True)
class OwnPage:
    """Facts from a name's own page: `is_person`, and the words that name its kind."""

    is_person: bool
    kinds: frozenset[str]


@lru_cache(maxsize=1 << 14)
def own_page(title: str, lead: str) -> OwnPage:
    """Extracts the facts of a page from its title and first characters."""
    plain = _PARENTHESES.sub(" ", lead)
    match = _DEFINITION.search(plain)
    definition = plain[match.end() :][:_DEFINITION_CHARACTERS] if match else ""
    in_title = " ".join(_IN_TITLE.findall(title))
    kinds = frozenset(name_tokens(f"{_KIND_ENDS.split(definition, maxsplit=1)[0]} {in_title}"))
    # A person's page begins with `born` or a year in a parenthesis and `is a`, or its definition says so (`was a Czech
    # composer born in 1824`).
    is_person, keys = bool(_LIFE.search(lead[:200]) and _IS_A.search(lead[:300])), title_keys(title)
    if keys and not is_person:
        kind, sureness = title_type(title, keys[-1], lead)
        is_person = kind == PERSON and sureness >= _SURE
    return OwnPage(is_person, kinds)


# Source: reader.md, The sentence first. Two sentences together hold the right answer about twice as often as the best.

SHORTLIST = 12
"""Sentences that are encoded; 8 lose .1 of the second hops, 20 gain nothing (150 questions, half of them held out)."""
COVERED, LINKED, SAME_CHAIN = 0.6, 0.1, 0.1
"""Weights of the words that two sentences say together, of a link between them and of one between their pages; chosen
on those questions, flat between .6 and 1, .1 and .2."""
_PAGES, _OF_PAGE = 8, 12  # passages read, sentences of each; the right answer stands there for .96 of the questions
_RANK = 0.02  # per passage; chosen: breaks ties of the shortlist in favour of the better ranked one


class ScoredSentence(NamedTuple):
    """A sentence with its page, and how much of the question it says (0 to 1)."""

    page: ParsedPassage
    sentence: PassageSentence
    share: float


class StemWeights:
    """BM25 idf by stem; an unknown stem counts as one of a single passage. Without postings every stem counts the same.

    Source: algorithms.md 2.9.
    """

    def __init__(self, lexical: LexicalIndex | None) -> None:
        self._lexical = lexical
        self._known: dict[int, float] = {}

    def __call__(self, stem: str) -> float:
        """The idf of a stem: `ln(1 + (N - df + .5) / (df + .5))`."""
        lexical = self._lexical
        if lexical is None:
            return 1.0
        term = lexical.terms.get(stem, -1)
        if term not in self._known:
            df = int(lexical.indptr[term + 1] - lexical.indptr[term]) if term >= 0 else 1
            self._known[term] = log1p((len(lexical.lengths) - df + 0.5) / (df + 0.5))
        return self._known[term]


def titled(page: ParsedPassage, sentence: PassageSentence) -> str:
    """A sentence as it is encoded: after its page's title, unless it says that itself."""
    return (
        sentence.text if page.title_stems <= sentence.word_indices.keys() else f"{page.passage.title}: {sentence.text}"
    )


class Similarity:
    """Similarity of sentences to a question: by vectors, or by shared words where there are none.

    Args:
        index: The open version.
        encode: Encodes texts as its vectors were.
        idf: How rare a stem is in the corpus.
    """

    def __init__(self, index: IndexReader, encode: Encode | None, idf: StemWeights) -> None:
        self._encode = encode if "vectors:passage" in index.artefacts else None
        self.idf = idf

    def of_texts(self, question: str, texts: Sequence[str]) -> list[float]:
        """Cosine of each text with a question, in order. Cost: one encoding per text that was not read before."""
        if self._encode is None or not texts:
            return [self.share(stems_of(question), stems_of(text)) for text in texts]
        vector = self._encode([question])[0].astype(np.float64)
        return [float(value) for value in self._encode(texts, is_repeated=True).astype(np.float64) @ vector]

    def share(self, stems: Collection[str], held: frozenset[str]) -> float:
        """Share of stems that are held, by idf; 0 of none."""
        total = fsum(self.idf(stem) for stem in stems)
        return fsum(self.idf(stem) for stem in stems if stem in held) / total if total else 0.0

    def best_sentences(self, question: Question, pages: Sequence[ParsedPassage]) -> list[ScoredSentence]:
        """The two sentences that say most of a question together, then the one that adds most to them.

        Of all pairs of the shortlist (the sentences with the most words of the question, by idf): the cosine of the
        question with the sum of their vectors (0 without), the words they cover, and whether one names the other page.
        """
        stems = stems_of(question.text)
        listed = sorted(
            (
                ScoredSentence(page, sentence, self.share(stems, page.title_stems.union(sentence.word_indices)))
                for page in pages[:_PAGES]
                for sentence in page.sentences[:_OF_PAGE]
            ),
            key=lambda one: (_RANK * one.page.rank - one.share, one.page.rank, one.sentence.number),
        )[:SHORTLIST]
        if len(listed) < 2:
            return listed
        held = [one.page.title_stems.union(one.sentence.word_indices) for one in listed]
        near = np.zeros((len(listed), len(listed)))
        if self._encode is not None and question.vector is not None:
            texts = [titled(one.page, one.sentence) for one in listed]
            vectors = self._encode(texts, is_repeated=True).astype(np.float64)
            cosines = vectors @ question.vector.astype(np.float64)
            near = (cosines[:, None] + cosines) / np.sqrt(np.maximum(2 + 2 * (vectors @ vectors.T), 1e-9))

        def worth(pair: tuple[int, int], given: frozenset[str] = frozenset()) -> float:
            (one, first, _), (other, second, _) = (listed[number] for number in pair)
            covered = self.share(stems, given.union(held[pair[0]], held[pair[1]]))
            is_same = one is other
            link = not is_same and (first.has_any(other.title_keys) or second.has_any(one.title_keys))
            pages_link = is_same or one.mentions(other.title_keys) or other.mentions(one.title_keys)
            return round(float(near[pair]) + COVERED * covered + LINKED * link + SAME_CHAIN * pages_link, 9)

        best = max(combinations(range(len(listed)), 2), key=worth)
        given = held[best[0]] | held[best[1]]
        rest = [number for number in range(len(listed)) if number not in best]
        third = max(rest, key=lambda number: max(worth((one, number), given) for one in best), default=None)
        pair = sorted((listed[number] for number in best), key=lambda one: -one.share)
        return pair if third is None else [*pair, listed[third]]
