"""Questions with their vectors: one, or two where entities and other short texts have an encoder of their own."""

from collections.abc import Sequence
from dataclasses import replace

from polyhop.schemas.ports import Services
from polyhop.schemas.query import Question


def with_vectors(questions: Sequence[Question], services: Services) -> list[Question]:
    """The questions with their vectors, in order.

    Args:
        questions: Any questions.
        services: Encode them.
    """
    texts = [question.text for question in questions]
    found = zip(questions, services.encode(texts), strict=True)
    encoded = [replace(question, vector=vector) for question, vector in found]
    if not services.has_two_encoders:
        return encoded
    both = zip(encoded, services.encode_entities(texts), strict=True)
    return [replace(question, entity_vector=vector) for question, vector in both]
