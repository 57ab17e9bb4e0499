"""An index run in this process: what it says, records, takes over and refuses; the page of what it changed; advice."""

import json
import time
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from empty_version import empty_manifest
from real_index import RealIndex, pages, write_lines
from small_indexes import indexed, write_rows

from polyhop.commands.index import print_questions, print_report
from polyhop.commands.stores import versions
from polyhop.flows import reports
from polyhop.flows.index import check_coverage, run_index, with_kept
from polyhop.flows.plan import question_costs
from polyhop.flows.reports import IndexReport, RunModelUse, summary_lines
from polyhop.flows.runner import DirectRunner, model_use
from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import CoverageError, SourceError, StoreConflictError, UnknownIndexError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import CorpusSettings, EncoderSettings, ModelSettings, Settings, parse_settings
from polyhop.schemas.tables import TABLES
from polyhop.tasks.registry import stages_for
from polyhop.tasks.stage import tables_of
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import point_to, read_runs, stage_timings, writer_lease
from polyhop.warehouse.models import onnx_session as openvino_session
from polyhop.warehouse.open_models import ChatsUsage, ModelRun, current_run
from polyhop.warehouse.tables.query import query_rows
from polyhop.worker.strategies.registry import STRATEGIES, needed_artefacts, parse_parameters, spec_of

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
    current_run().close()  # what an earlier test in this process asked of a model
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
    assert report.model == RunModelUse() == model_use()
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
    with pytest.raises(SourceError, match=r"^There is no file or folder .*nowhere\.jsonl; check the path and "):
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
    monkeypatch.setattr(ModelRun, "usage", lambda _: found)
    said = {"calls": 2, "cached": 5, "prompt_tokens": 30, "completion_tokens": 7, "cost_usd": 0.123457}
    unknown = {"unknown_calls": 1, "unknown_tokens": 14, "unknown_cost_usd": 0.000001}
    assert asdict(model_use()) == said | unknown | {"replaced_counts": 3}


def test_a_run_counts_mentions_and_relations(first: Small, small: Small, capsys: pytest.CaptureFixture[str]) -> None:
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


