"""The page of SQL: links from ids, a chart, downloads of whole results, and saved queries."""

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from polyhop.schemas.settings import Settings
from polyhop.server import sql_pages
from polyhop.server.app import make_app
from polyhop.server.guard import csrf_token
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.query_processes import QueryLimits
from polyhop.warehouse.user_files import MAX_SAVED_QUERIES, read_saved_queries, save_query

COUNTS = "SELECT type, count(*) AS entities FROM entities WHERE type <> '' GROUP BY ALL ORDER BY entities DESC"


def sent(root: Path, method: str, path: str, *, allows_changes: bool = True, **given: Any) -> Any:
    app = make_app(Settings(root=root), allows_changes=allows_changes)
    with TestClient(app, "http://127.0.0.1", headers={"accept": "text/html"}) as client:
        return client.request(method, path, follow_redirects=method == "GET", **given)


def page(root: Path, query: str, **more: str) -> Any:
    return sent(root, "GET", "/sql", params={"index": "demo", "query": query, **more})


def saved(root: Path, name: str, query: str, *, allows_changes: bool = True, csrf: str | None = None) -> Any:
    data = {"csrf": csrf_token() if csrf is None else csrf, "index": "demo", "name": name, "query": query}
    return sent(root, "POST", "/sql/saved", allows_changes=allows_changes, data=data)


@pytest.mark.parametrize(
    ("table", "column", "kind"),
    [
        ("entities", "entity_id", "entities"),
        ("passages", "passage_id", "passages"),
        ("passages", "document_id", "documents"),
    ],
)
def test_an_id_in_a_result_leads_to_its_page(demo_root: Path, table: str, column: str, kind: str) -> None:
    text = page(demo_root, f"SELECT {column} FROM {table} ORDER BY ALL LIMIT 1").text
    address = text.split(f'href="/indexes/demo/{kind}/')[1].split('"')[0].replace("&amp;", "&")
    found = sent(demo_root, "GET", f"/indexes/demo/{kind}/{address}")
    assert found.status_code == 200


def test_a_label_and_a_number_in_each_row_are_a_chart(demo_root: Path) -> None:
    text = page(demo_root, COUNTS).text
    lengths = [float(part.split("%")[0]) for part in text.split('<i style="width: ')[1:]]
    assert len(lengths) > 2
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 100


@pytest.mark.parametrize(
    "query", ["SELECT 'a' AS x, -1 AS y UNION ALL SELECT 'b', 2", "FROM range(5)", "SELECT 'a', 1"]
)
def test_other_results_have_no_chart(demo_root: Path, query: str) -> None:
    assert 'class="chart"' not in page(demo_root, query).text


def test_downloads_hold_all_rows_of_a_result_that_the_page_shortens(demo_root: Path) -> None:
    query = "SELECT range AS n, 'é' || range AS name FROM range(25000)"
    assert "(truncated)" in page(demo_root, query).text
    rows = list(csv.reader(io.StringIO(page(demo_root, query, format="csv").text)))
    assert (len(rows), rows[0], rows[-1]) == (25_001, ["n", "name"], ["24999", "é24999"])
    table = pq.read_table(io.BytesIO(page(demo_root, query, format="parquet").content))
    assert (table.num_rows, table.slice(24_999).to_pylist()) == (25_000, [{"n": 24_999, "name": "é24999"}])


def test_a_result_that_a_download_cannot_hold_is_refused(demo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_pages, "EXPORT_LIMITS", QueryLimits(10, 30.0))
    reply = page(demo_root, "FROM range(11)", format="csv")
    assert (reply.status_code, "The result has more than 10 rows" in reply.text) == (422, True)


def test_a_saved_query_is_offered_until_it_is_deleted(demo_root: Path, tmp_path: Path) -> None:
    assert saved(tmp_path, "<b>types</b>", COUNTS).status_code == 303
    assert read_saved_queries(Layout(tmp_path)) == {"<b>types</b>": COUNTS}
    assert "&lt;b&gt;types&lt;/b&gt;</a>" in page(tmp_path, "", index="").text
    assert saved(tmp_path, "<b>types</b>", "").status_code == 303
    assert read_saved_queries(Layout(tmp_path)) == {}


@pytest.mark.parametrize(("allows_changes", "csrf"), [(False, None), (True, ""), (True, "x")])
def test_only_our_form_on_a_server_that_allows_changes_saves(
    tmp_path: Path, allows_changes: bool, csrf: str | None
) -> None:
    assert saved(tmp_path, "types", COUNTS, allows_changes=allows_changes, csrf=csrf).status_code == 403
    assert not Layout(tmp_path).saved_queries.exists()


def test_a_query_too_many_is_refused_and_the_others_stay(tmp_path: Path) -> None:
    for number in range(MAX_SAVED_QUERIES):
        save_query(Layout(tmp_path), f"q{number}", "SELECT 1")
    reply = saved(tmp_path, "another", "SELECT 2")
    assert (reply.status_code, "already 200 saved queries" in reply.text) == (422, True)
    assert len(read_saved_queries(Layout(tmp_path))) == MAX_SAVED_QUERIES
