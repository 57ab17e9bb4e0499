"""What the settings mean by a hub, for a source of texts and for a graph."""

from typing import Any

import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.records import SourceKind
from polyhop.schemas.settings import DOCUMENT, HubSettings
from polyhop.tasks.hubs.stage import HubRule


@pytest.mark.parametrize(
    ("given", "kind", "mode", "types"),
    [
        ({}, "corpus", "types", (DOCUMENT,)),
        ({}, "graph", "edges", ()),
        ({"types": ("Paper",)}, "graph", "types", ("Paper",)),
        ({"types": ("Paper",)}, "corpus", "types", ("Paper",)),
        ({"mode": "edges"}, "corpus", "edges", ()),
        ({"mode": "edges", "types": ("Paper",)}, "graph", "edges", ()),
        ({"mode": "types", "types": ("A", "B")}, "graph", "types", ("A", "B")),
    ],
)
def test_a_mode_is_found_from_types_and_source(
    given: dict[str, Any], kind: SourceKind, mode: str, types: tuple[str, ...]
) -> None:
    rule = HubRule.of(HubSettings(**given), kind)
    assert (rule.mode, rule.types, rule.min_edges) == (mode, types, HubSettings().min_edges)


def test_a_mode_that_needs_types_says_so() -> None:
    with pytest.raises(
        ConfigurationError, match=r"hubs\.mode = types needs the types of hubs; name them in hubs\.types"
    ):
        HubRule.of(HubSettings(mode="types"), "graph")


def test_a_split_needs_a_length() -> None:
    with pytest.raises(ConfigurationError, match=r"hubs\.split needs a length"):
        HubRule.of(HubSettings(split=True, max_path_length=0), "graph")