def rows_of(small: Small, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = query_rows(Layout(small.root), "i", query).to_pylist()
    return found


def test_a_first_run_records_every_stage_and_the_manifest_holds_no_clock(first: Small, tmp_path: Path) -> None:
    report, found = first.report, stage_timings(first.index_folder, 1)
    assert {name: use.seconds for name, use in found.items()} == pytest.approx(report.seconds, abs=1e-3)
    assert (found["extract"].units, found["extract"].computed) == (2, 2)
    assert (found["resolve"].units, found["resolve"].computed) == (0, 0)
    stages = rows_of(first, "SELECT stage, seconds, computed, reused, is_taken_over FROM index_stages WHERE run = 1")
    assert {row["stage"]: row["seconds"] for row in stages} == pytest.approx(report.seconds, abs=0.01)
    (extract,) = (row for row in stages if row["stage"] == "extract")
    assert (extract["computed"], extract["reused"], extract["is_taken_over"]) == (2, 0, False)
    sums = rows_of(first, "SELECT computed, peak_memory_mb > 10 AS is_measured FROM index_runs WHERE run = 1")
    assert sums == [{"computed": 2, "is_measured": True}]
    again = Small(tmp_path)
    again.run(first.corpus)  # DuckDB does not write the same bytes for the same rows
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
    found = rows_of(small, "SELECT run, outcome, version, flow_run_id, flow_run_url FROM index_runs ORDER BY run")
    later = [(run, outcome, 1, "", "") for run, outcome in enumerate(("unchanged", "failed", "stopped", "failed"), 2)]
    assert [tuple(row.values()) for row in found] == [(1, "published", 1, "f1", "http://prefect/f1"), *later]
    said = ("", "nothing has changed", "nothing.jsonl", "stopped by KeyboardInterrupt", "is being written by")
    sentences = [row["sentence"] for row in rows_of(small, "SELECT sentence FROM index_runs ORDER BY run")]
    assert [sentence for sentence, words in zip(sentences, said, strict=True) if words not in sentence] == []


@pytest.mark.parametrize(
    ("before", "named", "kept"),
    [
        (None, {}, {"extraction.extractor": "rules", "corpus.language": "en"}),
        (None, {"extraction.extractor": "model"}, {"extraction.extractor": "model", "corpus.language": "en"}),
        ({"extraction.extractor": "import:x.jsonl"}, {}, {"extraction.extractor": "import:x.jsonl"}),
        ({"extraction.extractor": "model"}, {"extraction.extractor": "rules"}, {"extraction.extractor": "rules"}),
        (
            {"hubs.types": "Paper", "hubs.min_edges": 3},
            {"hubs.min_edges": 5},
            {"hubs.types": ("Paper",), "hubs.min_edges": 5},
        ),
        ({"hubs.types": "Paper"}, {"hubs.types": ""}, {"hubs.types": ()}),
        ({"corpus.language": "de"}, {"corpus.overlap_sentences": 1}, {"corpus.language": "de", "hubs.types": ()}),
        ({"corpus.language": "de"}, {"corpus.language": "en"}, {"corpus.language": "en"}),
        ({"resolution.identity": "context"}, {"hubs.min_edges": 3}, {"resolution.identity": "context"}),
        ({"resolution.identity": "context"}, {"resolution.identity": "name"}, {"resolution.identity": "name"}),
    ],
)
def test_what_made_an_index_stays_with_it_until_somebody_says_otherwise(
    before: Any, named: Any, kept: Any, tmp_path: Path
) -> None:
    """What a setting or an option names, else what made the version before, else the default."""
    sections = {name.partition(".")[0] for name in before or {}}
    made = parse_settings({"test": before or {}}).model_dump(mode="json", include=sections)
    manifest = None if before is None else empty_manifest("one", settings=made)
    index = Layout(tmp_path).index("one")
    settings = with_kept(parse_settings({"test": named}), manifest, index)
    assert {name: attrgetter(name)(settings) for name in kept} == kept
    assert with_kept(settings, manifest, index) == settings


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


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The pages of a first run, of one with every kind of change, and of one of other settings."""
    folder = tmp_path_factory.mktemp("changed")
    settings = Settings(root=folder / "root", strategies=("bm25",))
    corpus = folder / "lakes.csv"
    ids = [f"p{n:02}" for n in range(reports.SHOWN_CHANGES + 3)]
    pages: list[list[str]] = []

    def add_page(settings: Settings) -> None:
        before = reports.counts_of_current(settings, "lakes")
        pages.append(reports.change_lines(settings, before, indexed(settings, corpus, "lakes")))

    for number, names in enumerate((ids, ["moved", *ids[2:], "<img src=x onerror=alert(1)>|`[a](javascript:b)"])):
        texts = {name: f"Lake {name} is deep." for name in names} | {ids[2]: f"Version {number}."}
        texts["moved"] = "Lake p00 is deep."
        rows = [f'"{name}","Lake","{texts[name]}"' for name in names]
        corpus.write_text("\n".join(["id,title,text", *rows]) + "\n")
        add_page(settings)
    add_page(settings.model_copy(update={"strategies": ("bm25", "bridge-lexical")}))
    return pages


def test_the_first_records_are_shown_with_how_many_more_there_are_and_how_to_list_them(runs: list[list[str]]) -> None:
    page = runs[0]
    assert page[0] == "# Version 1 of lakes: 53 added"
    assert "| passages | 0 | 53 | +53 |" in page
    added = [f"| p{n:02} | added |  | lakes |" for n in range(reports.SHOWN_CHANGES)]
    assert [line for line in page if "| added |" in line] == added
    assert "3 more records changed." in page
    command = 'polyhop sql "SELECT record_id, kind, from_id, source FROM changes ORDER BY record_id" --index lakes'
    assert page[-3:] == ["```", command, "```"]


def test_each_kind_of_change_is_a_row_and_an_id_is_data(runs: list[list[str]]) -> None:
    page = runs[1]
    assert page[0] == "# Version 2 of lakes: 1 added, 1 changed, 1 deleted, 1 renamed"
    rows = [line for line in page if line.endswith("| lakes |")]
    assert rows == [
        r"| &lt;img src=x onerror=alert(1)&gt;\|\`\[a\](javascript:b) | added |  | lakes |",
        "| moved | renamed | p00 | lakes |",
        "| p01 | deleted |  | lakes |",
        "| p02 | changed |  | lakes |",
    ]
    assert not any("more records" in line for line in page)


def test_a_version_whose_records_are_those_of_before_says_so(runs: list[list[str]]) -> None:
    assert runs[2][0] == "# Version 3 of lakes: no record changed"
    assert "| passages | 53 | 53 | +0 |" in runs[2]
    assert not any("polyhop sql" in line for line in runs[2])


@pytest.mark.parametrize(
    ("seconds", "computed", "encoder", "is_advised"),
    [
        (61.0, 900, EncoderSettings(), True),
        (59.0, 900, EncoderSettings(), False),
        (61.0, 0, EncoderSettings(), False),
        (61.0, 900, EncoderSettings(precision="int8"), False),
        (61.0, 900, EncoderSettings(name="onnx:folder"), False),
    ],
)
def test_long_encoding_by_the_local_encoder_in_float32_is_advised(
    monkeypatch: pytest.MonkeyPatch, seconds: float, computed: int, encoder: EncoderSettings, is_advised: bool
) -> None:
    monkeypatch.setattr(openvino_session, "faster_precision", lambda: "bfloat16 would help")
    settings = Settings(encoder=encoder)
    stages = {"ingest": 100.0, "embed-passage": seconds}
    report = IndexReport("one", 1, changed=True, seconds=stages, computed={"embed-passage": computed})
    advice = "encoding took 61 s; bfloat16 would help" if is_advised else ""
    assert reports.encoding_advice(settings, report) == advice
    assert ("bfloat16" in "\n".join(summary_lines(settings, report))) == is_advised


ITALIAN = [
    {"id": "1", "title": "Roncavalle", "text": "Roncavalle è un comune delle Alpi. Il sindaco è Lucia Ferrant."},
    {"id": "2", "title": "Lucia Ferrant", "text": "Lucia Ferrant è nata a Biella ed è stata la direttrice del museo."},
]
LANGUAGE_ADVICE = (
    "the texts look Italian but were read as English, the default; to change that: "
    "polyhop index --index alpi --set corpus.language=it"
)


def test_only_who_chose_no_language_is_told_and_only_of_another_one(tmp_path: Path) -> None:
    def read(name: str, records: list[dict[str, str]]) -> IndexReport:
        return indexed(plain, write_rows(tmp_path / f"{name}.jsonl", records), name)

    plain = Settings(root=tmp_path / "root")
    report = read("alpi", ITALIAN)
    assert reports.run_advice(plain, report) == [LANGUAGE_ADVICE]
    assert [line for line in summary_lines(plain, report) if "Italian" in line] == [f"* {LANGUAGE_ADVICE}"]
    for language in ("it", "en"):
        assert reports.run_advice(Settings(root=plain.root, corpus=CorpusSettings(language=language)), report) == []
    assert reports.language_advice(plain, read("alpi", ITALIAN)) == "", "nothing has changed"
    english = {"id": "1", "title": "Lake One", "text": "Lake One is a lake that lies near the town of Two."}
    assert reports.run_advice(plain, read("lakes", [english])) == []


PRICED = Settings(models=ModelSettings(read="openai/x", price=(1.0, 2.0)))


def test_levels_multiply_partial_and_final_answers() -> None:
    """Defaults: 5 hubs; one level, or up to 5 of them."""
    costs = question_costs(PRICED, ["bm25", "hublink", "hublink-topic", "hublink"])
    assert {name: row["tasks"] for name, row in costs.items()} == {
        "hublink": {"hub.partial": 5, "hub.final": 1},
        "hublink-topic": {"hub.partial": 25, "hub.final": 5},
    }
    row = costs["hublink"]
    assert row["calls"] == 6
    assert row["cost_usd"] == round((row["prompt_tokens"] + 2 * row["completion_tokens"]) / 1e6, 6)
    assert 6 * 6000 < row["prompt_tokens"] < 6 * 7500


def test_steps_that_rules_take_cost_nothing() -> None:
    def calls(**given: Any) -> dict[str, int]:
        bounds = parse_parameters(spec_of("hublink"), given).call_bounds()
        return {bound.task: bound.calls for bound in bounds}

    assert calls(partial_answers="rules") == {"hub.final": 1}
    assert calls(final_answer="rules", number_of_hubs=30) == {"hub.partial": 30}
    assert calls(partial_answers="rules", final_answer="rules") == {}
    whole = calls(question_components="model", output_filter=True)
    assert whole == {"hub.components": 1, "hub.partial": 5, "hub.final": 1, "hub.filter": 1}
    assert spec_of("bm25").parameters().call_bounds() == ()
    filtered = parse_parameters(spec_of("triple-ppr"), {"recognition_filter": True}).call_bounds()
    assert [(bound.task, bound.calls) for bound in filtered] == [("prop.filter", 1)]


def test_an_unknown_price_leaves_the_cost_open(capsys: Any) -> None:
    assert question_costs(Settings(), ["hublink"]) == {}, "without a model there is nothing to pay"
    costs = question_costs(Settings(models=ModelSettings(read="openai/none-such")), ["hublink"])
    assert costs["hublink"]["cost_usd"] is None
    print_questions("openai/none-such", costs)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("a question by hublink asks openai/none-such at most 6 times (5 hub.partial, 1 hub.final): ")
    assert line.endswith("tokens, cost unknown")
    print_questions("openai/x", question_costs(PRICED, ["hublink"]))
    assert capsys.readouterr().out.endswith(" USD\n")


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "lacks_types"), [("qasa", True), ("bridge", False), ("bm25", False)])
def test_a_run_says_that_names_have_no_types(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: str, lacks_types: bool
) -> None:
    report = RealIndex(tmp_path / "corpus", strategies=(strategy,)).read(pages({"Ulm": "Ulm lies on the Danube."}))
    assert report.lacks_types is lacks_types
    print_report(report)
    assert ("only titles have types" in capsys.readouterr().out) is lacks_types
