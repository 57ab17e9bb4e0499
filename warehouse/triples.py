"""The triples of a version by the ids that their subjects have in its graph (of a text: their keys).

Ranks nothing: for those who compare rankings with triples that people name.
"""

from collections.abc import Callable, Iterable

from polyhop.schemas.artefacts import Artefact, Stored
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
