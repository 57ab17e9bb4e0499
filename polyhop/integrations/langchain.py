"""Passages of an index as LangChain's documents."""

import asyncio
from typing import Any

from polyhop.integrations import AnyIndex, PassageSearch
from polyhop.schemas.errors import import_extra

import_extra("The retriever for LangChain needs", "langchain-core", "langchain", module="langchain_core")

from langchain_core.documents import Document  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402


class PolyhopRetriever(BaseRetriever):
    """Ranks passages without reading them; `invoke(query, where=…, limit=…)` filters and cuts a single call.

    The arguments are those of `polyhop.integrations.PassageSearch`.
    """

    _passages: PassageSearch

    def __init__(self, index: AnyIndex, **options: Any) -> None:
        super().__init__()
        self._passages = PassageSearch(index, **options)

    def _get_relevant_documents(
        self, query: str, *, run_manager: object = None, where: str | None = None, limit: int | None = None
    ) -> list[Document]:
        return [
            Document(id=row["id"], page_content=row["text"], metadata={**metadata, "score": row["score"]})
            for row, metadata in self._passages.find(query, where, limit)
        ]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: object = None, where: str | None = None, limit: int | None = None
    ) -> list[Document]:
        return await asyncio.to_thread(self._get_relevant_documents, query, where=where, limit=limit)
