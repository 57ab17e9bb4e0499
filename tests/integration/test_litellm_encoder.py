"""Encoders behind a real `/embeddings` endpoint: vectors, faults, budgets, kills, and every strategy on them."""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.commands.index import print_plan
from polyhop.doctor import check_encoder
from polyhop.flows.index import run_index
from polyhop.flows.plan import plan_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import (
    BudgetExceededError,
    ConfigurationError,
    InvalidVectorError,
    ModelEndpointError,
    ModelKeyError,
    ModelRejectedError,
    ModelUnavailableError,
    PolyhopError,
)
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest
from polyhop.warehouse.models.local_encoder import LocalEncoder
from polyhop.warehouse.open import open_published
from polyhop.warehouse.open_models import close_chats, close_encoders
from polyhop.worker.session import IndexSession
from polyhop.worker.strategies.registry import STRATEGIES

KEY = "sk-test-0123456789abcdef"
NAMES = ("Aldo Verri", "Berta Kahn", "Carl Otto", "Dora Lind")
TEXTS = {
    f"p{n:02d}": f"Village {n} lies on the River {n % 7}. It was founded by {NAMES[n % 4]} in {1500 + n}. "
    f"{NAMES[n % 4]} was born in Town {n % 5}."
    for n in range(24)
}
QUESTION = "In which town was the founder of Village 3 born?"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("villages") / "corpus.jsonl"
    rows = [{"id": key, "title": f"Village {int(key[1:])}", "text": text} for key, text in TEXTS.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of another test's models."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    yield
    close_encoders()
    close_chats()


@pytest.fixture
def settings_for(tmp_path: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    """Settings of a root by name, with the scripted server as encoder, which is asked for few texts at once."""
    for module in ("warehouse.models.encoder_kinds", "tasks.planning"):
        monkeypatch.setattr(f"polyhop.{module}.SERVER_BATCH_SIZE", 4)

    def make(root: str = "one", **more: object) -> Settings:
        values = {
            "root": str(tmp_path / root),
            "strategies": "dense",
            "encoder.name": "litellm:openai/scripted",
            "models.price": "0,0,1",
            "models.api_base": model_server.url,
            "models.max_attempts": 3,
        }
        return parse_settings({"test": values | {name.replace("__", "."): value for name, value in more.items()}})

    return make


def index(settings: Settings, corpus: Path, name: str = "i") -> IndexReport:
    return run_index(settings, IndexRequest(name, corpus), DirectRunner())


def manifest_text(settings: Settings, name: str = "i") -> str:
    folder = Layout(settings.root).index(name)
    return folder.version(int(folder.current.read_text(encoding="ascii"))).manifest.read_text(encoding="utf-8")


def record(settings: Settings, name: str = "i", kind: str = "passage") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(manifest_text(settings, name))["vectors"][kind]
    return found


def ranking(settings: Settings, strategy: str = "dense", name: str = "i") -> list[tuple[str, float]]:
    session = IndexSession(open_published(settings.root, name), settings)
    try:
        from polyhop.schemas.query import Question

        found = session.answerer(strategy, {}).retrieve([Question(QUESTION)], limit=5)[0]
        return [(passage.passage_id, passage.score) for passage in found.passages]
    finally:
        session.close()


def calls(settings: Settings) -> list[Any]:
    cache = ReplyCache(Layout(settings.root).reply_cache)
    try:
        return [counts for counts in cache.by_task() if counts.task == "embed"]
    finally:
        cache.close()


def sent(model_server: Any) -> list[str]:
    """The passages that were sent, without the sentences that an encoder is measured by, and what shows a dimension."""
    texts = [text for one in model_server.requests for text in one.body["input"]]
    return [text for text in texts if any(text.endswith(known) for known in TEXTS.values())]


@pytest.mark.rare
def test_every_strategy_works_with_1536_dimensions(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any
) -> None:
    strategies = list(STRATEGIES)
    settings = settings_for(encoder__dimension=1536, strategies=",".join(strategies))
    index(settings, corpus)
    assert {kind["dimension"] for kind in json.loads(manifest_text(settings))["vectors"].values()} == {1536}
    session = IndexSession(open_published(settings.root, "i"), settings)
    from polyhop.schemas.query import Question

    for strategy in strategies:
        question = Question(QUESTION, topic="Village 3" if strategy == "hublink-topic" else None)
        found = session.answerer(strategy, {}).answer([question], limit=5)[0]
        assert found.retrieval.passages, strategy
    session.close()
    assert {request.body.get("dimensions") for request in model_server.requests} == {1536}


def test_an_endpoint_that_serves_our_encoder_gives_its_vectors_and_rankings(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any
) -> None:
    own = LocalEncoder()
    model_server.encode = lambda texts: own.encode(texts).astype(float).tolist()
    served, local = settings_for(), settings_for("two", encoder__name="local")
    index(served, corpus)
    index(local, corpus)
    matrices = []
    for settings in (served, local):
        folder = Layout(settings.root).index("i").version(1)
        matrices.append(np.load(folder.arrays / "vectors-passage_matrix.npy"))
    assert matrices[0].tobytes() == matrices[1].tobytes()
    assert ranking(served) == ranking(local)


def test_a_version_keeps_its_encoder_whatever_the_settings_say(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any
) -> None:
    served = settings_for(encoder__query_prefix="query: ", encoder__passage_prefix="passage: ")
    index(served, corpus, "served")
    local = parse_settings({"test": {"root": str(served.root), "strategies": "dense", "encoder.name": "local"}})
    index(local, corpus, "local")
    before = ranking(served, name="served"), ranking(local, name="local")
    unset = parse_settings({"test": {"root": str(served.root)}})
    count = model_server.count()
    assert (ranking(unset, name="served"), ranking(unset, name="local")) == before
    assert ranking(served, name="local") == before[1]
    assert model_server.count() == count + 1  # for the index that was served, and only for it
    assert model_server.requests[-1].body["input"] == [f"query: {QUESTION}"]
    assert len([text for text in sent(model_server) if text.startswith("passage: ")]) == len(TEXTS)


def test_a_later_run_keeps_the_encoder_and_another_one_embeds_again_and_nothing_else(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any
) -> None:
    settings = settings_for(strategies="bridge")
    index(settings, corpus)
    kept = index(parse_settings({"test": {"root": str(settings.root), "strategies": "bridge"}}), corpus)
    assert not kept.changed
    changed = index(settings_for(strategies="bridge", encoder__name="local"), corpus)
    assert changed.changed
    assert [stage for stage in changed.seconds if stage not in changed.reused] == ["ingest", "embed-passage", "publish"]
    assert record(settings)["encoder"]["name"] == "local"
    count = model_server.count()
    assert index(settings, corpus).changed  # back again: all vectors are in the cache
    assert model_server.count() == count
    assert record(settings)["encoder"]["name"] == "litellm:openai/scripted"


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ("too_few", InvalidVectorError, "3 vectors for 4 texts"),
        ("not_finite", InvalidVectorError, "zero or not finite for 1 of 4 texts"),
        ("zero", InvalidVectorError, "zero or not finite for 1 of 4 texts"),
        ("longer", InvalidVectorError, "385 dimensions instead of 384"),
        ("no_embeddings", PolyhopError, "openai/scripted"),
        ({"kind": "error", "status": 500, "message": "overloaded"}, ModelUnavailableError, "overloaded"),
        ({"kind": "error", "status": 404, "message": "no such model"}, ModelRejectedError, "no such model"),
        (
            {"kind": "error", "status": 401, "message": "wrong key {authorization}"},
            ModelKeyError,
            "refuses the key: wrong key",
        ),
    ],
)
def test_nonsense_and_errors_are_said_in_a_sentence_and_nothing_is_published(
    spec: Any,
    error: type[PolyhopError],
    words: str,
    settings_for: Callable[..., Settings],
    corpus: Path,
    model_server: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = settings_for(models__concurrency=1)
    model_server.respond(lambda asked: "reply" if asked.number == 0 else spec)  # the first shows the dimension
    with pytest.raises(error, match=words) as raised:
        index(settings, corpus)
    assert "\n" not in str(raised.value)
    assert KEY not in str(raised.value) + caplog.text
    assert not Layout(settings.root).index("i").current.exists()


def test_a_server_that_is_not_there_a_key_and_a_price_that_nobody_knows(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelEndpointError, match=r"correct encoder\.api_base"):
        index(settings_for(encoder__api_base=model_server.dead_url()), corpus)
    with pytest.raises(ConfigurationError, match=r"set models\.price=0,0,USD"):
        index(settings_for(models__price=None, max_cost_usd=1.0), corpus)
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ModelKeyError, match=r"No key for openai/scripted: set OPENAI_API_KEY\."):
        check_encoder(settings_for(models__api_base=""))


