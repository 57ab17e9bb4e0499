"""Evidence: what led a strategy to its passages, as types that every strategy fills and every renderer draws.

As JSON it is a plain document (`as_row`); `evidence_of` reads it again. Numbers are rounded by who writes them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

SIMILARITY, WORDS, GRAPH = "similarity", "words", "graph"  # Parts of a passage's score.
RANK_BY_WORDS, RANK_BY_SIMILARITY = "rank by words", "rank by similarity"  # Likewise, of a fusion of two rankings.
RERANKED = "Re-ranked"  # Label of the note that says who put the first passages in another order.

_MADE_ID = re.compile("[0-9a-f]{32}")  # Ids of values to which their graph gave none (schemas/text.py).


@dataclass(frozen=True, slots=True)
class QuestionNames:
    """Names or terms of the question, matched to nodes of the graph."""

    matched: tuple[str, ...] = ()  # Keys of the nodes that its names, or its terms, lead to.
    unmatched: tuple[str, ...] = ()  # Those that lead to none.
    noun: str = "entities"  # What they are: entities, or terms.


@dataclass(frozen=True, slots=True)
class Seed:
    """Starting point of a search."""

    kind: str  # passage, entity, term, proposition…
    key: str  # Id of the passage, key of the entity.
    weight: float  # Its share of the start, or its activation.
    name: str = ""  # As people read it; "": the key (a passage's title is looked up by the renderer).
    match: str = ""  # How it was found: exact, fuzzy, vector; "" if there is one way only.
    similarity: float | None = None  # Its similarity, where it was found by one.


@dataclass(frozen=True, slots=True)
class Node:
    """Something reached on the way that is not a passage."""

    key: str  # Unique among the nodes of an evidence.
    name: str
    weight: float | None = None  # See `Evidence.measure`; None where nodes have none.
    kind: str = "entity"  # entity, term, proposition, hub…
    type: str = ""
    description: str = ""
    distance: int | None = None  # Steps from a seed, None if unknown.


@dataclass(frozen=True, slots=True)
class Edge:
    """Connection of two nodes."""

    source: str  # Key of a node.
    target: str
    forward: tuple[str, ...] = ()  # Labels of the relations from source to target.
    backward: tuple[str, ...] = ()  # Labels of the relations from target to source.


@dataclass(frozen=True, slots=True)
class Path:
    """A way over nodes that supports a passage or an answer."""

    text: str
    nodes: tuple[str, ...] = ()  # Keys of its nodes, in order.
    names: tuple[str, ...] = ()  # Their names.
    edges: tuple[Edge, ...] = ()  # Between neighbours, one fewer than nodes; empty if its steps have no labels.
    score: float | None = None  # Higher is better; None where paths have none.


@dataclass(frozen=True, slots=True)
class Note:
    """Anything else worth a line: `label` says what it is, `text` what it was; `items` are names with weights."""

    label: str
    text: str = ""
    items: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Fallback:
    """Replacement of something missing: `code` for programs, `text` (no capital, no full stop) for people."""

    code: str
    text: str


UNIFORM = Fallback("uniform", "the walk began at all passages alike, so the question did not lead it")
BM25_TOP1 = Fallback("bm25_top1", "the walk began at BM25's top passage")
PASSAGES_ONLY = Fallback("passages_only", "the walk began at passages only")
ENTITIES_ONLY = Fallback("entities_only", "the walk began at entities only")
NOTHING_SEARCHED = Fallback("empty", "nothing was searched")
BY_VECTOR = Fallback("vector", "passages are ranked by similarity alone")
NO_HUBS = Fallback(
    "no_hubs",
    "no node of this index is a hub, so nothing was searched: index again with hubs.types set to types of its nodes, "
    "or with a lower hubs.min_edges",
)
QUESTION_VECTOR = Fallback("question_vector", "activation began at the entities most similar to the question")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence of a ranking; every part may be empty."""

    names: QuestionNames | None = None  # What of the question the graph knows; None if the strategy does not look.
    seeds: tuple[Seed, ...] = ()  # Where the search began, in descending order of weight where weights differ.
    nodes: tuple[Node, ...] = ()  # What was reached: the strongest, `node_count` in all.
    edges: tuple[Edge, ...] = ()  # Between nodes, besides those of the paths.
    paths: tuple[Path, ...] = ()  # In descending order of score.
    notes: tuple[Note, ...] = ()  # Whatever else is worth a line.
    # Replacement of the question's names, or of another missing part; None if there is none.
    fallback: Fallback | None = None
    measure: str = ""  # What the weight of a node is, as a column's heading: activation, similarity…
    node_count: int = 0  # How many nodes were reached in all, those left out of `nodes` included.
    # Keys of the nodes that a passage states, by passage id, where the graph of mentions does not tell.
    stated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Shares of a passage's score by passage id and part; their sum is the score before re-ranking.
    score_parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    context: str = ""  # What a reader gets beside the passages, as text.
    # What else a strategy wants stored, as plain data; shown as it is.
    data: Mapping[str, Any] = field(default_factory=dict)

    def seed_weights(self, kind: str) -> dict[str, float]:
        """Weight by key of the seeds of one kind."""
        return {seed.key: seed.weight for seed in self.seeds if seed.kind == kind}

    def all_edges(self) -> tuple[Edge, ...]:
        """The edges of the paths, then the others; each pair of nodes once, in the direction in which it came first."""
        merged: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
        for edge in (*(edge for path in self.paths for edge in path.edges), *self.edges):
            turned = (edge.target, edge.source) in merged
            pair = (edge.target, edge.source) if turned else (edge.source, edge.target)
            there, back = (edge.backward, edge.forward) if turned else (edge.forward, edge.backward)
            labels = merged.setdefault(pair, ({}, {}))
            labels[0].update(dict.fromkeys(there))
            labels[1].update(dict.fromkeys(back))
        return tuple(Edge(*pair, tuple(there), tuple(back)) for pair, (there, back) in merged.items())


