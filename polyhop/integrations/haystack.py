"""Passages of an index as Haystack's documents."""

import asyncio
from typing import Any

from polyhop.integrations import AnyIndex, PassageSearch
from polyhop.schemas.errors import ConfigurationError, import_extra

import_extra("The retriever for Haystack needs", "haystack-ai", "haystack", module="haystack")

from haystack import Document, component, default_from_dict, default_to_dict  # noqa: E402


@component
class PolyhopRetriever:
    """Ranks passages without reading them; the arguments are those of `polyhop.integrations.PassageSearch`.

    A pipeline that is saved names its index, and is loaded with `allowed_modules=["polyhop.integrations.haystack"]`.
    """

    def __init__(self, index: AnyIndex, **options: Any) -> None:
        self._saved = {"index": index, **options} | ({"root": str(options["root"])} if options.get("root") else {})
        self._passages = PassageSearch(index, **options)

    def to_dict(self) -> dict[str, Any]:
        """The component as a saved pipeline holds it.

        Raises:
            ConfigurationError: If it was made with an open index.
        """
        if not isinstance(self._saved["index"], str):
            raise ConfigurationError("A pipeline cannot save an open index; give the retriever its name, and the root.")
        saved: dict[str, Any] = default_to_dict(self, **self._saved)
        return saved

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "PolyhopRetriever":
        """The component that `to_dict` described."""
        made: PolyhopRetriever = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])
    def run(self, query: str, where: str | None = None, limit: int | None = None) -> dict[str, list[Document]]:
        """Ranked passages; `where` and `limit` go before the component's own."""
        found = self._passages.find(query, where, limit)
        documents = [Document(row["id"], row["text"], meta=metadata, score=row["score"]) for row, metadata in found]
        return {"documents": documents}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, where: str | None = None, limit: int | None = None
    ) -> dict[str, list[Document]]:
        """As `run`, in a thread."""
        return await asyncio.to_thread(self.run, query, where, limit)
