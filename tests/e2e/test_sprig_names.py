"""SPRIG's own names, from settings to an answer: keyed as written, on a published version."""

import json
from collections.abc import Iterator

import pytest
from memory_index import names_of

from polyhop.schemas.query import Question
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.warehouse.artefacts import GRAPH, SURFACES
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.worker.strategies.registry import make

RECORDS = [
    {"id": "a", "title": "Hermes (god)", "text": "Then, Hermes flew. The Hermes of Rome."},
    {"id": "b", "title": "", "text": "Then, Rome met Hermes."},
]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishedIndex]:
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest

    folder = tmp_path_factory.mktemp("sprig")
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    known = {"root": str(folder / "root"), "extraction.ner": "regex"}
    settings: Settings = parse_settings({"test": known | {"strategies": ["graph"]}})
    run_index(settings, IndexRequest("names", corpus), DirectRunner())
    index = PublishedIndex(Layout(folder / "root"), "names")
    yield index
    index.close()


def test_names_as_written_are_read_from_the_version(published: PublishedIndex) -> None:
    """Resolution made `Hermes` and `The Hermes` one entity; both spellings are still there."""
    assert len({"hermes", "the hermes"} & set(published.artefact(GRAPH).keys)) == 1
    surfaces = published.artefact(SURFACES)
    assert dict(zip(surfaces.keys, surfaces.df.tolist(), strict=True)) == {
        "Hermes": 2,
        "Hermes (god)": 1,
        "Rome": 2,
        "The Hermes": 1,
    }


def test_a_title_alias_leads_from_the_bare_name_to_the_title(published: PublishedIndex) -> None:
    parameters = {"entity_norm": "simple", "title_aliases": "true"}
    found = make("graph", published, parameters).retrieve([Question("Who is Hermes?")], limit=2)[0]
    assert names_of(found.evidence).matched == ("hermes god",)
    assert all(passage.score > 0 for passage in found.passages)
