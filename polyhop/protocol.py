"""The methods of an index, whether it is open in this process (`open_index`) or asked over HTTP (`connect`)."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from polyhop.api import Answer
from polyhop.graph import Connections, GraphEntity, ReachedEntity

if TYPE_CHECKING:
    import pyarrow as pa

    from polyhop.documents import Content
    from polyhop.inbox import InboxRun, Records


class IndexLike(AbstractContextManager["IndexLike"], Protocol):
    """An index that answers; `Index` and `RemoteIndex` are the two kinds. Close it, or use it in a `with` block.

    An `Index` is one version; a `RemoteIndex` asks whichever version is current at the server, which bounds the rows of
    `sql` (10,000), the depth of `neighbours` (3) and the length of connections (10).
    """

    @property
    def name(self) -> str:
        """Name of the index."""
        ...

    @property
    def version(self) -> int:
        """The open version, or that of the server's last answer."""
        ...

    @property
    def default_strategy(self) -> str:
        """The strategy that answers where none is named."""
        ...

    def ask(
        self,
        question: str,
        *,
        strategy: str | None = None,
        limit: int = 10,
        parameters: Mapping[str, object] | None = None,
        topic: str | None = None,
        where: str | None = None,
    ) -> Answer:
        """Answers one question.

        Args:
            question: Any text with at least one word.
            strategy: How passages are found; default: `default_strategy`.
            limit: Passages to return, at least 1.
            parameters: The strategy's own settings.
            topic: The entity that the question is about, by name or id.
            where: A filter of records.

        Raises:
            PolyhopError: As `Index.ask`.
        """
        ...

    def ask_batch(
        self,
        questions: Sequence[str],
        *,
        strategy: str | None = None,
        limit: int = 10,
        parameters: Mapping[str, object] | None = None,
        topics: Sequence[str | None] | None = None,
        where: str | None = None,
    ) -> list[Answer]:
        """Answers several questions, in their order; `topics` has one entry per question."""
        ...

    def search(
        self,
        query: str,
        *,
        strategy: str | None = None,
        limit: int = 10,
        parameters: Mapping[str, object] | None = None,
        topic: str | None = None,
        where: str | None = None,
    ) -> Answer:
        """Ranks passages as `ask` does, without reading an answer from them: no model is paid."""
        ...

    def search_text(self, words: str, *, limit: int = 10) -> list[str]:
        """Ids of the passages that share words with these, in descending order of BM25."""
        ...

    def find_entities(self, name: str, *, fuzzy: bool = True) -> list[GraphEntity]:
        """Entities of a name, those of the full name first; with `fuzzy` also those of a part of it.

        Raises:
            MissingArtefactError: If the version was built without relations.
        """
        ...

    def neighbours(self, entity_id: str, depth: int = 1) -> list[ReachedEntity]:
        """Entities within `depth` relations of one, without it, by hops, then key.

        Raises:
            UnknownIdError: If the version has no entity of this id.
            PolyhopError: If `depth` is below 1.
        """
        ...

    def connect(self, a: str, b: str, *, max_length: int = 4, paths: int = 5) -> Connections:
        """The shortest connections between two names, with the passages that state them.

        Raises:
            UnknownIdError: If no entity has one of the names.
        """
        ...

    def sql(self, query: str) -> "pa.Table":
        """Runs read-only SQL on the version's tables.

        Raises:
            StatementRejectedError: If the query does anything but read, or DuckDB refuses it.
        """
        ...

    def add(self, records: "Records", *, wait: bool = True) -> "InboxRun":
        """Adds records or files to the index, and publishes a version with them.

        Args:
            records: Records {id?, title?, text, metadata?}, and paths of files.
            wait: Returns once the version is published; False: while it is made.

        Raises:
            SourceError: If a record cannot be used.
            PolyhopError: If the run fails; its records are kept.
        """
        ...

    def put(self, document_id: str, content: "Content", *, wait: bool = True) -> "InboxRun":
        """Adds or replaces one document, and publishes a version with it.

        Args:
            document_id: Path of an uploaded file, with the ending of its format, or any other id of a record.
            content: The file's bytes or path, or a record {title?, text, metadata?}.
            wait: Returns once the version is published; False: while it is made.

        Raises:
            SourceError: If the document cannot be kept, or another source of the index has its id.
            PolyhopError: If the run fails; the document is kept.
        """
        ...

    def delete(self, document_id: str, *, wait: bool = True) -> "InboxRun":
        """Deletes an uploaded file or an added record, and publishes a version without its passages.

        Raises:
            UnknownIdError: If the index has no such document.
            SourceError: If another source of the index holds it, or it is the only document.
        """
        ...

    def switch(self, document_id: str, *, is_on: bool, wait: bool = True) -> "InboxRun":
        """Switches an uploaded file off, which keeps it but publishes a version without its passages, or on again.

        Raises:
            UnknownIdError: If the index has no such document.
            SourceError: If it is no uploaded file, or the only document.
        """
        ...

    def close(self) -> None:
        """Releases the version, or the connections."""
        ...
