"""What a strategy says about itself: its parameters, what it reads, how it is made.

Lists no strategies (registry.py does).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from schemas.ports import IndexReader, Strategy
from schemas.strategies import NEEDS


class Parameters(BaseModel):
    """Base of all parameters: frozen, nothing unknown, only finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class LexicalParameters(Parameters):
    """How BM25 weighs words."""

    k1: float = Field(1.5, ge=0, le=100, description="BM25: how slowly repeated words saturate, default 1.5.")
    b: float = Field(0.75, ge=0, le=1, description="BM25: share of length normalisation, default 0.75.")


@dataclass(frozen=True, slots=True)
class StrategySpec:
    """A strategy that can be made.

    Attributes:
        name: As users write it.
        summary: One sentence for users.
        parameters: Its parameters with defaults, units and ranges.
        build: Makes it ready on an open version, once; gets an instance of `parameters`.
        needs_question_names: Whether questions must come with their names.
    """

    name: str
    summary: str
    parameters: type[Parameters]
    build: Callable[[IndexReader, Any], Strategy]
    needs_question_names: bool = False

    @property
    def needs(self) -> frozenset[str]:
        """Artefacts that it reads."""
        return NEEDS[self.name]

    @property
    def needs_question_vector(self) -> bool:
        """Whether questions must come with their vector."""
        return any(artefact.startswith("vectors:") for artefact in self.needs)
