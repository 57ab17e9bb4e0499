"""An index of a Polyhop server, asked over HTTP (`polyhop.connect`): the methods of an open one, the same answers."""

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from polyhop.api import Answer, topic_of_each
from polyhop.graph import Connections, GraphEntity, ReachedEntity
from polyhop.schemas import errors
from polyhop.schemas.logs import has_no_request_path

if TYPE_CHECKING:
    import pyarrow as pa

    from polyhop.documents import Content
    from polyhop.inbox import InboxRun, Records

T = TypeVar("T")

_THREADS = 16  # that send the questions of a batch; chosen: the server joins those that wait
_POLL_SECONDS = 0.2  # between looks at a run; chosen: a run takes seconds, and a look is one small request
_ROW = TypeAdapter(dict[str, Any])
_ROWS = TypeAdapter(list[dict[str, Any]])
_ANSWER = TypeAdapter(Answer)
_ENTITIES = TypeAdapter(list[GraphEntity])
_REACHED = TypeAdapter(list[ReachedEntity])
_CONNECTIONS = TypeAdapter(Connections)


class RemoteIndex(AbstractContextManager["RemoteIndex"]):
    """An index of a Polyhop server. Close it, or use it in a `with` block; several threads may ask at once.

    Attributes:
        name: Name of the index.
        version: The version of the last answer; before the first, the one that was current when it was connected.
        default_strategy: The strategy that answers where none is named.
    """

    def __init__(self, url: str, index: str, token: str | None, timeout_seconds: float) -> None:
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL:
            address = httpx.URL("")
        if address.scheme not in {"http", "https"} or not address.host:
            raise errors.ConfigurationError(f"'{url}' is not a server's address; give one like http://127.0.0.1:4280.")
        if token and not (token.isascii() and token.isprintable()):
            raise errors.ConfigurationError("The token has characters that a header cannot hold; copy it again.")
        errors.remember_secrets([url, token or ""])
        self._server = f"{address.scheme}://{address.netloc.decode('ascii')}"  # without a password
        self._timeout_seconds = timeout_seconds
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=f"{url.rstrip('/')}/api/v1", headers=headers, timeout=timeout_seconds)
        logging.getLogger("httpx").addFilter(has_no_request_path)
        try:
            row = self._row_of(index)
        except errors.PolyhopError:
            self.close()
            raise
        self.name: str = row["index"]
        self.version: int = row["version"]
        self.default_strategy: str = row["strategy"]
        self._path = f"/indexes/{quote(self.name, safe='')}"

    def __repr__(self) -> str:
        return f"RemoteIndex({self.name!r}, version={self.version}, server={self._server!r})"

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
        """Answers one question; arguments and errors as of `Index.ask`."""
        options = {"strategy": strategy, "limit": limit, "parameters": parameters, "topic": topic, "where": where}
        return self._answer("ask", question=question, **options)

    def ask_batch(
        self, questions: Sequence[str], *, topics: Sequence[str | None] | None = None, **options: Any
    ) -> list[Answer]:
        """Answers several questions, in their order; the server makes batches of them."""
        given = topic_of_each(questions, topics)
        with ThreadPoolExecutor(_THREADS) as threads:
            return list(threads.map(lambda asked, topic: self.ask(asked, topic=topic, **options), questions, given))

    async def aask(self, question: str, **options: Any) -> Answer:
        """As `ask`, in a thread."""
        return await asyncio.to_thread(lambda: self.ask(question, **options))

    def search(self, query: str, **options: Any) -> Answer:
        """Ranks passages like `ask` but skips reading; options as of `Index.search`."""
        return self._answer("search", question=query, **options)

    def search_text(self, words: str, *, limit: int = 10) -> list[str]:
        """Ids of the passages that share words with these, as `Index.search_text`."""
        return list(self._post("text", _ROW, words=words, limit=limit)["passage_ids"])

    def find_entities(self, name: str, *, fuzzy: bool = True) -> list[GraphEntity]:
        """Entities of a name or, with `fuzzy`, of a part of it, as `Index.find_entities`."""
        row = self._get(f"{self._path}/entities", _ROW, name=name, fuzzy=fuzzy)
        return _ENTITIES.validate_python(row["entities"])

    def neighbours(self, entity_id: str, depth: int = 1) -> list[ReachedEntity]:
        """Entities within `depth` relations of one, at most 3, as `Index.neighbours`."""
        row = self._get(f"{self._path}/entities/{quote(entity_id, safe='')}", _ROW, depth=depth)
        return _REACHED.validate_python(row["neighbours"])

    def connect(self, a: str, b: str, *, max_length: int = 4, paths: int = 5) -> Connections:
        """The shortest connections between two names, of at most 10 relations, as `Index.connect`."""
        return self._get(f"{self._path}/connect", _CONNECTIONS, a=a, b=b, max_length=max_length, paths=paths)

    def sql(self, query: str) -> "pa.Table":
        """Runs read-only SQL, as `Index.sql`; values have the types that JSON leaves them, and rows a limit."""
        import pyarrow as pa

        row = self._post("sql", _ROW, query=query)
        if row["truncated"]:
            raise errors.StatementRejectedError(
                f"The query has more rows than the {len(row['rows']):,} that the server sends (10,000 rows and 8 MB at "
                "most); add a LIMIT, or select shorter values."
            )
        return pa.table({name: [one[name] for one in row["rows"]] for name in row["columns"]})

    def add(self, records: "Records", *, wait: bool = True) -> "InboxRun":
        """Adds records to the index, as `Index.add`; later answers are those of the new version.

        Each file is sent by its own request, after the records; those before a refused one are kept.

        Raises:
            SourceError: If a file cannot be read (nothing is sent), or the server refuses a record or a file.
            PolyhopError: If the server changes nothing (`--allow-changes`), or the run fails; its records are kept.
        """
        given = [records] if isinstance(records, str | Path | Mapping) else list(records)
        files = [Path(one) for one in given if isinstance(one, str | Path)]
        rows = [one for one in given if not isinstance(one, str | Path)]
        bodies: list[dict[str, Any]] = []
        if rows or not files:
            content, headers = json.dumps({"records": rows}, default=str), {"content-type": "application/json"}
            bodies.append({"content": content, "headers": headers})
        with _reading():
            bodies += [{"content": path.read_bytes(), "params": {"file": path.name}} for path in files]
        runs = [self._started("POST", f"{self._path}/documents", **body) for body in bodies]
        return self._awaited(runs, wait=wait)

    def put(self, document_id: str, content: "Content", *, wait: bool = True) -> "InboxRun":
        """Adds or replaces one document, as `Index.put`; its content is sent whole."""
        if isinstance(content, Path):
            with _reading():
                content = content.read_bytes()
        body = content if isinstance(content, bytes) else json.dumps(content, default=str)
        return self._awaited([self._started("PUT", self._document(document_id), content=body)], wait=wait)

    def delete(self, document_id: str, *, wait: bool = True) -> "InboxRun":
        """Deletes one document, as `Index.delete`."""
        return self._awaited([self._started("DELETE", self._document(document_id))], wait=wait)

    def switch(self, document_id: str, *, is_on: bool, wait: bool = True) -> "InboxRun":
        """Switches one uploaded file off or on, as `Index.switch`."""
        body = json.dumps({"on": is_on})
        return self._awaited([self._started("PATCH", self._document(document_id), content=body)], wait=wait)

    def _document(self, document_id: str) -> str:
        return f"{self._path}/documents/{quote(document_id, safe='')}"

    def _awaited(self, runs: "list[InboxRun]", *, wait: bool) -> "InboxRun":
        """The last of some runs: ended, or with `wait` False followed by a thread."""
        if not wait:
            for run in runs:
                Thread(target=self._follow, args=(run,), daemon=True).start()
            return runs[-1]
        for run in runs:
            self._follow(run)
            if run.error is not None:
                raise errors.PolyhopError(run.error)
        self.version = runs[-1].version or self.version
        return runs[-1]

    def _started(self, method: str, path: str, **body: Any) -> "InboxRun":
        from polyhop.inbox import InboxRun

        return InboxRun(self._request(method, path, _ROW, **body)["run"], self.name)

    def _follow(self, run: "InboxRun") -> None:
        """Looks at a run until it has ended, or cannot be seen any more."""
        while not run.ended.is_set():
            try:
                row = self._get(f"/runs/{run.run}", _ROW)
            except (errors.PolyhopError, RuntimeError) as error:  # the latter if this index was closed
                row = {"state": "failed", "version": None, "error": f"The run's progress cannot be read: {error}"}
            run.version, run.error, run.state = row["version"], row["error"], row["state"]
            if run.state == "running":
                time.sleep(_POLL_SECONDS)
            else:
                run.ended.set()

    def close(self) -> None:
        """Closes the connections to the server."""
        self._http.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _row_of(self, index: str) -> dict[str, Any]:
        row_of = {row["index"]: row for row in self._get("/indexes", _ROWS)}
        if index and index not in row_of:
            raise errors.UnknownIndexError(index, row_of, self._server)
        if not index and len(row_of) != 1:
            has = f"has the indexes {', '.join(sorted(row_of))}; name one of them" if row_of else "has no index yet"
            raise errors.ConfigurationError(f"The server at {self._server} {has}.")
        return row_of[index or next(iter(row_of))]

    def _answer(self, way: str, **body: Any) -> Answer:
        answer = self._post(way, _ANSWER, **{name: value for name, value in body.items() if value is not None})
        self.version = answer.version
        return answer

    def _get(self, path: str, kind: TypeAdapter[T], **asked: Any) -> T:
        return self._request("GET", path, kind, params=asked)

    def _post(self, way: str, kind: TypeAdapter[T], **body: Any) -> T:
        written = json.dumps(body, default=str)  # any text as ASCII, numbers of NumPy as text
        headers = {"content-type": "application/json"}
        return self._request("POST", f"{self._path}/{way}", kind, content=written, headers=headers)

    def _request(self, method: str, path: str, kind: TypeAdapter[T], **content: Any) -> T:
        """Sends a request and parses the reply; refusals and failed connections are raised as errors of Polyhop."""
        try:
            reply = self._http.request(method, path, **content)
        except httpx.HTTPError as error:
            why = f"closed the connection ({type(error).__name__}); try again later"
            if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                why = f"cannot be reached ({error}); start one with: polyhop ui, or check the address"
            elif isinstance(error, httpx.TimeoutException):
                why = f"did not answer within {self._timeout_seconds:g} s; try again later"
            raise errors.StoreUnavailableError(f"The server at {self._server} {why}.") from error
        try:
            if reply.headers.get("content-type", "").startswith("application/problem+json"):
                raise _problem(_ROW.validate_json(reply.content))
            return kind.validate_json(reply.raise_for_status().content)
        except (httpx.HTTPStatusError, ValidationError) as error:
            is_unavailable = reply.status_code in {502, 503, 504}  # says a proxy
            raise (errors.StoreUnavailableError if is_unavailable else errors.StoreError)(
                f"The server at {self._server} (status {reply.status_code}) is not a Polyhop server of this version; "
                "check the address, and update the older of the two."
            ) from error


