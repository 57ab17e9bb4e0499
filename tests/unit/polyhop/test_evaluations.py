"""Evaluations in words and notebooks, and `polyhop score`."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.api import SHOWN_CHARACTERS, Answer
from polyhop.api import html_text as text
from polyhop.api import table_html as table
from polyhop.commands.evaluate import print_comparison, print_stored, score
from polyhop.schemas.errors import SourceError

CHANGES: dict[str, Any] = {"first": 1, "second": 2, "changed": {}, "only_first": ["bm25"], "only_second": ["dense"]}
CHANGES |= {"questions": {"common": 3, "only_first": 0, "only_second": 0}}
CHANGES |= {"latency_ms": {}, "strategies": {}, "most_changed": []}


def test_evaluations_without_a_common_strategy_are_not_said_to_be_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison(CHANGES)
    printed = capsys.readouterr().out
    assert printed.endswith("  only in 1: bm25\n  only in 2: dense\n  no strategy is in both\n")
    assert "in both: " not in printed
    print_comparison({**CHANGES, "questions": {"common": 0, "only_first": 100, "only_second": 2}})
    assert "  in both: 0 questions; 100 only in 1, 2 only in 2;" in capsys.readouterr().out


def test_a_stored_evaluation_that_cannot_be_read_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    readable = {"run": 2, "started": "2026-11-21T10:00:00+00:00", "index": "mine", "version": 1, "questions": "q.jsonl"}
    found = {"n": 3, "strategies": {"bm25": {"recall@5": 0.5, "em": None}}}
    print_stored([{"run": 1, "error": "run.json cannot be read: it is cut off"}, {**readable, **found}])
    printed = capsys.readouterr()
    assert "mine" in printed.out
    assert "evaluation 1 is left out: run.json cannot be read: it is cut off" in printed.err


EVIL = '<script>alert(1)</script> & "x" \x1b[2J'


def answer(question: str, short: str, passages: list[dict[str, Any]]) -> str:
    return Answer(question, short, "bm25", 1, passages, {}, {})._repr_html_()


def test_every_text_is_escaped_and_control_characters_are_visible() -> None:
    shown = table([EVIL], [[EVIL]]) + answer(EVIL, EVIL, [{"title": EVIL, "text": EVIL}])
    assert "<script>" not in shown
    assert "\x1b" not in shown
    assert shown.count("&lt;script&gt;") == 6
    assert text(EVIL) in shown


def test_cells_are_rounded_and_none_is_empty() -> None:
    head, row = "<th>a</th><th>b</th><th>c</th>", "<td>0.123</td><td></td><td>7</td>"
    whole = f"<table><thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table>"
    assert table(["a", "b", "c"], [[0.12345, None, 7]]) == whole
    assert table([], []).endswith("<tbody></tbody></table>")


def test_no_answer_says_what_to_do_and_long_passages_are_cut() -> None:
    shown = answer("Who?", "", [{"rank": 1, "score": 0.5, "text": "x" * (SHOWN_CHARACTERS + 50)}])
    assert "no answer; read the passages" in shown
    assert shown.count("x") == SHOWN_CHARACTERS + "text".count("x")


def _file(folder: Path, *rows: object) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    (folder / "predictions.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / "predictions.jsonl"


def _scored(capsys: pytest.CaptureFixture[str], path: Path, **options: Any) -> dict[str, Any]:
    score(path, json=True, **options)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_rows_are_scored_one_by_one_and_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """G-EVAL's table is proved where the metrics are."""
    rows = [
        {"id": f"g{n}", "prediction": said, "answers": ["Paris"]} for n, said in enumerate(("Paris, France", "paris"))
    ]
    found = _scored(capsys, _file(tmp_path, *rows), out=tmp_path / "rows.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == [rows[0] | {"em": 0.0, "f1": pytest.approx(2 / 3)}, rows[1] | {"em": 1.0, "f1": 1.0}]
    assert found == {"n": 2, "em": 0.5, "f1": 0.833333}


def test_an_answer_may_be_one_string_a_number_or_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _file(
        tmp_path,
        {"prediction": "Paris", "answer": "Paris"},
        {"prediction": None, "answers": ["Paris"]},
        {"prediction": 1952, "answers": 1952},
        {"prediction": "whatever", "answers": []},
    )
    assert _scored(capsys, path) == {"n": 4, "em": 0.666667, "f1": 0.666667}


def test_hotpots_special_case_is_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _file(tmp_path, {"prediction": "yes it is", "answers": ["yes"]}, {"prediction": "no", "answers": ["no"]})
    assert _scored(capsys, path)["f1"] == 0.75
    assert _scored(capsys, path, hotpot_yes_no=True)["f1"] == 0.5


def test_csv_and_parquet_hold_the_same_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "predictions.csv"
    table.write_text('id,prediction,answers\na,Paris,"Paris|Paris, France"\nb,,Rome\nc,Bonn,Bonn am Rhein\n')
    parquet = tmp_path / "predictions.parquet"
    columns = {"prediction": ["Paris", None, "Bonn"], "answers": [["Paris"], ["Rome"], ["Bonn am Rhein"]]}
    pq.write_table(pa.table(columns), parquet)
    expected = {"n": 3, "em": 0.333333, "f1": 0.5}
    assert _scored(capsys, table) == _scored(capsys, parquet) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{broken", "not JSON"),
        ({"answers": ["x"]}, "there is no prediction"),
        ({"prediction": "x"}, "there are no gold answers"),
        ({"prediction": ["x"], "answers": ["x"]}, "the prediction is neither a string nor a number but a list"),
        ({"prediction": "x", "answers": [{"text": "x"}]}, "the answers is neither a string nor a number but an object"),
        ({"id": "1", "prediction": "x", "answers": ["x"]}, "the id '1' was already used in line 1"),
    ],
    ids=["broken", "no prediction", "no answers", "list", "object", "used"],
)
def test_a_bad_line_is_named_by_its_number_and_left_out_only_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: object, reason: str
) -> None:
    path = _file(tmp_path, {"id": "1", "prediction": "x", "answers": ["x"]}, line)
    with pytest.raises(SourceError, match=f"the first is line 2: {reason}"):
        score(path)
    score(path, skip_bad=True)
    said = capsys.readouterr()
    assert said.out == "1 prediction, 1 judged: exact match 1.000, F1 1.000\n"
    assert said.err.startswith(f"predictions.jsonl line 2 was left out: {reason}")


def test_a_file_with_nothing_to_score_is_an_error_and_one_without_gold_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SourceError, match="no usable prediction"):
        score(_file(tmp_path, "{broken"), skip_bad=True)
    score(_file(tmp_path, {"prediction": "x", "answers": []}))
    assert capsys.readouterr().out == "1 prediction, none with a gold answer to judge it by\n"
    assert _scored(capsys, tmp_path / "predictions.jsonl") == {"n": 1, "em": None, "f1": None}
