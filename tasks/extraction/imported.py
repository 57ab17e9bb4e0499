"""Rows of existing extractions to statements about passages (pure).

Takes any JSON value as a row: what is malformed is counted by reason, never raised. Opens no file
(warehouse/files/extractions.py does). Source: algorithms.md 2B.2.
Decided here: ends of triples are names too; triples are a row's propositions unless it has its own; a part of more than
`MAX_NAME_CHARACTERS` is not a name; a triple with an end of signs only (`π` is a word, `±` is none) is well formed, but
nothing can be named by it; a triple from a name to itself stays a proposition but is not a relation.
"""

from collections import Counter
from collections.abc import Mapping

from polyhop.tasks.extraction.contract import Contract
from polyhop.tasks.extraction.rows import Proposition
from polyhop.tasks.extraction.stated import Stated, StatedName, clean, named
from polyhop.tasks.extraction.triples import triple_proposition

MAX_NAME_CHARACTERS = 500  # chosen: ten times what long names have; a passage in place of a name is refused
_ENTITY_FIELDS = ("entities", "extracted_entities")
_TRIPLE_FIELDS = ("triples", "extracted_triples")
MALFORMED = "malformed_triples"
WITHOUT_WORDS = "without_words"


def stated_in_row(row: Mapping[str, object], contract: Contract) -> tuple[Stated, Counter[str]]:
    """What a row states, and how much of it was malformed, by reason.

    Args:
        row: Fields `entities` (names, or objects with name, type and description), `triples` and, if it is our own
            export, `propositions`; the names of HippoRAG's fields count as well.
        contract: What to do with unknown types.

    Source: algorithms.md 2B.2. Cost: O(characters).
    """
    counts: Counter[str] = Counter()
    stated = Stated()
    dropped: set[str] = set()
    for value in _list(row, _ENTITY_FIELDS, counts):
        name = _entity(value, contract, counts, dropped)
        if name is not None:
            stated.names.append(name)
    for value in _list(row, _TRIPLE_FIELDS, counts):
        parts = _triple(value, counts)
        if parts is None:
            continue
        if not dropped.isdisjoint((named(parts[0]).key, named(parts[2]).key)):
            counts["triples_of_dropped_entities"] += 1
            continue
        stated.triples.append(_state_triple(stated, parts, contract, counts))
    if isinstance(row.get("propositions"), list):
        stated.propositions = _propositions(stated, row, counts)
    else:
        stated.propositions = [*stated.triples]
    return stated, counts


def _list(row: Mapping[str, object], names: tuple[str, ...], counts: Counter[str]) -> list[object]:
    value = next((row[name] for name in names if row.get(name) is not None), None)
    if value is None:
        return []
    if not isinstance(value, list):
        counts[f"{names[0]}_not_a_list"] += 1
        return []
    return value


def _entity(value: object, contract: Contract, counts: Counter[str], dropped: set[str]) -> StatedName | None:
    fields = value if isinstance(value, Mapping) else {"name": value}
    name, kind, description = fields.get("name"), fields.get("type"), fields.get("description")
    reason = _name_fault(name)
    if reason or not isinstance(name, str):
        counts[f"entities_{reason}"] += 1
        return None
    if not isinstance(kind, str):
        return named(name)
    stays, known = contract.entity_type(clean(kind), counts)
    if not stays:
        dropped.add(named(name).key)
        return None
    return named(name, known, clean(description) if isinstance(description, str) else "")


def _name_fault(name: object) -> str:
    """Why a value is not a name, "" if it is one."""
    if not isinstance(name, str):
        return "not_strings"
    if len(name) > MAX_NAME_CHARACTERS:
        return "too_long"
    if not clean(name):
        return "empty"
    return "" if named(name).key else WITHOUT_WORDS


def _triple(value: object, counts: Counter[str]) -> tuple[str, str, str] | None:
    reason = _triple_fault(value)
    if reason == WITHOUT_WORDS:
        counts["triples_without_words"] += 1
        return None
    if reason or not isinstance(value, (list, tuple)):
        counts[MALFORMED] += 1
        counts[f"{MALFORMED}_{reason}"] += 1
        return None
    source, label, target = (clean(str(part)) for part in value)
    return source, label, target


def _triple_fault(value: object) -> str:
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        return "not_three_parts"
    source, label, target = value
    if not isinstance(label, str):
        return "not_strings"
    faults = (_name_fault(source), _name_fault(target), "" if clean(label) else "empty")
    return next((fault for fault in faults if fault), "")


def _state_triple(stated: Stated, parts: tuple[str, str, str], contract: Contract, counts: Counter[str]) -> Proposition:
    """Adds names and relation of a triple; returns it as a proposition."""
    source, target = named(parts[0]), named(parts[2])
    stated.names += [source, target]
    if source.key == target.key:
        counts["triples_to_themselves"] += 1
    else:
        label = contract.relation(parts[1], counts)
        if label is not None:
            stated.relations.append((source.key, label, target.key))
    return triple_proposition(parts, source.key, target.key)


def _propositions(stated: Stated, row: Mapping[str, object], counts: Counter[str]) -> list[Proposition]:
    """The propositions of our own export; names in them that the row does not list are names too."""
    found = []
    for value in _list(row, ("propositions",), counts):
        fields = value if isinstance(value, Mapping) else {}
        text, entities = fields.get("text"), fields.get("entities")
        if not isinstance(text, str) or not clean(text) or not isinstance(entities, list):
            counts["malformed_propositions"] += 1
            continue
        names = [named(name) for name in entities if isinstance(name, str) and not _name_fault(name)]
        counts["entities_of_propositions_dropped"] += len(entities) - len(names)
        stated.names += names
        found.append((clean(text), list(dict.fromkeys(name.key for name in names))))
    return found
