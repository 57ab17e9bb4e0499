"""The report as Markdown: tables that stay tables whatever names hold."""

from collections.abc import Callable, Sequence
from typing import Any

from polyhop.schemas.text import escaped
from polyhop.tasks.evaluation.page import summary_markdown

Make = Callable[[Sequence[str]], tuple[dict[str, Any], dict[str, Any]]]
HOSTILE = "a|b\n# c <img src=x onerror=alert(1)> [x](javascript:alert) `d` **e** _f_ $g$ \\| & ![h](i)"


def test_names_cannot_break_a_table_or_become_markup(documents: Make) -> None:
    run, timings = documents([HOSTILE, "dense"])
    run["results"][HOSTILE]["failed"] = [{"id": HOSTILE, "error": HOSTILE}]
    text = summary_markdown(run, timings)
    assert "<" not in text
    assert "](" not in text.replace("\\](", "")
    assert "\n# c" not in text
    tables = [block for block in text.split("\n\n") if block.startswith("| ")]
    assert len(tables) == 9
    for table in tables:
        widths = {line.replace("\\\\", "").replace("\\|", "").count("|") for line in table.splitlines()}
        assert len(widths) == 1


def test_the_summary_says_what_was_evaluated_and_marks_the_best(documents: Make) -> None:
    text = summary_markdown(*documents(["bridge", "dense"]))
    assert text.startswith("# Evaluation of index films, version 3\n\n* Questions: 100 from questions.jsonl\n")
    (row,) = [line for line in text.splitlines() if line.startswith("| bridge | 0.300 | **0.880** |")]
    assert row.endswith("| **0.640** | **9.00** | **18.0** | 0 |")
    assert "| dense | -0.030 \\[-0.080, +0.020\\] 4/90/7 |" in text
    assert text.endswith("|\n")


def test_a_run_without_anything_has_a_summary(empty_documents: tuple[dict[str, Any], dict[str, Any]]) -> None:
    text = summary_markdown(*empty_documents)
    assert "None" not in text
    assert "recall@5" not in text


def test_escaped_text_is_one_line_of_text() -> None:
    assert escaped("a\n <b> & *c*") == "a &lt;b&gt; &amp; \\*c\\*"
