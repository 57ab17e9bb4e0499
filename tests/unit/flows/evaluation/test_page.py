"""The page of a report, its plots and its summary, and the scripts of benchmarks/papers on a small run."""

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from struct import unpack
from typing import Any

import confidence_and_groups
import cost_against_size
import generated_corpus
import memory
import names_and_graphs
import parameters
import pytest
from bs4 import BeautifulSoup, Tag
from drawing import drawing, stored_ranges
from small_indexes import indexed, write_rows

from polyhop.flows.evaluation import page as pages
from polyhop.flows.evaluation import report as reports
from polyhop.flows.evaluation.report import GoldQuestion, Outcome
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import escaped

Documents = tuple[dict[str, Any], dict[str, Any]]
MARKUP = "</td></style><script>document.title='x'</script><img src=//x onerror=alert(1)>{{ 7*7 }}&lt;b&gt;\"'"
MARKDOWN = "a|b\n# c <img src=x onerror=alert(1)> [x](javascript:alert) `d` **e** _f_ $g$ \\| & ![h](i)"
MATHS = ["$\\frac{1}{", "two $dollars$", "_hidden", "山田\U0001f600\x07\nnew line", "%s {0} \\n", ""]
BETTER = {"difference": 0.2, "low": 0.1, "high": 0.3, "wins": 9, "ties": 1, "losses": 0, "significant": True}
WORSE = {"difference": -0.06, "low": -0.11, "high": -0.01, "wins": 4, "ties": 90, "losses": 8, "significant": True}


def documents(*labels: str, baselines: Sequence[str] = (), is_judged: bool = True) -> Documents:
    """A run of these strategies on twelve questions and its timings, as the flow stores them."""
    run, timings = json.loads(_stored(labels, tuple(baselines) or labels[:1], is_judged))
    return run, timings


@cache
def _stored(labels: Sequence[str], baselines: Sequence[str], is_judged: bool) -> str:
    gold = [GoldQuestion("q")]
    outcomes = {label: [Outcome()] for label in labels}
    if is_judged:
        kinds = ("bridge", "comparison")
        gold = [GoldQuestion(f"q{n}", ("Rome",), frozenset({"p"}), 2 + n % 3, kinds[n % 2]) for n in range(12)]
        for place, label in enumerate(labels):
            same = Outcome(
                (*map(str, range(place)), "p"), "Rome", 0.01 + place, parts={"seed": 0.001}, prompt_tokens=100
            )
            answers = ["Rome" if n + place < 9 else "Bonn" for n in range(12)]
            outcomes[label] = [replace(same, guess=said, confidence=n / 12) for n, said in enumerate(answers)]
    report = reports.evaluate(gold, outcomes, str, baselines)
    values = {label: reports.question_values(gold, given, str) for label, given in outcomes.items()}
    questions = {"file": "questions.jsonl", "sha256": "ab" * 32, "sample": None, "unknown_supporting": 0}
    asked = {"index": "films", "version": 3, "questions": questions, "reader": "rules", "depth": 100, "polyhop": "1.0"}
    chosen: dict[str, Any] = {"parameters": {}, "left_out": {}, "ranges": [], "settings": {}}
    run = reports.run_document({**asked, **chosen}, report, values, baselines)
    return json.dumps((run, reports.timings_document(report, "2026-11-21", 31.4, {"cores": 2}, 812.5)))


def ranged_documents() -> Documents:
    """A run of `s` with values of two parameters, and of two baselines."""
    values = {f"s:width={width}:depth={depth}": [width, depth] for width in "123" for depth in "78"}
    run, timings = documents("base", "other", *values, baselines=("base", "other"))
    points = [{"label": label, "values": own} for label, own in values.items()]
    run["ranges"] = [{"label": "s:RANGE", "parameters": ["width", "depth"], "points": points}]
    return run, timings


def shown(run: dict[str, Any], timings: dict[str, Any], plots: Mapping[str, bytes] | None = None) -> BeautifulSoup:
    return BeautifulSoup(pages.report_page(run, timings, plots or {}), "html.parser")


def table_of(page: BeautifulSoup, section: str) -> Tag:
    return page.select(f"#{section} table")[0]


def facts_of(page: BeautifulSoup) -> dict[str, str]:
    return {item.dt.get_text(): item.dd.get_text() for item in page.select(".facts div") if item.dt and item.dd}


