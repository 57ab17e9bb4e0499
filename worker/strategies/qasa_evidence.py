"""What of an activation goes into the evidence: seeds, entities, chains, and the context they make.

Ranks nothing. Source: algorithms.md 1.1, 1.5 steps 4 and 6.
"""

from collections.abc import Mapping
from itertools import pairwise

from polyhop.schemas.evidence import Edge, Evidence, Fallback, Node, Note, Path, QuestionNames, Seed
from polyhop.schemas.graph import Entity
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.spreading import Activation, Chain, SpreadQuestion
from polyhop.warehouse.artefacts import ENTITIES, GRAPH, EntityReader
from polyhop.worker.ranking.chain_text import chain_line, context_text, entity_line
from polyhop.worker.ranking.order import best

_DIGITS = 6  # decimals shown; rankings keep twelve (algorithms.md 0.3).
_CUT = Note("Search for chains cut short", "it stopped at max_paths_enumerated, so stronger chains may exist")


class QasaEvidence:
    """Writes activations down for one open version."""

    def __init__(self, reader: IndexReader, entity_limit: int, read_entities: EntityReader | None = None) -> None:
        """For an open version; `read_entities` reads entities from elsewhere than the index."""
        self._reader = reader
        self._entity_limit = entity_limit
        self._read_entities = read_entities or reader.artefact(ENTITIES)

    def of(self, question: SpreadQuestion, activation: Activation, fallback: Fallback | None) -> Evidence:
        """The evidence of one question.

        Args:
            question: With its names looked up.
            activation: What an engine returned for it.
            fallback: What took the place of the question's names.

        Returns:
            Names, seeds, the top K_e entities by activation and those of seeds and chains as nodes, chains as paths,
            and both as a reader gets them in `context`.
        """
        first = activation.entities[best(activation.values, self._entity_limit)].tolist()
        shown = {*first, *(seed.entity for seed in activation.seeds)}
        shown.update(entity for chain in activation.chains for entity in chain.entities)
        numbers = sorted(shown)
        entities = dict(zip(numbers, self._read_entities(numbers), strict=True))
        value_of = dict(zip(activation.entities.tolist(), activation.values.tolist(), strict=True))
        paths = tuple(_path(chain, entities) for chain in activation.chains)
        ranked = [*first, *sorted(shown - set(first), key=lambda number: (-value_of[number], number))]
        return Evidence(
            names=self._names(question),
            seeds=tuple(
                Seed(
                    "entity",
                    entities[seed.entity].key,
                    round(seed.activation, _DIGITS),
                    entities[seed.entity].name,
                    seed.match,
                    round(seed.score, _DIGITS),
                )
                for seed in activation.seeds
            ),
            nodes=tuple(_node(entities[number], value_of[number]) for number in ranked),
            paths=paths,
            notes=(_CUT,) if activation.is_cut else (),
            fallback=fallback,
            measure="activation",
            node_count=len(activation.entities),
            context=context_text([path.text for path in paths], [entity_line(entities[number]) for number in first]),
        )

    def _names(self, question: SpreadQuestion) -> QuestionNames:
        keys = self._reader.artefact(GRAPH).keys
        found = {keys[entity] for name in question.names for entity in name.entities}
        missed = {name.name for name in question.names if name.name and not name.entities}
        return QuestionNames(tuple(sorted(found)), tuple(sorted(missed)))


def _node(entity: Entity, value: float) -> Node:
    return Node(entity.key, entity.name, round(value, _DIGITS), type=entity.type, description=entity.description)


def _path(chain: Chain, entities: Mapping[int, Entity]) -> Path:
    names = tuple(entities[number].name for number in chain.entities)
    keys = tuple(entities[number].key for number in chain.entities)
    edges = tuple(Edge(*pair, hop.forward, hop.backward) for pair, hop in zip(pairwise(keys), chain.hops, strict=True))
    return Path(chain_line(names, chain.hops), keys, names, edges, round(chain.score, _DIGITS))
