"""Who is told that a corpus is not in English, and who is not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from polyhop.flows.index import run_index
from polyhop.flows.reports import language_advice, run_advice, summary_lines
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import CorpusSettings, Settings

ITALIAN = [
    {"id": "1", "title": "Roncavalle", "text": "Roncavalle è un comune delle Alpi. Il sindaco è Lucia Ferrant."},
    {"id": "2", "title": "Lucia Ferrant", "text": "Lucia Ferrant è nata a Biella ed è stata la direttrice del museo."},
]
ENGLISH = [{"id": "1", "title": "Lake One", "text": "Lake One is a lake that lies near the town of Two."}]
ADVICE = (
    "the texts look Italian and were read as English, the default; if they are: "
    "polyhop index --index alpi --set corpus.language=it"
)


@pytest.mark.parametrize(
    ("records", "corpus", "expected"),
    [
        (ITALIAN, CorpusSettings(), [ADVICE]),
        (ITALIAN, CorpusSettings(language="it"), []),
        (ITALIAN, CorpusSettings(language="en"), []),
        (ENGLISH, CorpusSettings(), []),
    ],
)
def test_only_who_chose_no_language_is_told_and_only_of_another_one(
    write_corpus: Callable[..., Path],
    tmp_path: Path,
    records: list[dict[str, object]],
    corpus: CorpusSettings,
    expected: list[str],
) -> None:
    settings = Settings(root=tmp_path / "root", corpus=corpus)
    request = IndexRequest("alpi", write_corpus(records))
    report = run_index(settings, request, DirectRunner())
    assert run_advice(settings, report) == expected
    assert [line for line in summary_lines(settings, report) if "Italian" in line] == [f"* {each}" for each in expected]
    again = run_index(Settings(root=settings.root), request, DirectRunner())
    assert language_advice(Settings(root=settings.root), again) == ""
