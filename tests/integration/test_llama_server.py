"""Extraction, reading and embeddings against llama.cpp's server and a real, weak model, end to end.

By hand, since a processor takes minutes:
POLYHOP_LLAMA=1 uv run --group llama pytest -n 0 tests/integration/test_llama_server.py
"""

import json
import os
from collections.abc import Iterator

import pytest
from llama_process import LlamaServer

from polyhop.doctor import check_encoder
from polyhop.flows.index import run_index
from polyhop.flows.plan import plan_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.query import Question
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.warehouse.cache.replies import ReplyCache, TaskCounts
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest
from polyhop.warehouse.open import open_published
from polyhop.warehouse.open_models import close_chats, close_encoders
from polyhop.worker.session import IndexSession

pytestmark = [
    pytest.mark.llama,
    pytest.mark.skipif("POLYHOP_LLAMA" not in os.environ, reason="set POLYHOP_LLAMA=1 (takes minutes)"),
    pytest.mark.timeout(3600),
]
TEXTS = {"Oslo": "Oslo is the capital of Norway.", "Bergen": "Bergen lies in Norway by the sea."}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    made = LlamaServer(tmp_path_factory.mktemp("llama"))
    yield made
    made.stop()
    close_encoders()
    close_chats()


@pytest.fixture(scope="module")
def settings(server: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    values = {
        "root": str(tmp_path_factory.mktemp("root")),
        "strategies": "bridge,naive-vector",
        "extraction.extractor": "model",
        "models.extract": "openai/gemma-3-270m",
        "models.read": "openai/gemma-3-270m",
        "models.api_base": server.url,
        "models.max_reply_tokens": 64,
        "models.timeout_seconds": 900,
        "models.concurrency": 1,
        "models.price": "0,0,0",
        "encoder.name": "litellm:openai/gemma-3-270m",
    }
    return parse_settings({"test": values})


@pytest.fixture(scope="module")
def report(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> IndexReport:
    corpus = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    rows = [{"id": title, "title": title, "text": text} for title, text in TEXTS.items()]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    planned = plan_index(settings, corpus).to_json()
    assert planned["steps"]["embed-passage"]["units"] == len(TEXTS)
    return run_index(settings, IndexRequest("i", corpus), DirectRunner())


def spent(settings: Settings) -> dict[str, TaskCounts]:
    cache = ReplyCache(Layout(settings.root).reply_cache)
    try:
        return {counts.task: counts for counts in cache.by_task()}
    finally:
        cache.close()


def test_extraction_is_bound_to_the_schema_and_every_count_is_believed(settings: Settings, report: IndexReport) -> None:
    """What such a model finds is weak; that its replies are read, and what they took, is not."""
    assert report.changed
    tasks = spent(settings)
    assert {"kg.extract", "prop.entities", "embed"} <= set(tasks)
    for counts in tasks.values():
        assert counts.spent.prompt_tokens > 0
    assert tasks["kg.extract"].spent.completion_tokens > 0
    assert report.model.replaced_counts == 0  # the server's own counts made sense every time
    assert report.model.calls == sum(counts.spent.calls for counts in tasks.values())
    extracted = report.extraction
    assert extracted["extracted_units"] + extracted["failed_units"] > 0


def test_its_vectors_are_published_and_searched(settings: Settings, report: IndexReport) -> None:
    manifest = read_manifest(Layout(settings.root).index("i").version(report.version))
    assert {record.dimension for record in manifest.vectors.values()} == {640}
    assert manifest.vectors["passage"].encoder.spread > 0
    assert "640 dimensions" in check_encoder(settings)


def test_a_question_is_encoded_ranked_and_read_by_it(settings: Settings, report: IndexReport) -> None:
    session = IndexSession(open_published(settings.root, "i", report.version), settings)
    for strategy in ("bridge", "naive-vector"):
        [answered] = session.answerer(strategy, {}).answer([Question("What is the capital of Norway?")], limit=2)
        assert {passage.passage_id for passage in answered.retrieval.passages} <= set(TEXTS)
        assert answered.retrieval.passages
    session.close()
    reading = spent(settings)["qa.answer"]
    assert reading.spent.prompt_tokens > 0
    assert reading.spent.completion_tokens > 0
