"""Which propositions a graph is made of, and its settings: those that extraction states, triples, or both.

Imports no array package: settings are read by commands that never open an index. Source: algorithms.md 3.3 (2).
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from polyhop.schemas.setting_section import Section

Included = Literal["stated", "triples", "both"]
"""What a graph takes as propositions: those that extraction states, triples, or the union.

Source: algorithms.md 3.3 (2).
"""

GraphName = Literal["propositions", "triples"]
"""The graphs over propositions that an index may have: of those that its settings include, and of triples alone."""


class PropositionSettings(Section):
    """What proposition paths (strategy proprag) are searched in, and which names are synonyms there."""

    include: Included = Field(
        "stated",
        description="Propositions of the graph: stated (default), the triples in their place, or both (the union).",
    )
    synonym_threshold: float = Field(
        0.8, ge=0.5, le=1, description="Least cosine of two entities' names that makes them synonyms, default 0.8."
    )
    synonym_neighbours: int = Field(
        100, ge=1, le=10_000, description="Most similar names that each entity is compared with, default 100."
    )


@dataclass(frozen=True, slots=True)
class PropositionOrigin:
    """Which tables the propositions of a graph are read from."""

    included: Included

    @staticmethod
    def of(graph: GraphName, included: Included) -> "PropositionOrigin":
        """Of one of the graphs of an index whose settings include these."""
        return PropositionOrigin(included if graph == "propositions" else "triples")

    def tables(self, part: Literal["entities", "passages"]) -> list[str]:
        """The tables of the entities, or of the passages, of its propositions."""
        nouns = {"stated": ["proposition"], "triples": ["triple"], "both": ["proposition", "triple"]}
        return [f"{noun}_{part}" for noun in nouns[self.included]]

    @property
    def parameters(self) -> dict[str, object]:
        """Values of the parameters that sql/propositions.sql describes."""
        return {
            "noun": "triple" if self.included == "triples" else "proposition",
            "adds_triples": self.included == "both",
        }
