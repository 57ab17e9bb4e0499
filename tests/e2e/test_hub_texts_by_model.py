"""Paths of hubs in the words of a model over real HTTP: new ones are asked for once, failures again."""

import json
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from polyhop.commands.index import print_plan
from polyhop.flows.index import run_index
from polyhop.flows.plan import plan_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import BudgetExceededError
from polyhop.schemas.ports import Strategy
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.query import query_rows
from polyhop.worker.strategies import registry
from polyhop.worker.strategies.base import DECLARED, Parameters, strategy

SettingsFor = Callable[..., Settings]
PAPERS = 12


def never_built(*_: object) -> Strategy:
    raise AssertionError


@pytest.fixture(autouse=True)
def of_hubs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A strategy that needs hubs."""
    points = {"of-hubs": EntryPoint("of-hubs", __name__, registry.GROUP)}
    monkeypatch.setattr(registry, "extensions", lambda _group: points)
    strategy("of-hubs", "For tests.", Parameters, needs={"hubs"})(never_built)
    yield
    del DECLARED["of-hubs"]


@pytest.fixture
def settings_for(tmp_path: Path, model_server: Any) -> SettingsFor:
    def make(root: str = "one", **more: object) -> Settings:
        values = {
            "root": str(tmp_path / root),
            "strategies": "of-hubs",
            "hubs.types": "Paper",
            "hubs.textualiser": "model",
            "models.extract": "openai/scripted",
            "models.api_base": model_server.url,
            "models.price": "1.0,2.0",
            "models.max_attempts": 1,
            "batch_size": 5,
        }
        return parse_settings({"test": values | {name.replace("__", "."): value for name, value in more.items()}})

    return make


def statements(papers: int = PAPERS, venue: str = "Conference on Architecture") -> list[Any]:
    """Two paths a paper."""
    found: list[Any] = []
    for number in range(papers):
        paper = {"id": f"P{number}", "name": f"Paper about subject {number}", "types": ["Paper"]}
        place = {"id": f"V{number}", "name": venue if number == 0 else f"Journal {number}", "types": ["Venue"]}
        found.append({"subject": paper, "predicate": "publishedIn", "object": place})
        found.append({"subject": paper, "predicate": "publication year", "object": 2000 + number})
    return found


def graph(tmp_path: Path, lines: list[Any]) -> Path:
    path = tmp_path / "graph.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def index(settings: Settings, source: Path) -> IndexReport:
    return run_index(settings, IndexRequest("i", source, kind="graph"), DirectRunner())


def texts(settings: Settings) -> dict[str, int]:
    """Paths by textualiser."""
    query = "SELECT textualiser, count(*) AS paths FROM hub_paths GROUP BY ALL"
    return {row["textualiser"]: row["paths"] for row in query_rows(Layout(settings.root), "i", query).to_pylist()}


def checksum(settings: Settings) -> list[Any]:
    rows: list[Any] = query_rows(Layout(settings.root), "i", "FROM hub_paths ORDER BY ALL").to_pylist()
    return rows


def test_a_changed_graph_asks_for_changed_paths_only(
    settings_for: SettingsFor, tmp_path: Path, model_server: Any
) -> None:
    settings = settings_for()
    first = index(settings, graph(tmp_path, statements()))
    assert first.model.calls == model_server.count() == 2 * PAPERS
    assert texts(settings) == {"openai/scripted": 2 * PAPERS}
    assert query_rows(Layout(settings.root), "i", "SELECT text FROM hub_paths ORDER BY text LIMIT 1").to_pylist() == [
        {"text": "Paper about subject 0 publication year 2000."}
    ]
    assert not index(settings, graph(tmp_path, statements())).changed
    assert model_server.count() == 2 * PAPERS

    changed = graph(tmp_path, statements(PAPERS + 1, venue="Workshop"))
    assert index(settings, changed).model.calls == 3  # the venue of one paper, and both paths of the new one
    assert model_server.count() == 2 * PAPERS + 3
    afresh = settings_for("other")
    index(afresh, changed)
    assert checksum(afresh) == checksum(settings)


def test_what_failed_has_the_words_of_the_template_until_the_next_run(
    settings_for: SettingsFor, tmp_path: Path, model_server: Any
) -> None:
    settings, source = settings_for(), graph(tmp_path, statements())
    model_server.shares({"wrong_schema": 0.3}, seed=5)
    index(settings, source)
    failed = texts(settings)["template"]
    assert 0 < failed < 2 * PAPERS
    template = "SELECT text FROM hub_paths WHERE textualiser = 'template' AND text LIKE '% published in %.'"
    assert query_rows(Layout(settings.root), "i", template).num_rows > 0
    model_server.reset()
    again = index(settings, source)
    assert (again.changed, model_server.count()) == (True, failed)
    assert texts(settings) == {"openai/scripted": 2 * PAPERS}


def test_an_empty_text_is_replaced_by_the_template_and_not_asked_for_again(
    settings_for: SettingsFor, tmp_path: Path, model_server: Any
) -> None:
    settings, source = settings_for(), graph(tmp_path, statements())
    model_server.respond(lambda _request: {"content": '{"text": "  "}'})
    index(settings, source)
    assert texts(settings) == {"template": 2 * PAPERS}
    calls = model_server.count()
    assert not index(settings, source).changed
    assert model_server.count() == calls


def test_paths_of_the_same_words_are_one_question(settings_for: SettingsFor, tmp_path: Path, model_server: Any) -> None:
    twin = [
        {"subject": {"id": own_id, "name": "Twin", "types": ["Paper"]}, "predicate": "is", "object": "alike"}
        for own_id in ("T1", "T2")
    ]
    source, settings = graph(tmp_path, twin), settings_for()
    assert plan_index(settings, source, kind="graph").to_json()["calls"] == 1
    index(settings, source)
    assert model_server.count() == 1
    assert texts(settings) == {"openai/scripted": 2}


def test_the_plan_of_a_graph_comes_within_15_percent_and_asks_nothing(
    settings_for: SettingsFor, tmp_path: Path, model_server: Any, shared_data: Path
) -> None:
    lines = (shared_data / "orkg" / "triples.jsonl").read_text(encoding="utf-8").splitlines()[:800]
    settings = settings_for(hubs__types="Paper", batch_size=500)
    part = graph(tmp_path, [json.loads(line) for line in lines])
    planned = plan_index(settings, part, kind="graph").to_json()
    assert (model_server.count(), planned["nodes"], planned["relations"]) == (0, 774, 800)
    taken = index(settings, part).model
    assert planned["calls"] == taken.calls > 0
    assert planned["cost_usd"]["expected"] == pytest.approx(taken.cost_usd, rel=0.15)
    assert plan_index(settings, part, kind="graph").to_json()["calls"] == 0


def test_a_budget_ends_the_run_before_it_is_exceeded_and_nothing_is_paid_twice(
    settings_for: SettingsFor, tmp_path: Path, model_server: Any
) -> None:
    source = graph(tmp_path, statements())
    with pytest.raises(BudgetExceededError):
        index(settings_for(max_tokens=3000), source)
    before = model_server.count()
    assert 0 < before < 2 * PAPERS
    index(settings_for(), source)
    assert model_server.count() == 2 * PAPERS


def test_a_graph_whose_paths_a_template_writes_needs_no_model(settings_for: SettingsFor, tmp_path: Path) -> None:
    made = plan_index(
        settings_for(hubs__textualiser="template", models__extract=""), graph(tmp_path, statements()), kind="graph"
    )
    assert (made.to_json()["calls"], made.to_json()["steps"], made.model) == (0, {}, "")


@pytest.mark.parametrize(("textualiser", "not_planned"), [("model", ["hub.path_text"]), ("template", [])])
def test_paths_of_a_text_corpus_are_named_without_a_number(
    settings_for: SettingsFor,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    textualiser: str,
    not_planned: list[str],
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"title": "Ada", "text": "Ada met Bob."}\n', encoding="utf-8")
    made = plan_index(settings_for(hubs__textualiser=textualiser), corpus)
    print_plan(made)
    assert (made.to_json()["not_planned"], "hub.path_text" in made.to_json()["steps"]) == (not_planned, False)
    said = "besides, hub.path_text is asked about paths of hubs, which are known once relations are extracted"
    assert (said in capsys.readouterr().out) == bool(not_planned)
