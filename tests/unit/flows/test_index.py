"""An index run in this process: what it says and records, what it takes over, what it refuses."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from empty_version import empty_manifest
from real_index import RealIndex, write_lines

from polyhop.commands.index import print_report
from polyhop.commands.stores import versions
from polyhop.flows.index import check_coverage, run_index, with_kept
from polyhop.flows.reports import IndexReport, ModelUse, summary_lines
from polyhop.flows.runner import DirectRunner, model_use
from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import CoverageError, SourceError, StoreConflictError, UnknownIndexError
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import ExtractionSettings, parse_settings
from polyhop.schemas.tables import TABLES
from polyhop.tasks.registry import stages_for
from polyhop.tasks.stage import tables_of
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import point_to, read_runs, stage_timings, writer_lease
from polyhop.warehouse.open_models import ChatsUsage
from polyhop.warehouse.tables.query import query_rows
from polyhop.worker.strategies.registry import STRATEGIES, needed_artefacts

PAGES = [
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace wrote for Charles Babbage."},
    {"id": "babbage", "title": "Charles Babbage", "text": "Charles Babbage lived in London."},
]

pytestmark = pytest.mark.slow


class Small(RealIndex):
    """An index, and what its first run said."""

    report: IndexReport
    told: list[tuple[str, int, int]]
    took: float
    corpus: Path


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Small:
    small = Small(tmp_path_factory.mktemp("first"))
    small.corpus, small.told = write_lines(small.folder / "corpus.jsonl", PAGES), []
    request = IndexRequest("i", small.corpus, flow_run_id="f1", flow_run_url="http://prefect/f1")
    begun = time.perf_counter()
    small.report = run_index(small.settings, request, DirectRunner(lambda *step: small.told.append(step)))
    small.took = time.perf_counter() - begun
    return small


@pytest.fixture
def small(first: Small, tmp_path: Path) -> Small:
    return first.copy(tmp_path)


def stages_of(report: IndexReport) -> list[str]:
    return [name for name in report.seconds if name not in {"ingest", "publish"}]


def test_the_first_run_computes_every_stage_and_says_how_far_it_is(first: Small) -> None:
    report, names = first.report, stages_of(first.report)
    assert (report.index, report.version, report.changed) == ("i", 1, True)
    assert (report.reused, report.removed_versions) == ([], [])
    assert list(report.seconds) == ["ingest", *names, "publish"]
    assert all(seconds > 0 for seconds in report.seconds.values())
    assert sum(report.seconds.values()) <= first.took
    assert report.counts["passages"] == 2
    assert report.model == ModelUse() == model_use()
    assert report.computed.keys() <= set(names)
    assert report.computed["extract"] == 2
    assert first.told[0] == ("ingest", 2, 2)
    assert first.told[1:3] == [("extract", 0, first.settings.batch_size), ("extract", 2, 2)]  # of one batch, two units
    assert all(0 <= done <= total for _, done, total in first.told)
    assert "mentions" not in report.extraction
    assert list(first.index_folder.versions.iterdir())


def test_the_same_corpus_changes_nothing_and_a_full_run_derives_everything_again(first: Small, small: Small) -> None:
    small.index_folder.runs.unlink()  # a version does not depend on the history
    again = small.run(first.corpus)
    assert (again.version, again.changed, again.counts) == (1, False, first.report.counts)
    assert (again.reused, list(again.seconds), again.computed) == (stages_of(first.report), ["ingest"], {})
    assert [run.run for run in read_runs(small.index_folder)] == [1]
    full = small.run(first.corpus, full=True)
    assert (full.version, full.changed, full.reused, full.counts) == (2, True, [], first.report.counts)
    assert list(full.seconds) == list(first.report.seconds)
    small.settings = small.settings.model_copy(update={"keep_versions": 1})
    report = small.read(PAGES[:1], source_name="corpus")
    assert (report.changed, report.counts["passages"], report.removed_versions) == (True, 1, [1, 2])


def test_what_cannot_be_indexed_is_refused_and_nothing_is_published(tmp_path: Path) -> None:
    small = Small(tmp_path)
    with pytest.raises(SourceError, match=r"^There is no file or folder .*nowhere\.jsonl; check the path, "):
        small.run(tmp_path / "nowhere.jsonl")
    assert not small.index_folder.path.exists(), "a wrong name leaves no index behind"
    with pytest.raises(UnknownIndexError, match="'i'"):
        small.run(None)
    assert Layout(small.root).index_names() == []


def test_coverage_is_the_share_of_units_that_succeeded() -> None:
    check_coverage({}, 1.0)
    check_coverage({"extracted_units": 9, "failed_units": 1}, 0.9)
    words = r"^The model extracted 8 of 10 units, fewer than min_coverage = 0\.9 asks for;.* or lower min_coverage\.$"
    with pytest.raises(CoverageError, match=words):
        check_coverage({"extracted_units": 8, "failed_units": 2}, 0.9)


def test_what_models_took_is_reported_by_name_and_to_a_millionth_of_a_dollar(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ChatsUsage(Usage(2, 30, 7, 0.12345678, 1.5), 5, 3, Usage(1, 10, 4, 0.00000149))
    monkeypatch.setattr("polyhop.flows.runner.chats_usage", lambda: found)
    said = {"calls": 2, "cached": 5, "prompt_tokens": 30, "completion_tokens": 7, "cost_usd": 0.123457}
    unknown = {"unknown_calls": 1, "unknown_tokens": 14, "unknown_cost_usd": 0.000001}
    assert asdict(model_use()) == said | unknown | {"replaced_counts": 3}


def test_a_run_says_how_many_mentions_and_relations_a_passage_and_an_entity_have(
    first: Small, small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each page names two of three people and places, and states one relation; text, JSON, page and versions agree."""
    report = small.run(first.corpus, add_strategies=("graph-search",))
    assert (report.counts["entities"], report.counts["relations"]) == (3, 2)
    wanted = {"mentions_per_passage": 2, "relations_per_passage": 1, "mentions_per_entity": 1.33}
    assert report.to_json()["ratios"] == wanted | {"relations_per_entity": 0.67}
    said = "2.00 mentions and 1.00 relations per passage; 1.33 mentions and 0.67 relations per entity"
    print_report(report)
    assert f"  {said}" in capsys.readouterr().out.splitlines()
    assert f"* {said}" in summary_lines(small.settings, report)
    versions("i", root=small.root, json=True)
    assert json.loads(capsys.readouterr().out)[-1]["ratios"] == report.ratios
    assert small.run(first.corpus).ratios == IndexReport.from_json(report.to_json()).ratios == report.ratios