def _problem(document: dict[str, Any]) -> errors.PolyhopError:
    """The error of a problem document: of the class that the server raised, with its sentence."""
    kind = getattr(errors, str(document.get("error")), None)
    if not (isinstance(kind, type) and issubclass(kind, errors.PolyhopError)):
        kind = errors.StoreUnavailableError if document.get("status") == 503 else errors.PolyhopError
    error = kind.__new__(kind)
    errors.PolyhopError.__init__(error, str(document.get("detail")))  # the class's own would make its sentence again
    return error


def connect(url: str, index: str = "", *, token: str | None = None, timeout_seconds: float = 120) -> RemoteIndex:
    """Connects to an index of a Polyhop server (`polyhop ui`).

    Args:
        url: The server's address, like http://127.0.0.1:4280.
        index: Name of the index; "": the only one that the server has.
        token: The server's token, if it asks for one.
        timeout_seconds: For an answer to come.

    Raises:
        ConfigurationError: If `url` is not an address, or no index is named and the server does not have exactly one.
        UnknownIndexError: If the server has no index of that name.
        StoreUnavailableError: If the server cannot be reached.
    """
    return RemoteIndex(url, index, token, timeout_seconds)


@contextmanager
def _reading() -> Iterator[None]:
    """Turns an error of reading a file that is to be sent into a SourceError."""
    try:
        yield
    except OSError as error:
        raise errors.SourceError(f"{error.filename} cannot be read ({error.strerror}); nothing was sent.") from error