KNOWN = frozenset({*(part.name for part in fields(Evidence)), "links", "sentences"})
"""Parts of an evidence's document: those of `Evidence`, and what is added to every answer."""


def as_row(evidence: Evidence) -> dict[str, Any]:
    """The evidence as a JSON document; parts that are empty are left out."""
    row = {name: _plain(value) for name, value in asdict(evidence).items() if value not in (None, (), "", 0, {})}
    return {**row.pop("data", {}), **row}


def evidence_of(row: Mapping[str, Any]) -> Evidence:
    """Evidence from its JSON document; what is unknown is skipped."""
    names, fallback = row.get("names"), row.get("fallback")
    return Evidence(
        names=QuestionNames(tuple(names["matched"]), tuple(names["unmatched"]), names["noun"]) if names else None,
        seeds=tuple(Seed(**seed) for seed in row.get("seeds", ())),
        nodes=tuple(Node(**node) for node in row.get("nodes", ())),
        edges=_edges(row.get("edges", ())),
        paths=tuple(
            Path(one["text"], tuple(one["nodes"]), tuple(one["names"]), _edges(one["edges"]), one["score"])
            for one in row.get("paths", ())
        ),
        notes=tuple(
            Note(one["label"], one["text"], tuple((name, weight) for name, weight in one["items"]))
            for one in row.get("notes", ())
        ),
        fallback=Fallback(**fallback) if fallback else None,
        measure=row.get("measure", ""),
        node_count=row.get("node_count", 0),
        stated={passage_id: tuple(keys) for passage_id, keys in row.get("stated", {}).items()},
        score_parts={passage_id: dict(parts) for passage_id, parts in row.get("score_parts", {}).items()},
        context=row.get("context", ""),
        data={name: value for name, value in row.items() if name not in KNOWN},
    )


def shown_id(node: Mapping[str, Any]) -> str:
    """The id of a triple's subject or object; "" if it says no more than the name or Polyhop made it."""
    own_id, name = str(node["id"]), " ".join(str(node["name"]).split())
    return "" if own_id.casefold() == name.casefold() or _MADE_ID.fullmatch(own_id) else own_id


def _plain(value: Any) -> Any:
    """With lists for tuples, as JSON gives them back."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _edges(rows: Sequence[Mapping[str, Any]]) -> tuple[Edge, ...]:
    return tuple(Edge(row["source"], row["target"], tuple(row["forward"]), tuple(row["backward"])) for row in rows)
