"""Rows of the tables of paths and texts, chunk by chunk: a graph has up to millions of paths.

Fills no table (stage.py does) and asks no model.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa

from polyhop.schemas.hubs import END_KINDS
from polyhop.schemas.ids import ID_LENGTH, content_hash
from polyhop.schemas.statements import NamedTriple
from polyhop.tasks.hubs.rows import RowCollector
from polyhop.tasks.hubs.searched import SearchedPaths
from polyhop.tasks.hubs.tables import HUB_PATHS, HUB_TEXTS
from polyhop.tasks.hubs.text import path_json, path_text
from polyhop.tasks.hubs.textualise import path_lines

CHUNK = 20_000
"""Paths put into words at once; chosen: some 20 MB."""
TEMPLATE = "template"


def path_tables(
    searched: SearchedPaths, written: Mapping[str, tuple[str, str]], rows: RowCollector
) -> Iterator[pa.Table]:
    """The rows of the table of paths, in emission order.

    Args:
        searched: The paths.
        written: Text and its model by the words that the model was shown; other paths get the template's text.
        rows: Takes the paths, too.
    """
    hub_of = np.repeat(np.arange(len(searched.hubs)), np.diff(searched.path_starts))
    numbers, words = searched.numbers(), searched.words()
    for first in range(0, searched.path_count, CHUNK):
        paths = list(islice(words, CHUNK))
        told = _told(paths, written)
        for path, (text, _) in zip(paths, told, strict=True):
            rows.add(next(numbers), path, text)
        hubs, ends = hub_of[first : first + CHUNK], searched.ends()[first : first + CHUNK]
        columns = {
            "hub_id": [searched.entity_ids[node] for node in searched.hubs[hubs].tolist()],
            "path_hash": [each.tobytes().hex() for each in searched.hashes[first : first + CHUNK]],
            "ordinal": (np.arange(first, first + len(paths)) - searched.path_starts[hubs]).tolist(),
            "length": list(map(len, paths)),
            "triples_json": list(map(path_json, paths)),
            "text": [text for text, _ in told],
            "textualiser": [by for _, by in told],
            "end_kind": [END_KINDS[kind] for kind in searched.end_kinds[first : first + CHUNK].tolist()],
            "end_entity_id": [searched.entity_ids[node] for node in ends.tolist()],
        }
        yield pa.Table.from_pydict(columns, schema=HUB_PATHS.arrow)


def _told(paths: Sequence[Sequence[NamedTriple]], written: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """Text of each path and who wrote it: a model, else the template."""
    told = [(path_text(path), TEMPLATE) for path in paths]
    if not written:
        return told
    return [written.get(path_lines(path), own) for path, own in zip(paths, told, strict=True)]


def text_table(texts: Mapping[str, list[str]]) -> pa.Table:
    """Rows of the table of texts, of the distinct texts by kind."""
    rows = [(kind, number, text) for kind, of_kind in texts.items() for number, text in enumerate(of_kind)]
    columns = {
        "kind": [kind for kind, _, _ in rows],
        "ordinal": [number for _, number, _ in rows],
        "text_id": [content_hash("hub text", text)[:ID_LENGTH] for _, _, text in rows],
        "text": [text for _, _, text in rows],
    }
    return pa.Table.from_pydict(columns, schema=HUB_TEXTS.arrow)
