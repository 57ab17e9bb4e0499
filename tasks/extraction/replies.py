"""Valid replies of a model to statements: what breaks a rule is dropped and counted by reason (pure).

A reply is data: whatever stands in it becomes names and texts, nothing else. Source: algorithms.md 1.3 (2), 3.3 (2).
Decided here: names are compared by key, which is coarser than `norm_ws`; the contract on types (contract.py) decides
about types outside the list; an entity given twice counts once; a relation is also a triple, in the reply's words, even
where the contract drops its label or both its ends are one entity.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from polyhop.schemas.text import norm_ws
from polyhop.tasks.extraction.contract import Contract
from polyhop.tasks.extraction.imported import MAX_NAME_CHARACTERS
from polyhop.tasks.extraction.questions import KgReply, PhrasesReply, PropositionsReply
from polyhop.tasks.extraction.rows import Proposition
from polyhop.tasks.extraction.stated import Stated, StatedName, clean, named
from polyhop.tasks.extraction.triples import triple_proposition


def stated_in_document(reply: KgReply, contract: Contract, counts: Counter[str]) -> Stated:
    """Entities, relations and triples of a document's reply.

    Args:
        reply: The reply.
        contract: What to do with unknown types.
        counts: Drops are added to it, by reason.

    Source: algorithms.md 1.3 (2).
    """
    names = _entities(reply, contract, counts)
    stated = Stated(list(names.values()))
    _add_relations(stated, reply, names, contract, counts)
    return stated


def _entities(reply: KgReply, contract: Contract, counts: Counter[str]) -> dict[str, StatedName]:
    """The complete entities of types that the contract lets stay, by key; of two with one key the first."""
    names: dict[str, StatedName] = {}
    for entity in reply.entities:
        name, description = _name(entity.name), clean(entity.description)
        if name is None or not description:
            counts["dropped_entities_incomplete"] += 1
            continue
        stays, kind = contract.entity_type(clean(entity.type), counts)
        if not stays:
            continue
        if name.key in names:
            counts["dropped_entities_twice"] += 1
            continue
        names[name.key] = StatedName(name.name, name.key, kind, description)
    return names


def _add_relations(
    stated: Stated, reply: KgReply, names: Mapping[str, StatedName], contract: Contract, counts: Counter[str]
) -> None:
    """Adds a triple for each relation between known names, and the relation if the contract knows its label."""
    for relation in reply.relations:
        source, target = _name(relation.source_name), _name(relation.target_name)
        if source is None or target is None or source.key not in names or target.key not in names:
            counts["dropped_relations_dangling"] += 1
        elif not norm_ws(said := clean(relation.relation)):
            counts["dropped_relations_without_label"] += 1
        else:
            stated.triples.append(triple_proposition((source.name, said, target.name), source.key, target.key))
            if source.key == target.key:
                counts["dropped_relations_to_themselves"] += 1
            elif (label := contract.relation(said, counts)) is not None:
                stated.relations.append((source.key, label, target.key))


def phrases_in_passage(reply: PhrasesReply, counts: Counter[str]) -> list[StatedName]:
    """The distinct entities of a passage's reply, in order. Source: algorithms.md 3.3 (1)."""
    found: dict[str, StatedName] = {}
    for entity in reply.entities:
        name = _name(entity)
        if name is None:
            counts["dropped_phrases"] += 1
        else:
            found.setdefault(name.key, name)
    return list(found.values())


def propositions_in_passage(
    reply: PropositionsReply, phrases: Sequence[StatedName], counts: Counter[str]
) -> list[Proposition]:
    """Propositions with the keys of their entities, which must be among `phrases`.

    One without any stays: it is found by its text. Source: algorithms.md 3.3 (2).
    """
    listed = {phrase.key for phrase in phrases}
    found = []
    for proposition in reply.propositions:
        text = clean(proposition.text)
        if not text:
            counts["dropped_propositions_empty"] += 1
            continue
        names = [_name(entity) for entity in proposition.entities]
        keys = [name.key for name in names if name is not None and name.key in listed]
        counts["dropped_proposition_entities"] += len(names) - len(keys)
        found.append((text, list(dict.fromkeys(keys))))
    return found


def _name(text: str) -> StatedName | None:
    """The cleaned name, None if it is none."""
    if len(text) > MAX_NAME_CHARACTERS:
        return None
    name = named(text)
    return name if name.key else None
