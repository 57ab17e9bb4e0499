"""What a run takes over from the version before: the extractor, and stages whose part files nobody needs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from empty_version import empty_manifest

from polyhop.flows.index import run_index, with_kept
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import ExtractionSettings, parse_settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.connection import connect

RECORDS = [
    {"id": "a", "title": "Ada Lovelace", "text": "Ada Lovelace worked with Charles Babbage in London."},
    {"id": "b", "title": "Charles Babbage", "text": "Babbage was born in London. Charles Babbage died in 1871."},
]


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


def test_what_hubs_are_stays_with_the_index_until_somebody_says_otherwise() -> None:
    before = parse_settings({"test": {"hubs.types": "Paper", "hubs.min_edges": 3}})
    manifest = built_with("rules").model_copy(update={"settings": before.model_dump(mode="json")})
    kept = with_kept(parse_settings({"test": {"hubs.min_edges": 5}}), manifest).hubs
    assert (kept.types, kept.min_edges) == (("Paper",), 5)
    assert with_kept(parse_settings({"test": {"hubs.types": ""}}), manifest).hubs.types == ()


def test_language_and_identity_stay_with_the_index_until_somebody_says_otherwise() -> None:
    before = parse_settings({"test": {"corpus.language": "de", "resolution.identity": "context"}})
    manifest = built_with("rules").model_copy(update={"settings": before.model_dump(mode="json")})
    kept = with_kept(parse_settings({"test": {"corpus.overlap_sentences": 1}}), manifest)
    assert (kept.corpus.language, kept.corpus.overlap_sentences, kept.resolution.identity) == ("de", 1, "context")
    other = with_kept(parse_settings({"test": {"corpus.language": "en", "resolution.identity": "name"}}), manifest)
    assert (other.corpus.language, other.resolution.identity) == ("en", "name")


def test_a_version_from_before_there_were_languages_is_english() -> None:
    assert with_kept(parse_settings({}), built_with("rules")).corpus.language == "en"


def run(root: Path, corpus: Path, method: str) -> IndexReport:
    settings = parse_settings({"test": {"root": str(root), "strategies": "bm25", "resolution.method": method}})
    return run_index(settings, IndexRequest("one", corpus), DirectRunner())


def entities(root: Path, version: int) -> list[tuple[object, ...]]:
    with connect(Layout(root).index("one").version(version).tables, read_only=True) as connection:
        return connection.execute(
            "SELECT key, unit_id, tf FROM mentions JOIN entities USING (entity_id) ORDER BY ALL"
        ).fetchall()


def test_a_stage_whose_part_files_the_next_one_reads_runs_again(
    tmp_path: Path, write_corpus: Callable[..., Path]
) -> None:
    """Resolution by other rules reads what extraction left in part files; those went when the first run ended."""
    corpus = write_corpus(RECORDS)
    run(tmp_path / "edited", corpus, "off")
    again = run(tmp_path / "edited", corpus, "rules")
    assert (again.version, again.changed) == (2, True)
    assert "extract" not in again.reused
    assert again.computed["extract"] == 0  # the version before keeps the rows of its passages
    run(tmp_path / "fresh", corpus, "rules")
    assert entities(tmp_path / "edited", 2) == entities(tmp_path / "fresh", 1) != []


def test_a_run_without_any_change_takes_every_stage_over(tmp_path: Path, write_corpus: Callable[..., Path]) -> None:
    corpus = write_corpus(RECORDS)
    run(tmp_path, corpus, "rules")
    again = run(tmp_path, corpus, "rules")
    assert (again.version, again.changed, again.reused[:2]) == (1, False, ["extract", "resolve"])
    assert again.computed == {}
