"""The graph of an answer's evidence: entities and passages, how strong each is, and what connects them.

Everything comes from the stored evidence, so that an answer can be redrawn later. Paths and edges tie what was reached;
without any, the passages are attached to what they share.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyhop.schemas.evidence import Evidence, evidence_of, shown_id
from polyhop.schemas.evidence import Node as Reached

QUESTION = "question"
DRAWN_NODES = 60  # chosen: still readable in a browser's window; the page says how many are left out
DRAWN_PASSAGES = 10  # as many as a question asks for by default; the page says how many are left out
Triple = tuple[str, str, str]  # key of the source, label, key of the target

DRAWN_MENTIONS = 2  # A passage is tied to so many of its strongest entities; it owes its rank to them


@dataclass(frozen=True, slots=True)
class Node:
    """An entity, a passage or the question: an id unique in the graph, what people read, strength (0 or more), a note.

    Passages have a rank, from 1; the search began at seeds.
    """

    id: str
    kind: str
    name: str
    weight: float
    note: str = ""
    is_seed: bool = False
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """What connects two nodes: labels of relations there and back; without any the target mentions the source.

    `is_shared`: the label is an entity that both share, which points nowhere.
    """

    source: str
    target: str
    forward: tuple[str, ...] = ()
    backward: tuple[str, ...] = ()
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class EvidenceGraph:
    """Nodes (the strongest), edges between them, the column of those where it begins, how many nodes were left out."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    roots: Mapping[str, int]
    left_out: int

    @property
    def has_question(self) -> bool:
        """Whether something is attached to the question itself."""
        return QUESTION in self.roots


def evidence_graph(
    document: Mapping[str, Any], mentions: Mapping[str, Sequence[str]], relations: Iterable[Triple]
) -> EvidenceGraph:
    """The graph of an answer: of what its strategy reached if that is connected, else of the triples that it ranks.

    Without either, it is of what its passages share.
    """
    evidence = evidence_of(document["evidence"])
    if evidence.all_edges():
        return _reached(document, evidence, mentions, relations)
    if document.get("triples"):
        return _of_triples(document["triples"])
    return _linked(document, evidence)


def _paired(relations: Iterable[Triple]) -> list[Edge]:
    """An edge per pair of entities with its labels in both directions; the first relation says which end is first."""
    labels: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for source, label, target in relations:
        is_turned = (target, source) in labels
        pair = (target, source) if is_turned else (source, target)
        labels.setdefault(pair, ({}, {}))[int(is_turned)].setdefault(label)
    return [Edge(*pair, tuple(there), tuple(back)) for pair, (there, back) in labels.items()]


def _reached(
    document: Mapping[str, Any], evidence: Evidence, mentions: Mapping[str, Sequence[str]], relations: Iterable[Triple]
) -> EvidenceGraph:
    """Entities of the evidence and those that only its paths name, its edges, and relations that tie the others."""
    seeds = {seed.key for seed in evidence.seeds}
    known = {node.key: node for node in evidence.nodes}
    for path in evidence.paths:
        for key, name in zip(path.nodes, path.names, strict=False):
            known.setdefault(key, Reached(key, name))
    nodes = [
        Node(_entity(node.key), "entity", node.name, node.weight or 0.0, node.type, node.key in seeds)
        for node in known.values()
    ]
    edges = [Edge(edge.source, edge.target, edge.forward, edge.backward) for edge in evidence.all_edges()]
    joined = {end for edge in edges for end in (edge.source, edge.target)}
    edges += _paired(one for one in relations if one[0] not in joined or one[2] not in joined)
    edges = [Edge(_entity(edge.source), _entity(edge.target), edge.forward, edge.backward) for edge in edges]
    # a passage is tied to the strongest of the entities that it mentions, as far as they are nodes
    passages = _passages(document, evidence)
    strength = {node.id: node.weight for node in nodes}
    for passage in passages:
        keys = (*mentions.get(passage.note, ()), *evidence.stated.get(passage.note, ()))
        mentioned = [_entity(key) for key in keys if _entity(key) in strength]
        mentioned.sort(key=lambda entity: (-strength[entity], entity))
        edges += [Edge(entity, passage.id) for entity in mentioned[:DRAWN_MENTIONS]]
    roots = {node.id: 0 for node in nodes if node.is_seed}
    roots = roots or {_entity(path.nodes[0]): 0 for path in evidence.paths if path.nodes}
    return _strongest([*passages, *nodes], edges, roots)


def _of_triples(triples: Sequence[Mapping[str, Any]]) -> EvidenceGraph:
    """Subjects and objects, each as strong as the best triple that it is in; it begins where no triple leads to."""
    nodes: dict[str, Node] = {}
    relations: list[Triple] = []
    for triple in triples:
        ends = [triple["subject"], triple["object"]]
        source, target = (_entity(end["id"]) for end in ends)
        for name, end in zip((source, target), ends, strict=True):
            score = max(0.0, float(triple["score"]))
            nodes.setdefault(name, Node(name, "entity", end["name"] or end["id"], score, shown_id(end)))
        if source != target:
            relations.append((source, triple["predicate"], target))
    entered = {_entity(triple["object"]["id"]) for triple in triples}
    begins = [node for node in nodes if node not in entered] or list(nodes)[:1]
    return _strongest(list(nodes.values()), _paired(relations), dict.fromkeys(begins, 0))


def _linked(document: Mapping[str, Any], evidence: Evidence) -> EvidenceGraph:
    """How the first passages connect: an edge per link between two of them, labelled with what both share."""
    passages = _passages(document, evidence)
    node_ids = {passage.note: passage.id for passage in passages} | {QUESTION: QUESTION}
    edges = [
        Edge(node_ids[link["source"]], node_ids[link["target"]], (link["via"],), is_shared=True)
        for link in document["evidence"].get("links", ())
        if link["source"] in node_ids and link["target"] in node_ids
    ]
    asked = [Node(QUESTION, QUESTION, "the question", 1.0)] if any(edge.source == QUESTION for edge in edges) else []
    reached = {edge.target for edge in edges}
    roots = {node.id: 0 for node in asked} | {node.id: len(asked) for node in passages if node.id not in reached}
    return _strongest([*asked, *passages], edges, roots)


def _passages(document: Mapping[str, Any], evidence: Evidence) -> list[Node]:
    """The first passages; the note of each is its id."""
    begun = evidence.seed_weights("passage")
    return [
        Node(
            f"passage {row['id']}",
            "passage",
            row["title"] or row["id"],
            max(0.0, float(row["score"])),
            row["id"],
            row["id"] in begun,
            row["rank"],
        )
        for row in document["passages"][:DRAWN_PASSAGES]
    ]


def _strongest(nodes: Sequence[Node], edges: Iterable[Edge], roots: Mapping[str, int]) -> EvidenceGraph:
    """The question, then seeds, passages and entities by weight, as many as can be drawn."""
    order = {QUESTION: 0, "passage": 2, "entity": 3}

    def importance(node: Node) -> tuple[int, float, str]:
        return (1 if node.is_seed else order[node.kind]), -node.weight, node.id

    kept = sorted(nodes, key=importance)[:DRAWN_NODES]
    names = {node.id for node in kept}
    return EvidenceGraph(
        nodes=tuple(kept),
        edges=tuple(edge for edge in edges if edge.source in names and edge.target in names),
        roots={name: column for name, column in roots.items() if name in names},
        left_out=len(nodes) - len(kept),
    )


def _entity(key: str) -> str:
    return f"entity {key}"
