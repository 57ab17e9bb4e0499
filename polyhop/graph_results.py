"""What the entity graph of an index returns: entities, how far they are, how they connect.

Searches nothing (graph_api.py and connections.py do).
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class GraphEntity:
    """An entity: its id in the tables, key, most frequent spelling, type ("" if unknown) and description."""

    id: str
    key: str
    name: str
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class SimilarEntity:
    """An entity and the cosine of its vector with what was asked, -1 to 1."""

    entity: GraphEntity
    similarity: float


@dataclass(frozen=True, slots=True)
class ReachedEntity:
    """An entity and the fewest relations that lead to it, at least 1."""

    entity: GraphEntity
    hop: int


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A passage's id and title."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """A relation between an entity of a connection and the next one.

    Attributes:
        relation: Its label.
        forward: Whether it points from the first to the next, as stored.
        passages: The first passages that state it, by id.
        passage_count: How many do in all.
    """

    relation: str
    forward: bool
    passages: tuple[CitedPassage, ...]
    passage_count: int


@dataclass(frozen=True, slots=True)
class Connection:
    """One way from an entity to another.

    Attributes:
        via: "relation" if stated relations lead there, "passage" if a passage merely mentions both.
        entities: Those on the way, both ends included; a single one if both ends are one entity.
        hops: The relations from each entity to the next, one fewer than entities; none with "passage".
        passages: The passage that mentions both, with "passage".
        text: All that on one line.
    """

    via: Literal["relation", "passage"]
    entities: tuple[GraphEntity, ...]
    hops: tuple[tuple[StatedRelation, ...], ...]
    passages: tuple[CitedPassage, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Connections:
    """The shortest connections between two names.

    Attributes:
        index: Name of the index.
        version: Version searched.
        a: The first name as asked.
        b: The second.
        from_entities: Entities of the first name.
        to_entities: Entities of the second.
        max_length: Relations that a connection may have.
        paths: Connections, all of one kind and length; empty if there is none.
    """

    index: str
    version: int
    a: str
    b: str
    from_entities: tuple[GraphEntity, ...]
    to_entities: tuple[GraphEntity, ...]
    max_length: int
    paths: tuple[Connection, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop connect`."""
        return dataclasses.asdict(self)
