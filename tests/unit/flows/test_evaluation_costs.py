"""Costs side by side: which stages a strategy pays for, what is not recorded, and how it is shown."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polyhop.commands.evaluate import print_costs
from polyhop.flows.evaluate import cost_rows
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.manifest import RunRecord, StageUse
from polyhop.schemas.requests import IndexRequest, parse_variant
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import begin_run
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.open import open_published

RESULT = {
    "latency_ms": {"mean": 250.0},
    "tokens": {"prompt_per_question": 12.5, "completion_per_question": 2.0},
}
STAGES = ("ingest", "extract", "resolve", "graph", "lexical-plain", "lexical-stems", "relations")
UNMEASURED = {"latency_ms": {"mean": None}, "tokens": RESULT["tokens"]}


def record(root: Path, stages: dict[str, StageUse]) -> None:
    """Makes a run that published version 1 the only one of the history."""
    folder = Layout(root).index("one")
    folder.runs.unlink()
    begin_run(folder, lambda run: RunRecord(run=run, started="2026-11-25T08:00:00Z", published=1, stages=stages))


@pytest.fixture
def published(tmp_path: Path) -> Iterator[PublishedIndex]:
    """A version whose stages took 1, 2, 4… seconds, as the history says."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"id": "a", "title": "Ada", "text": "Ada met Bob in Rome."}), encoding="utf-8")
    settings = Settings(root=tmp_path / "root", strategies=("bm25", "bridge-lexical", "graph-search"))
    run_index(settings, IndexRequest("one", corpus), DirectRunner())
    opened = open_published(settings.root, "one")
    record(settings.root, {name: StageUse(seconds=2**n, units=4, computed=4) for n, name in enumerate(STAGES)})
    yield opened
    opened.close()


def rows(published: PublishedIndex, *labels: str) -> dict[str, Any]:
    variants = {label: parse_variant(label, {}) for label in labels if label != "closed-book"}
    return cost_rows(published, variants, {"strategies": dict.fromkeys(labels, RESULT)})


def test_a_strategy_pays_for_the_producing_stages_what_it_reads_and_for_no_other(published: PublishedIndex) -> None:
    found = rows(published, "bm25", "bridge-lexical:hops=1", "graph-search")
    seconds = {label: row["index"]["seconds"] for label, row in found.items()}
    assert seconds == {"bm25": 1 + 16, "bridge-lexical:hops=1": 1 + 2 + 4 + 8 + 32, "graph-search": 1 + 2 + 4 + 8 + 64}
    assert list(found["bm25"]["index"]["stages"]) == ["ingest", "lexical-plain"]
    assert found["bm25"]["index"]["stages"]["ingest"] == {"seconds": 1, "units": 4, "computed": 4}
    assert found["bm25"]["question"] == {"prompt_tokens": 12.5, "completion_tokens": 2, "seconds": 0.25}


def test_tokens_are_those_of_the_replies_that_extraction_and_resolution_rest_on(
    published: PublishedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "extraction_tokens", lambda: (1000, 100))
    stages = published.manifest.stages
    counts = {**stages["resolve"].counts, "prompt_tokens": 30, "completion_tokens": 4}
    stages["resolve"] = stages["resolve"].model_copy(update={"counts": counts})
    found = rows(published, "bm25", "bridge-lexical")
    tokens = [(row["index"]["prompt_tokens"], row["index"]["completion_tokens"]) for row in found.values()]
    assert tokens == [(0, 0), (1030, 104)]


def test_what_was_not_recorded_is_null_and_what_needs_no_index_costs_none(published: PublishedIndex) -> None:
    record(published.layout.root, {"ingest": StageUse(seconds=1)})
    found = rows(published, "bm25", "closed-book")
    assert found["bm25"]["index"]["seconds"] is None
    assert found["bm25"]["index"]["stages"] == {
        "ingest": {"seconds": 1, "units": 0, "computed": 0},
        "lexical-plain": None,
    }
    assert found["closed-book"]["index"] == {"prompt_tokens": 0, "completion_tokens": 0, "seconds": 0, "stages": {}}
    unmeasured = cost_rows(published, {}, {"strategies": {"closed-book": UNMEASURED}})
    assert unmeasured["closed-book"]["question"]["seconds"] is None


def test_costs_are_printed_side_by_side_and_say_what_came_from_caches(capsys: pytest.CaptureFixture[str]) -> None:
    question = {"prompt_tokens": 12.5, "completion_tokens": 2.0, "seconds": 0.25}
    stages = {"extract": {"seconds": 3.0, "units": 40, "computed": 2}, "graph": None}
    index = {"prompt_tokens": 1030, "completion_tokens": 104, "seconds": None, "stages": stages}
    print_costs({"bridge": {"index": index, "question": question}})
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[1].split()) == "strategy index tokens index s tokens per question s per question"
    assert " ".join(lines[2].split()) == "bridge 1,030 + 104 not recorded 12.5 + 2.0 0.250"
    assert lines[3].endswith("the rest came from caches: extract 2 of 40")
