"""Paths of hubs as evidence draws them: nodes, and edges in their stored direction. Ranks nothing."""

from collections.abc import Sequence

from polyhop.schemas.evidence import Edge, Path
from polyhop.tasks.hubs.artefact import StoredHubs
from polyhop.tasks.hubs.text import path_text
from polyhop.worker.ranking.hubs.words import words_of

_DIGITS = 6  # decimals shown; rankings keep twelve (algorithms.md 0.3).


def drawn_path(stored: StoredHubs, path: int, score: float, walked: Sequence[int] = ()) -> Path:
    """A path over the graph.

    Args:
        stored: The hubs.
        path: Number of a path.
        score: Its score.
        walked: Triples from a topic to the path's hub; the path then begins at the topic.
    """
    graph, own = stored.graph, stored.paths.triples_of(path).tolist()
    at = _start(stored, walked, int(graph.subjects[own[0]]))
    nodes, steps = [at], []
    for triple in (*walked, *own):
        subject, value = int(graph.subjects[triple]), int(graph.objects[triple])
        at, is_forward = (value, True) if subject == at else (subject, False)
        nodes.append(at)
        steps.append((triple, is_forward))
    keys, labels = stored.own_ids.of(nodes), stored.labels.of(nodes)
    names = [label or key for label, key in zip(labels, keys, strict=True)]
    edges = []
    for place, (triple, is_forward) in enumerate(steps):
        label = (stored.predicates[int(graph.predicates[triple])],)
        ends = keys[place], keys[place + 1]
        edges.append(Edge(*ends, forward=label) if is_forward else Edge(*ends, backward=label))
    (text,) = stored.path_texts.of([int(stored.paths.path_texts[path])])
    line = f"{text} From the topic: {path_text(words_of(stored, walked))}" if walked else text
    return Path(line, tuple(keys), tuple(names), tuple(edges), round(score, _DIGITS))


def _start(stored: StoredHubs, walked: Sequence[int], hub: int) -> int:
    """The node from which a way over these triples ends at a hub."""
    at = hub
    for triple in reversed(walked):
        subject, value = int(stored.graph.subjects[triple]), int(stored.graph.objects[triple])
        at = subject if value == at else value
    return at
