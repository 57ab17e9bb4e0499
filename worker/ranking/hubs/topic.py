"""Which node of a graph is meant by a topic: its own id, its label, another form of it, or the most similar label.

Encodes nothing: vectors of what is looked up by similarity are given. Decided here: an own id comes before all labels;
of several names of a question, one found by label comes before one found by similarity, then the first in the question.
Source: algorithms.md 4.8 (topic).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.ids import entity_id, node_id
from polyhop.schemas.stored_texts import StoredTexts
from polyhop.schemas.text import norm_ws
from polyhop.tasks.hubs.artefact import StoredHubs
from polyhop.worker.ranking.similarity import cosines

MIN_SIMILARITY = 0.6
"""Least cosine of a label that is taken for a topic. Source: algorithms.md 4.8."""

MATCHES = ("id", "exact", "alias", "vector")
"""How a topic was found, the surest first."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A node that a topic means.

    Attributes:
        node: Its number.
        match: One of MATCHES.
        similarity: Cosine of its label, for "vector" only.
        others: Further nodes of that label, those with most edges first.
    """

    node: int
    match: str
    similarity: float | None = None
    others: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedEntities:
    """Entities with vectors, by number.

    Attributes:
        keys: Their keys.
        ids: Their ids.
        vectors: Shape (n, d), float32, of their names (of a text's entities also of their descriptions).
    """

    keys: Sequence[str]
    ids: Sequence[str]
    vectors: NDArray[np.float32]


class Topics:
    """The nodes of a version by what they are called; a table of all labels is made when the first one is looked up.

    Args:
        stored: The graph and its names.
        aliases: Key of an entity by another form of its name.
        entities: For search by similarity.
    """

    def __init__(self, stored: StoredHubs, aliases: Mapping[str, str], entities: NamedEntities) -> None:
        self._stored = stored
        self._aliases = aliases
        self._entities = entities
        self._edges = np.diff(stored.graph.out_starts) + np.diff(stored.graph.in_starts)

    def by_name(self, name: str) -> Topic | None:
        """The node with this own id, this label, or a label that this is another form of."""
        own = number_of(self._stored.own_ids, self._stored.graph.node_count, name)
        if own is not None:
            return Topic(own, "id")
        key = norm_ws(name)
        if key in self._by_label:
            return self._most_edges(self._by_label[key], "exact")
        other = self._aliases.get(key)
        if other is None:
            return None
        same = number_of(self._stored.own_ids, self._stored.graph.node_count, other)
        nodes = [same] if same is not None else self._by_label.get(other, [])
        return self._most_edges(nodes, "alias") if nodes else None

    def by_vector(self, vector: NDArray[np.float32]) -> Topic | None:
        """The node with the label most similar to a vector of shape (d,); None if none is similar enough."""
        if not len(self._entities.vectors):
            return None
        found = cosines(self._entities.vectors, vector)
        best = int(np.argmax(np.round(found, 6)))  # float32 tells no more
        similarity = float(found[best])
        node = self._node_of(best)
        if similarity < MIN_SIMILARITY or node is None:
            return None
        (label,) = self._stored.labels.of([node])
        return self._most_edges(self._by_label[norm_ws(label)], "vector", round(similarity, 6))

    def find(self, names: Sequence[str], vectors: Mapping[str, NDArray[np.float32]]) -> dict[str, Topic]:
        """The nodes that names mean, by name, the surest first; names that mean none are left out.

        Args:
            names: Of a question, in its order.
            vectors: Of names that no label has.
        """
        found: dict[str, Topic] = {}
        for name in names:
            topic = self.by_name(name)
            if topic is None and name in vectors:
                topic = self.by_vector(vectors[name])
            if topic is not None:
                found[name] = topic
        return dict(sorted(found.items(), key=lambda pair: MATCHES.index(pair[1].match)))

    def _most_edges(self, nodes: Sequence[int], match: str, similarity: float | None = None) -> Topic:
        first, *others = sorted(nodes, key=lambda node: (-int(self._edges[node]), node))
        return Topic(first, match, similarity, tuple(others))

    def _node_of(self, entity: int) -> int | None:
        """The node of an entity: a text's has the entity's key as its own id, a graph's one that the id is made of."""
        key, identity = self._entities.keys[entity], self._entities.ids[entity]
        node = number_of(self._stored.own_ids, self._stored.graph.node_count, key)
        return node if node is not None and entity_id(key) == identity else self._by_identity.get(identity)

    @cached_property
    def _by_label(self) -> dict[str, list[int]]:
        labels = self._stored.labels.of(range(self._stored.graph.node_count))
        nodes: dict[str, list[int]] = {}
        for node, label in enumerate(labels):
            nodes.setdefault(norm_ws(label), []).append(node)
        return nodes

    @cached_property
    def _by_identity(self) -> dict[str, int]:
        own_ids = self._stored.own_ids.of(range(self._stored.graph.node_count))
        return {node_id(own_id): node for node, own_id in enumerate(own_ids)}


def number_of(texts: StoredTexts, count: int, wanted: str) -> int | None:
    """The number of a text among ascending ones, None if it is not there. Cost: O(log n)."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        (text,) = texts.of([middle])
        if text < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < count and texts.of([low]) == [wanted] else None
