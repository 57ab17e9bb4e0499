"""Every step that asks a chat model, on what Qwen2.5-Coder-1.5B said: it repeats itself, and adds what no text says."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from recorded_replies import (
    BY_RULES,
    DEMO,
    QUESTIONS,
    REPLIES,
    Recording,
    ask_by_model,
    index_by_model,
    read_by_model,
    settings_in,
    table,
    usable_units,
)

import polyhop
from polyhop.flows.evaluation.metrics import token_f1
from polyhop.flows.reports import IndexReport
from polyhop.schemas.settings import Settings
from polyhop.warehouse.cache.replies import ReplyCache, export_replies, import_replies
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.models import chat
from polyhop.warehouse.open_models import current_run
from polyhop.warehouse.tables.query import query_rows

AS_IS = {"kg.extract": 6, "prop.entities": 12, "prop.propositions": 12, "kg.resolve": 3, "hub.path_text": 2}
AS_IS |= {"query.entities": 6, "qa.answer": 29, "qa.chains": 6, "qa.closed_book": 6}
AS_IS |= {"hub.components": 6, "hub.partial": 6, "hub.final": 7, "hub.filter": 1}
"""Replies that were accepted as they came, by task; six extractions were cut twice and keep their whole items."""
LEDGER = [
    ("kg.extract", "done", "as_is", 6, 2732, 1899),
    ("kg.extract", "done", "cut", 6, 8919, 5400),
    ("prop.entities", "done", "as_is", 12, 5680, 694),
    ("prop.propositions", "done", "as_is", 12, 11335, 2660),
]
"""Step, state, repair, units, and tokens of prompts and replies."""
EXTRACTION = {"extracted_units": 36, "listed_entities": 98, "kept_entities": 98, "dropped_entities_twice": 6}
EXTRACTION |= {"listed_relations": 35, "kept_relations": 24, "dropped_relations_dangling": 11, "new_entity_types": 4}
EXTRACTION |= {"listed_phrases": 115, "kept_phrases": 115, "listed_propositions": 56, "kept_propositions": 56}
EXTRACTION |= {"dropped_proposition_entities": 49}
CALLS_AND_FALLBACKS = {"bridge-lexical": (7, 1), "closed-book": (6, 0), "qasa": (12, 1)}
CALLS_AND_FALLBACKS |= {"partial answers": (18, 0), "final answers": (1, 0), "filter": (1, 0)}  # of hublink
CALLS_AND_FALLBACKS |= {"whole corpus": (24, 0)}
"""Model calls and fallbacks of reading by strategy, the warm-up question included."""


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
        reading = ask_by_model(settings) | read_by_model(settings)
    current_run().close()
    return Replay(settings, recording.calls, report, reading)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    return replay(tmp_path_factory.mktemp("replayed"))


def test_each_step_takes_what_is_usable_of_a_real_models_replies(replayed: Replay) -> None:
    read, refused = replayed.cached()
    assert read == {("kg.extract", "cut"): 6, **{(task, "as_is"): count for task, count in AS_IS.items()}}
    assert refused == {"qa.answer": 1}
    assert {task for task, _ in read} == {row["task"] for row in replayed.asked.values()}
    taken = [(use["calls"], use["fallbacks"]) for use in replayed.reading.values()]
    assert taken == [*CALLS_AND_FALLBACKS.values()]


def test_the_docs_have_the_table_of_usable_units(replayed: Replay) -> None:
    with closing(ReplyCache(Layout(replayed.settings.root).reply_cache)) as cache:
        made = table(usable_units(cache))
    assert made in (DEMO.parents[1] / "docs" / "how-to" / "models.md").read_text(encoding="utf-8")


def test_the_ledger_and_the_counts_of_extraction_add_up(replayed: Replay) -> None:
    found = replayed.rows(
        "SELECT step, state, rung, count(*) AS units, sum(prompt_tokens)::BIGINT AS prompt_tokens, "
        "sum(completion_tokens)::BIGINT AS completion_tokens FROM extraction_ledger GROUP BY ALL ORDER BY ALL"
    )
    assert [tuple(row.values()) for row in found] == LEDGER
    assert replayed.report.extraction == EXTRACTION
    for step in ("kg.extract", "prop.entities", "prop.propositions"):
        calls = [row["tokens"] for row in replayed.asked.values() if row["task"] == step]
        own = [row for row in found if row["step"] == step]
        assert sum(row["prompt_tokens"] for row in own) == sum(prompt for prompt, _ in calls)
        assert sum(row["completion_tokens"] for row in own) == sum(completion for _, completion in calls)


def read_again(settings: Settings, index: str, questions: Sequence[Mapping[str, Any]]) -> list[polyhop.Answer]:
    """Answers of `bridge-lexical` to questions whose replies were recorded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat, "Completions", lambda *_: Recording())
        with polyhop.open_index(index, settings=settings) as opened:
            answers = opened.ask_batch([row["question"] for row in questions], strategy="bridge-lexical")
    current_run().close()
    return answers


def demo_questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DEMO / "questions.jsonl").read_text(encoding="utf-8").splitlines()]


def test_an_answer_is_verified_only_by_a_quote_that_stands_in_its_passage(replayed: Replay) -> None:
    answers = read_again(replayed.settings, "recorded", demo_questions()[:QUESTIONS])
    readings = [answer.to_json()["reading"] for answer in answers]
    texts = {row["passage_id"]: row["text"] for row in replayed.rows("SELECT passage_id, text FROM passages")}
    by_model = [reading for reading in readings if reading["by"] == "model"]
    assert [bool(reading["verified"]) for reading in by_model] == [False, True, False, True, False]
    for reading in by_model:
        assert bool(reading["verified"]) == bool(reading["citations"])
        assert all(cited["quote"] in texts[cited["passage_id"]] for cited in reading["citations"])
    assert sum(reading["dropped_citations"] for reading in by_model) == 4


def test_answers_that_are_sure_are_right(replayed: Replay) -> None:
    """Nine of the model's 24 answers over the whole corpus are right, among them the seven above .6."""
    questions = demo_questions()
    answers = read_again(settings_in(replayed.settings.root, **BY_RULES), "demo", questions)
    said = [
        (token_f1(answer.answer, row["answers"]) >= 0.5, answer.to_json()["reading"]["confidence"])
        for row, answer in zip(questions, answers, strict=True)
    ]
    assert sum(is_right for is_right, _ in said) == 9
    assert [is_right for is_right, confidence in said if confidence > 0.6] == [True] * 7


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
    assert {row["task"] for row in again.asked.values()} == {"qa.answer"}
    history = {"extraction_ledger", "version_stages"}
    folders = (require_version(Layout(run.settings.root), "recorded")[1] for run in (replayed, again))
    first, second = (read_manifest(folder).tables for folder in folders)
    assert {name: one for name, one in second.items() if name not in history} == {
        name: one for name, one in first.items() if name not in history
    }
    for label, use in again.reading.items():
        assert use["fallbacks"] == replayed.reading[label]["fallbacks"]
