"""What comes out of reading a question file: questions with whatever the file knows about their answers.

Holds no reader (warehouse/files/questions.py does) and no metric.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_QUESTION_CHARACTERS = 10_000
"""A longer question is refused: thirty times the longest of MuSiQue and ORKG (294), ten times what the local encoder
reads of a text (256 tokens); enough for a pasted page, too little to keep a worker busy."""


TripleIds = tuple[str, str, str]
"""Id of the subject, the predicate, id of the object: the graph's own ids."""

GoldenTriple = str | TripleIds
"""A triple that answers a question, by its ids or as a text such as `(R1:Ada Lovelace, born in, R2:London)`."""


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """A question as a file states it.

    `answers`, `supporting` (ids of the records that hold the answer) and `golden_triples` are empty where the file
    names none; `hops` is the number of records to combine, `type` and `topic` are the file's own words.
    """

    id: str
    question: str
    answers: tuple[str, ...] = ()
    supporting: tuple[str, ...] = ()
    hops: int | None = None
    type: str | None = None
    topic: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    golden_triples: tuple[GoldenTriple, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """An answer that somebody predicted ("": none), beside the gold answers (none: it is not judged)."""

    id: str
    prediction: str
    answers: tuple[str, ...]
