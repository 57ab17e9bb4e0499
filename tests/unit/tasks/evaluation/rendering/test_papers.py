"""The scripts of benchmarks/papers: each on a few pages or a small run, so that the library they import still fits."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import confidence_and_groups
import cost_against_size
import generated_corpus
import memory
import names_and_graphs
import parameters
import pytest
from bs4 import BeautifulSoup
from drawing import drawing, stored_ranges

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.tasks.evaluation.page import report_page

pytestmark = pytest.mark.slow

Make = Callable[[Sequence[str]], tuple[dict[str, Any], dict[str, Any]]]
RESULTS = Path(__file__).resolve().parents[5] / "benchmarks" / "papers" / "results"
PAGES = {
    "ada": ("Ada Lovelace", "Ada Lovelace wrote for Charles Babbage."),
    "babbage": ("Charles Babbage", "Charles Babbage lived in London."),
    "london": ("London", "London lies on the River Thames."),
    "thames": ("River Thames", "The River Thames flows through Oxford and London."),
}
QUESTIONS = [
    {"id": "none", "question": "who wrote the first program?", "supporting": ["ada"]},
    {"id": "other", "question": "Who knew Charles Babbage?", "supporting": ["ada"]},
    {"id": "gold", "question": "Where did Charles Babbage live?", "supporting": ["babbage", "london"]},
    {"id": "unjudged", "question": "Who was Ada Lovelace?"},
]


def _lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_generated_corpus_is_the_same_as_ever(tmp_path: Path) -> None:
    written = generated_corpus.write_generated(tmp_path / "new", 300, 60, 13)
    assert (written["passage_count"], written["question_count"]) == (300, 60)
    digests = [hashlib.sha256(Path(written[name]).read_bytes()).hexdigest()[:12] for name in ("corpus", "questions")]
    assert digests == ["2c4e04cea5b0", "561510f2f0c8"]


def test_names_fall_into_buckets_graphs_are_counted_and_memory_is_measured(tmp_path: Path) -> None:
    pages = [{"id": id_, "title": title, "text": text} for id_, (title, text) in PAGES.items()]
    settings = Settings(root=tmp_path / "root", strategies=("graph",))
    run_index(settings, IndexRequest("small", _lines(tmp_path / "corpus.jsonl", pages)), DirectRunner())
    questions = _lines(tmp_path / "questions.jsonl", QUESTIONS)
    request = names_and_graphs.DiagnosisRequest("small", questions, ("graph",), hub_top_percent=20)
    report, bad = names_and_graphs.diagnose(settings, request)
    assert (report["n"], report["excluded"], bad) == (3, 1, [])
    assert {name: row["n"] for name, row in report["buckets"].items()} == {
        "no_entity": 1,
        "entity_no_gold": 1,
        "entity_gold": 1,
        "all": 3,
    }
    assert (report["graphs"]["entity"]["edges"], report["hub_pruning"]["removed"]) == (9, ("london",))
    measured = memory.measure(str(settings.root), "small", str(questions), "graph")
    assert 20 < measured["ready_mb"] <= measured["peak_mb"]


def test_a_range_has_curves_maps_and_best_values_and_the_page_of_eval_has_its_table(documents: Make) -> None:
    labels = [f"s:width={width}:depth={depth}" for width in "123" for depth in "78"]
    run, timings = documents(["base", *labels])
    points = [{"label": label, "values": [label[8], label[-1]]} for label in labels]
    run["ranges"] = [{"label": "s:RANGE", "parameters": ["width", "depth"], "points": points}]
    with drawing():
        assert set(parameters.range_figures(run)) == {"range_1.png", "heat_map_1_1.png", "range_1_best.png"}
    (one,) = stored_ranges(run)
    (found,) = parameters.heat_maps(one)
    assert (found.across, found.down, found.columns, found.rows) == ("depth", "width", ("7", "8"), ("1", "2", "3"))
    best = parameters.best_values(run, one, "width", "recall@5")
    assert best["2"] == max(run["results"][f"s:width=2:depth={depth}"]["recall@5"] for depth in "78")
    page = BeautifulSoup(report_page(run, timings, {}), "html.parser")
    rows = [[cell.get_text() for cell in row.find_all(["th", "td"])] for row in page.select("#ranges tbody tr")]
    assert [row[:2] for row in rows] == [[label[8], label[-1]] for label in labels]


def test_groups_and_confidence_are_drawn_where_there_are_any(documents: Make) -> None:
    run, _ = documents(["a", "b"])
    run["results"]["a"]["calibration"] = [{"n": 3, "stated": None, "observed": 0.5}]
    assert list(confidence_and_groups.calibrated(run)) == ["b"]
    with drawing():
        drawn = set(confidence_and_groups.figures(run))
    assert drawn == {"by_hops.png", "by_type.png", "calibration.png", "precision_at_coverage.png"}


def test_the_stored_costs_can_be_drawn_again() -> None:
    stored = json.loads((RESULTS / "cost_against_size.json").read_bytes())
    assert set(cost_against_size.sweep_plots(stored)) == {"index_cost.png", "query_latency.png", "memory.png"}
    assert cost_against_size.slope([(10.0, 1.0), (100.0, 10.0)]) == pytest.approx(1)
