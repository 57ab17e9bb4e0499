"""The contract on types: which entity and relation types are known, and what happens to others (pure).

Rules make no other types than the paper's, so it concerns models and imports. Source: algorithms.md 1.3 (2).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from polyhop.schemas.settings import ExtractionSettings
from polyhop.schemas.text import norm_ws
from polyhop.tasks.extraction.relations import RELATED

ENTITY_TYPES = ("PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK")
"""The paper's types, in its order."""

_VALUE_TYPES = ("DATE", "NUMBER")
_TYPE_CHARACTERS = 60  # chosen: longer than names of types are; a model's sentence in their place does not become one
_LABEL_CHARACTERS = 200  # chosen: longer than labels of relations are; a model's paragraph does not become one


@dataclass(frozen=True, slots=True)
class Contract:
    """Known types, and how to handle unknown ones: evolve, freeze or discard.

    Attributes:
        asked_types: Entity types that a prompt asks for.
        entity_types: Entity types that are known.
        relation_types: Relation labels that are known; empty: any.
    """

    asked_types: tuple[str, ...]
    entity_types: frozenset[str]
    on_entity_type: str
    relation_types: frozenset[str]
    on_relation_type: str

    @staticmethod
    def of(settings: ExtractionSettings) -> "Contract":
        """The contract that the settings describe."""
        asked = tuple(_type(name) for name in settings.entity_types.split()) or ENTITY_TYPES
        known = asked if settings.entity_types.strip() else (*ENTITY_TYPES, *_VALUE_TYPES)
        labels = (norm_ws(label) for label in settings.relation_types.split(","))
        return Contract(
            asked,
            frozenset(known),
            settings.entity_type_contract,
            frozenset(label for label in labels if label),
            settings.relation_type_contract,
        )

    def entity_type(self, name: str, counts: Counter[str]) -> tuple[bool, str | None]:
        """Whether an entity of this type stays, and with which type; unknown types are counted."""
        kind = _type(name)
        if kind in self.entity_types:
            return True, kind
        if self.on_entity_type == "discard":
            counts["dropped_entity_types"] += 1
            return False, None
        if self.on_entity_type == "freeze" or not kind:
            counts["mapped_entity_types"] += 1
            return True, None
        counts["new_entity_types"] += 1
        return True, kind

    def relation(self, label: str, counts: Counter[str]) -> str | None:
        """The label under which a relation stays, None if it is dropped; unknown types are counted."""
        bare = norm_ws(label)[:_LABEL_CHARACTERS].strip()
        if not self.relation_types or bare in self.relation_types:
            return bare
        if self.on_relation_type == "discard":
            counts["dropped_relation_types"] += 1
            return None
        if self.on_relation_type == "freeze":
            counts["mapped_relation_types"] += 1
            return RELATED
        counts["new_relation_types"] += 1
        return bare


def contract_settings(settings: ExtractionSettings) -> Mapping[str, str]:
    """What of the settings the contract depends on, for fingerprints."""
    return {
        "entity_types": " ".join(settings.entity_types.split()),
        "entity_type_contract": settings.entity_type_contract,
        "relation_types": settings.relation_types,
        "relation_type_contract": settings.relation_type_contract,
    }


def _type(name: str) -> str:
    return "_".join(name.upper().split())[:_TYPE_CHARACTERS]
