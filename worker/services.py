"""What strategies may ask of models and databases while they answer, opened when first asked for.

Implements polyhop.schemas.ports.Services for one open version; ranks nothing.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.chat import ChatModel, Role
from polyhop.schemas.encoder_settings import ENTITIES, PASSAGES, Space
from polyhop.schemas.manifest import VectorRecord
from polyhop.schemas.ports import Reranker, SpreadingDatabase
from polyhop.schemas.settings import Settings
from polyhop.warehouse.artefacts import GRAPH
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.open import open_graph_store
from polyhop.warehouse.open_encoders import open_path_encoder, open_question_encoder, open_version_encoder
from polyhop.warehouse.vectors.kinds import space_of


def _asked(record: VectorRecord) -> tuple[str, str]:
    """What a question's vector among these depends on."""
    return record.model, record.encoder.query_prefix


class SessionServices:
    """The version's encoder, the configured chat model and cross-encoder, and the graph database that holds it."""

    def __init__(self, published: PublishedIndex, settings: Settings) -> None:
        self._published = published
        self._settings = settings
        self._closing = ExitStack()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension), float32, length 1."""
        return open_version_encoder(self._settings, self._vectors(PASSAGES)).encode_questions(texts)

    def encode_beside(
        self, questions: Sequence[str], repeated: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Vectors of questions, and of texts that come again with others: cached (encoder.path_vectors)."""
        return open_question_encoder(self._settings, self._vectors(PASSAGES)).encode_beside(questions, repeated)

    @property
    def has_two_encoders(self) -> bool:
        """Whether entities and other short texts have vectors by another encoder than passages."""
        passages, short = self._vectors(PASSAGES), self._vectors(ENTITIES)
        return passages is not None and short is not None and _asked(passages) != _asked(short)

    def encode_entities(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `encode`, by the encoder of entities, propositions and other short texts."""
        return open_version_encoder(self._settings, self._vectors(ENTITIES)).encode_questions(texts)

    def encode_paths(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `encode_entities`, for texts of paths, which questions bring up again: cached (encoder.path_vectors)."""
        if not self._settings.encoder.path_vectors:
            return self.encode_entities(texts)
        return open_path_encoder(self._settings, self._vectors(ENTITIES)).encode(texts)

    def chat(self) -> ChatModel | None:
        """The chat model for reading (models.read); None if none is configured."""
        return self._chat if self._settings.models.chat_reader else None

    def reranker(self) -> Reranker | None:
        """The configured cross-encoder (models.rerank), opened once per process; None if none is configured."""
        if not self._settings.models.rerank:
            return None
        from polyhop.warehouse.models.reranker import open_reranker

        return open_reranker(self._settings.models.rerank, Layout(self._settings.root).model_cache)

    def graph_database(self) -> SpreadingDatabase:
        """The Neo4j database that this version was exported to, opened once."""
        return self._graph_database

    def close(self) -> None:
        """Closes the connection to the graph database, if one was opened."""
        self.__dict__.pop("_graph_database", None)
        self._closing.close()

    def _vectors(self, space: Space) -> VectorRecord | None:
        """Of a space; where nothing lies in it, of the other."""
        records = self._published.manifest.vectors
        own = [record for name, record in records.items() if space_of(name) == space]
        return next(iter([*own, *records.values()]), None)

    @cached_property
    def _chat(self) -> ChatModel:
        from polyhop.warehouse.open_models import open_chat

        return open_chat(self._settings, Role.READ)

    @cached_property
    def _graph_database(self) -> SpreadingDatabase:
        from polyhop.warehouse.graph.address import find_address

        store = open_graph_store(find_address(None, None, None, named_by="NEO4J_URI"), self._published.name)
        self._closing.callback(store.close)
        return store.spreading(self._published.version, self._published.artefact(GRAPH).keys)
