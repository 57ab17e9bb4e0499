"""Extraction, reading and embeddings against llama.cpp's server and a real, weak model, end to end.

By hand, since a processor takes minutes:
POLYHOP_LLAMA=1 uv run --group llama pytest -n 0 tests/integration/test_llama_server.py
"""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from llama_process import LlamaServer
from small_indexes import indexed, write_rows

from polyhop.doctor import check_encoder
from polyhop.flows.plan import plan_index
from polyhop.schemas.query import Question
from polyhop.schemas.settings import parse_settings
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.files.layout import Layout
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


def test_extraction_is_bound_to_the_schema_and_every_count_is_believed(server: LlamaServer, tmp_path: Path) -> None:
    """What such a model finds is weak; that its replies are read, and what they took, is not."""
    values = {
        "root": str(tmp_path / "root"),
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
    settings = parse_settings({"test": values})
    rows = [{"id": title, "title": title, "text": text} for title, text in TEXTS.items()]
    corpus = write_rows(tmp_path / "corpus.jsonl", rows)
    assert plan_index(settings, corpus).to_json()["steps"]["embed-passage"]["units"] == len(TEXTS)
    report = indexed(settings, corpus)
    with closing(ReplyCache(Layout(settings.root).reply_cache)) as cache:
        tasks = {counts.task: counts.spent for counts in cache.by_task()}
        assert {"kg.extract", "prop.entities", "embed"} <= set(tasks)
        assert all(spent.prompt_tokens > 0 for spent in tasks.values())
        assert tasks["kg.extract"].completion_tokens > 0
        assert report.model.replaced_counts == 0  # the server's own counts made sense every time
        assert report.model.calls == sum(spent.calls for spent in tasks.values())
        assert report.extraction["extracted_units"] + report.extraction["failed_units"] > 0
        published = open_published(settings.root, "towns")
        assert {record.dimension for record in published.manifest.vectors.values()} == {640}
        assert published.manifest.vectors["passage"].encoder.spread > 0
        assert "640 dimensions" in check_encoder(settings)
        with closing(IndexSession(published, settings)) as session:
            for strategy in ("bridge", "naive-vector"):
                question = Question("What is the capital of Norway?")
                [answered] = session.answerer(strategy, {}).answer([question], limit=2)
                found = {passage.passage_id for passage in answered.retrieval.passages}
                assert set() < found <= set(TEXTS)
        (reading,) = (counts.spent for counts in cache.by_task() if counts.task == "qa.answer")
        assert min(reading.prompt_tokens, reading.completion_tokens) > 0
