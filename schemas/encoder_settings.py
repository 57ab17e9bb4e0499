"""The settings of the models that turn texts into vectors: which one, how it is asked, what it costs.

What they mean for a vector is in warehouse/models/; a published version remembers them (manifest.py).
"""

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from polyhop.schemas.setting_section import Section

Space = Literal["passages", "entities"]
PASSAGES: Space = "passages"
ENTITIES: Space = "entities"
"""Everything but passages: entities, relations, propositions, texts of hubs."""
LOCAL = "local"
KINDS = {
    LOCAL: "all-MiniLM-L6-v2 on ONNX, no network",
    "onnx:FOLDER": "an exported sentence encoder with tokenizer.json",
    "litellm:PROVIDER/MODEL": "any provider, or an OpenAI-compatible server",
    "fastembed:NAME": "extra fastembed",
    "sentence-transformers:NAME_OR_FOLDER": "extra sentence-transformers",
}
_NAME = re.compile(r"local|(onnx|litellm|fastembed|sentence-transformers):.*\S.*")


def _checked(name: str) -> str:
    """The name.

    Raises:
        ValueError: If no kind of encoder is called so.
    """
    if not _NAME.fullmatch(name):
        known = ", ".join(f"{kind} ({what})" for kind, what in KINDS.items())
        raise ValueError(f"there is no such kind of encoder; known are {known}")
    return name


class EncoderChoice(Section):
    """One encoder: all that determines its vectors, where it is, and what it costs."""

    name: str = Field(
        LOCAL,
        description="The encoder: local (all-MiniLM-L6-v2 on ONNX, no network), onnx:FOLDER, litellm:PROVIDER/MODEL, "
        "fastembed:NAME or sentence-transformers:NAME_OR_FOLDER.",
    )
    query_prefix: str = Field("", description="Put before every question: a prefix or an instruction of the model.")
    passage_prefix: str = Field("", description="Put before every text that is indexed.")
    dimension: int = Field(
        0, ge=0, le=65_536, description="Components of a vector: asked of a server that can shorten; 0: the model's."
    )
    max_tokens: int = Field(
        0, ge=0, le=1_000_000, description="Texts are cut after so many tokens; 0: the model's own limit."
    )
    api_base: str = Field(
        "", description="Address of an OpenAI-compatible server with /embeddings; empty: models.api_base."
    )
    precision: Literal["float32", "bfloat16", "int8"] = Field(
        "float32",
        description="Of the local encoder: float32, the same bits on every machine; bfloat16 by OpenVINO (extra "
        "openvino; on processors that have it, cosine .9999 to float32); int8 (cosine .994).",
    )
    device: str = Field("", description="Device of sentence-transformers (cuda, mps, cpu); empty: it chooses.")
    price: float | None = Field(None, ge=0, description="USD per million tokens; unset: litellm's table.")

    @field_validator("name")
    @classmethod
    def _known_or_none(cls, name: str) -> str:
        return _checked(name)

    @model_validator(mode="after")
    def _has_precisions(self) -> Self:
        if self.precision != "float32" and self.name != LOCAL:
            raise ValueError(f"encoder.precision is of the local encoder only, not of {self.name}")
        return self

    @property
    def choice(self) -> "EncoderChoice":
        """This and nothing besides."""
        return EncoderChoice.model_construct(**{name: getattr(self, name) for name in EncoderChoice.model_fields})


class EntityEncoder(EncoderChoice):
    """Another encoder for everything but passages: entities, relations, propositions, texts of hubs."""

    name: str = Field(
        "", description="Another encoder for entities, propositions and other short texts; empty: as passages."
    )

    @field_validator("name")
    @classmethod
    def _known_or_none(cls, name: str) -> str:
        return _checked(name) if name else name


class EncoderSettings(EncoderChoice):
    """The model that turns texts into vectors."""

    entities: EntityEncoder = Field(default_factory=EntityEncoder, description="Another encoder for short texts.")

    batch_size: int = Field(
        0, ge=0, le=2048, description="Texts per encoder call; 0: 8 on this machine, 64 of a server."
    )
    threads: int = Field(0, ge=0, le=256, description="Threads of the encoder; 0 means as many as cores.")
    path_vectors: int = Field(
        100_000,
        ge=0,
        description="Vectors of path texts and masked questions kept on disk, the newest, 2 kB each; 0: none.",
    )

    def choice_of(self, space: Space) -> EncoderChoice:
        """The encoder of a space."""
        return self.entities.choice if space == ENTITIES and self.entities.name else self.choice
