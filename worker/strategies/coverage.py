"""What the names of questions reach: no node, nodes but no gold title, or a gold title (a diagnosis, no strategy).

Source: algorithms.md 2.11 (NER proxy analysis).
"""

from collections.abc import Collection, Iterable
from typing import Literal, get_args

from polyhop.worker.strategies.nodes import GraphNodes

Bucket = Literal["no_entity", "entity_no_gold", "entity_gold"]
BUCKETS: tuple[Bucket, ...] = get_args(Bucket)


def coverage_bucket(nodes: GraphNodes, question: str, gold_titles: Collection[str]) -> Bucket:
    """Where a question's names lead.

    Args:
        nodes: The graph's, see `entity_nodes`.
        question: Its text.
        gold_titles: Titles, as written, of the passages that answer it.

    Returns:
        no_entity if no name is a node with an edge; entity_gold if a name equals a gold title, both under the graph's
        norm and aliases; entity_no_gold otherwise.
    """
    matched = nodes.matcher.match(question).matched
    if not matched:
        return "no_entity"
    gold = {nodes.label(title) for title in gold_titles}
    return "entity_no_gold" if gold.isdisjoint(matched) else "entity_gold"


def coverage_buckets(nodes: GraphNodes, questions: Iterable[tuple[str, Collection[str]]]) -> list[Bucket]:
    """The bucket of each (question, gold titles), in order; see `coverage_bucket`."""
    return [coverage_bucket(nodes, question, titles) for question, titles in questions]
