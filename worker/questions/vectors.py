"""Questions with their vectors: one, another where short texts have an encoder of their own, those of further texts."""

from collections.abc import Sequence
from dataclasses import replace

from polyhop.schemas.ports import Services
from polyhop.schemas.query import Question


def with_vectors(
    questions: Sequence[Question], services: Services, further: Sequence[Sequence[str]] = ()
) -> list[Question]:
    """The questions with their vectors, in order.

    Args:
        questions: Any questions.
        services: Encode them.
        further: Of each question, the other texts that a strategy compares passages with; () if it asks for none.
            They and the questions are encoded in one call, each distinct text once.
    """
    texts = [question.text for question in questions]
    distinct = list(dict.fromkeys(text for some in further for text in some))
    if distinct:
        vectors, others = services.encode_beside(texts, distinct)
        vector_of = dict(zip(distinct, others, strict=True))
        encoded = [
            replace(question, vector=vector, further_vectors={text: vector_of[text] for text in some})
            for question, vector, some in zip(questions, vectors, further, strict=True)
        ]
    else:
        found = zip(questions, services.encode(texts), strict=True)
        encoded = [replace(question, vector=vector) for question, vector in found]
    if not services.has_two_encoders:
        return encoded
    both = zip(encoded, services.encode_entities(texts), strict=True)
    return [replace(question, entity_vector=vector) for question, vector in both]
