"""The report's page: escaping, completeness in itself, order and marks."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from bs4 import BeautifulSoup, Tag

from polyhop.tasks.evaluation.page import milliseconds, report_page

Make = Callable[[Sequence[str]], tuple[dict[str, Any], dict[str, Any]]]
HOSTILE = "</td></style><script>document.title='x'</script><img src=//x onerror=alert(1)>{{ 7*7 }}&lt;b&gt;\"'"
PLOTS = {"recall_at_k.png": b"\x89PNG one", "paired_differences.png": b"\x89PNG two", "unknown.png": b"never shown"}


def _table(page: BeautifulSoup, section: str, number: int = 0) -> Tag:
    table = page.select(f"#{section} table")[number]
    assert isinstance(table, Tag)
    return table


def _names(table: Tag) -> list[str]:
    return [cell.get_text() for cell in table.select("tbody th")]


def test_markup_in_names_ids_and_errors_is_text(documents: Make) -> None:
    run, timings = documents([HOSTILE, "dense" + HOSTILE])
    run |= {"index": HOSTILE, "reader": HOSTILE, "parameters": {HOSTILE: HOSTILE}, "left_out": {HOSTILE: HOSTILE}}
    run["questions"]["file"] = HOSTILE
    run["by_type"] = {HOSTILE: next(iter(run["by_type"].values()))}
    run["results"][HOSTILE] |= {
        "tokens": {HOSTILE: 3},
        "failures": 1,
        "failed": [{"id": "q" + HOSTILE, "error": "e" + HOSTILE}],
    }
    timings["machine"] = {HOSTILE: HOSTILE}
    timings["strategies"][HOSTILE]["parts_ms"][HOSTILE] = {"p50": 1.0}
    page = BeautifulSoup(report_page(run, timings, {}), "html.parser")
    assert page.find_all(["script", "iframe", "object", "link", "form", "img"]) == []
    assert page.title is not None
    assert page.title.get_text().startswith(f"Evaluation of index {HOSTILE}, version 3")
    cells = [cell.get_text() for cell in _table(page, "failures").select("tbody th, tbody td")]
    assert cells == [HOSTILE, "q" + HOSTILE, "e" + HOSTILE]
    assert HOSTILE in _table(page, "cost").get_text()


def test_the_page_is_complete_in_itself(documents: Make) -> None:
    text = report_page(*documents(["bridge", "dense"]), PLOTS)
    page = BeautifulSoup(text, "html.parser")
    policy = page.find("meta", {"http-equiv": "Content-Security-Policy"})
    assert isinstance(policy, Tag)
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert re.findall(r"(?:https?:)?//[a-z]", text) == []
    images = page.find_all("img")
    assert [image["src"] for image in images] == [
        "data:image/png;base64,iVBORyBvbmU=",
        "data:image/png;base64,iVBORyB0d28=",
    ]
    assert all(image["alt"] for image in images)
    targets = {link["href"] for link in page.select("nav a")}
    assert targets == {f"#{section['id']}" for section in page.find_all("section")}


def test_strategies_are_sorted_by_recall_and_the_best_of_each_column_is_marked(documents: Make) -> None:
    run, timings = documents(["first", "second", "third"])
    run["results"]["third"]["recall@5"] = 0.99
    table = _table(BeautifulSoup(report_page(run, timings, {}), "html.parser"), "results")
    assert _names(table) == ["third", "first", "second"]
    header = [cell.get_text() for cell in table.select("thead th")]
    marked = {
        header[column]: row.get_text(" ").split()[0]
        for row in table.select("tbody tr")
        for column, cell in enumerate(row.find_all(["th", "td"]))
        if cell.get("class") == ["best"]
    }
    assert (marked["recall@5"], marked["recall@1"], marked["mrr"]) == ("third", "third", "first")
    assert (marked["p50 ms"], marked["p95 ms"]) == ("first", "first")
    assert "failures" not in marked


def test_differences_beyond_chance_are_coloured_by_their_direction(documents: Make) -> None:
    run, timings = documents(["base", "unclear", "worse", "better"])
    run["paired"]["better"] = {
        "recall@5": {
            "difference": 0.2,
            "low": 0.1,
            "high": 0.3,
            "wins": 9,
            "ties": 1,
            "losses": 0,
            "significant": True,
        }
    }
    table = _table(BeautifulSoup(report_page(run, timings, {}), "html.parser"), "differences")
    cells = {row.th.get_text(): row.td for row in table.select("tbody tr") if row.th}
    found = {name: (cell.get_text(), cell.get("class")) for name, cell in cells.items() if cell}
    assert found == {
        "unclear": ("-0.030 [-0.080, +0.020] 4/90/7", None),
        "worse": ("-0.060 [-0.110, -0.010] 4/90/8", ["worse"]),
        "better": ("+0.200 [+0.100, +0.300] 9/1/0", ["better"]),
    }


def test_all_of_25_strategies_are_in_the_tables(documents: Make) -> None:
    names = [f"s{n:02d}" for n in range(25)]
    page = BeautifulSoup(report_page(*documents(names), {}), "html.parser")
    assert _names(_table(page, "results")) == names
    assert _names(_table(page, "differences")) == names[1:]
    assert _names(_table(page, "by-1")) == names
    assert _names(_table(page, "latency")) == names


def test_what_is_missing_is_left_out(empty_documents: tuple[dict[str, Any], dict[str, Any]]) -> None:
    page = BeautifulSoup(report_page(*empty_documents, {}), "html.parser")
    assert [section["id"] for section in page.find_all("section")] == ["results"]
    assert "None" not in page.get_text()


def test_what_was_left_out_is_said(documents: Make) -> None:
    run, timings = documents(["bridge"])
    run["left_out"] = {"qasa": "the index has no entity vectors."}
    assert "qasa (the index has no entity vectors.)" in report_page(run, timings, {})


def test_very_many_failures_are_cut_and_counted(documents: Make) -> None:
    run, timings = documents(["bridge"])
    failed = [{"id": f"q{n}", "error": "gone"} for n in range(450)]
    run["results"]["bridge"] |= {"failures": 450, "failed": failed}
    page = BeautifulSoup(report_page(run, timings, {}), "html.parser")
    assert len(_table(page, "failures").select("tbody tr")) == 50
    assert "the first 50, 400 more in run.json" in _table(page, "failures").get_text()


def test_equal_documents_give_equal_pages(documents: Make) -> None:
    assert report_page(*documents(["a", "b"]), PLOTS) == report_page(*documents(["a", "b"]), PLOTS)


def test_numbers_are_written_for_people() -> None:
    assert [milliseconds(value) for value in (None, 0.512, 7.731, 16.24, 249.6)] == ["–", "0.51", "7.73", "16.2", "250"]