def rows(small: Small, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = query_rows(Layout(small.root), "i", query).to_pylist()
    return found


def test_a_first_run_records_every_stage_and_the_manifest_holds_no_clock(first: Small, tmp_path: Path) -> None:
    report, found = first.report, stage_timings(first.index_folder, 1)
    assert {name: use.seconds for name, use in found.items()} == pytest.approx(report.seconds, abs=1e-3)
    assert (found["extract"].units, found["extract"].computed) == (2, 2)
    assert (found["resolve"].units, found["resolve"].computed) == (0, 0)
    stages = rows(first, "SELECT stage, seconds, computed, reused, is_taken_over FROM index_stages WHERE run = 1")
    assert {row["stage"]: row["seconds"] for row in stages} == pytest.approx(report.seconds, abs=0.01)
    (extract,) = (row for row in stages if row["stage"] == "extract")
    assert (extract["computed"], extract["reused"], extract["is_taken_over"]) == (2, 0, False)
    sums = rows(first, "SELECT computed, peak_memory_mb > 10 AS is_measured FROM index_runs WHERE run = 1")
    assert sums == [{"computed": 2, "is_measured": True}]
    again = Small(tmp_path)
    again.run(first.corpus)
    # DuckDB does not write the same bytes for the same rows
    one, other = (index.manifest.model_copy(update={"tables_file": ""}) for index in (first, again))
    assert one == other


def test_results_that_are_taken_over_keep_the_seconds_of_the_run_that_computed_them(first: Small, small: Small) -> None:
    point_to(small.index_folder, 1, is_pinned=True)
    added = small.run(None, add_strategies=("graph",))
    assert (added.version, added.changed, added.counts["passages"]) == (2, True, 2)
    assert set(added.reused) == set(stages_of(first.report))
    assert added.seconds.keys() - first.report.seconds.keys() == {"graph"}
    one, second = (stage_timings(small.index_folder, number) for number in (1, 2))
    assert {name: second[name] for name in one if name != "publish"} == {n: one[n] for n in one if n != "publish"}
    assert second.keys() - one.keys() == {"graph"}
    report = small.read(PAGES[:1], source_name="corpus")
    third = stage_timings(small.index_folder, 3)
    assert third.keys() == second.keys()
    for name in ("extract", "resolve", "publish"):
        assert third[name].seconds == pytest.approx(report.seconds[name], abs=1e-3)
    assert stage_timings(small.index_folder, 2) == second


class Interrupted(DirectRunner):
    def step(self, name: str, run: Any) -> Any:
        if name == "resolve finish":
            raise KeyboardInterrupt
        return super().step(name, run)


def test_runs_that_publish_find_nothing_fail_or_are_stopped_are_all_rows(first: Small, small: Small) -> None:
    small.run(first.corpus)
    with pytest.raises(SourceError):
        small.run(small.folder / "nothing.jsonl")
    fewer = IndexRequest("i", write_lines(small.folder / "corpus.jsonl", PAGES[:1]), source_name="corpus")
    with pytest.raises(KeyboardInterrupt):
        run_index(small.settings, fewer, Interrupted())
    with writer_lease(small.index_folder.lease, "i"), pytest.raises(StoreConflictError):
        small.run(first.corpus)
    found = rows(small, "SELECT run, outcome, version, flow_run_id, flow_run_url FROM index_runs ORDER BY run")
    assert [tuple(row.values()) for row in found] == [
        (1, "published", 1, "f1", "http://prefect/f1"),
        (2, "unchanged", 1, "", ""),
        (3, "failed", 1, "", ""),
        (4, "stopped", 1, "", ""),
        (5, "failed", 1, "", ""),
    ]
    said = ("", "nothing has changed", "nothing.jsonl", "stopped by KeyboardInterrupt", "is being written by")
    sentences = [row["sentence"] for row in rows(small, "SELECT sentence FROM index_runs ORDER BY run")]
    assert [sentence for sentence, words in zip(sentences, said, strict=True) if words not in sentence] == []


def built_with(extractor: str) -> Manifest:
    """A version that this extractor made."""
    settings = {"extraction": ExtractionSettings(extractor=extractor).model_dump()}
    return empty_manifest("one", settings=settings)


@pytest.mark.parametrize(
    ("configured", "before", "expected"),
    [
        (None, None, "rules"),
        ("model", None, "model"),
        (None, "import:x.jsonl", "import:x.jsonl"),
        ("rules", "model", "rules"),
    ],
)
def test_an_index_keeps_its_extractor_until_another_is_named(
    configured: str | None, before: str | None, expected: str
) -> None:
    """What a setting or an option names, else what made the version before, else rules."""
    named = {} if configured is None else {"extraction.extractor": configured}
    manifest = None if before is None else built_with(before)
    settings = with_kept(parse_settings({"test": named}), manifest)
    assert (settings.extraction.extractor, settings.corpus.language) == (expected, "en")
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


def test_a_stage_whose_part_files_the_next_one_reads_runs_again(tmp_path: Path) -> None:
    """Resolution by other rules reads what extraction left in part files; those went when the first run ended."""

    def resolved(root: str, method: str) -> tuple[IndexReport, list[tuple[Any, ...]]]:
        small = RealIndex(tmp_path / root)
        flags = {"root": str(small.root), "strategies": "bm25", "resolution.method": method}
        small.settings = parse_settings({"test": flags})
        report = small.read(PAGES)
        return report, small.rows("SELECT key, unit_id, tf FROM mentions JOIN entities USING (entity_id) ORDER BY ALL")

    resolved("edited", "off")
    again, edited = resolved("edited", "rules")
    assert (again.version, "extract" in again.reused) == (2, False)
    assert again.computed["extract"] == 0  # the version before keeps the rows of its passages
    assert edited == resolved("fresh", "rules")[1] != []


def test_every_table_is_filled_by_some_stage() -> None:
    stages = stages_for(needed_artefacts(list(STRATEGIES)))
    filled = {"version_stages"}.union(*(stage.table_names for stage in stages))  # which publishing writes
    assert {table.name for table in tables_of(stages)} == filled
    assert {table.name for table in TABLES} < filled
