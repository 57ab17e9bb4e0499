"""The settings of what answers questions: the encoder, the queue, workers and the reader.

Those of models are in settings.py, as are those that decide what an index holds.
"""

from typing import Literal

from pydantic import Field

from polyhop.schemas.setting_section import Section


class EncoderSettings(Section):
    """The model that turns texts into vectors."""

    name: Literal["local"] = Field("local", description="The encoder: local is all-MiniLM-L6-v2 on ONNX, no network.")
    batch_size: int = Field(8, ge=1, le=1024, description="Texts per encoder call.")
    threads: int = Field(0, ge=0, le=256, description="Threads of the encoder; 0 means as many as cores.")
    path_vectors: int = Field(
        100_000, ge=0, description="Vectors of path texts (proprag) kept on disk, the newest, 2 kB each; 0: none."
    )


class QueueSettings(Section):
    """Where questions wait, and for how long."""

    url: str = Field("", description="Question queue: postgresql://…, or empty for queue.sqlite under root.")
    max_depth: int = Field(1_000_000, ge=1, description="Questions that may wait in one queue; more are refused.")
    ageing_seconds: float = Field(60, gt=0, description="Seconds of waiting that are worth one level of priority.")
    retention_days: float = Field(30, gt=0, description="Days that finished jobs are kept by `polyhop jobs --purge`.")


class WorkerSettings(Section):
    """How a worker takes questions."""

    batch: int = Field(32, ge=1, le=10_000, description="Questions that a worker claims at once.")
    lease_seconds: float = Field(30, gt=0, description="Seconds without a heartbeat until other workers take over.")
    poll_seconds: float = Field(0.5, gt=0, description="Seconds between polls of an empty queue.")
    question_seconds: float = Field(
        60,
        gt=0,
        description="Seconds of its own work after which a question is dead, default 60; waiting for a model is not "
        "counted (models.timeout_seconds).",
    )


class ReaderSettings(Section):
    """Whether answers are read, and how without a model."""

    reads: bool = Field(
        default=True, description="Whether answers are read; false: passages are ranked only (`--reader none`)."
    )
    min_confidence: float = Field(
        0.02, ge=0, le=1, description="Confidence below which an answer is left empty, 0 to 1."
    )