def test_markup_in_names_ids_and_errors_is_text() -> None:
    run, timings = documents(MARKUP, "dense" + MARKUP)
    run |= {"index": MARKUP, "reader": MARKUP, "parameters": {MARKUP: MARKUP}, "left_out": {MARKUP: MARKUP}}
    run["questions"]["file"] = MARKUP
    run["by_type"] = {MARKUP: run["by_type"]["bridge"]}
    failed = [{"id": "q" + MARKUP, "error": "e" + MARKUP}]
    run["results"][MARKUP] |= {"tokens": {MARKUP: 3}, "failures": 1, "failed": failed}
    timings["machine"] = {MARKUP: MARKUP}
    timings["strategies"][MARKUP]["parts_ms"][MARKUP] = {"p50": 1.0}
    page = shown(run, timings)
    assert page.find_all(["script", "iframe", "object", "link", "form", "img"]) == []
    assert page.title is not None
    assert page.title.get_text().startswith(f"Evaluation of index {MARKUP}, version 3")
    assert facts_of(page)["Left out"] == f"{MARKUP} ({MARKUP})"
    cells = [cell.get_text() for cell in table_of(page, "failures").select("tbody th, tbody td")]
    assert cells == [MARKUP, "q" + MARKUP, "e" + MARKUP]
    assert MARKUP in table_of(page, "cost").get_text()


def test_the_page_is_complete_in_itself() -> None:
    drawn = {"recall_at_k.png": b"\x89PNG one", "paired_differences.png": b"\x89PNG two", "unknown.png": b"never shown"}
    text = pages.report_page(*documents("bridge", "dense"), drawn)
    page = BeautifulSoup(text, "html.parser")
    (policy,) = page.select('meta[http-equiv="Content-Security-Policy"]')
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert re.findall(r"(?:https?:)?//[a-z]", text) == []
    images = page.find_all("img")
    encoded = ["iVBORyBvbmU=", "iVBORyB0d28="]
    assert [image["src"] for image in images] == [f"data:image/png;base64,{one}" for one in encoded]
    assert all(image["alt"] for image in images)
    targets = {link["href"] for link in page.select("nav a")}
    assert targets == {f"#{section['id']}" for section in page.find_all("section")}


def test_strategies_are_sorted_by_recall_and_the_best_of_each_column_is_marked() -> None:
    run, timings = documents("first", "second", "third")
    run["results"]["second"]["recall@5"] = 0.98
    run["results"]["third"] |= {"recall@5": 0.99, "recall@1": 0.01}
    run["results"]["first"] |= {"recall@5": 0.98, "recall@1": 0.0}
    table = table_of(shown(run, timings), "results")
    assert [cell.get_text() for cell in table.select("tbody th")] == ["third", "first", "second"]
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
    times = [pages.milliseconds(value) for value in (None, 0.512, 7.731, 16.24, 249.6)]
    assert times == ["–", "0.51", "7.73", "16.2", "250"]


def test_differences_beyond_chance_are_coloured_by_their_direction() -> None:
    run, timings = documents("base", "unclear", "worse", "better")
    unclear = WORSE | {"high": 0.01, "significant": False}
    run["paired"] = {"unclear": {"mrr": unclear}, "worse": {"mrr": WORSE}, "better": {"mrr": BETTER}}
    table = table_of(shown(run, timings), "differences")
    cells = {row.th.get_text(): row.td for row in table.select("tbody tr") if row.th}
    assert {name: (cell.get_text(), cell.get("class")) for name, cell in cells.items() if cell} == {
        "unclear": ("-0.060 [-0.110, +0.010] 4/90/8", None),
        "worse": ("-0.060 [-0.110, -0.010] 4/90/8", ["worse"]),
        "better": ("+0.200 [+0.100, +0.300] 9/1/0", ["better"]),
    }


def test_what_is_missing_is_left_out() -> None:
    run, timings = documents("bridge", "dense", is_judged=False)
    page, text = shown(run, timings), pages.summary_markdown(run, timings)
    assert [section["id"] for section in page.find_all("section")] == ["results"]
    assert "None" not in page.get_text() + text
    assert "recall@5" not in text
    assert pages.report_plots(run) == {}


def test_very_many_failures_are_cut_and_counted() -> None:
    run, timings = documents("bridge")
    run["results"]["bridge"] |= {"failures": 450, "failed": [{"id": f"q{n}", "error": "gone"} for n in range(450)]}
    table = table_of(shown(run, timings), "failures")
    assert len(table.select("tbody tr")) == pages.FAILURES_SHOWN == 50
    assert "the first 50, 400 more in run.json" in table.get_text()


