"""Which tables the propositions of a graph come from."""

import pytest

from polyhop.schemas.propositions import GraphName, PropositionOrigin
from polyhop.schemas.settings import Included


@pytest.mark.parametrize(
    ("graph", "included", "tables", "noun", "adds"),
    [
        ("propositions", "stated", ["proposition_entities"], "proposition", False),
        ("propositions", "triples", ["triple_entities"], "triple", False),
        ("propositions", "both", ["proposition_entities", "triple_entities"], "proposition", True),
        ("triples", "stated", ["triple_entities"], "triple", False),
        ("triples", "both", ["triple_entities"], "triple", False),
    ],
)
def test_a_graph_of_triples_has_triples_whatever_the_settings_include(
    graph: GraphName, included: Included, tables: list[str], noun: str, adds: bool
) -> None:
    origin = PropositionOrigin.of(graph, included)
    assert origin.tables("entities") == tables
    assert origin.tables("passages") == [name.replace("entities", "passages") for name in tables]
    assert origin.parameters == {"noun": noun, "adds_triples": adds}
