"""Evidence as earlier releases stored it: untyped parts under names of their own, turned into `Evidence`.

The only place that knows those names. Results of the queue are kept for as long as their owners like, so this stays.
"""

from collections.abc import Mapping
from typing import Any

from polyhop.schemas.evidence import (
    BM25_TOP1,
    BY_VECTOR,
    ENTITIES_ONLY,
    KNOWN,
    NOTHING_SEARCHED,
    PASSAGES_ONLY,
    QUESTION_VECTOR,
    RERANKED,
    UNIFORM,
    Edge,
    Evidence,
    Fallback,
    Node,
    Note,
    Path,
    QuestionNames,
    Seed,
)

_FALLBACKS: Mapping[str, Fallback] = {
    fallback.code: fallback
    for fallback in (
        UNIFORM,
        BM25_TOP1,
        PASSAGES_ONLY,
        ENTITIES_ONLY,
        NOTHING_SEARCHED,
        BY_VECTOR,
        QUESTION_VECTOR,
    )
}
_PARTS = frozenset({
    "question_entities", "question_terms", "activations", "nearest_entities", "feedback", "ce", "n_e", "reached"
})  # fmt: skip


_READ = _PARTS | {"chains", "entities", "activated", "similarities", "reranked", "is_cut", "n_d"}


def is_earlier(row: Mapping[str, Any]) -> bool:
    """Whether an evidence was stored before it had types."""
    return not _PARTS.isdisjoint(row) or isinstance(row.get("fallback"), str)


def from_earlier(row: Mapping[str, Any]) -> Evidence:
    """The evidence of an earlier release; what it lacked stays empty."""
    return Evidence(
        names=_names(row),
        seeds=_seeds(row.get("seeds") or ()),
        nodes=_nodes(row),
        paths=tuple(_path(chain) for chain in row.get("chains", ())) + _reached_paths(row),
        notes=_notes(row),
        fallback=_FALLBACKS.get(str(row.get("fallback"))),
        measure=_measure(row),
        node_count=int(row.get("activated") or row.get("reached") or len(row.get("nearest_entities", ()))),
        context=str(row.get("context", "")),
        data={name: value for name, value in row.items() if name not in KNOWN and name not in _READ},
    )


def _names(row: Mapping[str, Any]) -> QuestionNames | None:
    noun = "terms" if "question_terms" in row else "entities"
    names = row.get(f"question_{noun}")
    return QuestionNames(tuple(names["matched"]), tuple(names["unmatched"]), noun) if names else None


def _measure(row: Mapping[str, Any]) -> str:
    """What the numbers of its nodes are."""
    if "activations" in row:
        return "activation"
    return "similarity" if "nearest_entities" in row else ""


def _seeds(stored: Any) -> tuple[Seed, ...]:
    if isinstance(stored, Mapping):
        singular = {"passages": "passage", "entities": "entity", "terms": "term"}
        seeds = [
            Seed(singular.get(str(kind), str(kind)), key, float(weight))
            for kind, weights in stored.items()
            for key, weight in weights.items()
        ]
        return tuple(sorted(seeds, key=lambda seed: -seed.weight))
    return tuple(
        Seed("entity", one["key"], float(one["activation"]), one["name"], one["match"], float(one["score"]))
        for one in stored
    )


def _nodes(row: Mapping[str, Any]) -> tuple[Node, ...]:
    if "nearest_entities" in row:
        return tuple(Node(key, key, float(cosine)) for key, cosine in row["nearest_entities"].items())
    activations = row.get("activations") or {}
    found = {one["key"]: _node(one, activations.get(one["key"])) for one in row.get("entities", ())}
    named = [(seed["key"], seed["name"]) for seed in row.get("seeds", ())] if activations else []
    named += [pair for chain in row.get("chains", ()) for pair in zip(chain["keys"], chain["names"], strict=False)]
    for key, name in named:
        found.setdefault(key, Node(key, name, float(activations.get(key, 0.0))))
    if not activations:
        return tuple(found.values())
    return tuple(sorted(found.values(), key=lambda node: (-(node.weight or 0.0), node.key)))


def _node(stored: Mapping[str, Any], weight: float | None) -> Node:
    return Node(
        stored["key"],
        stored["name"],
        None if weight is None else float(weight),
        type=stored.get("type") or "",
        description=stored.get("description") or "",
        distance=stored.get("hop"),
    )


def _path(chain: Mapping[str, Any]) -> Path:
    keys = chain["keys"]
    edges = tuple(
        Edge(
            source,
            target,
            tuple(one["relation"] for one in hop if one["forward"]),
            tuple(one["relation"] for one in hop if not one["forward"]),
        )
        for source, target, hop in zip(keys, keys[1:], chain["hops"], strict=False)
    )
    return Path(chain["text"], tuple(keys), tuple(chain["names"]), edges, float(chain["score"]))


def _reached_paths(row: Mapping[str, Any]) -> tuple[Path, ...]:
    return tuple(Path(one["path"]) for one in row.get("entities", ()) if "path" in one)


def _notes(row: Mapping[str, Any]) -> tuple[Note, ...]:
    notes = []
    feedback = row.get("feedback", {})
    for noun in ("terms", "entities"):
        if noun in feedback:
            label = f"{noun.title()} suggested by the top {len(feedback['passages'])} passages"
            notes.append(Note(label, items=tuple(feedback[noun].items())))
    if "ce" in row:
        notes.append(Note(RERANKED, f"the top {row['reranked']} passages, by {row['ce']}"))
    if row.get("similarities"):
        notes.append(Note("Entities found by similarity", items=tuple(row["similarities"].items())))
    if row.get("is_cut"):
        notes.append(Note("Search cut short", "it stopped at max_paths_enumerated, so stronger chains may exist"))
    return tuple(notes)
