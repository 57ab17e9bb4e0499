"""A rule that fails on a passage: the passage goes to the quarantine with the reason, the run goes on without it."""

import json
from pathlib import Path

import pytest

from polyhop.flows.index import run_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import QuarantineExceededError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import parse_settings
from polyhop.schemas.types import name_type
from polyhop.tasks.extraction import rules
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import current_version
from polyhop.warehouse.tables.connection import connect

pytestmark = pytest.mark.slow

ODD = "Odd Town"
TEN_K = """UNITED STATES SECURITIES AND EXCHANGE COMMISSION
Washington, D.C. 20549

FORM 10-K

(Mark One)
☒ ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT OF 1934
For the fiscal year ended December 31, 2023
OR
☐ TRANSITION REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT OF 1934

Commission file number 001-36743 ACME INDUSTRIES, INC. (Exact name of Registrant as specified in its charter)
Delaware | 94-2404110
Title of each class | Trading symbol(s) | Name of each exchange on which registered
Common Stock, $0.00001 par value per share | ACME | The Nasdaq Stock Market LLC

Item 1. Business. Acme Industries was founded by Jane Roe in Leeds. Net sales were $383,285 million (in millions).
"""


def records(count: int = 40) -> list[dict[str, str]]:
    towns = [{"id": f"p{n}", "title": f"Town {n % 20}", "text": f"Town {n} lies near {ODD}."} for n in range(count)]
    return [*towns, {"id": "odd", "title": ODD, "text": f"{ODD} lies on the Aire."}]


def index(folder: Path, rows: list[dict[str, str]], **settings: object) -> IndexReport:
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    known = {"root": str(folder / "root"), "strategies": "bm25,bridge-lexical"} | settings
    return run_index(parse_settings({"test": known}), IndexRequest("one", corpus), DirectRunner())


def rows_of(folder: Path, sql: str) -> list[tuple[object, ...]]:
    index_folder = Layout(folder / "root").index("one")
    version = index_folder.version(current_version(index_folder) or 0)
    with connect(version.tables, read_only=True) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A rule with a defect that shows on one text."""
    whole = rules.find_dates  # type: ignore[attr-defined]

    def find_dates(text: str) -> object:
        if "on the Aire" in text:
            return [][len(text)]
        return whole(text)

    monkeypatch.setattr(rules, "find_dates", find_dates)
    return monkeypatch


def test_a_passage_that_a_rule_fails_on_goes_to_the_quarantine(tmp_path: Path, failing: pytest.MonkeyPatch) -> None:
    report = index(tmp_path, records())
    assert (report.counts["passages"], report.counts["quarantined"]) == (40, 1)
    ((source, line, reason, excerpt),) = rows_of(tmp_path, "FROM quarantine")
    assert (source, line, excerpt) == ("corpus.jsonl", 41, "Odd Town lies on the Aire.")
    assert "passage 'odd'" in str(reason)
    assert "IndexError: list index out of range (test_quarantined_passages.py line" in str(reason)


def test_the_rest_is_as_if_the_passage_were_not_in_the_corpus(tmp_path: Path, failing: pytest.MonkeyPatch) -> None:
    for name, rows in (("with", records()), ("without", records()[:-1])):
        (tmp_path / name).mkdir()
        index(tmp_path / name, rows)
    for table in ("passages", "documents", "entities", "mentions", "relations", "propositions"):
        with_it, without = (rows_of(tmp_path / name, f"FROM {table} ORDER BY ALL") for name in ("with", "without"))
        assert with_it == without


def test_a_document_loses_the_passage_only(tmp_path: Path, failing: pytest.MonkeyPatch) -> None:
    first, last = ({"id": key, "title": ODD, "text": "It is small."} for key in ("a", "z"))
    index(tmp_path, [first, *records(), last])
    assert rows_of(tmp_path, f"SELECT passage_id, ordinal FROM passages WHERE title = '{ODD}' ORDER BY 1") == [
        ("a", 0),
        ("z", 1),
    ]
    assert rows_of(tmp_path, f"SELECT passage_count FROM documents WHERE title = '{ODD}'") == [(2,)]


def test_it_is_tried_again_and_nothing_else_changes(tmp_path: Path, failing: pytest.MonkeyPatch) -> None:
    index(tmp_path, records())
    again = index(tmp_path, records())
    assert (again.changed, again.version) == (False, 1)
    failing.undo()
    fixed = index(tmp_path, records())
    assert (fixed.counts["passages"], fixed.counts["quarantined"]) == (41, 0)


def test_too_many_such_passages_end_the_run_and_nothing_is_published(
    tmp_path: Path, failing: pytest.MonkeyPatch
) -> None:
    with pytest.raises(QuarantineExceededError, match=r"(?s)1 of 10 records .* IndexError: list index out of range"):
        index(tmp_path, records(9))
    assert current_version(Layout(tmp_path / "root").index("one")) is None


def test_a_version_without_its_source_loses_the_passage_too(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    index(tmp_path, records())
    request.getfixturevalue("failing")
    settings = parse_settings({"test": {"root": str(tmp_path / "root"), "strategies": "bm25,bridge-lexical"}})
    report = run_index(settings, IndexRequest("one", None, full=True), DirectRunner())
    assert (report.counts["passages"], report.counts["quarantined"]) == (40, 1)
    assert rows_of(tmp_path, "SELECT source, line FROM quarantine") == [("corpus.jsonl", None)]


def test_of_a_passage_from_a_source_that_was_not_read_the_line_is_not_known(
    tmp_path: Path, failing: pytest.MonkeyPatch
) -> None:
    failing.undo()
    index(tmp_path, records())
    failing.setattr(rules, "find_dates", lambda text: [][len(text)] if "Aire" in text or "Leeds" in text else [])
    other = tmp_path / "other.jsonl"
    rows = [{"title": "York", "text": "It is large."}, {"title": "Leeds", "text": "Leeds is large."}]
    other.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    settings = parse_settings({"test": {"root": str(tmp_path / "root"), "strategies": "bm25,bridge-lexical"}})
    report = run_index(settings, IndexRequest("one", other, source_name="other", full=True), DirectRunner())
    assert (report.counts["passages"], report.counts["quarantined"]) == (41, 2)
    assert rows_of(tmp_path, "SELECT source, line FROM quarantine ORDER BY source") == [
        ("corpus.jsonl", None),
        ("other.jsonl", 2),
    ]


def test_an_annual_report_is_indexed_from_cover_page_to_names(tmp_path: Path) -> None:
    report = index(tmp_path, [{"id": "10-K", "title": "Acme Industries 10-K", "text": TEN_K}])
    assert report.counts["quarantined"] == 0
    names = dict(rows_of(tmp_path, "SELECT key, type FROM entities WHERE is_named"))  # type: ignore[arg-type, var-annotated]
    assert {"acme industries", "jane roe", "leeds"} <= names.keys()
    assert name_type("of the securities exchange act of")[0] == names["of the securities exchange act of"]