@pytest.mark.slow
def test_the_page_has_a_table_per_range_and_says_what_its_intervals_are() -> None:
    run, timings = ranged_documents()
    of_baselines = {"paired_differences.png": b"\x89PNG 1", "paired_differences_2.png": b"\x89PNG 2"}
    page = shown(run, timings, of_baselines)
    rows = [[cell.get_text() for cell in row.find_all(["th", "td"])] for row in page.select("#ranges tbody tr")]
    assert [row[:2] for row in rows] == [[width, depth] for width in "123" for depth in "78"]
    assert rows[0][3] == "1.000 [1.000, 1.000]"
    stated = facts_of(page)
    assert stated["Intervals of means"] == "95 %, percentile bootstrap of the mean over questions, 10,000 resamples"
    assert stated["Baselines"] == "base, other"
    assert any("percentile bootstrap" in found.get_text() for found in page.select("#results caption"))
    assert len(page.select("#differences img")) == 2
    captions = [found.get_text().split(":")[0] for found in page.select("#differences caption")]
    assert captions[:2] == ["Strategy minus base", "Strategy minus other"]
    summary = pages.summary_markdown(run, timings)
    assert "| 1 | 7 | 0.000" in summary
    assert "Strategy minus other" in summary
    assert of_baselines.keys() <= pages.report_plots(run).keys()


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (None, None),
        ({"size": 20, "rest": True}, "80 of 100 usable questions: all but a random sample of 20, seed 3"),
        ({"size": 20}, "20 of 100 usable questions, random, seed 3"),
        ({"size": 100}, "all 100 usable questions (100 were asked for)"),
        ({"size": 20, "seed": None}, "20 of 100 usable questions, the first"),
    ],
)
def test_the_page_says_which_questions_were_asked(sample: dict[str, int] | None, said: str) -> None:
    run, timings = documents("bridge")
    run["questions"]["sample"] = sample and {"seed": 3, "of": 100, **sample}
    assert pages.facts(run, timings).get("Sample") == said


def test_names_cannot_break_a_table_of_the_summary_or_become_markup() -> None:
    run, timings = documents(MARKDOWN, "dense")
    run["results"][MARKDOWN]["failed"] = [{"id": MARKDOWN, "error": MARKDOWN}]
    text = pages.summary_markdown(run, timings)
    assert "<" not in text
    assert "](" not in text.replace("\\](", "")
    assert "\n# c" not in text
    tables = [block for block in text.split("\n\n") if block.startswith("| ")]
    assert len(tables) == 9
    for table in tables:
        widths = {line.replace("\\\\", "").replace("\\|", "").count("|") for line in table.splitlines()}
        assert len(widths) == 1
    assert escaped("a\n <b> & *c*") == "a &lt;b&gt; &amp; \\*c\\*"


def test_the_summary_says_what_was_evaluated_and_marks_the_best() -> None:
    run, timings = documents("bridge", "dense")
    run["paired"]["dense"]["recall@5"] = WORSE
    text = pages.summary_markdown(run, timings)
    assert text.startswith("# Evaluation of index films, version 3\n\n* Questions: 12 from questions.jsonl\n")
    (row,) = [line for line in text.splitlines() if line.startswith("| bridge | **1.000** | 1.000 |")]
    assert row.endswith("| **0.750** | **0.750** | **10.0** | **10.0** | 0 |")
    assert "| dense | **-0.060 \\[-0.110, -0.010\\] 4/90/8** |" in text
    assert text.endswith("|\n")


@pytest.mark.rare
@pytest.mark.slow
def test_twenty_five_strategies_with_names_of_any_kind_are_drawn() -> None:
    hostile = [*MATHS, "<script>alert(1)</script>", "qasa:" + "very-long=" * 40]
    plots = pages.report_plots(documents(*hostile, *(f"strategy-{n}" for n in range(17)))[0])
    assert plots.keys() == {"recall_at_k.png", "paired_differences.png"}
    for png in plots.values():
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = unpack(">II", png[16:24])
        assert width == pages.WIDTH_INCHES * pages.DPI
        assert width / 4 < height < 2 * width


@pytest.mark.slow
def test_equal_runs_give_equal_bytes_and_one_strategy_has_no_differences() -> None:
    assert pages.report_plots(documents("bridge", "dense")[0]) == pages.report_plots(documents("bridge", "dense")[0])
    assert set(pages.report_plots(documents("bridge")[0])) == {"recall_at_k.png"}


