"""Where a graph search starts: entities of a question by exact name, by a part of a name, or by similarity.

Traverses nothing. Source: algorithms.md 5.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError, ConfigurationError
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.query import Question, QuestionName
from polyhop.warehouse.artefacts import GRAPH, NAMES, vectors_of
from polyhop.worker.ranking.entity_search import NameSearch, similar_entities
from polyhop.worker.strategies.lookup import NameLookup

Matcher = Literal["exact", "fuzzy", "embedding"]


@dataclass(frozen=True, slots=True)
class StartEntities:
    """Entities that a question starts from.

    Attributes:
        numbers: Distinct, ascending.
        unmatched: Names that no entity has, ascending.
        has_names: Whether the question had any name at all; with similarity it needs none.
        similarities: Cosine by entity number, where similarity found them.
    """

    numbers: tuple[int, ...]
    unmatched: tuple[str, ...]
    has_names: bool
    similarities: dict[int, float]


class EntityStart(Protocol):
    """Finds the entities that a question starts from."""

    def find(self, question: Question) -> StartEntities:
        """The entities, and what of the question led to none."""
        ...


class NamedStart:
    """By the question's names: those it came with, else those that the index's own finder finds."""

    def __init__(self, reader: IndexReader, *, is_fuzzy: bool) -> None:
        self._finder = reader.artefact(NAMES)
        self._lookup = NameLookup(reader)
        self._search = NameSearch(reader.artefact(GRAPH).keys) if is_fuzzy else None

    def find(self, question: Question) -> StartEntities:
        """Entities of these names, or of names that contain them; a name merged into an entity's stands for it."""
        keys = [name.key for name in question.names] or [m.key for m in self._finder.find(question.text)]
        return self.named(keys)

    def named(self, names: Sequence[str]) -> StartEntities:
        """The same for names given one by one."""
        found: set[int] = set()
        unmatched = []
        for name in sorted(set(names)):
            entities = {*self._lookup.find(QuestionName(name, name))[1]}
            entities.update(self._search.containing(name) if self._search else ())
            if not entities:
                unmatched.append(name)
            found |= entities
        return StartEntities(tuple(sorted(found)), tuple(unmatched), has_names=bool(names), similarities={})


class SimilarStart:
    """By the similarity of entities to the whole question."""

    def __init__(self, vectors: NDArray[np.float32], count: int, min_similarity: float) -> None:
        self._vectors = vectors
        self._count = count
        self._min_similarity = min_similarity

    def find(self, question: Question) -> StartEntities:
        """The nearest entities.

        Raises:
            AlgorithmError: If the caller did not encode the question.
        """
        vector = question.vector if question.entity_vector is None else question.entity_vector
        vector = question.hint_vectors.get(question.text) if vector is None else vector
        if vector is None:
            raise AlgorithmError(f"matcher=embedding needs the question's vector; encode '{question.text}' first.")
        numbers, cosines = similar_entities(self._vectors, vector, self._count, self._min_similarity)
        similarities = dict(zip(numbers.tolist(), cosines.tolist(), strict=True))
        return StartEntities(tuple(sorted(similarities)), (), has_names=True, similarities=similarities)


def start_by(reader: IndexReader, strategy: str, matcher: Matcher, count: int, min_similarity: float) -> EntityStart:
    """The start that a strategy's parameters ask for.

    Raises:
        ConfigurationError: If similarity is asked for and the index has no vectors of entities.
    """
    if matcher != "embedding":
        return NamedStart(reader, is_fuzzy=matcher == "fuzzy")
    if "vectors:entity" not in reader.artefacts:
        raise ConfigurationError(
            f"matcher=embedding of strategy '{strategy}' needs 'vectors:entity', which index '{reader.name}' was built "
            f"without. Build it with: polyhop index --index {reader.name} --add-strategy naive-vector"
        )
    return SimilarStart(np.asarray(reader.artefact(vectors_of("entity"))), count, min_similarity)
