"""What an answer's page needs from the open index, and the page's way onto the disk.

Ranks nothing. Reads the version that gave the answer, so that texts and offsets agree.
"""

from collections.abc import Container, Mapping, Set
from pathlib import Path
from typing import Any

from polyhop.pages.answer_page import PageMaterial, answer_page
from polyhop.pages.graph import Triple
from polyhop.passages import passage_texts
from polyhop.schemas.errors import UnknownIdError, UnknownIndexError
from polyhop.schemas.evidence import evidence_of
from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.settings import Settings
from polyhop.warehouse.artefacts import GRAPH, RELATIONS
from polyhop.warehouse.files.disk import named_file
from polyhop.warehouse.open import open_published
from polyhop.worker.session import IndexSession
from polyhop.worker.strategies.registry import parse_parameters, spec_of


def material_of(session: IndexSession, document: Mapping[str, Any], parameters: Mapping[str, object]) -> PageMaterial:
    """Texts and mentions of an answer's passages, from the version that gave it.

    Args:
        session: The open version.
        document: The answer in the JSON contract of `polyhop ask`.
        parameters: Those that were given; the page shows the defaults of the others too.
    """
    index = session.index
    ids = [str(row["id"]) for row in document["passages"]]
    numbers = [index.number_of_passage[passage_id] for passage_id in ids]
    texts = passage_texts(index, document["passages"])
    parameters = all_parameters(document, parameters)
    nodes = evidence_of(document["evidence"]).nodes
    if not nodes or "graph" not in index.artefacts:
        return PageMaterial(index.name, session.encoder_model, parameters, texts)
    graph = index.artefact(GRAPH)
    reached = frozenset(node.key for node in nodes if node.kind != "proposition") & graph.number_of.keys()
    mentions = {passage_id: _mentions(graph, number, reached) for passage_id, number in zip(ids, numbers, strict=True)}
    relations = _relations(index, reached) if "graph:relations" in index.artefacts else []
    return PageMaterial(index.name, session.encoder_model, parameters, texts, mentions, relations)


def _mentions(graph: BipartiteGraph, passage: int, reached: Container[str]) -> list[str]:
    """Keys of the reached entities that a passage mentions."""
    entities = graph.indices[graph.indptr[passage] : graph.indptr[passage + 1]].tolist()
    return [graph.keys[entity] for entity in entities if graph.keys[entity] in reached]


def _relations(index: IndexReader, reached: Set[str]) -> list[Triple]:
    """Relations between reached entities, in the order of their keys."""
    number_of = {key: index.artefact(GRAPH).number_of[key] for key in sorted(reached)}
    relations = index.artefact(RELATIONS)
    found = []
    for key, source in number_of.items():
        near = set(relations.indices[relations.indptr[source] : relations.indptr[source + 1]].tolist())
        for other, target in number_of.items():
            if target in near:
                found += [(key, label, other) for label in relations.labels_from(source, target)]
    return found


PAGE = "the page"
"""What is written, for messages."""


def all_parameters(document: Mapping[str, Any], given: Mapping[str, object]) -> dict[str, object]:
    """The strategy's parameters with those given in place of their defaults."""
    return parse_parameters(spec_of(str(document["strategy"])), given).model_dump()


def write_page(path: Path, document: Mapping[str, Any], material: PageMaterial) -> None:
    """Writes the page, whole or not at all; what is not a character (half a surrogate pair) becomes a question mark.

    Raises:
        StoreError: If it cannot be written.
    """
    page = answer_page(document, material)
    with named_file(path, PAGE) as place:
        place.write_bytes(page.encode("utf-8", errors="replace"))


def write_stored_page(path: Path, document: Mapping[str, Any], settings: Settings) -> None:
    """The page of a stored answer; without texts if the version that gave it is gone.

    Args:
        path: Of the page.
        document: What a worker stored: an answer, its index and the parameters that were given.
        settings: Where the index is.

    Raises:
        StoreError: If the page cannot be written.
    """
    name, given = str(document["index"]), document.get("parameters") or {}
    try:
        published = open_published(settings.root, name, int(document["version"]))
    except (UnknownIndexError, UnknownIdError):
        write_page(path, document, PageMaterial(name, None, all_parameters(document, given)))
        return
    session = IndexSession(published, settings)
    where = (document.get("filter") or {}).get("where")
    try:
        write_page(path, document, material_of(session.where(where), document, given))
    finally:
        session.close()
