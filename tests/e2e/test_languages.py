"""Corpora in six languages, each of our own writing, indexed and asked in their language."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_indexes import indexed

from polyhop.api import Index, open_index
from polyhop.flows.reports import IndexReport
from polyhop.schemas.settings import parse_settings

DATA = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "languages"
FIRST = 5
MISSED_BY_BM25 = {"de": {"de-q2", "de-q8"}}
"""No word of their second passages stands in the question; docs/languages.md says so."""


def questions_of(code: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{code}-questions.jsonl").read_text("utf-8").splitlines()]


def index(root: Path, code: str, language: str, corpus: Path | None = None) -> IndexReport:
    strategies = "bm25,bridge-lexical" if corpus else "bm25,bridge-lexical,bridge"
    given = {"root": str(root), "strategies": strategies, "corpus.language": language}
    return indexed(parse_settings({"flags": given}), corpus or DATA / f"{code}-corpus.jsonl", code)


def missed(root: Path, code: str, strategy: str) -> set[str]:
    with open_index(code, root=root) as opened:
        found = {row["id"]: first(opened, row["question"], strategy) for row in questions_of(code)}
    return {row["id"] for row in questions_of(code) if not set(row["supporting"]) <= found[row["id"]]}


def first(opened: Index, question: str, strategy: str) -> set[str]:
    return {passage["id"] for passage in opened.ask(question, strategy=strategy).passages[:FIRST]}


@pytest.mark.parametrize(
    "code", ["de", "zh", *(pytest.param(one, marks=pytest.mark.rare) for one in ("fr", "es", "ru", "ar"))]
)
def test_both_passages_of_each_question_are_among_the_first_five(tmp_path: Path, code: str) -> None:
    index(tmp_path, code, code)
    for strategy, gone in (("bridge", set()), ("bridge-lexical", set()), ("bm25", MISSED_BY_BM25.get(code, set()))):
        assert missed(tmp_path, code, strategy) == gone, strategy


def test_the_reader_is_silent_about_what_it_cannot_read_and_say_so(tmp_path: Path) -> None:
    index(tmp_path, "zh", "auto")
    with open_index("zh", root=tmp_path) as opened:
        answer = opened.ask("伊尔河流入什么？", strategy="bridge-lexical")
    assert answer.answer == ""
    assert "answers are read in English only" in json.dumps(answer.evidence)


@pytest.mark.rare
def test_one_index_of_several_languages_is_asked_in_each(tmp_path: Path) -> None:
    lines = [(DATA / f"{code}-corpus.jsonl").read_text("utf-8") for code in ("de", "ru", "zh")]
    (tmp_path / "mixed.jsonl").write_text("".join(lines), "utf-8")
    index(tmp_path, "mixed", "auto", tmp_path / "mixed.jsonl")
    with open_index("mixed", root=tmp_path) as opened:
        for code in ("de", "ru", "zh"):
            for row in questions_of(code)[:3]:
                assert set(row["supporting"]) <= first(opened, row["question"], "bridge-lexical"), row["question"]


@pytest.mark.rare
def test_another_language_derives_words_and_names_again_and_nothing_else(tmp_path: Path) -> None:
    index(tmp_path, "de", "en")
    report = index(tmp_path, "de", "de")
    assert {"extract", "lexical-plain", "lexical-stems"}.isdisjoint(report.reused)
    assert "embed-passage" in report.reused
