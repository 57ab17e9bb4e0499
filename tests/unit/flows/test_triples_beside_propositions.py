"""Triples beside propositions, from an index run to rankings: what is built, searched, taken over and refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import MissingArtefactError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.tasks.propositions.artefact import STORED_PROPOSITIONS
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.open import open_published
from polyhop.warehouse.tables.query import query_rows

pytestmark = pytest.mark.slow

RECORDS: list[dict[str, str]] = [
    {"id": "p1", "title": "The Nile", "text": "The Nile flows through Cairo. Cairo is the capital of Egypt."},
    {"id": "p2", "title": "Cairo Tower", "text": "The Cairo Tower stands in Cairo. It was designed by Naoum Shebib."},
    {"id": "p3", "title": "Naoum Shebib", "text": "Naoum Shebib was born in Cairo in 1915."},
    {"id": "p4", "title": "Warsaw", "text": "Warsaw lies on the Vistula. Warsaw is the capital of Poland."},
]
TRIPLES: dict[str, list[list[str]]] = {
    "p1": [["The Nile", "flows through", "Cairo"], ["Cairo", "is the capital of", "Egypt"]],
    "p2": [["Cairo Tower", "stands in", "Cairo"], ["Naoum Shebib", "designed", "Cairo Tower"]],
    "p3": [["Naoum Shebib", "was born in", "Cairo"]],
    "p4": [["Warsaw", "lies on", "the Vistula"], ["Warsaw", "is the capital of", "Poland"]],
}
SENTENCES: dict[str, list[dict[str, Any]]] = {
    "p1": [{"text": "the nile flows through cairo.", "entities": ["Cairo", "The Nile", "Egypt"]}],
    "p2": [{"text": "Naoum Shebib designed the tower in Cairo.", "entities": ["Naoum Shebib", "Cairo"]}],
    "p3": [],
    "p4": [],
}
QUESTIONS = ["Where was the designer of the Cairo Tower born?", "Which capital lies on the Vistula?"]


def imported(tmp_path: Path, *, sentences: bool) -> str:
    """The setting that imports the triples, alone or with propositions of their rows' own."""
    rows = [
        {"id": name, "triples": triples, **({"propositions": SENTENCES[name]} if sentences else {})}
        for name, triples in TRIPLES.items()
    ]
    path = tmp_path / f"openie-{sentences}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return f"import:{path}"


def run(
    tmp_path: Path, extractor: str, records: list[dict[str, str]] = RECORDS, **chosen: object
) -> tuple[IndexReport, Settings]:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    flags: Mapping[str, object] = {
        "root": str(tmp_path / "root"),
        "strategies": ("proprag", "triple-ppr"),
        "extraction.extractor": extractor,
        **{name.replace("__", "."): value for name, value in chosen.items()},
    }
    settings = parse_settings({"flags": flags})
    return run_index(settings, IndexRequest("one", corpus), DirectRunner()), settings


def column(settings: Settings, query: str) -> list[Any]:
    given: list[Any] = query_rows(Layout(settings.root), "one", query).column(0).to_pylist()
    return given


def rankings(settings: Settings, strategy: str, **parameters: object) -> list[list[tuple[str, float]]]:
    with open_index("one", root=settings.root) as index:
        answers = index.ask_batch(QUESTIONS, strategy=strategy, parameters=parameters)
    return [[(row["id"], row["score"]) for row in answer.passages] for answer in answers]


def test_where_propositions_are_triples_both_strategies_give_the_same(tmp_path: Path) -> None:
    report, settings = run(tmp_path, imported(tmp_path, sentences=False))
    assert column(settings, "SELECT text FROM triples ORDER BY 1") == column(
        settings, "SELECT text FROM propositions ORDER BY 1"
    )
    computed = report.computed  # each text and name once, whichever stage asks first
    assert computed["embed-proposition"] + computed["embed-triple"] == 7
    assert computed["embed-name"] + computed["embed-triplename"] == 8
    found = rankings(settings, "triple-ppr")
    assert found == rankings(settings, "proprag", preset="hipporag2")
    assert found != rankings(settings, "proprag")
    assert rankings(settings, "triple-ppr", preset="proprag") == rankings(settings, "proprag")
    assert not any(run_verify(settings, "one").differences.values())
    again, _ = run(tmp_path, imported(tmp_path, sentences=False))
    assert (again.changed, sum(again.computed.values())) == (False, 0)


def test_triples_stand_beside_a_rows_own_propositions_and_each_strategy_searches_its_own(tmp_path: Path) -> None:
    extractor = imported(tmp_path, sentences=True)
    _, settings = run(tmp_path, extractor)
    assert column(settings, "SELECT count(*) FROM propositions") == [2]
    assert column(settings, "SELECT count(*) FROM triples") == [7]
    assert rankings(settings, "proprag", preset="hipporag2") != rankings(settings, "triple-ppr")
    assert searched(settings) == [["cairo", "egypt", "naoum shebib", "the nile"], 2]


def searched(settings: Settings) -> list[Any]:
    """Keys of the entities, and number of the propositions, that `proprag` searches."""
    index = open_published(settings.root, "one")
    try:
        stored = index.artefact(STORED_PROPOSITIONS)
        return [sorted(stored.keys), stored.graph.shape[0]]
    finally:
        index.close()


def test_rules_state_triples_and_edited_passages_embed_theirs_only(tmp_path: Path) -> None:
    _, settings = run(tmp_path, "rules")
    assert "Warsaw lies on the Vistula." in column(settings, "SELECT text FROM triples")
    assert [row[0][0] for row in rankings(settings, "triple-ppr")][1] == "p4"
    records = [*RECORDS, {"id": "p5", "title": "Oslo", "text": "Oslo, then, is the capital of Norway."}]
    report, settings = run(tmp_path, "rules", records)
    assert (report.computed["embed-triple"], report.computed["embed-triplename"]) == (1, 2)


def test_a_graph_over_triples_is_built_only_where_a_strategy_needs_it(tmp_path: Path) -> None:
    report, settings = run(tmp_path, "rules", strategies=("proprag",))
    assert not {"triples", "embed-triple", "embed-triplename"} & report.seconds.keys()
    with open_index("one", root=settings.root) as index, pytest.raises(MissingArtefactError, match="triple-ppr"):
        index.ask(QUESTIONS[0], strategy="triple-ppr")
    report, _ = run(tmp_path, "rules")
    assert {"extract", "resolve", "propositions"} <= set(report.reused)
