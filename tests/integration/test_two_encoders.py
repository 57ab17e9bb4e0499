"""Entities and other short texts with an encoder of their own (`encoder.entities`), beside another one for passages."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.flows.index import run_index
from polyhop.flows.plan import plan_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.query import Question
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.models.local_encoder import LocalEncoder
from polyhop.warehouse.open import open_published
from polyhop.warehouse.open_models import close_chats, close_encoders
from polyhop.worker.session import IndexSession

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
