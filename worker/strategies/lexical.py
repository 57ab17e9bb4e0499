"""`bm25`: passages by shared words. Source: algorithms.md 2.9."""

from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question
from polyhop.schemas.stems import analyser_of
from polyhop.warehouse.artefacts import lexical_of
from polyhop.worker.ranking.bm25 import count_terms, impacts, top
from polyhop.worker.strategies.base import LexicalParameters, RankedStrategy, Ranking, strategy

ANALYSER = "plain"


class LexicalRanker:
    """BM25 over plain tokens; repeated question words count repeatedly. Passages without a shared word are left out."""

    def __init__(self, reader: IndexReader, parameters: LexicalParameters) -> None:
        lexical = reader.artefact(lexical_of(ANALYSER))
        self._impacts = impacts(lexical, parameters.k1, parameters.b)
        self._tokens = analyser_of(ANALYSER, lexical.language)

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, in descending order of score."""
        return top(self._impacts, count_terms(self._tokens(question.text), self._impacts.terms), count)


@strategy(
    "bm25",
    "Passages by shared words (BM25).",
    LexicalParameters,
    needs={"lexical:plain"},
)
def build_bm25(reader: IndexReader, parameters: LexicalParameters, _services: Services) -> RankedStrategy:
    """`bm25` on an open version."""
    return RankedStrategy("bm25", reader.passage_ids, LexicalRanker(reader, parameters))
