"""Chains and entities as text. Source: algorithms.md 1.5 step 6."""

from polyhop.schemas.graph import Entity, Hop
from polyhop.worker.ranking.chains import chain_line, context_text
from polyhop.worker.strategies.base import entity_line


def test_arrows_point_as_relations_are_stored() -> None:
    hops = (Hop(("directed",), ()), Hop((), ("capital of", "near")))
    assert chain_line(["A", "B", "C"], hops) == "A --[directed]--> B <--[capital of | near]-- C"


def test_golden_hop_with_both_directions() -> None:
    """G-QASA-4."""
    assert chain_line("ac", [Hop(("wrote",), ("written by",))]) == "a --[wrote]--> <--[written by]-- c"


def test_an_entity_shows_what_is_known_of_it() -> None:
    assert entity_line(Entity("ada", "Ada", "PERSON", "Ada wrote\n notes.")) == "Ada (PERSON): Ada wrote notes."
    assert entity_line(Entity("ada", "Ada", "", "Ada wrote.")) == "Ada: Ada wrote."
    assert entity_line(Entity("ada", "Ada", "PERSON", "")) == "Ada (PERSON)"


def test_empty_sections_say_so() -> None:
    assert context_text(["A --[r]--> B"], []) == "Chains:\nA --[r]--> B\n\nEntities:\n(none)"
    assert context_text([], ["A: a"]) == "Chains:\n(none)\n\nEntities:\nA: a"
