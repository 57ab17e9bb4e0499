"""An index run in this process: what it says it did, what it takes over, what it refuses."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from polyhop.commands.index import print_report
from polyhop.commands.stores import versions
from polyhop.flows.index import check_coverage, run_index
from polyhop.flows.reports import IndexReport, ModelUse, summary_lines
from polyhop.flows.runner import DirectRunner, model_use
from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import CoverageError, SourceError, UnknownIndexError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.open_models import ChatsUsage

pytestmark = pytest.mark.slow

PAGES = [
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace wrote for Charles Babbage."},
    {"id": "babbage", "title": "Charles Babbage", "text": "Charles Babbage lived in London."},
]
Told = list[tuple[str, int, int]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("bm25",))


def corpus_of(tmp_path: Path, pages: list[dict[str, str]]) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(page) + "\n" for page in pages), encoding="utf-8")
    return path


def run(settings: Settings, source: Path | None, told: Told | None = None, **changes: Any) -> IndexReport:
    listener = None if told is None else lambda *step: told.append(step)
    return run_index(settings, IndexRequest("small", source, **changes), DirectRunner(listener))


def test_the_first_run_computes_every_stage_and_says_how_far_it_is(settings: Settings, tmp_path: Path) -> None:
    told: Told = []
    begun = time.perf_counter()
    report = run(settings, corpus_of(tmp_path, PAGES), told)
    whole = time.perf_counter() - begun
    assert (report.index, report.version, report.changed, report.reused, report.removed_versions) == (
        *("small", 1, True),
        *([], []),
    )
    names = [name for name in report.seconds if name not in {"ingest", "publish"}]
    assert list(report.seconds) == ["ingest", *names, "publish"]
    assert all(seconds > 0 for seconds in report.seconds.values())
    assert sum(report.seconds.values()) <= whole
    assert report.counts["passages"] == 2
    assert report.model == ModelUse() == model_use()
    assert report.computed.keys() <= set(names)
    assert report.computed["extract"] == 2
    assert told[0] == ("ingest", 2, 2)
    assert told[1:3] == [("extract", 0, settings.batch_size), ("extract", 2, 2)]  # of one batch, two units
    assert all(0 <= done <= total for _, done, total in told)
    assert "mentions" not in report.extraction
    assert list(Layout(settings.root).index("small").versions.iterdir())


def test_the_same_corpus_again_changes_nothing(settings: Settings, tmp_path: Path) -> None:
    first = run(settings, corpus_of(tmp_path, PAGES))
    again = run(settings, corpus_of(tmp_path, PAGES))
    assert (again.version, again.changed, again.counts) == (1, False, first.counts)
    assert again.reused == [name for name in first.seconds if name not in {"ingest", "publish"}]
    assert list(again.seconds) == ["ingest"]
    assert not again.computed


def test_a_full_run_derives_everything_again_and_publishes(settings: Settings, tmp_path: Path) -> None:
    first = run(settings, corpus_of(tmp_path, PAGES))
    full = run(settings, corpus_of(tmp_path, PAGES), full=True)
    assert (full.version, full.changed, full.reused, full.counts) == (2, True, [], first.counts)
    assert list(full.seconds) == list(first.seconds)


def test_a_changed_corpus_is_published_and_old_versions_are_removed(settings: Settings, tmp_path: Path) -> None:
    kept = settings.model_copy(update={"keep_versions": 1})
    for count, removed in ((2, []), (1, [1])):
        report = run(kept, corpus_of(tmp_path, PAGES[:count]))
        assert (report.changed, report.counts["passages"], report.removed_versions) == (True, count, removed)


def test_a_strategy_added_without_a_source_builds_on_the_corpus_there_is(settings: Settings, tmp_path: Path) -> None:
    first = run(settings, corpus_of(tmp_path, PAGES))
    added = run(settings, None, add_strategies=("graph",))
    assert (added.version, added.changed) == (2, True)
    assert set(added.reused) == {name for name in first.seconds if name not in {"ingest", "publish"}}
    assert added.seconds.keys() - first.seconds.keys() == {"graph"}
    assert added.counts["passages"] == 2
    assert run(settings, None).changed is False


def test_what_cannot_be_indexed_is_refused_and_nothing_is_published(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^There is no file or folder .*nowhere\.jsonl; check the path, "):
        run(settings, tmp_path / "nowhere.jsonl")
    with pytest.raises(UnknownIndexError, match="small"):
        run(settings, None)
    assert Layout(settings.root).index_names() == []


def test_coverage_is_the_share_of_units_that_succeeded() -> None:
    check_coverage({}, 1.0)
    check_coverage({"extracted_units": 9, "failed_units": 1}, 0.9)
    check_coverage({"failed_units": 3}, 0.0)
    with pytest.raises(
        CoverageError, match=r"^The model extracted 8 of 10 units, fewer than min_coverage = 0\.9 asks for;"
    ):
        check_coverage({"extracted_units": 8, "failed_units": 2}, 0.9)
    with pytest.raises(
        CoverageError,
        match=r"extracted 0 of 1,000 units.*nothing was published\. Run again .* or lower min_coverage\.$",
    ):
        check_coverage({"failed_units": 1000}, 0.5)


def test_what_models_took_is_reported_by_name_and_to_a_millionth_of_a_dollar(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ChatsUsage(Usage(2, 30, 7, 0.12345678, 1.5), 5, 3, Usage(1, 10, 4, 0.00000149))
    monkeypatch.setattr("polyhop.flows.runner.chats_usage", lambda: found)
    assert model_use() == ModelUse(
        calls=2,
        cached=5,
        prompt_tokens=30,
        completion_tokens=7,
        cost_usd=0.123457,
        replaced_counts=3,
        unknown_calls=1,
        unknown_tokens=14,
        unknown_cost_usd=0.000001,
    )


def test_a_run_says_how_many_mentions_and_relations_a_passage_and_an_entity_have(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each page names two of three people and places, and states one relation; text, JSON, page and versions agree."""
    report = run(settings, corpus_of(tmp_path, PAGES), add_strategies=("graph-search",))
    assert (report.counts["entities"], report.counts["relations"]) == (3, 2)
    wanted = {"mentions_per_passage": 2, "relations_per_passage": 1, "mentions_per_entity": 1.33}
    assert report.to_json()["ratios"] == wanted | {"relations_per_entity": 0.67}
    said = "2.00 mentions and 1.00 relations per passage; 1.33 mentions and 0.67 relations per entity"
    print_report(report)
    assert f"  {said}" in capsys.readouterr().out.splitlines()
    assert f"* {said}" in summary_lines(settings, report)
    assert IndexReport.from_json(report.to_json()).ratios == report.ratios
    versions("small", root=settings.root, json=True)
    assert json.loads(capsys.readouterr().out)[0]["ratios"] == report.ratios
    assert run(settings, corpus_of(tmp_path, PAGES)).ratios == report.ratios