def test_strategies_come_by_their_leading_metric_and_those_without_one_come_last() -> None:
    run, _ = documents("a", "b", "c", "d")
    for label, value in {"a": 0.1, "b": None, "c": 0.7, "d": 0.7}.items():
        run["results"][label]["recall@5"] = value
    assert pages.ranked(run) == ["c", "d", "a", "b"]
    for place, result in enumerate(run["results"].values()):
        result |= {"recall@5": None, "mrr": place == 1}
    assert pages.ranked(run) == ["b", "a", "c", "d"]


def test_without_matplotlib_nothing_is_drawn_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run, timings = documents("bridge", "dense")
    assert pages.report_plots(run) == {}
    assert pages.facts(run, timings)["Plots"].startswith("none; install the extra 'plots': ")


@pytest.mark.slow
def test_the_generated_corpus_is_the_same_as_ever(tmp_path: Path) -> None:
    written = generated_corpus.write_generated(tmp_path / "new", 300, 60, 13)
    assert (written["passage_count"], written["question_count"]) == (300, 60)
    digests = [hashlib.sha256(Path(written[name]).read_bytes()).hexdigest()[:12] for name in ("corpus", "questions")]
    assert digests == ["2c4e04cea5b0", "561510f2f0c8"]


PAGES = {
    "ada": ("Ada Lovelace", "Ada Lovelace wrote for Charles Babbage."),
    "babbage": ("Charles Babbage", "Charles Babbage lived in London."),
    "london": ("London", "London lies on the River Thames."),
    "thames": ("River Thames", "The River Thames flows through Oxford and London."),
}
QUESTIONS: list[dict[str, Any]] = [
    {"id": "none", "question": "who wrote the first program?", "supporting": ["ada"]},
    {"id": "other", "question": "Who knew Charles Babbage?", "supporting": ["ada"]},
    {"id": "gold", "question": "Where did Charles Babbage live?", "supporting": ["babbage", "london"]},
    {"id": "unjudged", "question": "Who was Ada Lovelace?"},
]


@pytest.mark.slow
def test_names_fall_into_buckets_graphs_are_counted_and_memory_is_measured(tmp_path: Path) -> None:
    corpus = [{"id": id_, "title": title, "text": text} for id_, (title, text) in PAGES.items()]
    settings = Settings(root=tmp_path / "root", strategies=("graph",))
    indexed(settings, write_rows(tmp_path / "corpus.jsonl", corpus), "small")
    questions = write_rows(tmp_path / "questions.jsonl", QUESTIONS)
    request = names_and_graphs.DiagnosisRequest("small", questions, ("graph",), hub_top_percent=20)
    report, bad = names_and_graphs.diagnose(settings, request)
    assert (report["n"], report["excluded"], bad) == (3, 1, [])
    buckets = {"no_entity": 1, "entity_no_gold": 1, "entity_gold": 1, "all": 3}
    assert {name: row["n"] for name, row in report["buckets"].items()} == buckets
    assert (report["graphs"]["entity"]["edges"], report["hub_pruning"]["removed"]) == (9, ("london",))
    measured = memory.measure(str(settings.root), "small", str(questions), "graph")
    assert 20 < measured["ready_mb"] <= measured["peak_mb"]


@pytest.mark.slow
def test_a_range_has_curves_maps_and_best_values_and_groups_and_confidence_are_drawn() -> None:
    run, _ = ranged_documents()
    run["results"]["base"]["calibration"] = [{"n": 3, "stated": None, "observed": 0.5}]
    run["results"]["s:width=2:depth=8"]["recall@5"] = 0.9
    with drawing():
        assert set(parameters.range_figures(run)) == {"range_1.png", "heat_map_1_1.png", "range_1_best.png"}
        drawn = set(confidence_and_groups.figures(run))
    assert drawn == {"by_hops.png", "by_type.png", "calibration.png", "precision_at_coverage.png"}
    assert "base" not in confidence_and_groups.calibrated(run)
    (one,) = stored_ranges(run)
    (found,) = parameters.heat_maps(one)
    assert (found.across, found.down, found.columns, found.rows) == ("depth", "width", ("7", "8"), ("1", "2", "3"))
    assert parameters.best_values(run, one, "width", "recall@5")["2"] == 1.0


@pytest.mark.slow
def test_the_stored_costs_can_be_drawn_again() -> None:
    results = Path(__file__).resolve().parents[4] / "benchmarks" / "papers" / "results"
    stored = json.loads((results / "cost_against_size.json").read_bytes())
    assert set(cost_against_size.sweep_plots(stored)) == {"index_cost.png", "query_latency.png", "memory.png"}
    assert cost_against_size.slope([(10.0, 1.0), (100.0, 10.0)]) == pytest.approx(1)
