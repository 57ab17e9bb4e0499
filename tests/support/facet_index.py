"""Small graphs of other fields than the one that hub facets were measured on, prepared for ranking."""

from collections.abc import Mapping

import numpy as np
from hub_index import hubs_of, written
from numpy.typing import NDArray

from polyhop.tasks.hubs.paths import StoredHubs
from polyhop.worker.ranking.facets.units import Units, units_of

MUSIC = """
album1 performedBy artist1; album1 releaseYear 1969; album1 hasGenre Rock; album1 recordedAt studio1;
studio1 locatedIn London; album1 liveAlbum live; album2 performedBy artist1; album2 releaseYear 1970;
album2 hasGenre Folk; album2 liveAlbum studio; album3 performedBy artist2; album3 releaseYear 1973;
album3 hasGenre Rock; album3 recordedAt studio2; studio2 locatedIn Paris; album3 liveAlbum studio
"""
LABELS = {
    "album1": "Abbey Lane",
    "album2": "Morning Hills",
    "album3": "The Dark Engine",
    "artist1": "Anna Ångström",
    "artist2": "The Harbour Band",
    "studio1": "Olympic Studio",
    "studio2": "Studio Davout",
    "live": "Recorded live",
    "studio": "Not recorded live",
}
ALBUMS = ("album1", "album2", "album3")


def music_hubs() -> StoredHubs:
    """Three albums with five kinds of paths, one of them of two triples."""
    return hubs_of(written(MUSIC), set(ALBUMS), LABELS)[0]


def units_from(stored: StoredHubs) -> Units:
    """Prepared for ranking."""
    names = stored.labels.of(range(stored.graph.node_count))
    return units_of(stored.graph, stored.paths, stored.values, stored.predicates, names)


def make_units(text: str, hubs: tuple[str, ...], labels: Mapping[str, str] | None = None) -> Units:
    """From written triples."""
    return units_from(hubs_of(written(text), set(hubs), labels or {})[0])


def shown(units: Units, document: int) -> tuple[str, str]:
    """Signature and value of a document."""
    value = units.value_texts[int(units.document_values[document])]
    return units.signature_texts[int(units.document_signatures[document])], value


def paths_shown(units: Units, scores: NDArray[np.float64]) -> list[tuple[str, str, str]]:
    """Hub, signature and value of paths in descending order of score."""
    order = np.argsort(-np.round(scores, 12), kind="stable").tolist()
    hubs = [units.value_texts[value] for value in units.hub_values.tolist()]
    return [(hubs[int(units.path_hubs[path])], *shown(units, int(units.path_documents[path]))) for path in order]