@pytest.mark.parametrize("batch_size", [1000, 8])
def test_an_outage_says_how_many_texts_are_kept(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any, batch_size: int
) -> None:
    model_server.respond(lambda asked: "reply" if asked.number < 3 else {"kind": "error", "message": "overloaded"})
    with pytest.raises(ModelUnavailableError) as raised:
        index(settings_for(models__concurrency=1, models__max_attempts=2, batch_size=batch_size), corpus)
    assert str(raised.value) == (
        f"{model_server.url} (openai/scripted) did not answer in 2 attempts: HTTP 500, overloaded. "
        f"8 of {len(TEXTS)} texts are embedded and kept; run the same command again."
    )


def test_passing_faults_are_retried_and_every_call_is_in_the_journal(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any
) -> None:
    model_server.play("reply", {"kind": "rate_limit", "retry_after": 0.01}, "drop", "reply")
    settings = settings_for()
    report = index(settings, corpus)
    assert report.changed
    assert len(sent(model_server)) == len(TEXTS) + 8  # two batches that came again
    [counts] = calls(settings)
    assert (counts.spent.calls, counts.failed_calls) == (model_server.count(), 2)
    assert report.model.calls == model_server.count()
    assert report.model.cost_usd == pytest.approx(report.model.prompt_tokens / 1_000_000, abs=1e-6)


