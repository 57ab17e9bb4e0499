"""Passages and triples of an answer as lines for a terminal: rank, score, title or names, ids, how the text begins.

Ranks nothing; says why scores do not descend where a strategy ranks by more than a passage's own score.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

from polyhop.schemas.errors import UnknownIdError, UnknownIndexError
from polyhop.schemas.evidence import RERANKED
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.sections import Location
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_published

_SHOWN_CHARACTERS = 100
"""What fits a wide terminal beside rank and score; chosen. Of names in triples, too: values may be whole abstracts."""

_MADE_ID = re.compile("[0-9a-f]{32}")
"""Ids of values to which their graph gave none (schemas/ids.py)."""


def passage_lines(
    passages: Sequence[Mapping[str, Any]], evidence: Mapping[str, Any], texts: Mapping[str, str]
) -> Iterator[str]:
    """A line for each passage and one for its text, if that is known.

    Args:
        passages: Those of the JSON contract, ranked.
        evidence: What led there.
        texts: Text by passage id.
    """
    if any(before["score"] < after["score"] for before, after in pairwise(passages)):
        yield f"  {_order(evidence)}"
    for passage in passages:
        yield passage_line(passage)
        text = text_line(texts.get(passage["id"], ""))
        if text:
            yield text


def passage_line(passage: Mapping[str, Any]) -> str:
    """Rank, score, title and id, and the place in its file, if that is known."""
    where = location_words(passage)
    line = f"  {passage['rank']:>3}  {passage['score']:.3f}  {passage['title']}  [{passage['id']}]"
    return f"{line}  {where}" if where else line


def location_words(passage: Mapping[str, Any]) -> str:
    """The place in its file of a passage of the JSON contract: `page 3, Methods`; "" if that is not known."""
    location = passage.get("location")
    if not isinstance(location, Mapping):
        return ""
    known = {field.name: location[field.name] for field in fields(Location) if field.name in location}
    return _line(Location(**{**known, "headings": tuple(known.get("headings", ()))}).words())


def text_line(text: str) -> str:
    """How a text begins, below its passage; "" if it is empty."""
    line = _line(text)
    return f"{'':14}{line[:_SHOWN_CHARACTERS].rstrip()}{'…' if len(line) > _SHOWN_CHARACTERS else ''}" if line else ""


def _order(evidence: Mapping[str, Any]) -> str:
    if any(note["label"] == RERANKED for note in evidence.get("notes", ())):
        return "the first ones have the scores of who re-ranked them, the others their own"
    return "ranked so that together they cover the question; a score is of its passage alone"


def triple_lines(triples: Sequence[Mapping[str, Any]], paths: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    """A line for each triple of the JSON contract, ranked; with all hops that lead to it, where the evidence has them.

    A triple that an earlier line has as one of its hops has none of its own.

    Args:
        triples: As in the JSON contract.
        paths: Of the evidence; each ends in the triple that it ranks.
    """
    ways: dict[tuple[str, str, str], str] = {}
    hops: dict[str, list[tuple[str, str, str]]] = {}
    for path in paths:
        stated = [_stated(edge) for edge in path["edges"]]
        if stated and stated[-1] not in ways:
            ways[stated[-1]] = "".join(_step(path, place) for place in range(len(stated) - 1))
            hops[ways[stated[-1]]] = stated[:-1]
    shown: set[tuple[str, str, str]] = set()
    for triple in triples:
        own = str(triple["subject"]["id"]), str(triple["predicate"]), str(triple["object"]["id"])
        if own not in shown:
            way = ways.get(own, "")
            shown.update((own, *hops.get(way, ())))
            yield f"  {triple['rank']:>3}  {triple['score']:.3f}  {way}{triple_words(triple)}"


def _stated(edge: Mapping[str, Any]) -> tuple[str, str, str]:
    """Subject, predicate and object of an edge of the evidence, in their stored direction."""
    if edge["forward"]:
        return edge["source"], edge["forward"][0], edge["target"]
    return edge["target"], edge["backward"][0], edge["source"]


def _step(path: Mapping[str, Any], place: int) -> str:
    """A node of a path and the arrow to the next one."""
    edge = path["edges"][place]
    node = _end({"id": path["nodes"][place], "name": path["names"][place]})
    return (
        f"{node} --[{_line(edge['forward'][0])}]--> "
        if edge["forward"]
        else f"{node} <--[{_line(edge['backward'][0])}]-- "
    )


def triple_words(triple: Mapping[str, Any]) -> str:
    """A triple in one line: `Ada Lovelace [p1] --[born in]--> London [t1]`."""
    return f"{_end(triple['subject'])} --[{_line(triple['predicate'])}]--> {_end(triple['object'])}"


def _end(node: Mapping[str, Any]) -> str:
    """A name, cut if it is long, and its id, unless that says no more than the name or Polyhop made it."""
    name, own_id = _line(node["name"]), str(node["id"])
    shown = name[:_SHOWN_CHARACTERS].rstrip() + "…" if len(name) > _SHOWN_CHARACTERS else name
    is_needless = own_id.casefold() == name.casefold() or _MADE_ID.fullmatch(own_id)
    return shown if is_needless else f"{shown} [{own_id}]"


def _line(text: str) -> str:
    return " ".join(str(text).split())


def passage_texts(index: IndexReader, passages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Text by id of ranked passages, from the version that ranked them."""
    numbers = [index.number_of_passage[str(passage["id"])] for passage in passages]
    return {passage_id: text for passage_id, _, text in index.passages(numbers)} if numbers else {}


def stored_texts(document: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """Text by id of a stored answer's passages; empty if the version that gave it is gone."""
    try:
        published = open_published(settings.root, str(document["index"]), int(document["version"]))
    except (UnknownIndexError, UnknownIdError):
        return {}
    try:
        return passage_texts(published, document["passages"])
    finally:
        published.close()
