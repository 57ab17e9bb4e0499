"""Passages of an answer as lines for a terminal: rank, score, title, id and how the text begins.

Ranks nothing; says why scores do not descend where a strategy ranks by more than a passage's own score.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from polyhop.schemas.errors import UnknownIdError, UnknownIndexError
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_published

_SHOWN_CHARACTERS = 100
"""What fits a wide terminal beside rank and score; chosen."""


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
        yield f"  {passage['rank']:>3}  {passage['score']:.3f}  {passage['title']}  [{passage['id']}]"
        text = " ".join(texts.get(passage["id"], "").split())
        if text:
            cut = len(text) > _SHOWN_CHARACTERS
            yield f"{'':14}{text[:_SHOWN_CHARACTERS].rstrip()}{'…' if cut else ''}"


def _order(evidence: Mapping[str, Any]) -> str:
    if "reranked" in evidence:
        return f"the first {evidence['reranked']} in the reranker's order with its scores, the others with their own"
    return "ranked so that together they cover the question; a score is of its passage alone"


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