def test_caps_hold_what_was_paid_is_kept_and_the_plan_counts_what_is_left(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any
) -> None:
    whole = plan_index(settings_for(), corpus).to_json()
    step = whole["steps"]["embed-passage"]
    assert (step["units"], step["cached"], step["calls"]) == (len(TEXTS), 0, len(TEXTS) // 4)
    assert whole["cost_usd"]["expected"] == pytest.approx(whole["prompt_tokens"] / 1_000_000)
    for cap in ({"max_tokens": whole["prompt_tokens"] // 2}, {"max_cost_usd": whole["prompt_tokens"] / 2_000_000}):
        model_server.reset()
        settings = settings_for(str(cap), **cap)
        with pytest.raises(BudgetExceededError):
            index(settings, corpus)
        spent = calls(settings)[0].spent
        assert 0 < spent.prompt_tokens <= whole["prompt_tokens"] // 2
        left = plan_index(settings_for(str(cap)), corpus).to_json()
        assert left["steps"]["embed-passage"]["cached"] > 0
        assert left["prompt_tokens"] == pytest.approx(whole["prompt_tokens"] - spent.prompt_tokens, abs=10)
        index(settings_for(str(cap)), corpus)
        texts = [text for one in model_server.requests for text in one.body["input"]]
        assert len(texts) == len(set(texts))
    planned = whole["prompt_tokens"]
    assert calls(settings)[0].spent.prompt_tokens == pytest.approx(planned, abs=10)


def test_the_plan_says_which_price_is_unknown(
    settings_for: Callable[..., Settings], corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = plan_index(settings_for(models__price=None), corpus)
    assert made.to_json()["cost_usd"] is None
    print_plan(made)
    said = capsys.readouterr().out
    assert "no price of 'litellm:openai/scripted' is known; set models.price=0,0,USD (USD per million tokens" in said


def test_a_graph_s_entities_are_planned(settings_for: Callable[..., Settings], tmp_path: Path) -> None:
    ends = [{"id": name, "name": name, "types": ["Thing"]} for name in ("Ann Roe", "Paper One")]
    triple = {"subject": ends[0], "predicate": "wrote", "object": ends[1]}
    path = tmp_path / "graph.jsonl"
    path.write_text(json.dumps(triple) + "\n", encoding="utf-8")
    made = plan_index(settings_for(), path, ("naive-vector",), "graph").to_json()
    assert made["steps"]["embed-entity"]["units"] == 2
    assert "measure-encoder" not in made["steps"]


def test_a_key_is_nowhere_on_disk(settings_for: Callable[..., Settings], corpus: Path, model_server: Any) -> None:
    address = model_server.url.replace("http://", "http://me:hidden-password@")
    settings = settings_for(encoder__api_base=address)
    index(settings, corpus)
    ranking(settings)
    for file in settings.root.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert KEY.encode() not in content, file
        assert b"hidden-password" not in content, file
    assert record(settings)["encoder"]["api_base"] == ""


def test_a_key_that_is_missing_when_a_question_is_asked_is_said(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(encoder__api_base=model_server.url.replace("http://", "http://me:hidden-password@"))
    index(settings, corpus)
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ModelKeyError, match=r"No key for openai/scripted: set OPENAI_API_KEY\."):
        ranking(parse_settings({"test": {"root": str(settings.root)}}))  # no address is known any more


def test_doctor_tries_the_configured_encoder(settings_for: Callable[..., Settings], model_server: Any) -> None:
    assert "litellm:openai/scripted, 384 dimensions" in check_encoder(settings_for())
    assert model_server.count() == 1
    both = check_encoder(settings_for(encoder__name="local", encoder__entities="litellm:openai/short"))
    assert "its weights have the published sha256" in both
    assert "; entities: litellm:openai/short, 384 dimensions" in both


RUN = """
import json, sys
from pathlib import Path
from polyhop.warehouse.models import encoder_kinds
encoder_kinds.SERVER_BATCH_SIZE = 4
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import parse_settings
run_index(parse_settings({"test": json.loads(sys.argv[1])}), IndexRequest("i", Path(sys.argv[2])), DirectRunner())
"""


def test_killed_in_the_middle_of_embedding_nothing_is_paid_twice(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any
) -> None:
    settings = settings_for(models__concurrency=2)
    values = {
        "root": str(settings.root),
        "strategies": "dense",
        "encoder.name": settings.encoder.name,
        "models.price": "0,0,1",
        "models.api_base": model_server.url,
        "models.concurrency": 2,
    }
    model_server.respond(lambda asked: {"kind": "reply", "delay_seconds": 0.0 if asked.number < 4 else 60.0})
    command = [sys.executable, "-c", RUN, json.dumps(values), str(corpus)]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONWARNINGS": "ignore"})
    until = time.monotonic() + 60
    while model_server.count() < 6 and time.monotonic() < until:  # the dimension, three batches, two that hang
        time.sleep(0.02)
    process.kill()
    process.wait()
    paid = {text for one in model_server.requests[:4] for text in one.body["input"]}
    model_server.reset()
    report = index(settings, corpus)
    again = sent(model_server)
    assert not paid & set(again)
    assert len(paid) + len(again) == len(TEXTS) + 1  # and the one that showed the dimension
    assert report.model.unknown_calls == 2
    assert report.model.unknown_tokens > 0


def test_the_manifest_says_how_questions_are_encoded(
    settings_for: Callable[..., Settings], corpus: Path, model_server: Any
) -> None:
    settings = settings_for(encoder__max_tokens=8, encoder__passage_prefix="text: ")
    index(settings, corpus)
    folder = Layout(settings.root).index("i").version(1)
    encoder = read_manifest(folder).vectors["passage"].encoder
    assert (encoder.max_tokens, encoder.passage_prefix, encoder.api_base) == (8, "text: ", model_server.url)
    from polyhop.warehouse.models.budget import count_tokens

    assert (
        max(count_tokens(text, "openai/scripted") for one in model_server.requests for text in one.body["input"]) == 8
    )
