"""`bm25`: passages by shared words. Source: algorithms.md 2.9."""

from schemas.ports import IndexReader
from schemas.query import Question
from schemas.stems import ANALYSERS
from worker.ranking.bm25 import count_terms, impacts, score
from worker.ranking.order import best_positive
from worker.strategies.ranked import RankedStrategy
from worker.strategies.results import Ranking
from worker.strategies.spec import LexicalParameters

ANALYSER = "plain"


class LexicalRanker:
    """BM25 over plain tokens; repeated question words count repeatedly. Passages without a shared word are left out."""

    def __init__(self, reader: IndexReader, parameters: LexicalParameters) -> None:
        self._impacts = impacts(reader.lexical(ANALYSER), parameters.k1, parameters.b)
        self._tokens = ANALYSERS[ANALYSER]

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, best first."""
        scores = score(self._impacts, count_terms(self._tokens(question.text), self._impacts.terms))
        numbers = best_positive(scores, count)
        return numbers, scores[numbers]


def build_bm25(reader: IndexReader, parameters: LexicalParameters) -> RankedStrategy:
    """`bm25` on an open version."""
    return RankedStrategy("bm25", reader.passage_ids, LexicalRanker(reader, parameters))
