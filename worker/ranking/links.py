"""How retrieved passages are linked: for each the rarest entity it shares with the question or an earlier passage.

Ranks nothing: it explains a ranking that is already made, and costs nothing unless asked for.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

from polyhop.schemas.errors import UnknownIdError
from polyhop.schemas.evidence import QuestionNames
from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.query import Link
from polyhop.warehouse.artefacts import GRAPH

QUESTION = "question"
EXPLAINED = 10
"""So many passages are explained."""


@dataclass(frozen=True, slots=True)
class NumberedLink:
    """A link by numbers: `source` is a passage, or None for the question."""

    source: int | None
    entity: int
    target: int


def strongest_links(
    graph: BipartiteGraph, question_entities: Iterable[int], passages: Sequence[int]
) -> list[NumberedLink]:
    """For each passage its connection through the rarest entity, if it has one.

    Args:
        graph: Passages and the entities they mention.
        question_entities: Numbers of the question's entities.
        passages: Passage numbers, in descending order of score.

    Returns:
        At most one link per passage, in their order. Ties between entities go to the smaller number (the smaller key);
        for one entity the question comes first, then the best passage.
    Cost: O(mentions of these passages).
    """
    first_with: dict[int, int | None] = dict.fromkeys(question_entities)
    links = []
    for passage in passages:
        entities = graph.indices[graph.indptr[passage] : graph.indptr[passage + 1]].tolist()
        shared = [entity for entity in entities if entity in first_with]
        if shared:
            rarest = min(shared, key=lambda entity: (graph.df[entity], entity))
            links.append(NumberedLink(first_with[rarest], rarest, passage))
        for entity in entities:
            first_with.setdefault(entity, passage)
    return links


def connect(index: IndexReader, names: QuestionNames | None, passage_ids: Sequence[str]) -> list[Link]:
    """How the first passages of a retrieval connect.

    Args:
        index: The version that answered.
        names: What of the question the graph knows, None if nobody looked.
        passage_ids: Retrieved passages, in descending order of score; the first `EXPLAINED` count.

    Returns:
        Links whose weight is the rarity `ln((N + 1) / (df + 1))` of the shared entity.

    Raises:
        UnknownIdError: If the version has no such passage.
    """
    graph = index.artefact(GRAPH)
    matched = names.matched if names and names.noun == "entities" else ()
    entities = [graph.number_of[key] for key in matched if key in graph.number_of]
    numbers = [_number(index.passage_ids, passage_id) for passage_id in passage_ids[:EXPLAINED]]
    return [
        Link(
            source=QUESTION if link.source is None else index.passage_ids[link.source],
            via=graph.keys[link.entity],
            target=index.passage_ids[link.target],
            weight=log((graph.passage_count + 1) / (int(graph.df[link.entity]) + 1)),
        )
        for link in strongest_links(graph, entities, numbers)
    ]


def _number(passage_ids: Sequence[str], passage_id: str) -> int:
    number = bisect_left(passage_ids, passage_id)
    if number == len(passage_ids) or passage_ids[number] != passage_id:
        raise UnknownIdError(f"There is no passage '{passage_id}' in this version.")
    return number
