"""Peak memory by strategy: one process each, a process that fails is said and costs no evaluation."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup

from polyhop.commands.evaluation_costs import print_costs
from polyhop.flows.evaluation.memory import MemoryOrder, memory_rows, memory_sentences
from polyhop.schemas.questions import QuestionRecord
from polyhop.schemas.settings import Settings
from polyhop.schemas.variants import parse_variant
from polyhop.tasks.evaluation.rendering import Page, Section, render
from polyhop.tasks.evaluation.report_tables import side_by_side_table

VARIANTS = {label: parse_variant(label, {"b": "0.5"}) for label in ("bm25", "bm25:k1=2")}
MEASURED = {"ready_mb": 114.4, "peak_mb": 1130.6}


def _order(root: Path) -> MemoryOrder:
    records = [QuestionRecord("q1", "Who?", topic="Ada"), QuestionRecord("q2", "Where?")]
    return MemoryOrder(Settings(root=root), "towns", 3, records, VARIANTS)


def _cost(memory: dict[str, Any] | None) -> dict[str, Any]:
    tokens = {"prompt_tokens": 0, "completion_tokens": 0, "seconds": 0.5}
    return {"index": {**tokens, "stages": {}}, "question": tokens, **({"memory": memory} if memory else {})}


def test_every_strategy_has_a_process_that_gets_its_version_parameters_and_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[dict[str, Any]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        orders.append(json.loads(options["input"]))
        assert command[1:] == ["-m", "polyhop.flows.evaluation.memory_process"]
        return subprocess.CompletedProcess(command, 0, "a library prints\n" + json.dumps(MEASURED) + "\n", "")

    monkeypatch.setattr("polyhop.flows.evaluation.memory.subprocess.run", run)
    seen: list[tuple[str, int, int]] = []
    rows = memory_rows(_order(tmp_path), ["bm25:k1=2", "bm25", "closed-book"], lambda *progress: seen.append(progress))
    assert rows == {"bm25:k1=2": MEASURED, "bm25": MEASURED, "closed-book": MEASURED}
    assert [(order["strategy"], order["parameters"]) for order in orders] == [
        ("bm25", {"b": "0.5", "k1": "2"}),
        ("bm25", {"b": "0.5"}),
        (None, {}),
    ]
    assert {(order["index"], order["version"], order["settings"]["root"]) for order in orders} == {
        ("towns", 3, str(tmp_path))
    }
    assert orders[0]["questions"] == [
        {"id": "q1", "text": "Who?", "topic": "Ada"},
        {"id": "q2", "text": "Where?", "topic": None},
    ]
    assert seen == [("memory", 1, 3), ("memory", 2, 3), ("memory", 3, 3)]


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [
        (-9, "", "signal 9 ended its process (9: often for lack of memory)."),
        (1, "a warning\nThere is no index 'towns'.\n", "There is no index 'towns'."),
        (3, "", "its process ended with exit code 3 and said nothing."),
        (0, "", "its process ended with exit code 0 and said nothing."),
    ],
)
def test_a_process_that_fails_has_no_numbers_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str, reason: str
) -> None:
    done = subprocess.CompletedProcess([], code, "", said)
    monkeypatch.setattr("polyhop.flows.evaluation.memory.subprocess.run", lambda *_, **__: done)
    rows = memory_rows(_order(tmp_path), ["bm25"])
    assert rows == {"bm25": {"ready_mb": None, "peak_mb": None, "error": reason}}
    costs = {"bm25": _cost(rows["bm25"]), "dense": _cost(MEASURED)}
    assert memory_sentences(costs) == [f"The memory of bm25 was not measured: {reason}"]
    assert memory_sentences({"bm25": _cost(None)}) == []


def test_memory_stands_beside_the_costs_only_where_it_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    print_costs({"bm25": _cost(None)})
    assert "MB" not in capsys.readouterr().out
    print_costs({"bm25": _cost(MEASURED), "dense": _cost({"ready_mb": None, "peak_mb": None, "error": "x"})})
    header, bm25, dense = capsys.readouterr().out.splitlines()[1:4]
    assert header.endswith("s per question  MB ready      MB at most")
    assert bm25.split()[-2:] == ["114", "1,131"]
    assert dense.endswith("not measured  not measured")


def test_the_report_has_columns_for_memory_only_where_it_was_measured() -> None:
    run = {"strategies": ["bm25", "dense"], "results": {"bm25": {}, "dense": {}}}
    without = side_by_side_table(run, {"costs": {"bm25": _cost(None)}})
    assert not [column for column in without.columns if "memory" in column]
    table = side_by_side_table(run, {"costs": {"bm25": _cost(MEASURED), "dense": _cost(None)}})
    page = BeautifulSoup(render(Page("t", (), (), (Section("cost", "Cost", tables=(table,)),)), {}), "html.parser")
    assert [cell.get_text() for cell in page.select("thead th")][-2:] == ["memory: MB ready", "memory: MB at most"]
    rows = [[cell.get_text() for cell in row.find_all("td")][-2:] for row in page.select("tbody tr")]
    assert rows == [["114", "1,131"], ["–", "–"]]
