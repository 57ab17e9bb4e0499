"""Sentences of the passages that say most of a question: one, or two that say it together.

Source: reader.md. Two sentences together hold the right answer about twice as often as the best one.
"""

from collections.abc import Sequence
from itertools import combinations
from math import fsum, log1p
from typing import NamedTuple

import numpy as np

from polyhop.schemas.graph import LexicalIndex
from polyhop.schemas.names import name_tokens
from polyhop.schemas.ports import Encode, IndexReader
from polyhop.schemas.query import Question
from polyhop.worker.reading.pages import Page, PageSentence
from polyhop.worker.reading.question import stem_of

SHORTLIST = 12
"""Sentences that are encoded; 8 lose .1 of the second hops, 20 gain nothing (150 questions, half of them held out)."""
COVERED, LINKED, SAME_CHAIN = 0.6, 0.1, 0.1
"""Weights of the words that two sentences say together, of a link between them and of one between their pages; chosen
on those questions, flat between .6 and 1, .1 and .2."""
_PAGES, _OF_PAGE = 8, 12  # passages read, sentences of each; the right answer stands there for .96 of the questions
_RANK = 0.02  # per passage; chosen: breaks ties of the shortlist in favour of the better ranked one


class Shown(NamedTuple):
    """A sentence with its page, and how much of the question it says (0 to 1)."""

    page: Page
    sentence: PageSentence
    share: float


class StemWeights:
    """BM25 idf by stem; an unknown stem counts as the rarest one. Without postings every stem counts the same.

    Source: algorithms.md 2.9.
    """

    def __init__(self, lexical: LexicalIndex | None) -> None:
        self._lexical = lexical
        rarest = int(np.diff(lexical.indptr).min(initial=1)) if lexical is not None and len(lexical.terms) else 1
        self._largest = self._of_count(max(1, rarest))
        self._known: dict[int, float] = {}

    def __call__(self, stem: str) -> float:
        """The idf of a stem: `ln(1 + (N - df + .5) / (df + .5))`."""
        if self._lexical is None:
            return 1.0
        term = self._lexical.terms.get(stem)
        if term is None:
            return self._largest
        known = self._known.get(term)
        if known is None:
            known = self._of_count(int(self._lexical.indptr[term + 1] - self._lexical.indptr[term]))
            self._known[term] = known
        return known

    def _of_count(self, df: int) -> float:
        if self._lexical is None:
            return 1.0
        return log1p((len(self._lexical.lengths) - df + 0.5) / (df + 0.5))


def stems_of(text: str) -> list[str]:
    """The stems of a text's content words, each once, in alphabetical order."""
    return sorted({stem for word in name_tokens(text) if (stem := stem_of(word))})


def titled(page: Page, sentence: PageSentence) -> str:
    """A sentence as it is encoded: after its page's title, unless it says that itself."""
    return sentence.text if page.title_stems <= sentence.places.keys() else f"{page.passage.title}: {sentence.text}"


class Similarity:
    """How near sentences are to a question: by their vectors, or by the words they share where there are none.

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
            stems = stems_of(question)
            return [self.share(stems, frozenset(stems_of(text))) for text in texts]
        vector = self._encode([question])[0].astype(np.float64)
        return [float(value) for value in self._encode(texts, is_repeated=True).astype(np.float64) @ vector]

    def share(self, stems: Sequence[str], held: frozenset[str]) -> float:
        """Share of stems that are held, by idf; 0 of none."""
        total = fsum(self.idf(stem) for stem in stems)
        return fsum(self.idf(stem) for stem in stems if stem in held) / total if total else 0.0

    def best_pair(self, question: Question, pages: Sequence[Page]) -> list[Shown]:
        """The two sentences that say most of a question together, the one that says less of it last.

        Of all pairs of the shortlist (the sentences with the most words of the question, by idf): the cosine of the
        question with the sum of their vectors, the words they cover, and whether one leads to the other by name.
        """
        stems = stems_of(question.text)
        listed = sorted(
            (
                Shown(page, sentence, self.share(stems, page.title_stems.union(sentence.places)))
                for page in pages[:_PAGES]
                for sentence in page.sentences[:_OF_PAGE]
            ),
            key=lambda one: (_RANK * one.page.place - one.share, one.page.place, one.sentence.number),
        )[:SHORTLIST]
        if len(listed) < 2:
            return listed
        near = self._near(question, listed)
        held = [one.page.title_stems.union(one.sentence.places) for one in listed]

        def worth(pair: tuple[int, int]) -> float:
            first, second = (listed[number] for number in pair)
            covered = self.share(stems, held[pair[0]] | held[pair[1]])
            link = float(_leads_to(first, second.page) or _leads_to(second, first.page))
            pages_link = float(_mentions(first.page, second.page) or _mentions(second.page, first.page))
            return round(float(near[pair]) + COVERED * covered + LINKED * link + SAME_CHAIN * pages_link, 9)

        best = max(combinations(range(len(listed)), 2), key=worth)
        return sorted((listed[number] for number in best), key=lambda one: -one.share)

    def _near(self, question: Question, listed: Sequence[Shown]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Cosine of the question with the sum of each two sentences' vectors; 0 without vectors."""
        if self._encode is None or question.vector is None:
            return np.zeros((len(listed), len(listed)))
        vectors = self._encode([titled(one.page, one.sentence) for one in listed], is_repeated=True).astype(np.float64)
        cosines = vectors @ question.vector.astype(np.float64)
        lengths = np.sqrt(np.maximum(2 + 2 * (vectors @ vectors.T), 1e-9))
        return (cosines[:, None] + cosines[None, :]) / lengths


def _leads_to(one: Shown, page: Page) -> bool:
    """Whether a sentence names another page."""
    return page is not one.page and any(f" {key} " in one.sentence.key_text for key in page.title_keys)


def _mentions(one: Page, other: Page) -> bool:
    return one is other or one.mentions(other.title_keys)
