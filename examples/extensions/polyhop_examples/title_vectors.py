"""A kind of vectors in one file, with a strategy that searches them: passages whose titles are near the question.

`polyhop index corpus.jsonl --index NAME --add-strategy nearest-title` embeds the titles and publishes them in a table
of their own, which `polyhop sql "FROM title_vectors" --index NAME` shows.
"""

import numpy as np

from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question
from polyhop.warehouse.artefacts import vectors_of
from polyhop.warehouse.vectors.kinds import VectorKind
from polyhop.worker.strategies.base import Parameters, RankedStrategy, Ranking, question_vector, strategy

TITLES = VectorKind(
    "title",
    "titles",
    "SELECT passage_id AS id, title AS first, text AS second, passage_id AS rank FROM passages",
    text=lambda title, text: title or text,
    shown=lambda title, _text: title,
)


@strategy("nearest-title", "Passages whose titles are near the question.", Parameters, needs={"vectors:title"})
class NearestTitle(RankedStrategy):
    """Ranks passages by the cosine of their titles' vectors with the question's; it has no parameters."""

    def __init__(self, reader: IndexReader, _parameters: Parameters, _services: Services) -> None:
        super().__init__(reader)
        self._vectors = np.asarray(reader.artefact(vectors_of("title")), dtype=np.float64)

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, in descending order of score."""
        scores = self._vectors @ question_vector(question).astype(np.float64)
        numbers = np.argsort(-scores, kind="stable")[:count]
        return numbers, scores[numbers]
