"""Passages of an index as LlamaIndex's nodes."""

import asyncio
from typing import Any

from polyhop.integrations import AnyIndex, PassageSearch
from polyhop.schemas.errors import import_extra

import_extra("The retriever for LlamaIndex needs", "llama-index-core", "llama-index", module="llama_index.core")

from llama_index.core.retrievers import BaseRetriever  # noqa: E402
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode  # noqa: E402


class PolyhopRetriever(BaseRetriever):
    """Ranks passages without reading them; the arguments are those of `polyhop.integrations.PassageSearch`."""

    def __init__(self, index: AnyIndex, **options: Any) -> None:
        super().__init__()
        self._passages = PassageSearch(index, **options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(id_=row["id"], text=row["text"], metadata=metadata), score=row["score"])
            for row, metadata in self._passages.find(query_bundle.query_str)
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
