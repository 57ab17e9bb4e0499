"""Every step that asks a chat model, on what a weak real model said: it copies gaps, and repeats itself until cut."""

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from recorded_replies import REPLIES, Recording, ask_by_model, index_by_model, settings_in

from polyhop.flows.reports import IndexReport
from polyhop.schemas.settings import Settings
from polyhop.warehouse.cache.replies import ReplyCache, export_replies, import_replies
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.models import chat
from polyhop.warehouse.open_models import current_run
from polyhop.warehouse.tables.query import query_rows

_AS_IS = {"kg.extract": 8, "prop.entities": 3, "hub.path_text": 1, "qa.answer": 1, "qa.chains": 19}
_AS_IS |= {"qa.closed_book": 20, "hub.components": 20, "hub.partial": 20, "hub.final": 9, "hub.filter": 8}
READ = {(task, "as_is"): count for task, count in _AS_IS.items()}
"""Replies that were accepted, by task and help."""
REFUSED = {"kg.extract": 32, "prop.entities": 37, "prop.propositions": 3, "kg.resolve": 22, "hub.path_text": 10}
REFUSED |= {"query.entities": 20, "qa.answer": 19, "qa.chains": 1, "hub.filter": 1}
"""Units without a usable reply, by task: all were cut at their limit."""
LEDGER = [
    ("kg.extract", "done", "", 8, 3387, 492),
    ("kg.extract", "failed", "MalformedReplyError", 32, 13392, 3072),
    ("prop.entities", "done", "", 3, 1413, 118),
    ("prop.entities", "failed", "MalformedReplyError", 37, 17450, 3552),
    ("prop.propositions", "failed", "MalformedReplyError", 3, 2743, 288),
    ("prop.propositions", "failed", "NotAsked", 37, 0, 0),
]
"""Step, state, error, units, and tokens of prompts and replies."""
EXTRACTION = {"dropped_entities_incomplete": 8, "dropped_phrases": 4, "dropped_relations_dangling": 8}
EXTRACTION |= {"extracted_units": 11, "failed_units": 109}
EXTRACTION |= {"listed_entities": 8, "listed_relations": 8, "listed_phrases": 17, "kept_phrases": 13}
CALLS_AND_FALLBACKS = {"bridge-lexical": (21, 20), "closed-book": (20, 0), "qasa": (63, 22)}
CALLS_AND_FALLBACKS |= {"partial answers": (40, 0), "final answers": (9, 0), "filter": (9, 1)}  # of hublink
"""Of reading, the warm-up question included: what was asked of the model, and what rules read in its place."""


@dataclass(frozen=True)
class Replay:
    """An index and its questions, answered by the recording."""

    settings: Settings
    asked: dict[str, dict[str, Any]]
    report: IndexReport
    reading: dict[str, dict[str, Any]]

    def rows(self, sql: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = query_rows(Layout(self.settings.root), "recorded", sql).to_pylist()
        return found

    def cached(self) -> tuple[Counter[tuple[str, str]], dict[str, int]]:
        """Valid replies by task and by the help that they needed; units without one by task."""
        with closing(ReplyCache(Layout(self.settings.root).reply_cache)) as cache:
            read = Counter((source.task, reply.repair.value) for page in cache.pages() for source, reply in page)
            return read, {counts.task: counts.failure_count for counts in cache.by_task() if counts.failure_count}


def replay(folder: Path, imported: Path | None = None) -> Replay:
    """Every step once more, with the replies of an export in the cache, if one is given."""
    settings = settings_in(folder / "root")
    if imported is not None:
        settings.root.mkdir()
        with closing(ReplyCache(Layout(settings.root).reply_cache)) as cache:
            import_replies(cache, imported)
    recording = Recording()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat, "Completions", lambda *_: recording)
        report = index_by_model(settings)
        reading = ask_by_model(settings)
    current_run().close()
    return Replay(settings, recording.calls, report, reading)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    return replay(tmp_path_factory.mktemp("replayed"))


