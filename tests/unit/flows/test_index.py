"""An index run in this process: what it says and records, what it takes over, what it refuses."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from empty_version import empty_manifest

from polyhop.commands.index import print_report
from polyhop.commands.stores import versions
from polyhop.flows.index import check_coverage, run_index, with_kept
from polyhop.flows.reports import IndexReport, ModelUse, summary_lines
from polyhop.flows.runner import DirectRunner, model_use
from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import CoverageError, SourceError, StoreConflictError, UnknownIndexError
from polyhop.schemas.manifest import Manifest, StageTiming
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import ExtractionSettings, Settings, parse_settings
from polyhop.schemas.tables import TABLES
from polyhop.tasks.registry import stages_for
from polyhop.tasks.stage import tables_of
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import point_to, read_manifest, read_runs, stage_timings, writer_lease
from polyhop.warehouse.open_models import ChatsUsage
from polyhop.warehouse.tables.connection import connect
from polyhop.warehouse.tables.query import query_rows
from polyhop.worker.strategies.registry import STRATEGIES, needed_artefacts

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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_same_corpus_again_changes_nothing(settings: Settings, tmp_path: Path) -> None:
    first = run(settings, corpus_of(tmp_path, PAGES))
    again = run(settings, corpus_of(tmp_path, PAGES))
    assert (again.version, again.changed, again.counts) == (1, False, first.counts)
    assert again.reused == [name for name in first.seconds if name not in {"ingest", "publish"}]
    assert list(again.seconds) == ["ingest"]
    assert not again.computed


@pytest.mark.slow
def test_a_full_run_derives_everything_again_and_publishes(settings: Settings, tmp_path: Path) -> None:
    first = run(settings, corpus_of(tmp_path, PAGES))
    full = run(settings, corpus_of(tmp_path, PAGES), full=True)
    assert (full.version, full.changed, full.reused, full.counts) == (2, True, [], first.counts)
    assert list(full.seconds) == list(first.seconds)


@pytest.mark.slow
def test_a_changed_corpus_is_published_and_old_versions_are_removed(settings: Settings, tmp_path: Path) -> None:
    kept = settings.model_copy(update={"keep_versions": 1})
    for count, removed in ((2, []), (1, [1])):
        report = run(kept, corpus_of(tmp_path, PAGES[:count]))
        assert (report.changed, report.counts["passages"], report.removed_versions) == (True, count, removed)


@pytest.mark.slow
def test_a_strategy_added_without_a_source_builds_on_the_corpus_there_is(settings: Settings, tmp_path: Path) -> None:
    first = run(settings, corpus_of(tmp_path, PAGES))
    added = run(settings, None, add_strategies=("graph",))
    assert (added.version, added.changed) == (2, True)
    assert set(added.reused) == {name for name in first.seconds if name not in {"ingest", "publish"}}
    assert added.seconds.keys() - first.seconds.keys() == {"graph"}
    assert added.counts["passages"] == 2
    assert run(settings, None).changed is False


@pytest.mark.slow
def test_what_cannot_be_indexed_is_refused_and_nothing_is_published(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^There is no file or folder .*nowhere\.jsonl; check the path, "):
        run(settings, tmp_path / "nowhere.jsonl")
    with pytest.raises(UnknownIndexError, match="small"):
        run(settings, None)
    assert Layout(settings.root).index_names() == []


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


def timings(settings: Settings, number: int) -> dict[str, StageTiming]:
    return stage_timings(Layout(settings.root).index("small"), number)


@pytest.mark.slow
def test_a_first_run_records_every_stage_and_the_manifest_holds_no_clock(settings: Settings, tmp_path: Path) -> None:
    report = run(settings, corpus_of(tmp_path, PAGES))
    found = timings(settings, 1)
    assert list(found) == list(report.seconds)
    for name, use in found.items():
        assert use.seconds == pytest.approx(report.seconds[name], abs=1e-3)
    assert (found["extract"].units, found["extract"].computed) == (2, report.computed["extract"])
    assert (found["resolve"].units, found["resolve"].computed) == (0, 0)
    again = settings.model_copy(update={"root": tmp_path / "again"})
    run(again, corpus_of(tmp_path, PAGES))
    # DuckDB does not write the same bytes for the same rows
    folders = [Layout(one.root).index("small").version(1) for one in (settings, again)]
    first, second = [read_manifest(folder).model_copy(update={"tables_file": ""}) for folder in folders]
    assert first == second


@pytest.mark.slow
def test_results_that_are_taken_over_keep_the_seconds_of_the_run_that_computed_them(
    settings: Settings, tmp_path: Path
) -> None:
    run(settings, corpus_of(tmp_path, PAGES))
    run(settings, None, add_strategies=("graph",))
    first, second = timings(settings, 1), timings(settings, 2)
    assert {name: second[name] for name in first if name != "publish"} == {n: first[n] for n in first if n != "publish"}
    assert second.keys() - first.keys() == {"graph"}
    report = run(settings, corpus_of(tmp_path, PAGES[:1]))
    third = timings(settings, 3)
    assert third.keys() == second.keys()
    for name in ("extract", "resolve", "publish"):
        assert third[name].seconds == pytest.approx(report.seconds[name], abs=1e-3)
    assert timings(settings, 2) == second


@pytest.mark.slow
def test_a_version_beside_a_pinned_one_has_the_seconds_of_its_own_run(settings: Settings, tmp_path: Path) -> None:
    run(settings, corpus_of(tmp_path, PAGES))
    point_to(Layout(settings.root).index("small"), 1, is_pinned=True)
    run(settings, None, add_strategies=("graph",))
    assert "graph" not in timings(settings, 1)
    assert "graph" in timings(settings, 2)


RUNS = "SELECT run, outcome, sentence, version, computed, reused FROM index_runs ORDER BY run"


def rows(settings: Settings, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = query_rows(Layout(settings.root), "small", query).to_pylist()
    return found


class Interrupted(DirectRunner):
    def step(self, name: str, run: Any) -> Any:
        if name == "resolve finish":
            raise KeyboardInterrupt
        return super().step(name, run)


@pytest.mark.slow
def test_runs_that_publish_find_nothing_fail_or_are_stopped_are_all_rows(settings: Settings, tmp_path: Path) -> None:
    folder = Layout(settings.root).index("small")
    with pytest.raises(SourceError):
        run(settings, tmp_path / "nothing.jsonl")
    assert not folder.path.exists()  # a wrong name leaves no index behind
    corpus = corpus_of(tmp_path, PAGES)
    run(settings, corpus, flow_run_id="f1", flow_run_url="http://prefect/f1")
    run(settings, corpus)
    with pytest.raises(SourceError):
        run(settings, tmp_path / "nothing.jsonl")
    with pytest.raises(KeyboardInterrupt):
        run_index(settings, IndexRequest("small", corpus_of(tmp_path, PAGES[:1])), Interrupted())
    with writer_lease(folder.lease, "small"), pytest.raises(StoreConflictError):
        run(settings, corpus)
    found = rows(settings, "SELECT run, outcome, sentence, version FROM index_runs ORDER BY run")
    assert [(row["run"], row["outcome"], row["version"]) for row in found] == [
        (1, "published", 1),
        (2, "unchanged", 1),
        (3, "failed", 1),
        (4, "stopped", 1),
        (5, "failed", 1),
    ]
    said = ("", "nothing has changed", "nothing.jsonl", "stopped by KeyboardInterrupt", "is being written by")
    assert [row["sentence"] for row, words in zip(found, said, strict=True) if words not in row["sentence"]] == []
    flow_runs = rows(settings, "SELECT flow_run_id, flow_run_url FROM index_runs WHERE flow_run_id <> ''")
    assert flow_runs == [{"flow_run_id": "f1", "flow_run_url": "http://prefect/f1"}]


@pytest.mark.slow
def test_the_history_has_what_stages_computed_and_a_version_does_not_depend_on_it(
    settings: Settings, tmp_path: Path
) -> None:
    report = run(settings, corpus_of(tmp_path, PAGES))
    stages = rows(settings, "SELECT stage, seconds, computed, reused, is_taken_over FROM index_stages WHERE run = 1")
    assert [row["stage"] for row in stages] == list(report.seconds)
    assert [row["seconds"] for row in stages] == [pytest.approx(s, abs=0.01) for s in report.seconds.values()]
    (extract,) = (row for row in stages if row["stage"] == "extract")
    assert (extract["computed"], extract["reused"], extract["is_taken_over"]) == (2, 0, False)
    (sums,) = rows(settings, "SELECT computed, peak_memory_mb > 10 AS is_measured FROM index_runs WHERE run = 1")
    assert sums == {"computed": 2, "is_measured": True}
    folder = Layout(settings.root).index("small")
    folder.runs.unlink()
    assert rows(settings, "FROM index_runs") == []
    assert not run(settings, corpus_of(tmp_path, PAGES)).changed
    assert [run.run for run in read_runs(folder)] == [1]


def built_with(extractor: str) -> Manifest:
    """A version that this extractor made."""
    settings = {"extraction": ExtractionSettings(extractor=extractor).model_dump()}
    return empty_manifest("one", settings=settings)


@pytest.mark.parametrize(
    ("configured", "before", "expected"),
    [
        (None, None, "rules"),
        ("model", None, "model"),
        (None, "rules", "rules"),
        (None, "model", "model"),
        (None, "import:x.jsonl", "import:x.jsonl"),
        ("model", "rules", "model"),
        ("rules", "model", "rules"),
        ("import:x.jsonl", "model", "import:x.jsonl"),
    ],
)
def test_an_index_keeps_its_extractor_until_another_is_named(
    configured: str | None, before: str | None, expected: str
) -> None:
    """What a setting or an option names, else what made the version before, else rules."""
    named = {} if configured is None else {"extraction.extractor": configured}
    manifest = None if before is None else built_with(before)
    settings = with_kept(parse_settings({"test": named}), manifest)
    assert settings.extraction.extractor == expected
    assert with_kept(settings, manifest).extraction.extractor == expected


@pytest.mark.parametrize(
    ("before", "named", "kept"),
    [
        ({"hubs.types": "Paper", "hubs.min_edges": 3}, {"hubs.min_edges": 5}, {"types": ("Paper",), "min_edges": 5}),
        ({"hubs.types": "Paper"}, {"hubs.types": ""}, {"types": ()}),
        ({"corpus.language": "de"}, {"corpus.overlap_sentences": 1}, {"language": "de", "overlap_sentences": 1}),
        ({"corpus.language": "de"}, {"corpus.language": "en"}, {"language": "en"}),
        ({"resolution.identity": "context"}, {"corpus.overlap_sentences": 1}, {"identity": "context"}),
        ({"resolution.identity": "context"}, {"resolution.identity": "name"}, {"identity": "name"}),
    ],
)
def test_what_hubs_languages_and_identity_are_stays_with_the_index_until_somebody_says_otherwise(
    before: dict[str, object], named: dict[str, object], kept: dict[str, object]
) -> None:
    made = parse_settings({"test": before}).model_dump(mode="json")
    manifest = built_with("rules").model_copy(update={"settings": made})
    section = next(iter(before)).partition(".")[0]
    found = getattr(with_kept(parse_settings({"test": named}), manifest), section)
    assert {name: getattr(found, name) for name in kept} == kept


def test_a_version_from_before_there_were_languages_is_english() -> None:
    assert with_kept(parse_settings({}), built_with("rules")).corpus.language == "en"


def test_a_stage_whose_part_files_the_next_one_reads_runs_again(tmp_path: Path) -> None:
    """Resolution by other rules reads what extraction left in part files; those went when the first run ended."""

    def resolved(root: str, method: str) -> IndexReport:
        settings = {"root": str(tmp_path / root), "strategies": "bm25", "resolution.method": method}
        return run(parse_settings({"test": settings}), corpus_of(tmp_path, PAGES))

    def entities(root: str, version: int) -> list[tuple[object, ...]]:
        tables = Layout(tmp_path / root).index("small").version(version).tables
        with connect(tables, read_only=True) as connection:
            query = "SELECT key, unit_id, tf FROM mentions JOIN entities USING (entity_id) ORDER BY ALL"
            return connection.execute(query).fetchall()

    resolved("edited", "off")
    again = resolved("edited", "rules")
    assert (again.version, again.changed) == (2, True)
    assert "extract" not in again.reused
    assert again.computed["extract"] == 0  # the version before keeps the rows of its passages
    resolved("fresh", "rules")
    assert entities("edited", 2) == entities("fresh", 1) != []


WRITTEN_BY_PUBLISHING = {"version_stages"}


def test_every_table_is_filled_by_some_stage() -> None:
    stages = stages_for(needed_artefacts(list(STRATEGIES)))
    filled = WRITTEN_BY_PUBLISHING.union(*(stage.table_names for stage in stages))
    assert {table.name for table in tables_of(stages)} == filled
    assert {table.name for table in TABLES} < filled
