"""What of an activation goes into the evidence, as plain data: seeds, entities, chains, and the context they make.

Ranks nothing. Source: algorithms.md 1.1, 1.5 steps 4 and 6.
"""

from collections.abc import Mapping
from typing import Any

from schemas.graph import Entity
from schemas.ports import IndexReader
from schemas.spreading import Activation, Chain, Hop, SpreadQuestion
from worker.ranking.chain_text import chain_line, context_text, entity_line
from worker.ranking.order import best

_DIGITS = 6


class QasaEvidence:
    """Writes activations down for one open version."""

    def __init__(self, reader: IndexReader, entity_limit: int) -> None:
        self._reader = reader
        self._entity_limit = entity_limit

    def of(self, question: SpreadQuestion, activation: Activation, fallback: str) -> dict[str, Any]:
        """The evidence of one question.

        Args:
            question: With its names looked up.
            activation: What an engine returned for it.
            fallback: "none", or what stood in for the question's names.

        Returns:
            `question_entities` (keys found, names not found), `seeds`, `entities` (the first K_e by activation),
            `chains`, `activations` (of all entities in these), `activated` (how many there are in all), `is_cut`,
            `context` (chains and entities as a reader gets them) and `fallback`.
        """
        first = activation.entities[best(activation.values, self._entity_limit)].tolist()
        shown = {*first, *(seed.entity for seed in activation.seeds)}
        shown.update(entity for chain in activation.chains for entity in chain.entities)
        numbers = sorted(shown)
        entities = dict(zip(numbers, self._reader.entities(numbers), strict=True))
        value_of = dict(zip(activation.entities.tolist(), activation.values.tolist(), strict=True))
        chains = [_chain(chain, entities) for chain in activation.chains]
        return {
            "question_entities": self._names(question),
            "seeds": [
                {
                    **_named(entities[seed.entity]),
                    "match": seed.match,
                    "score": round(seed.score, _DIGITS),
                    "activation": round(seed.activation, _DIGITS),
                }
                for seed in activation.seeds
            ],
            "entities": [_entity(entities[number], value_of[number]) for number in first],
            "chains": chains,
            "activations": {entities[number].key: round(value_of[number], _DIGITS) for number in numbers},
            "activated": len(activation.entities),
            "is_cut": activation.is_cut,
            "context": context_text(
                [chain["text"] for chain in chains], [entity_line(entities[number]) for number in first]
            ),
            "fallback": fallback,
        }

    def _names(self, question: SpreadQuestion) -> dict[str, list[str]]:
        keys = self._reader.graph.keys
        found = {keys[entity] for name in question.names for entity in name.entities}
        missed = {name.name for name in question.names if name.name and not name.entities}
        return {"matched": sorted(found), "unmatched": sorted(missed)}


def _named(entity: Entity) -> dict[str, Any]:
    return {"key": entity.key, "name": entity.name}


def _entity(entity: Entity, value: float) -> dict[str, Any]:
    details = {"type": entity.type, "description": entity.description}
    return {**_named(entity), **details, "activation": round(value, _DIGITS)}


def _chain(chain: Chain, entities: Mapping[int, Entity]) -> dict[str, Any]:
    names = [entities[number].name for number in chain.entities]
    return {
        "keys": [entities[number].key for number in chain.entities],
        "names": names,
        "hops": [_relations(hop) for hop in chain.hops],
        "score": round(chain.score, _DIGITS),
        "text": chain_line(names, chain.hops),
    }


def _relations(hop: Hop) -> list[dict[str, Any]]:
    ways = ((hop.forward, True), (hop.backward, False))
    return [{"relation": relation, "forward": forward} for labels, forward in ways for relation in labels]