def test_each_step_takes_what_is_usable_of_a_real_models_replies(replayed: Replay) -> None:
    read, refused = replayed.cached()
    assert read == READ
    assert refused == REFUSED
    assert {task for task, _ in read} | set(refused) == {row["task"] for row in replayed.asked.values()}
    cut = Counter(row["task"] for row in replayed.asked.values() if row["is_cut"])
    assert {task for task, count in cut.items() if count >= refused[task]} == set(REFUSED)
    taken = [(use["calls"], use["fallbacks"]) for use in replayed.reading.values()]
    assert taken == [*CALLS_AND_FALLBACKS.values()]


def test_the_ledger_and_the_counts_of_extraction_add_up(replayed: Replay) -> None:
    found = replayed.rows(
        "SELECT step, state, error_class, count(*) AS units, sum(prompt_tokens)::BIGINT AS prompt_tokens, "
        "sum(completion_tokens)::BIGINT AS completion_tokens FROM extraction_ledger GROUP BY ALL ORDER BY ALL"
    )
    assert [tuple(row.values()) for row in found] == LEDGER
    assert replayed.report.extraction == EXTRACTION
    for step in ("kg.extract", "prop.entities", "prop.propositions"):
        calls = [row["tokens"] for row in replayed.asked.values() if row["task"] == step]
        own = [row for row in found if row["step"] == step]
        assert sum(row["units"] for row in own if row["error_class"] != "NotAsked") == len(calls)
        assert sum(row["prompt_tokens"] for row in own) == sum(prompt for prompt, _ in calls)
        assert sum(row["completion_tokens"] for row in own) == sum(completion for _, completion in calls)


def test_nothing_copied_from_a_form_is_an_entity_a_statement_or_an_answer(replayed: Replay) -> None:
    said = Counter(row["task"] for row in replayed.asked.values() if '"…"' in row["text"])
    assert sum(said.values()) > 100
    assert replayed.rows("SELECT name FROM entities WHERE NOT regexp_matches(name, '\\w')") == []
    assert replayed.rows("SELECT text FROM propositions WHERE NOT regexp_matches(text, '\\w')") == []
    with closing(ReplyCache(Layout(replayed.settings.root).reply_cache)) as cache:
        replies = [(source.task, reply.text) for page in cache.pages() for source, reply in page]
    assert [said for task, said in replies if task.startswith(("qa.", "hub.")) and '"answer":"…"' in said] == []


@pytest.mark.rare
def test_the_exported_replies_are_those_of_the_recording(replayed: Replay, tmp_path: Path) -> None:
    with closing(ReplyCache(Layout(replayed.settings.root).reply_cache)) as cache:
        count = export_replies(cache, tmp_path / "again.parquet")
    kept, made = (pq.read_table(path).drop_columns("seconds") for path in (REPLIES, tmp_path / "again.parquet"))
    assert made.num_rows == count
    assert made.equals(kept)


@pytest.mark.rare
def test_imported_replies_are_asked_for_no_more_and_give_the_same_index(replayed: Replay, tmp_path: Path) -> None:
    again = replay(tmp_path, imported=REPLIES)
    assert again.cached() == replayed.cached()
    assert again.asked.keys() < replayed.asked.keys()
    assert {row["task"] for row in again.asked.values()} == set(REFUSED)
    assert len(replayed.asked) - len(again.asked) == sum(READ.values())
    history = {"extraction_ledger", "version_stages"}
    folders = (require_version(Layout(run.settings.root), "recorded")[1] for run in (replayed, again))
    first, second = (read_manifest(folder).tables for folder in folders)
    assert {name: one for name, one in second.items() if name not in history} == {
        name: one for name, one in first.items() if name not in history
    }
    for label, use in again.reading.items():
        assert use["fallbacks"] == replayed.reading[label]["fallbacks"]
