"""The contract on types: evolve, freeze, discard."""

from collections import Counter

import pytest

from polyhop.schemas.settings import ExtractionSettings
from polyhop.tasks.extraction.stated import Contract


def contract(**settings: str) -> Contract:
    return Contract.of(ExtractionSettings.model_validate(settings))


@pytest.mark.parametrize(
    ("rule", "name", "expected", "counts"),
    [
        ("evolve", "person", (True, "PERSON"), {}),
        ("discard", "DATE", (True, "DATE"), {}),
        ("evolve", "space  ship", (True, "SPACE_SHIP"), {"new_entity_types": 1}),
        ("evolve", "", (True, None), {"mapped_entity_types": 1}),
        ("freeze", "SHIP", (True, None), {"mapped_entity_types": 1}),
        ("discard", "SHIP", (False, None), {"dropped_entity_types": 1}),
    ],
)
def test_entity_types(rule: str, name: str, expected: tuple[bool, str | None], counts: dict[str, int]) -> None:
    counted: Counter[str] = Counter()
    assert contract(type_contract=rule).entity_type(name, counted) == expected
    assert counted == counts


@pytest.mark.parametrize(
    ("known", "rule", "label", "expected", "counts"),
    [
        ("", "discard", "Born  IN", "born in", {}),
        ("born in, wrote", "discard", "Born  IN", "born in", {}),
        ("born in, wrote", "evolve", "ate", "ate", {"new_relation_types": 1}),
        ("born in, wrote", "freeze", "ate", "related to", {"mapped_relation_types": 1}),
        ("born in, wrote", "discard", "ate", None, {"dropped_relation_types": 1}),
    ],
)
def test_relation_labels(known: str, rule: str, label: str, expected: str | None, counts: dict[str, int]) -> None:
    counted: Counter[str] = Counter()
    assert contract(relation_types=known, type_contract=rule).relation(label, counted) == expected
    assert counted == counts


def test_a_list_of_types_replaces_the_papers() -> None:
    own = contract(entity_types="Ship gene", type_contract="discard")
    assert own.asked_types == ("SHIP", "GENE")
    assert own.entity_type("PERSON", Counter()) == (False, None)
