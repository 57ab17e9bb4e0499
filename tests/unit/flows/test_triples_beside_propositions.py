"""Triples beside propositions, from an index run to rankings: what is built, searched, taken over and refused."""

from pathlib import Path
from typing import Any

import pytest
from real_index import RealIndex, write_lines

from polyhop.api import open_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.schemas.errors import MissingArtefactError
from polyhop.schemas.settings import parse_settings
from polyhop.tasks.propositions.artefact import STORED_PROPOSITIONS
from polyhop.warehouse.open import open_published

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


@pytest.fixture
def one(tmp_path: Path) -> RealIndex:
    return RealIndex(tmp_path)


def build(
    one: RealIndex, extractor: str, records: list[dict[str, str]] = RECORDS, *strategies: str, sentences: bool = False
) -> IndexReport:
    """Indexes with triples by rules, or imported, alone or with propositions of their rows' own."""
    if extractor == "import":
        rows = [
            {"id": name, "triples": triples, **({"propositions": SENTENCES[name]} if sentences else {})}
            for name, triples in TRIPLES.items()
        ]
        extractor = f"import:{write_lines(one.folder / 'openie.jsonl', rows)}"
    flags = {"root": str(one.root), "strategies": strategies or ("proprag", "triple-ppr")}
    one.settings = parse_settings({"flags": flags | {"extraction.extractor": extractor}})
    return one.read(records)


def rankings(one: RealIndex, strategy: str, **parameters: object) -> list[list[tuple[str, float]]]:
    with open_index("i", root=one.root) as index:
        answers = index.ask_batch(QUESTIONS, strategy=strategy, parameters=parameters)
    return [[(row["id"], row["score"]) for row in answer.passages] for answer in answers]


@pytest.mark.rare
def test_where_propositions_are_triples_both_strategies_give_the_same(one: RealIndex) -> None:
    computed = build(one, "import").computed
    assert one.rows("SELECT text FROM triples ORDER BY 1") == one.rows("SELECT text FROM propositions ORDER BY 1")
    # each text and name once, whichever stage asks first
    assert computed["embed-proposition"] + computed["embed-triple"] == 7
    assert computed["embed-name"] + computed["embed-triplename"] == 8
    found = rankings(one, "triple-ppr")
    assert found == rankings(one, "proprag", preset="hipporag2")
    assert found != rankings(one, "proprag")
    assert rankings(one, "triple-ppr", preset="proprag") == rankings(one, "proprag")
    assert not any(run_verify(one.settings, "i").differences.values())
    again = build(one, "import")
    assert (again.changed, sum(again.computed.values())) == (False, 0)


def test_triples_stand_beside_a_rows_own_propositions_and_each_strategy_searches_its_own(one: RealIndex) -> None:
    build(one, "import", sentences=True)
    assert one.rows("SELECT (SELECT count(*) FROM propositions), (SELECT count(*) FROM triples)") == [(2, 7)]
    assert rankings(one, "proprag", preset="hipporag2") != rankings(one, "triple-ppr")
    index = open_published(one.root, "i")
    stored = index.artefact(STORED_PROPOSITIONS)  # what `proprag` searches
    assert (sorted(stored.keys), stored.graph.shape[0]) == (["cairo", "egypt", "naoum shebib", "the nile"], 2)
    index.close()


@pytest.mark.rare
def test_rules_state_triples_and_edited_passages_embed_theirs_only(one: RealIndex) -> None:
    build(one, "rules")
    assert ("Warsaw lies on the Vistula.",) in one.rows("SELECT text FROM triples")
    assert [row[0][0] for row in rankings(one, "triple-ppr")][1] == "p4"
    records = [*RECORDS, {"id": "p5", "title": "Oslo", "text": "Oslo, then, is the capital of Norway."}]
    report = build(one, "rules", records)
    assert (report.computed["embed-triple"], report.computed["embed-triplename"]) == (1, 2)


def test_a_graph_over_triples_is_built_only_where_a_strategy_needs_it(one: RealIndex) -> None:
    report = build(one, "rules", RECORDS, "proprag")
    assert not {"triples", "embed-triple", "embed-triplename"} & report.seconds.keys()
    with open_index("i", root=one.root) as index, pytest.raises(MissingArtefactError, match="triple-ppr"):
        index.ask(QUESTIONS[0], strategy="triple-ppr")
    assert {"extract", "resolve", "propositions"} <= set(build(one, "rules").reused)
