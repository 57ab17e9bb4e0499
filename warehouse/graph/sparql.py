"""A SPARQL endpoint as the source of a graph: its triples are copied page by page into a file of N-Triples.

Pages are ordered by the text of every part of a triple, so that they neither overlap nor leave a gap; reading ends at
the first empty page, because servers may send fewer triples than a page asks for. Blank nodes have other names in every
reply, so triples of them are left out. Source: SPARQL 1.1 Query Language and Protocol (2013); reference/graphs.md.
"""

import logging
import time
from pathlib import Path
from typing import BinaryIO

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from polyhop.schemas import errors
from polyhop.schemas.records import Address
from polyhop.warehouse.statements import noted

PAGE_TRIPLES = 10_000  # chosen: what Virtuoso sends at most by default; a page takes some 2 MB
MOST_TRIPLES = 5_000_000  # chosen: ten times the largest graph that was indexed here
MOST_PAGE_BYTES = 256_000_000  # chosen: a hundred times a usual page
MOST_SECONDS = 6 * 3600.0  # chosen: a night; public endpoints that take longer offer dumps
REQUEST_SECONDS = 120.0  # chosen: public endpoints give up after 60
ATTEMPTS = 5  # of a page; chosen: their waits of up to 8 s together outlast a short outage
NTRIPLES = "application/n-triples"
_PASSING = (429, 500, 502, 503, 504)  # statuses of a server that may answer the next time
_QUERY = """
CONSTRUCT {{ ?s ?p ?o }} WHERE {{
  SELECT DISTINCT ?s ?p ?o WHERE {{ ?s ?p ?o FILTER (!isBlank(?s) && !isBlank(?o)) }}
  ORDER BY STR(?s) STR(?p) isLiteral(?o) STR(?o) LANG(?o) STR(DATATYPE(?o))
  LIMIT {limit} OFFSET {offset}
}}"""

_LOG = logging.getLogger(__name__)


class _PassingError(Exception):
    """A failure after which the same request may succeed."""


class SparqlEndpoint:
    """An endpoint, asked as the user of an address if it has one; redirects are not followed."""

    def __init__(self, address: Address, page_triples: int = PAGE_TRIPLES, most_triples: int = MOST_TRIPLES) -> None:
        self._uri = address.uri
        self._page, self._most = page_triples, most_triples
        auth = httpx.BasicAuth(address.user, address.password) if address.password else None
        self._client = httpx.Client(auth=auth, timeout=REQUEST_SECONDS, headers={"Accept": NTRIPLES})

    def close(self) -> None:
        """Ends all connections."""
        self._client.close()

    def copy(self, path: Path) -> int:
        """Writes all triples without blank nodes to a file; returns their number."""
        begun, count = time.monotonic(), 0
        with path.open("wb") as file:
            while triples := self._copy_page(file, count):
                count += triples
                if count > self._most:
                    raise errors.SourceError(
                        f"The graph at {self._uri} has more than {self._most:,} triples; export the part that you need "
                        "as N-Triples and index the file."
                    )
                if time.monotonic() - begun > MOST_SECONDS:
                    raise errors.SourceError(
                        f"Reading {self._uri} takes more than {MOST_SECONDS / 3600:.0f} hours; index a dump of it."
                    )
        return count

    def _copy_page(self, file: BinaryIO, offset: int) -> int:
        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, _PassingError)),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.5, max=30),
            before_sleep=noted(_LOG, "a page of a SPARQL endpoint"),
            reraise=True,
        )
        try:
            page = retrying(self._page_at, offset)
        except _PassingError as error:
            raise errors.StoreUnavailableError(
                f"The SPARQL endpoint {self._uri} does not answer ({error}); check the address and try again later."
            ) from error
        file.write(page if not page or page.endswith(b"\n") else page + b"\n")
        lines = (line.strip() for line in page.split(b"\n"))
        return sum(1 for line in lines if line and not line.startswith(b"#"))

    def _page_at(self, offset: int) -> bytes:
        query = _QUERY.format(limit=self._page, offset=offset)
        try:
            with self._client.stream("POST", self._uri, data={"query": query}) as response:
                self._check(response)
                page = bytearray()
                for part in response.iter_bytes():
                    page += part
                    if len(page) > MOST_PAGE_BYTES:
                        raise errors.SourceError(
                            f"A page of {self._uri} is larger than {MOST_PAGE_BYTES // 1_000_000} MB; index a dump of "
                            "the graph."
                        )
                return bytes(page)
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise _PassingError(type(error).__name__) from error

    def _check(self, response: httpx.Response) -> None:
        status = response.status_code
        if status in (401, 403):
            raise errors.ConfigurationError(
                f"The SPARQL endpoint {self._uri} refuses access (status {status}); set SPARQL_USER and "
                "SPARQL_PASSWORD."
            )
        if status in _PASSING:
            raise _PassingError(f"status {status}")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if status != httpx.codes.OK or kind not in (NTRIPLES, "text/plain"):
            raise errors.SourceError(
                f"{self._uri} answered a query with status {status} and {kind or 'no content type'}, not with "
                "N-Triples; name the address of a SPARQL 1.1 endpoint."
            )
