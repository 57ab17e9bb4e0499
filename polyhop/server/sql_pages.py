"""SQL: a query's rows with links, a chart and downloads, saved queries, and the tables that a query can read."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.parquet as pq
from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from polyhop.output import json_text
from polyhop.schemas.errors import ConfigurationError, PolyhopError, StatementRejectedError
from polyhop.server.api import Document, catalog_document, sql_document
from polyhop.server.guard import is_from_elsewhere
from polyhop.server.pages import Pages, index_link, require_form
from polyhop.server.problems import status_of
from polyhop.server.service import Service
from polyhop.warehouse.tables.query import COLUMNS_QUERY, TABLES_QUERY
from polyhop.warehouse.tables.query_processes import QueryLimits
from polyhop.warehouse.user_files import read_saved_queries, save_query

ROWS = 100  # of a result on one page
EXPORT_LIMITS = QueryLimits(1_000_000, 60.0, 256 << 20)  # of a download; chosen: one fits into memory several times
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
BARS = 50  # the most rows that a chart shows; chosen: they fit on one page
MAX_NAME, MAX_QUERY = 100, 100_000  # characters; chosen: those of the form
LINKED = {
    "entity_id": "entities",
    "source_id": "entities",
    "target_id": "entities",
    "document_id": "documents",
    "passage_id": "passages",
}
"""Columns whose values are ids, and the page below an index that shows each."""
EXAMPLES = (
    "FROM entities WHERE is_named ORDER BY df DESC LIMIT 20",
    "SELECT relation, sum(count) AS stated FROM relations GROUP BY ALL ORDER BY stated DESC LIMIT 50",
    "FROM index_runs ORDER BY run DESC",
    "SELECT state, count(*) AS questions FROM results GROUP BY ALL",
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a chart: its label, its value, and its length from 0 to 1."""

    label: str
    value: float
    length: float


def make_router(pages: Pages) -> APIRouter:
    """The routes of these pages."""
    router, service = APIRouter(), pages.service

    @router.get("/sql")
    async def sql(
        request: Request,
        *,
        index: str = "",
        query: str = "",
        page: int = 1,
        table: str = "",
        format: str = "",  # noqa: A002
    ) -> Response:
        names = service.index_names()
        chosen = index or (names[0] if names else "")
        context: dict[str, Any] = {"index": chosen, "query": query, "table": table, "sentence": "", "result": None}
        context |= {"tables": [], "columns": [], "examples": EXAMPLES, "link": "", "page": max(1, min(page, 10**6))}
        context |= {"saved": {}, "bars": []}
        status = 200
        try:
            context["saved"] = await service.run(lambda: read_saved_queries(service.layout))
            if chosen:
                context |= await service.run(lambda: _tables(service, chosen, table))
            if is_from_elsewhere(request.headers):
                context["sentence"] = "You came from another site; press Run to run the query." if query else ""
            elif query.strip() and format in MEDIA_TYPES:
                return await _download(service, chosen, query, format)
            elif query.strip():
                found = await sql_document(service, chosen, query)
                context |= {"result": found, "bars": bars_of(found), "hrefs": links_of(chosen, found)}
                context["link"] = f"/sql?{urlencode({'index': chosen, 'query': query})}"
        except PolyhopError as error:
            context["sentence"], status = str(error), status_of(error)
        return pages.page(request, "sql.html.jinja", status, rows_per_page=ROWS, **context)

    @router.post("/sql/saved")
    async def save(request: Request) -> Response:
        """Saves a query under a name, replacing one of that name; without a query the name is deleted."""
        form = await request.form()
        require_form(service, form)
        index, name, query = (str(form.get(field, "")).strip() for field in ("index", "name", "query"))
        if not name or len(name) > MAX_NAME or len(query) > MAX_QUERY:
            raise ConfigurationError(f"A saved query needs a name of at most {MAX_NAME} characters.")
        await service.run(lambda: save_query(service.layout, name, query))
        return RedirectResponse(f"/sql?{urlencode({'index': index, 'query': query})}", 303)

    return router


def links_of(index: str, found: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """{column: {id: the address of its page}} for the columns of a result that hold ids of the index."""
    link = index_link(index, found["version"])
    columns = {name: LINKED[name] for name in found["columns"] if name in LINKED}
    return {
        name: {row[name]: link(kind, row[name]) for row in found["rows"] if isinstance(row[name], str) and row[name]}
        for name, kind in columns.items()
    }


def bars_of(found: Mapping[str, Any]) -> list[Bar]:
    """The bars of a result with one number, none below zero, in each of its few rows; the first text labels them."""
    rows, columns = found["rows"], found["columns"]
    if found["truncated"] or not 1 < len(rows) <= BARS:
        return []
    numbers = [name for name in columns if all(_is_number(row[name]) for row in rows)]
    labels = [name for name in columns if all(isinstance(row[name], str) for row in rows)]
    if len(numbers) != 1 or not labels or min(row[numbers[0]] for row in rows) < 0:
        return []
    most = max(row[numbers[0]] for row in rows) or 1
    return [Bar(row[labels[0]], row[numbers[0]], row[numbers[0]] / most) for row in rows]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _tables(service: Service, index: str, table: str) -> Document:
    """The tables of an index, and the columns of one."""
    tables = catalog_document(service, index, TABLES_QUERY)["rows"]
    columns = catalog_document(service, index, COLUMNS_QUERY)["rows"] if table else []
    return {"tables": tables, "columns": [row for row in columns if row["table"] == table]}


async def _download(service: Service, index: str, query: str, kind: str) -> Response:
    """All rows of a query as a file.

    Raises:
        StatementRejectedError: If there are more than EXPORT_LIMITS, or a column does not fit into Parquet.
    """
    found = await sql_document(service, index, query, limits=EXPORT_LIMITS)
    if found["truncated"]:
        raise StatementRejectedError(
            f"The result has more than {EXPORT_LIMITS.rows:,} rows or {EXPORT_LIMITS.bytes >> 20} MB; select less, or "
            f"write it with polyhop sql {index} QUERY --json."
        )
    content = await service.run(lambda: _file(found["columns"], found["rows"], kind))
    headers = {"content-disposition": f'attachment; filename="query.{kind}"'}
    return Response(content, media_type=MEDIA_TYPES[kind], headers=headers)


def _file(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], kind: str) -> bytes:
    """Rows in a file's format."""
    if kind == "jsonl":
        return "".join(f"{json_text(row)}\n" for row in rows).encode("utf-8", "replace")
    if kind == "csv":
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(columns)
        writer.writerows([row[name] for name in columns] for row in rows)
        return text.getvalue().encode("utf-8", "replace")
    arrays = {}
    for name in columns:
        try:
            arrays[name] = pa.array([row[name] for row in rows])
        except (pa.ArrowException, OverflowError) as error:
            sentence = f"Column '{name}' does not fit into Parquet; write CAST({name} AS VARCHAR), or choose CSV."
            raise StatementRejectedError(sentence) from error
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays), sink)
    return sink.getvalue()
