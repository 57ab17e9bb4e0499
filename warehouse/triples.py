"""What a version says of nodes by the ids that they have in its graph (of a text: their keys): triples and metadata.

Ranks nothing: for those who compare rankings with triples that people name, and for readers of hubs.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from polyhop.schemas.artefacts import Artefact, Stored, unrestricted
from polyhop.warehouse.statements import statement

TripleRow = tuple[str, str, str, str, str]
"""Id and name of the subject, predicate, id and name of the object."""

TriplesOf = Callable[[Iterable[str]], list[TripleRow]]
"""Triples by the ids of their subjects, in no order."""


def _open(stored: Stored) -> TriplesOf:
    tables = {name for (name,) in stored.rows(statement("read", "tables_of_triples"))}
    if not {"relations", "entities"} <= tables:
        return lambda _: []
    name = "triples_of_nodes" if "nodes" in tables else "triples_of_entities"

    def triples_of(ids: Iterable[str]) -> list[TripleRow]:
        rows = stored.rows(statement("read", name), {"ids": sorted(set(ids))})
        return [(str(s), str(sn), str(p), str(o), str(on)) for s, sn, p, o, on in rows]

    return triples_of


TRIPLES_OF_SUBJECTS = Artefact("triples of subjects", _open, is_optional=False)
"""Read from the tables when asked."""

MetadataOf = Callable[[Iterable[str]], list[tuple[str, str, Mapping[str, Any]]]]
"""By the ids of nodes: each id with what is said of the node (passage id ""), or what a row that attached a text to it
says (with the passage of that text); by id and passage."""


def _open_metadata(stored: Stored) -> MetadataOf:
    tables = {name for (name,) in stored.rows(statement("read", "tables_of_triples"))}
    name = "metadata_of_nodes" if {"nodes", "node_passages"} <= tables else "metadata_of_entities"

    def metadata_of(ids: Iterable[str]) -> list[tuple[str, str, Mapping[str, Any]]]:
        rows = stored.rows(statement("read", name), {"ids": sorted(set(ids))})
        return [(str(node), str(passage), json.loads(said)) for node, passage, said in rows]

    return metadata_of


METADATA_OF_NODES = Artefact("metadata of nodes", _open_metadata, is_optional=False, restrict=unrestricted)
"""Read from the tables when asked; under a filter, what belongs to other passages is there, too."""
