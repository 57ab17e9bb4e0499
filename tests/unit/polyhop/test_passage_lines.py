"""The passages of an answer on a terminal: with their texts, and a reason where scores do not descend."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from polyhop import cli
from polyhop.terminal import passage_lines

LONG = "Charles Babbage lived in London. " * 10


def row(rank: int, score: float) -> dict[str, Any]:
    return {"id": f"p{rank}", "title": f"Title {rank}", "score": score, "rank": rank}


def test_scores_in_descending_order_need_no_word() -> None:
    lines = list(passage_lines([row(1, 2.0), row(2, 1.0), row(3, 1.0)], {}, {"p1": "One\n text."}))
    assert lines == [
        "    1  2.000  Title 1  [p1]",
        "              One text.",
        *[f"    {rank}  1.000  Title {rank}  [p{rank}]" for rank in (2, 3)],
    ]


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        ({}, "  ranked so that together they cover the question; a score is of its passage alone"),
        (
            {"notes": [{"label": "Re-ranked", "text": "the top 2 passages, by shared words"}]},
            "  the first ones have the scores of who re-ranked them, the others their own",
        ),
    ],
)
def test_scores_out_of_order_are_explained(evidence: dict[str, Any], reason: str) -> None:
    assert next(iter(passage_lines([row(1, 1.0), row(2, 2.0)], evidence, {}))) == reason


def test_a_long_text_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    (_, text) = passage_lines([row(1, 1.0)], {}, {"p1": LONG})
    assert text.strip() == LONG[:100].rstrip() + "…"


def test_ask_and_explain_show_texts_until_the_version_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", ["polyhop", *map(str, arguments), "--root", str(tmp_path / "root")])
        with suppress(SystemExit):
            cli.main()
        return capsys.readouterr().out

    page = {"id": "babbage", "title": "Charles Babbage", "text": "Charles Babbage lived in London."}
    (tmp_path / "corpus.jsonl").write_text(json.dumps(page))
    (tmp_path / "questions.jsonl").write_text('{"id": "q1", "question": "Where did Charles Babbage live?"}')
    shown = "[babbage]\n              Charles Babbage lived in London.\n"
    run("index", tmp_path / "corpus.jsonl", "--index", "one", "--set", "strategies=bm25")
    assert shown in run("ask", "Where did Charles Babbage live?", "--index", "one", "--strategy", "bm25")
    run("submit", tmp_path / "questions.jsonl", "--index", "one", "--strategy", "bm25")
    run("worker", "--until-empty")
    assert shown in run("explain", "1", "q1")
    (tmp_path / "root" / "indexes" / "one").rename(tmp_path / "gone")
    redrawn = run("explain", "1", "q1")
    assert "[babbage]\n" in redrawn
    assert shown not in redrawn
